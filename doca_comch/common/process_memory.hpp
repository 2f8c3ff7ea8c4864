// What of this process's address space exists.
#pragma once

#include <cstddef>

namespace comch::doca {

/// Every page of the range is mapped, and may be read; written, too, if asked. Where the kernel
/// does not tell, it is. Reads a file: not for the data path.
[[nodiscard]] bool is_mapped(const void* address, std::size_t length, bool writable) noexcept;

} // namespace comch::doca
