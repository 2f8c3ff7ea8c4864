// Room for one more, before something happens that cannot be taken back.
#pragma once

#include <algorithm>
#include <vector>

namespace comch {

/// The next push_back() does not allocate. Grows as that would.
template <class T> void make_room(std::vector<T>& in) {
    if (in.size() == in.capacity()) {
        in.reserve(std::max<std::size_t>(2 * in.size(), 4));
    }
}

/// `in` has room for as many as `all` may have without growing.
template <class T, class U> void make_room_for_all(std::vector<T>& in, const std::vector<U>& all) {
    if (in.capacity() < all.capacity()) {
        in.reserve(all.capacity());
    }
}

} // namespace comch
