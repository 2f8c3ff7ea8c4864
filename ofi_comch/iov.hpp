// Copies between a program's vectors and contiguous memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <sys/uio.h>

namespace comch::ofi {

[[nodiscard]] inline std::size_t total_length(const iovec* iov, std::size_t count) noexcept {
    std::size_t length = 0;
    for (std::size_t i = 0; i < count; ++i) {
        length += iov[i].iov_len;
    }
    return length;
}

inline void gather(std::byte* to, const iovec* iov, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        if (iov[i].iov_len != 0) { // the pointer may be null then
            std::memcpy(to, iov[i].iov_base, iov[i].iov_len);
            to += iov[i].iov_len;
        }
    }
}

/// Of all that they hold, the bytes [from, from + length).
inline void gather_part(std::byte* to, const iovec* iov, std::size_t count, std::size_t from,
                        std::size_t length) noexcept {
    for (std::size_t i = 0; i < count && length != 0; ++i) {
        if (from >= iov[i].iov_len) {
            from -= iov[i].iov_len;
            continue;
        }
        const std::size_t part = std::min(iov[i].iov_len - from, length);
        std::memcpy(to, static_cast<const std::byte*>(iov[i].iov_base) + from, part);
        to += part;
        length -= part;
        from = 0;
    }
}

/// As much as there is room for.
inline void scatter(const iovec* iov, std::size_t count, const std::byte* from,
                    std::size_t length) noexcept {
    for (std::size_t i = 0; i < count && length != 0; ++i) {
        const std::size_t part = std::min(iov[i].iov_len, length);
        if (part != 0) {
            std::memcpy(iov[i].iov_base, from, part);
        }
        from += part;
        length -= part;
    }
}

} // namespace comch::ofi
