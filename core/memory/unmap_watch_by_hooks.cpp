// What UCX's memory hooks tell of.
#include "core/memory/unmap_watch.hpp"

// Sanitizers replace the same functions as the hooks do.
#if __has_include(<ucm/api/ucm.h>) && !defined(COMCH_SANITIZE_ADDRESS) && !defined(COMCH_SANITIZE_THREAD)
#define COMCH_HAS_UCM 1
#else
#define COMCH_HAS_UCM 0
#endif

#if COMCH_HAS_UCM
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <dlfcn.h>
#include <sys/mman.h>
#include <ucm/api/ucm.h>
#include <unistd.h>
#endif

namespace comch {

#if COMCH_HAS_UCM
namespace {

/// What handles each signal: a library that is loaded into somebody else's program must not change
/// it, and UCX has handlers of its own.
class SignalHandlers {
public:
    SignalHandlers() {
        for (int signal = 1; signal < NSIG; ++signal) {
            auto& handler = handlers_[static_cast<std::size_t>(signal)];
            handler.known = ::sigaction(signal, nullptr, &handler.action) == 0;
        }
    }
    void restore() const {
        for (int signal = 1; signal < NSIG; ++signal) {
            const auto& handler = handlers_[static_cast<std::size_t>(signal)];
            struct sigaction now {};
            // What nobody touched is left alone: another thread may be changing it.
            if (handler.known && ::sigaction(signal, nullptr, &now) == 0 &&
                !is_same(now, handler.action)) {
                (void)::sigaction(signal, &handler.action, nullptr);
            }
        }
    }

private:
    static bool is_same(const struct sigaction& a, const struct sigaction& b) {
        return a.sa_flags == b.sa_flags &&
               ((a.sa_flags & SA_SIGINFO) != 0 ? a.sa_sigaction == b.sa_sigaction
                                               : a.sa_handler == b.sa_handler);
    }

    struct Handler {
        struct sigaction action;
        bool known;
    };
    std::array<Handler, NSIG> handlers_{};
};

/// The library's functions; null where it is not there.
struct Ucm {
    decltype(&ucm_set_event_handler) set_handler = nullptr;
    decltype(&ucm_unset_event_handler) unset_handler = nullptr;

    Ucm() {
        // libucm needs libucs, but does not say so; that one brings it. Never closed: the hooks
        // stay.
        const SignalHandlers handlers;
        void* const library = ::dlopen("libucs.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        handlers.restore();
        if (library == nullptr) {
            return;
        }
        set_handler = function<decltype(set_handler)>(library, "ucm_set_event_handler");
        unset_handler = function<decltype(unset_handler)>(library, "ucm_unset_event_handler");
    }
    [[nodiscard]] bool is_complete() const {
        return set_handler != nullptr && unset_handler != nullptr;
    }

private:
    template <class Function> static Function function(void* library, const char* name) {
        return reinterpret_cast<Function>(::dlsym(library, name));
    }
};

const Ucm& ucm() {
    static const Ucm functions;
    return functions;
}

/// From its construction to its destruction; the hooks call in any thread.
class WatchByHooks final : public UnmapWatch {
public:
    explicit WatchByHooks(UnmapListener& listener) : listener_(listener) {
        // The hooks are installed with the first handler.
        hooked_ = ucm().is_complete() &&
                  ucm().set_handler(UCM_EVENT_VM_UNMAPPED, 0, on_event, this) == UCS_OK;
    }
    ~WatchByHooks() override {
        if (hooked_) {
            ucm().unset_handler(UCM_EVENT_VM_UNMAPPED, on_event, this); // waits for calls under way
        }
    }
    WatchByHooks(const WatchByHooks&) = delete;
    WatchByHooks& operator=(const WatchByHooks&) = delete;

    /// Unmaps memory of its own and sees whether that is told of: another library may have put
    /// hooks of its own in the place of those. Microseconds.
    [[nodiscard]] bool works() noexcept;

    // (They tell of all memory, or of none any more: then what was followed may be gone already.)
    [[nodiscard]] bool follow(AddressRange) override {
        if (works()) {
            return true;
        }
        listener_.on_unmapped(0, UINTPTR_MAX);
        return false;
    }
    void forget(AddressRange) noexcept override {}
    [[nodiscard]] bool is_up_to_date() noexcept override { return true; } // told before it happens

private:
    static void on_event(ucm_event_type_t, ucm_event_t* event, void* watch);
    void unmapped(std::uintptr_t begin, std::uintptr_t end) noexcept;

    UnmapListener& listener_;
    bool hooked_ = false;
    std::atomic<std::uintptr_t> tested_{0}; ///< a page that works() unmaps
    std::atomic<unsigned> told_{0};         ///< how often that page was told of
};

void WatchByHooks::on_event(ucm_event_type_t, ucm_event_t* event, void* watch) {
    static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(event->vm_unmapped.address);
    const std::uintptr_t end = begin + event->vm_unmapped.size;
    static_cast<WatchByHooks*>(watch)->unmapped(begin & ~(page - 1),
                                                (end + page - 1) & ~(page - 1));
}

void WatchByHooks::unmapped(std::uintptr_t begin, std::uintptr_t end) noexcept {
    // Relaxed: the test is in the thread that asks for it.
    if (const std::uintptr_t at = tested_.load(std::memory_order_relaxed);
        at != 0 && begin <= at && at < end) [[unlikely]] {
        told_.fetch_add(1, std::memory_order_relaxed);
    }
    listener_.on_unmapped(begin, end);
}

bool WatchByHooks::works() noexcept {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const memory = hooked_ ? ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                 : MAP_FAILED;
    if (memory == MAP_FAILED) {
        return false;
    }
    told_.store(0, std::memory_order_relaxed);
    const auto told_of = [&](std::size_t which, auto&& unmap) {
        const unsigned before = told_.load(std::memory_order_relaxed);
        tested_.store(reinterpret_cast<std::uintptr_t>(memory) + which * page,
                      std::memory_order_relaxed);
        unmap();
        tested_.store(0, std::memory_order_relaxed);
        return told_.load(std::memory_order_relaxed) != before;
    };
    const bool emptied = told_of(0, [&] { (void)::madvise(memory, page, MADV_DONTNEED); });
    const bool cut = told_of(1, [&] { (void)::mremap(memory, 2 * page, page, 0); });
    const bool unmapped = told_of(0, [&] { (void)::munmap(memory, page); });
    return emptied && cut && unmapped;
}

} // namespace

std::unique_ptr<UnmapWatch> watch_by_hooks(UnmapListener& listener) {
    auto watch = std::make_unique<WatchByHooks>(listener);
    return watch->works() ? std::move(watch) : nullptr;
}
#else
std::unique_ptr<UnmapWatch> watch_by_hooks(UnmapListener&) {
    return nullptr;
}
#endif

} // namespace comch
