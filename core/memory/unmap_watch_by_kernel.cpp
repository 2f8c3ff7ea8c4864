// What the kernel tells of: userfaultfd's reports of memory that is unmapped, moved or emptied.
//
// The kernel holds up who unmaps memory that is followed until the report has been read, so there is
// a thread that does nothing but read. It waits for nobody: whoever it waited for could be who unmaps, in a
// signal's handler, or be stopped by who does. So it takes no lock, and allocates and frees nothing.
//
// Why nothing is missed. While a report is read and told, a counter is odd. Whoever unmaps goes on once the
// report has been read; who then looks finds the counter odd, or that the listeners know. Another thread,
// though, can get the addresses as soon as they are free, before the report is even there. But the kernel
// has begun to count changes under way before it frees the addresses, and counts until the report has been
// read; while it counts, it refuses to write-protect anything (EAGAIN). So is_up_to_date() asks for that, of
// a page on which it means nothing, and wants the counter even before and the same after.
//
// Memory that is emptied (madvise) is reported, and counted, before its pages go. So what is registered
// meanwhile, by who sends a buffer while another thread empties it, has the old pages and stays.
#include "core/memory/unmap_watch.hpp"

#if __has_include(<linux/userfaultfd.h>)
#include <linux/userfaultfd.h>
#endif

#if defined(UFFD_USER_MODE_ONLY) && defined(UFFDIO_WRITEPROTECT) &&                                \
    defined(UFFD_FEATURE_EXACT_ADDRESS) && defined(UFFDIO_CONTINUE)
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/quiet_thread.hpp"
#include "core/base/unique_fd.hpp"
#include "core/device/per_process.hpp"
#include "core/device/process_id.hpp"

namespace comch {
namespace {

std::uintptr_t page_size() noexcept {
    static const auto size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    return size;
}

AddressRange whole_pages(AddressRange memory) noexcept {
    const std::uintptr_t page = page_size();
    return {memory.begin & ~(page - 1), (memory.end + page - 1) & ~(page - 1)};
}

/// Where the main thread's stack is, or may grow to: runtimes ask how large its mapping is, so it is not to
/// be split.
AddressRange main_stack() {
    std::ifstream maps("/proc/self/maps");
    std::string line;
    while (std::getline(maps, line)) {
        if (!line.ends_with("[stack]")) {
            continue;
        }
        constexpr std::uintptr_t without_limit = std::uintptr_t{1} << 30;
        const std::uintptr_t end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
        rlimit limit{};
        const bool limited =
            ::getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < without_limit;
        const std::uintptr_t size = limited ? limit.rlim_cur : without_limit;
        return {end - std::min(end, size), end};
    }
    return {};
}

/// The reader is not to wait for the thread that starts it: that may poll on its CPU for ever, above all others,
/// now or later. (Nor for another of the same priority, if it may have a higher one.)
void run_wherever_there_is_room() noexcept {
    cpu_set_t all;
    std::memset(&all, 0xff, sizeof all);
    (void)::sched_setaffinity(0, sizeof all, &all);
    const int policy = ::sched_getscheduler(0);
    sched_param priority{};
    if (policy == SCHED_FIFO || policy == SCHED_RR) {
        (void)::sched_getparam(0, &priority);
        priority.sched_priority =
            std::min(priority.sched_priority + 1, ::sched_get_priority_max(policy));
        (void)::sched_setscheduler(0, policy, &priority);
    } else {
        (void)::sched_setscheduler(0, SCHED_OTHER, &priority);
    }
}

/// Of a thread that may be above all others on its CPU, where what it waits for may be. (Not to be gone on with
/// after a signal: where there are many, that never ends.)
void wait_a_moment() noexcept {
    const timespec moment{.tv_sec = 0, .tv_nsec = 20'000};
    (void)::nanosleep(&moment, nullptr);
}

/// All of a process's. It stays, and so does its thread: a forked child may hold its descriptor open,
/// and then nothing but reading lets those go on who unmap what is followed.
class Reports {
public:
    class Watch;

    Reports() {
        UniqueFd fd(static_cast<int>(
            ::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
        // EXACT_ADDRESS is not needed, but came after what is: changes under way are counted (5.15).
        uffdio_api api{.api = UFFD_API,
                       .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_UNMAP |
                                   UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE |
                                   UFFD_FEATURE_EXACT_ADDRESS,
                       .ioctls = 0};
        if (!fd || ::ioctl(fd.get(), UFFDIO_API, &api) != 0) {
            return;
        }
        // To write-protect it means nothing.
        void* const page =
            ::mmap(nullptr, page_size(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) {
            return;
        }
        probe_.begin = reinterpret_cast<std::uintptr_t>(page);
        probe_.end = probe_.begin + page_size();
        fd_ = std::move(fd);
        std::uint64_t can = 0;
        if (!begin_reports(probe_, can) || change() != Change::none) {
            fd_.reset();
            ::munmap(page, page_size());
        }
    }

    /// Only of one that nobody has used: another thread was first.
    ~Reports() {
        if (fd_) {
            fd_.reset();
            ::munmap(reinterpret_cast<void*>(probe_.begin), page_size());
        }
    }
    Reports(const Reports&) = delete;
    Reports& operator=(const Reports&) = delete;

    [[nodiscard]] bool works() const noexcept { return bool(fd_); }

    void add(Watch& watch) noexcept;
    void remove(Watch& watch) noexcept;
    [[nodiscard]] bool follow(AddressRange memory) noexcept;
    void forget(AddressRange memory) noexcept;
    [[nodiscard]] bool is_up_to_date() noexcept {
        if (process_ != process_id()) {
            return false;
        }
        const std::uint64_t before = tellings_.load(std::memory_order_acquire);
        const bool settled = before % 2 == 0 && change() == Change::none;
        // The reader counts before it reads, and the kernel counts down after that: who sees the one sees the
        // other. Fences, for the kernel's count is in between.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return settled && tellings_.load(std::memory_order_relaxed) == before;
    }

private:
    [[nodiscard]] bool may_follow(AddressRange pages) const noexcept {
        return process_ == process_id() &&
               (pages.end <= main_stack_.begin || main_stack_.end <= pages.begin);
    }

    enum class Change : std::uint8_t { none, under_way, unknown };

    [[nodiscard]] bool begin_reports(AddressRange pages, std::uint64_t& can) noexcept {
        uffdio_register what{.range = {pages.begin, pages.end - pages.begin},
                             .mode = UFFDIO_REGISTER_MODE_WP,
                             .ioctls = 0};
        const bool begun = ::ioctl(fd_.get(), UFFDIO_REGISTER, &what) == 0;
        can = what.ioctls;
        return begun;
    }
    /// Not where somebody else has them reported: kernels before 6.17 would end his reports, so ours begin there
    /// first, which they refuse then.
    void end_reports(AddressRange pages) noexcept {
        std::uint64_t can = 0;
        if (begin_reports(pages, can)) {
            uffdio_range what{pages.begin, pages.end - pages.begin};
            (void)::ioctl(fd_.get(), UFFDIO_UNREGISTER, &what);
        }
    }
    /// A file's memory can go without a report: the file is cut short, or punched. Only of such pages can the
    /// kernel be asked to map what the file has (and does so at worst, as with any access); and only of those of
    /// one mapping at a time.
    [[nodiscard]] bool is_anonymous(AddressRange pages, int& patience) noexcept {
        uffdio_continue what{
            .range = {pages.begin, pages.end - pages.begin}, .mode = 0, .mapped = 0};
        while (::ioctl(fd_.get(), UFFDIO_CONTINUE, &what) != 0) {
            if (errno == EINVAL) {
                return true;
            }
            const std::uintptr_t middle =
                pages.begin + (pages.end - pages.begin) / page_size() / 2 * page_size();
            if (errno == ENOENT && middle != pages.begin) {
                return is_anonymous({pages.begin, middle}, patience) &&
                       is_anonymous({middle, pages.end}, patience);
            }
            if (errno != EAGAIN || --patience == 0) {
                return false;
            }
            std::this_thread::yield(); // something is being unmapped
        }
        return false;
    }
    [[nodiscard]] Change change() noexcept {
        uffdio_writeprotect what{.range = {probe_.begin, probe_.end - probe_.begin}, .mode = 0};
        return ::ioctl(fd_.get(), UFFDIO_WRITEPROTECT, &what) == 0 ? Change::none
               : errno == EAGAIN                                   ? Change::under_way
                                                                   : Change::unknown;
    }
    [[nodiscard]] bool start_reading() noexcept;
    void tell(AddressRange pages) noexcept;
    void handle(const uffd_msg& report) noexcept;

    void read_for_ever() noexcept;

    const ProcessId process_ = process_id(); ///< a forked child's calls would change its parent
    const AddressRange main_stack_ = main_stack();
    UniqueFd fd_;
    AddressRange probe_{};
    /// Odd: a report is being read and told.
    std::atomic<std::uint64_t> tellings_{0};
    std::atomic<Watch*> first_{nullptr}; ///< changed with the lock held; the reader has none

    std::mutex mutex_;
    std::atomic<bool> reads_{false};
};

class Reports::Watch final : public UnmapWatch {
public:
    Watch(Reports& reports, UnmapListener& listener) : listener_(listener), reports_(reports) {
        reports_.add(*this);
    }
    ~Watch() override { reports_.remove(*this); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    [[nodiscard]] bool follow(AddressRange memory) override {
        return reports_.follow(whole_pages(memory));
    }
    void forget(AddressRange memory) noexcept override { reports_.forget(whole_pages(memory)); }
    [[nodiscard]] bool is_up_to_date() noexcept override { return reports_.is_up_to_date(); }

private:
    friend class Reports;
    UnmapListener& listener_;
    Reports& reports_;
    std::atomic<Watch*> next_{nullptr};
};

void Reports::add(Watch& watch) noexcept {
    const std::lock_guard lock(mutex_);
    watch.next_.store(first_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    first_.store(&watch, std::memory_order_release);
}

void Reports::remove(Watch& watch) noexcept {
    if (process_ != process_id()) {
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        std::atomic<Watch*>* at = &first_;
        while (at->load(std::memory_order_relaxed) != &watch) {
            at = &at->load(std::memory_order_relaxed)->next_;
        }
        at->store(watch.next_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
    }
    // The reader may have come to it before. seq_cst, as where it counts and where it looks: either it finds the
    // list without, or is seen here.
    const std::uint64_t telling = tellings_.load(std::memory_order_seq_cst);
    while (telling % 2 != 0 && tellings_.load(std::memory_order_acquire) == telling) {
        wait_a_moment();
    }
}

bool Reports::follow(AddressRange pages) noexcept {
    if (!may_follow(pages)) {
        return false;
    }
    const std::lock_guard lock(mutex_);
    constexpr std::uint64_t of_small_pages = std::uint64_t{1} << _UFFDIO_ZEROPAGE;
    std::uint64_t can = 0;
    int patience = 1000;
    return start_reading() && begin_reports(pages, can) && (can & of_small_pages) != 0 &&
           is_anonymous(pages, patience);
}

bool Reports::start_reading() noexcept {
    if (!reads_) {
        try {
            quiet_thread("comch-unmapped", [this] { read_for_ever(); }).detach();
        } catch (const std::exception&) { // no thread, or no memory for one
            return false;
        }
        while (!reads_) { // until then it is where this thread is
            wait_a_moment();
        }
    }
    return true;
}

/// Others may follow parts of it.
void Reports::forget(AddressRange pages) noexcept {
    if (!may_follow(pages)) {
        return;
    }
    const std::lock_guard lock(mutex_);
    while (pages.begin < pages.end) {
        AddressRange held{pages.end, pages.end};
        for (const Watch* watch = first_.load(std::memory_order_relaxed); watch != nullptr;
             watch = watch->next_.load(std::memory_order_relaxed)) {
            const auto theirs = watch->listener_.first_followed(pages.begin, pages.end);
            if (theirs && theirs->begin < held.begin) {
                held = *theirs;
            }
        }
        held = whole_pages(held);
        if (pages.begin < held.begin) {
            end_reports({pages.begin, std::min(held.begin, pages.end)});
        }
        pages.begin = held.end;
    }
}

void Reports::tell(AddressRange pages) noexcept {
    for (const Watch* watch = first_.load(std::memory_order_seq_cst); watch != nullptr;
         watch = watch->next_.load(std::memory_order_seq_cst)) {
        watch->listener_.on_unmapped(pages.begin, pages.end);
    }
}

void Reports::handle(const uffd_msg& report) noexcept {
    switch (report.event) {
    case UFFD_EVENT_UNMAP:
    case UFFD_EVENT_REMOVE:
        tell({report.arg.remove.start, report.arg.remove.end});
        break;
    case UFFD_EVENT_REMAP:
        tell({report.arg.remap.from, report.arg.remap.from + report.arg.remap.len});
        // (From where it is now more may be reported, which interests nobody. To end that would split the
        // mapping, and its program could not move it any more.)
        break;
    default: // nothing is write-protected, so nobody faults
        break;
    }
}

void Reports::read_for_ever() noexcept {
    run_wherever_there_is_room();
    reads_ = true;
    // Until somebody closes all descriptors that are not his, so that this one is another's.
    while (change() != Change::unknown) {
        std::array<uffd_msg, 16> reports; // NOLINT: what is read of it has been written
        tellings_.fetch_add(1, std::memory_order_seq_cst);
        std::atomic_thread_fence(std::memory_order_seq_cst); // see is_up_to_date()
        const ssize_t size = ::read(fd_.get(), reports.data(), sizeof reports);
        for (std::size_t i = 0; size > 0 && i < static_cast<std::size_t>(size) / sizeof(uffd_msg);
             ++i) {
            handle(reports[i]);
        }
        tellings_.fetch_add(1, std::memory_order_release);
        if (size < 0) {
            pollfd readable{.fd = fd_.get(), .events = POLLIN, .revents = 0};
            (void)::poll(&readable, 1, -1);
        }
    }
}

constinit PerProcess<Reports> reports;

} // namespace

std::unique_ptr<UnmapWatch> watch_by_kernel(UnmapListener& listener) {
    Reports& those = reports.get();
    return those.works() ? std::make_unique<Reports::Watch>(those, listener) : nullptr;
}

} // namespace comch

#else

namespace comch {

std::unique_ptr<UnmapWatch> watch_by_kernel(UnmapListener&) {
    return nullptr;
}

} // namespace comch

#endif
