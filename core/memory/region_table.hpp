// What this process has registered for its peers: one table per process.
//
// Registration and its end are control-path calls under a mutex. Serving a peer's operation pins
// the region with one atomic add, without a lock; the end of a registration waits until no pin is
// left, so that after it not one byte of the range is touched any more.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <comch/error.hpp>

#include "core/memory/region_key.hpp"

namespace comch {

template <class T> class PerProcess;

class RegionTable {
public:
    struct Region {
        std::byte* base = nullptr;
        std::uint64_t length = 0;
        std::uint32_t access = 0;
        int memfd = -1; ///< borrowed from whoever registered it, `base` is where its first byte
                        ///< is; -1: not mappable by peers
        std::uint64_t device_region = 0; ///< another region, that holds this one and outlives it:
                                         ///< devices know this one by that; 0: by itself
        bool device_only = false; ///< no CPU serves anybody here, whoever asks by its number: its
                                  ///< memory may be gone already
    };

    /// The table of this process.
    static RegionTable& instance();

    /// Registers a range. The caller keeps it (and its memfd) alive until remove(). Any thread.
    [[nodiscard]] Result<RegionKey> add(const Region& region);

    /// Ends a registration; waits for operations that are touching the range right now. Any thread
    /// that holds no Pin. Unknown ids are ignored.
    void remove(std::uint64_t region_id);

    /// Is told of every removed region, before remove() returns, in the thread that removes it: a
    /// device that knows the memory must let go of it first. Must not call into the table.
    using Observer = void (*)(void* self, std::uint64_t region_id);
    void add_observer(Observer observer, void* self);
    /// None of its calls is under way when this returns.
    void remove_observer(void* self);

    /// Keeps a region from being removed while it is used. Short-lived: one chunk of one operation.
    class Pin {
    public:
        Pin() = default;
        Pin(Pin&& other) noexcept
            : pins_(std::exchange(other.pins_, nullptr)), region_(other.region_) {}
        Pin& operator=(Pin&&) = delete;
        ~Pin() {
            if (pins_ != nullptr) {
                // Release: our accesses to the range come before remove() sees the pin gone.
                pins_->fetch_sub(1, std::memory_order_release);
            }
        }
        explicit operator bool() const noexcept { return pins_ != nullptr; }
        [[nodiscard]] const Region& region() const noexcept { return *region_; }

        /// The address of [address, address + length) of the owner's address space, or null if it
        /// is not all inside the region, `access` is not granted, or it is for devices alone.
        [[nodiscard]] std::byte* range(std::uint64_t address, std::uint64_t length,
                                       std::uint32_t access) const noexcept {
            const auto base = reinterpret_cast<std::uint64_t>(region_->base);
            if (region_->device_only || (region_->access & access) != access || address < base ||
                address - base > region_->length || length > region_->length - (address - base)) {
                return nullptr;
            }
            return region_->base + (address - base);
        }

    private:
        friend class RegionTable;
        std::atomic<std::uint64_t>* pins_ = nullptr;
        const Region* region_ = nullptr;
    };

    /// Pins a region; an empty pin if there is none with this id (any more). Any thread, no lock.
    [[nodiscard]] Pin pin(std::uint64_t region_id) noexcept;

private:
    // A region id is slot | generation << slot_bits. Generations come in an order that nobody can
    // guess: a peer that was given one id knows none of those that others are given. None is used
    // twice before all are, and none is 0, so no id is.
    static constexpr unsigned slot_bits = 22;
    static constexpr std::uint64_t chunk_slots = 1024;
    static constexpr std::uint64_t chunk_count = (std::uint64_t{1} << slot_bits) / chunk_slots;

    struct Slot {
        /// generation << 22 | live << 21 | pins. A pin is taken first and then judged by the value
        /// it was added to, so a stale pin may be there for a moment on a slot that is being reused.
        std::atomic<std::uint64_t> state{0};
        std::uint64_t uses = 0;
        Region region;
    };
    using Chunk = std::unique_ptr<Slot[]>;

    [[nodiscard]] Slot* slot(std::uint64_t index) const noexcept;
    /// Of a slot that was used so often.
    [[nodiscard]] std::uint64_t next_generation(std::uint64_t index,
                                                std::uint64_t used) const noexcept;

    std::mutex mutex_;
    std::unique_ptr<std::atomic<Slot*>[]> chunks_;
    std::vector<Chunk> owned_;
    std::vector<std::uint32_t> free_;
    std::uint32_t used_ = 0;
    std::array<std::uint64_t, 4> keys_{}; ///< what the order of generations depends on
    bool has_keys_ = false;
    std::mutex observers_mutex_;
    std::vector<std::pair<Observer, void*>> observers_;

    friend class PerProcess<RegionTable>;
    RegionTable();
};

} // namespace comch
