#include "core/link/verbs/wire.hpp"

#include <xxhash.h>

namespace comch::link::verbs::wire {

std::uint64_t service_hash(FunctionId function, std::string_view name) noexcept {
    // Part of the wire format: both ends compute it, so neither hash nor seed ever change.
    return XXH3_64bits_withSeed(name.data(), name.size(), function);
}

std::uint16_t service_port(FunctionId function, std::string_view name, unsigned probe,
                           std::uint16_t first, std::uint16_t count) noexcept {
    const std::uint64_t at = service_hash(function, name) % count + probe;
    return static_cast<std::uint16_t>(first + at % count);
}

} // namespace comch::link::verbs::wire
