// Memory maps as the API has them: the core's, with what is set before it exists.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <comch/device.hpp>
#include <comch/memory.hpp>
#include <doca_mmap.h>

#include "core/link/link.hpp"

struct doca_mmap {
    void* address = nullptr;
    std::size_t length = 0;
    /// Where none is set, this process may use its own memory; the other side may not.
    std::uint32_t access = DOCA_ACCESS_FLAG_LOCAL_READ_WRITE;
    std::uint32_t max_devices = 1024;
    /// Whichever handles it is opened with, in turn: a map outlives them, and another device's
    /// handle may come to lie where one was.
    struct Device {
        comch::Device device;
        std::vector<std::byte> exported; ///< what it was given
    };
    std::vector<Device> devices;
    doca_mmap_memrange_free_cb_t* free_callback = nullptr;
    void* free_cookie = nullptr;
    bool was_started = false; ///< from then on the range is given back in the end
    doca_data user_data{};
    std::unique_ptr<comch::MemoryMap> map;    ///< while started
    comch::link::PortAddress service{};       ///< where imported memory is served
    std::optional<comch::Device> importer;    ///< imported: through which device
    std::atomic<std::uint32_t> buffers = 0;   ///< taken from it, by any inventory
    std::atomic<std::uint32_t> consumers = 0; ///< that receive into it, not idle
    /// Whoever keeps a map for later asks by this whether it still exists.
    std::shared_ptr<const char> life = std::make_shared<const char>();

    // ---- 2023 and before
    bool of_2023 = false;  ///< may be started without a range
    bool collects = false; ///< was, and is: its ranges are maps of their own, its chunks
    std::vector<std::unique_ptr<doca_mmap>> chunks;
    std::uint32_t max_chunks = 1024;

    /// The chunk that holds all of a piece; null: none.
    [[nodiscard]] doca_mmap* chunk_of(const void* at, std::size_t size) const noexcept;
    /// Null: it is not one of the map's.
    [[nodiscard]] Device* find(const comch::Device& device) noexcept;
    [[nodiscard]] bool started() const noexcept { return map != nullptr; }
    [[nodiscard]] bool imported() const noexcept { return map != nullptr && map->imported(); }
};

namespace comch::doca {

/// This process is of 2022: it has populated maps with ranges.
[[nodiscard]] bool ranges_were_populated() noexcept;

} // namespace comch::doca
