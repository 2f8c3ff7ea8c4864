// The receiving end of a ring.
//
// One thread. An empty poll is one load of a line that stays in this CPU's cache until the writer
// takes it. Everything in a header is checked before use; what the payload holds is the caller's to
// copy and check.
#pragma once

#include <cstring>

#include "core/link/soft/layout.hpp"
#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {

class RingReader {
public:
    RingReader() = default;
    RingReader(Direction* control, std::byte* lines, std::uint32_t line_count)
        : lines_(lines), control_(control), mask_(line_count - 1),
          shift_(static_cast<unsigned>(std::countr_zero(line_count))) {}

    struct Record {
        Header header{};
        std::byte* payload = nullptr;
    };

    enum class Peek : std::uint8_t { empty, record, corrupt };

    /// Is a record there? Cheap when not.
    [[nodiscard]] bool ready() const noexcept {
        return static_cast<std::uint32_t>(head_word(std::memory_order_relaxed)) ==
               tag_at(position_, shift_);
    }

    /// Looks at the next record without taking it out.
    [[nodiscard]] Peek peek(Record& out) const noexcept {
        // Acquire: the payload is read after the header that announced it.
        const std::uint64_t word = head_word(std::memory_order_acquire);
        if (static_cast<std::uint32_t>(word) != tag_at(position_, shift_)) {
            return Peek::empty;
        }
        out.header = unpack(word);
        const std::uint32_t index = static_cast<std::uint32_t>(position_) & mask_;
        if (index + lines_for(out.header.length) > mask_ + 1) [[unlikely]] {
            return Peek::corrupt;
        }
        out.payload = lines_ + std::size_t{index} * line_size + 8;
        return Peek::record;
    }

    /// Takes the record out. The payload is the writer's again once the credit is returned, so this
    /// comes after its last use.
    void pop(const Record& record) noexcept {
        // A branch, not arithmetic: a predicted branch lets the CPU fetch the next line before this
        // header has arrived; a sum that depends on the header would make it wait for each in turn.
        if (record.header.length <= line_size - sizeof(std::uint64_t)) [[likely]] {
            position_ += 1;
            asm volatile("" : "+r"(position_));
        } else {
            position_ += lines_for(record.header.length);
        }
        if (position_ - returned_ >= tuning::credit_batch_lines ||
            bulk_taken_ - bulk_returned_ >= tuning::credit_batch_bulk) [[unlikely]] {
            return_credit();
        }
    }

    /// Called when the ring was found empty: nothing stays unreturned while both ends are idle.
    /// True if credit was returned.
    bool return_rest() noexcept {
        if (position_ == returned_ && bulk_taken_ == bulk_returned_) {
            return false;
        }
        return_credit();
        return true;
    }

    /// Confirms the messages that were handed out, the one at hand included, and returns no room:
    /// that one's payload is still being read.
    void confirm() noexcept {
        // Release: before whatever is said to the writer next.
        control_->consumer.messages.store(messages_, std::memory_order_release);
    }

    /// Where the next bulk payload must be, checked; null if the reference is wrong.
    [[nodiscard]] const std::byte* bulk(const BulkRef& ref, const std::byte* base,
                                        std::uint32_t size) noexcept {
        const std::uint32_t expected = static_cast<std::uint32_t>(bulk_taken_) & (size - 1);
        if (ref.length > size || ref.offset > size - ref.length ||
            (ref.offset != expected && ref.offset != 0)) {
            return nullptr;
        }
        if (ref.offset != expected) {
            bulk_taken_ += size - expected;
        }
        bulk_taken_ += (std::uint64_t{ref.length} + line_size - 1) & ~std::uint64_t{line_size - 1};
        return base + ref.offset;
    }

    /// Counts a data record that was taken out; published with the credit.
    void count_message() noexcept { ++messages_; }

    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
    [[nodiscard]] Direction* control() const noexcept { return control_; }
    /// Set each time credit has been returned; the owner clears it after looking at wants_credit.
    [[nodiscard]] bool take_credit_event() noexcept {
        const bool event = credit_event_;
        credit_event_ = false;
        return event;
    }

private:
    [[nodiscard]] std::uint64_t head_word(std::memory_order order) const noexcept {
        const std::size_t index = static_cast<std::uint32_t>(position_) & mask_;
        return reinterpret_cast<const std::atomic<std::uint64_t>*>(lines_ + index * line_size)
            ->load(order);
    }

    void return_credit() noexcept {
        // Release: our reads of the lines are done before the writer may overwrite them.
        if (bulk_taken_ != bulk_returned_) {
            control_->consumer.bulk.store(bulk_taken_, std::memory_order_release);
            bulk_returned_ = bulk_taken_;
        }
        // Release: what was read in place was read before it is confirmed.
        control_->consumer.messages.store(messages_, std::memory_order_release);
        control_->consumer.lines.store(position_, std::memory_order_release);
        returned_ = position_;
        credit_event_ = true;
    }

    std::byte* lines_ = nullptr;
    std::uint64_t position_ = 0;
    Direction* control_ = nullptr;
    std::uint32_t mask_ = 0;
    unsigned shift_ = 0;
    std::uint64_t returned_ = 0;
    std::uint64_t bulk_taken_ = 0;
    std::uint64_t bulk_returned_ = 0;
    std::uint64_t messages_ = 0;
    bool credit_event_ = false;
};

} // namespace comch::link::soft
