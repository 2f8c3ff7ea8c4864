// Memory windows of one queue pair: ranges of registered memory that its peer's device may reach, each
// for the time of one operation.
//
// To register memory for a peer takes a device longer than much of a message does; a registration that
// is kept for the next one would leave the peer the key, and others the chance to guess it. A window
// into a registration that is kept, and that no peer knows, takes two work requests. Its key works
// through this queue pair alone, and until we close the window.
//
// Which work requests open and close one is the pipe's business; here is which windows there are. A
// window that a work request is still about must not be given back to the device: that would end the
// queue pair, or let it wait for ever.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <infiniband/verbs.h>
#include <unistd.h>

#include "core/link/verbs/rdma_device.hpp"
#include "core/link/verbs/tuning.hpp"

namespace comch::link::verbs {

class Windows {
public:
    /// Where a work request stands among all of its queue pair.
    using Ticket = std::uint64_t;

    struct Window {
        enum class State : std::uint8_t { unused, open, closing };
        ibv_mw* device_window = nullptr;  ///< null: the device has not been asked for one
        std::shared_ptr<const Mr> memory; ///< that it is into: outlives it
        Ticket last = 0;                  ///< the last work request that is about it
        State state = State::unused;
    };

    explicit Windows(ibv_pd* pd) noexcept : pd_(pd), process_(::getpid()) {}
    /// The queue pair works no more.
    ~Windows();
    Windows(const Windows&) = delete;
    Windows& operator=(const Windows&) = delete;

    /// One that can be opened, if there is one.
    [[nodiscard]] Window* unused() noexcept;
    /// An open one, by its key.
    [[nodiscard]] Window* find(std::uint32_t key) noexcept;
    /// Any open one.
    [[nodiscard]] Window* any_open() noexcept;
    /// Those that the device has closed by now can be opened again; `done`: what it has done so far.
    void note_done(Ticket done) noexcept;
    /// The last work request that is about any.
    [[nodiscard]] Ticket last() const noexcept;
    /// Closed at once, by a call to the device, which has nothing more to do for it, or nothing at all.
    void drop(Window& window) noexcept;
    /// This device cannot have windows, as it turned out.
    void give_up() noexcept { most_ = 0; }

private:
    ibv_pd* pd_;
    pid_t process_; ///< a child that was forked must not end what is its parent's
    std::size_t most_ = tuning::windows;
    std::array<Window, tuning::windows> windows_{};
};

} // namespace comch::link::verbs
