// The receiving end of a ring.
//
// One thread. An empty poll is one load of a line that stays in this CPU's cache until the writer
// takes it. Everything in a header is checked before use; what the payload holds is the caller's to
// copy and check.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/base/prefetch.hpp"
#include "core/link/soft/layout.hpp"
#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {

class RingReader {
public:
    RingReader() = default;
    RingReader(Direction* control, std::byte* cells, std::uint32_t cell_count)
        : cells_(cells), control_(control), mask_(cell_count - 1),
          shift_(static_cast<unsigned>(std::countr_zero(cell_count))) {}

    struct Record {
        Header header{}; ///< the length without its flag
        std::byte* payload = nullptr;
        std::uint64_t end = 0; ///< position behind it
    };

    enum class Peek : std::uint8_t { empty, record, corrupt };

    /// Is a record there? Cheap when not.
    [[nodiscard]] bool ready() const noexcept {
        const std::size_t index = static_cast<std::uint32_t>(position_) & mask_;
        return static_cast<std::uint32_t>(
                   word_at(cells_ + index * cell_size, std::memory_order_relaxed)) ==
               tag_at(position_, shift_);
    }

    /// Looks at the next record without taking it out.
    [[nodiscard]] Peek peek(Record& out) const noexcept {
        const std::uint32_t index = static_cast<std::uint32_t>(position_) & mask_;
        std::byte* const cell = cells_ + std::size_t{index} * cell_size;
        // Acquire: the payload is read after the header that announced it.
        const std::uint64_t word = word_at(cell, std::memory_order_acquire);
        if (static_cast<std::uint32_t>(word) != tag_at(position_, shift_)) {
            return Peek::empty;
        }
        out.header = unpack(word);
        out.payload = cell + 8;
        // Branches, not arithmetic: a predicted branch lets the CPU fetch the next line before this
        // header has arrived; a sum that depends on the header would make it wait for each in turn.
        // The empty asm keeps the compiler from merging them into such a sum. Nothing to gain near,
        // up to a fifth far.
        out.end = position_ + 1;
        if (out.header.length <= cell_payload) [[likely]] {
            asm volatile("" : "+r"(out.end));
            return Peek::record;
        }
        const std::uint16_t marked = out.header.length;
        out.header.length = payload_length(marked);
        if (out.header.length <= line_payload && position_ % line_cells == 0) [[likely]] {
            out.end = position_ + line_cells;
            asm volatile("" : "+r"(out.end));
            return Peek::record;
        }
        out.end = end_of(position_, marked);
        const auto count = static_cast<std::uint32_t>(out.end - position_);
        if (index + count > mask_ + 1) { // one cell always ends before the ring does
            return Peek::corrupt;
        }
        if (count <= tuning::cells_asked_for) {
            ask_for_rest(cell, out.payload + out.header.length);
        }
        return Peek::record;
    }

    /// Takes the record out. The payload is the writer's again once the credit is returned, so this
    /// comes after its last use. True if credit was returned: the writer may be waiting for it.
    bool pop(const Record& record) noexcept {
        position_ = record.end;
        if (record.end >= return_at_) [[unlikely]] {
            return_credit();
            return true;
        }
        return false;
    }

    /// Called when the ring was found empty: nothing stays unreturned while both ends are idle.
    /// True if credit was returned.
    bool return_rest() noexcept {
        if (position_ == returned_ && bulk_done() == bulk_returned_) {
            return false;
        }
        return_credit();
        return true;
    }

    /// The bulk ring has arrived.
    void set_bulk_size(std::uint32_t size) noexcept {
        bulk_batch_ = std::min(size / 8, tuning::credit_batch_bulk);
    }

    /// Confirms the messages that were handed out, the one at hand included, and returns no room:
    /// that one's payload is still being read.
    void confirm() noexcept {
        if (messages_ != confirmed_) {
            // Release: before whatever is said to the writer next.
            control_->consumer.messages.store(messages_, std::memory_order_release);
            confirmed_ = messages_;
        }
    }

    /// Where the next bulk payload must be, checked; null if the reference is wrong.
    [[nodiscard]] const std::byte* bulk(const BulkRef& ref, const std::byte* base,
                                        std::uint32_t size) noexcept {
        const std::uint32_t expected = static_cast<std::uint32_t>(bulk_taken_) & (size - 1);
        const std::uint32_t line = ref.offset - ref.offset % line_size;
        if (ref.length > size || ref.offset > size - ref.length || ref.offset == size ||
            (line < expected && line != 0)) {
            return nullptr;
        }
        bulk_before_ = bulk_taken_;
        bulk_record_ = position_;
        if (line != expected) {
            bulk_taken_ += (line > expected ? line : size) - expected;
        }
        bulk_taken_ += bulk_room(ref);
        if (bulk_taken_ - bulk_returned_ >= bulk_batch_) {
            return_at_ = 0; // with this record's pop
        }
        return base + ref.offset;
    }

    /// Counts a data record that was taken out; published with the credit.
    void count_message() noexcept { ++messages_; }

    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
    /// Of the ring.
    [[nodiscard]] std::uint32_t cells() const noexcept { return mask_ + 1; }
    /// Up to here the bulk ring has been looked at: bytes ever, with those that were left out.
    [[nodiscard]] std::uint64_t bulk_taken() const noexcept { return bulk_taken_; }
    [[nodiscard]] Direction* control() const noexcept { return control_; }

private:
    [[nodiscard]] static std::uint64_t word_at(const std::byte* cell,
                                               std::memory_order order) noexcept {
        return reinterpret_cast<const std::atomic<std::uint64_t>*>(cell)->load(order);
    }

    /// The other lines of a record, which are all there: they come while whoever it is for finds
    /// out what to do with them.
    static void ask_for_rest(const std::byte* cell, const std::byte* end) noexcept {
        const auto in_line = reinterpret_cast<std::uintptr_t>(cell) % line_size;
        for (const std::byte* at = cell + (line_size - in_line); at < end; at += line_size) {
            prefetch_for_read(at);
        }
    }

    /// What the writer may have again: not the payload of a record that has not been taken out,
    /// which is read later, or just now.
    [[nodiscard]] std::uint64_t bulk_done() const noexcept {
        return position_ == bulk_record_ ? bulk_before_ : bulk_taken_;
    }

    void return_credit() noexcept {
        // Release: our reads of the cells are done before the writer may overwrite them.
        if (const std::uint64_t done = bulk_done(); done != bulk_returned_) {
            control_->consumer.bulk.store(done, std::memory_order_release);
            bulk_returned_ = done;
        }
        // Release: what was read in place was read before it is confirmed.
        control_->consumer.messages.store(messages_, std::memory_order_release);
        confirmed_ = messages_;
        control_->consumer.cells.store(position_, std::memory_order_release);
        returned_ = position_;
        return_at_ = bulk_taken_ - bulk_returned_ >= bulk_batch_
                         ? 0 // with the pop of the record at hand
                         : position_ + tuning::credit_batch_cells;
    }

    std::byte* cells_ = nullptr;
    std::uint64_t position_ = 0;
    Direction* control_ = nullptr;
    std::uint32_t mask_ = 0;
    unsigned shift_ = 0;
    std::uint64_t return_at_ = tuning::credit_batch_cells; ///< position at which credit is due
    std::uint64_t returned_ = 0;
    std::uint64_t bulk_taken_ = 0;
    std::uint64_t bulk_returned_ = 0;
    std::uint64_t bulk_before_ = 0;                 ///< before the latest payload
    std::uint64_t bulk_record_ = ~std::uint64_t{0}; ///< position of the record that named it
    std::uint32_t bulk_batch_ = ~0u; ///< taken out before credit is returned; no ring, none
    std::uint64_t messages_ = 0;
    std::uint64_t confirmed_ = 0; ///< of these, as the writer was told
};

} // namespace comch::link::soft
