// A flag's value on its way to the callback.
#pragma once

#include <string>
#include <variant>

#include <comch/error.hpp>
#include <doca_argp.h>
#include <nlohmann/json_fwd.hpp>

namespace comch::doca {

/// What names a device is a string here still.
using Value = std::variant<std::string, int, bool, double>;

/// From the command line's text. Numbers are decimal, "010" is ten.
[[nodiscard]] Result<Value> parse_value(doca_argp_type type, const std::string& text);

/// From a JSON value, which must be of that type.
[[nodiscard]] Result<Value> parse_value(doca_argp_type type, const nlohmann::json& json);

} // namespace comch::doca
