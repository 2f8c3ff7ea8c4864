#include "core/memory/shared_memory.hpp"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace comch {

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

Mapping::~Mapping() {
    if (data_ != nullptr) {
        ::munmap(data_, size_);
    }
}

Result<SharedMemory> create_shared_memory(const char* name, std::size_t size, void* fixed_address) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    if (size == 0 || size > SIZE_MAX - page) {
        return fail(Errc::invalid_argument,
                    fmt::format("cannot create {} bytes of shared memory for '{}'", size, name));
    }
    size = (size + page - 1) & ~(page - 1);
    UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd) {
        return fail_errno(Errc::no_memory, fmt::format("cannot create the memfd '{}'", name),
                          errno);
    }
    if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0 ||
        ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return fail_errno(Errc::no_memory,
                          fmt::format("cannot size the memfd '{}' to {} bytes", name, size), errno);
    }
    const int flags = MAP_SHARED | (fixed_address != nullptr ? MAP_FIXED_NOREPLACE : 0);
    void* at = ::mmap(fixed_address, size, PROT_READ | PROT_WRITE, flags, fd.get(), 0);
    if (at == MAP_FAILED) {
        return fail_errno(Errc::no_memory, fmt::format("cannot map {} bytes of '{}'", size, name),
                          errno);
    }
    Mapping mapping(static_cast<std::byte*>(at), size);
    if (fixed_address != nullptr && at != fixed_address) { // a kernel that ignores the flag
        return fail(Errc::in_use, fmt::format("address {} for '{}' is taken", fixed_address, name));
    }
    return SharedMemory{std::move(fd), std::move(mapping)};
}

Result<Mapping> map_shared_memory(int fd, std::size_t size, bool writable) {
    const int seals = ::fcntl(fd, F_GET_SEALS);
    constexpr int required = F_SEAL_SHRINK | F_SEAL_SEAL;
    if (seals < 0 || (seals & required) != required) {
        return fail(Errc::not_permitted, "the peer's shared memory is not a memfd with its size "
                                         "sealed; it could be cut under us");
    }
    struct stat status {};
    if (::fstat(fd, &status) != 0 || status.st_size < 0 ||
        static_cast<std::uint64_t>(status.st_size) < size || size == 0) {
        return fail(Errc::not_permitted,
                    fmt::format("the peer's shared memory has {} bytes, {} were announced",
                                static_cast<long long>(status.st_size), size));
    }
    void* at = ::mmap(nullptr, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        return fail_errno(Errc::no_memory,
                          fmt::format("cannot map {} bytes of the peer's shared memory", size),
                          errno);
    }
    return Mapping(static_cast<std::byte*>(at), size);
}

} // namespace comch
