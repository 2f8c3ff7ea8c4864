#include <comch/error.hpp>

#include <cerrno>
#include <set>

#include <gtest/gtest.h>

namespace comch {
namespace {

TEST(Error, EveryCodeHasANameOfItsOwn) {
    std::set<std::string_view> names;
    for (int code = 0; code <= static_cast<int>(Errc::io); ++code) {
        const auto name = to_string(static_cast<Errc>(code));
        EXPECT_NE(name, "unknown") << code;
        EXPECT_TRUE(names.insert(name).second) << name;
    }
    EXPECT_EQ(to_string(static_cast<Errc>(99)), "unknown");
}

TEST(Error, FailErrnoAppendsTheSystemsText) {
    const Result<int> result = fail_errno(Errc::not_permitted, "cannot open '/x'", EACCES);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::not_permitted);
    EXPECT_EQ(result.error().message, "cannot open '/x': Permission denied");
}

} // namespace
} // namespace comch
