// What happens while there is no memory: allocations of a test program that fail when they are told to.
// One of its sources includes test_failing_new_operators.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <new>
#include <utility>

#include <gtest/gtest.h>

namespace comch::test {

/// The n-th allocation from here on in the calling thread fails, and none but that.
class FailingAllocation {
public:
    /// `counts`: is the one that is being made one of those? (Null: they all are.)
    explicit FailingAllocation(unsigned n, bool (*counts)() = nullptr) noexcept {
        has_failed_ = false;
        counts_ = counts;
        countdown_ = n;
    }
    ~FailingAllocation() { countdown_ = 0; }
    FailingAllocation(const FailingAllocation&) = delete;
    FailingAllocation& operator=(const FailingAllocation&) = delete;

    [[nodiscard]] static bool happened() noexcept { return has_failed_; }
    /// How many are left until one fails: what the next of these begins with, to go on.
    [[nodiscard]] static unsigned left() noexcept { return countdown_; }

    /// By operator new, before it allocates.
    static void count_down() {
        if (countdown_ == 0) {
            return;
        }
        const unsigned left = std::exchange(countdown_, 0u); // to find out may allocate
        const bool is_counted = counts_ == nullptr || counts_();
        countdown_ = left - (is_counted ? 1 : 0);
        if (is_counted && countdown_ == 0) {
            has_failed_ = true;
            throw std::bad_alloc();
        }
    }

private:
    static inline thread_local unsigned countdown_ =
        0; ///< 0: none fails; else how many more until one does
    static inline thread_local bool has_failed_ = false;
    static inline thread_local bool (*counts_)() = nullptr;
};

inline std::ptrdiff_t open_files() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
}

/// What a call that fails may leave open.
enum class Files : std::uint8_t {
    as_before,
    kept, ///< with what was made on the way, and is found again
};

/// Calls again and again: its first allocation fails, then its second, and so on, until it needs no
/// more, or answers something else than `no_memory`. Each failure must leave no file open. The last answer.
template <class Answer, class Call>
Answer outlast(Answer no_memory, Call call, Files after = Files::as_before,
               bool (*counts)() = nullptr) {
    for (unsigned n = 1;; ++n) {
        const std::ptrdiff_t files = open_files();
        Answer answer{};
        bool failed = false;
        {
            const FailingAllocation failing(n, counts);
            answer = call();
            failed = FailingAllocation::happened();
        }
        if (!failed || answer != no_memory) {
            return answer;
        }
        if (after == Files::as_before) {
            EXPECT_LE(open_files(), files) << "after allocation " << n << " failed";
        }
    }
}

} // namespace comch::test
