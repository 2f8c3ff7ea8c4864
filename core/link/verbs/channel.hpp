// A verbs channel: a queue pair under a connection with queues and an rdma_cm channel of its own, so
// that its two ends share nothing with the threads of the connection. Contract: core/link/link.hpp.
#pragma once

#include <memory>

#include <comch/counters_layout.hpp>

#include "core/base/unique_fd.hpp"
#include "core/counters/process_counters.hpp"
#include "core/link/verbs/connection_life.hpp"
#include "core/link/verbs/pipe.hpp"

namespace comch::link::verbs {

class Channel {
public:
    Channel() = default;
    Channel(Channel&&) noexcept = default;
    Channel& operator=(Channel&& other) noexcept;
    ~Channel();

    /// The opener's end: connects while it is used.
    [[nodiscard]] static Result<Channel> open(std::shared_ptr<RdmaDevice> device,
                                              std::shared_ptr<ConnectionLife> life,
                                              std::shared_ptr<ProcessCounters> counters,
                                              const SlotInfo& parent, std::uint64_t tag);
    /// The other end: of a request that was checked. Takes the identifier over.
    [[nodiscard]] static Result<Channel> accept(std::shared_ptr<RdmaDevice> device,
                                                std::shared_ptr<ConnectionLife> life,
                                                std::shared_ptr<ProcessCounters> counters,
                                                const SlotInfo& parent, CmId id,
                                                const CmEvent& request);

    Errc send(std::uint8_t id, std::span<const std::byte> message) noexcept {
        return attend(core_->pipe->send(id, message));
    }
    template <class Fill>
    Errc send_inline(std::uint8_t id, std::uint32_t length, Fill&& fill) noexcept {
        return attend(core_->pipe->send_inline(id, length, std::forward<Fill>(fill)));
    }
    template <class Pack>
    std::int64_t send_packed(std::uint8_t id, std::uint32_t max, Pack&& pack) noexcept {
        const std::int64_t result = core_->pipe->send_packed(id, max, std::forward<Pack>(pack));
        if (result < 0) [[unlikely]] {
            (void)attend(static_cast<Errc>(-result));
        }
        return result;
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
        Core& core = *core_;
        if (!core.pipe->started()) [[unlikely]] {
            core.look_at_cm();
        }
        unsigned count = 0;
        while (count < budget) {
            if (!core.peek()) {
                core.pipe->idle();
                break;
            }
            if (!on_message(core.header.id, core.data, core.length)) {
                core.pipe->idle(); // what was taken out before it counts as taken
                break;
            }
            core.pipe->count_received(core.length);
            ++count;
            core.pop();
        }
        return count;
    }

    [[nodiscard]] int event_fd() const noexcept { return core_->epoll.get(); }
    [[nodiscard]] Errc arm();
    [[nodiscard]] Errc check();

private:
    /// Everything; it may outlive the channel for the moment that its last words take.
    struct Core {
        std::shared_ptr<RdmaDevice> device;
        std::shared_ptr<ConnectionLife> life;
        std::shared_ptr<ProcessCounters> counters;
        UniqueFd epoll;
        UniqueFd bell; ///< an eventfd: the connection has ended
        CmChannel cm;
        std::unique_ptr<Queues> queues;
        std::unique_ptr<Pipe> pipe;
        CmId id;
        wire::Request request{}; ///< opener
        std::uint64_t deadline_ns = 0; ///< once it is only there to end

        bool opened = false; ///< the message at the head was looked at before
        bool attached = false; ///< our first record has been sent, or the peer's has come
        bool is_opener = false;
        bool peer_gone = false;
        bool orderly = false; ///< the peer refused because it was going away
        bool failed = false;
        wire::Header header{};
        const std::byte* data = nullptr;
        std::uint32_t length = 0;

        ~Core();
        [[nodiscard]] Result<void> prepare(const SlotInfo& parent);
        void look_at_cm();
        void on_event(const CmEvent& event);
        /// Finds the next message; handles what comes before it. False: there is none.
        [[nodiscard]] bool peek();
        void pop() noexcept;
        void fail() noexcept;
        /// Nothing of it is needed any more.
        [[nodiscard]] bool over();
        void let_go() noexcept;
        /// The device goes away.
        void abandon() noexcept;
    };
    friend class Undertaker;

    explicit Channel(std::unique_ptr<Core> core) : core_(std::move(core)) {}

    /// A refused send is when there is time for everything else.
    Errc attend(Errc result) noexcept {
        if (result == Errc::again) [[unlikely]] {
            core_->look_at_cm();
            if (!core_->pipe->started()) {
                (void)core_->peek();
            }
        }
        return result;
    }

    std::unique_ptr<Core> core_;
};

/// Channels whose owner is done with them, while their last words are on the way. Any thread.
void tend_lingering_channels();
/// The same, until none is left or `deadline_ns` has come.
void finish_lingering_channels(std::uint64_t deadline_ns);

} // namespace comch::link::verbs
