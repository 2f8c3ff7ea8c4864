// Helpers about one function that the parts of core/device share.
#pragma once

#include <string_view>

#include <comch/device.hpp>

namespace comch {

/// The id of a host function; see FunctionId. `pci_address` is normalized. May return 0, which a
/// description then refuses.
[[nodiscard]] FunctionId host_function_id(std::string_view pci_address, FunctionKind kind,
                                          std::uint32_t index);

/// Whether a name can stand in a file name, a UCX device list and a command line unquoted:
/// letters, digits, '_', '-' and '.', not beginning with '-' or '.'.
[[nodiscard]] bool is_plain_name(std::string_view name) noexcept;

/// The usual form of an IPv4 or IPv6 address; invalid_argument for anything else.
[[nodiscard]] Result<std::string> normalize_ip_address(std::string_view address);

/// For people: the function's name; its number, if the domain does not have it.
[[nodiscard]] std::string function_name(const Domain& domain, FunctionId id);

/// `value` in lower case (ASCII).
[[nodiscard]] std::string to_lower(std::string_view value);

} // namespace comch
