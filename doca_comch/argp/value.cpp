#include "doca_comch/argp/value.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace comch::doca {
namespace {

tl::unexpected<Error> not_a(const char* what, const std::string& text) {
    return fail(Errc::invalid_argument, fmt::format("'{}' is not {}", text, what));
}

tl::unexpected<Error> out_of_range(const std::string& text) {
    return fail(Errc::invalid_argument,
                fmt::format("{} is out of range: integers are from {} to {}", text,
                            std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}

/// All of the text, a sign in front allowed; what is wrong otherwise.
template <class T> std::errc parse_number(std::string_view text, T& value) {
    if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
        text.remove_prefix(1);
    }
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    return at == end ? error : std::errc::invalid_argument;
}

} // namespace

Result<Value> parse_value(doca_argp_type type, const std::string& text) {
    switch (type) {
    case DOCA_ARGP_TYPE_INT: {
        int value = 0;
        const std::errc error = parse_number(text, value);
        return error == std::errc()                      ? Result<Value>(Value(value))
               : error == std::errc::result_out_of_range ? Result<Value>(out_of_range(text))
                                                         : not_a("an integer", text);
    }
    case DOCA_ARGP_TYPE_BOOLEAN:
        return Value(true); // there is no text: that the flag is there says it
    case DOCA_ARGP_TYPE_DOUBLE: {
        double value = 0;
        return parse_number(text, value) == std::errc() && std::isfinite(value)
                   ? Result<Value>(Value(value))
                   : not_a("a number", text);
    }
    default:
        return Value(text);
    }
}

Result<Value> parse_value(doca_argp_type type, const nlohmann::json& json) {
    switch (type) {
    case DOCA_ARGP_TYPE_INT: {
        if (!json.is_number_integer()) {
            // What does not fit 64 bits either is a float to the JSON library.
            return json.is_number_float() && std::abs(json.get<double>()) > 0x1p31
                       ? out_of_range(json.dump())
                       : not_a("an integer", json.dump());
        }
        int value = 0; // by its text, which needs no care for signs and sizes
        return parse_number(json.dump(), value) == std::errc() ? Result<Value>(Value(value))
                                                               : out_of_range(json.dump());
    }
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
