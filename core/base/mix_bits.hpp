// Spreads numbers that differ little over all 64 bits, as splitmix64 does. Not for secrets.
#pragma once

#include <cstdint>

namespace comch {

[[nodiscard]] constexpr std::uint64_t mix_bits(std::uint64_t value) noexcept {
    value = (value ^ value >> 30) * 0xbf58'476d'1ce4'e5b9u;
    value = (value ^ value >> 27) * 0x94d0'49bb'1331'11ebu;
    return value ^ value >> 31;
}

} // namespace comch
