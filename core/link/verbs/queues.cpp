#include "core/link/verbs/queues.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "core/base/make_room.hpp"
#include "core/link/verbs/memlock.hpp"
#include "core/link/verbs/pipe.hpp"

namespace comch::link::verbs {
namespace {

/// Receive completions carry their buffer's number and this; completions of sends the number of the
/// work request. (On an error the device says nothing else that could be relied on.)
constexpr std::uint64_t receive_mark = std::uint64_t{1} << 63;

/// Queue pairs that there are completions for at first: a completion queue can be made larger.
constexpr std::uint32_t first_pipes = 8;
/// Completions of sends that one queue pair can have waiting.
constexpr std::uint32_t sends_signalled = tuning::send_queue;

} // namespace

Result<std::unique_ptr<Queues>> Queues::create(std::shared_ptr<RdmaDevice> device,
                                               std::uint32_t pipes) {
    std::unique_ptr<Queues> queues(new Queues(std::move(device)));
    if (auto opened = queues->open(pipes); !opened) {
        return tl::unexpected(std::move(opened.error()));
    }
    return queues;
}

Result<void> Queues::open(std::uint32_t pipes) {
    const auto failed = [&](const char* what) {
        return fail_pinning(fmt::format("cannot create {} on {}", what, device_->name()), errno);
    };
    channel_ = ::ibv_create_comp_channel(device_->context());
    if (channel_ == nullptr) {
        return failed("a completion channel");
    }
    const int flags = ::fcntl(channel_->fd, F_GETFL);
    if (flags < 0 || ::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return failed("a non-blocking completion channel");
    }
    completions_ = std::min(device_->limits().completions,
                            std::min(pipes, first_pipes) * (chunk_slots + sends_signalled));
    cq_ = ::ibv_create_cq(device_->context(), static_cast<int>(completions_), nullptr, channel_, 0);
    if (cq_ == nullptr) {
        return failed("a completion queue");
    }
    receive_depth_ = std::min(device_->limits().shared_depth, pipes * chunk_slots);
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = receive_depth_;
    attr.attr.max_sge = 1;
    srq_ = ::ibv_create_srq(device_->pd(), &attr);
    if (srq_ == nullptr) {
        return failed("a shared receive queue");
    }
    cq_watch_ = std::make_unique<DeviceWatch>(device_, cq_);
    srq_watch_ = std::make_unique<DeviceWatch>(device_, srq_);
    return {};
}

Queues::~Queues() {
    abandon();
}

void Queues::abandon() noexcept {
    head_ = tail_;
    returning_ = 0;
    srq_watch_.reset();
    cq_watch_.reset();
    if (srq_ != nullptr) {
        (void)::ibv_destroy_srq(srq_);
    }
    if (cq_ != nullptr) {
        (void)::ibv_destroy_cq(cq_);
    }
    if (channel_ != nullptr) {
        (void)::ibv_destroy_comp_channel(channel_);
    }
    srq_ = nullptr;
    cq_ = nullptr;
    channel_ = nullptr;
    receives_.clear();
    chunks_.clear();
    device_.reset();
}

std::string Queues::why_broken() const {
    for (const auto* watch : {&cq_watch_, &srq_watch_}) {
        if (*watch && (*watch)->failed()) {
            return fmt::format("the RDMA device {} reports: {}", device_->name(), (*watch)->why());
        }
    }
    return "the RDMA device does not answer any more";
}

Result<void> Queues::add_room() {
    if (pipes_ < chunks_.size()) {
        ++pipes_; // of a queue pair that is gone
        return {};
    }
    const auto first = static_cast<std::uint32_t>(chunks_.size()) * chunk_slots;
    if (auto grown = grow_queues(first + chunk_slots); !grown) {
        return grown;
    }
    // What may find no memory comes first: a chunk without its places would be taken for one with.
    if (const std::size_t ring = std::bit_ceil(std::size_t{first} + chunk_slots);
        ring > arrivals_.size()) {
        std::vector<Arrival> larger(ring);
        for (std::uint64_t i = head_; i != tail_; ++i) {
            larger[i & (ring - 1)] = at(i);
        }
        arrivals_.swap(larger);
        arrivals_mask_ = ring - 1;
    }
    receives_.reserve(arrivals_.size()); // as many, rounded up
    make_room(chunks_);
    auto chunk = Slab::create(*device_, std::size_t{chunk_slots} * tuning::slot_size,
                              IBV_ACCESS_LOCAL_WRITE);
    if (!chunk) {
        return tl::unexpected(std::move(chunk.error()));
    }
    for (std::uint32_t i = 0; i < chunk_slots; ++i) {
        receives_.emplace_back(chunk->data() + std::size_t{i} * tuning::slot_size, chunk->lkey(),
                               receive_mark | (first + i));
    }
    chunks_.push_back(std::move(*chunk));
    for (std::uint32_t i = 0; i < chunk_slots; ++i) {
        give_back(first + i);
    }
    ++pipes_;
    return {};
}

Result<void> Queues::grow_queues(std::uint32_t slots) {
    const auto full = [&](const char* what, std::uint32_t limit) {
        return fail(Errc::no_memory,
                    fmt::format("the RDMA device {} has no room for more connections: {} of this "
                                "port holds {} entries; use more ports (processes)",
                                device_->name(), what, limit));
    };
    if (slots > receive_depth_) {
        const std::uint32_t wanted =
            std::min(std::max(slots, 2 * receive_depth_), device_->limits().shared_depth);
        ibv_srq_attr attr{};
        attr.max_wr = wanted;
        if (wanted < slots || !device_->limits().shared_resize ||
            ::ibv_modify_srq(srq_, &attr, IBV_SRQ_MAX_WR) != 0) {
            return full("the shared receive queue", receive_depth_);
        }
        receive_depth_ = wanted;
    }
    const std::uint32_t needed = slots + (pipes_ + 1) * sends_signalled;
    if (needed > completions_) {
        const std::uint32_t wanted =
            std::min(std::max(needed, 2 * completions_), device_->limits().completions);
        if (wanted < needed || ::ibv_resize_cq(cq_, static_cast<int>(wanted)) != 0) {
            return full("the completion queue", completions_);
        }
        completions_ = wanted;
    }
    return {};
}

void Queues::attach(std::uint32_t qp, Pipe& pipe) {
    by_qp_[qp] = &pipe;
}

void Queues::detach(std::uint32_t qp) {
    // What the device has completed of it goes into the queue first: its number may be used again.
    fetch_all();
    by_qp_.erase(qp);
    last_pipe_ = nullptr;
    last_qp_ = 0;
    for (std::uint64_t i = head_; i != tail_; ++i) {
        if (at(i).qp == qp) {
            at(i).pipe = nullptr;
        }
    }
}

Pipe* Queues::look_up(std::uint32_t qp) noexcept {
    const auto found = by_qp_.find(qp);
    if (found == by_qp_.end()) {
        return nullptr;
    }
    last_qp_ = qp;
    last_pipe_ = found->second;
    return last_pipe_;
}

bool Queues::fetch() {
    if (cq_ == nullptr) [[unlikely]] {
        return false;
    }
    std::array<ibv_wc, tuning::poll_batch> completed;
    const int count = ::ibv_poll_cq(cq_, static_cast<int>(completed.size()), completed.data());
    if (count <= 0) {
        broken_ = broken_ || count < 0;
        return false;
    }
    fetched_ += static_cast<std::uint64_t>(count);
    for (int i = 0; i < count; ++i) {
        const ibv_wc& wc = completed[static_cast<std::size_t>(i)];
        Pipe* const pipe = find(wc.qp_num);
        if ((wc.wr_id & receive_mark) == 0) {
            if (pipe != nullptr) {
                pipe->on_sent(wc.wr_id, wc.status);
            }
            continue;
        }
        const auto index = static_cast<std::uint32_t>(wc.wr_id);
        if (wc.status != IBV_WC_SUCCESS || pipe == nullptr) [[unlikely]] {
            if (pipe != nullptr) {
                pipe->on_failed_receive(wc.status);
            }
            give_back(index);
            continue;
        }
        const std::uint32_t header = wc.imm_data;
        Arrival& arrival = at(tail_++);
        arrival = {.pipe = pipe,
                   .data = receives_[index].data(),
                   .qp = wc.qp_num,
                   .slot = index,
                   .length = wc.byte_len,
                   .written = 0,
                   .header = header,
                   .has_header = (wc.wc_flags & IBV_WC_WITH_IMM) != 0};
        if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) [[unlikely]] {
            // A write that says that it is there takes a buffer, too, and leaves in it what was there.
            arrival.written = std::exchange(arrival.length, 0);
            arrival.has_header =
                arrival.has_header && pipe->expects_writes() &&
                wire::Header::kind_of(header) == static_cast<std::uint8_t>(Kind::data);
        }
        pipe->accept(arrival);
    }
    return true;
}

void Queues::fetch_all() {
    while (fetch()) {
    }
}

void Queues::post_buffers() noexcept {
    ibv_recv_wr* first = nullptr;
    while (returning_ != 0) {
        first = receives_[return_[--returning_]].linked_to(first);
    }
    ++tally_.receive_doorbells;
    ibv_recv_wr* bad = nullptr;
    if (::ibv_post_srq_recv(srq_, first, &bad) != 0) {
        broken_ = true;
    }
}

Errc Queues::arm() {
    if (cq_ == nullptr) {
        return Errc::ok;
    }
    ibv_cq* cq = nullptr;
    void* unused = nullptr;
    unsigned events = 0;
    while (::ibv_get_cq_event(channel_, &cq, &unused) == 0) {
        ++events;
    }
    if (events != 0) {
        ::ibv_ack_cq_events(cq_, events);
        armed_ = false;
    }
    if (!armed_ && ::ibv_req_notify_cq(cq_, 0) != 0) {
        broken_ = true;
        return Errc::again;
    }
    armed_ = true;
    // What was completed before the device heard of it causes no event.
    return fetch() || front() != nullptr ? Errc::again : Errc::ok;
}

} // namespace comch::link::verbs
