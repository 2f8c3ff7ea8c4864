// Reads a peer's message piece by piece. Every piece is copied out once; what is used is the copy.
#pragma once

#include <cstdint>
#include <cstring>

#include "endpoint.hpp"
#include "over_link.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

class Endpoint::Parser {
public:
    Parser(const std::byte* at, std::uint32_t left) : at_(at), left_(left) {}

    template <class T> [[nodiscard]] bool take(T& out) noexcept {
        if (left_ < sizeof(T)) [[unlikely]] {
            return false;
        }
        std::memcpy(&out, at_, sizeof(T));
        at_ += sizeof(T);
        left_ -= static_cast<std::uint32_t>(sizeof(T));
        return true;
    }
    [[nodiscard]] const std::byte* rest() const noexcept { return at_; }
    [[nodiscard]] std::uint32_t left() const noexcept { return left_; }

private:
    const std::byte* at_;
    std::uint32_t left_;
};

} // namespace comch::ofi::inline COMCH_OFI_LINK
