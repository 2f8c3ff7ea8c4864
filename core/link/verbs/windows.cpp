#include "core/link/verbs/windows.hpp"

#include <utility>

namespace comch::link::verbs {

Windows::Window* Windows::unused(Ticket done) noexcept {
    for (std::size_t i = 0; i < most_; ++i) {
        Window& window = windows_[i];
        const bool is_closed = window.state == Window::State::closing && window.closed_by <= done;
        if (window.state != Window::State::unused && !is_closed) {
            continue;
        }
        window.state = Window::State::unused;
        if (window.device_window == nullptr) {
            window.device_window = ::ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
        }
        if (window.device_window == nullptr) {
            most_ = i; // the device has no more; those before are used again
            return nullptr;
        }
        return &window;
    }
    return nullptr;
}

Windows::Window* Windows::find(std::uint32_t key) noexcept {
    for (Window& window : windows_) {
        if (window.state == Window::State::open && window.device_window->rkey == key) {
            return &window;
        }
    }
    return nullptr;
}

void Windows::drop(Window& window) noexcept {
    window.state = Window::State::unused;
    ibv_mw* const gone = std::exchange(window.device_window, nullptr);
    if (gone != nullptr && process_ == ::getpid()) {
        (void)::ibv_dealloc_mw(gone);
    }
}

void Windows::drop_closing() noexcept {
    for (Window& window : windows_) {
        if (window.state == Window::State::closing) {
            drop(window);
        }
    }
}

void Windows::drop_all() noexcept {
    for (Window& window : windows_) {
        drop(window);
    }
}

} // namespace comch::link::verbs
