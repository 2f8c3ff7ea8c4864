// A soft channel: a pipe under a connection with a socket pair of its own as doorbell, so that its
// two ends share nothing with the threads of the connection. Contract: core/link/link.hpp.
#pragma once

#include <memory>

#include <comch/counters_layout.hpp>

#include "core/link/soft/connection.hpp"
#include "core/link/soft/pipe.hpp"

namespace comch {
class ProcessCounters;
}

namespace comch::link::soft {

class Channel {
public:
    Channel() = default;
    Channel(Channel&&) noexcept = default;
    Channel& operator=(Channel&& other) noexcept;
    ~Channel();

    Errc send(std::uint8_t id, std::span<const std::byte> message, bool /*more*/ = false) noexcept {
        return pipe_->send(id, message);
    }
    template <class Fill>
    Errc send_inline(std::uint8_t id, std::uint32_t length, Fill&& fill,
                     bool /*more*/ = false) noexcept {
        return pipe_->send_inline(id, length, std::forward<Fill>(fill));
    }
    template <class Pack>
    std::int64_t send_packed(std::uint8_t id, std::uint32_t max, Pack&& pack,
                             bool /*more*/ = false) noexcept {
        return pipe_->send_packed(id, max, std::forward<Pack>(pack));
    }
    void ring() noexcept {}
    [[nodiscard]] std::uint64_t sent() const noexcept { return pipe_->sent(); }
    [[nodiscard]] std::uint64_t confirmed() noexcept { return pipe_->confirmed(); }
    [[nodiscard]] counters::Counter& buffer_stalls() noexcept {
        return pipe_->slot()->tx.buffer_stalls;
    }

    /// Hands out up to `budget` messages: on_message(id, data, length) -> bool; false leaves the
    /// message for the next poll.
    template <class F> unsigned poll(F&& on_message, unsigned budget) {
        unsigned count = 0;
        RingReader& rx = pipe_->rx();
        while (count < budget) {
            RingReader::Record record;
            const RingReader::Peek peek = rx.peek(record);
            if (peek == RingReader::Peek::empty) {
                pipe_->idle();
                break;
            }
            if (peek == RingReader::Peek::corrupt || !prepare(record)) [[unlikely]] {
                fail();
                break;
            }
            if (data_ != nullptr) {
                if (!on_message(record.header.id, data_, length_)) {
                    pipe_->idle(); // what was taken out before it counts as taken
                    break;
                }
                data_ = nullptr;
                pipe_->count_received(length_);
                ++count;
            }
            pipe_->pop(record);
        }
        return count;
    }

    /// Both ends copy, through the ring, at the same time.
    static constexpr bool sends_packets = false;
    static constexpr bool writes_directly = false;
    struct Ticket {};

    [[nodiscard]] int event_fd() const noexcept { return socket_.get(); }
    [[nodiscard]] Errc arm();
    [[nodiscard]] Errc check();
    [[nodiscard]] bool peer_gone() const noexcept {
        return failed_ || peer_gone_ || life_->state() != Errc::ok;
    }
    [[nodiscard]] static constexpr bool was_refused() noexcept { return false; }

private:
    friend class Connection;
    friend class Port;

    /// `parent`: of the connection that it is under.
    Channel(Pipe pipe, UniqueFd socket, std::shared_ptr<ConnectionLife> life,
            std::shared_ptr<ProcessCounters> counters, const SlotInfo& parent, bool fenced);

    /// Finds the payload of a record (once: a message may be left and looked at again); data_ stays
    /// null for records that are not messages. False: the peer broke the protocol.
    [[nodiscard]] bool prepare(const RingReader::Record& record);
    /// Reads the socket: doorbells, the peer's bulk ring.
    [[nodiscard]] bool drain_socket();
    void fail() noexcept;

    std::unique_ptr<Pipe> pipe_;
    UniqueFd socket_;
    std::shared_ptr<ConnectionLife> life_;
    std::shared_ptr<ProcessCounters> counters_;
    const std::byte* data_ = nullptr; ///< payload of the message at the ring's head, once prepared
    std::uint32_t length_ = 0;
    bool peer_gone_ = false;
    bool failed_ = false;
};

} // namespace comch::link::soft
