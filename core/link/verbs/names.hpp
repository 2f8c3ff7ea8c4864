// How ports are called: their addresses, and the names that they take in a domain's directory.
#pragma once

#include <cstdint>
#include <string>

#include "core/link/link.hpp"

namespace comch::link::verbs {

/// PortAddress's bytes. The IP address is not among them: both ends' descriptions have it.
struct PortName {
    std::uint64_t number;
    std::uint32_t function;
    std::uint16_t port;
    std::uint8_t side;
    std::uint8_t reserved;
};
static_assert(sizeof(PortName) == sizeof(PortAddress));

[[nodiscard]] PortAddress make_port_address(const PortName& name) noexcept;
[[nodiscard]] PortName name_of(const PortAddress& address) noexcept;

/// Of a port or a connection: nobody guesses it. Not 0.
[[nodiscard]] std::uint64_t random_number();

/// The entry in the domain's directory by which a name is taken: a symbolic link to
/// <owner's process id>.<port>.
[[nodiscard]] std::string name_entry(const ServiceName& service);

} // namespace comch::link::verbs
