// A soft connection: a pipe, the socket that set it up (and is its doorbell), the peer's pidfd, and
// the one-sided engine. Contract: core/link/link.hpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/unique_fd.hpp"
#include "core/counters/process_counters.hpp"
#include "core/device/process_id.hpp"
#include "core/link/link.hpp"
#include "core/link/one_sided/engine.hpp"
#include "core/link/soft/connection_life.hpp"
#include "core/link/soft/pipe.hpp"
#include "core/link/soft/socket.hpp"

namespace comch::link {

extern template class OneSidedEngine<soft::Pipe>; // soft/one_sided.cpp

} // namespace comch::link

namespace comch::link::soft {

class Port;
class Channel;
class Connection;

/// What an epoll entry of a port stands for.
struct Watch {
    enum class Kind : std::uint8_t { listener, stranger, socket, process, bell, timer } kind;
    void* object;
};

class Connection {
public:
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    [[nodiscard]] void* user() const noexcept { return user_; }
    void set_user(void* user) noexcept { user_ = user; }
    [[nodiscard]] const PeerInfo& peer() const noexcept { return peer_; }
    [[nodiscard]] bool established() const noexcept { return state_ == State::established; }

    Errc send(std::uint8_t id, std::span<const std::byte> message) noexcept {
        return pipe_.send(id, message);
    }
    static constexpr std::uint32_t max_cell = Pipe::max_cell;
    static constexpr std::uint32_t max_line = Pipe::max_line;
    template <class Fill>
    bool send_line(std::uint8_t id, std::uint32_t length, Fill&& fill) noexcept {
        return pipe_.send_line(id, length, std::forward<Fill>(fill));
    }
    [[nodiscard]] bool answering() const noexcept { return pipe_.answering(); }
    template <class Fill>
    bool send_cell(std::uint8_t id, std::uint32_t length, Fill&& fill) noexcept {
        return pipe_.send_cell(id, length, std::forward<Fill>(fill));
    }
    template <class Fill>
    Errc send_inline(std::uint8_t id, std::uint32_t length, Fill&& fill) noexcept {
        return pipe_.send_inline(id, length, std::forward<Fill>(fill));
    }
    template <class Pack>
    std::int64_t send_packed(std::uint8_t id, std::uint32_t max, Pack&& pack,
                             std::uint32_t data_at = 0) noexcept {
        return pipe_.send_packed(id, max, std::forward<Pack>(pack), data_at);
    }
    Errc send_ordered(std::uint8_t id, std::span<const std::byte> message) noexcept {
        return pipe_.send_ordered(id, message);
    }
    void confirm_received() noexcept {
        if (pipe_.rx().control() != nullptr) {
            pipe_.rx().confirm();
        }
    }
    void hurry_confirmation() noexcept {} // it comes soon enough unasked
    [[nodiscard]] std::uint64_t sent() const noexcept { return pipe_.sent(); }
    [[nodiscard]] std::uint64_t confirmed() noexcept { return pipe_.confirmed(); }

    Errc put(const void* local, std::size_t length, RemoteRegion& region, std::uint64_t address,
             void* token, LocalMemory memory = {});
    Errc put_copy(const void* local, std::size_t length, RemoteRegion& region,
                  std::uint64_t address);
    /// `into`: memory of ours that all of `local` is part of, which the peer may map to write there.
    Errc get(void* local, std::size_t length, RemoteRegion& region, std::uint64_t address,
             void* token, LocalMemory memory = {});
    Errc write(const void*, std::size_t, RemoteRegion&, std::uint64_t, void*,
               LocalMemory) noexcept {
        return Errc::unsupported;
    }
    [[nodiscard]] bool may_open_window(std::uint64_t) const noexcept { return false; }
    [[nodiscard]] std::uint64_t open_window(std::uint64_t, const std::byte*, std::uint64_t,
                                            std::uint32_t) noexcept {
        return 0;
    }
    Errc close_window(std::uint64_t, void*) noexcept { return Errc::ok; }
    Errc atomic(const AtomicRequest& request, RemoteRegion& region, std::uint64_t address,
                void* token);
    Errc flush(void* token);
    Errc fence();
    /// Gives up on all one-sided operations and flushes in flight: `done(token, Errc::canceled)`.
    template <class Done> void cancel(Done&& done) {
        for (auto ended = std::exchange(untold_, {}); !ended.empty(); ended.pop_back()) {
            done(ended.back().first, ended.back().second);
        }
        one_sided_.cancel(Errc::canceled, done);
    }
    /// While on, sends answer `again`: the layer above has older ones in a queue.
    void hold(bool on) noexcept {
        if (on) {
            pipe_.hold(Pipe::hold_queue);
        } else {
            pipe_.release(Pipe::hold_queue);
        }
    }
    /// Has room come since the last `again`?
    [[nodiscard]] bool may_retry() const noexcept { return pipe_.may_retry(); }
    [[nodiscard]] Errc check() noexcept;
    [[nodiscard]] Result<Channel> open_channel(std::uint64_t tag);

    [[nodiscard]] bool lost_writes() const noexcept { return one_sided_.lost_writes(); }

    /// Why it failed, for people; empty when there is nothing more to say than the reason.
    [[nodiscard]] const std::string& error_text() const noexcept { return error_text_; }

private:
    friend class Port;

    enum class State : std::uint8_t {
        connecting, ///< initiator: the socket or the hello is not through yet
        waiting,    ///< initiator: hello is sent, no answer yet
        established,
        ended,  ///< reported to the sink
        closed, ///< closed by its owner; freed soon
    };

    Connection() : one_sided_(pipe_) {}

    /// Memory that an operation may touch at once.
    struct Direct {
        std::byte* at = nullptr; ///< null: it goes through the ring
        Errc refused = Errc::ok; ///< or not at all
        RegionTable::Pin pin{};  ///< keeps our own memory registered meanwhile
    };
    /// Where [address, +length) of the region is in this process, if it may be touched directly now.
    [[nodiscard]] Direct direct(RemoteRegion& region, std::uint64_t address, std::uint64_t length,
                                std::uint32_t access);
    void request_mapping(RemoteRegion& region);
    /// May the kernel copy, if the owner does not attend?
    [[nodiscard]] bool by_kernel(const RemoteRegion& region, std::uint32_t access) const noexcept;
    void let_channels_open() {
        life_->open(pipe_.socket(), pipe_.fenced(), pipe_.rx().control()->producer.closed);
    }
    /// For the counters. Any thread, once channels can be opened.
    [[nodiscard]] SlotInfo slot_info(counters::SlotState state) const;
    [[nodiscard]] bool spins_without_progress() noexcept;
    /// When the message at the ring's head was sent, at the earliest: a cell is written after the
    /// one before it in its place was read. `now`: of the pass that reads it.
    [[nodiscard]] std::uint64_t no_older_than(std::uint64_t now) noexcept {
        const RingReader& rx = pipe_.rx();
        if (rx.position() - lap_begin_ >= rx.cells()) {
            oldest_ns_ = std::exchange(lap_ns_, now);
            lap_begin_ = rx.position();
        }
        return oldest_ns_;
    }
    [[nodiscard]] bool needs_progress_for_mapping() noexcept;
    /// A request for a mapping waits, and no more are unanswered than the peer keeps answers for.
    [[nodiscard]] bool may_ask() const noexcept {
        return !map_requests_.empty() &&
               asked_.size() < map_requests_.size() + tuning::max_one_sided;
    }
    void needs_work();

    // Touched by every poll.
    Pipe pipe_;
    State state_ = State::connecting;
    bool hot_ = false;          ///< in the port's list of rings to poll at every call
    bool resting_ = false;      ///< quiet: its writer rings the bell when there is something
    bool working_ = false;      ///< in the port's list of connections with something to advance
    bool one_way_ = false;      ///< the peer sends only replies
    bool peer_one_way_ = false; ///< we send only replies
    bool paused_ = false;     ///< a get of the peer is being answered; what it sent after it waits
    bool unanswered_ = false; ///< initiator: counted in the port's unanswered_
    bool peer_gone_ = false;  ///< to be reported once its ring is empty
    void* user_ = nullptr;

    OneSidedEngine<Pipe> one_sided_;
    Port* port_ = nullptr;
    // Of a port that hands messages out in order: a whole ring has been read since lap_ns_.
    std::uint64_t lap_begin_ = 0;
    std::uint64_t lap_ns_ = 0;
    std::uint64_t oldest_ns_ = 0;
    unsigned progress_seen_ = 0;
    unsigned fetches_since_progress_ = 0;
    unsigned served_without_mapping_ = 0; ///< while one is asked for
    PeerInfo peer_;
    std::string peer_name_; ///< for the counters
    UniqueFd socket_;
    UniqueFd process_;
    UniqueFd memfd_; ///< initiator: until the hello is sent
    Watch socket_watch_{Watch::Kind::socket, this};
    Watch process_watch_{Watch::Kind::process, this};
    std::size_t index_ = 0; ///< in the port's list
    // Of the port's decision to let the ring rest (Port::rest_quiet_rings).
    std::uint64_t rest_position_ = 0; ///< where the ring was at the last look
    std::uint64_t rest_since_ns_ = 0;
    unsigned quiet_looks_ = 0; ///< how often it was still there
    unsigned rest_after_ = 1;  ///< so many such looks
    std::shared_ptr<ConnectionLife> life_ = std::make_shared<ConnectionLife>();
    struct Asked {
        std::uint64_t region;
        std::uint64_t length; ///< that its key says it has
        std::shared_ptr<Import> import;
    };
    std::vector<Asked> asked_;                ///< imports whose answer is on its way
    std::vector<std::uint64_t> map_requests_; ///< requests that wait for the socket
    std::vector<std::uint64_t> map_answers_;  ///< answers that wait for the socket
    std::vector<std::byte> hello_;            ///< initiator: until it is sent
    std::vector<std::byte> answer_;           ///< acceptor: until it is sent
    std::string entry_;                       ///< initiator: the socket to reach
    std::string error_text_;
    /// What the end has ended, and the sink has not been told of yet; the next is the last.
    std::vector<std::pair<void*, Errc>> untold_;
};

} // namespace comch::link::soft
