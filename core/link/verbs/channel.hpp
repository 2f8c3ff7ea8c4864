// A verbs channel: a queue pair under a connection with queues and an rdma_cm channel of its own,
// so that its two ends share nothing with the threads of the connection. Contract:
// core/link/link.hpp.
#pragma once

#include <memory>

#include <comch/counters_layout.hpp>

#include "core/link/verbs/channel_core.hpp"

namespace comch::link::verbs {

class Channel {
public:
    Channel() = default;
    Channel(Channel&&) noexcept = default;
    Channel& operator=(Channel&& other) noexcept;
    ~Channel();

    /// The opener's end: connects while it is used.
    [[nodiscard]] static Result<Channel> open(std::shared_ptr<ConnectionLife> life,
                                              std::shared_ptr<ProcessCounters> counters,
                                              const SlotInfo& parent, std::uint64_t tag);
    /// The other end: of a request that was checked. Takes the identifier over.
    [[nodiscard]] static Result<Channel> accept(std::shared_ptr<RdmaDevice> device,
                                                std::shared_ptr<ConnectionLife> life,
                                                std::shared_ptr<ProcessCounters> counters,
                                                const SlotInfo& parent, CmId id,
                                                const CmEvent& request);

    Errc send(std::uint8_t id, std::span<const std::byte> message, bool more = false) noexcept {
        const auto lock = core_->lock_until_ready();
        return attend(core_->pipe->send(id, message, more));
    }
    template <class Fill>
    Errc send_inline(std::uint8_t id, std::uint32_t length, Fill&& fill,
                     bool more = false) noexcept {
        const auto lock = core_->lock_until_ready();
        return attend(core_->pipe->send_inline(id, length, std::forward<Fill>(fill), more));
    }
    template <class Pack>
    std::int64_t send_packed(std::uint8_t id, std::uint32_t max, Pack&& pack,
                             bool more = false) noexcept {
        const auto lock = core_->lock_until_ready();
        const std::int64_t result =
            core_->pipe->send_packed(id, max, std::forward<Pack>(pack), more);
        if (result < 0) [[unlikely]] {
            (void)attend(static_cast<Errc>(-result));
        }
        return result;
    }
    void ring() noexcept {
        const auto lock = core_->lock_until_ready();
        core_->pipe->ring();
    }
    [[nodiscard]] std::uint64_t sent() const noexcept { return core_->pipe->sent(); }
    [[nodiscard]] std::uint64_t confirmed() noexcept { return core_->pipe->confirmed(); }
    [[nodiscard]] counters::Counter& buffer_stalls() noexcept {
        return core_->pipe->slot()->tx.buffer_stalls;
    }
    [[nodiscard]] const Tally& tally() const noexcept { return core_->queues->tally(); }

    /// Hands out up to `budget` messages: on_message(id, data, length) -> bool; false leaves the
    /// message for the next poll.
    template <class F> unsigned poll(F&& on_message, unsigned budget) {
        ChannelCore& core = *core_;
        const auto lock = core_->lock_until_ready();
        if (!core.pipe->started()) [[unlikely]] {
            core.connect_on();
        }
        unsigned count = 0;
        while (count < budget) {
            if (!core.peek()) {
                core.pipe->quiet();
                break;
            }
            if (!on_message(core.header.id, core.data, core.length)) {
                core.pipe->idle(); // what was taken out before it counts as taken
                break;
            }
            core.pipe->count_received(core.length);
            ++count;
            core.pop();
            if (core.queues->front() == nullptr) {
                break; // as Port::progress(): a look in vain is in the way of the answer
            }
        }
        return count;
    }

    static constexpr bool sends_packets = true;
    static constexpr bool writes_directly = true;
    using Ticket = Pipe::Ticket;
    [[nodiscard]] bool local_key(std::uint64_t region, std::uint32_t& key) {
        const RdmaDevice::RegionKeys keys = keys_of(region);
        key = keys.lkey;
        return keys.valid;
    }
    [[nodiscard]] bool remote_key(std::uint64_t region, std::uint64_t& key) {
        const RdmaDevice::RegionKeys keys = keys_of(region);
        key = keys.rkey;
        return keys.valid;
    }
    [[nodiscard]] std::uint32_t max_write() const noexcept;
    Errc write(const std::byte* from, std::uint32_t length, std::uint32_t local_key,
               std::uint64_t to, std::uint64_t remote_key) noexcept;
    Errc write_and_send(const std::byte* from, std::uint32_t length, std::uint32_t local_key,
                        std::uint64_t to, std::uint64_t remote_key, std::uint8_t id,
                        Ticket& ticket) noexcept;
    Errc send_from(std::uint8_t id, const std::byte* from, std::uint32_t length,
                   std::uint32_t local_key, bool tell, bool more, Ticket& ticket) noexcept {
        const auto lock = core_->lock_until_ready();
        return attend(core_->pipe->send_from(from, length, local_key, id, tell, more, ticket));
    }
    [[nodiscard]] bool tell_of(Ticket ticket) noexcept {
        const auto lock = core_->lock_until_ready();
        return core_->pipe->tell_of(ticket);
    }
    [[nodiscard]] bool written(Ticket ticket) const noexcept { return core_->pipe->done(ticket); }
    [[nodiscard]] bool settled(Ticket ticket) const noexcept {
        const auto lock = core_->lock_until_ready();
        return core_->pipe->settled(ticket);
    }
    [[nodiscard]] std::uint32_t written_length() const noexcept { return core_->written; }
    [[nodiscard]] bool claim(std::uint64_t place) noexcept {
        const auto lock = core_->lock_until_ready();
        return core_->pipe->claim(place);
    }
    [[nodiscard]] std::optional<std::uint64_t> withdraw(std::uint64_t place) noexcept;
    void cut() noexcept;

    [[nodiscard]] int event_fd() const noexcept { return core_->epoll.get(); }
    [[nodiscard]] Errc arm();
    [[nodiscard]] Errc check();
    [[nodiscard]] bool peer_gone();
    [[nodiscard]] bool was_refused() const noexcept;

private:
    friend struct Inside; // tests

    [[nodiscard]] RdmaDevice::RegionKeys keys_of(std::uint64_t region) {
        const ChannelCore::KnownKeys& known = core_->known(region);
        return known.region == region && known.keys.valid ? known.keys : ask_for_keys(region);
    }
    [[nodiscard]] RdmaDevice::RegionKeys ask_for_keys(std::uint64_t region);
    explicit Channel(std::shared_ptr<ChannelCore> core) : core_(std::move(core)) {}

    /// A refused send is when there is time for everything else.
    Errc attend(Errc result) noexcept {
        if (result == Errc::again) [[unlikely]] {
            core_->connect_on();
        }
        return result;
    }

    std::shared_ptr<ChannelCore> core_;
};

} // namespace comch::link::verbs
