// What the machine can do at best, to hold a transport's figures against.
#pragma once

#include <cstddef>

#include "two_threads.hpp"

namespace comch::limits {

/// One way of a cache line from one CPU to the other, in ns: the median over many short batches.
[[nodiscard]] double hand_over_ns(const Cpus& cpus, double duration);

/// One-line records per second through a ring of `lines` lines.
[[nodiscard]] double line_rate(const Cpus& cpus, double duration);

/// Bytes per second of one memcpy of `size` bytes into shared memory, the median over many.
[[nodiscard]] double memcpy_rate(int cpu, std::size_t size, double duration);

/// Bytes per second of messages of `size` bytes that one CPU copies into a small ring in chunks and
/// the other copies out at the same time.
[[nodiscard]] double stream_rate(const Cpus& cpus, std::size_t size, double duration);

/// Bytes per second of process_vm_writev() of `size` bytes into another process, the median.
[[nodiscard]] double process_vm_rate(int cpu, std::size_t size, double duration);

} // namespace comch::limits
