#include "core/memory/unmap_events.hpp"

// Sanitizers replace the same functions as the hooks do.
#if __has_include(<ucm/api/ucm.h>) && !defined(COMCH_SANITIZE_ADDRESS) && !defined(COMCH_SANITIZE_THREAD)
#define COMCH_HAS_UCM 1
#else
#define COMCH_HAS_UCM 0
#endif

#if COMCH_HAS_UCM
#include <array>
#include <csignal>
#include <cstddef>

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

void on_event(ucm_event_type_t, ucm_event_t* event, void* watch) {
    static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<std::uintptr_t>(event->vm_unmapped.address);
    const std::uintptr_t end = begin + event->vm_unmapped.size;
    static_cast<UnmapWatch*>(watch)->unmapped(begin & ~(page - 1), (end + page - 1) & ~(page - 1));
}

} // namespace

UnmapWatch::UnmapWatch(OnUnmapped on_unmapped, void* self)
    : on_unmapped_(on_unmapped), self_(self) {
    // The hooks are installed with the first handler.
    hooked_ = ucm().is_complete() &&
              ucm().set_handler(UCM_EVENT_VM_UNMAPPED, 0, on_event, this) == UCS_OK;
}

UnmapWatch::~UnmapWatch() {
    if (hooked_) {
        ucm().unset_handler(UCM_EVENT_VM_UNMAPPED, on_event, this); // waits for calls under way
    }
}

bool UnmapWatch::works() noexcept {
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
#else
UnmapWatch::UnmapWatch(OnUnmapped on_unmapped, void* self)
    : on_unmapped_(on_unmapped), self_(self) {}
UnmapWatch::~UnmapWatch() = default;
bool UnmapWatch::works() noexcept {
    return false;
}
#endif

} // namespace comch
