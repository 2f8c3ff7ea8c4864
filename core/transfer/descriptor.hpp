// Exported memory's description for other processes: where its owner's memory service is, and the
// memory map's own descriptor.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <comch/device.hpp>
#include <comch/error.hpp>
#include <comch/memory.hpp>

#include "core/link/link.hpp"

namespace comch::transfer {

/// Memory of another process, and where it is served.
struct ImportedMemory {
    std::unique_ptr<MemoryMap> map;
    link::PortAddress service;
};

/// Opaque bytes. From now on the map can be reached, within what it grants to its peer, while its
/// process does nothing for that. not_permitted: it grants nothing, or is itself imported.
[[nodiscard]] Result<std::vector<std::byte>> export_memory(const Device& device, MemoryMap& map);

/// invalid_argument: they are not such bytes; version_mismatch.
[[nodiscard]] Result<ImportedMemory> import_memory(std::span<const std::byte> descriptor);

} // namespace comch::transfer
