// What libfabric's atomic operations do to a word, and which combinations there are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libfabric.hpp"

namespace comch::ofi {

/// Operands of one operation, in bytes: with compare operands as many again, and the headers, it
/// stays in one short message.
inline constexpr std::size_t max_atomic_bytes = 1024;

enum class AtomicCall : std::uint8_t { plain, fetch, compare };

/// 8- to 64-bit integers, float and double; 0 for others.
[[nodiscard]] std::size_t datatype_size(int datatype) noexcept;
[[nodiscard]] bool atomic_is_valid(int datatype, int op, AtomicCall call) noexcept;

/// Performs a valid operation on `count` words, each atomically with respect to this machine's
/// CPUs. `target` is aligned to the word; the others need not be. `old` and `compare` may be null
/// where they are not needed.
void perform_atomic(int datatype, int op, std::byte* target, const std::byte* operand,
                    const std::byte* compare, std::byte* old, std::size_t count) noexcept;

} // namespace comch::ofi
