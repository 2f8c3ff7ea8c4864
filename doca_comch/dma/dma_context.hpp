// The DMA engine: a context whose tasks copy memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <doca_dma.h>

#include "core/transfer/client.hpp"
#include "doca_comch/common/buffer.hpp"
#include "doca_comch/common/context.hpp"
#include "doca_comch/common/device.hpp"
#include "doca_comch/common/status.hpp"

namespace comch::doca {

inline constexpr std::uint32_t max_copy_list_length = 64;

/// A buffer of the source, and the data that it had when its task was submitted.
struct Piece {
    doca_buf* buffer;
    const std::byte* data;
    std::size_t length;
};

/// Copies the buffers of a list one after another, behind each other. What it copies, and to where,
/// is settled when it is submitted; the buffers stay until it is done, whatever the program does to
/// them meanwhile.
struct CopyTask : doca_task {
    const doca_buf* source = nullptr;
    doca_buf* destination = nullptr;
    std::size_t length = 0;    ///< of the source, if that has no data
    std::vector<Piece> pieces; ///< of the source
    std::size_t piece = 0;     ///< under way, or next
    doca_buf* room = nullptr;  ///< the destination
    std::byte* to = nullptr;   ///< there
    std::size_t copied = 0;    ///< of the pieces before
    bool over = false;         ///< over the data that is there, not behind it
    Errc failure = Errc::ok;   ///< to be told by the next progress
    CopyTask* following = nullptr;
};

/// Copies that are done already are reported by the next progress, as every completion is; so are
/// those continued that there was no room for.
class DmaContext final : public doca_ctx, private ProgressSource {
public:
    /// Whose tasks: today's; or those that stand for jobs of 2023, of which all is told by their end but
    /// what is wrong with their buffers, and whose destination may be full (doca_dma_job_memcpy).
    enum class Use : std::uint8_t { tasks, jobs };

    explicit DmaContext(doca_dev& device, Use use = Use::tasks)
        : ProgressSource{
              .progress =
                  [](ProgressSource& self) { return static_cast<DmaContext&>(self).go_on_all(); },
              .arm =
                  [](ProgressSource& self) {
                      return static_cast<DmaContext&>(self).ready_ == nullptr ? Errc::ok
                                                                              : Errc::again;
                  }},
          device_(device), use_(use) {
        device_.users.fetch_add(1, std::memory_order_relaxed);
        lenient = true;
    }
    ~DmaContext() override { device_.users.fetch_sub(1, std::memory_order_release); }

    [[nodiscard]] doca_error_t set_tasks_conf(Callback done, Callback failed, std::uint32_t count) {
        if (!idle()) {
            return DOCA_ERROR_BAD_STATE;
        }
        on_copied_ = done;
        on_failed_ = failed;
        task_count_ = count;
        return DOCA_SUCCESS;
    }

private:
    doca_error_t begin_start() override;
    doca_error_t begin_stop() override { return DOCA_SUCCESS; }
    bool drained() const noexcept override { return inflight() == 0; }
    void closed() override {
        pe()->engine().remove(*this);
        pe()->bury(std::move(client_));
    }

    [[nodiscard]] static doca_error_t begin_copy(doca_task& task);
    [[nodiscard]] Errc copy_pieces(CopyTask& task);
    [[nodiscard]] Errc copy_piece(CopyTask& task);
    static void report(doca_task& task, bool success);
    static void on_piece(CopyTask& task, Errc status);
    static void finish(CopyTask& task, Errc status);
    void go_on_later(CopyTask& task);
    [[nodiscard]] unsigned go_on_all();

    doca_dev& device_;
    Use use_;
    TaskStore<CopyTask> store_;
    Callback on_copied_ = nullptr;
    Callback on_failed_ = nullptr;
    std::uint32_t task_count_ = 0;
    std::unique_ptr<transfer::Client> client_;
    CopyTask* ready_ = nullptr; ///< done, or to be continued; oldest first
    CopyTask** ready_end_ = &ready_;
};

} // namespace comch::doca
