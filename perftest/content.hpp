// Checking what arrives.
#pragma once

#include <cstdint>
#include <span>

#include <fmt/format.h>

#include "perftest/pattern.hpp"
#include "perftest/result.hpp"

namespace comch::perftest {

/// The messages of one thread and direction, in their order.
class Checker {
public:
    /// `from`: the first byte that is compared. Without `verify` only lengths are.
    Checker(Direction direction, std::uint32_t thread, std::uint64_t size, bool verify,
            std::size_t from = 0)
        : direction_(direction), thread_(thread), size_(size), verify_(verify), from_(from) {}

    /// The next message.
    void check(std::span<const std::byte> message) noexcept {
        if (message.size() != size_ || verify_) [[unlikely]] {
            look(message);
        }
        ++count_;
    }
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

    [[nodiscard]] Wrong wrong() const {
        Wrong result;
        if (wrong_ != 0) {
            result.add(wrong_, describe());
        }
        return result;
    }

private:
    /// Remembers the first in numbers; the words can wait until nothing is measured any more.
    void look(std::span<const std::byte> message) noexcept {
        const auto seed = pattern::seed(direction_, thread_, count_);
        bool right = message.size() == size_;
        std::size_t at = 0;
        if (right) {
            const auto mismatch = pattern::find_mismatch(message, seed, from_);
            right = !mismatch;
            at = mismatch.value_or(0);
        }
        if (!right && wrong_++ == 0) {
            first_number_ = count_;
            first_length_ = message.size();
            first_at_ = at;
            first_found_ = at < message.size() ? message[at] : std::byte{0};
        }
    }
    [[nodiscard]] std::string describe() const {
        const auto which = fmt::format("message {} of thread {} to the {}", first_number_, thread_,
                                       direction_ == Direction::to_server ? "server" : "client");
        if (first_length_ != size_) {
            return fmt::format("{} has {} bytes instead of {}", which, first_length_, size_);
        }
        const auto word = pattern::word(pattern::seed(direction_, thread_, first_number_),
                                        first_at_ / sizeof(std::uint64_t));
        return fmt::format("{} ({} bytes) has 0x{:02x} instead of 0x{:02x} at byte {}", which,
                           size_, static_cast<unsigned>(first_found_),
                           word >> (8 * (first_at_ % sizeof(std::uint64_t))) & 0xff, first_at_);
    }

    Direction direction_;
    std::uint32_t thread_;
    std::uint64_t size_;
    bool verify_;
    std::size_t from_;
    std::uint64_t count_ = 0;
    std::uint64_t wrong_ = 0;
    std::uint64_t first_number_ = 0;
    std::size_t first_length_ = 0;
    std::size_t first_at_ = 0;
    std::byte first_found_{0};
};

} // namespace comch::perftest
