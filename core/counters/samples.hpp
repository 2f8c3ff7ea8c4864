// What was read from counter files, as plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <comch/counters_layout.hpp>

namespace comch::counters {

/// The figures of one connection, copied at one moment.
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

    friend bool operator==(const Figures&, const Figures&) = default;
};

/// All figures by name, for whoever does the same with each.
struct FigureField {
    const char* name;
    std::uint64_t Figures::*member;
};
inline constexpr std::array figure_fields{
    FigureField{"tx_messages", &Figures::tx_messages},
    FigureField{"tx_bytes", &Figures::tx_bytes},
    FigureField{"tx_bulk_ring_bytes", &Figures::tx_bulk_ring_bytes},
    FigureField{"tx_mapped_bytes", &Figures::tx_mapped_bytes},
    FigureField{"tx_process_vm_bytes", &Figures::tx_process_vm_bytes},
    FigureField{"tx_one_sided", &Figures::tx_one_sided},
    FigureField{"credit_stalls", &Figures::credit_stalls},
    FigureField{"buffer_stalls", &Figures::buffer_stalls},
    FigureField{"rx_messages", &Figures::rx_messages},
    FigureField{"rx_bytes", &Figures::rx_bytes},
    FigureField{"rx_bulk_ring_bytes", &Figures::rx_bulk_ring_bytes},
    FigureField{"one_sided_served", &Figures::one_sided_served},
    FigureField{"wakeups", &Figures::wakeups},
};
static_assert(sizeof(Figures) == figure_fields.size() * sizeof(std::uint64_t));

struct ConnectionSample {
    std::uint32_t slot = 0; ///< max_slots: what all connections beyond the last slot share
    SlotState state = SlotState::free;
    SlotKind kind = SlotKind::connection;
    std::string face;
    std::string peer;
    std::uint32_t local_side = 0;
    std::uint32_t peer_side = 0;
    std::uint64_t peer_pid = 0;
    std::uint64_t connection = 0; ///< the same at both ends; 0: unknown
    Figures figures;
    /// Messages sent here that the other end has not taken out yet; nothing if that end cannot be
    /// seen, or will take out no more.
    std::optional<std::uint64_t> in_flight;

    /// Is there anything to come?
    [[nodiscard]] bool live() const noexcept {
        return state == SlotState::connecting || state == SlotState::connected;
    }
};

struct ProcessSample {
    std::uint64_t pid = 0; ///< in that process's PID namespace
    std::uint64_t process_id = 0;
    std::string program;
    std::vector<ConnectionSample> connections; ///< in use now, or ended and not yet taken again
    Figures ended; ///< of connections whose slots were taken again, in total
};

} // namespace comch::counters
