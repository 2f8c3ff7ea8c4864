// Producer contexts: what those of connections and those of message queues have in common.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include <comch/producer.hpp>
#include <doca_comch_producer.h>

#include "doca_comch/comch/connection.hpp"
#include "doca_comch/common/buffer.hpp"
#include "doca_comch/common/context.hpp"

namespace comch::doca {

struct alignas(64) ProducerTask : doca_task {
    const doca_buf* buffer = nullptr;
    std::uint8_t* immediate = nullptr;
    std::uint32_t immediate_length = 0;
    std::uint32_t consumer = 0;
    bool kept = false; ///< it waits, and its immediate data is in `keep`
    bool held = false; ///< its buffer stays until it is done, given back or not
    alignas(64) std::array<std::byte, limits::immediate_data_size> keep;
};
static_assert(sizeof(ProducerTask) == 128);

class ProducerContext : public doca_ctx {
public:
    [[nodiscard]] doca_error_t set_tasks_conf(Callback done, Callback failed, Report report,
                                              std::uint32_t count);
    /// 0: it has none yet.
    [[nodiscard]] virtual std::uint32_t id() const noexcept = 0;
    [[nodiscard]] doca_error_t allocate_task(const doca_buf* buffer, std::uint8_t* immediate,
                                             std::uint32_t immediate_length, std::uint32_t consumer,
                                             ProducerTask*& task);

    // for the DPA
    [[nodiscard]] virtual doca_error_t set_dpa_sends(std::uint32_t) {
        return DOCA_ERROR_NOT_SUPPORTED;
    }
    [[nodiscard]] virtual doca_error_t attach_dpa_completion(doca_dpa_completion*) {
        return DOCA_ERROR_NOT_SUPPORTED;
    }
    [[nodiscard]] virtual doca_error_t dpa_handle(std::uint64_t*) {
        return DOCA_ERROR_NOT_SUPPORTED;
    }

    Callback on_sent = nullptr;
    Callback on_failed = nullptr;

protected:
    /// With so many tasks more than the program asked for.
    [[nodiscard]] doca_error_t prepare(Begin begin, std::uint32_t spares = 0);
    /// Sends that are over, or may be, of which the program has not been told.
    [[nodiscard]] virtual std::uint32_t untold() { return 0; }
    [[nodiscard]] std::uint32_t task_count() const noexcept { return task_count_; }

    /// What a task sends. INVALID_VALUE: its buffer cannot be sent.
    [[nodiscard]] static doca_error_t describe(const ProducerTask& task, SendBuffer& to) noexcept {
        if (task.buffer != nullptr) {
            const doca_buf& buffer = *task.buffer;
            if (buffer.chained() || (buffer.references == 0 && !task.held) ||
                !buffer.mmap->started() || buffer.mmap->imported()) [[unlikely]] {
                return DOCA_ERROR_INVALID_VALUE;
            }
            to.data = {buffer.data, buffer.data_length};
            to.memory = buffer.mmap->map.get();
        } else if (task.immediate_length == 0) [[unlikely]] {
            return DOCA_ERROR_INVALID_VALUE; // the setters have left nothing to send
        }
        if (task.immediate_length != 0) {
            to.immediate = {task.kept ? task.keep.data()
                                      : reinterpret_cast<const std::byte*>(task.immediate),
                            task.immediate_length};
        }
        return DOCA_SUCCESS;
    }

private:
    TaskStore<ProducerTask> store_;
    Report report_ = nullptr;
    std::uint32_t task_count_ = 0;
};

/// On a connection.
///
/// Programs submit in a loop, without progress, while they are told AGAIN, and some have not a word
/// for it at the first send. What a consumer says of its buffers takes a moment to come, so the
/// first sends to it are accepted in any case, and wait here.
///
/// Who receives the answer to a send knows that the send is over, and may allocate the next task
/// before progress has told so. Some spare tasks are there for that: for sends that are complete,
/// and inside callbacks for any that are under way, since an answer may be ahead of the consumer's
/// word.
class ConnectionProducer final : public ProducerContext, private ProgressSource {
public:
    [[nodiscard]] static doca_error_t create(ConnectionHandle* handle, ProducerContext*& producer);

    [[nodiscard]] std::uint32_t id() const noexcept override {
        return core_ == nullptr ? 0 : core_->id();
    }
    void flush() override {
        if (core_ != nullptr) {
            core_->flush();
        }
    }

private:
    /// Sends to one consumer that wait, oldest first: only these have an order.
    struct Waiting {
        std::uint32_t consumer;
        TaskQueue<ProducerTask> tasks;
    };

    explicit ConnectionProducer(ConnectionHandle& handle);

    doca_error_t begin_start() override;
    doca_error_t begin_stop() override;
    bool drained() const noexcept override;
    unsigned drain() override;
    bool stops_at_once() const noexcept override { return true; }
    void drain_now() override;
    void closed() override;
    std::uint32_t untold() override;

    [[nodiscard]] static doca_error_t begin_send(doca_task& task);
    [[nodiscard]] doca_error_t put(ProducerTask& task);
    void hold(ProducerTask& task) noexcept;
    static void finish(ProducerTask& task, doca_error_t status);
    [[nodiscard]] doca_error_t wait_or_refuse(ProducerTask& task, doca_error_t result);
    [[nodiscard]] doca_error_t wait(ProducerTask& task);
    void reached(std::uint32_t consumer);
    [[nodiscard]] bool waits_for(std::uint32_t consumer) const noexcept;
    [[nodiscard]] TaskQueue<ProducerTask>& queue_of(std::uint32_t consumer);
    [[nodiscard]] static ProducerTask& pop(TaskQueue<ProducerTask>& tasks) noexcept;
    [[nodiscard]] unsigned send_waiting();
    [[nodiscard]] unsigned flush_waiting(doca_error_t status);
    void leave_when_none_waits();

    ConnectionHandle& handle_;
    const std::uint32_t generation_;
    std::unique_ptr<Producer> core_;
    std::uint32_t held_ = 0;                    ///< tasks whose buffers are held
    std::uint32_t last_reached_ = 0;            ///< the consumer of the last send
    std::unordered_set<std::uint32_t> reached_; ///< consumers that were sent to
    std::vector<Waiting> waiting_;              ///< of consumers not reached yet, mostly
    bool in_engine_ = false;                    ///< as a source of progress
};

} // namespace comch::doca
