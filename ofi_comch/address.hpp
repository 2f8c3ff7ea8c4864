// An endpoint's address, as programs pass it around.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <comch/device.hpp>
#include <netinet/in.h>

#include "core/link/link.hpp"

namespace comch::ofi {

/// Plain data, fixed layout: programs send it to each other. One that is found by port is cut off
/// before the name: many programs have room for FI_NAME_MAX (64) bytes only.
struct Address {
    std::uint32_t magic = 0;
    std::uint8_t version = 0;
    std::uint8_t named = 0; ///< 1: found by function and name; 0: by port
    std::uint16_t name_length = 0;
    std::uint8_t domain[16] = {};
    std::uint8_t port[16] = {};
    std::uint32_t function = 0; ///< the host function that the name lies under
    std::uint32_t reserved = 0;
    char name[120] = {};
};
static_assert(sizeof(Address) == 168 && offsetof(Address, name) == 48);
inline constexpr std::size_t port_address_size = offsetof(Address, name);

[[nodiscard]] inline std::size_t size_of(const Address& address) noexcept {
    return address.named != 0 ? sizeof(Address) : port_address_size;
}
/// As the calls that hand out an address do: cut off at `*length`, which becomes the address's.
[[nodiscard]] int copy_address(const Address& address, void* to, std::size_t* length) noexcept;

inline constexpr std::uint32_t address_magic = 0x41464f43; // "COFA"

/// fi_info::addr_format: our own.
inline constexpr std::uint32_t address_format = 0x80000000u | 0x434du;

[[nodiscard]] Address port_address(const Domain& domain, const link::PortAddress& port) noexcept;
/// Empty if the name is too long.
[[nodiscard]] std::optional<Address> named_address(const Domain& domain, FunctionId function,
                                                   std::string_view name) noexcept;
/// Of an endpoint whose address comes with its opening, or is to be any that is free under `function`.
[[nodiscard]] Address unchosen_address(const Domain& domain, FunctionId function) noexcept;
[[nodiscard]] bool is_chosen(const Address& address) noexcept;

/// The address of a service with a numeric name in the form of an IPv4 socket address, for programs
/// and utility providers that know no other: the service's number is the port, and the host
/// function that it lies under has an address of its own in 127.0.0.0/8. A port of 0: none yet.
[[nodiscard]] sockaddr_in socket_address(FunctionId function, std::uint16_t port) noexcept;
/// Of an address with a name, or without a port of an unchosen one.
[[nodiscard]] sockaddr_in socket_address(const Address& address) noexcept;
/// Is `format` one of socket addresses?
[[nodiscard]] bool is_socket_format(std::uint32_t format) noexcept;
/// As copy_address().
[[nodiscard]] int copy_address(const sockaddr_in& address, void* to, std::size_t* length) noexcept;

/// Copies an address that a program gave, in either form; nothing if it is not one of this domain.
/// That of a socket without a port is not chosen; 127.0.0.1 and 0.0.0.0 are the device's own function.
[[nodiscard]] std::optional<Address> parse_address(const Device& device, const void* bytes,
                                                   std::size_t length) noexcept;

[[nodiscard]] link::PortAddress port_of(const Address& address) noexcept;
[[nodiscard]] link::ServiceName service_of(const Address& address);

/// For people.
[[nodiscard]] std::string to_string(const Address& address);

/// The host function that a program means by `node`, on this device: its name, PCI address or address
/// as of a socket. Empty, "localhost", 127.0.0.1 and 0.0.0.0: the device's own, on the DPU the first.
/// Nothing if there is none.
[[nodiscard]] std::optional<FunctionId> function_of_node(const Device& device,
                                                         std::string_view node);

} // namespace comch::ofi
