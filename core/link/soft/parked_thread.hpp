// A thread of this process that never runs, by whose number peers name the process to the kernel.
//
// process_vm_readv() and process_vm_writev() take the number of any thread, and count in the kernel's record of
// that thread who is at it: in the line that the thread itself reads whenever it enters or leaves the kernel.
// Where two ends have the kernel copy for each other at the same time, each call thus waited for lines that the
// other end's last one had taken. Nobody but its peers' kernel touches the record of a thread that sleeps.
#pragma once

#include <cstdint>

namespace comch::link::soft {

/// Its number; 0: there is none. Begun by the first call; a forked child has one of its own. Any thread.
[[nodiscard]] std::uint32_t parked_thread() noexcept;

} // namespace comch::link::soft
