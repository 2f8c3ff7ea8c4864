// Work requests of one queue pair that wait for the next one: the device hears of all of them with
// one doorbell.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <new>

#include <infiniband/verbs.h>

#include "core/link/verbs/tuning.hpp"

namespace comch::link::verbs {

class DoorbellBatch {
public:
    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
    /// The data stays the caller's, inline data too, until take(). False: no more can wait.
    [[nodiscard]] bool add(const ibv_send_wr& request) noexcept {
        if (entries_ == nullptr) {
            entries_.reset(new (std::nothrow) Entries); // once, for those that ever batch
        }
        if (entries_ == nullptr || count_ == entries_->size()) {
            return false;
        }
        Entry& entry = (*entries_)[count_++];
        entry.request = request;
        if (request.num_sge != 0) {
            entry.place = *request.sg_list;
        }
        entry.request.sg_list = &entry.place;
        return true;
    }
    /// All that waits, in order, and `last` (or null) behind it. Stays valid until the next add().
    [[nodiscard]] ibv_send_wr* take(ibv_send_wr* last) noexcept {
        for (; count_ != 0; --count_) {
            ibv_send_wr& request = (*entries_)[count_ - 1].request;
            request.next = last;
            last = &request;
        }
        return last;
    }

private:
    struct Entry {
        ibv_send_wr request;
        ibv_sge place; ///< no send has more than one
    };
    using Entries = std::array<Entry, tuning::doorbell_batch - 1>;

    std::unique_ptr<Entries> entries_;
    std::uint32_t count_ = 0;
};

} // namespace comch::link::verbs
