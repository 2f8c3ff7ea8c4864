// Values as people write them on the command line: sizes, lists of them, amounts, CPU lists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <comch/error.hpp>

namespace comch::perftest {

/// How much to run: so many messages or so long. Neither: nothing.
struct Amount {
    std::uint64_t messages = 0;
    double seconds = 0;

    friend bool operator==(const Amount&, const Amount&) = default;
};

inline constexpr std::size_t max_sizes = 1000; ///< in one list
inline constexpr std::uint32_t max_cpu = 4095;
inline constexpr double max_seconds = 86400;
/// Years of the fastest; sums of such numbers do not wrap.
inline constexpr std::uint64_t max_messages = std::uint64_t{1} << 48;

/// "64", "4K", "1MiB", "2g": K, M and G are powers of 1024.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);

/// A list of sizes and ranges: "8,64,1K", "1:1M" (times two each), "1:1Mx4", "0:100+10". A range
/// ends with the last of its steps that is not beyond its end.
[[nodiscard]] Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text);

/// "2", "2s", "500ms", "100us", "1m".
[[nodiscard]] Result<double> parse_seconds(std::string_view text);

/// A plain number of messages ("100000", "100k", k as in a thousand), or a time, which needs its unit
/// here (m: minutes).
[[nodiscard]] Result<Amount> parse_amount(std::string_view text);

/// "0,2-5,1": in this order.
[[nodiscard]] Result<std::vector<std::uint32_t>> parse_cpus(std::string_view text);

[[nodiscard]] std::string format_cpus(const std::vector<std::uint32_t>& cpus);

} // namespace comch::perftest
