// Unix SOCK_SEQPACKET sockets in a domain's directory, and packets with descriptors over them: never blocking.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <comch/device.hpp>

#include "core/base/unique_fd.hpp"

namespace comch::link::soft {

enum class SocketStatus : std::uint8_t {
    ok,
    again,  ///< full, or nothing there
    ended,  ///< the other end is closed and everything was read
    failed, ///< a system error, or a packet that breaks the rules (cut, too many descriptors)
};

/// No packet carries more descriptors; the kernel drops what does not fit, and we close the rest.
inline constexpr std::size_t max_descriptors = 2;

struct Received {
    SocketStatus status = SocketStatus::again;
    std::size_t length = 0;
    std::size_t descriptors = 0;
    std::array<UniqueFd, max_descriptors> fd;
    bool misses_descriptor = false; ///< one came, but this process has as many as it may
};

[[nodiscard]] SocketStatus send_packet(int socket, std::span<const std::byte> packet,
                                       std::span<const int> descriptors = {}) noexcept;

[[nodiscard]] Received receive_packet(int socket, std::span<std::byte> buffer) noexcept;

[[nodiscard]] UniqueFd make_socket() noexcept;

/// To an entry of a domain's directory: 0, or the errno.
[[nodiscard]] int bind_to(int socket, const Domain& domain, const std::string& entry);
[[nodiscard]] int connect_to(int socket, const Domain& domain, const std::string& entry);

/// The peer's; `pid`: its number here, 0 if it has none.
[[nodiscard]] bool is_our_user(int socket, std::uint64_t& pid) noexcept;

} // namespace comch::link::soft
