// Reads this process's own counter file in the comch domain: the proof that bytes went through
// comch and not past it.
#pragma once

#include "../core/include/comch/counters_layout.hpp"
#include "../core/include/comch/side.hpp"
#include "report.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mpi_tests {

/// What was moved: as a test knows it, or as comch counted it.
struct Traffic {
    std::uint64_t bytes = 0;
    std::uint64_t messages = 0; ///< messages and one-sided operations
};

inline bool counters_required() {
    const char* value = std::getenv("COMCH_MPI_REQUIRE_COUNTERS");
    return value != nullptr && std::string_view(value) == "1";
}

/// As comch finds it: COMCH_DOMAIN is the directory's path or a bare name, or not set.
inline std::string domain_directory() {
    const char* domain = std::getenv("COMCH_DOMAIN");
    if (domain == nullptr || *domain == '\0') {
        return fmt::format("/dev/shm/comch-{}", ::geteuid());
    }
    if (std::strchr(domain, '/') != nullptr) {
        return domain;
    }
    return fmt::format("/dev/shm/comch-{}-{}", ::geteuid(), domain);
}

/// The calling process's own counter file.
class OwnCounters {
public:
    /// Nothing if this process has no file (yet): it has opened no comch device.
    static std::optional<OwnCounters> find() {
        namespace fs = std::filesystem;
        std::string program;
        std::ifstream comm("/proc/self/comm");
        std::getline(comm, program);
        std::optional<OwnCounters> newest;
        std::error_code error;
        for (const auto& entry : fs::directory_iterator(domain_directory(), error)) {
            if (!entry.path().filename().string().starts_with("counters.")) {
                continue;
            }
            const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
            if (fd < 0) {
                continue; // somebody else's, or its owner has just unlinked it
            }
            OwnCounters candidate(fd, entry.path());
            HeaderView header;
            // Process ids repeat over PID namespaces: the program must be ours too, and a file
            // that a killed process left is older than ours.
            if (candidate.read_header(header) && header.pid == std::uint64_t(::getpid()) &&
                header.program == program &&
                (!newest || header.start_time_ns > newest->start_time_ns_)) {
                candidate.start_time_ns_ = header.start_time_ns;
                newest = std::move(candidate);
            }
        }
        return newest;
    }

    /// The sums over all connections so far.
    [[nodiscard]] Traffic read() const {
        // Copied by read(), not mapped: touching a hole of a mapped tmpfs file allocates it.
        // Each counter is an aligned 8-byte word, which the kernel copies whole.
        auto words = snapshot();
        const auto* file = reinterpret_cast<const comch::counters::File*>(words.get());
        Traffic sum;
        add(sum, file->header.closed_tx);
        add(sum, file->header.overflow.tx);
        const auto slots = std::min(file->header.slot_count, comch::counters::max_slots);
        for (std::uint32_t i = 0; i < slots; ++i) {
            add(sum, file->slots[i].tx);
        }
        return sum;
    }

    /// Every connection in use must start on the side that this rank was told to be on.
    void check_side(comch::Side side) const {
        auto words = snapshot();
        const auto* file = reinterpret_cast<const comch::counters::File*>(words.get());
        const auto slots = std::min(file->header.slot_count, comch::counters::max_slots);
        for (std::uint32_t i = 0; i < slots; ++i) {
            const auto& slot = file->slots[i];
            const auto state = slot.state.load(std::memory_order_relaxed);
            require(state == std::uint32_t(comch::counters::SlotState::free) ||
                        slot.local_side == std::uint32_t(side),
                    "connection {} in {} is on side {}, but COMCH_SIDE says {}", i, path_,
                    slot.local_side, comch::to_string(side));
        }
    }

private:
    struct HeaderView {
        std::uint64_t pid = 0;
        std::uint64_t start_time_ns = 0;
        std::string program;
    };

    /// The descriptor is shared because std::optional moves it around.
    OwnCounters(int fd, std::string path)
        : fd_(new int(fd),
              [](int* owned) {
                  ::close(*owned);
                  delete owned;
              }),
          path_(std::move(path)) {}

    bool read_header(HeaderView& view) const {
        alignas(64) std::byte raw[sizeof(comch::counters::FileHeader)];
        if (::pread(*fd_, raw, sizeof raw, 0) != ssize_t(sizeof raw)) {
            return false;
        }
        const auto* header = reinterpret_cast<const comch::counters::FileHeader*>(raw);
        if (header->magic != comch::counters::magic ||
            header->version != comch::counters::version) {
            return false;
        }
        view.pid = header->pid;
        view.start_time_ns = header->start_time_ns;
        view.program.assign(header->program, ::strnlen(header->program, sizeof header->program));
        return true;
    }

    struct Free {
        void operator()(std::byte* p) const {
            ::operator delete[](p, std::align_val_t{alignof(comch::counters::File)});
        }
    };
    using Snapshot = std::unique_ptr<std::byte[], Free>;

    /// The file's content; what the file does not have is zero.
    [[nodiscard]] Snapshot snapshot() const {
        constexpr std::size_t size = sizeof(comch::counters::File);
        Snapshot words(static_cast<std::byte*>(
            ::operator new[](size, std::align_val_t{alignof(comch::counters::File)})));
        std::memset(words.get(), 0, size);
        std::size_t done = 0;
        while (done < size) {
            const ssize_t n = ::pread(*fd_, words.get() + done, size - done, off_t(done));
            require(n >= 0, "cannot read the counter file {}: {}", path_, std::strerror(errno));
            if (n == 0) {
                break;
            }
            done += std::size_t(n);
        }
        return words;
    }

    static void add(Traffic& sum, const comch::counters::TxCounters& tx) {
        sum.bytes += tx.bytes.get() + tx.mapped_bytes.get() + tx.process_vm_bytes.get();
        sum.messages += tx.messages.get() + tx.one_sided.get();
    }

    std::shared_ptr<int> fd_;
    std::string path_;
    std::uint64_t start_time_ns_ = 0;
};

} // namespace mpi_tests
