// What the connections of a port have found to be the costs of the ways of copying (copy_ways.hpp). One of
// them tries the ways while the others wait, and they begin with what it finds: a program with many peers
// would else spend its first messages to each of them on trials, all at once, each disturbing the others'.
// (Peers may lie at different distances, and some help more readily: each has trials of its own later.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace comch::link::soft {

class KnownWays {
public:
    static constexpr std::size_t ways = 3;
    static constexpr std::size_t lengths = 14;

    struct Found {
        std::array<std::uint64_t, ways> costs{}; ///< 0: not known
        bool known = false;
        bool being_tried = false;
    };
    /// For a length's index; with or without the ring among the ways.
    [[nodiscard]] Found& at(std::size_t length, bool ring) noexcept {
        return found_[length][ring ? 1 : 0];
    }

private:
    std::array<std::array<Found, 2>, lengths> found_{};
};

/// Both kinds of a port.
struct PortWays {
    KnownWays copied;
    KnownWays mapped; ///< of memory that is mapped
};

} // namespace comch::link::soft
