// What the provider offers, and whether that is what a program asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <comch/device.hpp>

#include "address.hpp"
#include "libfabric.hpp"

namespace comch::ofi {

/// The longest message, read or write. (The rings know no limit; lengths are 64-bit numbers.)
inline constexpr std::size_t max_message_size = std::size_t{1} << 40;
/// Pieces of a vector.
inline constexpr std::size_t max_iov = 4;
/// The longest that can be sent with inject.
inline constexpr std::size_t max_inject = 2048;
/// Reads and writes up to here are applied in the order of the calls: they are one record of the
/// link, or two.
[[nodiscard]] std::size_t max_ordered(const Device& device);

/// Orders between reads, writes and atomics. Who asks for one has them carried out by the peer's
/// CPU, one after the other: devices would keep some, but not among what is the CPU's all the same.
inline constexpr std::uint64_t order_of_memory =
    FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR |
    FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |
    FI_ORDER_ATOMIC_WAW;

/// One name per comch domain: devices of different domains are different fabrics.
[[nodiscard]] std::string fabric_name(const Device& device);

/// Replaces an address of a fi_info; `of_socket`: by that form of it. False: there is no memory.
[[nodiscard]] bool set_address(void*& to, std::size_t& length, const Address& address,
                               bool of_socket);

[[nodiscard]] int get_info(std::uint32_t version, const char* node, const char* service,
                           std::uint64_t flags, const fi_info* hints, fi_info** info);

} // namespace comch::ofi
