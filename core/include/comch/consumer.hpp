// A consumer: posts buffers, into which producers of the other side of a connection write.
//
// Belongs to the thread of its engine, which need not be the connection's. It is known to the other
// side only after the connection's own engine has progressed too, and a producer's first message
// comes by that engine as well: who polls the consumer's alone from the start may wait for ever.
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

/// Memory for one message. [address, address + length) holds data already; the message is
/// appended behind it.
struct ReceiveBuffer {
    std::byte* address = nullptr;
    std::size_t capacity = 0;
    std::size_t length = 0;
    /// The memory map that the buffer is from; it must grant the peer writing. Null: not checked,
    /// and copied into by the CPU on every link.
    const MemoryMap* memory = nullptr;
};

/// A posted buffer comes back.
struct Received {
    void* cookie = nullptr; ///< as posted
    /// ok: a message landed. Otherwise none did, and the buffer was flushed: canceled (stop()),
    /// not_connected, connection_reset. Bytes behind its data may have been written all the same.
    Errc status = Errc::ok;
    std::size_t offset = 0; ///< where the message begins: the buffer's `length` when posted
    std::size_t length = 0; ///< the message's; 0 too for one that is only immediate data
    std::span<const std::byte> immediate; ///< valid inside the call only
    Connection* connection = nullptr;
    std::uint32_t producer = 0; ///< the sender, a number unique per connection and side
};

struct ConsumerHandlers {
    void* user = nullptr;
    void (*received)(void* user, const Received&) = nullptr;
    void (*state_changed)(void* user, State) = nullptr;
};

struct ConsumerOptions {
    /// Buffers posted at a time; 0 takes a default.
    std::uint32_t max_posted = 0;
    /// From Connection::reserve_consumer_id(), for one consumer only; 0: a new one.
    std::uint32_t id = 0;
    /// Producers hear of each message in the progress call that takes it out. Without, over RDMA,
    /// where that is a packet for each, those that go on sending or get answers all the same hear
    /// of several at once, and of the last ones within four milliseconds of further calls, or before a
    /// sleep. For programs that call no progress after the last message while its producer waits
    /// for it.
    bool prompt = false;
};

class Consumer {
public:
    /// Starting when this returns; running after progress here and on the connection's engine.
    /// Any thread that owns `engine`. not_connected: the connection is not established;
    /// no_memory: as many consumers as the device allows are open on it; invalid_argument: more
    /// buffers than the device allows (Capabilities::max_consumer_tasks), or the id in the options
    /// was not reserved, is used up, or is older than the 1024 latest.
    [[nodiscard]] static Result<std::unique_ptr<Consumer>> open(ProgressEngine& engine,
                                                                Connection& connection,
                                                                const ConsumerOptions& options,
                                                                const ConsumerHandlers& handlers);

    /// Withdraws the consumer; no handler is called, posted buffers are free.
    ~Consumer();
    Consumer(const Consumer&) = delete;
    Consumer& operator=(const Consumer&) = delete;

    /// Unique per connection over both sides; never 0.
    [[nodiscard]] std::uint32_t id() const noexcept;
    [[nodiscard]] State state() const noexcept;
    [[nodiscard]] Connection& connection() const noexcept;

    /// Posts a buffer, which must stay as it is until it comes back through `received`. Messages
    /// land in buffers in the order of posting; one that is longer than the room in the next buffer
    /// is refused, and the buffer stays. again: max_posted are posted; bad_state: not running;
    /// invalid_argument: a null address, more data in it than it has room for, or longer than the
    /// device's longest buffer. invalid_argument, not_permitted: it is not inside its memory map, or
    /// that is the other side's or does not let the peer write.
    [[nodiscard]] Errc post(const ReceiveBuffer& buffer, void* cookie);

    /// Withdraws the consumer; posted buffers come back as canceled, then it is idle: within half a
    /// second if producers are writing into them, or read so little that they could not be told
    /// what was received. bad_state:
    /// stopped already.
    [[nodiscard]] Result<void> stop();

private:
    Consumer(channel::LinkKind kind, void* core) noexcept : kind_(kind), core_(core) {}

    channel::LinkKind kind_;
    void* core_; ///< channel::ConsumerCore<Link>
};

} // namespace comch
