// What is told by either of those who can tell. Sanitizers replace the functions that UCX's hooks
// would tell of, and some kernels tell nothing: who cannot tell says so.
#include "core/memory/unmap_watch.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/unique_fd.hpp"

namespace comch {
namespace {

constexpr std::size_t length = 1 << 20;

bool kernel_can_tell() {
#if defined(UFFD_USER_MODE_ONLY) && defined(UFFD_FEATURE_EXACT_ADDRESS) && defined(UFFDIO_CONTINUE)
    const UniqueFd fd(
        static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    constexpr std::uint64_t needed = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EXACT_ADDRESS;
    return fd && ::ioctl(fd.get(), UFFDIO_API, &api) == 0 && (api.features & needed) == needed;
#else
    return false; // built with headers that do not know
#endif
}

void await(UnmapWatch& watch) {
    while (!watch.is_up_to_date()) {
        std::this_thread::yield();
    }
}

/// Follows nothing.
class Nobody final : public UnmapListener {
public:
    void on_unmapped(std::uintptr_t, std::uintptr_t) noexcept override {}
    [[nodiscard]] std::optional<AddressRange>
    first_followed(std::uintptr_t, std::uintptr_t) const noexcept override {
        return std::nullopt;
    }
};

/// Follows one piece of memory.
class Follower final : public UnmapListener {
public:
    Follower(std::unique_ptr<UnmapWatch> (*watch)(UnmapListener&), const void* memory)
        : begin_(reinterpret_cast<std::uintptr_t>(memory)), end_(begin_ + length),
          watch_(watch(*this)) {
        EXPECT_TRUE(watch_);
        EXPECT_TRUE(watch_ && watch_->follow(range()));
    }
    /// All of it, or some.
    [[nodiscard]] bool told_of_all() const { return settle(), all_; }
    [[nodiscard]] bool told() const { return settle(), some_; }
    [[nodiscard]] UnmapWatch& watch() { return *watch_; }
    [[nodiscard]] AddressRange range() const { return {begin_, end_}; }
    void forget() {
        const AddressRange forgotten = range();
        end_ = 0;
        watch_->forget(forgotten);
    }

    void on_unmapped(std::uintptr_t begin, std::uintptr_t end) noexcept override {
        some_ = some_ || (begin < end_ && begin_ < end);
        all_ = all_ || (begin <= begin_ && end_ != 0 && end_ <= end);
    }
    [[nodiscard]] std::optional<AddressRange>
    first_followed(std::uintptr_t begin, std::uintptr_t end) const noexcept override {
        return begin < end_ && begin_ < end ? std::optional(range()) : std::nullopt;
    }

private:
    /// What was unmapped before is known after that.
    void settle() const { await(*watch_); }

    const std::uintptr_t begin_;
    std::atomic<std::uintptr_t> end_; ///< 0: it follows nothing any more
    std::atomic<bool> all_{false};
    std::atomic<bool> some_{false};
    std::unique_ptr<UnmapWatch> watch_;
};

/// Hears of everything that the kernel reports.
class AnyReport final : public UnmapListener {
public:
    AnyReport() : watch_(watch_by_kernel(*this)) {}
    void on_unmapped(std::uintptr_t, std::uintptr_t) noexcept override { told_ = true; }
    [[nodiscard]] std::optional<AddressRange>
    first_followed(std::uintptr_t, std::uintptr_t) const noexcept override {
        return std::nullopt;
    }
    [[nodiscard]] bool told() const { return await(*watch_), told_; }

private:
    std::atomic<bool> told_{false};
    std::unique_ptr<UnmapWatch> watch_;
};

class Memory {
public:
    Memory()
        : at_(::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        EXPECT_NE(at_, MAP_FAILED);
    }
    ~Memory() { unmap(); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    [[nodiscard]] void* at() const { return at_; }
    [[nodiscard]] char* bytes() const { return static_cast<char*>(at_); }

    void unmap() {
        if (!std::exchange(gone_, true)) {
            EXPECT_EQ(::munmap(at_, length_), 0);
        }
    }
    /// (Somebody else's may be there at once.)
    void unmap_by_system_call() {
        gone_ = true;
        EXPECT_EQ(::syscall(SYS_munmap, at_, length), 0);
    }
    /// Now it is somewhere else, where there is more room.
    void move() {
        void* const moved = ::mremap(at_, length_, 64 * length, MREMAP_MAYMOVE);
        ASSERT_NE(moved, MAP_FAILED);
        ASSERT_NE(moved, at_);
        at_ = moved;
        length_ = 64 * length;
    }

private:
    void* at_;
    std::size_t length_ = length;
    bool gone_ = false;
};

struct Teller {
    const char* name;
    std::unique_ptr<UnmapWatch> (*watch)(UnmapListener&);
    bool (*can)();
};

class UnmapWatches : public testing::TestWithParam<Teller> {
protected:
    void SetUp() override {
        if (!GetParam().can()) {
            Nobody nobody;
            EXPECT_FALSE(GetParam().watch(nobody));
            GTEST_SKIP() << "nobody can tell here, and it says so";
        }
    }
    Follower follow(const Memory& memory) { return {GetParam().watch, memory.at()}; }
};

TEST_P(UnmapWatches, TellOfMemoryThatIsUnmapped) {
    Memory memory;
    const Follower follower = follow(memory);
    EXPECT_FALSE(follower.told());
    memory.unmap();
    EXPECT_TRUE(follower.told_of_all());
}

TEST_P(UnmapWatches, TellOfMemoryThatIsMoved) {
    Memory memory;
    const Follower follower = follow(memory);
    memory.move();
    EXPECT_TRUE(follower.told_of_all());
}

TEST_P(UnmapWatches, TellOfMemoryThatIsEmptied) {
    const Memory memory;
    const Follower follower = follow(memory);
    ASSERT_EQ(::madvise(memory.at(), length, MADV_DONTNEED), 0);
    EXPECT_TRUE(follower.told_of_all());
}

TEST_P(UnmapWatches, TellOfMemoryThatOtherMemoryTakesThePlaceOf) {
    const Memory memory;
    const Follower follower = follow(memory);
    ASSERT_EQ(
        ::mmap(memory.at(), length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        memory.at());
    EXPECT_TRUE(follower.told_of_all());
}

#if !defined(COMCH_SANITIZE_ADDRESS) // which keeps it for a while
TEST_P(UnmapWatches, TellOfMemoryThatTheCLibraryGivesBack) {
    constexpr std::size_t always_mapped = 64 << 20; // however malloc has adapted itself
    void* const memory = std::malloc(always_mapped);
    asm volatile("" : : "r"(memory) : "memory"); // else the compiler leaves both out
    const Follower follower(GetParam().watch, memory);
    std::free(memory);
    EXPECT_TRUE(follower.told_of_all());
}
#endif

TEST_P(UnmapWatches, TellOfAPart) {
    const Memory memory;
    const Follower follower = follow(memory);
    ASSERT_EQ(::munmap(memory.bytes() + length / 2, 4096), 0);
    EXPECT_TRUE(follower.told());
    EXPECT_FALSE(follower.told_of_all());
}

TEST_P(UnmapWatches, DoNotTellOfOtherMemory) {
    const Memory memory;
    Memory other;
    const Follower follower = follow(memory);
    other.unmap();
    EXPECT_FALSE(follower.told());
}

TEST_P(UnmapWatches, TellEachThatFollowsIt) {
    Memory memory;
    const Follower one = follow(memory);
    Follower other = follow(memory);
    const Follower third = follow(memory);
    other.forget(); // which is nobody else's business
    memory.unmap();
    EXPECT_TRUE(one.told_of_all());
    EXPECT_TRUE(third.told_of_all());
}

TEST_P(UnmapWatches, AreUpToDateWhenNothingChanges) {
    Memory memory;
    Follower follower = follow(memory);
    await(follower.watch());
    memory.unmap();
    await(follower.watch());
}

TEST_P(UnmapWatches, LeaveTheProgramItsSignals) {
    constexpr std::array signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGHUP};
    const auto handlers = [&] {
        std::array<sighandler_t, signals.size()> found{};
        std::transform(signals.begin(), signals.end(), found.begin(), [](int signal) {
            struct sigaction action {};
            EXPECT_EQ(::sigaction(signal, nullptr, &action), 0);
            return action.sa_handler;
        });
        return found;
    };
    const auto before = handlers();
    const Memory memory;
    const Follower follower = follow(memory);
    EXPECT_EQ(handlers(), before);
}

TEST_P(UnmapWatches, EndWithTheObject) {
    Memory memory;
    std::optional<Follower> follower;
    follower.emplace(GetParam().watch, memory.at());
    follower.reset();
    memory.unmap(); // nobody is told, and nobody waits for that
}

INSTANTIATE_TEST_SUITE_P(Kernel, UnmapWatches,
                         testing::Values(Teller{"ByKernel", watch_by_kernel, kernel_can_tell}),
                         [](const auto& test) { return test.param.name; });
#if !defined(COMCH_SANITIZE_ADDRESS) && !defined(COMCH_SANITIZE_THREAD)
INSTANTIATE_TEST_SUITE_P(Hooks, UnmapWatches,
                         testing::Values(Teller{"ByHooks", watch_by_hooks, [] { return true; }}),
                         [](const auto& test) { return test.param.name; });
#endif

class KernelsUnmapWatch : public testing::Test {
protected:
    void SetUp() override {
        if (!kernel_can_tell()) {
            GTEST_SKIP() << "this kernel tells nothing";
        }
    }
};

TEST_F(KernelsUnmapWatch, TellsOfWhatNoLibrarySees) {
    Memory memory;
    const Follower follower(watch_by_kernel, memory.at());
    memory.unmap_by_system_call();
    EXPECT_TRUE(follower.told_of_all());
}

bool follows(void* memory) {
    Nobody nobody;
    const auto watch = watch_by_kernel(nobody);
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    const AddressRange range{begin, begin + length};
    const bool follows = watch->follow(range);
    watch->forget(range);
    return follows;
}

/// A file may be cut short, and takes private copies of its pages away, too.
TEST_F(KernelsUnmapWatch, DoesNotFollowMemoryOfFiles) {
    const UniqueFd file(::memfd_create("shared", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(file.get(), length), 0);
    for (const int kind : {MAP_SHARED, MAP_PRIVATE}) {
        void* const memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, kind, file.get(), 0);
        ASSERT_NE(memory, MAP_FAILED);
        EXPECT_FALSE(follows(memory)) << "new";
        std::fill_n(static_cast<char*>(memory), length, 'x');
        EXPECT_FALSE(follows(memory)) << "written";
        ::munmap(memory, length);
    }
    EXPECT_TRUE(follows(Memory().at()));
}

TEST_F(KernelsUnmapWatch, DoesNotFollowMemoryThatIsAFilesInPart) {
    const UniqueFd file(::memfd_create("shared", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(file.get(), length), 0);
    for (const std::size_t at : {std::size_t{0}, length / 2, length - 4096}) {
        const Memory memory;
        std::fill_n(memory.bytes(), length, 'x');
        ASSERT_NE(::mmap(memory.bytes() + at, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                         file.get(), 0),
                  MAP_FAILED);
        EXPECT_FALSE(follows(memory.at())) << at;
    }
}

/// (Several mappings, as far as the kernel is concerned.)
TEST_F(KernelsUnmapWatch, FollowsMemoryOfDifferentKinds) {
    const Memory memory;
    ASSERT_EQ(::mprotect(memory.bytes() + 4096, 4096, PROT_READ), 0);
    ASSERT_EQ(::mlock(memory.bytes() + length / 2, 3 * 4096), 0);
    EXPECT_TRUE(follows(memory.at()));
}

/// What cannot be followed must not end the reports of what is in the midst of it.
TEST_F(KernelsUnmapWatch, GoesOnTellingOfAPartOfWhatCannotBeFollowed) {
    auto* const memory = static_cast<char*>(
        ::mmap(nullptr, 2 * length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    const UniqueFd file(::memfd_create("shared", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(file.get(), length), 0);
    ASSERT_NE(::mmap(memory, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0),
              MAP_FAILED);
    const Follower part(watch_by_kernel, memory + length / 2);
    EXPECT_FALSE(follows(memory));
    ASSERT_EQ(::munmap(memory, 2 * length), 0);
    EXPECT_TRUE(part.told_of_all());
}

/// Runtimes ask how large the main thread's stack is, and are told of the mapping.
TEST_F(KernelsUnmapWatch, DoesNotFollowTheStack) {
    std::ifstream maps("/proc/self/maps");
    std::uintptr_t begin = 0;
    for (std::string line; std::getline(maps, line);) {
        if (line.ends_with("[stack]")) {
            begin = std::stoull(line, nullptr, 16);
        }
    }
    ASSERT_NE(begin, 0u);
    EXPECT_FALSE(follows(reinterpret_cast<void*>(begin)));
}

/// Who waits for a report must not wait for what he has interrupted.
TEST_F(KernelsUnmapWatch, MayBeUnmappedBySignalHandlers) {
    static std::atomic<void*> unwanted{nullptr};
    struct sigaction before {};
    struct sigaction unmap {};
    unmap.sa_handler = [](int) {
        if (void* const memory = unwanted.exchange(nullptr)) {
            (void)::syscall(SYS_munmap, memory, length);
        }
    };
    ASSERT_EQ(::sigaction(SIGUSR1, &unmap, &before), 0);
    std::atomic<bool> stop{false};
    const pthread_t interrupted = ::pthread_self();
    std::thread other([&] {
        while (!stop) {
            ::pthread_kill(interrupted, SIGUSR1);
            std::this_thread::yield();
        }
    });
    for (int round = 0; round < 2000; ++round) {
        void* const memory =
            ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        std::optional<Follower> follower;
        follower.emplace(watch_by_kernel, memory);
        unwanted = memory;
        while (unwanted.load() != nullptr) { // interrupted anywhere in these
            (void)follower->watch().is_up_to_date();
            (void)follower->watch().follow(follower->range());
        }
        EXPECT_TRUE(follower->told_of_all());
    }
    stop = true;
    other.join();
    ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST_F(KernelsUnmapWatch, TellsNothingOfWhatIsForgotten) {
    Memory memory;
    Follower follower(watch_by_kernel, memory.at());
    follower.forget();
    const AnyReport any;
    memory.unmap();
    EXPECT_FALSE(any.told());
}

TEST_F(KernelsUnmapWatch, TellsOfThePartThatAnotherFollows) {
    char* const memory = static_cast<char*>(
        ::mmap(nullptr, 2 * length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    Follower one(watch_by_kernel, memory);
    const Follower other(watch_by_kernel, memory + length / 2);
    one.forget();
    const AnyReport any;
    ASSERT_EQ(::munmap(memory, length / 2), 0);
    EXPECT_FALSE(any.told());
    ASSERT_EQ(::munmap(memory + length / 2, length / 2), 0);
    EXPECT_TRUE(other.told());
    ASSERT_EQ(::munmap(memory + length, length), 0);
}

#if !defined(COMCH_SANITIZE_THREAD) // no threads in a child there
TEST_F(KernelsUnmapWatch, IsOfEachProcess) {
    Memory memory;
    const Follower follower(watch_by_kernel, memory.at());
    const pid_t child = ::fork();
    if (child == 0) {
        // Nobody here reads reports of the parent's; and the child has its own.
        memory.unmap();
        Memory own;
        const Follower childs(watch_by_kernel, own.at());
        own.unmap();
        std::_Exit(childs.told_of_all() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(follower.told()) << "of what the child has done";
    memory.unmap();
    EXPECT_TRUE(follower.told_of_all());
}
#endif

#if !defined(COMCH_SANITIZE_ADDRESS) && !defined(COMCH_SANITIZE_THREAD)
TEST(HooksUnmapWatch, FindsOutThatNobodyTells) {
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // a process without hooks
    EXPECT_EXIT(
        {
            ::setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
            Nobody nobody;
            std::_Exit(watch_by_hooks(nobody) != nullptr ? 1 : 0);
        },
        testing::ExitedWithCode(0), "");
}
#else
TEST(HooksUnmapWatch, IsNotThereWhereSanitizersReplaceTheSameFunctions) {
    Nobody nobody;
    EXPECT_FALSE(watch_by_hooks(nobody));
}
#endif

} // namespace
} // namespace comch
