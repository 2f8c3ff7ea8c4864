#include "function.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <arpa/inet.h>

#include <fmt/format.h>
#include <xxhash.h>

namespace comch {
namespace {

/// Reads exactly the whole of `text`, 1 to `max_digits` hexadecimal digits.
std::optional<std::uint32_t> parse_hex(std::string_view text, std::size_t max_digits) {
    if (text.empty() || text.size() > max_digits)
        return std::nullopt;
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (error != std::errc{} || end != text.data() + text.size())
        return std::nullopt;
    return value;
}

/// The part of `text` before `separator`, which is removed with it.
std::optional<std::string_view> take_before(std::string_view& text, char separator) {
    const auto at = text.find(separator);
    if (at == std::string_view::npos)
        return std::nullopt;
    const auto part = text.substr(0, at);
    text.remove_prefix(at + 1);
    return part;
}

bool is_alnum(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

} // namespace

std::string_view to_string(FunctionKind kind) noexcept {
    switch (kind) {
    case FunctionKind::pf:
        return "PF";
    case FunctionKind::vf:
        return "VF";
    case FunctionKind::sf:
        return "SF";
    }
    return "?";
}

std::string to_lower(std::string_view value) {
    std::string lower(value);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return lower;
}

Result<std::string> normalize_pci_address(std::string_view address) {
    std::string_view rest = address;
    std::optional<std::uint32_t> segment = 0;
    if (std::count(address.begin(), address.end(), ':') == 2)
        segment = parse_hex(*take_before(rest, ':'), 4);
    const auto bus_text = take_before(rest, ':');
    const auto device_text = take_before(rest, '.');
    const auto bus = bus_text ? parse_hex(*bus_text, 2) : std::nullopt;
    const auto device = device_text ? parse_hex(*device_text, 2) : std::nullopt;
    const auto function = parse_hex(rest, 1);
    if (!segment || !bus || !device || *device > 0x1f || !function || *function > 7)
        return fail(
            Errc::invalid_argument,
            fmt::format("'{}' is not a PCI address; write it as 3b:00.0 or 0000:3b:00.0", address));
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", *segment, *bus, *device, *function);
}

Result<std::string> normalize_ip_address(std::string_view address) {
    std::string text(address);
    // An IPv4 address in IPv6's clothes: peers are known by the plain one.
    if (in6_addr mapped{};
        inet_pton(AF_INET6, text.c_str(), &mapped) == 1 && IN6_IS_ADDR_V4MAPPED(&mapped) != 0) {
        text = fmt::format("{}.{}.{}.{}", mapped.s6_addr[12], mapped.s6_addr[13],
                           mapped.s6_addr[14], mapped.s6_addr[15]);
    }
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    std::array<char, INET6_ADDRSTRLEN> form{};
    for (const int family : {AF_INET, AF_INET6})
        if (inet_pton(family, text.c_str(), bytes.data()) == 1 &&
            inet_ntop(family, bytes.data(), form.data(), form.size()) != nullptr)
            return std::string(form.data());
    return fail(Errc::invalid_argument,
                fmt::format("'{}' is not an IP address; write it as 192.168.100.2", address));
}

Result<Side> parse_side(std::string_view text) {
    const auto lower = to_lower(text);
    if (lower == "host")
        return Side::host;
    if (lower == "dpu")
        return Side::dpu;
    return fail(Errc::invalid_argument,
                fmt::format("'{}' is not a side; it is 'host' or 'dpu'", text));
}

FunctionId host_function_id(std::string_view pci_address, FunctionKind kind, std::uint32_t index) {
    std::string key(pci_address);
    if (kind == FunctionKind::sf)
        key += fmt::format("/sf{}", index);
    // Part of the wire format: both ends compute it, so neither hash nor key ever change.
    return XXH32(key.data(), key.size(), 0);
}

bool is_plain_name(std::string_view name) noexcept {
    if (name.empty() || name.front() == '-' || name.front() == '.')
        return false;
    return std::all_of(name.begin(), name.end(),
                       [](char c) { return is_alnum(c) || c == '_' || c == '-' || c == '.'; });
}

std::string function_name(const Domain& domain, FunctionId id) {
    const Function* const function = domain.find_function(id);
    return function != nullptr ? function->name : fmt::format("{:#x}", id);
}

} // namespace comch
