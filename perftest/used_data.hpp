// Messages as programs have them: written before they are sent, and read when they have come. A benchmark
// that does neither sends what has been in the receiver's cache since it read it for the first time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace comch::perftest {

[[nodiscard]] inline std::uint8_t content_of_message(std::uint64_t number) noexcept {
    return static_cast<std::uint8_t>(number % 251);
}

inline void write_message(std::span<std::byte> bytes, std::uint64_t number) noexcept {
    std::memset(bytes.data(), content_of_message(number), bytes.size());
}

/// Reads all of it. False: it is not what write_message() wrote.
[[nodiscard]] inline bool read_message(std::span<const std::byte> bytes,
                                       std::uint64_t number) noexcept {
    const std::uint64_t expected = content_of_message(number) * std::uint64_t{0x0101010101010101};
    const std::size_t words = bytes.size() / sizeof(std::uint64_t);
    std::uint64_t difference = 0; // no branch in the loop, which is so as fast as memory
    for (std::size_t i = 0; i < words; ++i) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + i * sizeof(word), sizeof(word));
        difference |= word ^ expected;
    }
    const auto rest = bytes.subspan(words * sizeof(std::uint64_t));
    return difference == 0 && std::all_of(rest.begin(), rest.end(), [&](std::byte byte) {
               return byte == static_cast<std::byte>(content_of_message(number));
           });
}

} // namespace comch::perftest
