// Calls of the face while it has no memory.
#pragma once

#include <doca_error.h>

#include "core/base/test_failing_new.hpp"

namespace comch::doca::test {

using comch::test::Files;

/// Whether it is the face that allocates: what the core does without memory is not tested here, and
/// callbacks are the test's own.
extern bool (*const face_allocates)();

/// The n-th allocation of the face.
class FailingAllocation : public comch::test::FailingAllocation {
public:
    explicit FailingAllocation(unsigned n) noexcept
        : comch::test::FailingAllocation(n, face_allocates) {}
};

/// While it is true, nothing fails.
inline bool warming_up = false;

/// Runs a test twice: what a process makes once, and keeps, is there when allocations fail.
template <class Body> void after_a_warm_up(Body body) {
    warming_up = true;
    body();
    warming_up = false;
    body();
}

/// As comch::test::outlast(), for the allocations of the face.
template <class Call> doca_error_t outlast(Call call, Files after = Files::as_before) {
    if (warming_up) {
        return call();
    }
    return comch::test::outlast<doca_error_t>(DOCA_ERROR_NO_MEMORY, call, after, face_allocates);
}

} // namespace comch::doca::test
