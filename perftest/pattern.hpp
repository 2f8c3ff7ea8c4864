// The content of verified messages: every byte depends on which message it is in, on its direction
// and thread, and on its place, so that a lost, repeated, swapped, shifted or stale piece shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace comch::perftest {

enum class Direction : std::uint8_t { to_server = 0, to_client = 1 };

namespace pattern {

[[nodiscard]] inline std::uint64_t mix(std::uint64_t x) noexcept {
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

[[nodiscard]] inline std::uint64_t seed(Direction direction, std::uint32_t thread,
                                        std::uint64_t message) noexcept {
    const auto who = (std::uint64_t{thread} << 1) | static_cast<std::uint64_t>(direction);
    return mix(mix(who + 1) + message);
}

[[nodiscard]] inline std::uint64_t word(std::uint64_t seed, std::size_t index) noexcept {
    return mix(seed + index * 0x9e3779b97f4a7c15u);
}

inline void fill(std::span<std::byte> bytes, std::uint64_t seed) noexcept {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
        const std::uint64_t value = word(seed, at / sizeof(std::uint64_t));
        const std::size_t left = bytes.size() - at;
        std::memcpy(bytes.data() + at, &value, left < sizeof(value) ? left : sizeof(value));
    }
}

/// The first byte at or behind `from` that is not as fill() made it.
[[nodiscard]] inline std::optional<std::size_t>
find_mismatch(std::span<const std::byte> bytes, std::uint64_t seed, std::size_t from = 0) noexcept {
    for (std::size_t at = from - from % sizeof(std::uint64_t); at < bytes.size();
         at += sizeof(std::uint64_t)) {
        const std::uint64_t expected = word(seed, at / sizeof(std::uint64_t));
        std::uint64_t found = expected;
        const std::size_t left = bytes.size() - at;
        std::memcpy(&found, bytes.data() + at, left < sizeof(found) ? left : sizeof(found));
        if (found != expected) {
            for (std::size_t i = 0; i < sizeof(found) && at + i < bytes.size(); ++i) {
                if (((found ^ expected) >> (8 * i) & 0xff) != 0 && at + i >= from) {
                    return at + i;
                }
            }
        }
    }
    return std::nullopt;
}

} // namespace pattern
} // namespace comch::perftest
