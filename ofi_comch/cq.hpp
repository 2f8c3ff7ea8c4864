// Completion queues.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
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
    unsigned references = 0; ///< endpoints that are bound

    explicit Cq(std::shared_ptr<Lock> lock);
    ~Cq();

    void add(const fi_cq_tagged_entry& completion, fi_addr_t source) {
        if (count_ > mask_) [[unlikely]] {
            grow();
        }
        ring_[(head_ + count_) & mask_] = {completion, source, false};
        ++count_;
        waiter.notify();
    }
    void add_failure(const Failure& failure);

    [[nodiscard]] std::size_t size() const noexcept { return count_; }
    /// take() would find nothing, and has nothing to clean up.
    [[nodiscard]] bool is_idle() const noexcept { return count_ == 0 && kept_.empty(); }
    [[nodiscard]] bool has_failure() const noexcept { return !failures_.empty(); }
    /// As fi_cq_readfrom, without progress.
    [[nodiscard]] ssize_t take(void* to, std::size_t count, fi_addr_t* sources);
    [[nodiscard]] ssize_t take_failure(fi_cq_err_entry* to);
    void reserve(std::size_t size);
    /// Keeps a closed endpoint until the call after the one that takes the last completion that is
    /// here now.
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
    void grow();
    void drop_kept();
    /// The beginning of each entry, as the format has it.
    template <std::size_t Size>
    std::size_t copy_out(void* to, std::size_t count, fi_addr_t* sources);

    /// Grows when it is full: a power of two.
    std::vector<Entry> ring_ = std::vector<Entry>(64);
    std::size_t mask_ = 63;
    std::size_t head_ = 0;
    std::size_t count_ = 0;
    std::uint64_t taken_ = 0;
    std::vector<Kept> kept_;
    std::deque<Failure> failures_;
};

[[nodiscard]] int open_cq(fid_domain* domain, fi_cq_attr* attr, fid_cq** cq, void* context);

} // namespace comch::ofi::inline COMCH_OFI_LINK
