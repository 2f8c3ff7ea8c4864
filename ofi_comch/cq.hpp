// Completion queues.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <comch/error.hpp>

#include "libfabric.hpp"
#include "over_link.hpp"
#include "waiter.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

struct Domain;
class Endpoint;

/// An error completion.
struct Failure {
    fi_cq_err_entry entry{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
};

struct Cq {
    fid_cq fid{};
    Domain* domain = nullptr;
    Waiter waiter;
    fi_cq_format format = FI_CQ_FORMAT_CONTEXT;
    fi_wait_obj wait_object = FI_WAIT_NONE;
    fi_cq_wait_cond wait_condition = FI_CQ_COND_NONE;
    std::atomic<unsigned> references{0}; ///< endpoints that are bound, and poll sets

    explicit Cq(std::shared_ptr<Lock> lock);
    ~Cq();

    void add(const fi_cq_tagged_entry& completion, fi_addr_t source) {
        if (reader_room_ != 0) { // who reads is awake
            *reader_++ = completion;
            --reader_room_;
            return;
        }
        if (count_ > mask_ && !grow()) [[unlikely]] {
            return;
        }
        ring_[(head_ + count_) & mask_] = {completion, source, false};
        ++count_;
        waiter.notify();
    }
    void add_failure(const Failure& failure);

    [[nodiscard]] std::size_t size() const noexcept { return count_; }
    /// take() would find nothing, and has nothing to clean up.
    [[nodiscard]] bool is_idle() const noexcept {
        return count_ == 0 && kept_.empty() && !overrun_;
    }
    [[nodiscard]] bool has_failure() const noexcept { return !failures_.empty() || overrun_; }
    /// As fi_cq_read, for entries of the longest format.
    [[nodiscard]] ssize_t read(fi_cq_tagged_entry* to, std::size_t count) {
        if (!is_idle() || count == 0) [[unlikely]] {
            return read_more(to, count);
        }
        if (std::exchange(drained_, false)) {
            return -FI_EAGAIN;
        }
        return collect(to, count);
    }
    /// As fi_cq_readfrom, without progress.
    [[nodiscard]] ssize_t take(void* to, std::size_t count, fi_addr_t* sources);
    [[nodiscard]] ssize_t take_failure(fi_cq_err_entry* to);
    void reserve(std::size_t size);
    /// Keeps a closed endpoint until the call after the one that takes the last completion that is
    /// here now. There must be room, which is asked for before the endpoint is closed.
    void make_room_to_keep();
    void keep(std::unique_ptr<Endpoint> closed);

private:
    struct alignas(64) Entry {
        fi_cq_tagged_entry completion{};
        fi_addr_t source = FI_ADDR_NOTAVAIL;
        bool failed = false; ///< the next of failures_
    };
    struct Kept {
        std::uint64_t until; ///< so many completions have been taken
        std::unique_ptr<Endpoint> endpoint;
    };
    ssize_t read_more(fi_cq_tagged_entry* to, std::size_t count);
    /// Progresses with nothing in the ring; completions go straight to the reader's memory as long
    /// as there is room, so most never pass through the ring.
    ssize_t collect(fi_cq_tagged_entry* to, std::size_t count) {
        struct Reading { // however it ends, the memory is the reader's again
            std::size_t& room;
            ~Reading() { room = 0; }
        };
        reader_ = to;
        unsigned done = 0;
        try {
            const Reading reading{reader_room_ = count};
            done = waiter.progress();
        } catch (const std::bad_alloc&) {
            if (reader_ == to) {
                throw;
            } // else what has come is told first
        }
        if (reader_ == to) [[likely]] {
            return count_ == 0 ? -FI_EAGAIN : take(to, count, nullptr);
        }
        const auto taken = static_cast<std::size_t>(reader_ - to);
        taken_ += taken;
        if (overrun_) [[unlikely]] { // in this call, which these do not count in
            last_ += taken;
        }
        drained_ = done < small_batch && count_ == 0;
        return static_cast<ssize_t>(taken);
    }
    /// False: there is no memory, and the queue is overrun. It reports what it holds, then the overrun,
    /// and nothing any more.
    [[nodiscard]] bool grow();
    void overrun();
    [[nodiscard]] bool is_over() const noexcept { return overrun_ && taken_ >= last_; }
    void drop_kept();
    /// The beginning of each entry, as the format has it.
    template <std::size_t Size>
    std::size_t copy_out(void* to, std::size_t count, fi_addr_t* sources);

    /// A port that has handled fewer events in a pass has found all its rings empty.
    static constexpr unsigned small_batch = 8;

    fi_cq_tagged_entry* reader_ = nullptr; ///< see collect()
    std::size_t reader_room_ = 0;
    /// The last read took all there was. Many programs read until there is no more, MPI libraries
    /// after every message: the read after this one is told so without another look, which would
    /// stand between a message and its answer.
    bool drained_ = false;
    bool overrun_ = false;
    /// Grows when it is full: a power of two.
    std::vector<Entry> ring_ = std::vector<Entry>(64);
    std::size_t mask_ = 63;
    std::size_t head_ = 0;
    std::size_t count_ = 0;
    std::uint64_t taken_ = 0;
    std::uint64_t last_ = 0; ///< overrun: so many completions are taken, and no more
    std::vector<Kept> kept_;
    std::deque<Failure> failures_;
};

[[nodiscard]] int open_cq(fid_domain* domain, fi_cq_attr* attr, fid_cq** cq, void* context);

} // namespace comch::ofi::inline COMCH_OFI_LINK
