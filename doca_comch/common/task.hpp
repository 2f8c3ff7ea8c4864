// Tasks: the part that is the same for all kinds. A context allocates all of its tasks when it is
// started; on the data path they only change lists.
#pragma once

#include <cstdint>
#include <memory>

#include <doca_pe.h>

struct doca_task {
    enum class Use : std::uint8_t {
        free,
        allocated, ///< the program's
        submitted, ///< the library's
    };

    /// Begins the task; called with the task already marked as submitted.
    doca_error_t (*begin)(doca_task&) = nullptr;
    /// Calls the program's callback, for success or for errors.
    void (*report)(doca_task&, bool success) = nullptr;
    doca_ctx* ctx = nullptr;
    doca_data user_data{};
    doca_error_t status = DOCA_SUCCESS;
    Use use = Use::free;
    bool free_wanted = false; ///< by the program, while submitted
    doca_task* next = nullptr;
};

namespace comch::doca {

/// A program's callback of any kind; whoever stores one knows what it is.
using Callback = void (*)();

/// The tasks of a context, which are of one kind.
template <class Task> class TaskStore {
public:
    /// Makes the tasks and chains them. `prepare` sets what is the same for all of them.
    template <class Prepare>
    [[nodiscard]] doca_task* allocate(std::uint32_t count, Prepare&& prepare) {
        tasks_ = std::make_unique<Task[]>(count);
        doca_task* first = nullptr;
        for (std::uint32_t i = count; i-- > 0;) {
            prepare(tasks_[i]);
            tasks_[i].next = first;
            first = &tasks_[i];
        }
        return first;
    }

private:
    std::unique_ptr<Task[]> tasks_;
};

} // namespace comch::doca
