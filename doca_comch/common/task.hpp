// Tasks: the part that is the same for all kinds. A context allocates all of its tasks when it is
// started; on the data path they only change lists. A program has many, and uses them in turn: what
// is looked at for each message is small, and in one cache line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

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
    std::uint8_t kind = 0;
};

namespace comch::doca {

/// A program's callback of any kind; whoever stores one knows what it is.
using Callback = void (*)();

/// The tasks of a context that are of one kind.
template <class Task> class TaskStore {
public:
    /// Makes the tasks and chains them.
    [[nodiscard]] doca_task* allocate(std::uint32_t count, doca_ctx& ctx, std::uint8_t kind = 0) {
        tasks_ = std::make_unique<Task[]>(count);
        doca_task* first = nullptr;
        for (std::uint32_t i = count; i-- > 0;) {
            tasks_[i].ctx = &ctx;
            tasks_[i].kind = kind;
            tasks_[i].next = first;
            first = &tasks_[i];
        }
        return first;
    }

private:
    std::unique_ptr<Task[]> tasks_;
};

} // namespace comch::doca
