// What the kernel tells of: userfaultfd's reports of memory that is unmapped, moved or emptied.
//
// The kernel holds up who unmaps memory that is followed until the report has been read, so there is
// a thread that does nothing but read. Nothing that it could wait for may unmap memory meanwhile: it
// allocates and frees nothing, and whoever holds the lock does neither.
//
// Why nothing is missed. A report is read with the lock held, and the listeners are told before it is
// let go. Whoever unmaps goes on once the report has been read; who then takes the lock finds that the
// listeners know. Another thread, though, can get the addresses as soon as they are free, before the
// report is even there. But the kernel has begun to count changes under way before it frees the
// addresses, and counts until the report has been read; while it counts, it refuses to write-protect
// anything (EAGAIN). So is_up_to_date() asks for that, of a page on which it means nothing.
#include "core/memory/unmap_watch.hpp"

#if __has_include(<linux/userfaultfd.h>)
#include <linux/userfaultfd.h>
#endif

#if defined(UFFD_USER_MODE_ONLY) && defined(UFFDIO_WRITEPROTECT) &&                                \
    defined(UFFD_FEATURE_EXACT_ADDRESS)
#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/quiet_thread.hpp"
#include "core/base/unique_fd.hpp"
#include "core/device/per_process.hpp"

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
        // Never touched: to write-protect it is a look at nothing.
        void* const page =
            ::mmap(nullptr, page_size(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) {
            return;
        }
        probe_.begin = reinterpret_cast<std::uintptr_t>(page);
        probe_.end = probe_.begin + page_size();
        fd_ = std::move(fd);
        if (!begin_reports(probe_) || !nothing_is_changing()) {
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
        const std::lock_guard lock(mutex_);
        return nothing_is_changing();
    }

private:
    // With the lock held.
    [[nodiscard]] bool begin_reports(AddressRange pages) noexcept {
        uffdio_register what{.range = {pages.begin, pages.end - pages.begin},
                             .mode = UFFDIO_REGISTER_MODE_WP,
                             .ioctls = 0};
        return ::ioctl(fd_.get(), UFFDIO_REGISTER, &what) == 0;
    }
    /// (Where there is other memory now that cannot be followed, none is unregistered.)
    void end_reports(AddressRange pages) noexcept {
        uffdio_range what{pages.begin, pages.end - pages.begin};
        (void)::ioctl(fd_.get(), UFFDIO_UNREGISTER, &what);
    }
    [[nodiscard]] bool nothing_is_changing() noexcept {
        uffdio_writeprotect what{.range = {probe_.begin, probe_.end - probe_.begin}, .mode = 0};
        return ::ioctl(fd_.get(), UFFDIO_WRITEPROTECT, &what) == 0;
    }
    [[nodiscard]] bool start_reading() noexcept;
    void tell(AddressRange pages) noexcept;
    void handle(const uffd_msg& report) noexcept;

    void read_for_ever() noexcept;

    UniqueFd fd_;
    AddressRange probe_{};
    std::mutex mutex_;
    Watch* first_ = nullptr;
    bool reads_ = false;
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
    [[nodiscard]] bool tells_all_of(AddressRange memory) noexcept override;
    void forget(AddressRange memory) noexcept override { reports_.forget(whole_pages(memory)); }
    [[nodiscard]] bool is_up_to_date() noexcept override { return reports_.is_up_to_date(); }

private:
    friend class Reports;
    UnmapListener& listener_;
    Reports& reports_;
    Watch* next_ = nullptr;
};

void Reports::add(Watch& watch) noexcept {
    const std::lock_guard lock(mutex_);
    watch.next_ = first_;
    first_ = &watch;
}

void Reports::remove(Watch& watch) noexcept {
    const std::lock_guard lock(mutex_);
    Watch** at = &first_;
    while (*at != &watch) {
        at = &(*at)->next_;
    }
    *at = watch.next_;
}

bool Reports::follow(AddressRange pages) noexcept {
    const std::lock_guard lock(mutex_);
    return start_reading() && begin_reports(pages);
}

bool Reports::start_reading() noexcept {
    // With the lock held, and yet it may allocate: nothing is followed so far.
    if (!reads_) {
        try {
            quiet_thread("comch-unmapped", [this] { read_for_ever(); }).detach();
            reads_ = true;
        } catch (const std::system_error&) {
        }
    }
    return reads_;
}

/// Others may follow parts of it.
void Reports::forget(AddressRange pages) noexcept {
    const std::lock_guard lock(mutex_);
    while (pages.begin < pages.end) {
        AddressRange held{pages.end, pages.end};
        for (const Watch* watch = first_; watch != nullptr; watch = watch->next_) {
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
    for (const Watch* watch = first_; watch != nullptr; watch = watch->next_) {
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
    for (;;) {
        pollfd readable{.fd = fd_.get(), .events = POLLIN, .revents = 0};
        (void)::poll(&readable, 1, -1);
        const std::lock_guard lock(mutex_);
        std::array<uffd_msg, 16> reports; // NOLINT: what is read of it has been written
        const ssize_t size = ::read(fd_.get(), reports.data(), sizeof reports);
        for (std::size_t i = 0; size > 0 && i < static_cast<std::size_t>(size) / sizeof(uffd_msg);
             ++i) {
            handle(reports[i]);
        }
    }
}

/// Memory that is a file's, or shared, can lose its pages without a report: the file is cut short, or
/// punched.
bool Reports::Watch::tells_all_of(AddressRange memory) noexcept {
    constexpr std::uint64_t of_file_or_shared = std::uint64_t{1} << 61; // the kernel's pagemap
    const UniqueFd pages(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    const AddressRange all = whole_pages(memory);
    std::uintptr_t first = all.begin / page_size();
    const std::uintptr_t last = all.end / page_size();
    std::array<std::uint64_t, 512> entries{};
    while (pages && first < last) {
        const std::size_t wanted = std::min<std::size_t>(last - first, entries.size());
        const ssize_t got = ::pread(pages.get(), entries.data(), wanted * sizeof(std::uint64_t),
                                    static_cast<off_t>(first * sizeof(std::uint64_t)));
        const bool all_are_anonymous =
            got == static_cast<ssize_t>(wanted * sizeof(std::uint64_t)) &&
            std::none_of(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(wanted),
                         [](std::uint64_t entry) { return (entry & of_file_or_shared) != 0; });
        if (!all_are_anonymous) {
            return false;
        }
        first += wanted;
    }
    return bool(pages);
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
