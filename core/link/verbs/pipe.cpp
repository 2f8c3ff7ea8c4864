#include "core/link/verbs/pipe.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "core/link/verbs/memlock.hpp"

namespace comch::link::verbs {
namespace {

/// What another agent (the device, on the peer's behalf) writes while we look. Acquire: what the
/// peer sent before it is seen after it, as far as the device keeps that order.
std::uint64_t load(const std::uint64_t& word) noexcept {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

/// What was stored before is seen by devices before anything is loaded after it. (A fence of C++ is
/// between CPUs; on aarch64 those may be a smaller circle.)
void fence_to_device() noexcept {
#ifdef __aarch64__
    asm volatile("dmb osh" ::: "memory");
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

constexpr std::size_t page_size = 4096;
static_assert(sizeof(wire::Page) <= page_size);

} // namespace

// ---- making and ending -------------------------------------------------------------------------

Result<std::unique_ptr<Pipe>> Pipe::create(Queues& queues) {
    std::unique_ptr<Pipe> pipe(new Pipe(queues));
    if (auto room = queues.add_room(); !room) {
        return tl::unexpected(std::move(room.error()));
    }
    pipe->room_ = true;
    // One more than there are to hand out: where inline messages are built.
    auto slab =
        Slab::create(queues.device(), std::size_t{tuning::send_slots + 1} * tuning::slot_size,
                     IBV_ACCESS_LOCAL_WRITE);
    if (!slab) {
        return tl::unexpected(std::move(slab.error()));
    }
    pipe->slab_ = std::move(*slab);
    // A registration of its own: the peer gets a key to this page and to nothing else.
    auto page =
        Slab::create(queues.device(), page_size,
                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (!page) {
        return tl::unexpected(std::move(page.error()));
    }
    pipe->page_slab_ = std::move(*page);
    pipe->granted_ = tuning::window;
    // Until the peer says how many it takes, as many as there are buffers here.
    pipe->limit_ = pipe->allowed_ = tuning::send_slots;
    return pipe;
}

Pipe::~Pipe() {
    detach();
    if (room_) {
        queues_.remove_room();
    }
}

Result<void> Pipe::make_queue_pair(rdma_cm_id* id) {
    ibv_qp_init_attr attr{};
    attr.send_cq = queues_.cq();
    attr.recv_cq = queues_.cq();
    attr.srq = queues_.srq();
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = tuning::send_queue;
    attr.cap.max_send_sge = 1;
    // Some devices refuse instead of granting less. What was granted stands in `attr` even when the
    // call fails later, as it does where the peer has given up meanwhile.
    std::uint32_t wanted = tuning::wanted_inline;
    attr.cap.max_inline_data = wanted;
    int result = ::rdma_create_qp(id, queues_.device().pd(), &attr);
    while (result != 0 && errno == EINVAL && wanted != 0) {
        wanted /= 2;
        attr.cap.max_inline_data = wanted;
        result = ::rdma_create_qp(id, queues_.device().pd(), &attr);
    }
    if (result != 0) {
        return fail_pinning(
            fmt::format("cannot create a queue pair on {}", queues_.device().name()), errno);
    }
    qp_ = id->qp;
    watch_ = std::make_unique<DeviceWatch>(queues_.device_ptr(), qp_);
    inline_limit_ = 0; // until it is connected
    queues_.attach(qp_->qp_num, *this);
    ibv_qp_attr state{};
    ibv_qp_init_attr made{};
    if (::ibv_query_qp(qp_, &state, IBV_QP_CAP, &made) == 0) {
        attr.cap.max_inline_data = made.cap.max_inline_data;
    }
    granted_inline_ = std::min(attr.cap.max_inline_data, tuning::max_inline);
    return {};
}

wire::Credential Pipe::credential() const noexcept {
    return {.address = reinterpret_cast<std::uint64_t>(page_slab_.data()),
            .key = page_slab_.rkey(),
            .limit = tuning::window};
}

bool Pipe::start(const wire::Credential& peer) noexcept {
    // Less could not take what may be waiting, more is not in the bits of a header.
    if (peer.limit < tuning::send_slots || peer.limit > wire::max_limit || started_) {
        return false;
    }
    peer_ = peer;
    limit_ = peer.limit;
    started_ = true;
    known_credit_ = no_credit; // of what came before, the limit was not looked at
    if (qp_ != nullptr) {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_RTS;
        attr.min_rnr_timer = tuning::rnr_timer;
        (void)::ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);
    }
    inline_limit_ = granted_inline_;
    resume();
    post_waiting();
    if (goodbye_due_) {
        say_goodbye();
    }
    return true;
}

void Pipe::say_goodbye() noexcept {
    if (said_goodbye_ || failed_) {
        return;
    }
    goodbye_due_ = true;
    if (started_ && send_control(wire::Control::goodbye, 0, true)) {
        goodbye_ticket_ = posted_;
        said_goodbye_ = true;
        goodbye_due_ = false;
    }
}

bool Pipe::goodbye_arrived() noexcept {
    if (goodbye_due_ && started_) {
        say_goodbye();
    }
    return failed_ || (said_goodbye_ && done(goodbye_ticket_));
}

void Pipe::stop() noexcept {
    ring(); // the device gives back only what it has got
    if (qp_ != nullptr) {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_ERR;
        (void)::ibv_modify_qp(qp_, &attr, IBV_QP_STATE);
    }
    windows_.reset();
    failed_ = true;
    queues_.note_trouble();
}

void Pipe::detach() noexcept {
    windows_.reset(); // they hold on to the queue pair
    if (qp_ != nullptr) {
        const std::uint32_t number = qp_->qp_num;
        qp_ = nullptr;
        (void)batch_.take(nullptr);
        scratch_used_ = 0;
        failed_ = true;
        watch_.reset();
        queues_.detach(number);
        fetched_ = arrived_; // what had come is dropped
        goodbye_came_ = peer_said_goodbye_;
    }
}

void Pipe::abandon() noexcept {
    if (broken_ == Errc::ok) {
        break_off(Errc::connection_reset);
    }
    detach();
    failed_ = true;
    slab_ = Slab();
    page_slab_ = Slab();
}

void Pipe::unmake() noexcept {
    detach();
    failed_ = false;
}

// ---- sending -----------------------------------------------------------------------------------

namespace {

static_assert(tuning::window <= wire::max_limit);

/// How much of what the peer has taken is believed before all headers are known that it sent
/// before. With what may be under way, less than half of what their bits count.
constexpr std::uint64_t most_unseen = 32;
static_assert(most_unseen + tuning::window < (1u << wire::messages_bits) / 2);
// Before a channel is ready its queues are not fetched from by who only asks what was confirmed.
static_assert(tuning::send_slots <= most_unseen);

} // namespace

std::uint32_t Pipe::header(std::uint8_t kind, std::uint8_t id) noexcept {
    if (returned_ != taken_) {
        returned_ = taken_;
        granted_ = taken_ + tuning::window;
    }
    // An answer tells of what it answers.
    const bool at_hand = arrived_ != taken_;
    return wire::Header{.kind = kind,
                        .id = id,
                        .at_hand = at_hand,
                        .records = static_cast<std::uint16_t>(taken_ + (at_hand ? 1 : 0)),
                        .messages = static_cast<std::uint8_t>(taken_messages_)}
        .pack();
}

ibv_send_wr& Pipe::request_of(ibv_wr_opcode opcode, const void* own, std::uint32_t length,
                              std::uint32_t lkey) noexcept {
    place_ = {.addr = reinterpret_cast<std::uint64_t>(own), .length = length, .lkey = lkey};
    request_.opcode = opcode;
    request_.num_sge = length == 0 ? 0 : 1;
    request_.send_flags = 0;
    return request_;
}

ibv_send_wr& Pipe::record(const std::byte* payload, std::uint32_t length, std::uint32_t lkey,
                          std::uint32_t header) noexcept {
    ibv_send_wr& request = request_of(IBV_WR_SEND_WITH_IMM, payload, length, lkey);
    request.imm_data = header;
    return request;
}

ibv_send_wr& Pipe::rdma(ibv_wr_opcode opcode, const void* own, std::uint32_t length,
                        std::uint32_t lkey, std::uint64_t address, std::uint32_t key) noexcept {
    ibv_send_wr& request = request_of(opcode, own, length, lkey);
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = key;
    return request;
}

inline bool Pipe::post(ibv_send_wr& request, bool signalled, bool more) noexcept {
    if (qp_ == nullptr || failed_) {
        return false;
    }
    ++posted_;
    ++unsignalled_;
    if (signalled || unsignalled_ >= tuning::signal_every ||
        slots_taken_ - slots_signalled_ >= tuning::signal_every_slots) [[unlikely]] {
        signal(request);
    }
    request.wr_id = posted_;
    ++queues_.tally().work_requests;
    if (more && batch_.add(request)) [[unlikely]] {
        return true;
    }
    return hand_over(&request);
}

void Pipe::signal(ibv_send_wr& request) noexcept {
    request.send_flags |= IBV_SEND_SIGNALED;
    unsignalled_ = 0;
    slots_signalled_ = slots_taken_;
    marks_[marks_tail_++ % marks_.size()] = {.ticket = posted_, .slots = slots_taken_};
    ++queues_.tally().signalled;
}

bool Pipe::hand_over(ibv_send_wr* last) noexcept {
    ibv_send_wr* const first = batch_.take(last);
    scratch_used_ = 0;
    ibv_send_wr* bad = nullptr;
    ++queues_.tally().doorbells;
    if (::ibv_post_send(qp_, first, &bad) != 0) {
        on_failure(IBV_WC_FATAL_ERR);
        return false;
    }
    return true;
}

void Pipe::commit(std::uint8_t kind, std::uint8_t id, const std::byte* payload,
                  std::uint32_t length, Memory memory, bool more) noexcept {
    const std::uint32_t head = header(kind, id);
    ++records_;
    if (!started_) [[unlikely]] {
        waiting_.push_back({.length = length, .header = head});
        ++slots_taken_;
        return;
    }
    ibv_send_wr& request = record(payload, length, slab_.lkey(), head);
    request.send_flags = behind_reads(kind == static_cast<std::uint8_t>(Kind::data));
    if (length <= inline_limit_ && !(memory == Memory::slot && more)) {
        request.send_flags |= IBV_SEND_INLINE; // a slot, if it was reserved, is free again at once
    } else if (memory == Memory::slot) {
        ++slots_taken_;
    }
    (void)post(request, false, more);
    if (more && memory == Memory::scratch && !batch_.empty()) {
        scratch_used_ += length;
    }
}

void Pipe::post_waiting() noexcept {
    if (waiting_.empty()) {
        return;
    }
    // One doorbell for all. Their headers say nothing of credit, nothing having been taken out
    // then.
    std::vector<ibv_send_wr> requests(waiting_.size());
    std::vector<ibv_sge> places(waiting_.size());
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
        places[i] = {.addr = reinterpret_cast<std::uint64_t>(send_slot(i)),
                     .length = waiting_[i].length,
                     .lkey = slab_.lkey()};
        requests[i].wr_id = ++posted_;
        requests[i].sg_list = &places[i];
        requests[i].num_sge = waiting_[i].length == 0 ? 0 : 1;
        requests[i].opcode = IBV_WR_SEND_WITH_IMM;
        requests[i].imm_data = waiting_[i].header;
        requests[i].next = i + 1 < waiting_.size() ? &requests[i + 1] : nullptr;
    }
    requests.back().send_flags = IBV_SEND_SIGNALED;
    slots_signalled_ = slots_taken_;
    marks_[marks_tail_++ % marks_.size()] = {.ticket = posted_, .slots = slots_taken_};
    Tally& tally = queues_.tally();
    tally.work_requests += requests.size();
    ++tally.signalled;
    ++tally.doorbells;
    waiting_.clear();
    ibv_send_wr* bad = nullptr;
    if (qp_ == nullptr || ::ibv_post_send(qp_, requests.data(), &bad) != 0) {
        on_failure(IBV_WC_FATAL_ERR);
    }
}

bool Pipe::send_control(wire::Control kind, std::uint64_t payload, bool signalled) noexcept {
    if (!started_ || posted_ - done_ >= tuning::send_queue) {
        return false;
    }
    const bool in_place = sizeof(payload) <= inline_limit_;
    if (!in_place && slots_taken_ - slots_freed_ == tuning::send_slots && !make_room(true)) {
        return false;
    }
    std::byte* start = reinterpret_cast<std::byte*>(&payload);
    if (!in_place) {
        start = send_slot(slots_taken_++);
        std::memcpy(start, &payload, sizeof(payload));
    }
    ibv_send_wr& request =
        record(start, sizeof(payload), slab_.lkey(), header(static_cast<std::uint8_t>(kind), 0));
    request.send_flags = in_place ? static_cast<unsigned>(IBV_SEND_INLINE) : 0u;
    return post(request, signalled);
}

Errc Pipe::refuse() noexcept {
    if (broken_ != Errc::ok) {
        return broken_;
    }
    // Held back, it is not for want of credit.
    const Short missing = held() && allowed_ == 0 ? Short::neither : Short::ring;
    if (missing != Short::neither) {
        slot_->tx.credit_stalls.add(1);
    }
    note_refusal(missing);
    return Errc::again;
}

bool Pipe::make_room(bool slot) noexcept {
    if (broken_ != Errc::ok || holds_ != 0) {
        const bool bypassed = broken_ == Errc::ok && allowed_ != 0;
        if (!bypassed) {
            return false;
        }
    }
    const bool bypassing = holds_ != 0;
    ring(); // or what is waited for may never come
    // Completions of others' sends, and arrivals, are taken as well; they wait in the queues.
    (void)queues_.fetch();
    look_at_credit();
    if (bypassing) {
        allowed_ = limit_;
    }
    return records_ < allowed_ && posted_ - done_ < tuning::send_queue - reserve_requests &&
           (!slot || slots_taken_ - slots_freed_ < tuning::send_slots);
}

bool Pipe::room_came() const noexcept {
    const wire::Credit* const word = &page()->credit;
    return limit_ != limit_at_refusal_ || done_ != done_at_refusal_ ||
           peer_taken_ != taken_at_refusal_ || load(word->limit) > limit_ ||
           load(word->records) > peer_taken_;
}

std::uint64_t Pipe::confirmed() noexcept {
    look_at_credit();
    confirmed_seen_ = peer_taken_messages_;
    return peer_taken_messages_;
}

// ---- credit ------------------------------------------------------------------------------------

void Pipe::look_at_credit() noexcept {
    const wire::Credit* const word = &page()->credit;
    const std::uint64_t limit = load(word->limit);
    if (limit == 0) {
        return;
    }
    const std::uint64_t records = load(word->records);
    const std::uint64_t messages = load(word->messages);
    if (records - surely_taken_ > most_unseen || messages - surely_taken_messages_ > most_unseen)
        [[unlikely]] {
        // What the peer sent before it wrote this is here. Afterwards no header that is still to
        // come is older, so its low bits say what it means; which they would not, of one from long
        // ago.
        queues_.fetch_all();
        surely_taken_ = records;
        surely_taken_messages_ = messages;
    }
    accept_credit(records, messages, limit);
}

bool Pipe::keeps_order(const Queues::Arrival& arrival) const noexcept {
    const std::uint8_t kind = wire::Header::kind_of(arrival.header);
    return !corrupt_ &&
           (wire::is_credited(kind) || kind == static_cast<std::uint8_t>(wire::Control::goodbye));
}

void Pipe::ask() noexcept {
    if (!started_ || failed_ || broken_ != Errc::ok) {
        return;
    }
    const Bypass bypass(*this); // it overtakes nothing that matters
    std::byte* const to = reserve(0);
    if (to == nullptr) {
        return;
    }
    unsignalled_ = tuning::signal_every; // with a completion: a flush waits for that, too
    commit(static_cast<std::uint8_t>(wire::Control::ask), 0, to, 0, Memory::scratch, false);
    asked_up_to_ = records_;
}

void Pipe::accept(const Queues::Arrival& arrival) noexcept {
    if (!arrival.has_header) [[unlikely]] {
        note_lie();
        return;
    }
    const std::uint8_t kind = wire::Header::kind_of(arrival.header);
    if (wire::is_credited(kind)) [[likely]] {
        ++fetched_;
    }
    const bool is_goodbye = kind == static_cast<std::uint8_t>(wire::Control::goodbye);
    if (fetched_ > granted_ || (is_goodbye && goodbye_came_)) [[unlikely]] {
        note_lie();
        return;
    }
    goodbye_came_ = goodbye_came_ || is_goodbye;
    const std::uint32_t credit = wire::Header::credit_of(arrival.header);
    if (credit == known_credit_) {
        return;
    }
    const wire::Header head = wire::Header::unpack(arrival.header);
    const std::uint64_t records = wire::widen(head.records, wire::records_bits, peer_taken_);
    accept_credit(records, wire::widen(head.messages, wire::messages_bits, peer_taken_messages_),
                  records - (head.at_hand ? 1 : 0) + peer_.limit);
    known_credit_ = credit;
}

void Pipe::accept_credit(std::uint64_t records, std::uint64_t messages,
                         std::uint64_t limit) noexcept {
    if (records <= peer_taken_ && messages <= peer_taken_messages_ && limit <= limit_) {
        return; // nothing new, or overtaken by something newer
    }
    if (records > records_ || messages > sent_ || limit > records_ + wire::max_limit) {
        note_lie();
        return;
    }
    known_credit_ = no_credit; // its bits may come again, and mean something else
    peer_taken_ = std::max(peer_taken_, records);
    peer_taken_messages_ = std::max(peer_taken_messages_, messages);
    if (started_ && limit > limit_) {
        limit_ = limit;
        resume();
    }
}

void Pipe::return_credit() noexcept {
    if (!started_ || failed_) {
        return;
    }
    if (posted_ - done_ >= tuning::send_queue) {
        return; // tried again: owes_credit()
    }
    answer_due_ = false;
    returned_ = taken_;
    granted_ = taken_ + tuning::window;
    // What the device has not fetched yet may be overwritten by the next: newer credit is as good.
    wire::Credit& credit = page()->credit_to_write;
    credit = {.records = taken_, .messages = taken_messages_, .limit = granted_};
    write_to_page(&credit, sizeof(credit), offsetof(wire::Page, credit));
    // Behind it, so that who is woken finds it.
    if (bell_due_ || (peer_asked_ && taken_ > peer_knows_)) {
        bell_due_ = !send_control(wire::Control::bell, 0, false);
        peer_asked_ = peer_asked_ && bell_due_;
    }
}

void Pipe::write_to_page(const void* from, std::uint32_t length, std::size_t offset) noexcept {
    ibv_send_wr& request =
        rdma(IBV_WR_RDMA_WRITE, from, length, page_slab_.lkey(), peer_.address + offset, peer_.key);
    request.send_flags = length <= inline_limit_ ? static_cast<unsigned>(IBV_SEND_INLINE) : 0u;
    (void)post(request, false);
}

// ---- RDMA --------------------------------------------------------------------------------------

Errc Pipe::write_copied(const std::byte* from, std::uint32_t length, std::uint64_t address,
                        std::uint32_t key, bool signalled) noexcept {
    if (allowed_ == 0 || !started_ || posted_ - done_ >= tuning::send_queue - reserve_requests) {
        if (!started_ || !make_room(false)) {
            return refuse();
        }
    }
    unsigned flags = behind_reads(false);
    if (length <= inline_limit_) {
        flags |= static_cast<unsigned>(IBV_SEND_INLINE);
    } else {
        if (slots_taken_ - slots_freed_ == tuning::send_slots && !make_room(true)) {
            return refuse();
        }
        std::byte* const slot = send_slot(slots_taken_++);
        std::memcpy(slot, from, length);
        from = slot;
    }
    queues_.tally().copied_bytes += length;
    ibv_send_wr& request = rdma(IBV_WR_RDMA_WRITE, from, length, slab_.lkey(), address, key);
    request.send_flags = flags;
    return post(request, signalled) ? Errc::ok : refuse();
}

Errc Pipe::write(const std::byte* from, std::uint32_t length, std::uint32_t lkey,
                 std::uint64_t address, std::uint32_t key, bool signalled,
                 Ticket& ticket) noexcept {
    if (!started_ ||
        (posted_ - done_ >= tuning::send_queue - reserve_requests && !make_room(false))) {
        return refuse();
    }
    ibv_send_wr& request = rdma(IBV_WR_RDMA_WRITE, from, length, lkey, address, key);
    request.send_flags = behind_reads(false);
    if (!post(request, signalled)) {
        return refuse();
    }
    queues_.tally().rdma_bytes += length;
    ticket = posted_;
    return Errc::ok;
}

Errc Pipe::write_and_send(const std::byte* from, std::uint32_t length, std::uint32_t lkey,
                          std::uint64_t address, std::uint32_t key, std::uint8_t id,
                          Ticket& ticket) noexcept {
    if (reserve(0) == nullptr || !started_) {
        return refuse();
    }
    ibv_send_wr& request = rdma(IBV_WR_RDMA_WRITE_WITH_IMM, from, length, lkey, address, key);
    request.imm_data = header(static_cast<std::uint8_t>(Kind::data), id);
    ++records_;
    if (!post(request, true)) {
        return refuse();
    }
    queues_.tally().rdma_bytes += length;
    count_sent(0);
    ticket = posted_;
    return Errc::ok;
}

Errc Pipe::send_from(const std::byte* from, std::uint32_t length, std::uint32_t lkey,
                     std::uint8_t id, bool signalled, bool more, Ticket& ticket) noexcept {
    if (!started_) {
        ticket = 0;
        return send(id, {from, length});
    }
    if (reserve(0) == nullptr) {
        return refuse();
    }
    ibv_send_wr& request =
        record(from, length, lkey, header(static_cast<std::uint8_t>(Kind::data), id));
    request.send_flags = behind_reads(true);
    ++records_;
    if (!post(request, signalled, more)) {
        return refuse();
    }
    queues_.tally().rdma_bytes += length;
    count_sent(length);
    ticket = posted_;
    return Errc::ok;
}

Errc Pipe::read(std::byte* to, std::uint32_t length, std::uint32_t lkey, std::uint64_t address,
                std::uint32_t key, bool signalled, Ticket& ticket) noexcept {
    if (!started_ ||
        (posted_ - done_ >= tuning::send_queue - reserve_requests && !make_room(false))) {
        return refuse();
    }
    if (!post(rdma(IBV_WR_RDMA_READ, to, length, lkey, address, key), signalled)) {
        return refuse();
    }
    queues_.tally().rdma_bytes += length;
    ticket = posted_;
    last_read_ = posted_;
    return Errc::ok;
}

Errc Pipe::read_copied(std::byte* to, std::uint32_t length, std::uint64_t address,
                       std::uint32_t key, Ticket& ticket) noexcept {
    if (!started_ || ((slots_taken_ - slots_freed_ == tuning::send_slots ||
                       posted_ - done_ >= tuning::send_queue - reserve_requests) &&
                      !make_room(true))) {
        return refuse();
    }
    std::byte* const slot = send_slot(slots_taken_++);
    const Errc result = read(slot, length, slab_.lkey(), address, key, true, ticket);
    if (result == Errc::ok) {
        queues_.tally().rdma_bytes -= length; // not into the caller's own memory
        Mark& mark = marks_[(marks_tail_ - 1) % marks_.size()];
        mark.copy_to = to;
        mark.copy_from = slot;
        mark.copy_length = length;
    }
    return result;
}

bool Pipe::may_open_window(std::uint64_t length) noexcept {
    if (!started_ || failed_ || !queues_.device().limits().windows ||
        length > tuning::largest_window) {
        return false;
    }
    if (windows_ == nullptr) {
        windows_.reset(new (std::nothrow) Windows(queues_.device().pd()));
    }
    if (windows_ == nullptr) {
        return false;
    }
    windows_->note_done(done_);
    return windows_->unused() != nullptr &&
           (has_room_for_window() || (make_room(true) && has_room_for_window()));
}

std::optional<std::uint32_t> Pipe::open_window(std::shared_ptr<const Mr> memory,
                                               const std::byte* base, std::uint64_t length,
                                               unsigned access) noexcept {
    if (!may_open_window(length) ||
        (unsignalled_ + 1 >= tuning::signal_every && !ask_for_completion())) {
        return std::nullopt;
    }
    Windows::Window& window = *windows_->unused();
    ring(); // by itself: a device that cannot do it says so at once, and nothing is lost
    const std::uint32_t key = ::ibv_inc_rkey(window.device_window->rkey);
    ibv_send_wr& request = request_of(IBV_WR_BIND_MW, nullptr, 0, 0);
    request.imm_data = 0; // one that was left there is an error to soft-RoCE
    request.bind_mw.mw = window.device_window;
    request.bind_mw.rkey = key;
    request.bind_mw.bind_info = {.mr = memory->get(),
                                 .addr = reinterpret_cast<std::uint64_t>(base),
                                 .length = length,
                                 .mw_access_flags = access};
    request.wr_id = posted_ + 1;
    request.next = nullptr;
    ibv_send_wr* bad = nullptr;
    if (failed_ || ::ibv_post_send(qp_, &request, &bad) != 0) {
        windows_->give_up();
        return std::nullopt;
    }
    ++posted_;
    ++unsignalled_;
    ++queues_.tally().work_requests;
    ++queues_.tally().doorbells;
    // (The device's library counts on the key when it is opened again.)
    window.device_window->rkey = key;
    window.memory = std::move(memory);
    window.last = posted_;
    window.state = Windows::Window::State::open;
    return key;
}

Pipe::Ticket Pipe::close_window(std::uint32_t key) noexcept {
    Windows::Window* const window = windows_ == nullptr ? nullptr : windows_->find(key);
    return window == nullptr ? 0 : close(*window);
}

Pipe::Ticket Pipe::close(Windows::Window& window) noexcept {
    if (!failed_ && posted_ - done_ < tuning::send_queue - reserve_requests / 2) {
        ibv_send_wr& request = request_of(IBV_WR_LOCAL_INV, nullptr, 0, 0);
        request.invalidate_rkey = window.device_window->rkey;
        if (post(request, true)) {
            window.last = posted_;
            window.state = Windows::Window::State::closing;
            return posted_;
        }
    }
    // (It has been opened: a correct peer has got what was sent behind that, and is done with it. And
    // where nobody has been told of it, there was room.)
    windows_->drop(window);
    return 0;
}

Pipe::Ticket Pipe::close_windows() noexcept {
    if (windows_ == nullptr) {
        return 0;
    }
    while (Windows::Window* const window = windows_->any_open()) {
        (void)close(*window);
    }
    return windows_->last();
}

// Claiming and withdrawing are Dekker's pattern, between a CPU and the peer's device: each says
// what it is about, and then looks at what the other has said. The device reads after it has
// written: one queue pair, whose responder executes in order, and the read does not pass the write
// on the bus. So if the read did not find the claim, the claimer's look, which is behind the claim,
// finds the withdrawal. Both may find the other's; then the place is left alone: the withdrawer
// takes it for claimed, until the claimer's message comes in another way. All this holds for each
// of the places up to the one that is withdrawn, as the words are numbers that only grow.

bool Pipe::claim(std::uint64_t place) noexcept {
    if (failed_ || !page_slab_) {
        return false;
    }
    wire::Page& own = *page();
    __atomic_store_n(&own.claimed, place, __ATOMIC_RELAXED);
    fence_to_device();
    return load(own.withdrawn) < place;
}

std::optional<std::uint64_t> Pipe::withdraw(std::uint64_t place) noexcept {
    if (failed_ || !page_slab_) {
        return std::nullopt; // whoever notices ends the channel
    }
    wire::Page& own = *page();
    if (withdrawing_ == place) {
        if (!done(withdrawal_ticket_)) {
            (void)queues_.fetch();
        }
        if (!done(withdrawal_ticket_)) {
            return std::nullopt;
        }
        withdrawing_ = 0;
        return load(own.claimed_that_was_read);
    }
    // (Another one that is still under way writes the same word later: it may say "claimed" for
    // what is not, so it has to be over.)
    if (!started_ || !done(withdrawal_ticket_) ||
        posted_ - done_ + 1 >= tuning::send_queue - reserve_requests) {
        (void)queues_.fetch();
        return std::nullopt;
    }
    own.withdrawn_to_write = place;
    write_to_page(&own.withdrawn_to_write, sizeof(own.withdrawn_to_write),
                  offsetof(wire::Page, withdrawn));
    if (read(reinterpret_cast<std::byte*>(&own.claimed_that_was_read), sizeof(std::uint64_t),
             page_slab_.lkey(), peer_.address + offsetof(wire::Page, claimed), peer_.key, true,
             withdrawal_ticket_) == Errc::ok) {
        queues_.tally().rdma_bytes -= sizeof(std::uint64_t); // no payload
        withdrawing_ = place;
    }
    return std::nullopt;
}

void Pipe::forget_copies() noexcept {
    for (std::uint32_t i = marks_head_; i != marks_tail_; ++i) {
        marks_[i % marks_.size()].copy_to = nullptr;
    }
}

bool Pipe::ask_for_completion() noexcept {
    if (failed_ || unsignalled_ == 0) {
        return true; // the last request has one
    }
    if (!started_ || posted_ - done_ >= tuning::send_queue) {
        return false;
    }
    // A write of nothing, to the one place that is surely ours to write to.
    return post(rdma(IBV_WR_RDMA_WRITE, nullptr, 0, 0, peer_.address, peer_.key), true);
}

void Pipe::probe() noexcept {
    if (!started_ || failed_ || (probing_ && !done(probe_ticket_))) {
        return;
    }
    if (unsignalled_ == 0 && posted_ != done_) {
        return; // a completion is due anyway
    }
    ++unsignalled_; // also when there is nothing to be told of
    probing_ = ask_for_completion();
    probe_ticket_ = posted_;
}

// ---- completions -------------------------------------------------------------------------------

void Pipe::on_sent(Ticket ticket, ibv_wc_status status) noexcept {
    if (status != IBV_WC_SUCCESS) {
        dropped_ = std::max(dropped_, ticket);
        on_failure(status);
        return;
    }
    life_sign_ = true;
    while (marks_head_ != marks_tail_) {
        const Mark& mark = marks_[marks_head_ % marks_.size()];
        if (mark.ticket > ticket) {
            break;
        }
        if (mark.copy_to != nullptr) {
            std::memcpy(mark.copy_to, mark.copy_from, mark.copy_length);
            queues_.tally().copied_bytes += mark.copy_length;
        }
        done_ = mark.ticket;
        slots_freed_ = mark.slots;
        ++marks_head_;
    }
    if (slots_freed_ == slots_taken_) {
        first_slot_ = slots_taken_; // those used last are still in the CPU's caches
    }
}

void Pipe::on_failure(ibv_wc_status status) noexcept {
    if (!failed_) {
        failed_ = true;
        failure_ = status;
        queues_.note_trouble();
    }
}

void Pipe::on_failed_receive(ibv_wc_status status) noexcept {
    // The buffers are all as long as they must be: what does not fit no correct peer sends.
    on_failure(status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : status);
}

bool Pipe::device_gave_up() noexcept {
    if (watch_ == nullptr || !watch_->failed()) {
        return false;
    }
    on_failure(watch_->refused_peer() ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_FATAL_ERR);
    return true;
}

std::string Pipe::device_said() const {
    return watch_ == nullptr || !watch_->failed()
               ? std::string()
               : fmt::format("the RDMA device {} reports: {}", queues_.device().name(),
                             watch_->why());
}

// ---- receiving ---------------------------------------------------------------------------------

bool Pipe::handle_control(const wire::Header& head, const std::byte* payload,
                          std::uint32_t length) noexcept {
    switch (static_cast<wire::Control>(head.kind)) {
    case wire::Control::want_credit: {
        wire::WantCredit want{};
        // One at a time, as there is one buffer for it; the same for those that follow.
        if (length != sizeof(want) || peer_asked_) {
            return false;
        }
        std::memcpy(&want, payload, sizeof(want));
        peer_asked_ = true;
        peer_knows_ = want.records;
        bell_due_ = taken_ > peer_knows_; // told by the next idle()
        return true;
    }
    case wire::Control::bell:
        if (!asked_) {
            return false;
        }
        asked_ = false;
        slot_->rx.wakeups.add(1);
        return true;
    case wire::Control::goodbye:
        if (peer_said_goodbye_) {
            return false;
        }
        peer_said_goodbye_ = true;
        return true;
    default:
        return false;
    }
}

// ---- sleeping ----------------------------------------------------------------------------------

void Pipe::arm(bool for_credit) noexcept {
    ring();
    idle();
    const bool waits = refused_ || (for_credit && confirmed_seen_ != sent_);
    if (waits && !asked_ && started_ && !failed_) {
        look_at_credit();
        asked_ = send_control(wire::Control::want_credit, peer_taken_, false);
    }
}

bool Pipe::must_stay_awake(bool for_credit) noexcept {
    if (failed_ || corrupt_) {
        return true;
    }
    if (refused_ && room_came()) {
        refused_ = false; // the next attempt will say whether it is enough
        return true;
    }
    if (const std::uint64_t seen = confirmed_seen_; for_credit && confirmed() != seen) {
        return true;
    }
    const bool waits = refused_ || (for_credit && confirmed_seen_ != sent_);
    return waits && started_ && !asked_; // could not ask for the bell
}

} // namespace comch::link::verbs
