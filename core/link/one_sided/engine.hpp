// One-sided operations of one connection that travel as messages: what this end asked for, and what
// it owes the peer. (Memory that is mapped here is not touched by this: see Connection.)
//
// The target's CPU executes the peer's operations when it progresses; large ones stream in chunks
// (on the soft link through the bulk ring), both CPUs copying at once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/link/link.hpp"
#include "core/link/records.hpp"
#include "core/memory/region_table.hpp"
#include "core/memory/remote_region.hpp"

namespace comch::link {

/// Performs an atomic on local memory; answers the old value.
[[nodiscard]] std::uint64_t execute_atomic(std::byte* at, const AtomicRequest& request) noexcept;

/// `Pipe` is what records travel through: soft::Pipe says what it must have. The definitions are in
/// engine_impl.hpp, instantiated once for each link kind.
template <class Pipe> class OneSidedEngine {
public:
    explicit OneSidedEngine(Pipe& pipe) : pipe_(pipe) {}

    // ---- requests of this end; `region` was checked to contain the range -----------------------
    // `by_kernel`: where the peer does not attend, its memory may be reached without it.

    [[nodiscard]] Errc put(const std::byte* from, std::size_t length, std::uint64_t region,
                           std::uint64_t address, void* token, bool by_kernel = false);
    /// The put that was just answered in_progress, without a token: what of it is not out yet is
    /// copied, so that its source is the caller's again.
    /// Errc::no_memory: the rest is given up.
    [[nodiscard]] Errc keep_rest_of_put();
    /// `into`: memory of ours that `to` is part of, and that the peer may map to write there; null:
    /// none.
    [[nodiscard]] Errc get(std::byte* to, std::size_t length, std::uint64_t region,
                           std::uint64_t address, void* token, bool by_kernel = false,
                           const RegionKey* into = nullptr);
    /// The same of memory that is mapped here, at `from`, when mapped_reads_allowed(): by our CPU, or by
    /// both.
    [[nodiscard]] Errc get_mapped(std::byte* to, const std::byte* from, std::size_t length,
                                  std::uint64_t region, std::uint64_t address, void* token,
                                  const RegionKey* into);
    /// By our CPU.
    void copy_mapped(std::byte* to, const std::byte* from, std::size_t length) noexcept;
    [[nodiscard]] Errc atomic(const AtomicRequest& request, std::uint64_t region,
                              std::uint64_t address, void* token);
    [[nodiscard]] Errc flush(void* token);
    [[nodiscard]] Errc fence();

    /// A later operation may go directly to mapped memory: nothing of ours that it must not
    /// overtake is still on its way.
    [[nodiscard]] bool direct_allowed() noexcept {
        return (direct_after_ == 0 && active_ == canceled_) || caught_up();
    }

    /// The same for one that only reads: a get that both ends copy is no reason to wait.
    [[nodiscard]] bool mapped_reads_allowed() noexcept {
        return (direct_after_ == 0 && active_ == canceled_ + joints_active_) || caught_up();
    }

    /// What the peer has us write to could be mapped, if it were asked for it; null: nothing is.
    [[nodiscard]] RemoteRegion* wanted_mapping() noexcept {
        return wanted_ != nullptr && wanted_->import()->state() == Import::State::unknown ? wanted_
                                                                                          : nullptr;
    }
    /// Who the peer is: to map its memory.
    void set_peer(std::uint64_t process_id) noexcept { peer_process_ = process_id; }

    /// Something is done already, but its completion is reported by the next advance().
    void defer(void* token) { defer(token, sequence_); }
    /// Before anything more is under way, or is done and will be deferred: its end needs no memory.
    void make_room_to_end(std::size_t more = 1) {
        if (endings_.capacity() < outstanding() + more) {
            const std::size_t room = 2 * (outstanding() + more) + 2;
            deferred_.reserve(room);
            endings_.reserve(room);
        }
    }

    // ---- progress ------------------------------------------------------------------------------

    /// There is something for advance() to do, or a reply to wait for.
    [[nodiscard]] bool busy() const noexcept {
        return !jobs_.empty() || !flushes_.empty() || !deferred_.empty() || active_ != canceled_ ||
               helping_ != 0 || asks_for_puts_ || withdrawing_;
    }
    /// Answers to the peer wait for room.
    [[nodiscard]] bool owes() const noexcept { return replies_waiting_ != 0; }
    [[nodiscard]] bool awaits_reply() const noexcept { return active_ != 0; }
    /// If the peer goes on not to attend, what waits for it will be done without it: no sleep until
    /// then.
    [[nodiscard]] bool may_pass_by() noexcept;

    /// Before a sleep: pushes what can go out by now. True if advance() has something to report.
    [[nodiscard]] bool push_before_sleep();

    /// Pushes what waits for room and completes flushes: `done(token, Errc)`.
    template <class Done> unsigned advance(Done&& done) {
        unsigned count = push_jobs(done);
        asks_for_puts_ = asks_for_puts_ && done_until() < direct_after_;
        if ((active_ != canceled_ || waits_for_puts()) && (withdrawing_ || peer_missing())) {
            if (fetch_missing()) {
                done(fetched_, Errc::ok);
                ++count;
            } else {
                (void)withdraw_puts();
            }
        }
        if (helping_ != 0) {
            help();
        }
        // (Who is told of one may begin another in its place: that one is found as it is.)
        for (std::size_t i = 0; joints_active_ != 0 && i < joints_.size(); ++i) {
            JointGet& joint = joints_[i];
            if (joint.operation == 0) {
                continue;
            }
            if (joint_arrived(joint)) {
                done(std::exchange(joint.token, nullptr), Errc::ok);
                ++count;
            } else {
                note_wait(joint);
            }
        }
        // (One by one: who is told of one may close the connection, and is told no more then, or defer another.)
        for (std::size_t n = deferred_.size();
             n != 0 && !deferred_.empty() && pipe_.broken() == Errc::ok; --n) {
            void* const token = deferred_.front().token;
            deferred_.erase(deferred_.begin());
            done(token, Errc::ok);
            ++count;
        }
        // (Likewise. What it waits for, and was deferred meanwhile, is to be told of before.)
        for (std::size_t i = 0; i < flushes_.size() && pipe_.broken() == Errc::ok;) {
            if (defers_before(flushes_[i].sequence) || !flush_reached(flushes_[i])) {
                ++i;
                continue;
            }
            void* const token = flushes_[i].token;
            flushes_.erase(flushes_.begin() + static_cast<std::ptrdiff_t>(i));
            done(token, Errc::ok);
            ++count;
        }
        return count;
    }

    /// Gives up on everything of ours that is not done: `done(token, status)`. Late answers are
    /// ignored; until they are here they count among those in flight, as they do for the peer.
    template <class Done> void cancel(Errc status, Done&& done) {
        Endings ended = std::exchange(endings_, {});
        give_up_joint(); // what the peer is writing to is given back when it has done so
        for (Operation& operation : operations_) {
            if (!operation.active || operation.canceled) {
                continue;
            }
            ended.emplace_back(operation.token, status);
            if (operation.joint) {
                operation.active = false; // no answer will come
                --active_;
                pipe_.encourage();
            } else {
                operation.canceled = true;
                ++canceled_;
            }
        }
        end_waiting(status, ended);
        release_if_out();
        for (const auto& [token, result] : ended) { // who is told may begin something new
            done(token, result);
        }
        if (endings_.capacity() < ended.capacity()) {
            ended.clear();
            endings_ = std::move(ended);
        }
    }

    /// Handles a one-sided record of the peer. False: the peer broke the protocol.
    template <class Done>
    [[nodiscard]] bool handle(Kind kind, const std::byte* payload, std::uint32_t length,
                              Done&& done) {
        Completion completion;
        if (!handle_record(kind, payload, length, completion)) {
            return false;
        }
        if (completion.finished) {
            done(completion.token, completion.status);
        }
        return true;
    }

    /// The connection is over: from here on neither end copies for a get that both copy.
    void stop_copying();

    /// Tokens, and how each ended.
    using Endings = std::vector<std::pair<void*, Errc>>;
    /// Everything ends, mostly with `status`: the connection is over. Needs no memory.
    [[nodiscard]] Endings fail_all(Errc status) {
        Endings ended = std::exchange(endings_, {});
        stop_copying();
        lost_writes_ = lost_writes_ || puts_waiting_ != 0 || done_until() < last_write_;
        if (status == Errc::not_connected) { // an orderly end: what was done before it is done
            take_reached_flushes(ended);
            // Messages that the peer did not take out do not count.
            std::erase_if(flushes_, [&](const Flush& flush) {
                const bool ends = !lost_writes_ && !operations_before(flush.sequence);
                if (ends) {
                    ended.emplace_back(flush.token, Errc::ok);
                }
                return ends;
            });
        }
        const auto flushed = static_cast<std::ptrdiff_t>(ended.size());
        for (Operation& operation : operations_) {
            if (operation.active && !operation.canceled) {
                ended.emplace_back(operation.token, status);
            }
            operation.active = false;
        }
        active_ = 0;
        canceled_ = 0;
        asks_for_puts_ = false;
        withdrawing_ = false;
        end_waiting(status, ended);
        // What the flushes waited for comes first.
        std::rotate(ended.begin(), ended.begin() + flushed, ended.end());
        return ended;
    }
    /// After fail_all(): puts or unanswered atomics were not done by then, as far as is known.
    [[nodiscard]] bool lost_writes() const noexcept { return lost_writes_; }

private:
    /// A get or fetching atomic that the peer has not answered yet. Its name on the wire is
    /// index + 1 | generation << 32, so 0 names none and an old answer finds nobody.
    struct Operation {
        std::byte* local = nullptr;
        std::uint64_t length = 0;
        std::uint64_t received = 0;
        std::uint64_t sequence = 0;
        void* token = nullptr;
        std::uint32_t generation = 0;
        bool active = false;
        bool is_atomic = false;
        bool canceled = false;     ///< its answer goes nowhere
        bool by_kernel = false;    ///< a get that may be fetched
        bool joint = false;        ///< a get that both ends copy: no record answers it
        std::uint64_t address = 0; ///< the peer's
        std::uint64_t end = 0;     ///< behind its record in the ring
        std::uint64_t after = 0;   ///< behind the last put or atomic before it; 0: none
        std::uint64_t began = 0;   ///< by the CPU's counter, if it is to be timed
    };

    /// Something that waits for room in our ring.
    struct Job {
        enum class Kind : std::uint8_t { put, get_reply, atomic_reply, error_reply } kind;
        std::uint64_t sequence = 0;
        const std::byte* from = nullptr; ///< put
        std::uint64_t region = 0;        ///< put: the peer's; get_reply: ours
        std::uint64_t address = 0;       ///< in that region; atomic_reply: the value
        std::uint64_t remaining = 0;
        std::uint64_t offset = 0; ///< get_reply: into the requester's buffer; error: Errc
        std::uint32_t chunk = Pipe::max_chunk; ///< get_reply: longest next part
        std::uint64_t op = 0;
        std::uint64_t position = 0; ///< get_reply: of the request in the peer's ring
        void* token = nullptr;
        std::unique_ptr<std::byte[]> data{}; ///< of a put that its caller knows to be done already

        /// Its source may be gone from now on.
        void keep() {
            data = std::make_unique_for_overwrite<std::byte[]>(remaining);
            std::memcpy(data.get(), from, remaining);
            from = data.get();
        }
    };

    struct Flush {
        std::uint64_t sequence = 0; ///< of the operations before it
        std::uint64_t position = 0; ///< in our ring, once the jobs before it are out
        bool positioned = false;
        void* token = nullptr;
    };

    struct Deferred {
        void* token = nullptr;
        std::uint64_t sequence = 0; ///< of the operation, or of the last one before it
    };

    struct Completion {
        bool finished = false;
        void* token = nullptr;
        Errc status = Errc::ok;
    };

    template <class Done> unsigned push_jobs(Done&& done) {
        unsigned count = 0;
        if (jobs_.empty()) {
            return 0;
        }
        while (!jobs_.empty() && push_past_holds(jobs_.front())) {
            const Job job = std::move(jobs_.front());
            jobs_.pop_front();
            if (job.kind == Job::Kind::put) {
                --puts_waiting_;
                pipe_.encourage();
                if (job.data == nullptr) {
                    done(job.token, Errc::ok);
                }
            } else {
                --replies_waiting_;
            }
            ++count;
        }
        release_if_out();
        return count;
    }

    /// True when the job is completely in the ring.
    [[nodiscard]] bool push(Job& job);
    [[nodiscard]] bool push_past_holds(Job& job) {
        const typename Pipe::Bypass bypass(pipe_); // not around the sink: its sends are held back
        return push(job);
    }
    /// How many cancel() and fail_all() end at most.
    [[nodiscard]] std::size_t outstanding() const noexcept {
        return operations_.size() + puts_waiting_ + deferred_.size() + flushes_.size();
    }
    /// Takes out what waits here: puts not out yet, completions not reported yet, flushes.
    void end_waiting(Errc status, Endings& ended);
    [[nodiscard]] bool reserve_chunk(std::uint32_t head, std::uint32_t& chunk, std::byte*& bulk);
    [[nodiscard]] bool push_put_chunk(Job& job);
    [[nodiscard]] bool push_get_chunk(Job& job);
    [[nodiscard]] bool push_small_reply(const Job& job);

    [[nodiscard]] bool handle_record(Kind kind, const std::byte* payload, std::uint32_t length,
                                     Completion& completion);
    [[nodiscard]] bool serve_put(const OneSided& request, const std::byte* data,
                                 std::uint32_t length);
    [[nodiscard]] bool serve_get(const OneSided& request);
    [[nodiscard]] bool serve_atomic(const OneSided& request, const Atomic& atomic);
    [[nodiscard]] bool accept_reply(const Reply& reply, const std::byte* data, std::uint32_t length,
                                    Completion& completion);
    [[nodiscard]] bool accept_error(const Reply& reply, Completion& completion);
    /// Owes the peer an answer; false if it asked for more than it may have in flight.
    [[nodiscard]] bool owe(Job job);
    /// Says that an operation was refused that has no answer. Its record must not count as taken
    /// out before, or a flush of the requester's would take it for done. False: there is no room to
    /// say it, so the connection ends here instead of at the requester.
    [[nodiscard]] bool refuse_unanswered();

    [[nodiscard]] Operation* start(void* token, std::byte* local, std::uint64_t length,
                                   bool is_atomic, std::uint64_t& name);
    [[nodiscard]] Operation* find(std::uint64_t name);
    void finish(Operation& operation, Errc status, Completion& completion);
    void forget(std::uint64_t name);

    void defer(void* token, std::uint64_t sequence) { deferred_.push_back({token, sequence}); }
    [[nodiscard]] bool defers_before(std::uint64_t sequence) const noexcept {
        return std::ranges::any_of(
            deferred_, [sequence](const Deferred& one) { return one.sequence <= sequence; });
    }
    [[nodiscard]] bool operations_before(std::uint64_t sequence) const;
    [[nodiscard]] bool flush_reached(Flush& flush);
    void take_reached_flushes(Endings& done);
    /// The peer is done with the records before `position`. Those of them that it refused it said
    /// so of first: so that has been heard of when all is handled that had come by then.
    [[nodiscard]] bool heard_of_refusals(std::uint64_t position);

    /// No put or atomic of ours is on its way: a get may read the memory itself.
    [[nodiscard]] bool writes_done() noexcept {
        return !hold_ && puts_waiting_ == 0 &&
               (direct_after_ == 0 || caught_up() || done_until() >= direct_after_);
    }
    /// Up to here nothing in our ring waits for the peer: it took it out, or has been passed by.
    [[nodiscard]] std::uint64_t done_until() noexcept {
        // (What is taken back is taken out unexecuted.)
        return withdrawing_ ? withdrawn_from_ : std::max(pipe_.tx().consumed(), passed_by_);
    }

    // The kernel's copies; a peer that does not answer.
    /// By its place in the ring. (Of one that both ends have begun the rest is asked for late.)
    [[nodiscard]] Operation* oldest_get() noexcept;
    /// Not before the puts and atomics before it, and not once there are some behind it: it must see
    /// all of those and none of these.
    [[nodiscard]] bool may_be_fetched(const Operation& get) noexcept {
        return get.by_kernel && direct_after_ < get.end && done_until() >= get.after;
    }
    /// A record that asks for nothing, to see whether the peer takes it out.
    void probe_attention() noexcept;
    /// A record in the ring from `begin` on that no flush need wait for.
    void note_unflushed(std::uint64_t begin) noexcept {
        if (gets_end_ != begin) {
            gets_begin_ = begin;
        }
        gets_end_ = pipe_.tx().head();
    }
    /// By the kernel. False: it refuses, or the memory is no longer what was asked for.
    [[nodiscard]] bool read_peer(std::byte* to, std::uint64_t address, std::size_t length) noexcept;
    /// The same for what a missing peer does not do.
    [[nodiscard]] bool read_past_peer(std::byte* to, std::uint64_t address,
                                      std::size_t length) noexcept;
    [[nodiscard]] bool peer_missing() noexcept;
    /// Fetches the oldest get: fetched_ is its token.
    [[nodiscard]] bool fetch_missing() noexcept;
    /// Somebody wants puts to be executed, or room where they lie.
    [[nodiscard]] bool waits_for_puts() const noexcept {
        return puts_waiting_ != 0 || !flushes_.empty() || asks_for_puts_ || withdrawing_;
    }
    /// Nothing that must keep its order with the puts that wait for the peer waits with them, and
    /// the kernel may do them all.
    [[nodiscard]] bool may_withdraw() noexcept;
    [[nodiscard]] bool kernel_permits_puts() noexcept;
    /// Takes back the puts that the peer has not executed, and has the kernel do them. True when
    /// all are done; false: it may not be, or the peer is at one of them just now, or it ends.
    [[nodiscard]] bool withdraw_puts();
    /// In place of the peer. False: the kernel refuses, or the peer has ended.
    [[nodiscard]] bool write_peer(std::uint64_t to, const std::byte* from,
                                  std::uint64_t length) noexcept;
    /// Leaves the withdrawn puts from ring position `from` on to the peer after all. False: the
    /// peer has changed them.
    [[nodiscard]] bool give_back_puts(std::uint64_t from);
    /// Before anything is asked of a peer that has been missing, or if it is faster.
    [[nodiscard]] bool put_by_kernel(const std::byte* from, std::size_t length,
                                     std::uint64_t address) noexcept;
    /// Nothing: it is not for the kernel, or the kernel refuses; but what it has copied is no longer
    /// part of what is asked for. again: the caller is to come again.
    [[nodiscard]] std::optional<Errc> get_by_kernel(std::byte*& to, std::size_t& length,
                                                    std::uint64_t region, std::uint64_t& address,
                                                    void* token, const RegionKey* into);
    /// A get that both ends copy.
    struct JointGet {
        std::uint64_t operation = 0; ///< as Operation says; 0: none
        std::uint64_t sequence = 0;  ///< of the operation
        std::uint64_t began_ns = 0;
        void* token = nullptr;
        std::uint64_t region = 0;
        std::uint64_t length = 0;        ///< of it, what both copy
        const std::byte* from = nullptr; ///< mapped here; null: by the kernel
        bool refused = false;            ///< the kernel did: to be asked for by a record
        std::uint64_t ready_ns = 0;      ///< the owner could begin with the rest
        std::uint64_t patience_ns = 0;   ///< from then on; later it is ours
    };
    /// And one of the peer's, that we help with.
    struct Help {
        std::uint64_t began = 0; ///< the how many-eth; 0: none
        OneSided request{};
        std::uint64_t to = 0;
        RemoteRegion* into = nullptr; ///< what that may be mapped by
    };
    [[nodiscard]] std::size_t index_of(const JointGet& joint) const noexcept {
        return static_cast<std::size_t>(&joint - joints_.data());
    }
    /// Both ends are at it, as far as anybody knows: the owner is not known to be stopped.
    [[nodiscard]] bool may_arrive(const JointGet& joint) noexcept;
    /// One that may begin; null: none, now. (Those that are complete are reported by the next advance(). Afterwards
    /// there may be none under way.)
    [[nodiscard]] JointGet* free_joint(std::size_t length);
    /// A get of that length is begun by both ends, now or when one is complete that they are at.
    [[nodiscard]] bool owner_may_help(std::size_t length) noexcept;
    /// Both ends copy; `from`: where it is mapped, or null. Of `length` only the first `part`, and the
    /// owner is asked for the rest. again: nothing was begun.
    [[nodiscard]] Errc get_jointly(JointGet& joint, std::byte* to, const std::byte* from,
                                   std::size_t length, std::size_t part, std::uint64_t region,
                                   std::uint64_t address, void* token, const RegionKey* into);
    /// A part of it, by our CPU. False: the kernel refuses.
    template <class Part>
    [[nodiscard]] bool copy_part_of(const JointGet& joint, const Operation& operation,
                                    const Part& part) noexcept;
    /// By our CPU, what of it nobody has claimed, `most` parts.
    static constexpr unsigned all_parts = ~0u;
    void copy_parts_of(JointGet& joint, const Operation& operation, unsigned most) noexcept;
    /// It is complete. False: it is not, or nobody waits for it here any more: it has been left to the peer's
    /// answer.
    [[nodiscard]] bool joint_arrived(JointGet& joint) noexcept;
    /// Our part of it is done, and there is no next one.
    void note_wait(const JointGet& joint) noexcept;
    void let_go(JointGet& joint) noexcept {
        joint.operation = 0;
        --joints_active_;
    }
    /// Leaves nothing more of our joint gets to the peer, and waits for one that is at it, but not for ever.
    void give_up_joint() noexcept;
    /// Asks by a record for the rest, or for all where the kernel does not read.
    void ask_owner(JointGet& joint, Operation& operation) noexcept;
    [[nodiscard]] bool serve_joint_get(const OneSided& request, const Joint& joint);
    /// What we may map to write where the peer says; null: nothing.
    [[nodiscard]] RemoteRegion* helped_region(const Joint& joint);
    /// Where the peer's memory from `address` on is mapped here, if all of it is, to be written.
    [[nodiscard]] static std::byte* mapped_to_write(const Help& help, std::uint64_t address,
                                                    std::uint64_t length) noexcept;
    /// A part of a copy of `whole` bytes. False: it was too late, and not all was copied.
    [[nodiscard]] bool copy_until(std::byte* to, const std::byte* from, std::uint64_t size,
                                  std::uint64_t whole, std::uint64_t not_after) noexcept;
    /// Copies a part of what the peer wants to have copied by both: of what it has asked for first.
    void help() noexcept;
    /// False: there is nothing left of it.
    [[nodiscard]] bool help_with(Help& help) noexcept;
    void end_help(Help& help) noexcept {
        help.began = 0;
        --helping_;
    }
    [[nodiscard]] bool peer_absent() noexcept;
    /// Changes with everything that the peer does for us.
    [[nodiscard]] std::uint64_t signs_of_peer() noexcept;
    void note_time_of(const Operation& operation) noexcept;
    [[nodiscard]] bool caught_up();
    void release_if_out();

    Pipe& pipe_;
    std::vector<Operation> operations_; ///< as many as were ever in flight at once
    std::size_t next_operation_ = 0;    ///< of these, where a free one is looked for
    std::deque<Job> jobs_;
    std::vector<Flush> flushes_;
    std::vector<Deferred> deferred_;
    Endings endings_; ///< empty; with room for all that is under way
    std::uint64_t sequence_ = 0;
    std::uint32_t active_ = 0;   ///< with those canceled
    std::uint32_t canceled_ = 0; ///< whose answer is still to come
    std::uint32_t puts_waiting_ = 0;
    std::uint32_t replies_waiting_ = 0;
    std::uint64_t answers_ = 0; ///< that have come, ever
    void* fetched_ = nullptr;
    std::array<JointGet, joint_gets> joints_;
    std::uint32_t joints_active_ = 0;
    std::array<Help, joint_gets> helps_;
    std::uint32_t helping_ = 0; ///< with so many
    std::uint64_t helps_begun_ = 0;
    RemoteRegion* wanted_ = nullptr; ///< something was copied there that the peer may read
    std::vector<std::unique_ptr<RemoteRegion>> helped_regions_; ///< the latest
    std::size_t next_helped_region_ = 0;
    std::uint64_t peer_process_ = 0;
    std::uint64_t refused_at_ = 0; ///< sequence_ when a get was first refused for what is under way
    /// Behind our last put or atomic in the ring, or 0 when all have been done: direct access waits
    /// for them. (The memory may have been mapped here since, or they are about other memory.)
    std::uint64_t direct_after_ = 0;
    /// The same, ever: what is behind it cannot be refused without an answer.
    std::uint64_t last_write_ = 0;
    /// Refusals of records before this one are known.
    std::uint64_t heard_until_ = 0;
    /// And will be of those before this one when the peer's records up to `listens_to_` are
    /// handled; the same as heard_until_ where nobody waits for that.
    std::uint64_t listens_until_ = 0;
    std::uint64_t listens_to_ = 0;
    /// Behind the last get (or probe) in the ring, and before those that it is the last of: a flush
    /// does not wait for the peer to look at them, for they may have been fetched.
    std::uint64_t gets_end_ = 0;
    std::uint64_t gets_begin_ = 0;
    std::uint64_t passed_by_ = 0;      ///< behind the last put that was taken back
    std::uint64_t withdrawn_from_ = 0; ///< in our ring: the first that was taken back
    std::uint64_t refused_until_ = 0;  ///< behind puts that the kernel does not do
    std::uint64_t awake_for_ = 0;      ///< what may_pass_by() was asked for last
    std::uint32_t looks_awake_ = 0;    ///< how often it said yes for that
    bool withdrawing_ = false;         ///< taken back, but perhaps not decided: see put_claims.hpp
    bool asks_for_puts_ = false; ///< whoever was refused room, or was told that a flush goes on
    bool lost_writes_ = false;
    bool hold_ = false; ///< after a fence: nothing new until what was before it is out
};

} // namespace comch::link
