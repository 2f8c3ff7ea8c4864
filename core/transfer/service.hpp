// What lets other processes reach this one's exported memory while its program does something else.
//
// On real hardware the device reads and writes exported memory without the owner's CPU. On the soft
// link the owner has to progress; so a process that exports memory for the device has one thread
// per domain that does nothing else. It sleeps unless somebody reaches for the memory. What may be
// reached, and how, the region table says.
#pragma once

#include <comch/device.hpp>
#include <comch/error.hpp>

#include "core/link/link.hpp"

namespace comch::transfer {

/// Starts this process's service in the device's domain, unless it runs already, and says where it
/// is reached. It ends with the process. Any thread.
[[nodiscard]] Result<link::PortAddress> serve_memory(const Device& device);

} // namespace comch::transfer
