// Names of the sockets in a domain's directory.
//
//   port.<owner>.<n>                      a port; owner: 16 hex digits of the process id
//   service.<owner>.<n>                   a listening service's socket
//   name.<function>.<hash of the name>    symbolic link to the service's socket: the name is taken
//
// The owner in each file's name lets the files of a dead process be collected; the link gives a
// service one well-known place. Names are hashed because a socket's name is short; the full name is
// compared when a client connects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/link/link.hpp"

namespace comch::link::soft {

[[nodiscard]] std::string port_entry(const PortAddress& address);
[[nodiscard]] PortAddress make_port_address(std::uint64_t process_id, std::uint64_t number);
[[nodiscard]] std::uint64_t process_of(const PortAddress& address) noexcept;
[[nodiscard]] std::string service_entry(std::uint64_t process_id, std::uint64_t number);
[[nodiscard]] std::string name_entry(FunctionId function, std::string_view name);

/// The socket that an entry is, or points to.
[[nodiscard]] std::string socket_entry(const Domain& domain, const std::string& entry);
/// Does the process live whose socket this entry is, or points to?
[[nodiscard]] bool owner_lives(const Domain& domain, const std::string& entry);

} // namespace comch::link::soft
