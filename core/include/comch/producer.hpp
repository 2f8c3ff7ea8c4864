// A producer: sends to consumers of the other side of a connection.
//
// Belongs to the thread of its engine, which need not be the connection's; nothing on its data path
// is shared with another thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <comch/channel.hpp>
#include <comch/connection.hpp>
#include <comch/error.hpp>
#include <comch/memory.hpp>
#include <comch/progress.hpp>

namespace comch {

struct SendBuffer {
    /// Not copied: stays as it is until the send is complete. Any number of sends may share it.
    std::span<const std::byte> data{};
    /// Up to 32 bytes beside the data, or instead of it. Copied.
    std::span<const std::byte> immediate{};
    /// The memory map that `data` is from. Null: not checked, copied by the CPU on every link.
    const MemoryMap* memory = nullptr;
    /// Another send of this producer follows at once. Then this one may wait for it, so that the
    /// device hears of both together, which costs less: until the next send without `more`, one that
    /// is refused, flush() or completed(), or the engine's next progress or arm() (that it succeeds
    /// with). Nothing waits on links that have no such device.
    bool more = false;
};

struct ProducerHandlers {
    void* user = nullptr;
    /// A send is complete. ok: the message is in the consumer's buffer. invalid_argument: it was
    /// longer than that buffer's room, no harm done. canceled (stop(), or the consumer is gone),
    /// not_connected, connection_reset: it may or may not have arrived. Sends to one consumer
    /// complete in the order of sending.
    void (*sent)(void* user, void* cookie, Errc status) = nullptr;
    void (*state_changed)(void* user, State) = nullptr;
};

struct ProducerOptions {
    /// Sends under way at a time; 0 takes a default.
    std::uint32_t max_in_flight = 0;
};

class Producer {
public:
    /// Running when this returns. Any thread that owns `engine`. not_connected: the connection is
    /// not established; no_memory: as many producers as the device allows are open on it;
    /// invalid_argument: more in flight than the device allows (Capabilities::max_producer_tasks).
    [[nodiscard]] static Result<std::unique_ptr<Producer>> open(ProgressEngine& engine,
                                                                Connection& connection,
                                                                const ProducerOptions& options,
                                                                const ProducerHandlers& handlers);

    /// Sends under way are given up; no handler is called.
    ~Producer();
    Producer(const Producer&) = delete;
    Producer& operator=(const Producer&) = delete;

    [[nodiscard]] std::uint32_t id() const noexcept;
    [[nodiscard]] State state() const noexcept;
    [[nodiscard]] Connection& connection() const noexcept;
    /// Sends that are not complete yet.
    [[nodiscard]] std::uint32_t in_flight() const noexcept;
    /// Those of them that progress is about to report as complete, which takes a look. Flushes.
    [[nodiscard]] std::uint32_t completed();

    /// Sends to a consumer of the other side; ok: `sent` is called with `cookie` later. Messages to
    /// one consumer arrive in order.
    /// again: the consumer has posted no buffer that is free, or has yet to say whether this fits
    /// its next, or as much is under way as may be; retry after progress. not_found: there is no
    /// such consumer (any more). invalid_argument: the message is known not to fit the next posted
    /// buffer, or immediate data is too long. too_big: longer than the device's longest buffer.
    /// invalid_argument, not_permitted: the data is not inside its memory map, or that does not let us
    /// read. bad_state: not running. not_connected, connection_reset: the connection has ended
    /// (also if its own engine has yet to hear of it; not_connected where it cannot be known how).
    /// no_memory: no channel to the consumer can be had.
    [[nodiscard]] Errc send(std::uint32_t consumer, const SendBuffer& buffer, void* cookie);

    /// What was sent with SendBuffer::more waits for nothing else to be sent when this returns.
    void flush();

    /// Gives up what is under way (as canceled), then is idle: within half a second if a device is
    /// reading it. bad_state: stopped already.
    [[nodiscard]] Result<void> stop();

private:
    Producer(channel::LinkKind kind, void* core) noexcept : kind_(kind), core_(core) {}

    channel::LinkKind kind_;
    void* core_; ///< channel::ProducerCore<Link>
};

} // namespace comch
