#include "core/transfer/descriptor.hpp"

#include <cstring>

#include <fmt/format.h>

#include "core/transfer/service.hpp"

namespace comch::transfer {

// The address comes last, so that magic and version come first.
Result<std::vector<std::byte>> export_memory(const Device& device, MemoryMap& map) {
    auto descriptor = map.export_descriptor();
    if (!descriptor) {
        return descriptor;
    }
    const auto service = serve_memory(device);
    if (!service) {
        return tl::unexpected(service.error());
    }
    descriptor->insert(descriptor->end(), service->bytes.begin(), service->bytes.end());
    return descriptor;
}

Result<ImportedMemory> import_memory(std::span<const std::byte> descriptor) {
    ImportedMemory memory{};
    constexpr std::size_t address_size = sizeof(memory.service.bytes);
    if (descriptor.size() < address_size) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} bytes do not describe exported memory", descriptor.size()));
    }
    auto map = MemoryMap::import_descriptor(descriptor.first(descriptor.size() - address_size));
    if (!map) {
        return tl::unexpected(std::move(map.error()));
    }
    memory.map = std::move(*map);
    std::memcpy(memory.service.bytes.data(), descriptor.last(address_size).data(), address_size);
    return memory;
}

} // namespace comch::transfer
