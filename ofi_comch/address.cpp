#include "address.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>

#include "libfabric.hpp"

namespace comch::ofi {
namespace {

Address blank(const Domain& domain) noexcept {
    Address address;
    address.magic = address_magic;
    address.version = 1;
    std::memcpy(address.domain, domain.id().bytes.data(), sizeof(address.domain));
    return address;
}

std::uint32_t host_number(FunctionId function) noexcept {
    constexpr std::uint32_t loopback = 127u << 24;
    return loopback | (function & 0xffffffu);
}

std::optional<FunctionId> function_of_number(const Domain& domain, std::uint32_t number) noexcept {
    for (const Function& function : domain.description().host) {
        if (host_number(function.id) == number) {
            return function.id;
        }
    }
    return std::nullopt;
}

std::optional<Address> parse_socket_address(const Device& device, const void* bytes) noexcept {
    const Domain& domain = *device.domain();
    sockaddr_in given{};
    std::memcpy(&given, bytes, sizeof(given));
    const std::uint32_t number = ntohl(given.sin_addr.s_addr);
    const auto function = number == INADDR_LOOPBACK || number == INADDR_ANY
                              ? function_of_node(device, "")
                              : function_of_number(domain, number);
    if (!function) {
        return std::nullopt;
    }
    if (given.sin_port != 0) {
        return named_address(domain, *function, fmt::format("{}", ntohs(given.sin_port)));
    }
    return unchosen_address(domain, *function);
}

} // namespace

sockaddr_in socket_address(FunctionId function, std::uint16_t port) noexcept {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(host_number(function));
    return address;
}

sockaddr_in socket_address(const Address& address) noexcept {
    std::uint16_t port = 0;
    (void)std::from_chars(address.name, address.name + address.name_length, port);
    return socket_address(address.function, port);
}

bool is_socket_format(std::uint32_t format) noexcept {
    return format == FI_SOCKADDR || format == FI_SOCKADDR_IN;
}

int copy_address(const sockaddr_in& address, void* to, std::size_t* length) noexcept {
    const std::size_t room = *length;
    *length = sizeof(address);
    if (room != 0) {
        std::memcpy(to, &address, std::min(room, *length));
    }
    return room < *length ? -FI_ETOOSMALL : 0;
}

Address port_address(const Domain& domain, const link::PortAddress& port) noexcept {
    Address address = blank(domain);
    std::memcpy(address.port, port.bytes.data(), sizeof(address.port));
    return address;
}

Address unchosen_address(const Domain& domain, FunctionId function) noexcept {
    Address address = blank(domain);
    address.function = function;
    return address;
}

bool is_chosen(const Address& address) noexcept {
    return address.named != 0 || std::any_of(std::begin(address.port), std::end(address.port),
                                             [](std::uint8_t byte) { return byte != 0; });
}

std::optional<Address> named_address(const Domain& domain, FunctionId function,
                                     std::string_view name) noexcept {
    Address address = blank(domain);
    if (name.empty() || name.size() >= sizeof(address.name)) {
        return std::nullopt;
    }
    address.named = 1;
    address.function = function;
    address.name_length = static_cast<std::uint16_t>(name.size());
    std::memcpy(address.name, name.data(), name.size());
    return address;
}

std::optional<Address> parse_address(const Device& device, const void* bytes,
                                     std::size_t length) noexcept {
    const Domain& domain = *device.domain();
    Address address;
    std::uint16_t family = 0; // where ours have their magic number, which is no family's
    if (bytes == nullptr || length < sizeof(sockaddr_in)) {
        return std::nullopt;
    }
    std::memcpy(&family, bytes, sizeof(family));
    if (family == AF_INET) {
        return parse_socket_address(device, bytes);
    }
    if (length < port_address_size) {
        return std::nullopt;
    }
    std::memcpy(static_cast<void*>(&address), bytes, port_address_size);
    // Before the rest is read: of what is not an address, there may be no rest.
    if (address.magic != address_magic || address.version != 1 || address.named > 1 ||
        std::memcmp(address.domain, domain.id().bytes.data(), sizeof(address.domain)) != 0) {
        return std::nullopt;
    }
    if (address.named != 0) {
        if (length < sizeof(address)) {
            return std::nullopt;
        }
        std::memcpy(&address, bytes, sizeof(address));
    }
    const bool named_as_it_says = address.name_length < sizeof(address.name) &&
                                  (address.named != 0) == (address.name_length != 0);
    return named_as_it_says ? std::optional(address) : std::nullopt;
}

int copy_address(const Address& address, void* to, std::size_t* length) noexcept {
    const std::size_t room = *length;
    *length = size_of(address);
    if (room != 0) { // else `to` may be null: the caller only asks for the length
        std::memcpy(to, &address, std::min(room, *length));
    }
    return room < *length ? -FI_ETOOSMALL : 0;
}

link::PortAddress port_of(const Address& address) noexcept {
    link::PortAddress port;
    std::memcpy(port.bytes.data(), address.port, sizeof(address.port));
    return port;
}

link::ServiceName service_of(const Address& address) {
    return {address.function, std::string(address.name, address.name_length)};
}

std::string to_string(const Address& address) {
    if (address.named != 0) {
        return fmt::format("comch://{:08x}/{}", address.function,
                           std::string_view(address.name, address.name_length));
    }
    std::string text = "comch://";
    for (const std::uint8_t byte : address.port) {
        text += fmt::format("{:02x}", byte);
    }
    return text;
}

std::optional<FunctionId> function_of_node(const Device& device, std::string_view node) {
    const Domain& domain = *device.domain();
    if (node.empty() || node == "localhost" || node == "127.0.0.1" || node == "0.0.0.0") {
        return device.side() == Side::host ? device.function().id
                                           : domain.description().host.front().id;
    }
    in_addr number{};
    if (::inet_pton(AF_INET, std::string(node).c_str(), &number) == 1) {
        return function_of_number(domain, ntohl(number.s_addr));
    }
    const auto pci = normalize_pci_address(node);
    for (const Function& function : domain.description().host) {
        if (function.name == node || (pci && function.pci_address == *pci)) {
            return function.id;
        }
    }
    return std::nullopt;
}

} // namespace comch::ofi
