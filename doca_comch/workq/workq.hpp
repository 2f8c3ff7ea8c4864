// Work queues: an engine of their own each, with room for the events of the jobs that are done; and
// the lanes that lead from a queue to the contexts it was added to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <doca_workq.h>

#include "doca_comch/common/engine.hpp"

namespace comch::doca {

/// Does the jobs of one context that come from one queue. A lane belongs to the queue's thread.
class JobLane {
public:
    JobLane() = default;
    virtual ~JobLane() = default;
    JobLane(const JobLane&) = delete;
    JobLane& operator=(const JobLane&) = delete;

    /// SUCCESS: the queue's done() will be called, by its engine's progress and not before. There are
    /// never more jobs under way than the queue is deep.
    [[nodiscard]] virtual doca_error_t submit(const doca_job& job) = 0;
    [[nodiscard]] virtual bool busy() const noexcept = 0;
    /// The queue's depth changes; nothing is under way. Not SUCCESS: it is as before.
    [[nodiscard]] virtual doca_error_t set_depth(std::uint32_t depth) = 0;
};

} // namespace comch::doca

/// One thread at a time.
struct doca_workq {
public:
    static constexpr std::uint32_t max_depth = 65536;

    doca_workq(std::unique_ptr<comch::ProgressEngine> engine, std::uint32_t depth)
        : engine_(std::move(engine)), events_(depth) {}

    [[nodiscard]] doca_pe& engine() noexcept { return engine_; }
    [[nodiscard]] std::uint32_t depth() const noexcept {
        return static_cast<std::uint32_t>(events_.size());
    }
    [[nodiscard]] doca_error_t set_depth(std::uint32_t depth);

    [[nodiscard]] doca_error_t submit(const doca_job& job);
    [[nodiscard]] doca_error_t retrieve(doca_event& event);
    /// For lanes: a job that was submitted has ended.
    void done(int type, doca_data user_data, doca_error_t status) noexcept;

    /// The handle becomes readable when there is something to do, at once if there is now.
    void arm();
    bool event_driven = false;

    [[nodiscard]] bool attached() const noexcept { return !lanes_.empty(); }
    /// Null: it is not added to the context.
    [[nodiscard]] comch::doca::JobLane* lane_to(const doca_ctx* ctx) const noexcept;
    void attach(const doca_ctx& ctx, std::unique_ptr<comch::doca::JobLane> lane);
    void detach(const doca_ctx& ctx) noexcept;

private:
    struct Lane {
        const doca_ctx* to;
        std::unique_ptr<comch::doca::JobLane> lane;
    };

    doca_pe engine_;
    std::vector<doca_event> events_; ///< a ring: of all that can be under way
    std::uint32_t first_ = 0;        ///< to be retrieved
    std::uint32_t waiting_ = 0;      ///< that were not retrieved yet
    std::uint32_t under_way_ = 0;    ///< jobs; those whose events wait among them
    std::vector<Lane> lanes_;
};
