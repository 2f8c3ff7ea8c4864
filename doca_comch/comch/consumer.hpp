// Consumer contexts: what those of connections and those of message queues have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <comch/consumer.hpp>
#include <doca_comch_consumer.h>

#include "doca_comch/comch/connection.hpp"
#include "doca_comch/common/buffer.hpp"
#include "doca_comch/common/context.hpp"

namespace comch::doca {

struct alignas(64) ConsumerTask : doca_task {
    doca_buf* buffer = nullptr;
    const std::byte* immediate = nullptr; ///< of the message, inside the callback
    std::uint32_t immediate_length = 0;
    std::uint32_t producer = 0;
};
static_assert(sizeof(ConsumerTask) == 64);

class ConsumerContext : public doca_ctx {
public:
    [[nodiscard]] doca_error_t set_tasks_conf(Callback done, Callback failed, Report report,
                                              std::uint32_t count);
    [[nodiscard]] doca_error_t set_immediate_length(std::uint32_t length);
    [[nodiscard]] std::uint32_t immediate_length() const noexcept { return immediate_length_; }
    /// 0: it has none yet.
    [[nodiscard]] virtual std::uint32_t id() const noexcept = 0;
    [[nodiscard]] doca_error_t allocate_task(doca_buf* buffer, ConsumerTask*& task);

    // for the DPA
    [[nodiscard]] virtual doca_error_t set_completion(doca_comch_consumer_completion*,
                                                      std::uint32_t) {
        return DOCA_ERROR_NOT_SUPPORTED;
    }
    [[nodiscard]] virtual doca_error_t set_dpa_receives(std::uint32_t) {
        return DOCA_ERROR_NOT_SUPPORTED;
    }
    [[nodiscard]] virtual doca_error_t dpa_handle(std::uint64_t*) {
        return DOCA_ERROR_NOT_SUPPORTED;
    }

    Callback on_received = nullptr;
    Callback on_failed = nullptr;

protected:
    [[nodiscard]] doca_error_t prepare(Begin begin);
    [[nodiscard]] std::uint32_t task_count() const noexcept { return task_count_; }

    /// A posted buffer comes back.
    static void finish(ConsumerTask& task, doca_error_t status, std::size_t length,
                       std::span<const std::byte> immediate, std::uint32_t producer) {
        task.immediate = immediate.empty() ? nullptr : immediate.data();
        task.immediate_length = static_cast<std::uint32_t>(immediate.size());
        task.producer = producer;
        if (task.buffer != nullptr) [[likely]] {
            if (status == DOCA_SUCCESS) [[likely]] {
                task.buffer->append(length);
            }
            task.buffer->return_from_task();
        }
        task.ctx->complete(task, status);
        task.immediate = nullptr;
    }

private:
    TaskStore<ConsumerTask> store_;
    Report report_ = nullptr;
    std::uint32_t task_count_ = 0;
    std::uint32_t immediate_length_ = limits::immediate_data_size;
};

/// On a connection.
class ConnectionConsumer final : public ConsumerContext {
public:
    [[nodiscard]] static doca_error_t create(ConnectionHandle* handle, doca_mmap* mmap,
                                             ConsumerContext*& consumer);

    [[nodiscard]] std::uint32_t id() const noexcept override {
        return core_ == nullptr ? next_id_ : core_->id();
    }

private:
    ConnectionConsumer(ConnectionHandle& handle, doca_mmap& mmap);

    doca_error_t begin_start() override;
    doca_error_t begin_stop() override;
    bool drained() const noexcept override;
    bool stops_at_once() const noexcept override { return true; }
    void drain_now() override;
    void closed() override;

    [[nodiscard]] doca_error_t open_core(Connection& connection);
    [[nodiscard]] static doca_error_t begin_post(doca_task& task);

    ConnectionHandle& handle_;
    const std::uint32_t generation_;
    doca_mmap& mmap_;
    const std::weak_ptr<const char> mmap_life_;
    std::uint32_t next_id_ = 0; ///< that it will have when it is started
    std::unique_ptr<Consumer> core_;
};

} // namespace comch::doca
