// One queue pair with its credit: records out, records in. Connections and the channels under them
// are pipes with different things around them. One thread.
//
// Credit. Each record that the peer may send has a buffer here: `limit` says how many it may send,
// ever. It comes back in the header of whatever goes the other way, or, when nothing does, by an
// RDMA write into the sender's memory, which needs no buffer there and disturbs nobody. There is no
// hurry about that unless somebody waits. Who does says so: by a record behind what he waits for
// (ask), which is answered by such a write in the poll that takes it out; or, if he is going to
// sleep, by one that has him rung (want_credit, bell).
//
// Completions. Most work requests ask for none; one completion tells of all before it. Send buffers
// are used in turn and come back in turn.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <span>
#include <vector>

#include <comch/counters_layout.hpp>
#include <comch/error.hpp>

#include "core/link/bell.hpp"
#include "core/link/link.hpp"
#include "core/link/verbs/cm.hpp"
#include "core/link/verbs/doorbell_batch.hpp"
#include "core/link/verbs/queues.hpp"
#include "core/link/verbs/windows.hpp"
#include "core/link/verbs/wire.hpp"

namespace comch::link::verbs {

class Pipe {
public:
    // What the one-sided engine must know.
    static constexpr std::uint32_t max_chunk = tuning::max_message;
    static constexpr std::uint32_t first_chunk = max_chunk;
    static constexpr std::uint32_t max_operations = tuning::max_one_sided;
    static constexpr std::uint32_t inline_data = max_chunk;
    static constexpr bool bulk_ring = false;
    static constexpr bool kernel_copies = false;

    /// With its buffers, but without a queue pair: what is sent waits.
    [[nodiscard]] static Result<std::unique_ptr<Pipe>> create(Queues& queues);
    ~Pipe();
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;

    void set_slot(counters::Slot* slot) noexcept { slot_ = slot; }
    [[nodiscard]] counters::Slot* slot() const noexcept { return slot_; }
    /// Whoever the records are for.
    void set_owner(void* owner) noexcept { owner_ = owner; }
    [[nodiscard]] void* owner() const noexcept { return owner_; }
    /// The peer may write messages (write_and_send()): to channels only.
    void expect_writes() noexcept { expects_writes_ = true; }
    [[nodiscard]] bool expects_writes() const noexcept { return expects_writes_; }
    void set_number(std::uint64_t number) noexcept { number_ = number; }
    [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

    // ---- making and ending ---------------------------------------------------------------------

    /// Makes the queue pair of an identifier.
    [[nodiscard]] Result<void> make_queue_pair(rdma_cm_id* id);
    /// What the peer must know to return credit, and may send.
    [[nodiscard]] wire::Credential credential() const noexcept;
    /// The queue pair is connected, and the peer's credential known: what waits goes out. False:
    /// the peer's credential is none of a correct peer.
    [[nodiscard]] bool start(const wire::Credential& peer) noexcept;
    [[nodiscard]] bool started() const noexcept { return started_; }

    /// Says to the peer that no record follows.
    void say_goodbye() noexcept;
    /// It, and all before it, have reached the peer's device; or never will.
    [[nodiscard]] bool goodbye_arrived() noexcept;
    /// The peer's has been taken out.
    [[nodiscard]] bool peer_said_goodbye() const noexcept { return peer_said_goodbye_; }
    /// Nothing is sent or received from now on. The device gives back what it holds: when it has
    /// dropped a work request, settled() says so; receive buffers, drained().
    void stop() noexcept;
    [[nodiscard]] bool settled(std::uint64_t ticket) const noexcept {
        return qp_ == nullptr || done_ >= ticket || dropped_ >= ticket;
    }
    [[nodiscard]] bool drained() const noexcept {
        return watch_ == nullptr || watch_->last_receive();
    }
    [[nodiscard]] ibv_qp* queue_pair() const noexcept { return qp_; }
    /// Before the identifier, and so the queue pair, is destroyed.
    void detach() noexcept;
    /// The device goes away: everything of it is given back. What remains answers broken().
    void abandon() noexcept;
    /// As detach(), before start(): another queue pair may be made.
    void unmake() noexcept;

    // ---- sending -------------------------------------------------------------------------------

    /// A record of exactly `length` bytes that `fill` writes in place. With `more` it may wait for the
    /// next, or for ring().
    template <class Fill>
    Errc put_record(Kind kind, std::uint8_t id, std::uint32_t length, Fill&& fill,
                    bool more = false) noexcept {
        std::byte* const to = reserve(length);
        if (to == nullptr) [[unlikely]] {
            return refuse();
        }
        fill(to);
        commit(static_cast<std::uint8_t>(kind), id, to, length, memory_of(to), more);
        queues_.tally().copied_bytes += length;
        return Errc::ok;
    }
    template <class Fill>
    Errc send_inline(std::uint8_t id, std::uint32_t length, Fill&& fill,
                     bool more = false) noexcept {
        if (length > tuning::max_inline) [[unlikely]] {
            return Errc::too_big;
        }
        const Errc result = put_record(Kind::data, id, length, std::forward<Fill>(fill), more);
        if (result == Errc::ok) [[likely]] {
            count_sent(length);
        }
        return result;
    }
    Errc send(std::uint8_t id, std::span<const std::byte> message, bool more = false) noexcept {
        if (message.size() > inline_limit_ || more) {
            if (message.size() > tuning::max_inline) [[unlikely]] {
                return Errc::too_big;
            }
            const auto fill = [&](std::byte* to) {
                if (!message.empty()) { // an empty one may have no address
                    std::memcpy(to, message.data(), message.size());
                }
            };
            return send_inline(id, static_cast<std::uint32_t>(message.size()), fill, more);
        }
        // The device's library copies it while it is told of it.
        if (!has_room() && !make_room(false)) [[unlikely]] {
            return refuse();
        }
        const auto length = static_cast<std::uint32_t>(message.size());
        commit(static_cast<std::uint8_t>(Kind::data), id, message.data(), length, Memory::callers,
               false);
        queues_.tally().copied_bytes += length;
        count_sent(length);
        return Errc::ok;
    }
    template <class Pack>
    std::int64_t send_packed(std::uint8_t id, std::uint32_t max, Pack&& pack,
                             bool more = false) noexcept {
        if (max > tuning::max_message) [[unlikely]] {
            return -static_cast<std::int64_t>(Errc::too_big);
        }
        std::byte* const to = reserve(max);
        if (to == nullptr) [[unlikely]] {
            return -static_cast<std::int64_t>(refuse());
        }
        const std::uint32_t length = pack(to);
        commit(static_cast<std::uint8_t>(Kind::data), id, to, length, memory_of(to), more);
        queues_.tally().copied_bytes += length;
        count_sent(length);
        return length;
    }
    /// Any record, credited.
    Errc put_plain(wire::Control kind, std::span<const std::byte> payload) noexcept {
        return put_record(static_cast<Kind>(kind), 0, static_cast<std::uint32_t>(payload.size()),
                          [&](std::byte* to) { std::memcpy(to, payload.data(), payload.size()); });
    }

    [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
    [[nodiscard]] std::uint64_t confirmed() noexcept;
    /// Somebody waits until the peer has taken out so many of our records (Positions): it is asked
    /// to say so, unless it was already. For whoever looks again and again: if there is no room to
    /// ask now, the next call does.
    void hurry(std::uint64_t records) noexcept {
        if (asked_up_to_ < records && peer_taken_ < records) {
            ask();
        }
    }
    /// Somebody waits for the peer to confirm anything. More than this it does not keep back.
    void hurry() noexcept {
        if (records_ - peer_taken_ < tuning::credit_at_once) {
            hurry(records_);
        }
    }

    // ---- RDMA ----------------------------------------------------------------------------------

    /// Where a work request stands among all of this queue pair.
    using Ticket = Windows::Ticket;

    /// What is sent or written from now on takes effect behind the reads posted so far. By itself
    /// the peer's device may hand out a message while it still fetches what a read before it wants.
    void fence_reads() noexcept { fenced_read_ = last_read_; }
    /// One-sided operations always take effect behind the reads before them.
    void order_reads() noexcept { orders_reads_ = true; }
    /// A put of up to bounce_up_to bytes: copied now, so that the caller's memory is free at once.
    /// With a completion if `signalled`.
    [[nodiscard]] Errc write_copied(const std::byte* from, std::uint32_t length,
                                    std::uint64_t address, std::uint32_t key,
                                    bool signalled) noexcept;
    /// A write from, or a read into, memory that the device knows. With a completion if
    /// `signalled`.
    [[nodiscard]] Errc write(const std::byte* from, std::uint32_t length, std::uint32_t lkey,
                             std::uint64_t address, std::uint32_t key, bool signalled,
                             Ticket& ticket) noexcept;
    /// A write, with a completion, and an empty message behind it: one packet less than by itself.
    [[nodiscard]] Errc write_and_send(const std::byte* from, std::uint32_t length,
                                      std::uint32_t lkey, std::uint64_t address, std::uint32_t key,
                                      std::uint8_t id, Ticket& ticket) noexcept;
    /// A message, of up to max_message bytes, from memory that the device knows. With a completion if
    /// `signalled`. Before start() it is copied: the ticket is 0.
    [[nodiscard]] Errc send_from(const std::byte* from, std::uint32_t length, std::uint32_t lkey,
                                 std::uint8_t id, bool signalled, bool more,
                                 Ticket& ticket) noexcept;
    /// What waits for more goes out.
    void ring() noexcept {
        if (!batch_.empty()) [[unlikely]] {
            (void)hand_over(nullptr);
        }
    }
    [[nodiscard]] Errc read(std::byte* to, std::uint32_t length, std::uint32_t lkey,
                            std::uint64_t address, std::uint32_t key, bool signalled,
                            Ticket& ticket) noexcept;
    /// A get of up to bounce_up_to bytes, through a send buffer.
    [[nodiscard]] Errc read_copied(std::byte* to, std::uint32_t length, std::uint64_t address,
                                   std::uint32_t key, Ticket& ticket) noexcept;
    /// Is it worth a try?
    [[nodiscard]] bool may_open_window(std::uint64_t length) noexcept;
    /// The peer's device may do that (IBV_ACCESS_*) to [base, base + length), a part of `memory`, by
    /// this key from when it gets what is sent next; and that finds room. None: not now, or not on this
    /// device.
    [[nodiscard]] std::optional<std::uint32_t> open_window(std::shared_ptr<const Mr> memory,
                                                           const std::byte* base,
                                                           std::uint64_t length,
                                                           unsigned access) noexcept;
    /// When the ticket is done, it may no longer. 0: it may no longer now.
    [[nodiscard]] Ticket close_window(std::uint32_t key) noexcept;
    /// All that are open; the ticket by which all are closed, also those that were being closed.
    Ticket close_windows() noexcept;
    /// To be called when a ticket of theirs is done.
    void note_closed_windows() noexcept {
        if (windows_ != nullptr) {
            windows_->note_done(done_);
        }
    }
    /// Of a place that the peer's end has told of, link.hpp.
    [[nodiscard]] bool claim(std::uint64_t place) noexcept;
    [[nodiscard]] std::optional<std::uint64_t> withdraw(std::uint64_t place) noexcept;
    /// The copies of reads that are on their way go nowhere.
    void forget_copies() noexcept;
    /// Everything up to the ticket is done at the peer.
    [[nodiscard]] bool done(Ticket ticket) const noexcept { return done_ >= ticket; }
    [[nodiscard]] Ticket posted() const noexcept { return posted_; }
    /// Makes sure that a completion tells of everything posted so far. False: no room now.
    [[nodiscard]] bool ask_for_completion() noexcept;
    /// The same of what was posted up to the ticket.
    [[nodiscard]] bool tell_of(Ticket ticket) noexcept {
        ring();
        const Ticket told = marks_[(marks_tail_ - 1) % marks_.size()].ticket;
        return done(ticket) || told >= ticket || ask_for_completion();
    }

    // ---- holding back, as soft::Pipe -----------------------------------------------------------

    enum Hold : unsigned { hold_fence = 1, hold_queue = 2, hold_transfer = 4 };
    void hold(Hold who) noexcept {
        holds_ |= who;
        allowed_ = 0;
    }
    void release(Hold who) noexcept {
        holds_ &= ~static_cast<unsigned>(who);
        resume();
    }
    [[nodiscard]] bool held() const noexcept { return holds_ != 0; }
    class Bypass {
    public:
        explicit Bypass(Pipe& pipe) noexcept : pipe_(pipe) {
            if (pipe_.broken_ == Errc::ok) {
                pipe_.allowed_ = pipe_.limit_;
            }
        }
        ~Bypass() {
            if (pipe_.holds_ != 0) {
                pipe_.allowed_ = 0;
            }
        }
        Bypass(const Bypass&) = delete;
        Bypass& operator=(const Bypass&) = delete;

    private:
        Pipe& pipe_;
    };
    void encourage() noexcept { encouraged_ = true; }
    [[nodiscard]] bool may_retry() const noexcept {
        return broken_ != Errc::ok || (!corrupt_ && (!refused_ || encouraged_ || room_came()));
    }
    enum class Short : std::uint8_t { neither, ring };
    /// Whose sleep ends if something is refused that it was not armed for.
    void set_sleep(SleepBell* sleep) noexcept { sleep_ = sleep; }
    void note_refusal(Short what) noexcept {
        if (sleep_ != nullptr) {
            sleep_->wake(); // it has not been armed for room
        }
        refused_ = true;
        encouraged_ = false;
        // As soft::Pipe: credit that has come unseen is a reason to try again only where credit was
        // short. A caller that tries again at once would otherwise do so for ever.
        if (what == Short::neither) {
            look_at_credit();
        }
        limit_at_refusal_ = limit_;
        taken_at_refusal_ = peer_taken_;
        done_at_refusal_ = done_;
    }
    void break_off(Errc why) noexcept {
        allowed_ = 0;
        broken_ = why;
    }
    [[nodiscard]] Errc broken() const noexcept { return broken_; }
    /// The device gave this queue pair up.
    [[nodiscard]] bool failed() const noexcept { return failed_; }
    [[nodiscard]] ibv_wc_status failure() const noexcept { return failure_; }
    /// Has the device said so other than by completions? Then failed() is true from now on.
    [[nodiscard]] bool device_gave_up() noexcept;
    /// What it said, for people; empty if nothing.
    [[nodiscard]] std::string device_said() const;
    /// The peer returned credit, or used buffers, that it cannot have.
    [[nodiscard]] bool corrupt() const noexcept { return corrupt_; }

    // ---- positions, as the one-sided engine wants them ------------------------------------------

    struct Positions {
        Pipe& pipe;
        /// Behind the last record of ours.
        [[nodiscard]] std::uint64_t head() const noexcept { return pipe.records_; }
        /// What the peer has taken out.
        [[nodiscard]] std::uint64_t consumed() const noexcept {
            pipe.look_at_credit();
            return pipe.peer_taken_;
        }
    };
    [[nodiscard]] Positions tx() noexcept { return {*this}; }

    // ---- receiving -----------------------------------------------------------------------------

    /// A record has been handed out by the queues. False: no correct peer sends this; the record
    /// must be popped all the same.
    [[nodiscard]] bool open(const Queues::Arrival& arrival, wire::Header& header,
                            const std::byte*& payload, std::uint32_t& length) noexcept {
        life_sign_ = true;
        header = wire::Header::unpack(arrival.header);
        payload = arrival.data;
        length = arrival.length;
        if (!arrival.has_header || length > tuning::slot_size) [[unlikely]] {
            header = {};
            return false;
        }
        const bool credited = wire::is_credited(header.kind);
        if (credited ? ++arrived_ > granted_ : !started_) [[unlikely]] {
            return false; // more than it may, or before it may: it used buffers of others
        }
        if (length > tuning::max_message && header.kind == static_cast<std::uint8_t>(Kind::data))
            [[unlikely]] {
            return false; // there is room for it in a buffer, but the layers above rely on the limit
        }
        return !corrupt_;
    }
    /// One has come, and may have to wait its turn: it tells of credit at once, for the peer does
    /// not say that again. In the order of arrival. Whether there was a buffer for it is seen here
    /// as well: what waits keeps its buffer, which may be another connection's.
    void accept(const Queues::Arrival& arrival) noexcept;
    /// It has to wait while others do. (What concerns sleeping does not: it is no part of the row,
    /// and there is a buffer for one of each only. Nor does anything once the peer has lied.)
    [[nodiscard]] bool keeps_order(const Queues::Arrival& arrival) const noexcept;
    /// Something has come that has not been opened yet.
    [[nodiscard]] bool has_unhandled() const noexcept {
        return fetched_ > arrived_ || (goodbye_came_ && !peer_said_goodbye_);
    }
    /// And has been taken out (popped).
    void taken(const wire::Header& header) noexcept {
        if (!wire::is_credited(header.kind)) {
            return;
        }
        ++taken_;
        quiet_polls_ = 0; // something that answers it may take the credit along
        if (taken_ - returned_ >= tuning::credit_at_once) [[unlikely]] {
            return_credit();
        }
    }
    /// The record at hand asks. However many do, one answer in a poll is enough.
    void note_ask() noexcept { answer_due_ = true; }
    [[nodiscard]] bool owes_answer() const noexcept { return answer_due_; }
    /// There is no way to say it: the queue pair's end will.
    void note_unsaid_refusal() noexcept {}
    /// How many credited records of the peer will have been taken out when all that has come by now
    /// is handled.
    [[nodiscard]] std::uint64_t arrived() noexcept {
        queues_.fetch_all();
        return fetched_;
    }
    /// Have so many been taken out?
    [[nodiscard]] bool has_handled(std::uint64_t arrived) const noexcept {
        return taken_ >= arrived;
    }
    /// Uncredited records of the peer. False: none that is known here.
    [[nodiscard]] bool handle_control(const wire::Header& header, const std::byte* payload,
                                      std::uint32_t length) noexcept;
    /// A message is handed out, or has been: whatever is sent from now on confirms it.
    void count_received(std::uint32_t length) noexcept {
        ++taken_messages_;
        slot_->rx.messages.add(1);
        slot_->rx.bytes.add(length);
    }
    /// Nothing more has arrived: returns what credit is left.
    void idle() noexcept {
        if (owes_credit()) [[unlikely]] {
            return_credit();
        }
        if (goodbye_due_) [[unlikely]] {
            say_goodbye();
        }
    }
    /// Nothing has arrived since the last poll: as idle(), but credit alone waits for something
    /// that takes it along, for a while.
    void quiet() noexcept {
        if (returned_ != taken_ && !peer_waits() && !goodbye_due_ &&
            ++quiet_polls_ < tuning::credit_after_polls) {
            return;
        }
        quiet_polls_ = 0;
        idle();
    }
    /// idle() has something to do.
    [[nodiscard]] bool owes_credit() const noexcept {
        return returned_ != taken_ || bell_due_ || answer_due_;
    }
    /// And the peer has said that it waits, or does not say so because so much comes unasked.
    [[nodiscard]] bool peer_waits() const noexcept {
        return bell_due_ || peer_asked_ || answer_due_ ||
               taken_ - returned_ >= tuning::credit_batch;
    }
    /// What the peer has been told of, to see whether there was something since.
    [[nodiscard]] std::uint64_t returned() const noexcept { return returned_; }

    // ---- sleeping ------------------------------------------------------------------------------

    /// Asks the peer for a bell if something was refused for want of credit, or the owner waits for
    /// confirmations.
    void arm(bool for_credit) noexcept;
    [[nodiscard]] bool must_stay_awake(bool for_credit) noexcept;

    // ---- of the device, from Queues -------------------------------------------------------------

    void on_sent(Ticket ticket, ibv_wc_status status) noexcept;
    void on_failure(ibv_wc_status status) noexcept;
    void on_failed_receive(ibv_wc_status status) noexcept;

    /// Something has come from the peer, or its device has acknowledged something, since the last
    /// time this was asked.
    [[nodiscard]] bool take_life_sign() noexcept { return std::exchange(life_sign_, false); }
    /// Has the device acknowledge something, so that a dead peer is noticed.
    void probe() noexcept;

private:
    /// A work request with a completion, and what that tells.
    struct Mark {
        Ticket ticket = 0;
        std::uint64_t slots = 0; ///< send buffers taken up to it
        std::byte* copy_to = nullptr;
        const std::byte* copy_from = nullptr;
        std::uint32_t copy_length = 0;
    };
    /// Work requests kept for what must always get out: credit, bells, goodbyes, probes.
    static constexpr std::uint32_t reserve_requests = 16;
    /// No header says this.
    static constexpr std::uint32_t no_credit = ~std::uint32_t{0};
    static_assert(wire::Header::credit_of(no_credit) != no_credit);

    explicit Pipe(Queues& queues) : queues_(queues) { request_.sg_list = &place_; }

    /// Where a record's payload is when the device is told of it.
    enum class Memory : std::uint8_t {
        slot,    ///< in the next send buffer
        scratch, ///< where inline messages are built
        callers, ///< in memory of the caller, for one that goes inline and at once
    };
    [[nodiscard]] Memory memory_of(const std::byte* reserved) const noexcept {
        return reserved == scratch() ? Memory::scratch : Memory::slot;
    }
    /// For a record more, as far as is known.
    [[nodiscard]] bool has_room() const noexcept {
        return records_ < allowed_ && posted_ - done_ < tuning::send_queue - reserve_requests;
    }
    [[nodiscard]] std::byte* reserve(std::uint32_t length) noexcept {
        if (!has_room() && !make_room(false)) [[unlikely]] {
            return nullptr;
        }
        if (length <= inline_limit_) [[likely]] {
            if (scratch_used_ + length > tuning::slot_size) [[unlikely]] {
                ring();
            }
            return scratch();
        }
        if (slots_taken_ - slots_freed_ == tuning::send_slots && !make_room(true)) [[unlikely]] {
            return nullptr;
        }
        return send_slot(slots_taken_);
    }
    void commit(std::uint8_t kind, std::uint8_t id, const std::byte* payload, std::uint32_t length,
                Memory memory, bool more) noexcept;
    /// The flag by which a work request waits for the reads that it must be behind.
    [[nodiscard]] unsigned behind_reads(bool is_message) noexcept {
        const Ticket read = orders_reads_ && !is_message ? last_read_ : fenced_read_;
        if (read <= done_) [[likely]] {
            return 0;
        }
        ++queues_.tally().fenced;
        return IBV_SEND_FENCE;
    }
    void count_sent(std::uint32_t length) noexcept {
        ++sent_;
        slot_->tx.messages.add(1);
        slot_->tx.bytes.add(length);
    }
    [[nodiscard]] Errc refuse() noexcept;
    [[nodiscard]] Ticket close(Windows::Window& window) noexcept;
    /// For a window's opening, a request for a completion, and the record that tells of it.
    [[nodiscard]] bool has_room_for_window() const noexcept {
        return records_ < allowed_ &&
               posted_ - done_ + 3 <= tuning::send_queue - reserve_requests &&
               slots_taken_ - slots_freed_ < tuning::send_slots;
    }
    /// Looks for credit and completions that have come. True: there is room now.
    [[nodiscard]] bool make_room(bool slot) noexcept;
    void resume() noexcept {
        if (holds_ == 0 && broken_ == Errc::ok) {
            allowed_ = limit_;
        }
    }
    [[nodiscard]] bool room_came() const noexcept;
    void look_at_credit() noexcept;
    void note_lie() noexcept {
        corrupt_ = true;
        queues_.note_trouble();
    }
    void ask() noexcept;
    void accept_credit(std::uint64_t records, std::uint64_t messages, std::uint64_t limit) noexcept;
    void return_credit() noexcept;
    /// Of a record that goes out now, packed: it takes all credit along that there is.
    [[nodiscard]] std::uint32_t header(std::uint8_t kind, std::uint8_t id) noexcept;
    [[nodiscard]] bool send_control(wire::Control kind, std::uint64_t payload,
                                    bool signalled) noexcept;
    // Fill in the work request, but for flags and number. It is the same one every time.
    [[nodiscard]] ibv_send_wr& request_of(ibv_wr_opcode opcode, const void* own,
                                          std::uint32_t length, std::uint32_t lkey) noexcept;
    [[nodiscard]] ibv_send_wr& record(const std::byte* payload, std::uint32_t length,
                                      std::uint32_t lkey, std::uint32_t header) noexcept;
    /// A write or read, of `own` memory of this process.
    [[nodiscard]] ibv_send_wr& rdma(ibv_wr_opcode opcode, const void* own, std::uint32_t length,
                                    std::uint32_t lkey, std::uint64_t address,
                                    std::uint32_t key) noexcept;
    [[nodiscard, gnu::always_inline]] bool post(ibv_send_wr& request, bool signalled,
                                                bool more = false) noexcept;
    /// A completion for the request, which is going to be the last that was posted.
    void signal(ibv_send_wr& request) noexcept;
    /// The device hears of what waits for more, and of `last` behind it.
    [[nodiscard]] bool hand_over(ibv_send_wr* last) noexcept;
    void post_waiting() noexcept;

    [[nodiscard]] std::byte* send_slot(std::uint64_t index) const noexcept {
        return slab_.data() + ((index - first_slot_) % tuning::send_slots) * tuning::slot_size;
    }
    [[nodiscard]] std::byte* scratch() const noexcept {
        return slab_.data() + std::size_t{tuning::send_slots} * tuning::slot_size + scratch_used_;
    }
    [[nodiscard]] wire::Page* page() const noexcept {
        static wire::Page none{};
        return page_slab_ ? reinterpret_cast<wire::Page*>(page_slab_.data()) : &none;
    }
    /// Puts what is at `from`, a part of our page, there in the peer's.
    void write_to_page(const void* from, std::uint32_t length, std::size_t offset) noexcept;

    Queues& queues_;

    // What every record takes comes first and together, sent or received.
    ibv_qp* qp_ = nullptr;
    counters::Slot* slot_ = nullptr;
    Slab slab_;                      ///< send buffers, and one to build inline messages in
    std::uint64_t records_ = 0;      ///< credited records handed over, ever
    std::uint64_t allowed_ = 0;      ///< how many there may be: limit_, or 0 while held
    std::uint32_t inline_limit_ = 0; ///< 0 until start()
    std::uint32_t scratch_used_ = 0; ///< by the inline messages in it
    Ticket posted_ = 0;
    Ticket done_ = 0;
    std::uint32_t unsignalled_ = 0;
    bool started_ = false;
    bool failed_ = false;
    bool corrupt_ = false;
    bool life_sign_ = false;
    std::uint64_t slots_taken_ = 0;
    std::uint64_t slots_freed_ = 0;
    std::uint64_t slots_signalled_ = 0; ///< slots taken up to the last request with a completion
    Ticket last_read_ = 0;
    Ticket fenced_read_ = 0; ///< what follows takes effect behind it
    std::uint64_t sent_ = 0;
    DoorbellBatch batch_;
    std::uint64_t fetched_ = 0;        ///< credited records that the device has handed over
    std::uint64_t arrived_ = 0;        ///< of these, what was opened, the one at hand included
    std::uint64_t taken_ = 0;          ///< of these, taken out: their room is free
    std::uint64_t taken_messages_ = 0; ///< the one at hand included
    std::uint64_t returned_ = 0;       ///< what the peer has been told of
    std::uint64_t granted_ = 0;        ///< the limit that it has been told of
    std::uint32_t quiet_polls_ = 0;    ///< since it should be told of more
    /// The credit in the last header, while nothing newer is known: what says the same is no news.
    std::uint32_t known_credit_ = no_credit;
    /// The work request that is being posted: one for all, as clearing so many bytes takes longer than
    /// filling in what the device reads.
    ibv_sge place_{};
    ibv_send_wr request_{};

    void* owner_ = nullptr;
    std::unique_ptr<DeviceWatch> watch_; ///< of the queue pair
    Slab page_slab_;                     ///< wire::Page

    // sending
    std::uint64_t limit_ = 0;          ///< how many the peer allows
    std::uint32_t granted_inline_ = 0; ///< by the device
    Ticket dropped_ = 0;               ///< the last that the device gave back undone
    std::uint64_t first_slot_ = 0;     ///< which of them is at the beginning of the memory
    std::uint64_t peer_taken_ = 0;
    std::uint64_t peer_taken_messages_ = 0;
    /// The same, when all that had come by then was known: headers that are not are not older.
    std::uint64_t surely_taken_ = 0;
    std::uint64_t surely_taken_messages_ = 0;
    std::uint64_t asked_up_to_ = 0; ///< records, the last one that asks included
    std::uint32_t marks_head_ = 0;
    std::uint32_t marks_tail_ = 0;

    bool expects_writes_ = false;
    bool orders_reads_ = false;
    bool refused_ = false;
    bool encouraged_ = false;
    bool asked_ = false;    ///< for a bell that has not been rung
    bool bell_due_ = false; ///< the peer asked, and there is something to tell
    bool peer_asked_ = false;
    bool answer_due_ = false; ///< to a record that asked
    bool goodbye_due_ = false;
    bool said_goodbye_ = false;
    bool peer_said_goodbye_ = false;
    bool goodbye_came_ = false; ///< of the peer, and may have to wait its turn
    bool probing_ = false;
    bool room_ = false; ///< that there is room in the queues for it
    unsigned holds_ = 0;
    Errc broken_ = Errc::ok;
    ibv_wc_status failure_ = IBV_WC_SUCCESS;
    Ticket goodbye_ticket_ = 0;
    Ticket probe_ticket_ = 0;
    std::uint64_t withdrawing_ = 0; ///< a place, or 0
    Ticket withdrawal_ticket_ = 0;
    std::uint64_t peer_knows_ = 0; ///< of its records, when it asked
    std::uint64_t limit_at_refusal_ = 0;
    std::uint64_t taken_at_refusal_ = 0;
    Ticket done_at_refusal_ = 0;
    std::uint64_t confirmed_seen_ = 0;
    wire::Credential peer_{};
    std::uint64_t number_ = 0;
    /// A record in a send buffer, before start().
    struct Waiting {
        std::uint32_t length;
        std::uint32_t header;
    };
    std::vector<Waiting> waiting_;
    std::unique_ptr<Windows> windows_; ///< null: it has opened none; of the queue pair
    SleepBell* sleep_ = nullptr;
    std::array<Mark, tuning::send_queue> marks_{};
};

} // namespace comch::link::verbs
