// Copying what is short without a call: a call of memcpy makes its caller save registers, and each of
// those stores waits behind the message's own in the CPU's store buffer (ring_writer.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace comch {

/// The longest that copy_short() copies without a call.
inline constexpr std::size_t longest_short_copy = 64;

namespace detail {

/// The first and the last `Piece` of them, which may overlap.
template <class Piece>
void copy_ends(std::byte* to, const std::byte* from, std::size_t length) noexcept {
    Piece first{};
    Piece last{};
    std::memcpy(&first, from, sizeof(Piece));
    std::memcpy(&last, from + (length - sizeof(Piece)), sizeof(Piece));
    std::memcpy(to, &first, sizeof(Piece));
    std::memcpy(to + (length - sizeof(Piece)), &last, sizeof(Piece));
}

struct Bytes16 {
    std::uint64_t words[2];
};

/// The first 32 and the last 32, in pieces that the compiler keeps in registers: of 32 bytes it makes an
/// object on the stack.
inline void copy_ends_of_32(std::byte* to, const std::byte* from, std::size_t length) noexcept {
    Bytes16 first[2];
    Bytes16 last[2];
    std::memcpy(&first[0], from, 16);
    std::memcpy(&first[1], from + 16, 16);
    std::memcpy(&last[0], from + (length - 32), 16);
    std::memcpy(&last[1], from + (length - 16), 16);
    std::memcpy(to, &first[0], 16);
    std::memcpy(to + 16, &first[1], 16);
    std::memcpy(to + (length - 32), &last[0], 16);
    std::memcpy(to + (length - 16), &last[1], 16);
}

} // namespace detail

/// As memcpy, also of nothing from nowhere. Most short messages are a word or two.
[[gnu::always_inline]] inline void copy_short(std::byte* to, const void* source,
                                              std::size_t length) noexcept {
    const auto* const from = static_cast<const std::byte*>(source);
    if (length == 8) {
        std::memcpy(to, from, 8);
    } else if (length - 8 <= 8) {
        detail::copy_ends<std::uint64_t>(to, from, length);
    } else if (length > longest_short_copy) {
        std::memcpy(to, from, length);
    } else if (length >= 32) {
        detail::copy_ends_of_32(to, from, length);
    } else if (length > 16) {
        detail::copy_ends<detail::Bytes16>(to, from, length);
    } else if (length >= 4) {
        detail::copy_ends<std::uint32_t>(to, from, length);
    } else if (length != 0) { // the pointers may be null else
        to[0] = from[0];
        to[length / 2] = from[length / 2];
        to[length - 1] = from[length - 1];
    }
}

} // namespace comch
