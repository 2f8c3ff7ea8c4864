// The counter of a sync event: here, or in another process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/link/link.hpp"
#include "core/transfer/client.hpp"
#include "core/transfer/descriptor.hpp"

namespace comch::doca {

/// Something that is done to a counter, which may take a while.
struct CounterOperation {
    link::AtomicOp op = link::AtomicOp::add;
    std::uint64_t operand = 0;
    std::uint64_t old = 0; ///< the value before
    Errc outcome = Errc::in_progress;
    void (*done)(CounterOperation&) = nullptr; ///< may begin other operations, and no more
};

/// Belongs to one thread at a time if it is in another process, else to any number.
class Counter {
public:
    Counter() = default;
    explicit Counter(transfer::ImportedMemory memory) : there_(std::move(memory)) {}

    [[nodiscard]] bool imported() const noexcept { return there_.has_value(); }
    void put_at(std::uint64_t* place) noexcept { here_ = place; }
    [[nodiscard]] std::span<std::byte> memory() const noexcept {
        return std::as_writable_bytes(std::span(here_, 1));
    }

    /// The way to an imported one.
    [[nodiscard]] Result<void> open(const Device& device);
    void close();

    /// ok: it is done; in_progress: `done` will be called, from progress() or perform(); again: no
    /// room, retry after progress; others: it failed.
    [[nodiscard]] Errc begin(CounterOperation& operation);
    /// Waits until it is done.
    [[nodiscard]] Errc perform(link::AtomicOp op, std::uint64_t operand, std::uint64_t& old);

    /// Of an imported one, while it is open.
    void progress() { (void)engine_->progress(); }
    [[nodiscard]] ProgressEngine& engine() const noexcept { return *engine_; }

private:
    std::uint64_t own_ = 0;
    std::uint64_t* here_ = &own_;
    std::optional<transfer::ImportedMemory> there_;
    // Its own, so that waiting for one thing makes nothing else of the program's happen.
    std::unique_ptr<ProgressEngine> engine_;
    std::unique_ptr<transfer::Client> client_;
};

} // namespace comch::doca
