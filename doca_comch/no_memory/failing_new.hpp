// What happens to calls while there is no memory: this program's operator new throws when it is
// told to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>

#include <gtest/gtest.h>

#include <doca_error.h>

namespace comch::doca::test {

/// The n-th allocation from here on that the face makes in the calling thread fails, and none but
/// that.
class FailingAllocation {
public:
    explicit FailingAllocation(unsigned n) noexcept;
    ~FailingAllocation();
    FailingAllocation(const FailingAllocation&) = delete;
    FailingAllocation& operator=(const FailingAllocation&) = delete;

    [[nodiscard]] bool happened() const noexcept;
};

inline std::ptrdiff_t open_files() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
}

/// While it is true, nothing fails.
inline bool warming_up = false;

/// Runs a test twice: what a process makes once, and keeps, is there when allocations fail.
template <class Body> void after_a_warm_up(Body body) {
    warming_up = true;
    body();
    warming_up = false;
    body();
}

/// What a call that fails may leave open.
enum class Files : std::uint8_t {
    as_before,
    kept, ///< with what the core has made on the way, and finds again
};

/// Calls again and again: its first allocation fails, then its second, and so on, until it needs no
/// more. Each failure must be NO_MEMORY, and leave no file open. The last answer.
template <class Call> doca_error_t outlast(Call call, Files after = Files::as_before) {
    if (warming_up) {
        return call();
    }
    for (unsigned n = 1;; ++n) {
        const std::ptrdiff_t files = open_files();
        doca_error_t result = DOCA_SUCCESS;
        bool failed = false;
        {
            const FailingAllocation failing(n);
            result = call();
            failed = failing.happened();
        }
        if (!failed || result != DOCA_ERROR_NO_MEMORY) {
            return result;
        }
        if (after == Files::as_before) {
            EXPECT_LE(open_files(), files) << "after allocation " << n << " failed";
        }
    }
}

} // namespace comch::doca::test
