// What the two endpoints tell each other while they connect, behind the core's own words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace comch::doca {

/// Little-endian, as everything on the wire.
struct Greeting {
    static constexpr std::uint32_t right_magic = 0x33324343; ///< "CC23"
    static constexpr std::uint16_t right_version = 1;

    std::uint32_t magic = right_magic;
    std::uint16_t version = right_version;
    std::uint16_t max_message = 0; ///< the longest message that the sender of this takes
    std::uint64_t endpoint = 0;    ///< client: unique in its process
    std::uint64_t attempt = 0;     ///< client: counts the endpoint's connects
};
static_assert(sizeof(Greeting) == 24 && offsetof(Greeting, endpoint) == 8);
static_assert(std::is_trivially_copyable_v<Greeting> &&
              std::has_unique_object_representations_v<Greeting>);

[[nodiscard]] inline std::span<const std::byte> as_bytes(const Greeting& greeting) noexcept {
    return std::as_bytes(std::span(&greeting, 1));
}

/// A copy, checked. Nothing: the other end is no endpoint of this generation.
[[nodiscard]] inline std::optional<Greeting> read_greeting(std::span<const std::byte> bytes) {
    Greeting greeting;
    if (bytes.size() != sizeof(greeting)) {
        return std::nullopt;
    }
    std::memcpy(&greeting, bytes.data(), sizeof(greeting));
    if (greeting.magic != Greeting::right_magic || greeting.version != Greeting::right_version ||
        greeting.max_message == 0) {
        return std::nullopt;
    }
    return greeting;
}

} // namespace comch::doca
