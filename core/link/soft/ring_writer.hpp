// The sending end of a ring: the hot path of every small message.
//
// One thread. What a message of a line or half of one costs: a compare against the credit this side
// already knows, the payload stores, one release store of the header word on the same line, and one
// load of the doorbell line (shared, unchanged while the reader polls). No other line moves.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include <comch/error.hpp>

#include "core/base/clock.hpp"
#include "core/base/prefetch.hpp"
#include "core/link/soft/layout.hpp"
#include "core/link/soft/line_use.hpp"

namespace comch::link::soft {

class RingWriter {
public:
    RingWriter() = default;

    /// `control` and `cells` lie in the shared segment; nothing that the peer can write is read
    /// except the credits, and by visit_from() records, which are checked.
    RingWriter(Direction* control, std::byte* cells, std::uint32_t cell_count)
        : cells_(cells), control_(control), mask_(cell_count - 1),
          shift_(static_cast<unsigned>(std::countr_zero(cell_count))), last_free_(cell_count - 1),
          dirty_(cell_count / line_cells, 0), line_use_(cell_count) {}

    /// Room for a record of `length` payload bytes. Null when there is none (or the peer lied about
    /// its credits: see corrupt()). The returned place is written, and no more of it than publish()
    /// is then told, which may be less; or it is left alone.
    [[nodiscard]] std::byte* reserve(std::uint32_t length) noexcept {
        // One cell more, should it have to fill its line.
        const std::uint32_t need = cells_for(length) + 1;
        std::uint32_t index = static_cast<std::uint32_t>(head_) & mask_;
        if (index + need - 1 > mask_ + 1) [[unlikely]] {
            if (!pad_to_end(index, need)) {
                return nullptr;
            }
            index = 0;
        }
        // And one for the word behind the record, which may have to be zeroed (layout.hpp).
        if (head_ + need > last_free_) [[unlikely]] {
            if (!refresh_credit() || head_ + need > last_free_) {
                return nullptr;
            }
        }
        return cell(index) + 8;
    }

    /// The same for a message of up to cell_payload, if the room is known to be there; null if it is
    /// not, or if only reserve() can tell. Writes to nothing, and is written so that its callers need no
    /// frame, as is publish_cell(): what it needs of this object, it reads again.
    [[nodiscard]] std::byte* free_cell() const noexcept {
        if (head_ >= last_free_) [[unlikely]] {
            return nullptr;
        }
        return cell(static_cast<std::uint32_t>(head_) & mask_) + 8;
    }
    void publish_cell(std::uint8_t id, std::uint32_t length) noexcept {
        publish_short(id, length, head_ + 1);
    }

    [[nodiscard]] bool at_line() const noexcept { return head_ % line_cells == 0; }

    /// A message that could share its line does better to fill it: so it was found (line_use.hpp).
    [[nodiscard]] bool fills_lines() const noexcept { return fills_lines_; }

    /// Counts a message that was published: a lap of the ring is timed by how many it was.
    void count_message() noexcept { ++messages_; }
    [[nodiscard]] const std::uint64_t& messages() const noexcept { return messages_; }

    /// The same for a message of up to line_payload, where a line begins.
    [[nodiscard]] std::byte* free_line() const noexcept {
        if (head_ + line_cells > last_free_ || !at_line()) [[unlikely]] {
            return nullptr;
        }
        return cell(static_cast<std::uint32_t>(head_) & mask_) + 8;
    }
    void publish_line(std::uint8_t id, std::uint32_t length) noexcept {
        publish_short(id, length | fills_line, head_ + line_cells);
    }

    /// Makes the record at the reserved place visible. `kind` includes flags. `share`: what it leaves of
    /// its last line is for the next record.
    void publish(std::uint8_t kind, std::uint8_t id, std::uint32_t length,
                 bool share = false) noexcept {
        const std::uint32_t index = static_cast<std::uint32_t>(head_) & mask_;
        const std::uint32_t count = cells_for(length);
        // Who has whole lines to fill never shares: those behind it would all lie across one line more.
        share = share && count % line_cells != 0;
        const auto marked = static_cast<std::uint16_t>(length | (share ? 0 : fills_line));
        const std::uint64_t end = end_of(head_, marked);
        mark_inside(index, count);
        clean(end);
        publish_header(cell(index), {tag_at(head_, shift_), marked, id, kind});
        head_ = end;
        ask_for_next(static_cast<std::uint32_t>(end) & mask_, count);
    }

    /// Absolute position behind the last record; compare with consumed().
    [[nodiscard]] std::uint64_t head() const noexcept { return head_; }

    /// Cells the peer has certainly taken out. Reads the peer's credit line.
    [[nodiscard]] std::uint64_t consumed() noexcept {
        (void)read_credit();
        return taken_;
    }

    /// The same as last read: what the latest refusal of reserve() was based on.
    [[nodiscard]] std::uint64_t last_consumed() const noexcept { return taken_; }

    /// Is more than half of the ring under way? Reads the peer's credit line only if it seems so.
    [[nodiscard]] bool crowded() noexcept {
        const std::uint64_t half = (mask_ + 1) / 2;
        return head_ - taken_ > half && (!refresh_credit() || head_ - taken_ > half);
    }

    /// Shows the records from `position` on, which nothing has been written over: `visit(position,
    /// header, payload)`. False: it said no, or the peer has scribbled on them (then corrupt(),
    /// too).
    template <class Visit> [[nodiscard]] bool visit_from(std::uint64_t position, Visit&& visit) {
        while (position != head_) {
            const std::uint32_t index = static_cast<std::uint32_t>(position) & mask_;
            Header header = unpack(word(index).load(std::memory_order_relaxed));
            const auto count =
                static_cast<std::uint32_t>(end_of(position, header.length) - position);
            if (header.tag != tag_at(position, shift_) || count > head_ - position ||
                index + count > mask_ + 1) {
                corrupt_ = true;
                return false;
            }
            header.length = payload_length(header.length);
            if (!visit(position, header, cell(index) + 8)) {
                return false;
            }
            position += count;
        }
        return true;
    }

    /// From now on there is no room, until resume(). Costs the hot path nothing: the credit is gone.
    void stop() noexcept {
        stopped_ = true;
        last_free_ = 0;
    }
    void resume() noexcept { stopped_ = false; }
    [[nodiscard]] bool stopped() const noexcept { return stopped_; }

    /// True once the peer has published a credit that no correct peer can, or written where only we
    /// write: it must be disconnected.
    [[nodiscard]] bool corrupt() const noexcept { return corrupt_; }

    /// Bytes, with the headers.
    [[nodiscard]] std::uint64_t size() const noexcept {
        return (std::uint64_t{mask_} + 1) * cell_size;
    }
    [[nodiscard]] Direction* control() const noexcept { return control_; }

private:
    /// The lines of another record of `count` cells, but for the first, which the reader looks at; for
    /// short ones, as publish_short().
    void ask_for_next(std::uint32_t index, std::uint32_t count) noexcept {
        if (head_ + count > last_free_) {
            return;
        }
        const std::uint32_t first = (index + line_cells) & ~(line_cells - 1);
        const std::uint32_t end = std::max(index + count, first + 1);
        for (std::uint32_t next = first; next < end; next += line_cells) {
            prefetch_for_write(cell(next & mask_));
        }
    }

    void publish_short(std::uint8_t id, std::uint32_t marked_length, std::uint64_t end) noexcept {
        const std::uint32_t index = static_cast<std::uint32_t>(head_) & mask_;
        clean(end);
        // Every line comes back from the reader's cache. Asked for while the lines before it are
        // filled, it is here when its turn comes: a CPU that waits for it in its store buffer can wait
        // for few at a time. But a reader that keeps up wants it too (line_use.hpp).
        prefetch_for_write(cell((index + ahead_) & mask_));
        publish_header(cell(index),
                       {tag_at(head_, shift_), static_cast<std::uint16_t>(marked_length), id,
                        static_cast<std::uint8_t>(Kind::data)});
        head_ = end;
    }

    static void publish_header(std::byte* at, const Header& header) noexcept {
        // Release: the payload, and the zero behind it, are visible before the header is.
        reinterpret_cast<std::atomic<std::uint64_t>*>(at)->store(pack(header),
                                                                 std::memory_order_release);
    }

    [[nodiscard]] std::byte* cell(std::uint32_t index) const noexcept {
        return cells_ + std::size_t{index} * cell_size;
    }
    [[nodiscard]] std::atomic<std::uint64_t>& word(std::uint32_t index) const noexcept {
        return *reinterpret_cast<std::atomic<std::uint64_t>*>(cell(index));
    }

    [[nodiscard]] bool read_credit() noexcept {
        // Acquire: the reader is done with the cells before they are overwritten.
        const std::uint64_t taken = control_->consumer.cells.load(std::memory_order_acquire);
        if (taken - taken_ > head_ - taken_) { // behind what it said before, or ahead of us
            corrupt_ = true;
            return false;
        }
        taken_ = taken;
        return true;
    }

    [[nodiscard]] bool refresh_credit() noexcept {
        if (stopped_ || !read_credit()) {
            return false;
        }
        last_free_ = taken_ + mask_;
        if (line_use_.has_lapped(head_)) [[unlikely]] {
            look_at_lap();
        }
        return true;
    }
    [[gnu::noinline]] void look_at_lap() noexcept {
        line_use_.took(head_, messages_, monotonic_ns());
        fills_lines_ = line_use_.now().fills;
        ahead_ = line_use_.now().ahead * line_cells;
    }

    /// Fills the end of the ring with a pad record so that the next record starts at cell 0.
    [[nodiscard]] bool pad_to_end(std::uint32_t index, std::uint32_t need) noexcept {
        const std::uint32_t rest = mask_ + 1 - index;
        if (head_ + rest + need > last_free_ &&
            (!refresh_credit() || head_ + rest + need > last_free_)) {
            return false;
        }
        publish(static_cast<std::uint8_t>(Kind::pad), 0, rest * cell_size - 8);
        return true;
    }

    /// Zeroes the word at `next`, which is the first behind a record, if it may look like a header. A
    /// record's own first cell has been cleaned when the one before it was published.
    void clean(std::uint64_t next) noexcept {
        const std::uint32_t index = static_cast<std::uint32_t>(next) & mask_;
        if (next % line_cells != 0) {
            // In the line that is being written anyway: that costs less than to know whether it must be.
            word(index).store(0, std::memory_order_relaxed);
        } else if (dirty_lines_ != 0) [[unlikely]] {
            // To be read again there: a register for it would be one that our caller has to save.
            asm volatile("" : "+m"(dirty_lines_));
            clean_line(index);
        }
    }
    void clean_line(std::uint32_t index) noexcept {
        if (std::uint8_t& dirty = dirty_[index / line_cells]; dirty != 0) {
            word(index).store(0, std::memory_order_relaxed);
            dirty = 0;
            --dirty_lines_;
        }
    }

    /// `count` cells from `index` on have become a record: lines begin inside it.
    void mark_inside(std::uint32_t index, std::uint32_t count) noexcept {
        for (std::uint32_t line = index / line_cells + 1; line * line_cells < index + count;
             ++line) {
            if (dirty_[line] == 0) {
                dirty_[line] = 1;
                ++dirty_lines_;
            }
        }
    }

    // In the order of use; one private line.
    std::byte* cells_ = nullptr;
    std::uint64_t head_ = 0;
    Direction* control_ = nullptr;
    std::uint32_t mask_ = 0;
    unsigned shift_ = 0;
    std::uint64_t last_free_ = 0; ///< position of the last cell that may be written; 0: none
    std::uint32_t dirty_lines_ = 0;
    bool stopped_ = false;
    bool corrupt_ = false;
    // line_use_.now(), near what a send reads.
    bool fills_lines_ = LineUse::ways[0].fills;
    std::uint32_t ahead_ = LineUse::ways[0].ahead * line_cells; ///< cells; 0 asks for what is here
    std::uint64_t messages_ = 0;
    std::uint64_t taken_ = 0; ///< last credit that the peer returned, checked
    std::vector<std::uint8_t>
        dirty_; ///< per line: its beginning was last written as the inside of a record
    LineUse line_use_;
};

} // namespace comch::link::soft
