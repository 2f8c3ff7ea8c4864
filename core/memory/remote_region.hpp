// A peer's registered memory as this process sees it, and the mappings of it.
//
// Unpacking a key never waits. Whether the memory can be mapped here is found out later: the first
// operation that could profit asks the owner over its connection (the link does that), and until
// the answer is here operations travel as messages. One mapping serves all connections and threads
// of the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "core/memory/region_key.hpp"
#include "core/memory/shared_memory.hpp"

namespace comch {

/// One mapping of a peer's memory, shared by every RemoteRegion that names it.
class Import {
public:
    enum class State : std::uint32_t {
        unknown,   ///< nobody has asked yet
        requested, ///< asked; the answer is on its way
        mapped,
        refused, ///< will stay with messages
    };

    [[nodiscard]] State state() const noexcept { return state_.load(std::memory_order_acquire); }

    /// unknown -> requested; true for exactly one caller, who must send the request.
    [[nodiscard]] bool claim_request() noexcept {
        State expected = State::unknown;
        return state_.compare_exchange_strong(expected, State::requested,
                                              std::memory_order_relaxed);
    }
    /// The request could not be sent or its connection ended: somebody else may ask.
    void give_back_request() noexcept { state_.store(State::unknown, std::memory_order_relaxed); }

    /// The answer. The mapping lives as long as this object.
    void set_mapped(Mapping mapping, bool writable) noexcept;
    void set_refused() noexcept { state_.store(State::refused, std::memory_order_relaxed); }

    /// Where the region's first byte is mapped; null until it is.
    [[nodiscard]] std::byte* data() const noexcept {
        // Acquire: pairs with set_mapped().
        return data_.load(std::memory_order_acquire);
    }
    /// Once data() is not null: may [offset, offset + length) be touched, for writing if `write`?
    /// (A key may claim more than its owner then hands out.)
    [[nodiscard]] bool covers(std::uint64_t offset, std::uint64_t length,
                              bool write) const noexcept {
        return offset <= mapping_.size() && length <= mapping_.size() - offset &&
               (writable_ || !write);
    }

private:
    std::atomic<std::byte*> data_{nullptr};
    bool writable_ = false; ///< before data_, as is the mapping
    std::atomic<State> state_{State::unknown};
    Mapping mapping_;
};

/// An unpacked key. May be used by any number of threads and connections at once.
class RemoteRegion {
public:
    explicit RemoteRegion(const RegionKey& key);
    /// The same with a mapping that nobody shares, which is gone with it: where the peer, and not this
    /// process's program, says what is to be mapped.
    RemoteRegion(const RegionKey& key, std::shared_ptr<Import> own)
        : key_(key), import_(std::move(own)) {}

    [[nodiscard]] const RegionKey& key() const noexcept { return key_; }

    /// The region's first byte in this process if it is mapped, else null.
    [[nodiscard]] std::byte* mapped() const noexcept { return import_ ? import_->data() : nullptr; }
    /// Null if the owner cannot hand out this memory.
    [[nodiscard]] const std::shared_ptr<Import>& import() const noexcept { return import_; }

    /// Is [address, address + length) of the owner's address space inside the region?
    [[nodiscard]] bool contains(std::uint64_t address, std::uint64_t length) const noexcept {
        return address >= key_.base && address - key_.base <= key_.length &&
               length <= key_.length - (address - key_.base);
    }

private:
    RegionKey key_;
    std::shared_ptr<Import> import_;
};

/// A connection to this process has ended: what nobody uses of its memory is unmapped.
void forget_imports_of(std::uint64_t process_id);

} // namespace comch
