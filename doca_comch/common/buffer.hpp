// Buffers, and the stores that they come from and return to.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <doca_buf.h>

#include "doca_comch/common/mmap.hpp"

namespace comch::doca {
class BufferStore;
}

/// A cache line: programs use many in turn.
struct alignas(64) doca_buf {
    doca_mmap* mmap = nullptr;
    std::byte* head = nullptr;
    std::size_t length = 0;
    std::byte* data = nullptr;
    std::size_t data_length = 0;
    comch::doca::BufferStore* store = nullptr;
    doca_buf* next = nullptr; ///< in a list of the program's, or of free buffers
    std::uint32_t tasks = 0;  ///< that use it, and what it points at, until they are done
    std::uint16_t references = 0;
    bool follows = false; ///< it is in a list, and not its head

    [[nodiscard]] bool chained() const noexcept { return next != nullptr || follows; }
    [[nodiscard]] std::size_t tail_room() const noexcept {
        return length - static_cast<std::size_t>(data - head) - data_length;
    }
    /// False: the piece is not inside.
    [[nodiscard]] bool set_data(void* to, std::size_t size) noexcept {
        const auto at = reinterpret_cast<std::uintptr_t>(to);
        const auto begin = reinterpret_cast<std::uintptr_t>(head);
        if (at < begin || at - begin > length || size > length - (at - begin)) {
            return false;
        }
        data = static_cast<std::byte*>(to);
        data_length = size;
        return true;
    }

    /// Data of `size` bytes came behind what is there: not more than fits, should the program have
    /// moved its pieces meanwhile.
    void append(std::size_t size) noexcept { data_length += std::min(size, tail_room()); }

    /// A task that needs it is submitted; is done. What the program has given back in between
    /// returns to its store then.
    void take_for_task() noexcept { ++tasks; }
    inline void return_from_task() noexcept;
    /// The same for one that only reads it: several threads may have such tasks at once.
    void take_for_reading() noexcept {
        std::atomic_ref(tasks).fetch_add(1, std::memory_order_relaxed);
    }
    inline void return_from_reading() noexcept;
    /// The program's last reference is gone.
    inline void let_go() noexcept;
};
static_assert(sizeof(doca_buf) == 64);

namespace comch::doca {

/// A number of buffer objects, in use or free. One thread at a time.
class BufferStore {
public:
    bool is_pool = false; ///< its buffers keep their places

    void add(std::size_t count) {
        blocks_.push_back(std::make_unique<doca_buf[]>(count));
        for (std::size_t i = count; i-- > 0;) {
            doca_buf& buffer = blocks_.back()[i];
            buffer.store = this;
            buffer.next = free_;
            free_ = &buffer;
        }
        total_ += static_cast<std::uint32_t>(count);
        free_count_ += static_cast<std::uint32_t>(count);
    }

    /// With one reference; null if all are in use.
    [[nodiscard]] doca_buf* take(doca_mmap& mmap) noexcept {
        doca_buf* const buffer = free_;
        if (buffer != nullptr) {
            free_ = buffer->next;
            --free_count_;
            buffer->next = nullptr;
            buffer->follows = false;
            buffer->references = 1;
            buffer->mmap = &mmap;
            mmap.buffers.fetch_add(1, std::memory_order_relaxed);
        }
        return buffer;
    }
    void give_back(doca_buf& buffer) noexcept {
        // Release: who sees the map unused sees this thread done with it.
        buffer.mmap->buffers.fetch_sub(1, std::memory_order_release);
        buffer.follows = false;
        buffer.next = free_;
        free_ = &buffer;
        ++free_count_;
    }

    [[nodiscard]] std::uint32_t total() const noexcept { return total_; }
    [[nodiscard]] std::uint32_t free_count() const noexcept { return free_count_; }
    [[nodiscard]] bool unused() const noexcept { return free_count_ == total_; }
    [[nodiscard]] doca_buf* first_free() const noexcept { return free_; }

private:
    std::vector<std::unique_ptr<doca_buf[]>> blocks_;
    doca_buf* free_ = nullptr;
    std::uint32_t total_ = 0;
    std::uint32_t free_count_ = 0;
};

} // namespace comch::doca

void doca_buf::return_from_task() noexcept {
    if (--tasks == 0 && references == 0) [[unlikely]] {
        store->give_back(*this);
    }
}

void doca_buf::return_from_reading() noexcept {
    if (std::atomic_ref(tasks).fetch_sub(1, std::memory_order_acq_rel) == 1 && references == 0)
        [[unlikely]] {
        store->give_back(*this);
    }
}

void doca_buf::let_go() noexcept {
    next = nullptr;
    follows = false;
    if (tasks == 0) [[likely]] {
        store->give_back(*this);
    }
}
