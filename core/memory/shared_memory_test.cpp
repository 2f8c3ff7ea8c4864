#include "core/memory/shared_memory.hpp"

#include <csignal>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace comch {
namespace {

UniqueFd memfd(off_t size, int seals, unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING) {
    UniqueFd fd(::memfd_create("comch-test", flags));
    EXPECT_TRUE(fd);
    EXPECT_EQ(::ftruncate(fd.get(), size), 0);
    if (seals != 0) {
        EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    }
    return fd;
}

constexpr int enough = F_SEAL_SHRINK | F_SEAL_SEAL;

TEST(SharedMemory, IsZeroedSealedAndShared) {
    auto memory = create_shared_memory("comch-test", 5000);
    ASSERT_TRUE(memory.has_value()) << memory.error().message;
    EXPECT_EQ(memory->mapping.size() % static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), 0u);
    ASSERT_GE(memory->mapping.size(), 5000u);
    for (std::size_t i = 0; i < memory->mapping.size(); ++i) {
        ASSERT_EQ(memory->mapping.data()[i], std::byte{0});
    }
    const int seals = ::fcntl(memory->fd.get(), F_GET_SEALS);
    EXPECT_EQ(seals & (enough | F_SEAL_GROW), enough | F_SEAL_GROW);
    EXPECT_NE(::ftruncate(memory->fd.get(), 0), 0) << "nobody can cut it any more";

    auto other = map_shared_memory(memory->fd.get(), memory->mapping.size(), true);
    ASSERT_TRUE(other.has_value()) << other.error().message;
    other->data()[4999] = std::byte{42};
    EXPECT_EQ(memory->mapping.data()[4999], std::byte{42});
}

TEST(SharedMemory, OfNoSizeIsRefused) {
    EXPECT_FALSE(create_shared_memory("comch-test", 0).has_value());
    EXPECT_FALSE(create_shared_memory("comch-test", SIZE_MAX).has_value());
    const UniqueFd fd = memfd(4096, enough);
    EXPECT_FALSE(map_shared_memory(fd.get(), 0, true).has_value());
}

TEST(SharedMemory, GoesWhereItIsWantedButReplacesNothing) {
    auto memory = create_shared_memory("comch-test", 4096);
    ASSERT_TRUE(memory.has_value());
    void* const taken = memory->mapping.data();
    EXPECT_FALSE(create_shared_memory("comch-test", 4096, taken).has_value());
    memory->mapping = Mapping();
    // `memory` keeps no mapping now: swapped into the temporary and unmapped with it.
    auto again = create_shared_memory("comch-test", 4096, taken);
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(again->mapping.data(), taken);
}

TEST(SharedMemory, IsUnmappedWithItsOwner) {
    const auto resident = [](const void* at) {
        unsigned char unused = 0;
        return ::mincore(const_cast<void*>(at), 1, &unused) == 0;
    };
    const void* at = nullptr;
    {
        auto memory = create_shared_memory("comch-test", 4096);
        ASSERT_TRUE(memory.has_value());
        at = memory->mapping.data();
        Mapping moved = std::move(memory->mapping);
        EXPECT_FALSE(memory->mapping);
        EXPECT_TRUE(moved);
        EXPECT_TRUE(resident(at));
    }
    EXPECT_FALSE(resident(at));
}

TEST(SharedMemory, OfAPeerMustBeSealed) {
    for (const int seals :
         {0, F_SEAL_SHRINK, F_SEAL_SEAL, F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_GROW | F_SEAL_SHRINK}) {
        const UniqueFd fd = memfd(4096, seals);
        const auto mapped = map_shared_memory(fd.get(), 4096, true);
        ASSERT_FALSE(mapped.has_value()) << seals;
        EXPECT_EQ(mapped.error().code, Errc::not_permitted);
    }
    const UniqueFd sealed = memfd(4096, enough);
    EXPECT_TRUE(map_shared_memory(sealed.get(), 4096, true).has_value());
}

TEST(SharedMemory, OfAPeerMustBeAsLargeAsAnnounced) {
    const UniqueFd fd = memfd(8192, enough);
    EXPECT_TRUE(map_shared_memory(fd.get(), 4096, true).has_value());
    EXPECT_TRUE(map_shared_memory(fd.get(), 8192, true).has_value());
    for (const std::size_t size : {std::size_t{8193}, std::size_t{1} << 40, SIZE_MAX}) {
        const auto mapped = map_shared_memory(fd.get(), size, true);
        ASSERT_FALSE(mapped.has_value()) << size;
        EXPECT_EQ(mapped.error().code, Errc::not_permitted);
    }
}

TEST(SharedMemory, OfAPeerMustBeAMemfd) {
    int pipe_ends[2] = {-1, -1};
    ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
    const UniqueFd read_end(pipe_ends[0]);
    const UniqueFd write_end(pipe_ends[1]);
    EXPECT_FALSE(map_shared_memory(read_end.get(), 4096, true).has_value());
    EXPECT_FALSE(map_shared_memory(-1, 4096, true).has_value());
    std::string name = "/tmp/comch-shared-memory-test-XXXXXX";
    const UniqueFd file(::mkstemp(name.data()));
    ASSERT_TRUE(file);
    ::unlink(name.c_str());
    ASSERT_EQ(::ftruncate(file.get(), 8192), 0);
    EXPECT_FALSE(map_shared_memory(file.get(), 4096, true).has_value());
    const UniqueFd tmpfs(::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (tmpfs) { // a file in memory: it has seals, but not those
        ASSERT_EQ(::ftruncate(tmpfs.get(), 8192), 0);
        EXPECT_FALSE(map_shared_memory(tmpfs.get(), 4096, true).has_value());
    }
}

TEST(SharedMemory, ThatMayOnlyBeReadIsMappedSo) {
    auto memory = create_shared_memory("comch-test", 4096);
    ASSERT_TRUE(memory.has_value());
    memory->mapping.data()[7] = std::byte{7};
    const std::string path = "/proc/self/fd/" + std::to_string(memory->fd.get());
    const UniqueFd read_only(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(read_only);
    EXPECT_FALSE(map_shared_memory(read_only.get(), 4096, true).has_value());
    const auto mapped = map_shared_memory(read_only.get(), 4096, false);
    ASSERT_TRUE(mapped.has_value()) << mapped.error().message;
    EXPECT_EQ(mapped->data()[7], std::byte{7});
}

} // namespace
} // namespace comch
