#include "doca_comch/argp/value.hpp"

#include <cstdint>
#include <limits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace comch::doca {
namespace {

tl::unexpected<Error> not_a(const char* what, const std::string& text) {
    return fail(Errc::invalid_argument, fmt::format("'{}' is not {}", text, what));
}

template <class T> Result<Value> cast(const char* what, const std::string& text) {
    T value{};
    if (!CLI::detail::lexical_cast(text, value)) {
        return not_a(what, text);
    }
    return Value(value);
}

} // namespace

Result<Value> parse_value(doca_argp_type type, const std::string& text) {
    switch (type) {
    case DOCA_ARGP_TYPE_INT:
        return cast<int>("an integer", text);
    case DOCA_ARGP_TYPE_BOOLEAN:
        return cast<bool>("true or false", text);
    case DOCA_ARGP_TYPE_DOUBLE:
        return cast<double>("a number", text);
    default:
        return Value(text);
    }
}

Result<Value> parse_value(doca_argp_type type, const nlohmann::json& json) {
    switch (type) {
    case DOCA_ARGP_TYPE_INT:
        if (json.is_number_integer() &&
            !(json.is_number_unsigned() &&
              json.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<int>::max()})) {
            const auto number = json.get<std::int64_t>();
            if (number >= std::numeric_limits<int>::min() &&
                number <= std::numeric_limits<int>::max()) {
                return Value(static_cast<int>(number));
            }
        }
        return not_a("an integer", json.dump());
    case DOCA_ARGP_TYPE_BOOLEAN:
        return json.is_boolean() ? Result<Value>(Value(json.get<bool>()))
                                 : not_a("true or false", json.dump());
    case DOCA_ARGP_TYPE_DOUBLE:
        return json.is_number() ? Result<Value>(Value(json.get<double>()))
                                : not_a("a number", json.dump());
    default:
        return json.is_string() ? Result<Value>(Value(json.get<std::string>()))
                                : not_a("a string", json.dump());
    }
}

} // namespace comch::doca
