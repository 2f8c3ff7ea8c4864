// By which the two ends of a connection hear of each other's death: descriptors of processes (pidfds). Where a
// process cannot have one (valgrind and some sandboxes do not know that call), the reading end of a pipe that
// it keeps open for as long as it lives.
#pragma once

#include "core/base/unique_fd.hpp"

namespace comch::link::soft {

/// This process's, for a peer. A file of its own for each: many would watch a shared one, each below several
/// epoll sets (its port's, its engine's, its program's), and of such paths the kernel allows a file 500, 100, 50.
[[nodiscard]] UniqueFd process_of_ours() noexcept;

/// A peer's descriptor is watched for readability: that must be quick, and mean a death. (Of a pipe, who writes
/// to it says so of itself.)
[[nodiscard]] bool tells_of_death(int fd) noexcept;

} // namespace comch::link::soft
