// Settings from the environment.
#pragma once

#include <cstdlib>
#include <string>

namespace comch {

/// The value of a variable; empty if it is not set. A set-user-id program gets nothing: whoever
/// starts it could otherwise lead it into a directory of his.
[[nodiscard]] inline std::string environment(const char* name) {
    const char* const value = secure_getenv(name);
    return value == nullptr ? std::string() : std::string(value);
}

} // namespace comch
