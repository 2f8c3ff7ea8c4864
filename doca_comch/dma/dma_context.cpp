#include "doca_comch/dma/dma_context.hpp"

#include <cstring>

namespace comch::doca {

namespace {

/// What is to be copied: SUCCESS, or why not.
doca_error_t gather(CopyTask& task) {
    if (task.source->follows) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    task.pieces.clear();
    for (const doca_buf* piece = task.source; piece != nullptr; piece = piece->next) {
        if (task.pieces.size() == max_copy_list_length || piece->references == 0 ||
            !piece->mmap->started()) {
            return DOCA_ERROR_INVALID_VALUE;
        }
        task.pieces.push_back({const_cast<doca_buf*>(piece), piece->data, piece->data_length});
    }
    Piece& first = task.pieces.front();
    task.over = first.length == 0 && task.length != 0 && task.pieces.size() == 1;
    if (task.over) {
        if (task.length > first.buffer->tail_room()) {
            return DOCA_ERROR_INVALID_VALUE;
        }
        first.length = task.length;
    }
    return DOCA_SUCCESS;
}

/// Where it goes. `may_be_over`: over the data that is there, if there is no room behind it.
doca_error_t place(CopyTask& task, std::size_t size, bool may_be_over) {
    doca_buf& room = *task.destination;
    if (size == 0 || room.references == 0 || room.chained() || !room.mmap->started()) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    task.over = task.over || (may_be_over && (ranges_were_populated() || size > room.tail_room()));
    const std::size_t behind = task.over ? 0 : room.data_length;
    if (size > room.tail_room() + room.data_length - behind) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    task.room = &room;
    task.to = room.data + behind;
    return to_doca(
        room.mmap->map->check(task.to, size, room.mmap->imported() ? peer_write : local_write));
}

/// The total of what may be read; else why not.
doca_error_t measure(const CopyTask& task, std::size_t& total) {
    total = 0;
    for (const Piece& piece : task.pieces) {
        const doca_mmap& from = *piece.buffer->mmap;
        if (piece.length > limits::fast_path_buffer_size) {
            return DOCA_ERROR_INVALID_VALUE;
        }
        if (from.imported() && task.destination->mmap != nullptr &&
            task.destination->mmap->imported()) {
            return DOCA_ERROR_NOT_SUPPORTED;
        }
        if (from.map->check(piece.data, piece.length, from.imported() ? peer_read : local_read) !=
            Errc::ok) {
            return DOCA_ERROR_NOT_PERMITTED;
        }
        total += piece.length;
    }
    return DOCA_SUCCESS;
}

} // namespace

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
    std::size_t total = 0;
    doca_error_t checked = gather(task);
    if (checked == DOCA_SUCCESS) {
        checked = measure(task, total);
    }
    if (checked == DOCA_SUCCESS) {
        checked = place(task, total, self.use_ == Use::jobs);
    }
    if (checked != DOCA_SUCCESS) {
        return checked;
    }
    task.piece = 0;
    task.copied = 0;
    task.failure = Errc::ok;
    const Errc result = self.copy_pieces(task);
    if (result != Errc::ok && result != Errc::in_progress) {
        if (self.use_ == Use::tasks) {
            return to_doca(result);
        }
        task.failure = result == Errc::again ? Errc::ok : result;
    }
    if (result != Errc::in_progress) {
        self.go_on_later(task);
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
        if (task.over) {
            (void)task.room->set_data(task.room->data, 0);
        }
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
        const Errc status = task->failure != Errc::ok ? task->failure : copy_pieces(*task);
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

} // namespace comch::doca
