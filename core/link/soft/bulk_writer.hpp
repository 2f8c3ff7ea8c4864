// The sending end of a bulk ring: a byte FIFO in a memfd of its own, attached at first use.
//
// Payloads lie contiguous, each in lines of its own; one that does not fit before the end starts in the first,
// and one may start there before (bulk_span.hpp): the reader takes either. The record that names a
// payload travels in the small ring and carries the order.
#pragma once

#include <bit>

#include "core/base/clock.hpp"
#include "core/base/prefetch.hpp"
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
        const std::uint32_t index = static_cast<std::uint32_t>(head_) & (size_ - 1);
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
        return base_ + (static_cast<std::uint32_t>(start_) & (size_ - 1)) + lead_;
    }

    /// Bytes the peer has certainly taken out; reads its credit line.
    [[nodiscard]] std::uint64_t consumed() noexcept {
        if (attached()) {
            (void)refresh(0);
        }
        return consumed_;
    }
    /// The same as last read.
    [[nodiscard]] std::uint64_t last_consumed() const noexcept { return consumed_; }

    /// Behind the last payload, as an ever growing position: the next one goes there, or to the
    /// next multiple of the size.
    [[nodiscard]] std::uint64_t head() const noexcept { return head_; }

    [[nodiscard]] BulkRef commit(std::uint32_t length) noexcept {
        const BulkRef ref{(static_cast<std::uint32_t>(start_) & (size_ - 1)) + lead_, length};
        head_ = start_ + bulk_room(ref);
        if (span_.wrote(length)) [[unlikely]] {
            span_.took(monotonic_ns());
        }
        return ref;
    }

    /// Has the lines of a next payload of that length on their way, if the reader is known to be done with
    /// them.
    [[gnu::noinline]] void ask_for_next(std::uint32_t length) const noexcept {
        const std::uint32_t index = static_cast<std::uint32_t>(head_) & (size_ - 1);
        const std::uint32_t skip = index + length > span_.bytes() ? size_ - index : 0;
        if (head_ + skip + length <= consumed_ + size_) {
            prefetch_for_write(base_ + (static_cast<std::uint32_t>(head_ + skip) & (size_ - 1)),
                               length);
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
    [[nodiscard]] bool refresh(std::uint64_t need) noexcept {
        // Acquire: the reader is done with the bytes before they are overwritten.
        const std::uint64_t taken = control_->consumer.bulk.load(std::memory_order_acquire);
        if (taken - consumed_ > head_ - consumed_) {
            corrupt_ = true;
            return false;
        }
        consumed_ = taken;
        return head_ + need <= consumed_ + size_;
    }

    Direction* control_ = nullptr;
    std::byte* base_ = nullptr;
    std::uint32_t size_ = 0;
    std::uint64_t head_ = 0;
    std::uint64_t start_ = 0;
    std::uint64_t consumed_ = 0;
    std::uint32_t lead_ = 0; ///< of the first line, what is left out
    bool corrupt_ = false;
    BulkSpan span_; // last: little of it is used for a message
};

} // namespace comch::link::soft
