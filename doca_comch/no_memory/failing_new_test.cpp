#include "doca_comch/no_memory/failing_new.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include <execinfo.h>

#include "doca_comch/common/status.hpp"
#include "doca_comch/no_memory/function_names.hpp"

namespace {

/// 0: none fails; else how many more until one does.
thread_local unsigned countdown = 0;
thread_local bool has_failed = false;

/// A function's owner, by its mangled name.
enum class Owner : std::uint8_t { nobody, face, others };
Owner owner_of(std::string_view name) {
    if (name.starts_with("doca_")) {
        return Owner::face; // a call of the API
    }
    if (!name.starts_with("_Z")) {
        return Owner::nobody;
    }
    name.remove_prefix(std::min(name.find_first_not_of("_ZNK"), name.size()));
    if (name.starts_with("5comch")) {
        return name.starts_with("5comch4doca") && !name.starts_with("5comch4doca4test")
                   ? Owner::face
                   : Owner::others;
    }
    name.remove_prefix(std::min(name.find_first_not_of("0123456789"), name.size()));
    return name.starts_with("doca_") ? Owner::face : Owner::nobody;
}

/// Whether the face allocates: the innermost function decides that belongs to anyone. What the core
/// does without memory is not tested here, and callbacks are the test's own.
bool face_allocates() {
    static const comch::doca::test::FunctionNames names;
    std::array<void*, 64> frames{};
    const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
    for (int i = 0; i < count; ++i) {
        const Owner owner = owner_of(names.at(frames[static_cast<std::size_t>(i)]));
        if (owner != Owner::nobody) {
            return owner == Owner::face;
        }
    }
    return false;
}

void count_down() {
    if (countdown == 0) {
        return;
    }
    const unsigned left = std::exchange(countdown, 0); // to find out may allocate
    const bool counts = face_allocates();
    countdown = left - (counts ? 1 : 0);
    if (counts && countdown == 0) {
        has_failed = true;
        throw std::bad_alloc();
    }
}

void* allocate(std::size_t size, std::size_t alignment) {
    count_down();
    void* memory = nullptr;
    if (::posix_memalign(&memory, std::max(alignment, sizeof(void*)), size) != 0) {
        throw std::bad_alloc();
    }
    return memory;
}

} // namespace

// Those for arrays and those that do not throw lead here.
void* operator new(std::size_t size) {
    return allocate(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    return allocate(size, static_cast<std::size_t>(alignment));
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

namespace comch::doca::test {

FailingAllocation::FailingAllocation(unsigned n) noexcept {
    has_failed = false;
    countdown = n;
}
FailingAllocation::~FailingAllocation() {
    countdown = 0;
}
bool FailingAllocation::happened() const noexcept {
    return has_failed;
}

} // namespace comch::doca::test

namespace {

using namespace comch::doca;
using namespace comch::doca::test;

TEST(DocaNoMemory, IsAnAnswer) {
    unsigned calls = 0;
    EXPECT_EQ(outlast([&] {
                  ++calls;
                  return guarded([] {
                      const auto first = std::make_unique<int>(1);
                      const std::vector<int> second(2);
                      return DOCA_SUCCESS;
                  });
              }),
              DOCA_SUCCESS);
    EXPECT_EQ(calls, 3u);
    EXPECT_EQ(guarded_or(7, []() -> int { throw std::bad_alloc(); }), 7);
    EXPECT_EQ(guarded_or(7, [] { return 8; }), 8);
}

TEST(DocaNoMemory, IsWhatAThreadThatCannotStartLacks) {
    const auto answer = [](std::errc code) {
        return guarded(
            [&]() -> doca_error_t { throw std::system_error(std::make_error_code(code)); });
    };
    EXPECT_EQ(answer(std::errc::resource_unavailable_try_again), DOCA_ERROR_NO_MEMORY);
    EXPECT_EQ(answer(std::errc::not_enough_memory), DOCA_ERROR_NO_MEMORY);
    EXPECT_EQ(answer(std::errc::operation_not_permitted), DOCA_ERROR_OPERATING_SYSTEM);
}

TEST(DocaNoMemory, OtherExceptionsAreThePrograms) {
    EXPECT_THROW((void)guarded([]() -> doca_error_t { throw 1; }), int);
}

} // namespace
