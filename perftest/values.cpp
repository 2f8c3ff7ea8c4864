#include "perftest/values.hpp"

#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace comch::perftest {
namespace {

std::string_view trim(std::string_view text) {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
        text.remove_prefix(1);
    }
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
        text.remove_suffix(1);
    }
    return text;
}

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result) {
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return result;
}

/// Takes an unsigned number off the front of `text`.
template <class Number> std::optional<Number> take_number(std::string_view& text) {
    Number value{};
    // from_chars takes a minus sign for floating point.
    if (text.empty() ||
        (text.front() != '.' && std::isdigit(static_cast<unsigned char>(text.front())) == 0)) {
        return std::nullopt;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) {
        return std::nullopt;
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

std::optional<std::uint64_t> multiply(std::uint64_t a, std::uint64_t b) {
    std::uint64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    for (;;) {
        const auto end = text.find(at);
        parts.push_back(trim(text.substr(0, end)));
        if (end == std::string_view::npos) {
            return parts;
        }
        text.remove_prefix(end + 1);
    }
}

Result<void> add_range(std::string_view text, std::vector<std::uint64_t>& sizes) {
    const auto colon = text.find(':');
    const auto first = parse_size(text.substr(0, colon));
    if (!first) {
        return tl::unexpected(first.error());
    }
    std::string_view rest = text.substr(colon + 1);
    const auto operation = rest.find_first_of("xX*+");
    const auto last = parse_size(rest.substr(0, operation));
    if (!last) {
        return tl::unexpected(last.error());
    }
    bool add = false;
    std::uint64_t step = 2;
    if (operation != std::string_view::npos) {
        add = rest[operation] == '+';
        const auto given = parse_size(rest.substr(operation + 1));
        if (!given) {
            return tl::unexpected(given.error());
        }
        step = *given;
    }
    if (*last < *first) {
        return fail(
            Errc::invalid_argument,
            fmt::format("range '{}' ends below its begin; write {}:{}", text, *last, *first));
    }
    if (step < (add ? 1u : 2u) || (!add && *first == 0)) {
        return fail(Errc::invalid_argument,
                    fmt::format("range '{}' would never reach its end: multiply by at least 2 "
                                "from at least 1, or add at least 1",
                                text));
    }
    for (std::uint64_t size = *first; size <= *last;) {
        sizes.push_back(size);
        if (sizes.size() > max_sizes) {
            return fail(Errc::invalid_argument,
                        fmt::format("range '{}' makes more than {} sizes; take larger steps", text,
                                    max_sizes));
        }
        std::uint64_t next = 0;
        if (add ? __builtin_add_overflow(size, step, &next)
                : __builtin_mul_overflow(size, step, &next)) {
            break;
        }
        size = next;
    }
    return {};
}

} // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
    const std::string_view whole = trim(text);
    std::string_view rest = whole;
    const auto number = take_number<std::uint64_t>(rest);
    const std::string unit = lower(trim(rest));
    std::uint64_t factor = 0;
    if (unit.empty() || unit == "b") {
        factor = 1;
    } else if (unit == "k" || unit == "kb" || unit == "kib") {
        factor = std::uint64_t{1} << 10;
    } else if (unit == "m" || unit == "mb" || unit == "mib") {
        factor = std::uint64_t{1} << 20;
    } else if (unit == "g" || unit == "gb" || unit == "gib") {
        factor = std::uint64_t{1} << 30;
    }
    const auto size = number && factor != 0 ? multiply(*number, factor) : std::nullopt;
    if (!size) {
        return fail(
            Errc::invalid_argument,
            fmt::format("'{}' is not a size; write bytes, or 4K, 1M, 1G (powers of 1024)", whole));
    }
    return *size;
}

Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text) {
    std::vector<std::uint64_t> sizes;
    for (const std::string_view part : split(text, ',')) {
        if (part.find(':') != std::string_view::npos) {
            if (const auto added = add_range(part, sizes); !added) {
                return tl::unexpected(added.error());
            }
        } else {
            const auto size = parse_size(part);
            if (!size) {
                return tl::unexpected(size.error());
            }
            sizes.push_back(*size);
        }
        if (sizes.size() > max_sizes) {
            return fail(Errc::invalid_argument,
                        fmt::format("more than {} sizes are given", max_sizes));
        }
    }
    return sizes;
}

Result<double> parse_seconds(std::string_view text) {
    const std::string_view whole = trim(text);
    std::string_view rest = whole;
    const auto number = take_number<double>(rest);
    const std::string unit = lower(trim(rest));
    double factor = 0;
    if (unit.empty() || unit == "s") {
        factor = 1;
    } else if (unit == "ms") {
        factor = 1e-3;
    } else if (unit == "us") {
        factor = 1e-6;
    } else if (unit == "m" || unit == "min") {
        factor = 60;
    }
    const double seconds = number ? *number * factor : 0;
    if (!(seconds > 0) || seconds > max_seconds) {
        return fail(
            Errc::invalid_argument,
            fmt::format("'{}' is not a time above 0 and up to a day; write seconds, or 500ms, "
                        "100us, 5m",
                        whole));
    }
    return seconds;
}

Result<Amount> parse_amount(std::string_view text) {
    const std::string_view whole = trim(text);
    std::string_view rest = whole;
    const auto number = take_number<std::uint64_t>(rest);
    const std::string unit = lower(trim(rest));
    if (number && (unit.empty() || unit == "k")) {
        const auto messages = multiply(*number, unit.empty() ? 1 : 1000);
        if (!messages || *messages > max_messages) {
            return fail(Errc::invalid_argument,
                        fmt::format("'{}' is more than {} messages, which would take years", whole,
                                    max_messages));
        }
        return Amount{.messages = *messages, .seconds = 0};
    }
    // 1e4 was meant as a number of messages.
    const bool has_unit =
        !whole.empty() && std::isalpha(static_cast<unsigned char>(whole.back())) != 0;
    auto seconds = parse_seconds(whole);
    if (!seconds || !has_unit) {
        return fail(Errc::invalid_argument,
                    fmt::format("'{}' is neither a number of messages (1000, 10k) nor a time with "
                                "its unit (500ms, 2s)",
                                whole));
    }
    return Amount{.messages = 0, .seconds = *seconds};
}

Result<std::vector<std::uint32_t>> parse_cpus(std::string_view text) {
    std::vector<std::uint32_t> cpus;
    for (const std::string_view part : split(text, ',')) {
        std::string_view rest = part;
        const auto first = take_number<std::uint32_t>(rest);
        auto last = first;
        if (first && !rest.empty() && rest.front() == '-') {
            rest.remove_prefix(1);
            last = take_number<std::uint32_t>(rest);
        }
        if (!first || !last || !rest.empty() || *last < *first || *last > max_cpu) {
            return fail(Errc::invalid_argument,
                        fmt::format("'{}' is not a list of CPUs; write numbers and ranges up to "
                                    "{}, as in 0,2-5",
                                    text, max_cpu));
        }
        for (std::uint32_t cpu = *first; cpu <= *last; ++cpu) {
            cpus.push_back(cpu);
        }
    }
    return cpus;
}

std::string format_cpus(const std::vector<std::uint32_t>& cpus) {
    return fmt::format("{}", fmt::join(cpus, ","));
}

} // namespace comch::perftest
