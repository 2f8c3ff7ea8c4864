// A window of one-sided communication, over the user's memory or over MPI's own.
#pragma once

#include "common.hpp"

namespace mpi_tests {

enum class Memory { create, allocate };

inline const char* name_of(Memory memory) {
    return memory == Memory::create ? "created" : "allocated";
}

/// A window of `bytes` on each rank, with its memory.
class Window {
public:
    Window(Memory memory, std::size_t bytes, int unit = 1) : bytes_(bytes) {
        if (memory == Memory::create) {
            own_.resize(bytes + 64);
            data_ = own_.data();
            MPI_Win_create(data_, MPI_Aint(bytes), unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win_);
        } else {
            MPI_Win_allocate(MPI_Aint(bytes), unit, MPI_INFO_NULL, MPI_COMM_WORLD, &data_, &win_);
        }
        std::memset(data_, 0, bytes);
        // The memory is set before anybody reaches it, also by what goes past MPI's own rules.
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank(), 0, win_);
        MPI_Win_unlock(rank(), win_);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    ~Window() { MPI_Win_free(&win_); }
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    [[nodiscard]] MPI_Win win() const { return win_; }
    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::span<std::byte> bytes() const { return {data_, bytes_}; }
    template <typename T> [[nodiscard]] T* as() const {
        return static_cast<T*>(static_cast<void*>(data_));
    }

private:
    static int rank() {
        int rank = 0;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        return rank;
    }

    MPI_Win win_ = MPI_WIN_NULL;
    std::vector<std::byte> own_;
    std::byte* data_ = nullptr;
    std::size_t bytes_;
};

} // namespace mpi_tests
