#include "core/link/verbs/slab.hpp"

#include <cerrno>

#include <fmt/format.h>
#include <sys/mman.h>

namespace comch::link::verbs {

Result<Slab> Slab::create(RdmaDevice& device, std::size_t size, int access) {
    Slab slab;
    void* const at =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        return fail_errno(Errc::no_memory, fmt::format("cannot allocate {} bytes", size), errno);
    }
    slab.mapping_ = Mapping(static_cast<std::byte*>(at), size);
    (void)::madvise(at, size, MADV_DONTFORK);
    auto mr = device.register_memory(at, size, access);
    if (!mr) {
        return tl::unexpected(std::move(mr.error()));
    }
    slab.mr_ = std::move(*mr);
    return slab;
}

} // namespace comch::link::verbs
