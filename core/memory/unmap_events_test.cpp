// Sanitizers replace the functions that the hooks would tell of: there nobody can tell, and says
// so.
#include "core/memory/unmap_events.hpp"

#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace comch {
namespace {

#if defined(COMCH_SANITIZE_ADDRESS) || defined(COMCH_SANITIZE_THREAD)

TEST(UnmapWatch, SaysThatNobodyCanTell) {
    UnmapWatch watch([](void*, std::uintptr_t, std::uintptr_t) {}, nullptr);
    EXPECT_FALSE(watch.works());
}

#else

constexpr std::size_t length = 1 << 20;

/// Whether all of some memory has been told of.
class Unmapped {
public:
    explicit Unmapped(void* memory) : begin_(reinterpret_cast<std::uintptr_t>(memory)) {}
    [[nodiscard]] bool told() const { return told_; }
    [[nodiscard]] bool can_tell() { return watch_.works(); }

private:
    std::uintptr_t begin_;
    bool told_ = false;
    UnmapWatch watch_{[](void* self, std::uintptr_t begin, std::uintptr_t end) {
                          auto& it = *static_cast<Unmapped*>(self);
                          it.told_ |= begin <= it.begin_ && it.begin_ + length <= end;
                      },
                      this};
};

void* map() {
    void* const memory =
        ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    return memory;
}

TEST(UnmapWatch, IsToldOfMemoryThatIsUnmapped) {
    void* const memory = map();
    Unmapped watched(memory);
    ASSERT_TRUE(watched.can_tell());
    ASSERT_EQ(::munmap(memory, length), 0);
    EXPECT_TRUE(watched.told());
}

TEST(UnmapWatch, FindsOutThatNobodyTells) {
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // a process without hooks
    EXPECT_EXIT(
        {
            ::setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
            Unmapped watched(nullptr);
            std::_Exit(watched.can_tell() ? 1 : 0);
        },
        testing::ExitedWithCode(0), "");
}

TEST(UnmapWatch, IsToldOfMemoryThatIsMoved) {
    void* const memory = map();
    Unmapped watched(memory);
    void* const moved = ::mremap(memory, length, 64 * length, MREMAP_MAYMOVE);
    ASSERT_NE(moved, MAP_FAILED);
    EXPECT_TRUE(watched.told());
    ASSERT_EQ(::munmap(moved, 64 * length), 0);
}

TEST(UnmapWatch, IsToldOfMemoryThatIsEmptied) {
    void* const memory = map();
    Unmapped watched(memory);
    ASSERT_EQ(::madvise(memory, length, MADV_DONTNEED), 0);
    EXPECT_TRUE(watched.told());
    ASSERT_EQ(::munmap(memory, length), 0);
}

TEST(UnmapWatch, IsToldOfMemoryThatTheCLibraryGivesBack) {
    constexpr std::size_t always_mapped = 64 << 20; // however malloc has adapted itself
    void* const memory = std::malloc(always_mapped);
    asm volatile("" : : "r"(memory) : "memory"); // else the compiler leaves both out
    Unmapped watched(memory);
    std::free(memory);
    EXPECT_TRUE(watched.told());
}

TEST(UnmapWatch, IsNotToldOfOtherMemory) {
    void* const memory = map();
    void* const other = map();
    Unmapped watched(memory);
    ASSERT_EQ(::munmap(other, length), 0);
    EXPECT_FALSE(watched.told());
    ASSERT_EQ(::munmap(memory, length), 0);
}

TEST(UnmapWatch, LeavesTheProgramItsSignals) {
    Unmapped watched(nullptr);
    ASSERT_TRUE(watched.can_tell());
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGHUP}) {
        struct sigaction action {};
        ASSERT_EQ(::sigaction(signal, nullptr, &action), 0);
        EXPECT_EQ(action.sa_handler, SIG_DFL) << "signal " << signal;
    }
}

TEST(UnmapWatch, EndsWithTheObject) {
    void* const memory = map();
    int calls = 0;
    const auto count = [](void* self, std::uintptr_t, std::uintptr_t) {
        ++*static_cast<int*>(self);
    };
    { const UnmapWatch watch(count, &calls); }
    const int calls_before = calls; // it has tested itself
    ASSERT_EQ(::munmap(memory, length), 0);
    EXPECT_EQ(calls, calls_before);
}

#endif

} // namespace
} // namespace comch
