#include <doca_dma.h>

#include <cstring>
#include <memory>
#include <vector>

#include "core/transfer/client.hpp"
#include "doca_comch/common/buffer.hpp"
#include "doca_comch/common/capability.hpp"
#include "doca_comch/common/context.hpp"
#include "doca_comch/common/device.hpp"
#include "doca_comch/common/status.hpp"

namespace comch::doca {
namespace {

constexpr std::uint32_t max_tasks = 8192;
constexpr std::uint32_t max_list_length = 64;

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
    std::vector<Piece> pieces; ///< of the source
    std::size_t piece = 0;     ///< under way, or next
    doca_buf* room = nullptr;  ///< the destination
    std::byte* to = nullptr;   ///< there
    std::size_t copied = 0;    ///< of the pieces before
    CopyTask* following = nullptr;
};

/// Copies that are done already are reported by the next progress, as every completion is; so are
/// those continued that there was no room for.
class DmaContext final : public doca_ctx, private ProgressSource {
public:
    explicit DmaContext(doca_dev& device)
        : ProgressSource{
              .progress =
                  [](ProgressSource& self) { return static_cast<DmaContext&>(self).go_on_all(); },
              .arm =
                  [](ProgressSource& self) {
                      return static_cast<DmaContext&>(self).ready_ == nullptr ? Errc::ok
                                                                              : Errc::again;
                  }},
          device_(device) {
        device_.users.fetch_add(1, std::memory_order_relaxed);
        lenient = true;
    }
    ~DmaContext() override { device_.users.fetch_sub(1, std::memory_order_release); }

    [[nodiscard]] doca_error_t set_tasks_conf(Callback done, Callback failed, std::uint32_t count) {
        if (done == nullptr || failed == nullptr || count == 0 || count > max_tasks) {
            return DOCA_ERROR_INVALID_VALUE;
        }
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
    TaskStore<CopyTask> store_;
    Callback on_copied_ = nullptr;
    Callback on_failed_ = nullptr;
    std::uint32_t task_count_ = 0;
    std::unique_ptr<transfer::Client> client_;
    CopyTask* ready_ = nullptr; ///< done, or to be continued; oldest first
    CopyTask** ready_end_ = &ready_;
};

/// What a task may be given: SUCCESS, or why not.
doca_error_t check(const doca_buf& source, const doca_buf& destination) {
    if (source.follows || destination.references == 0 || destination.chained() ||
        !destination.mmap->started()) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    std::size_t total = 0;
    std::uint32_t pieces = 0;
    for (const doca_buf* piece = &source; piece != nullptr; piece = piece->next) {
        if (++pieces > max_list_length || piece->references == 0 || !piece->mmap->started() ||
            piece->data_length > limits::fast_path_buffer_size ||
            piece->data_length > destination.tail_room() - total) {
            return DOCA_ERROR_INVALID_VALUE;
        }
        if (piece->mmap->imported() && destination.mmap->imported()) {
            return DOCA_ERROR_NOT_SUPPORTED;
        }
        total += piece->data_length;
        if (piece->mmap->map->check(piece->data, piece->data_length,
                                    piece->mmap->imported() ? peer_read : local_read) != Errc::ok) {
            return DOCA_ERROR_NOT_PERMITTED;
        }
    }
    if (total == 0) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return to_doca(
        destination.mmap->map->check(destination.data + destination.data_length, total,
                                     destination.mmap->imported() ? peer_write : local_write));
}

doca_error_t DmaContext::begin_start() {
    if (task_count_ == 0) {
        return refuse(DOCA_ERROR_INVALID_VALUE,
                      "cannot start the DMA context: configure its memory copy tasks first");
    }
    doca_task* const tasks = store_.allocate(task_count_, *this);
    auto opened =
        transfer::Client::open(pe()->engine(), device_.info.device, [](void* cookie, Errc status) {
            on_piece(*static_cast<CopyTask*>(cookie), status);
        });
    if (!opened) {
        return refuse(opened.error());
    }
    pe()->engine().add(*this);
    client_ = std::move(*opened);
    set_tasks(tasks, begin_copy, report);
    return DOCA_SUCCESS;
}

doca_error_t DmaContext::begin_copy(doca_task& base) {
    auto& task = static_cast<CopyTask&>(base);
    auto& self = static_cast<DmaContext&>(*task.ctx);
    if (task.source == nullptr || task.destination == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (const doca_error_t result = check(*task.source, *task.destination);
        result != DOCA_SUCCESS) {
        return result;
    }
    task.pieces.clear();
    for (const doca_buf* piece = task.source; piece != nullptr; piece = piece->next) {
        task.pieces.push_back({const_cast<doca_buf*>(piece), piece->data, piece->data_length});
    }
    task.piece = 0;
    task.room = task.destination;
    task.to = task.room->data + task.room->data_length;
    task.copied = 0;
    const Errc result = self.copy_pieces(task);
    if (result == Errc::ok) {
        self.go_on_later(task);
    }
    if (result != Errc::ok && result != Errc::in_progress) {
        return to_doca(result);
    }
    for (const Piece& piece : task.pieces) {
        piece.buffer->take_for_reading();
    }
    task.room->take_for_task();
    return DOCA_SUCCESS;
}

/// ok: all are copied; in_progress: one is under way; again: no room for the next one.
Errc DmaContext::copy_pieces(CopyTask& task) {
    while (task.piece != task.pieces.size()) {
        if (const Errc result = copy_piece(task); result != Errc::ok) {
            return result;
        }
        task.copied += task.pieces[task.piece++].length;
    }
    return Errc::ok;
}

Errc DmaContext::copy_piece(CopyTask& task) {
    const Piece& piece = task.pieces[task.piece];
    std::byte* const to = task.to + task.copied;
    if (piece.length == 0) {
        return Errc::ok;
    }
    if (const doca_mmap& from = *piece.buffer->mmap; from.imported()) {
        return client_->read({*from.map, from.service, piece.data}, to, piece.length, &task);
    }
    if (const doca_mmap& there = *task.room->mmap; there.imported()) {
        return client_->write({*there.map, there.service, to}, piece.data, piece.length, &task);
    }
    std::memmove(to, piece.data, piece.length);
    return Errc::ok;
}

void DmaContext::on_piece(CopyTask& task, Errc status) {
    auto& self = static_cast<DmaContext&>(*task.ctx);
    if (status == Errc::ok) {
        task.copied += task.pieces[task.piece++].length;
        status = self.copy_pieces(task);
    }
    if (status == Errc::again) {
        self.go_on_later(task);
    } else if (status != Errc::in_progress) {
        finish(task, status);
    }
}

void DmaContext::go_on_later(CopyTask& task) {
    task.following = nullptr;
    *ready_end_ = &task;
    ready_end_ = &task.following;
}

void DmaContext::report(doca_task& task, bool success) {
    const auto& self = static_cast<const DmaContext&>(*task.ctx);
    const auto callback = reinterpret_cast<doca_dma_task_memcpy_completion_cb_t>(
        success ? self.on_copied_ : self.on_failed_);
    callback(reinterpret_cast<doca_dma_task_memcpy*>(static_cast<CopyTask*>(&task)), task.user_data,
             self.user_data);
}

void DmaContext::finish(CopyTask& task, Errc status) {
    if (status == Errc::ok) {
        task.room->append(task.copied);
    }
    task.room->return_from_task();
    for (const Piece& piece : task.pieces) {
        piece.buffer->return_from_reading();
    }
    task.ctx->complete(task, to_doca(status));
}

unsigned DmaContext::go_on_all() {
    unsigned handled = 0;
    CopyTask* task = ready_;
    ready_ = nullptr;
    ready_end_ = &ready_;
    while (task != nullptr) {
        CopyTask* const next = task->following;
        const Errc status = copy_pieces(*task);
        if (status == Errc::again) {
            go_on_later(*task);
        } else {
            ++handled;
            if (status != Errc::in_progress) {
                finish(*task, status);
            }
        }
        task = next;
    }
    return handled;
}

DmaContext* of(doca_dma* dma) {
    return reinterpret_cast<DmaContext*>(dma);
}
CopyTask* of(doca_dma_task_memcpy* task) {
    return reinterpret_cast<CopyTask*>(task);
}
const CopyTask* of(const doca_dma_task_memcpy* task) {
    return reinterpret_cast<const CopyTask*>(task);
}

} // namespace
} // namespace comch::doca

using comch::doca::Callback;
using comch::doca::CopyTask;
using comch::doca::of;

doca_error_t doca_dma_create(doca_dev* dev, doca_dma** dma) {
    if (!comch::doca::is_open(dev) || dma == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return comch::doca::guarded([&] {
        *dma = reinterpret_cast<doca_dma*>(new comch::doca::DmaContext(*dev));
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_dma_destroy(doca_dma* dma) {
    return comch::doca::destroy(of(dma));
}

doca_ctx* doca_dma_as_ctx(doca_dma* dma) {
    return of(dma);
}

doca_error_t doca_dma_cap_task_memcpy_is_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo);
}

doca_error_t doca_dma_cap_task_memcpy_get_max_buf_size(const doca_devinfo* devinfo,
                                                       uint64_t* buf_size) {
    return comch::doca::fixed_capability(devinfo, buf_size, comch::limits::fast_path_buffer_size);
}

doca_error_t doca_dma_cap_task_memcpy_get_max_buf_list_len(const doca_devinfo* devinfo,
                                                           uint32_t* max_buf_list_len) {
    return comch::doca::fixed_capability(devinfo, max_buf_list_len, comch::doca::max_list_length);
}

doca_error_t doca_dma_cap_get_max_num_tasks(doca_dma* dma, uint32_t* max_num_tasks) {
    if (dma == nullptr || max_num_tasks == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *max_num_tasks = comch::doca::max_tasks;
    return DOCA_SUCCESS;
}

doca_error_t doca_dma_task_memcpy_set_conf(doca_dma* dma,
                                           doca_dma_task_memcpy_completion_cb_t task_completion_cb,
                                           doca_dma_task_memcpy_completion_cb_t task_error_cb,
                                           uint32_t num_memcpy_tasks) {
    return dma == nullptr ? DOCA_ERROR_INVALID_VALUE
                          : of(dma)->set_tasks_conf(reinterpret_cast<Callback>(task_completion_cb),
                                                    reinterpret_cast<Callback>(task_error_cb),
                                                    num_memcpy_tasks);
}

doca_error_t doca_dma_task_memcpy_alloc_init(doca_dma* dma, const doca_buf* src, doca_buf* dst,
                                             doca_data user_data, doca_dma_task_memcpy** task) {
    if (dma == nullptr || task == nullptr) {
        return DOCA_ERROR_INVALID_VALUE; // buffers may be set later
    }
    if (of(dma)->state() != DOCA_CTX_STATE_RUNNING) {
        return DOCA_ERROR_BAD_STATE;
    }
    auto* const made = static_cast<CopyTask*>(of(dma)->take_task());
    if (made == nullptr) {
        return DOCA_ERROR_NO_MEMORY;
    }
    made->source = src;
    made->destination = dst;
    made->user_data = user_data;
    *task = reinterpret_cast<doca_dma_task_memcpy*>(made);
    return DOCA_SUCCESS;
}

doca_task* doca_dma_task_memcpy_as_task(doca_dma_task_memcpy* task) {
    return of(task);
}

void doca_dma_task_memcpy_set_src(doca_dma_task_memcpy* task, const doca_buf* src) {
    if (task != nullptr && of(task)->use == doca_task::Use::allocated) {
        of(task)->source = src;
    }
}

const doca_buf* doca_dma_task_memcpy_get_src(const doca_dma_task_memcpy* task) {
    return task == nullptr ? nullptr : of(task)->source;
}

void doca_dma_task_memcpy_set_dst(doca_dma_task_memcpy* task, doca_buf* dst) {
    if (task != nullptr && of(task)->use == doca_task::Use::allocated) {
        of(task)->destination = dst;
    }
}

doca_buf* doca_dma_task_memcpy_get_dst(const doca_dma_task_memcpy* task) {
    return task == nullptr ? nullptr : of(task)->destination;
}
