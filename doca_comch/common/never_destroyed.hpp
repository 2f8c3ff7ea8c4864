// Objects of the process that outlive it: programs use the API until they end, from destructors of
// their own.
#pragma once

#include <cstddef>
#include <new>

namespace comch::doca {

/// The one object of that type, made at the first call. Its room is not allocated, so that whoever
/// only asks whether something is in a table cannot run out of memory.
template <class T> [[nodiscard]] T& never_destroyed() {
    alignas(T) static std::byte room[sizeof(T)];
    static T* const object = new (room) T;
    return *object;
}

} // namespace comch::doca
