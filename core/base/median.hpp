#pragma once

#include <algorithm>
#include <iterator>

namespace comch {

/// The one in the middle, of an even number the upper one; there must be one. Changes the order of `values`.
template <class Values> [[nodiscard]] auto median_of(Values& values) noexcept {
    const auto middle = std::next(std::begin(values), std::ssize(values) / 2);
    std::nth_element(std::begin(values), middle, std::end(values));
    return *middle;
}

} // namespace comch
