// What both halves of the example need: an end when something fails, and sleep while there is
// nothing to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <comch/comch.hpp>
#include <poll.h>

inline constexpr std::string_view server_name = "checksum";
inline constexpr std::size_t most_bytes = 1'000'000;

[[noreturn]] inline void give_up(const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(EXIT_FAILURE);
}

/// Errors say what failed, on which object, and what to do about it.
template <class T> T value_of(comch::Result<T> result) {
    if (!result) {
        give_up(result.error().message);
    }
    return std::move(*result);
}

/// Calls of the data path answer a code only.
inline void must(comch::Errc code, const char* what) {
    if (code != comch::Errc::ok) {
        give_up(std::string(what) + ": " + std::string(comch::to_string(code)));
    }
}

/// The first of some that there should be.
template <class T> T first_of(const std::vector<T>& things, const char* what) {
    if (things.empty()) {
        give_up(std::string("there is no ") + what + ": comch_info shows what there is");
    }
    return things.front();
}

/// Progresses until `done`; sleeps while nothing happens. A program that wants the shortest latency
/// calls progress() all the time instead.
template <class Done> void progress_until(comch::ProgressEngine& engine, Done&& done) {
    while (!done()) {
        if (engine.progress() == 0 && engine.arm() == comch::Errc::ok) {
            pollfd entry{engine.event_fd(), POLLIN, 0};
            (void)::poll(&entry, 1, -1);
        }
    }
}

inline std::uint64_t sum_of(std::span<const std::byte> bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0},
                           [](std::uint64_t sum, std::byte byte) {
                               return sum + std::to_integer<std::uint64_t>(byte);
                           });
}
