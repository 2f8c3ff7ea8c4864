#include "doca_comch/no_memory/failing_new.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include <execinfo.h>

#include "core/base/test_failing_new_operators.hpp"
#include "doca_comch/common/status.hpp"
#include "doca_comch/no_memory/function_names.hpp"

namespace {

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
    if (name.starts_with("5comch4test")) {
        return Owner::nobody; // what has the allocation fail
    }
    if (name.starts_with("5comch")) {
        return name.starts_with("5comch4doca") && !name.starts_with("5comch4doca4test")
                   ? Owner::face
                   : Owner::others;
    }
    name.remove_prefix(std::min(name.find_first_not_of("0123456789"), name.size()));
    return name.starts_with("doca_") ? Owner::face : Owner::nobody;
}

/// The innermost function decides that belongs to anyone.
bool is_the_faces() {
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

} // namespace

bool (*const comch::doca::test::face_allocates)() = is_the_faces;

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
