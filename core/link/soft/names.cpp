#include "core/link/soft/names.hpp"

#include <cstring>

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/counters/process_counters.hpp"

namespace comch::link::soft {

PortAddress make_port_address(std::uint64_t process_id, std::uint64_t number) {
    PortAddress address{};
    std::memcpy(address.bytes.data(), &process_id, sizeof(process_id));
    std::memcpy(address.bytes.data() + 8, &number, sizeof(number));
    return address;
}

std::uint64_t process_of(const PortAddress& address) noexcept {
    std::uint64_t process_id = 0;
    std::memcpy(&process_id, address.bytes.data(), sizeof(process_id));
    return process_id;
}

std::string port_entry(const PortAddress& address) {
    std::uint64_t number = 0;
    std::memcpy(&number, address.bytes.data() + 8, sizeof(number));
    return fmt::format("port.{:016x}.{:x}", process_of(address), number);
}

std::string service_entry(std::uint64_t process_id, std::uint64_t number) {
    return fmt::format("service.{:016x}.{:x}", process_id, number);
}

std::string name_entry(FunctionId function, std::string_view name) {
    const XXH128_hash_t hash = XXH3_128bits(name.data(), name.size());
    return fmt::format("name.{:08x}.{:016x}{:016x}", function, hash.high64, hash.low64);
}

std::string socket_entry(const Domain& domain, const std::string& entry) {
    char target[128] = {};
    const auto n = ::readlinkat(domain.directory_fd(), entry.c_str(), target, sizeof(target) - 1);
    return n > 0 ? std::string(target, static_cast<std::size_t>(n)) : entry;
}

bool owner_lives(const Domain& domain, const std::string& entry) {
    const std::string socket = socket_entry(domain, entry);
    const auto first = socket.find('.');
    const auto second = socket.find('.', first + 1);
    return first == std::string::npos || second == std::string::npos ||
           process_lives(domain, socket.substr(first + 1, second - first - 1));
}

} // namespace comch::link::soft
