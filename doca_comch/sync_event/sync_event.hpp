// Sync events: a counter as a context.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <comch/memory.hpp>
#include <doca_sync_event.h>

#include "doca_comch/common/context.hpp"
#include "doca_comch/common/task.hpp"
#include "doca_comch/sync_event/counter.hpp"
#include "doca_comch/sync_event/tasks.hpp"

namespace comch::doca {

enum class Location : std::uint8_t { none, cpu, remote };

/// A counter may be there.
[[nodiscard]] bool fits_counter(const void* address);

/// An event: a counter here, or in another process.
class SyncEvent final : public doca_ctx {
public:
    SyncEvent() { lenient = true; }
    SyncEvent(doca_dev& device, transfer::ImportedMemory memory);
    ~SyncEvent() override;

    [[nodiscard]] doca_error_t set_location(Location SyncEvent::*which, Location where,
                                            doca_dev* device);
    [[nodiscard]] doca_error_t set_counter(void* address);
    [[nodiscard]] doca_error_t set_tasks_conf(EventTaskKind kind, Callback done, Callback failed,
                                              std::uint32_t count);
    [[nodiscard]] doca_error_t export_to(doca_dev& device, std::span<const std::byte>& bytes);

    /// The counter's old value.
    [[nodiscard]] doca_error_t perform(link::AtomicOp op, std::uint64_t operand,
                                       std::uint64_t& old);
    /// SUCCESS: a task of the program's own.
    [[nodiscard]] doca_error_t take(EventTaskKind kind, EventTask*& task);

    Location publisher = Location::none;
    Location subscriber = Location::none;

private:
    struct Conf {
        Callback done = nullptr;
        Callback failed = nullptr;
        std::uint32_t count = 0;
    };

    doca_error_t begin_start() override;
    doca_error_t begin_stop() override { return DOCA_SUCCESS; }
    bool drained() const noexcept override { return inflight() == 0; }
    unsigned drain() override { return tasks_.is_open() ? tasks_.flush() : 0; }
    bool needs_engine() const noexcept override;
    void closed() override;

    [[nodiscard]] doca_error_t changeable() const;
    [[nodiscard]] doca_error_t open();
    void allocate_tasks();
    static void report(doca_task& task, bool success);
    void hold(doca_dev& device);

    Counter counter_;
    std::vector<doca_dev*> devices_; ///< held, one of them perhaps twice
    std::unique_ptr<MemoryMap> map_; ///< of one that was exported
    std::map<const doca_dev*, std::vector<std::byte>> exported_;
    std::array<Conf, doca_task::kinds> conf_;
    std::array<TaskStore<EventTask>, doca_task::kinds> stores_;
    EventTasks tasks_{*this, counter_};
};

inline SyncEvent* of(doca_sync_event* event) {
    return reinterpret_cast<SyncEvent*>(event);
}

} // namespace comch::doca
