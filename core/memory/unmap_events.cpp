#include "core/memory/unmap_events.hpp"

// Sanitizers replace the same functions as the hooks do.
#if __has_include(<ucm/api/ucm.h>) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COMCH_HAS_UCM 1
#else
#define COMCH_HAS_UCM 0
#endif

#if COMCH_HAS_UCM
#include <array>
#include <csignal>
#include <cstddef>

#include <dlfcn.h>
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
            if (handler.known) {
                (void)::sigaction(signal, &handler.action, nullptr);
            }
        }
    }

private:
    struct Handler {
        struct sigaction action;
        bool known;
    };
    std::array<Handler, NSIG> handlers_{};
};

/// The library's functions; null where it is not there, or cannot hook what is needed.
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
        const auto set = function<decltype(set_handler)>(library, "ucm_set_event_handler");
        const auto test = function<decltype(&ucm_test_events)>(library, "ucm_test_events");
        unset_handler = function<decltype(unset_handler)>(library, "ucm_unset_event_handler");
        if (set == nullptr || test == nullptr || unset_handler == nullptr) {
            return;
        }
        // The hooks are installed with the first handler. The test unmaps memory of its own and
        // sees whether that is told of.
        const auto nothing = [](ucm_event_type_t, ucm_event_t*, void*) {};
        if (set(UCM_EVENT_VM_UNMAPPED, 0, nothing, nullptr) != UCS_OK) {
            return;
        }
        if (test(UCM_EVENT_VM_UNMAPPED) == UCS_OK) {
            set_handler = set;
        }
        unset_handler(UCM_EVENT_VM_UNMAPPED, nothing, nullptr);
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
    static_cast<const UnmapWatch*>(watch)->unmapped(begin & ~(page - 1),
                                                    (end + page - 1) & ~(page - 1));
}

} // namespace

UnmapWatch::UnmapWatch(OnUnmapped on_unmapped, void* self)
    : on_unmapped_(on_unmapped), self_(self),
      works_(ucm().set_handler != nullptr &&
             ucm().set_handler(UCM_EVENT_VM_UNMAPPED, 0, on_event, this) == UCS_OK) {}

UnmapWatch::~UnmapWatch() {
    if (works_) {
        ucm().unset_handler(UCM_EVENT_VM_UNMAPPED, on_event, this); // waits for calls under way
    }
}
#else
UnmapWatch::UnmapWatch(OnUnmapped on_unmapped, void* self)
    : on_unmapped_(on_unmapped), self_(self) {}
UnmapWatch::~UnmapWatch() = default;
#endif

} // namespace comch
