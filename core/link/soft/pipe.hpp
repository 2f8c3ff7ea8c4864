// One end of a channel: both rings, both bulk rings, and the doorbell.
//
// Connections and the channels under them are pipes with different things around them. One thread.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include <comch/counters_layout.hpp>
#include <comch/error.hpp>

#include "core/base/clock.hpp"
#include "core/base/unique_fd.hpp"
#include "core/link/bell.hpp"
#include "core/link/soft/attention.hpp"
#include "core/link/soft/bulk_memory.hpp"
#include "core/link/soft/bulk_writer.hpp"
#include "core/link/soft/copy_ways.hpp"
#include "core/link/soft/known_ways.hpp"
#include "core/link/soft/get_cost.hpp"
#include "core/link/soft/joint_copy.hpp"
#include "core/link/soft/layout.hpp"
#include "core/link/soft/parked_thread.hpp"
#include "core/link/soft/peer_memory.hpp"
#include "core/link/soft/put_claims.hpp"
#include "core/link/soft/ring_reader.hpp"
#include "core/link/soft/ring_writer.hpp"
#include "core/link/soft/tuning.hpp"
#include "core/memory/shared_memory.hpp"

namespace comch::link::soft {

static_assert(tuning::max_inline < fills_line);

/// When those who send and receive in turn do so.
struct Turns {
    std::uint64_t arrivals = 0; ///< changes when something has come
    /// A message was sent after that, and no payload has come by a bulk ring since. (A hint: a message of half a
    /// line may go without saying.)
    bool awaits_answer = false;
};

class Pipe {
public:
    // What the one-sided engine must know.
    static constexpr std::uint32_t max_chunk = tuning::max_message;
    static constexpr std::uint32_t first_chunk = tuning::first_chunk;
    static constexpr std::uint32_t max_operations = tuning::max_one_sided;
    /// Up to here data travels inline in the ring instead of through the bulk ring.
    static constexpr std::uint32_t inline_data = 1024;
    static constexpr std::uint32_t max_cell = cell_payload;
    static constexpr std::uint32_t max_line = line_payload;
    static constexpr bool bulk_ring = true;
    /// The peer's memory may be within reach without the peer.
    static constexpr bool kernel_copies = true;
    using Ways = CopyWays;
    static constexpr std::uint64_t joint_of_mapped = tuning::joint_of_mapped;
    static constexpr std::size_t tried_part = tuning::tried_part;
    static constexpr std::size_t helped_regions = tuning::helped_regions;
    static constexpr std::uint64_t most_helped_bytes = tuning::most_helped_bytes;
    static constexpr std::uint64_t most_joint_part_ns = tuning::most_joint_part_ns;
    static constexpr std::uint64_t joint_step = tuning::joint_step;
    static constexpr std::uint64_t most_begun_before_kernel = tuning::most_begun_before_kernel;
    static constexpr std::uint64_t joint_patience_ns = tuning::joint_patience_ns;
    static constexpr std::uint64_t joint_claim_ns = tuning::joint_claim_ns;
    static constexpr unsigned looks_before_sleep = tuning::looks_before_sleep;
    [[nodiscard]] static std::uint64_t now_ns() noexcept { return monotonic_ns(); }
    static constexpr std::uint32_t bulk_ref = sizeof(BulkRef);

    Pipe() = default;

    /// The initiator's end, and the descriptor that the acceptor needs.
    struct Created;
    [[nodiscard]] static Result<Created> create();
    /// The acceptor's end of a peer's segment.
    [[nodiscard]] static Result<Pipe> accept(int memfd);

    /// What the pipe works with; set before first use, where the pipe stays, and valid for its life.
    /// `fenced`: publish with a full fence, because one end has no membarrier. `turns`: of who
    /// sends here, by this pipe or another; null: that is not known.
    /// `sleep`: ends if something is refused, as it has not been armed for room.
    void attach(int socket, counters::Slot* slot, bool fenced, Turns* turns = nullptr,
                SleepBell* sleep = nullptr) noexcept {
        socket_ = socket;
        sleep_ = sleep;
        slot_ = slot;
        fenced_ = fenced;
        arrivals_ = turns != nullptr ? &turns->arrivals
                                     : &tx_.messages(); // which changes with every message
        awaits_answer_ = turns != nullptr ? &turns->awaits_answer : &nobody_asks_;
    }
    /// Pipes of one port learn from each other which ways of copying are fast.
    void share_ways(PortWays& known) noexcept {
        ways_.share(known.copied);
        mapped_ways_.share(known.mapped);
    }
    void set_socket_ready(bool ready) noexcept { socket_ready_ = ready; }
    void set_fenced(bool fenced) noexcept { fenced_ = fenced; }
    [[nodiscard]] bool fenced() const noexcept { return fenced_; }

    // ---- sending -------------------------------------------------------------------------------

    /// A record of exactly `length` ring-payload bytes that `fill` writes in place.
    template <class Fill>
    Errc put_record(Kind kind, std::uint8_t id, std::uint32_t length, Fill&& fill,
                    bool share = false) noexcept {
        std::byte* const to = tx_.reserve(length);
        if (to == nullptr) [[unlikely]] {
            return no_room(Short::ring);
        }
        fill(to);
        tx_.publish(static_cast<std::uint8_t>(kind), id, length, share);
        after_publish();
        return Errc::ok;
    }

    /// A message of one line, if the room for it is known to be there; false: not by this way, and
    /// nothing has happened. It takes the fewest stores, and no frame as long as `fill` takes none:
    /// each store waits in the CPU's store buffer behind the line that comes from the other CPU,
    /// and what fits into that buffer is how many messages are on their way at once.
    template <class Fill>
    bool send_line(std::uint8_t id, std::uint32_t length, Fill&& fill) noexcept {
        std::byte* const to = tx_.free_line();
        if (to == nullptr) [[unlikely]] {
            return false;
        }
        fill(to);
        tx_.publish_line(id, length);
        note_answer();
        count_sent(length);
        after_publish();
        return true;
    }
    /// The same for half a line; for who is not answering().
    template <class Fill>
    bool send_cell(std::uint8_t id, std::uint32_t length, Fill&& fill) noexcept {
        std::byte* const to = tx_.free_cell();
        if (to == nullptr) [[unlikely]] {
            return false;
        }
        fill(to);
        tx_.publish_cell(id, length);
        count_sent(length);
        after_publish();
        return true;
    }
    template <class Fill>
    Errc send_inline(std::uint8_t id, std::uint32_t length, Fill&& fill) noexcept {
        if (length <= max_cell && !answering() ? send_cell(id, length, fill)
                                               : length <= max_line && send_line(id, length, fill))
            [[likely]] {
            return Errc::ok;
        }
        return send_lines(id, length, std::remove_cvref_t<Fill>(fill));
    }
    template <class Fill>
    Errc send_in_ring(std::uint8_t id, std::uint32_t length, Fill&& fill) noexcept {
        const bool share =
            length <= tuning::most_to_share && *arrivals_ == answered_ && !tx_.fills_lines();
        const Errc result = put_record(Kind::data, id, length, std::forward<Fill>(fill), share);
        if (result == Errc::ok) [[likely]] {
            note_answer();
            count_sent(length);
        }
        return result;
    }
    /// Would a short message do better to fill its line? Something has come since the last one, so it is
    /// an answer, and the next one too: the peer, which waits for it, has the line by then, and it is
    /// dearer to take back than the one that was asked for ahead. Who just sends has two messages move
    /// at once, unless that was found to be slower.
    [[nodiscard]] bool answering() const noexcept {
        return (*arrivals_ != answered_ || tx_.fills_lines()) && tx_.at_line();
    }

    Errc send(std::uint8_t id, std::span<const std::byte> message) noexcept {
        if (message.size() > tuning::max_inline) {
            return Errc::too_big;
        }
        return send_inline(id, static_cast<std::uint32_t>(message.size()), [=](std::byte* to) {
            if (!message.empty()) { // an empty one may have no address
                std::memcpy(to, message.data(), message.size());
            }
        });
    }

    /// Packs in place in the bulk ring; what turns out short goes inline after all. Answers the
    /// length, or a negative Errc.
    template <class Pack>
    std::int64_t send_packed(std::uint8_t id, std::uint32_t max, Pack&& pack,
                             std::uint32_t data_at = 0) noexcept {
        if (max > tuning::max_message) [[unlikely]] {
            return -static_cast<std::int64_t>(Errc::too_big);
        }
        std::byte* bulk = nullptr;
        const Errc room = reserve_bulk(max, tuning::inline_after_pack, bulk, data_at);
        if (room != Errc::ok) [[unlikely]] {
            return -static_cast<std::int64_t>(room);
        }
        const std::uint32_t length = pack(bulk);
        if (length <= tuning::inline_after_pack) {
            (void)send_in_ring(id, length, [&](std::byte* to) { std::memcpy(to, bulk, length); });
        } else {
            put_bulk_record(Kind::data_bulk, id, std::span<const std::byte>{}, length);
            if (note_answer()) {
                bulk_tx_.answered(length);
            }
            count_sent(length);
        }
        return length;
    }

    /// As send, with the time of sending in front, up to max_message.
    Errc send_ordered(std::uint8_t id, std::span<const std::byte> message) noexcept;

    /// Room for a bulk payload of up to `max` and for a record of up to `record` ring-payload bytes.
    Errc reserve_bulk(std::uint32_t max, std::uint32_t record, std::byte*& bulk,
                      std::uint32_t data_at = 0) noexcept {
        if (!bulk_tx_.attached()) [[unlikely]] {
            const Errc attached = attach_bulk();
            if (attached != Errc::ok) {
                return attached;
            }
        }
        if (tx_.reserve(record) == nullptr) [[unlikely]] {
            return no_room(Short::ring);
        }
        bulk = bulk_tx_.reserve(max, data_at);
        return bulk == nullptr ? no_room(Short::bulk) : Errc::ok;
    }

    /// Publishes what was written at the place that reserve_bulk() gave: `head`, then the reference.
    void put_bulk_record(Kind kind, std::uint8_t id, std::span<const std::byte> head,
                         std::uint32_t length) noexcept {
        const BulkRef ref = bulk_tx_.commit(length);
        const auto size = static_cast<std::uint32_t>(head.size() + sizeof(ref));
        (void)put_record(kind, id, size, [&](std::byte* to) {
            if (!head.empty()) {
                std::memcpy(to, head.data(), head.size());
            }
            std::memcpy(to + head.size(), &ref, sizeof(ref));
        });
        if (length <= tuning::first_line_asked_for) {
            bulk_tx_.ask_for_next(line_size);
        }
        slot_->tx.bulk_ring_bytes.add(length);
    }

    /// To be called every now and then: gives the bulk ring's pages back when it idles.
    void look_at_bulk(std::uint64_t now_ns) noexcept {
        if (bulk_tx_.attached()) {
            const bool empty = bulk_tx_.consumed() == bulk_tx_.head() &&
                               (holds_ & hold_withdrawal) == 0; // what is taken back lies there
            if (bulk_tx_memory_.look(bulk_tx_.head(), empty, now_ns)) {
                bulk_tx_.lost_pages();
            }
        }
    }

    void count_sent(std::uint32_t length) noexcept {
        tx_.count_message();
        auto& tx = slot_->tx;
        tx.messages.add(1);
        tx.bytes.add(length);
    }

    [[nodiscard]] std::uint64_t sent() const noexcept { return tx_.messages(); }
    [[nodiscard]] std::uint64_t confirmed() noexcept;

    // ---- holding back --------------------------------------------------------------------------

    /// Who wants sends to be refused for now. Costs the sends nothing: their credit is taken away.
    enum Hold : unsigned {
        hold_fence = 1,      ///< something older must be out first
        hold_queue = 2,      ///< the layer above has older sends in a queue of its own
        hold_withdrawal = 4, ///< puts are being taken back; nothing may pass, answers neither
    };
    void hold(Hold who) noexcept {
        holds_ |= who;
        tx_.stop();
    }
    void release(Hold who) noexcept {
        holds_ &= ~static_cast<unsigned>(who);
        if (holds_ == 0 && broken_ == Errc::ok) {
            tx_.resume();
        }
    }
    [[nodiscard]] bool held() const noexcept { return holds_ != 0; }
    /// While it lives, what the link itself owes the peer may be sent all the same.
    class Bypass {
    public:
        explicit Bypass(Pipe& pipe) noexcept : pipe_(pipe) {
            if (pipe_.broken_ == Errc::ok && (pipe_.holds_ & hold_withdrawal) == 0) {
                pipe_.tx_.resume();
            }
        }
        ~Bypass() {
            if (pipe_.holds_ != 0) {
                pipe_.tx_.stop();
            }
        }
        Bypass(const Bypass&) = delete;
        Bypass& operator=(const Bypass&) = delete;

    private:
        Pipe& pipe_;
    };
    /// Somebody waits until the peer has read so far: it says so soon enough unasked.
    void hurry(std::uint64_t) noexcept {}
    /// Something that is not credit has become free since the last refusal.
    void encourage() noexcept { encouraged_ = true; }
    /// Would an attempt be worth while: has room come since the last refusal?
    /// (Credit that no correct peer gives is none: the next progress ends the connection.)
    [[nodiscard]] bool may_retry() const noexcept {
        return broken_ != Errc::ok || (!corrupt() && (!refused_ || encouraged_ || credit_came()));
    }

    /// Ends sending: every send answers `why` from now on.
    void break_off(Errc why) noexcept {
        tx_.stop();
        broken_ = why;
    }
    [[nodiscard]] Errc broken() const noexcept { return broken_; }

    /// Says to the peer that no record follows.
    void say_goodbye() noexcept {
        if (tx_.control() != nullptr) {
            const Goodbye how = unsaid_refusal_ ? Goodbye::refusal : Goodbye::orderly;
            tx_.control()->producer.closed.store(static_cast<std::uint32_t>(how),
                                                 std::memory_order_release);
            // Before our memory is used for something else: the peer may be reading it.
            std::atomic_thread_fence(std::memory_order_seq_cst);
        }
    }
    [[nodiscard]] bool peer_said_goodbye() const noexcept {
        return rx_.control()->producer.closed.load(std::memory_order_acquire) != 0;
    }
    [[nodiscard]] bool peer_refused_something() const noexcept {
        return rx_.control()->producer.closed.load(std::memory_order_acquire) ==
               static_cast<std::uint32_t>(Goodbye::refusal);
    }
    /// The goodbye will have to say it.
    void note_unsaid_refusal() noexcept { unsaid_refusal_ = true; }

    // ---- receiving -----------------------------------------------------------------------------

    [[nodiscard]] RingReader& rx() noexcept { return rx_; }
    [[nodiscard]] RingWriter& tx() noexcept { return tx_; }
    [[nodiscard]] bool corrupt() const noexcept {
        return tx_.corrupt() || bulk_tx_.corrupt() || scribbled_;
    }
    [[nodiscard]] counters::Slot* slot() const noexcept { return slot_; }
    /// Both ends know it, and no other pipe of this machine has it; 0: unknown.
    [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

    /// The peer's bulk ring has arrived. False if it is not acceptable.
    [[nodiscard]] bool accept_bulk(int memfd, std::uint64_t size) noexcept;
    [[nodiscard]] bool has_bulk() const noexcept { return static_cast<bool>(bulk_rx_); }

    /// The payload that the BulkRef at `at` names; null (and length 0) if the peer lies.
    [[nodiscard]] const std::byte* bulk_payload(const std::byte* at,
                                                std::uint32_t& length) noexcept {
        BulkRef ref{};
        std::memcpy(&ref, at, sizeof(ref));
        length = ref.length;
        if (!bulk_rx_) {
            return nullptr;
        }
        const std::byte* const payload =
            rx_.bulk(ref, bulk_rx_.data(), static_cast<std::uint32_t>(bulk_rx_.size()));
        if (payload != nullptr) [[likely]] {
            slot_->rx.bulk_ring_bytes.add(length);
        }
        return payload;
    }

    /// Where the peer's ring will be when all that has come by now is handled, or beyond: it can
    /// have come no farther than a lap.
    [[nodiscard]] std::uint64_t arrived() const noexcept { return rx_.position() + rx_.cells(); }
    /// Has all been handled that came before arrived() answered so?
    [[nodiscard]] bool has_handled(std::uint64_t arrived) const noexcept {
        return !rx_.ready() || rx_.position() >= arrived;
    }

    void count_received(std::uint32_t length) noexcept {
        rx_.count_message();
        slot_->rx.messages.add(1);
        slot_->rx.bytes.add(length);
    }

    /// Takes a record out, after the last use of its payload.
    void pop(const RingReader::Record& record) noexcept {
        if (rx_.pop(record)) [[unlikely]] {
            credit_returned();
        }
    }
    /// The ring was found empty, or we go to sleep: returns what credit is left.
    void idle() noexcept {
        if (rx_.return_rest()) {
            credit_returned();
        }
    }

    // ---- resting and sleeping ------------------------------------------------------------------

    /// Asks the peer for a doorbell when it publishes. Then comes membarrier_all(), then a look
    /// whether something is there already.
    void ask_for_doorbell() noexcept {
        rx_.control()->doorbell.armed.store(1, std::memory_order_relaxed);
    }
    void take_back_doorbell() noexcept {
        rx_.control()->doorbell.armed.store(0, std::memory_order_relaxed);
    }

    /// Asks the peer for a doorbell when it publishes and, if something was refused for want of
    /// room or the owner waits for confirmations, when it returns credit. After this on all pipes
    /// comes one membarrier_all(), then must_stay_awake() on each.
    void arm(bool for_credit) noexcept {
        idle();
        rx_.control()->doorbell.armed.store(1, std::memory_order_relaxed);
        if (refused_ || (for_credit && confirmed_seen_ != sent())) {
            tx_.control()->producer.wants_credit.store(1, std::memory_order_relaxed);
        }
    }
    /// Something came before the peer could see the flags: a record, credit since the refusal, a
    /// confirmation that nobody has looked at. (`paused`: records wait for what they are behind,
    /// and that for room, which is another matter.)
    [[nodiscard]] bool must_stay_awake(bool for_credit, bool paused = false) noexcept {
        if (refused_ && credit_came()) {
            refused_ = false; // the next attempt will say whether it is enough
            // Known from now on, or the kind of room that was not short would keep us awake.
            (void)tx_.consumed();
            (void)bulk_tx_.consumed();
            return true;
        }
        if (const std::uint64_t seen = confirmed_seen_; for_credit && confirmed() != seen) {
            return true;
        }
        return !paused && rx_.ready();
    }
    /// What was short when something was refused.
    enum class Short : std::uint8_t { neither, ring, bulk };

    /// Something was refused for want of something else than room: the socket was full, or the
    /// caller has to progress. There is no event for that, so it must be tried again before a sleep.
    [[nodiscard]] bool take_refusal_with_room() noexcept {
        encouraged_ = encouraged_ || refused_with_room_;
        return std::exchange(refused_with_room_, false);
    }
    void note_refusal_with_room() noexcept {
        refused_with_room_ = true;
        note_refusal(Short::neither);
    }
    /// Somebody waits for the peer to take more out.
    void note_refusal(Short what) noexcept {
        if (sleep_ != nullptr) {
            sleep_->wake();
        }
        refused_ = true;
        encouraged_ = false;
        // Of what was short: what the refusal was based on, not what is there by now. Credit that
        // came in between must end the sleep, for there may be none to follow. Of the other, what
        // is there by now: it was not what was missing, so it is no reason to try again.
        if (what != Short::ring) {
            (void)tx_.consumed();
        }
        if (what != Short::bulk && bulk_tx_.attached()) {
            (void)bulk_tx_.consumed();
        }
        cells_at_refusal_ = tx_.last_consumed();
        bulk_at_refusal_ = bulk_tx_.last_consumed();
    }

    [[nodiscard]] int socket() const noexcept { return socket_; }

    // ---- doing what the peer was asked for -----------------------------------------------------

    [[nodiscard]] PeerMemory& peer_memory() noexcept { return peer_memory_; }
    /// The peer is going to have the kernel copy: it is told how best to name us to it.
    void tell_thread() noexcept {
        if (told_thread_ != nullptr) [[unlikely]] {
            // (Relaxed: it is a number, and nothing else is told by it.)
            std::exchange(told_thread_, nullptr)
                ->store(parked_thread(), std::memory_order_relaxed);
        }
    }
    [[nodiscard]] Attention& attention() noexcept { return attention_; }
    [[nodiscard]] CopyWays& ways() noexcept { return ways_; }
    /// The same for memory that is mapped here.
    [[nodiscard]] CopyWays& mapped_ways() noexcept { return mapped_ways_; }
    [[nodiscard]] GetCost& get_cost() noexcept { return get_cost_; }
    [[nodiscard]] JointCopy& joint_copy(std::size_t index) noexcept { return joint_copies_[index]; }
    [[nodiscard]] JointHelp& joint_help(std::size_t index) noexcept { return joint_helps_[index]; }
    /// Of gets that we copy by the kernel, or that are mapped here.
    [[nodiscard]] joint::Balance& joint_balance(bool by_kernel) noexcept {
        return joint_balances_[by_kernel ? 1 : 0];
    }
    [[nodiscard]] static constexpr tuning::Patience patience(std::uint64_t bytes,
                                                             bool warm) noexcept {
        return tuning::patience(bytes, warm);
    }
    /// The bulk ring of the peer has its pages, and is as it will be, if it is used fast enough to find its
    /// span: a large one is written to beyond its beginning for the first time when that is tried.
    [[nodiscard]] bool peers_ring_is_warm() const noexcept {
        // (A small one is used as it is from the first lap on.)
        return rx_.bulk_taken() > (bulk_rx_.size() > tuning::bulk_size_of_many
                                       ? tuning::ring_is_warm
                                       : bulk_rx_.size());
    }
    [[nodiscard]] bool peers_ring_is_used() const noexcept { return rx_.bulk_taken() != 0; }
    /// Gets in our ring before `position` need no answer any more: only a hint, so relaxed.
    void withdraw_gets(std::uint64_t position) noexcept {
        tx_.control()->producer.withdrawn.store(position, std::memory_order_relaxed);
    }
    /// Does the peer want no answer to the get at `position` of its ring? (It may say what it likes:
    /// it asked.)
    [[nodiscard]] bool get_withdrawn(std::uint64_t position) const noexcept {
        return rx_.control()->producer.withdrawn.load(std::memory_order_relaxed) > position;
    }

    /// Around the execution of a put of the peer's, the record at hand. False: it is not to be
    /// executed.
    [[nodiscard]] bool begin_put() noexcept {
        return put_owner_.begin(rx_.position(), [this] { publish_fence(); });
    }
    void end_put() noexcept { put_owner_.end(rx_.position()); }

    /// Puts of ours that the peer has executed, as a number that grows.
    [[nodiscard]] std::uint64_t puts_executed() const noexcept { return withdrawal_.executed(); }
    /// Shows the puts in our ring from `position` on: `visit(position, head, data)`. False: there
    /// is something else that must keep its order with them. (Gets must, until they are answered.)
    /// Or the peer has changed what is there, which it has no business with: corrupt(), if it
    /// shows.
    template <class Visit> [[nodiscard]] bool visit_puts(std::uint64_t position, Visit&& visit);
    /// As much as all payloads in our rings can be together.
    [[nodiscard]] std::uint64_t rings_size() const noexcept { return tx_.size() + bulk_tx_.size(); }
    /// The peer has changed records of ours.
    void note_scribble() noexcept { scribbled_ = true; }
    /// Whether the kernel lets us, still (membarrier.hpp).
    [[nodiscard]] static bool can_withdraw() noexcept;
    /// Takes all puts in our ring back; the peer begins none of them any more. Nothing can be sent
    /// before end_withdrawal().
    void begin_withdrawal() noexcept;
    /// Is none of them at hand any more?
    [[nodiscard]] bool withdrawal_decided() const noexcept { return withdrawal_.decided(); }
    void end_withdrawal() noexcept { release(hold_withdrawal); }

private:
    /// `ours`: what we write. (Their joint words are about the gets of whoever writes there.)
    void attach_joint(Direction& ours, Direction& theirs) noexcept {
        for (std::size_t i = 0; i < joint_gets; ++i) {
            joint_copies_[i].attach(&ours.joint[i]);
            joint_helps_[i].attach(&theirs.joint[i]);
        }
        told_thread_ = &ours.producer.thread;
        peer_memory_.named_by(&theirs.producer.thread);
    }
    /// To be called for every message. True: it was an answer.
    bool note_answer() noexcept {
        if (*arrivals_ == answered_) { // no store where nothing changes
            return false;
        }
        answered_ = *arrivals_;
        *awaits_answer_ = true;
        return true;
    }
    /// With its own copy of `fill`: what a call could see through a reference has to be in memory.
    template <class Fill>
    [[gnu::noinline]] Errc send_lines(std::uint8_t id, std::uint32_t length, Fill fill) noexcept {
        return length > tuning::inline_when_crowded ? send_past_crowd(id, length, fill)
                                                    : send_in_ring(id, length, fill);
    }
    /// By the bulk ring, if the other is crowded and that has room.
    template <class Fill>
    Errc send_past_crowd(std::uint8_t id, std::uint32_t length, Fill& fill) noexcept {
        std::byte* const bulk = tx_.crowded() ? bulk_past_crowd(length) : nullptr;
        if (bulk == nullptr) {
            return send_in_ring(id, length, fill);
        }
        fill(bulk);
        put_bulk_record(Kind::data_bulk, id, std::span<const std::byte>{}, length);
        note_answer();
        count_sent(length);
        return Errc::ok;
    }
    /// Room there, and for the record; null if there is none.
    [[nodiscard]] std::byte* bulk_past_crowd(std::uint32_t length) noexcept {
        const auto has_line = [this] { return tx_.reserve(sizeof(BulkRef)) != nullptr; };
        if (!bulk_tx_.attached() && (!has_line() || attach_bulk() != Errc::ok)) {
            return nullptr;
        }
        return has_line() ? bulk_tx_.reserve(length) : nullptr;
    }

    /// Wakes a writer that waits for credit.
    void credit_returned() noexcept {
        publish_fence();
        if (rx_.control()->producer.wants_credit.load(std::memory_order_relaxed) != 0)
            [[unlikely]] {
            wake_for_credit();
        }
    }

    void publish_fence() const noexcept {
        if (fenced_) [[unlikely]] {
            std::atomic_thread_fence(std::memory_order_seq_cst);
        } else {
            // The sleeper's membarrier is the fence (membarrier.hpp); the compiler must not move
            // the load of its flag above our store.
            std::atomic_signal_fence(std::memory_order_seq_cst);
        }
    }

    void after_publish() noexcept {
        publish_fence();
        if (tx_.control()->doorbell.armed.load(std::memory_order_relaxed) != 0) [[unlikely]] {
            ring_doorbell();
        }
    }

    /// Has the peer returned credit of either kind since the refusal?
    [[nodiscard]] bool credit_came() const noexcept {
        const auto& consumer = tx_.control()->consumer;
        return consumer.cells.load(std::memory_order_acquire) != cells_at_refusal_ ||
               (bulk_tx_.attached() &&
                consumer.bulk.load(std::memory_order_acquire) != bulk_at_refusal_);
    }

    [[nodiscard]] Errc no_room(Short what) noexcept;
    [[nodiscard]] Errc attach_bulk() noexcept;
    void ring_doorbell() noexcept;
    void wake_for_credit() noexcept;
    void send_doorbell() noexcept;

    RingWriter tx_;
    RingReader rx_;
    counters::Slot* slot_ = nullptr;
    int socket_ = -1;
    bool fenced_ = true;
    bool socket_ready_ = false;
    bool unsaid_refusal_ = false;
    bool scribbled_ = false; ///< the peer, on our records
    Errc broken_ = Errc::ok;
    unsigned holds_ = 0;
    const std::uint64_t* arrivals_ = nullptr;
    bool* awaits_answer_ = nullptr;
    bool nobody_asks_ = false;
    std::uint64_t answered_ = 0; ///< of the arrivals, when something was last sent
    BulkWriter bulk_tx_;
    bool refused_ = false;
    bool encouraged_ = false;
    bool refused_with_room_ = false;
    std::uint64_t cells_at_refusal_ = 0;
    std::uint64_t bulk_at_refusal_ = 0;
    std::uint64_t confirmed_seen_ = 0; ///< what confirmed() answered last
    Mapping bulk_rx_;
    BulkMemory bulk_tx_memory_;
    Mapping segment_;
    std::uint64_t number_ = 0;
    PeerMemory peer_memory_;
    std::atomic<std::uint32_t>* told_thread_ = nullptr; ///< null: told
    PutOwner put_owner_;       ///< of the peer's puts
    PutWithdrawal withdrawal_; ///< of ours
    Attention attention_;
    CopyWays ways_{CopyWays::Ring::later};
    CopyWays mapped_ways_{CopyWays::Ring::never};
    GetCost get_cost_;
    std::array<JointCopy, joint_gets> joint_copies_; ///< for our gets
    std::array<joint::Balance, 2> joint_balances_;   ///< of those that are mapped here, and others
    std::array<JointHelp, joint_gets> joint_helps_;  ///< with the peer's
    SleepBell* sleep_ = nullptr;
};

template <class Visit> bool Pipe::visit_puts(std::uint64_t position, Visit&& visit) {
    return tx_.visit_from(
        position, [&](std::uint64_t at, const Header& header, const std::byte* payload) {
            OneSided head{};
            BulkRef ref{};
            switch (static_cast<Kind>(header.kind)) {
            case Kind::put:
                if (header.length < sizeof(head)) {
                    note_scribble();
                    return false;
                }
                std::memcpy(&head, payload, sizeof(head));
                if (head.length != header.length - sizeof(head)) {
                    note_scribble();
                    return false;
                }
                return visit(at, head, payload + sizeof(head));
            case Kind::put_bulk: {
                if (header.length != sizeof(head) + sizeof(ref)) {
                    note_scribble();
                    return false;
                }
                std::memcpy(&head, payload, sizeof(head));
                std::memcpy(&ref, payload + sizeof(head), sizeof(ref));
                const std::byte* const data = bulk_tx_.at(ref);
                if (data == nullptr || head.length != ref.length) {
                    note_scribble();
                    return false;
                }
                return visit(at, head, data);
            }
            case Kind::pad:
            case Kind::bulk_attach:
            case Kind::get:
            case Kind::joint_get:
            case Kind::get_reply: // what the peer asked for has no order with what we ask for
            case Kind::get_reply_bulk:
            case Kind::atomic_reply:
            case Kind::error_reply:
                return true;
            default:
                return false;
            }
        });
}

struct Pipe::Created {
    Pipe pipe;
    UniqueFd memfd;
};

} // namespace comch::link::soft
