// What is measured: the words that options, protocol and measuring loops share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <comch/capabilities.hpp>

namespace comch::perftest {

enum class Path : std::uint8_t { control = 1, fast = 2 };
enum class Mode : std::uint8_t { ping_pong = 1, one_way = 2, two_way = 3 };

[[nodiscard]] constexpr std::string_view to_string(Path path) noexcept {
    return path == Path::control ? "control" : "fast";
}
[[nodiscard]] constexpr std::string_view to_string(Mode mode) noexcept {
    switch (mode) {
    case Mode::ping_pong:
        return "ping-pong";
    case Mode::one_way:
        return "one-way";
    default:
        return "two-way";
    }
}

/// More would not fit the messages that list one number for each.
inline constexpr std::uint32_t max_threads = 128;
inline constexpr std::uint32_t max_window = limits::producer_tasks;

/// Same for all rounds of a session.
struct Plan {
    Path path = Path::fast;
    Mode mode = Mode::ping_pong;
    bool verify = false;
    bool sleep = false; ///< on the descriptor when there is nothing to do, instead of polling
    std::uint32_t threads = 1;
};

/// How the messages of one size are sent.
struct Load {
    std::uint64_t size = 0;
    std::uint32_t window = 1;  ///< messages under way, for each thread and direction
    std::uint32_t posted = 1;  ///< fast path: buffers posted by each consumer
    std::uint32_t buffers = 1; ///< fast path: that many of them are different memory
};

/// Different buffers that a thread sends from. In a stream no more than the window are under way.
[[nodiscard]] constexpr std::uint32_t send_buffers(const Plan& plan, const Load& load) noexcept {
    return plan.mode == Mode::ping_pong ? load.buffers : std::min(load.buffers, load.window);
}
[[nodiscard]] constexpr bool sends(const Plan& plan, bool client) noexcept {
    return client || plan.mode != Mode::one_way;
}
[[nodiscard]] constexpr bool receives(const Plan& plan, bool client) noexcept {
    return !client || plan.mode != Mode::one_way;
}

/// `window` and `buffers` as the user gave them, 0 for neither.
[[nodiscard]] constexpr Load make_load(const Plan& plan, std::uint64_t size, std::uint32_t window,
                                       std::uint32_t buffers) noexcept {
    // Enough to keep both ends busy; of large messages fewer do, and would only eat memory.
    constexpr std::uint32_t default_window = 256;
    constexpr std::uint64_t default_memory = std::uint64_t{32} << 20;
    const auto fits = [&](std::uint32_t count) {
        const std::uint64_t most = default_memory / std::max<std::uint64_t>(size, 1);
        return static_cast<std::uint32_t>(
            std::clamp<std::uint64_t>(count, 2, std::max<std::uint64_t>(most, 2)));
    };
    Load load{.size = size};
    if (plan.mode == Mode::ping_pong) {
        load.window = 1;
        // One message is under way; the others hide the way of the news that some are free, and
        // share what memory there is.
        load.posted = 64;
        buffers = buffers != 0 ? buffers : size <= (1u << 20) ? 4 : 2;
    } else {
        load.window = window != 0 ? window : fits(default_window);
        // Twice the window: news of free buffers need not be there before the next message is.
        load.posted =
            std::min(window != 0 ? 2 * window : fits(2 * default_window), limits::consumer_tasks);
    }
    load.posted = std::max(load.posted, std::min(buffers, limits::consumer_tasks));
    load.buffers = buffers != 0 ? std::min(buffers, load.posted) : load.posted;
    return load;
}

} // namespace comch::perftest
