// What stands in the head of the records of one-sided operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace comch::link {
namespace one_sided {

/// The name of a put that may be done by the kernel as well: its requester finds it in its own
/// ring. Others have none.
inline constexpr std::uint64_t kernel_may_put = 1;

template <class T> bool read_head(const std::byte* payload, std::uint32_t length, T& out) {
    if (length < sizeof(T)) {
        return false;
    }
    std::memcpy(&out, payload, sizeof(T));
    return true;
}

} // namespace one_sided

} // namespace comch::link
