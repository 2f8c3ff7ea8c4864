// Copies between this process's memory and memory that other processes exported, for functions of
// the DPA: they have no engine, and what they ask for is done when the call returns.
#pragma once

#include <cstddef>

#include <comch/error.hpp>

struct doca_mmap;

namespace comch::doca {

/// Both maps are started, and the places lie in them and permit it; at most one map is imported.
/// canceled: the calling DPA thread is to stop. Others: as transfer::Client's.
[[nodiscard]] Errc copy_and_wait(const doca_mmap& to_map, void* to, const doca_mmap& from_map,
                                 const void* from, std::size_t length);

} // namespace comch::doca
