#include "address.hpp"

#include <algorithm>
#include <cstring>

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

} // namespace

Address port_address(const Domain& domain, const link::PortAddress& port) noexcept {
    Address address = blank(domain);
    std::memcpy(address.port, port.bytes.data(), sizeof(address.port));
    return address;
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

std::optional<Address> parse_address(const Domain& domain, const void* bytes,
                                     std::size_t length) noexcept {
    Address address;
    if (bytes == nullptr || length < port_address_size) {
        return std::nullopt;
    }
    std::memcpy(static_cast<void*>(&address), bytes, port_address_size);
    if (address.named != 0) {
        if (length < sizeof(address)) {
            return std::nullopt;
        }
        std::memcpy(&address, bytes, sizeof(address));
    }
    const bool ours =
        address.magic == address_magic && address.version == 1 && address.named <= 1 &&
        std::memcmp(address.domain, domain.id().bytes.data(), sizeof(address.domain)) == 0 &&
        address.name_length < sizeof(address.name) &&
        (address.named != 0) == (address.name_length != 0);
    return ours ? std::optional(address) : std::nullopt;
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
    if (node.empty()) {
        return device.side() == Side::host ? device.function().id
                                           : domain.description().host.front().id;
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
