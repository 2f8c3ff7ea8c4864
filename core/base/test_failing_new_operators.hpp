// The operators new and delete of a test program whose allocations can fail. For one of its sources.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "core/base/test_failing_new.hpp"

namespace comch::test {

inline void* allocate(std::size_t size, std::size_t alignment) {
    FailingAllocation::count_down();
    void* memory = nullptr;
    if (::posix_memalign(&memory, std::max(alignment, sizeof(void*)), size) != 0) {
        throw std::bad_alloc();
    }
    return memory;
}

} // namespace comch::test

// Those for arrays and those that do not throw lead here.
void* operator new(std::size_t size) {
    return comch::test::allocate(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    return comch::test::allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}
