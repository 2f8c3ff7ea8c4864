#include "doca_comch/common/process_memory.hpp"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>

namespace comch::doca {

bool is_mapped(const void* address, std::size_t length, bool writable) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t end = begin + length;
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"),
                                                               &std::fclose);
    if (maps == nullptr) {
        return true;
    }
    // One line for each mapping, in the order of their addresses.
    std::uintptr_t covered = begin;
    char line[512];
    while (covered < end && std::fgets(line, sizeof(line), maps.get()) != nullptr) {
        std::uintptr_t from = 0;
        std::uintptr_t to = 0;
        char access[5] = {};
        if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, access) != 3) {
            continue; // the rest of a long line
        }
        if (to <= covered) {
            continue;
        }
        if (from > covered || access[0] != 'r' || (writable && access[1] != 'w')) {
            return false;
        }
        covered = to;
    }
    return covered >= end;
}

} // namespace comch::doca
