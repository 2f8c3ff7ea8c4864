// A verbs connection: a pipe, the identifier that connected it, and the one-sided operations.
// Contract: core/link/link.hpp.
//
// One-sided operations go to the peer's memory by RDMA where its key says how, and as records that
// the peer's CPU executes where not (and always for atomics). A long one goes from, or to, the
// caller's memory without a copy.
#pragma once

#include <cassert>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/counters/process_counters.hpp"
#include "core/link/link.hpp"
#include "core/link/one_sided/engine.hpp"
#include "core/link/verbs/cm.hpp"
#include "core/link/verbs/connection_life.hpp"
#include "core/link/verbs/pipe.hpp"

namespace comch::link {

extern template class OneSidedEngine<verbs::Pipe>; // verbs/one_sided.cpp

} // namespace comch::link

namespace comch::link::verbs {

class Port;
class Channel;

/// What an identifier's context points to.
struct Watch {
    enum class Kind : std::uint8_t { listener, connection } kind;
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
        return pipe_->send(id, message);
    }
    template <class Fill>
    Errc send_inline(std::uint8_t id, std::uint32_t length, Fill&& fill) noexcept {
        return pipe_->send_inline(id, length, std::forward<Fill>(fill));
    }
    template <class Pack>
    std::int64_t send_packed(std::uint8_t id, std::uint32_t max, Pack&& pack,
                             std::uint32_t /*data_at*/ = 0) noexcept {
        return pipe_->send_packed(id, max, std::forward<Pack>(pack));
    }
    /// All connections of a port share a completion queue, whose order is that of arrival: there is
    /// nothing to add.
    Errc send_ordered(std::uint8_t id, std::span<const std::byte> message) noexcept {
        return pipe_->send(id, message);
    }
    void confirm_received() noexcept {} // the header of whatever is sent does
    void hurry_confirmation() noexcept { pipe_->hurry(); }
    [[nodiscard]] std::uint64_t sent() const noexcept { return pipe_->sent(); }
    [[nodiscard]] std::uint64_t confirmed() noexcept { return pipe_->confirmed(); }

    /// `memory.region`: the region of this process that the local memory is part of, if the caller
    /// knows one: then it need not be registered for this operation alone.
    Errc put(const void* local, std::size_t length, RemoteRegion& region, std::uint64_t address,
             void* token, LocalMemory memory = {});
    Errc put_copy(const void* local, std::size_t length, RemoteRegion& region,
                  std::uint64_t address) {
        static_assert(tuning::max_message <= tuning::bounce_up_to &&
                      tuning::max_message <= Pipe::max_chunk); // copied, whichever way it goes
        assert(length <= tuning::max_message);
        return put(local, length, region, address, nullptr);
    }
    Errc get(void* local, std::size_t length, RemoteRegion& region, std::uint64_t address,
             void* token, LocalMemory memory = {});
    /// A put by the device alone, whose end is reported always: when the peer's device has the
    /// data. unsupported: the device cannot do it by itself, now or ever.
    Errc write(const void* local, std::size_t length, RemoteRegion& region, std::uint64_t address,
               void* token, LocalMemory memory = {});
    Errc atomic(const AtomicRequest& request, RemoteRegion& region, std::uint64_t address,
                void* token);
    /// open_window() is worth a try, for so many bytes.
    [[nodiscard]] bool may_open_window(std::uint64_t length) noexcept {
        return pipe_->may_open_window(length);
    }
    /// The peer, and nobody else, may do that (Access) to [base, base + length), a part of a region of
    /// this process, until close_window(). What is sent next may tell it, RegionKey::link_data, and finds
    /// room. 0: not now, or not with this device.
    [[nodiscard]] std::uint64_t open_window(std::uint64_t region, const std::byte* base,
                                            std::uint64_t length, std::uint32_t access);
    /// in_progress: the token is reported when the peer's device reaches nothing any more through it,
    /// whatever happens meanwhile. ok: it does not now; or there is no token, and nobody is told.
    Errc close_window(std::uint64_t link_data, void* token);
    Errc flush(void* token);
    Errc fence();
    template <class Done> void cancel(Done&& done) {
        for (auto ended = std::exchange(untold_, {}); !ended.empty(); ended.pop_back()) {
            done(ended.back().first, ended.back().second);
        }
        const bool worked = !pipe_->failed();
        std::vector<void*> tokens = take_own_operations();
        canceled_ = canceled_ || (worked && pipe_->failed());
        // Whoever is told may flush again: that one stays.
        const Flushes given_up = std::exchange(flushes_, {});
        one_sided_.cancel(Errc::canceled, [&](void* token, Errc status) {
            if (!is_flush(given_up, token)) {
                done(token, status);
            }
        });
        for (void* const token : tokens) {
            done(token, Errc::canceled);
        }
    }
    void hold(bool on) noexcept {
        if (on) {
            pipe_->hold(Pipe::hold_queue);
        } else {
            pipe_->release(Pipe::hold_queue);
        }
    }
    [[nodiscard]] bool may_retry() const noexcept { return pipe_->may_retry(); }
    [[nodiscard]] Errc check() const noexcept { return pipe_->broken(); }
    [[nodiscard]] bool lost_writes() const noexcept {
        return lost_device_writes_ || one_sided_.lost_writes();
    }
    [[nodiscard]] Result<Channel> open_channel(std::uint64_t tag);

    [[nodiscard]] const std::string& error_text() const noexcept { return error_text_; }

private:
    friend class Port;
    friend struct Inside; // tests

    enum class State : std::uint8_t {
        connecting, ///< initiator: no queue pair that is connected yet
        waiting,    ///< initiator: Hello is sent, no answer yet
        meeting,    ///< acceptor: no Hello yet
        established,
        ended,  ///< reported to the sink
        closed, ///< closed by its owner; its last words may be on the way
    };

    /// A put or get that the device does from or to the caller's memory.
    struct Transfer {
        bool is_get = false;
        bool reported = false; ///< or given up
        bool fenced = false;   ///< there was a fence() behind it
        std::byte* local = nullptr;
        std::uint64_t remote = 0;
        std::uint64_t remaining = 0; ///< not posted yet
        std::uint32_t lkey = 0;
        std::uint32_t rkey = 0;
        Pipe::Ticket last = 0;
        void* token = nullptr;
        Mr mr; ///< if it was registered for this
    };
    struct Flush {
        void* token = nullptr;
        Pipe::Ticket ticket = 0;
        std::size_t transfers = 0; ///< that were there before it, of those that are left
        bool records_done = false;
    };

    struct Closing {
        Pipe::Ticket ticket = 0;
        void* token = nullptr;
    };

    explicit Connection(std::unique_ptr<Pipe> pipe) : pipe_(std::move(pipe)), one_sided_(*pipe_) {}

    /// Copied, so that the caller's memory is free at once.
    [[nodiscard]] Errc write_copied(const std::byte* from, std::size_t length,
                                    const RemoteRegion& region, std::uint64_t address,
                                    bool signalled) noexcept;
    [[nodiscard]] bool can_go_direct(const RemoteRegion& region, std::uint32_t access) noexcept;
    /// The region is this process's own, and does not allow it: no need to ask.
    [[nodiscard]] static bool own_refuses(const RemoteRegion& region, std::uint64_t address,
                                          std::uint64_t length, std::uint32_t access) noexcept;
    /// Why an operation of any kind cannot begin, or cannot now; ok: it can.
    [[nodiscard]] Errc refusal(const RemoteRegion& region, std::uint64_t address,
                               std::uint64_t length, std::uint32_t access) noexcept;
    Errc start_transfer(bool is_get, std::byte* local, std::size_t length, RemoteRegion& region,
                        std::uint64_t address, void* token, std::uint64_t local_region);
    /// Posts what of the transfers has room. True if something moved.
    bool push_transfers();
    [[nodiscard]] bool flush_reached(Flush& flush);
    using Flushes = std::deque<std::unique_ptr<Flush>>;
    [[nodiscard]] static bool is_flush(const Flushes& among, const void* token) noexcept;
    [[nodiscard]] std::vector<void*> take_own_operations();
    /// Until the device is done with the request, or has given it up, or no longer comes to it.
    void wait_at_end(Pipe::Ticket ticket) noexcept;
    /// Of which neither the device nor the peer has shown that they are done.
    [[nodiscard]] bool has_unfinished_writes() const noexcept;
    /// For a close: nothing of them is reported any more. What the device is sending it goes on
    /// sending, so that what was sent around it arrives.
    void drop_operations();
    /// The device lets go of the caller's memory, up to that request, and the queue pair is of no
    /// use any more.
    void take_back_memory(Pipe::Ticket last);
    [[nodiscard]] bool has_closed_windows() const noexcept {
        return !closing_.empty() && pipe_->done(closing_.front().ticket);
    }
    void needs_work();
    [[nodiscard]] bool has_work() const noexcept {
        return one_sided_.busy() || !transfers_.empty() || !flushes_.empty() || !closing_.empty() ||
               paused_ || !deferred_.empty() || pipe_->owes_answer();
    }

    /// Completes what is done: done(token, Errc).
    template <class Done> unsigned advance(Done&& done) {
        const auto report = [&](void* token, Errc status) {
            if (is_flush(flushes_, token)) {
                static_cast<Flush*>(token)->records_done = true;
            } else {
                done(token, status);
            }
        };
        unsigned count = one_sided_.advance(report);
        count += push_transfers() ? 1 : 0;
        while (!transfers_.empty() && transfers_.front().remaining == 0 &&
               pipe_->done(transfers_.front().last)) {
            const Transfer transfer = std::move(transfers_.front());
            transfers_.pop_front();
            for (const auto& flush : flushes_) {
                flush->transfers -= flush->transfers != 0 ? 1 : 0;
            }
            pipe_->encourage();
            if (!transfer.reported) {
                done(transfer.token, Errc::ok);
            }
            ++count;
        }
        while (!flushes_.empty() && flush_reached(*flushes_.front())) {
            void* const token = flushes_.front()->token;
            flushes_.pop_front();
            done(token, Errc::ok);
            ++count;
        }
        while (has_closed_windows()) {
            pipe_->note_closed_windows();
            void* const token = closing_.front().token;
            closing_.erase(closing_.begin());
            if (token != nullptr) {
                done(token, Errc::ok);
            }
            ++count;
        }
        return count;
    }
    template <class Done> void fail_all(Errc status, Done&& done) {
        lost_device_writes_ = has_unfinished_writes();
        for (const auto& [token, result] : one_sided_.fail_all(status)) {
            if (is_flush(flushes_, token)) {
                static_cast<Flush*>(token)->records_done = result == Errc::ok;
            } else {
                done(token, result);
            }
        }
        while (status == Errc::not_connected && !flushes_.empty() &&
               flush_reached(*flushes_.front())) {
            done(flushes_.front()->token, Errc::ok);
            flushes_.pop_front();
        }
        const std::vector<void*> tokens = take_own_operations();
        flushes_.clear();
        for (void* const token : tokens) {
            done(token, status);
        }
    }
    [[nodiscard]] SlotInfo slot_info(counters::SlotState state) const;

    std::unique_ptr<Pipe> pipe_;
    State state_ = State::connecting;
    bool peer_one_way_ = false; ///< we send only replies
    bool paused_ = false;       ///< a get of the peer is being answered as records
    bool working_ = false;      ///< in the port's list
    bool owing_ = false;        ///< in the port's list of those with credit to return
    bool owed_at_look_ = false; ///< of the port, what the peer waits for
    std::uint64_t returned_at_look_ = 0;
    bool peer_gone_ = false; ///< to be reported once nothing more of it is here
    bool is_initiator_ = false;
    bool canceled_ = false; ///< transfers that the device was at: that ended the queue pair
    void* user_ = nullptr;
    OneSidedEngine<Pipe> one_sided_;
    std::deque<Transfer> transfers_;
    Flushes flushes_;
    std::vector<Closing> closing_;        ///< windows, in order; has room for all of them
    Pipe::Ticket last_write_ = 0;         ///< that was copied: nobody else waits for it
    std::uint64_t last_write_behind_ = 0; ///< so many records of ours
    bool lost_device_writes_ = false;
    std::deque<Queues::Arrival> deferred_; ///< arrived while paused

    Port* port_ = nullptr;
    PeerInfo peer_;
    std::string peer_name_; ///< for the counters
    CmId id_;
    Watch watch_{Watch::Kind::connection, this};
    std::size_t index_ = 0; ///< in the port's list
    std::shared_ptr<ConnectionLife> life_ = std::make_shared<ConnectionLife>();
    std::uint64_t token_ = 0;             ///< by which the peer names this connection
    std::uint64_t deadline_ns_ = 0;       ///< of its end, or of a Hello
    std::uint64_t drain_deadline_ns_ = 0; ///< of its queue pair, once that is not needed any more
    std::uint64_t heard_ns_ = 0;          ///< when the peer last gave a sign of life, or was asked
    std::uint64_t asked_ns_ = 0; ///< when it was asked for one, in vain so far; 0: it was not
    // initiator, until it is established
    wire::Request request_{};
    Address remote_;
    std::string service_;
    FunctionId service_function_ = 0;
    unsigned probe_ = 0;
    unsigned stale_attempts_ = 0;
    /// Requests for channels that came before the answer that lets them be.
    std::vector<std::pair<CmId, CmEvent>> early_channels_;
    // acceptor, until it is established
    std::string expected_service_;
    std::string error_text_;
    /// What the end has ended, and the sink has not been told of yet; the next is the last.
    std::vector<std::pair<void*, Errc>> untold_;
};

} // namespace comch::link::verbs
