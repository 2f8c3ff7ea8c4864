// What one thread polls: a completion queue, and a shared receive queue with its buffers. A port has
// one of these for all its connections, a channel one of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <infiniband/verbs.h>

#include "core/link/verbs/device_watch.hpp"
#include "core/link/verbs/rdma_device.hpp"
#include "core/link/verbs/slab.hpp"
#include "core/link/verbs/tuning.hpp"
#include "core/link/verbs/wire.hpp"

namespace comch::link::verbs {

class Pipe;

/// What the device was asked for, for tests that hold it against stated maxima.
struct Tally {
    std::uint64_t work_requests = 0;     ///< posted to send queues
    std::uint64_t signalled = 0;         ///< of these, with a completion
    std::uint64_t doorbells = 0;         ///< posts to send queues; each is at least one doorbell
    std::uint64_t fenced = 0;            ///< that wait for reads before them
    std::uint64_t receive_doorbells = 0; ///< posts to the shared receive queue
    std::uint64_t copied_bytes = 0;      ///< payload copied by this link, on either way
    std::uint64_t rdma_bytes = 0;        ///< payload that the device fetched from, or put into, the
                                         ///< caller's own memory
};

class Queues {
public:
    /// A record that has arrived: its payload is in its receive buffer.
    struct Arrival {
        Pipe* pipe;
        const std::byte* data;
        std::uint32_t qp;
        std::uint32_t slot;
        std::uint32_t length;
        std::uint32_t written; ///< into memory of ours, by a write that came with an empty record
        std::uint32_t header;  ///< wire::Header, packed
        bool has_header;       ///< else no correct peer sent it
    };

    /// `pipes`: how many queue pairs the receive queue is to have places for, if the device has as
    /// many; with more, it must be one that can make it larger. Buffers come with each add_room().
    [[nodiscard]] static Result<std::unique_ptr<Queues>> create(std::shared_ptr<RdmaDevice> device,
                                                                std::uint32_t pipes);
    ~Queues();
    Queues(const Queues&) = delete;
    Queues& operator=(const Queues&) = delete;

    /// The device goes away: everything of it is given back, and nothing comes any more.
    void abandon() noexcept;
    /// Receive buffers and completions for one more queue pair.
    [[nodiscard]] Result<void> add_room();
    void remove_room() noexcept { --pipes_; }
    void attach(std::uint32_t qp, Pipe& pipe);
    /// Before the queue pair is destroyed: nothing that comes through it is handed out any more.
    void detach(std::uint32_t qp);

    /// Takes what there is from the device: completions of sends are passed on at once, and so is
    /// what the headers of arrivals say; they themselves wait in a queue. True if there was
    /// something.
    bool fetch();
    /// All that there is.
    void fetch_all();
    /// How much was taken, ever.
    [[nodiscard]] std::uint64_t fetched() const noexcept { return fetched_; }
    /// The oldest arrival, or null.
    [[nodiscard]] Arrival* front() noexcept { return head_ == tail_ ? nullptr : &at(head_); }
    /// Done with the oldest: its buffer is the device's again, soon.
    void pop() noexcept { give_back(at(head_++).slot); }
    /// The oldest leaves the queue, but its buffer stays with the caller until give_back().
    Arrival take() noexcept { return at(head_++); }
    void give_back(std::uint32_t slot) noexcept {
        return_[returning_++] = slot;
        if (returning_ == tuning::repost_batch) {
            post_buffers();
        }
    }
    /// ok: the completion channel becomes readable with the next completion; again: there is
    /// something already.
    [[nodiscard]] Errc arm();
    [[nodiscard]] int event_fd() const noexcept { return channel_->fd; }

    [[nodiscard]] RdmaDevice& device() const noexcept { return *device_; }
    [[nodiscard]] const std::shared_ptr<RdmaDevice>& device_ptr() const noexcept { return device_; }
    [[nodiscard]] ibv_cq* cq() const noexcept { return cq_; }
    [[nodiscard]] ibv_srq* srq() const noexcept { return srq_; }
    [[nodiscard]] Tally& tally() noexcept { return tally_; }
    /// A pipe has failed, or its peer has lied, since this was last asked.
    void note_trouble() noexcept { trouble_ = true; }
    [[nodiscard]] bool take_trouble() noexcept { return std::exchange(trouble_, false); }
    /// These queues do not work any more: a poll failed, or the device says so.
    [[nodiscard]] bool broken() const noexcept {
        return broken_ || (cq_watch_ && cq_watch_->failed()) ||
               (srq_watch_ && srq_watch_->failed());
    }
    /// Why, for people; once they are broken.
    [[nodiscard]] std::string why_broken() const;

private:
    static constexpr std::uint32_t chunk_slots = tuning::receive_buffers;

    /// A receive buffer, as the device is told of it again and again.
    class Receive {
    public:
        Receive(std::byte* buffer, std::uint32_t lkey, std::uint64_t id) noexcept
            : place_{.addr = reinterpret_cast<std::uint64_t>(buffer),
                     .length = tuning::slot_size,
                     .lkey = lkey},
              request_{.wr_id = id, .next = nullptr, .sg_list = nullptr, .num_sge = 1} {}
        [[nodiscard]] const std::byte* data() const noexcept {
            return reinterpret_cast<const std::byte*>(place_.addr);
        }
        [[nodiscard]] ibv_recv_wr* linked_to(ibv_recv_wr* next) noexcept {
            request_.sg_list = &place_; // it may have been moved since
            request_.next = next;
            return &request_;
        }

    private:
        ibv_sge place_;
        ibv_recv_wr request_;
    };

    explicit Queues(std::shared_ptr<RdmaDevice> device) : device_(std::move(device)) {}
    [[nodiscard]] Result<void> open(std::uint32_t pipes);
    [[nodiscard]] Result<void> grow_queues(std::uint32_t slots);
    [[nodiscard]] Pipe* find(std::uint32_t qp) noexcept {
        return qp == last_qp_ && last_pipe_ != nullptr ? last_pipe_ : look_up(qp);
    }
    [[nodiscard]] Pipe* look_up(std::uint32_t qp) noexcept;
    void post_buffers() noexcept;
    [[nodiscard]] Arrival& at(std::uint64_t number) noexcept {
        return arrivals_[number & arrivals_mask_];
    }

    std::shared_ptr<RdmaDevice> device_;
    ibv_comp_channel* channel_ = nullptr;
    ibv_cq* cq_ = nullptr;
    ibv_srq* srq_ = nullptr;
    std::unique_ptr<DeviceWatch> cq_watch_;
    std::unique_ptr<DeviceWatch> srq_watch_;
    std::vector<Slab> chunks_;
    std::vector<Receive> receives_;   ///< by their numbers
    std::uint32_t pipes_ = 0;         ///< that there is room for
    std::uint32_t receive_depth_ = 0; ///< of the shared receive queue
    std::uint32_t completions_ = 0;
    std::unordered_map<std::uint32_t, Pipe*> by_qp_;
    std::uint32_t last_qp_ = 0; ///< the one that was looked up last: usually the next, too
    Pipe* last_pipe_ = nullptr;
    std::vector<Arrival> arrivals_;   ///< a ring, a power of two that all buffers fit in
    std::uint64_t arrivals_mask_ = 0; ///< its size less one, which takes a multiplication to find
    std::uint64_t head_ = 0;
    std::uint64_t tail_ = 0;
    std::uint64_t fetched_ = 0;
    std::array<std::uint32_t, tuning::repost_batch> return_{};
    std::uint32_t returning_ = 0;
    bool armed_ = false;
    bool broken_ = false;
    bool trouble_ = false;
    Tally tally_;
};

} // namespace comch::link::verbs
