// Who this process is, across every namespace.
//
// A pid says nothing outside its PID namespace and is reused; this id is random, so it may go into
// file names, on the wire and into comparisons.
#pragma once

#include <cstdint>

namespace comch {

/// Never 0, so that 0 can mean "none".
using ProcessId = std::uint64_t;

/// This process's id: drawn at the first call, the same until the process ends. A forked child is
/// another process and draws its own. Safe from any thread.
[[nodiscard]] ProcessId process_id() noexcept;

} // namespace comch
