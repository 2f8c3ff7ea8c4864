// Which consumers' ids have been used. They are given in a row, two apart on each side, and need not be
// used in that order; but both ends forget those that are far behind the newest, by the same rule, so that
// neither has to remember more than so many.
#pragma once

#include <bitset>
#include <cstdint>

#include <comch/capabilities.hpp>

namespace comch::channel {

class UsedIds {
public:
    /// So many of the last ones can still be used.
    static constexpr std::uint32_t window = limits::consumers_per_connection;

    /// Of one side. False: it was used before, or is too far behind.
    [[nodiscard]] bool use(std::uint32_t id) noexcept {
        const std::uint32_t number = id / 2;
        if (number >= next_) {
            // Those that were left out can be used later.
            if (number - next_ >= window) {
                used_.reset();
                next_ = number;
            }
            while (next_ <= number) {
                used_.reset(next_++ % window);
            }
        } else if (next_ - number > window || used_.test(number % window)) {
            return false;
        }
        used_.set(number % window);
        return true;
    }

private:
    std::bitset<window> used_;
    std::uint32_t next_ = 0; ///< one more than the newest
};

} // namespace comch::channel
