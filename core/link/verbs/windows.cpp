#include "core/link/verbs/windows.hpp"

#include <algorithm>
#include <utility>

namespace comch::link::verbs {

Windows::~Windows() {
    for (Window& window : windows_) {
        drop(window);
    }
}

Windows::Window* Windows::unused() noexcept {
    for (std::size_t i = 0; i < most_; ++i) {
        Window& window = windows_[i];
        if (window.state != Window::State::unused) {
            continue;
        }
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
    const auto found = std::ranges::find_if(windows_, [key](const Window& window) {
        return window.state == Window::State::open && window.device_window->rkey == key;
    });
    return found == windows_.end() ? nullptr : &*found;
}

Windows::Window* Windows::any_open() noexcept {
    const auto found = std::ranges::find(windows_, Window::State::open, &Window::state);
    return found == windows_.end() ? nullptr : &*found;
}

void Windows::note_done(Ticket done) noexcept {
    for (Window& window : windows_) {
        if (window.state == Window::State::closing && window.last <= done) {
            window.state = Window::State::unused;
            window.memory.reset();
        }
    }
}

Windows::Ticket Windows::last() const noexcept {
    return std::ranges::max(windows_, {}, &Window::last).last;
}

void Windows::drop(Window& window) noexcept {
    window.state = Window::State::unused;
    window.last = 0;
    ibv_mw* const gone = std::exchange(window.device_window, nullptr);
    if (gone != nullptr && process_ == ::getpid()) {
        (void)::ibv_dealloc_mw(gone);
    }
    window.memory.reset(); // its registration cannot end before
}

} // namespace comch::link::verbs
