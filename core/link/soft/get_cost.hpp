// What a get costs, for those who compare ways of copying.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/link/soft/tuning.hpp"

namespace comch::link::soft {

/// The time since the one before it ended. What a get leaves behind slows down what follows: other page
/// tables after the kernel's, a buffer that is in the other CPU's cache now. And of several under way each
/// counts with what it adds. Where gets are rare, so many times what it took itself: what else the caller
/// does tells nothing of the way. (No step between the two, or the slower way might seem the faster.)
class GetCost {
public:
    /// Of one that began and ends then, by any clock; to be called for each whose time counts. `own_time`: it counts
    /// with its own time at most. (So do those of which only a part goes the way that is tried: what was before the
    /// part was before all of it.)
    [[nodiscard]] std::uint64_t of(std::uint64_t began, std::uint64_t ended,
                                   bool own_time = false) noexcept {
        const std::uint64_t since_last = ended - std::exchange(last_ended_, ended);
        return std::min(since_last, (own_time ? 1 : tuning::most_between_gets) * (ended - began));
    }

private:
    std::uint64_t last_ended_ = 0;
};

} // namespace comch::link::soft
