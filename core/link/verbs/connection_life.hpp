// What the channels under a connection share with it: whether the peer lives, and where it is. Any
// thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <comch/error.hpp>

#include "core/device/process_id.hpp"
#include "core/link/verbs/cm.hpp"
#include "core/link/verbs/rdma_device.hpp"
#include "core/link/verbs/wire.hpp"

namespace comch::link::verbs {

class ConnectionLife {
public:
    /// How a channel reaches the peer.
    struct Way {
        std::shared_ptr<RdmaDevice> device;
        Address local;
        Address peer;
        wire::Request request{}; ///< but for the tag
    };

    /// ok while the connection lives, not_connected after an orderly end, connection_reset after the
    /// peer's death.
    [[nodiscard]] Errc state() const noexcept { return state_.load(std::memory_order_acquire); }
    /// The connection is over: wakes every channel's owner. No channel can be opened any more, and
    /// nothing of the device is held.
    void end(Errc state) noexcept;
    /// Channels can be opened from now on.
    void open(const Way& way);
    [[nodiscard]] std::optional<Way> way();
    /// Are we a forked child of the process whose connection it is?
    [[nodiscard]] bool inherited() const noexcept { return owner_ != process_id(); }
    /// An eventfd that is rung at the end.
    void add_bell(int fd);
    void remove_bell(int fd);
    /// How many there are: one for each channel.
    [[nodiscard]] std::size_t bells();

private:
    ProcessId owner_ = process_id();
    std::atomic<Errc> state_{Errc::ok};
    std::mutex mutex_; ///< a channel's begin and end, not its use
    std::optional<Way> way_;
    std::vector<int> bells_;
};

} // namespace comch::link::verbs
