// Functions of ours that programs in C call: they get an answer, not an exception.
#pragma once

#include <new>

namespace comch {

/// `call` does as `Call`, and answers `NoMemory` where that finds none. As long as nothing fails it costs
/// next to nothing, so it is used on the data path, too, but for short messages. Exceptions of other kinds are none of ours: callbacks in
/// C++ may throw, and a thread that is cancelled unwinds.
template <auto Call, auto NoMemory> struct Guarded;
template <class Result, class... Arguments, Result (*Call)(Arguments...), auto NoMemory>
struct Guarded<Call, NoMemory> {
    static Result call(Arguments... arguments) {
        try {
            return Call(arguments...);
        } catch (const std::bad_alloc&) {
            return NoMemory;
        }
    }
};

} // namespace comch
