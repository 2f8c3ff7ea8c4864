// Reading the counter files of a domain, of this or of other processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <comch/counters_layout.hpp>
#include <comch/device.hpp>

namespace comch::counters {

/// The figures of one direction pair, copied at one moment.
struct Figures {
    std::uint64_t tx_messages = 0;
    std::uint64_t tx_bytes = 0;
    std::uint64_t tx_bulk_ring_bytes = 0;
    std::uint64_t tx_mapped_bytes = 0;
    std::uint64_t tx_process_vm_bytes = 0;
    std::uint64_t tx_one_sided = 0;
    std::uint64_t credit_stalls = 0;
    std::uint64_t buffer_stalls = 0;
    std::uint64_t rx_messages = 0;
    std::uint64_t rx_bytes = 0;
    std::uint64_t rx_bulk_ring_bytes = 0;
    std::uint64_t one_sided_served = 0;
    std::uint64_t wakeups = 0;
};

struct ConnectionSample {
    std::uint32_t slot = 0;
    SlotState state = SlotState::free;
    std::string face;
    std::string peer;
    std::uint32_t local_side = 0;
    std::uint32_t peer_side = 0;
    std::uint64_t peer_pid = 0;
    Figures figures;
};

struct ProcessSample {
    std::uint64_t pid = 0; ///< in that process's PID namespace
    std::uint64_t process_id = 0;
    std::string program;
    std::vector<ConnectionSample> connections; ///< in use now, or ended and not yet taken again
};

/// Every process of the domain that can be read now. Files that are not what they should be (being
/// made, being removed, of another version) are left out.
[[nodiscard]] Result<std::vector<ProcessSample>> read_counter_files(const Domain& domain);

} // namespace comch::counters
