// Descriptors of processes (pidfds), by which the two ends of a connection hear of each other's death.
#pragma once

#include "core/base/unique_fd.hpp"

namespace comch::link::soft {

/// This process's, for a peer. A file of its own for each: many would watch a shared one, each below several
/// epoll sets (its port's, its engine's, its program's), and of such paths the kernel allows a file 500, 100, 50.
[[nodiscard]] UniqueFd process_of_ours() noexcept;

/// A peer's descriptor is watched for readability: it must mean a death.
[[nodiscard]] bool is_process(int fd) noexcept;

} // namespace comch::link::soft
