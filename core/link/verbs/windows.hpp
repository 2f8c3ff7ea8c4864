// Memory windows of one queue pair: ranges of registered memory that its peer's device may reach, each
// for the time of one operation.
//
// To register memory for a peer takes a device longer than much of a message does; a registration that
// is kept for the next one would leave the peer the key, and others the chance to guess it. A window
// into a registration that is kept, and that no peer knows, takes two work requests. Its key works
// through this queue pair alone, and until we close the window.
//
// Which work requests open and close one is the pipe's business; here is which windows there are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <infiniband/verbs.h>
#include <unistd.h>

#include "core/link/verbs/tuning.hpp"

namespace comch::link::verbs {

class Windows {
public:
    /// Where a work request stands among all of its queue pair.
    using Ticket = std::uint64_t;

    struct Window {
        enum class State : std::uint8_t { unused, open, closing };
        ibv_mw* device_window = nullptr; ///< null: the device has not been asked for one
        Ticket closed_by = 0;
        State state = State::unused;
    };

    explicit Windows(ibv_pd* pd) noexcept : pd_(pd), process_(::getpid()) {}
    ~Windows() { drop_all(); }
    Windows(const Windows&) = delete;
    Windows& operator=(const Windows&) = delete;

    /// One to be opened, if there is one; `done`: what the device has done so far.
    [[nodiscard]] Window* unused(Ticket done) noexcept;
    /// An open one, by its key.
    [[nodiscard]] Window* find(std::uint32_t key) noexcept;
    /// Closed at once, by a call to the device: nobody reaches anything through it when this returns.
    void drop(Window& window) noexcept;
    /// The same for those that the device has been told to close.
    void drop_closing() noexcept;
    void drop_all() noexcept;
    /// This device cannot have windows.
    void give_up() noexcept { most_ = 0; }

private:
    ibv_pd* pd_;
    pid_t process_; ///< a child that was forked must not end what is its parent's
    std::size_t most_ = tuning::windows;
    std::array<Window, tuning::windows> windows_{};
};

} // namespace comch::link::verbs
