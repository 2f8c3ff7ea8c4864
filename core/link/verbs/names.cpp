#include "core/link/verbs/names.hpp"

#include <cstring>

#include <fmt/format.h>
#include <sys/random.h>
#include <xxhash.h>

#include "core/base/clock.hpp"

namespace comch::link::verbs {

PortAddress make_port_address(const PortName& name) noexcept {
    PortAddress address{};
    std::memcpy(address.bytes.data(), &name, sizeof(name));
    return address;
}

PortName name_of(const PortAddress& address) noexcept {
    PortName name{};
    std::memcpy(&name, address.bytes.data(), sizeof(name));
    return name;
}

std::uint64_t random_number() {
    std::uint64_t number = 0;
    while (number == 0) {
        if (::getrandom(&number, sizeof(number), 0) != sizeof(number)) {
            number = static_cast<std::uint64_t>(monotonic_ns());
        }
    }
    return number;
}

std::string name_entry(const ServiceName& service) {
    const XXH128_hash_t hash = XXH3_128bits(service.name.data(), service.name.size());
    return fmt::format("rdma-name.{:08x}.{:016x}{:016x}", service.function, hash.high64,
                       hash.low64);
}

} // namespace comch::link::verbs
