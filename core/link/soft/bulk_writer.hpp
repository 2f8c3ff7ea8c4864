// The sending end of a bulk ring: a byte FIFO in a memfd of its own, attached at first use.
//
// Payloads lie one behind the other, each in lines of its own; one that does not fit before the end starts in
// the first, and one may start there before, or leave lines out (bulk_span.hpp): the reader takes either. The
// record that names a payload travels in the small ring and carries the order.
//
// Where few lines are to do, each payload has a slot of its own, as long as any may be, and after a few of them
// the next has the first again. That is all that must have been taken out before: nothing else lies in its slot.
#pragma once

#include <bit>

#include "core/base/clock.hpp"
#include "core/base/cpu_pause.hpp"
#include "core/base/prefetch.hpp"
#include "core/link/soft/asking_ahead.hpp"
#include "core/link/soft/bulk_span.hpp"
#include "core/link/soft/layout.hpp"

namespace comch::link::soft {

class BulkWriter {
public:
    BulkWriter() = default;
    BulkWriter(Direction* control, std::byte* base, std::uint32_t size)
        : BulkWriter(control, base, size, BulkSpan(size)) {}
    BulkWriter(Direction* control, std::byte* base, std::uint32_t size, const BulkSpan& span)
        : control_(control), base_(base), size_(size), span_(span) {}

    [[nodiscard]] bool attached() const noexcept { return base_ != nullptr; }
    [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
    [[nodiscard]] bool corrupt() const noexcept { return corrupt_; }

    /// Contiguous room for up to `wanted` bytes, or null, of which that at `data_at` is to be the first of a
    /// line. Then commit() with what was written, or nothing.
    [[nodiscard]] std::byte* reserve(std::uint32_t wanted, std::uint32_t data_at = 0) noexcept {
        lead_ = lead_for(data_at);
        const std::uint32_t length = lead_ + wanted;
        slotted_ = false;
        if (span_.few_lines() && length <= tuning::slot_size) [[unlikely]] {
            const Place slot = next_slot(length);
            if (slot.end <= consumed_ + size_ || wait_for(slot.end - head_)) {
                slotted_ = true;
                start_ = slot.start;
                return base_ + index_of(start_) + lead_;
            }
            // (Behind what lies within a payload's length of a lap's first line there is never room for it.)
            if (span_.is_strict() && slot.end - head_ <= size_) {
                return nullptr;
            }
        }
        const std::uint32_t index = index_of(head_);
        std::uint64_t skip = 0;
        if (index + length > span_.bytes()) [[unlikely]] {
            skip = size_ - index;
            // Where the beginning is not free yet there is still the rest, if that is long enough.
            if (!span_.is_strict() && index + length <= size_ &&
                head_ + skip + length > consumed_ + size_ && !refresh(skip + length)) {
                skip = 0;
            }
        }
        if (head_ + skip + length > consumed_ + size_ && !refresh(skip + length)) {
            return nullptr;
        }
        start_ = head_ + skip;
        return base_ + index_of(start_) + lead_;
    }

    /// Bytes the peer has certainly taken out; reads its credit line.
    [[nodiscard]] std::uint64_t consumed() noexcept {
        if (attached()) {
            (void)refresh(0);
        }
        return returned_;
    }
    /// The same as last read.
    [[nodiscard]] std::uint64_t last_consumed() const noexcept { return returned_; }

    /// Behind the last payload, as an ever growing position: the next one goes there or farther on.
    [[nodiscard]] std::uint64_t head() const noexcept { return head_; }

    [[nodiscard]] BulkRef commit(std::uint32_t length) noexcept {
        const BulkRef ref{index_of(start_) + lead_, length};
        if (start_ != head_ && index_of(start_) == 0) [[unlikely]] {
            end_of_lap_ = head_;
            begin_of_lap_ = start_;
        }
        const std::uint64_t room = bulk_room(ref);
        head_ = start_ + room;
        if (slotted_) [[unlikely]] {
            in_slot(static_cast<std::uint32_t>(room));
        } else {
            lap_ = {};
        }
        if (span_.wrote(length)) [[unlikely]] {
            span_.took(monotonic_ns());
        }
        return ref;
    }

    /// The last payload, of that length, answers one. The next one will be waited for, and as long, probably: its
    /// lines come while the peer reads this one, where that is faster. (In a stream they would be taken from under
    /// the reader, and there is no time to wait in.)
    [[gnu::noinline]] void answered(std::uint32_t length) noexcept {
        if (asking_.answered()) {
            asking_.took(monotonic_ns());
        }
        if (asking_.now()) {
            ask_for_next(length);
        }
    }

    /// Has the lines of a next payload of that length on their way, if the reader is known to be done with
    /// them.
    [[gnu::noinline]] void ask_for_next(std::uint32_t length) const noexcept {
        Place place{};
        if (span_.few_lines()) { // one that fits into a slot, as far as anybody knows
            place = next_slot(length);
        } else {
            const std::uint32_t index = index_of(head_);
            place.start = head_ + (index + length > span_.bytes() ? size_ - index : 0);
            place.end = place.start + length;
        }
        if (place.end <= consumed_ + size_) {
            prefetch_for_write(base_ + index_of(place.start), length);
        }
    }

    /// Its pages have been given back to the system.
    void lost_pages() noexcept { span_.begin_anew(); }

    /// A payload that has not been overwritten; null if there can be none.
    [[nodiscard]] const std::byte* at(const BulkRef& ref) const noexcept {
        return attached() && ref.length <= size_ && ref.offset <= size_ - ref.length
                   ? base_ + ref.offset
                   : nullptr;
    }

private:
    /// Of a position, within the ring.
    [[nodiscard]] std::uint32_t index_of(std::uint64_t position) const noexcept {
        return static_cast<std::uint32_t>(position) & (size_ - 1);
    }

    struct Place {
        std::uint64_t start;
        std::uint64_t end; ///< up to here the reader must be done with what was there
    };
    /// A lap of the ring in which all payloads so far are in slots.
    struct Lap {
        std::uint32_t bytes = 0; ///< that they hold; 0: there are none
        std::uint32_t last = 0;  ///< of them, in the last
        std::uint64_t slot = 0;  ///< where that begins
        bool follows_another = false;
    };

    /// For a payload of up to `length`. Where the lap before had all its payloads in slots, too, the one that
    /// began there is all that must be gone.
    [[nodiscard]] Place next_slot(std::uint32_t length) const noexcept {
        const auto index = index_of(lap_.slot);
        if (lap_.bytes != 0 && lap_.bytes + lap_.last <= tuning::few_lines_bytes &&
            index + tuning::slot_size + length <= size_) {
            const std::uint64_t next = lap_.slot + tuning::slot_size;
            return {next, next + (lap_.follows_another ? line_size : length)};
        }
        const std::uint64_t first = (head_ + size_ - 1) & ~(std::uint64_t{size_} - 1);
        return {first, first + (lap_.bytes != 0 ? line_size : length)};
    }
    void in_slot(std::uint32_t room) noexcept {
        if (lap_.bytes == 0 || index_of(start_) == 0) {
            lap_ = {.follows_another = lap_.bytes != 0};
        }
        lap_.bytes += room;
        lap_.last = room;
        lap_.slot = start_;
    }
    /// As refresh(), with some patience if the last payload had a slot: the reader kept up until now.
    [[nodiscard]] bool wait_for(std::uint64_t need) noexcept {
        const unsigned looks = lap_.bytes != 0 ? tuning::looks_for_slot : 0;
        for (unsigned look = 0; !refresh(need); ++look) {
            if (look == looks || corrupt_) {
                return false;
            }
            cpu_pause();
        }
        return true;
    }

    [[nodiscard]] bool refresh(std::uint64_t need) noexcept {
        // Acquire: the reader is done with the bytes before they are overwritten.
        const std::uint64_t taken = control_->consumer.bulk.load(std::memory_order_acquire);
        if (taken - returned_ > head_ - returned_) {
            corrupt_ = true;
            return false;
        }
        returned_ = taken;
        consumed_ = taken == end_of_lap_ ? begin_of_lap_ : taken;
        return head_ + need <= consumed_ + size_;
    }

    Direction* control_ = nullptr;
    std::byte* base_ = nullptr;
    std::uint32_t size_ = 0;
    std::uint64_t head_ = 0;
    std::uint64_t start_ = 0;
    std::uint64_t returned_ = 0; ///< up to here, as the peer says
    std::uint64_t consumed_ = 0; ///< and beyond what was left out behind that
    // What was left out at the end of a lap, the last time:
    std::uint64_t end_of_lap_ = 0;
    std::uint64_t begin_of_lap_ = 0;
    std::uint32_t lead_ = 0; ///< of the first line, what is left out
    bool corrupt_ = false;
    bool slotted_ = false; ///< the place at start_
    Lap lap_;
    AskingAhead asking_;
    BulkSpan span_; // last: little of it is used for a message
};

} // namespace comch::link::soft
