// Tasks: the part that is the same for all kinds. A context allocates all of its tasks when it is
// started; on the data path they only change lists. A program has many, and uses them in turn: what
// is looked at for each message is small, and in one cache line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <doca_pe.h>

struct doca_task {
    enum class Use : std::uint8_t {
        free,
        allocated, ///< the program's
        submitted, ///< the library's
    };

    static constexpr std::size_t kinds = 5; ///< that a context has at most

    doca_ctx* ctx = nullptr;
    doca_data user_data{};
    doca_task* next = nullptr;
    doca_error_t status = DOCA_SUCCESS;
    Use use = Use::free;
    bool free_wanted = false; ///< by the program, while submitted
    bool more = false;        ///< it is being submitted, and a flush is to follow
    std::uint8_t kind = 0;
};

namespace comch::doca {

/// A program's callback of any kind; whoever stores one knows what it is.
using Callback = void (*)();

/// Submitted tasks, oldest first. A task is in one such queue at a time, chained as the free ones
/// are.
template <class Task> class TaskQueue {
public:
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] Task& front() const noexcept { return static_cast<Task&>(*first_); }
    void push(Task& task) noexcept {
        task.next = nullptr;
        (first_ != nullptr ? last_->next : first_) = &task;
        last_ = &task;
    }
    void push_front(Task& task) noexcept {
        last_ = first_ != nullptr ? last_ : &task;
        task.next = first_;
        first_ = &task;
    }
    Task& pop() noexcept {
        Task& task = front();
        first_ = task.next;
        return task;
    }

private:
    doca_task* first_ = nullptr;
    doca_task* last_ = nullptr; ///< if there is a first one
};

/// The tasks of a context that are of one kind. They stay where they are from one start to the
/// next: a program may still hold one of before, and is told that it is not its own.
template <class Task> class TaskStore {
public:
    /// Chains so many tasks, all of which are free, and makes what is missing.
    [[nodiscard]] doca_task* allocate(std::uint32_t count, doca_ctx& ctx, std::uint8_t kind = 0) {
        if (count > total_) {
            blocks_.push_back({std::make_unique<Task[]>(count - total_), count - total_});
            total_ = count;
        }
        doca_task* first = nullptr;
        std::uint32_t before = total_; // the block
        for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
            before -= block->count;
            for (std::uint32_t i = block->count; i-- > 0;) {
                Task& task = block->tasks[i];
                task.ctx = &ctx;
                task.kind = kind;
                if (before + i < count) {
                    task.next = first;
                    first = &task;
                }
            }
        }
        return first;
    }

private:
    struct Block {
        std::unique_ptr<Task[]> tasks;
        std::uint32_t count;
    };
    std::vector<Block> blocks_;
    std::uint32_t total_ = 0;
};

} // namespace comch::doca
