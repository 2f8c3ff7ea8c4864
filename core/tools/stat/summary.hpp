// What can be said of figures: sums, and the way that the bytes took.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tools/stat/gains.hpp"

namespace comch::stat {

/// Which connections are wanted; empty: all.
struct Filter {
    std::vector<std::uint64_t> pids;
    std::vector<std::string> faces;
};
/// Removes the other processes and connections. With faces, processes without any such connection
/// go as well, and so do the sums of connections that have ended.
void apply(const Filter& filter, std::vector<ProcessSample>& processes);

struct Totals {
    std::size_t processes = 0;
    std::size_t connections = 0;   ///< live ones, each once, and no channels
    Figures figures;               ///< of those that have ended, too
    std::uint64_t in_flight = 0;   ///< where it is known
    std::optional<Figures> gained; ///< if there is an earlier reading
};
[[nodiscard]] Totals total(const std::vector<ProcessSample>& processes, const Gains* gains);

/// Messages and one-sided operations, bytes by whatever way: started here, and by the peer.
[[nodiscard]] std::uint64_t operations_out(const Figures& figures) noexcept;
[[nodiscard]] std::uint64_t operations_in(const Figures& figures) noexcept;
[[nodiscard]] std::uint64_t bytes_out(const Figures& figures) noexcept;
[[nodiscard]] std::uint64_t bytes_in(const Figures& figures) noexcept;

/// How bytes travelled.
enum class Path : std::uint8_t {
    none,       ///< there were none
    in_line,    ///< in the ring itself, with the message
    bulk_ring,  ///< through the bulk ring, two copies
    mapped,     ///< one copy, to or from memory that both map
    process_vm, ///< one copy by the kernel
};
/// The way that most of the bytes took.
[[nodiscard]] Path main_path(const Figures& figures) noexcept;
/// The same for what was not in line.
[[nodiscard]] Path bulk_path(const Figures& figures) noexcept;

} // namespace comch::stat
