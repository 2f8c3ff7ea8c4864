// What the tools' command lines have in common.
#pragma once

#include <string>

#include <CLI/CLI.hpp>
#include <comch/version.hpp>
#include <fmt/format.h>

namespace comch::tools {

/// A number in this range; CLI::Range takes "nan" for one.
[[nodiscard]] inline CLI::Validator number_between(double least, double most) {
    return CLI::Validator(
        [least, most](const std::string& text) {
            double value = 0;
            const bool good =
                CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
            return good ? std::string()
                        : fmt::format("'{}' is not a number from {} to {}", text, least, most);
        },
        fmt::format("{} to {}", least, most));
}

/// `--version`, as both ends of a connection must be of the same.
inline void add_version(CLI::App& app) {
    app.set_version_flag("--version", fmt::format("comch {}", version),
                         "print comch's version and exit");
}

} // namespace comch::tools
