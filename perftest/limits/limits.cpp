#include "limits.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <vector>

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/median.hpp"

namespace comch::limits {
namespace {

struct alignas(128) Line {
    std::atomic<std::uint64_t> number{0};
    std::array<std::byte, 56> data{};
};

/// Calls `once` for `duration` seconds, at least three times; the median of its times.
template <class Once> double median_time(double duration, Once once) {
    once(); // brings pages and caches in
    std::vector<double> times;
    const double end = seconds() + duration;
    while (times.size() < 3 || seconds() < end) {
        const double begin = seconds();
        once();
        times.push_back(seconds() - begin);
    }
    return median_of(times);
}

/// Anonymous memory that a forked child shares.
class SharedPages {
public:
    explicit SharedPages(std::size_t size) : size_(size) {
        data_ = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (data_ == MAP_FAILED) {
            throw std::system_error(errno, std::generic_category(),
                                    "cannot map " + std::to_string(size) + " bytes");
        }
    }
    ~SharedPages() { ::munmap(data_, size_); }
    SharedPages(const SharedPages&) = delete;
    SharedPages& operator=(const SharedPages&) = delete;
    [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

private:
    void* data_;
    std::size_t size_;
};

} // namespace

double hand_over_ns(const Cpus& cpus, double duration) {
    constexpr std::uint64_t batch = 500;
    constexpr std::uint64_t last = ~std::uint64_t{0};
    Line there;
    Line back;
    std::vector<double> times;
    run_two(
        cpus,
        [&] {
            const double end = seconds() + duration;
            std::uint64_t number = 0;
            double before = seconds();
            while (before < end) {
                for (std::uint64_t i = 0; i < batch; ++i) {
                    there.number.store(++number, std::memory_order_release);
                    while (back.number.load(std::memory_order_acquire) != number) {
                    }
                }
                const double now = seconds();
                times.push_back((now - before) / (2.0 * batch));
                before = now;
            }
            there.number.store(last, std::memory_order_release);
        },
        [&] {
            std::uint64_t seen = 0;
            while (seen != last) {
                std::uint64_t now = there.number.load(std::memory_order_acquire);
                if (now != seen) {
                    seen = now;
                    back.number.store(now, std::memory_order_release);
                }
            }
        });
    return median_of(times) * 1e9;
}

double line_rate(const Cpus& cpus, double duration) {
    constexpr std::size_t lines = 256;
    struct alignas(64) Record {
        std::atomic<std::uint64_t> number{0};
        std::array<std::byte, 56> data{};
    };
    const auto ring = std::make_unique<std::array<Record, lines>>();
    Line consumed;
    std::atomic<bool> over{false};
    double rate = 0;
    run_two(
        cpus,
        [&] {
            const double begin = seconds();
            std::uint64_t head = 0;
            std::uint64_t credit = lines;
            while (true) {
                if (head == credit) {
                    credit = consumed.number.load(std::memory_order_acquire) + lines;
                    relax();
                    if (head != credit && seconds() - begin > duration) {
                        break;
                    }
                    continue;
                }
                Record& record = (*ring)[head % lines];
                std::memcpy(record.data.data(), &head, sizeof(head));
                record.number.store(++head, std::memory_order_release);
            }
            rate = static_cast<double>(head) / (seconds() - begin);
            over.store(true, std::memory_order_release);
        },
        [&] {
            std::uint64_t tail = 0;
            std::uint64_t sum = 0;
            while (true) {
                const Record& record = (*ring)[tail % lines];
                if (record.number.load(std::memory_order_acquire) == tail + 1) {
                    std::uint64_t value = 0;
                    std::memcpy(&value, record.data.data(), sizeof(value));
                    sum += value;
                    if (++tail % (lines / 4) == 0) {
                        consumed.number.store(tail, std::memory_order_release);
                    }
                } else if (over.load(std::memory_order_acquire)) {
                    break;
                }
            }
            asm volatile("" ::"r"(sum));
        });
    return rate;
}

double memcpy_rate(int cpu, std::size_t size, double duration) {
    pin_or_throw(cpu);
    const SharedPages to(size);
    std::vector<std::byte> from(size, std::byte{1});
    const double time = median_time(duration, [&] { std::memcpy(to.data(), from.data(), size); });
    return static_cast<double>(size) / time;
}

double stream_rate(const Cpus& cpus, std::size_t size, double duration) {
    constexpr std::size_t slots = 16;
    constexpr std::size_t chunk = 32 * 1024;
    const auto ring = std::make_unique<std::array<std::array<std::byte, chunk>, slots>>();
    Line filled;
    Line emptied;
    Line over;
    std::vector<std::byte> from(size, std::byte{1});
    std::vector<std::byte> to(size);
    double rate = 0;
    run_two(
        cpus,
        [&] {
            std::uint64_t messages = 0;
            std::uint64_t head = 0;
            const double begin = seconds();
            while (messages < 3 || seconds() - begin < duration) {
                for (std::size_t at = 0; at < size; at += chunk) {
                    while (emptied.number.load(std::memory_order_acquire) + slots == head) {
                        relax();
                    }
                    std::memcpy((*ring)[head % slots].data(), from.data() + at,
                                std::min(chunk, size - at));
                    filled.number.store(++head, std::memory_order_release);
                }
                ++messages;
            }
            while (emptied.number.load(std::memory_order_acquire) != head) {
                relax();
            }
            rate = static_cast<double>(messages * size) / (seconds() - begin);
            over.number.store(1, std::memory_order_release);
        },
        [&] {
            std::uint64_t tail = 0;
            std::size_t at = 0;
            while (true) {
                if (filled.number.load(std::memory_order_acquire) == tail) {
                    if (over.number.load(std::memory_order_acquire) != 0) {
                        break;
                    }
                    relax();
                    continue;
                }
                const std::size_t length = std::min(chunk, size - at);
                std::memcpy(to.data() + at, (*ring)[tail % slots].data(), length);
                at = at + length == size ? 0 : at + length;
                emptied.number.store(++tail, std::memory_order_release);
            }
        });
    return rate;
}

double process_vm_rate(int cpu, std::size_t size, double duration) {
    pin_or_throw(cpu);
    // The child has private memory of its own at this address once it has written to it.
    std::vector<std::byte> buffer(size, std::byte{1});
    const SharedPages flag(4096);
    auto* const ready = new (flag.data()) std::atomic<int>(0);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) {
        throw std::system_error(errno, std::generic_category(), "cannot start a process");
    }
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        std::memset(buffer.data(), 2, size);
        ready->store(1);
        while (::getppid() == parent) {
            ::pause();
        }
        ::_exit(0);
    }
    const auto end_child = [&] {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    };
    while (ready->load() == 0) {
        std::this_thread::yield();
    }
    int error = 0;
    const double time = median_time(duration, [&] {
        for (std::size_t done = 0; done < size && error == 0;) {
            const iovec local{buffer.data() + done, size - done};
            const ssize_t moved = ::process_vm_writev(child, &local, 1, &local, 1, 0);
            if (moved <= 0) {
                error = errno;
            } else {
                done += static_cast<std::size_t>(moved);
            }
        }
    });
    end_child();
    if (error != 0) {
        throw std::system_error(error, std::generic_category(),
                                "process_vm_writev is refused (see kernel.yama.ptrace_scope)");
    }
    return static_cast<double>(size) / time;
}

} // namespace comch::limits
