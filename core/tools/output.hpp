// What the tools do when they have printed all.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

namespace comch::tools {

/// The exit status: 0, or 1 if standard output has not taken everything, which is said after
/// `prefix`.
[[nodiscard]] inline int output_status(const char* prefix) {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) {
        return 0;
    }
    fmt::print(stderr, "{}: cannot write to standard output: {}\n", prefix, std::strerror(errno));
    return 1;
}

} // namespace comch::tools
