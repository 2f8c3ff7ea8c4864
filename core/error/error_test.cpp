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
    EXPECT_FALSE(result.error().out_of_descriptors);
}

TEST(Error, FailErrnoNamesTheLimitOfDescriptors) {
    for (const int number : {EMFILE, ENFILE}) {
        for (const Errc code : {Errc::io, Errc::no_memory, Errc::unsupported}) {
            const Result<int> result = fail_errno(code, "cannot open '/x'", number);
            ASSERT_FALSE(result);
            EXPECT_EQ(result.error().code, code == Errc::io ? Errc::no_memory : code);
            EXPECT_TRUE(result.error().out_of_descriptors);
            EXPECT_NE(result.error().message.find("ulimit -n"), std::string::npos);
        }
    }
    EXPECT_FALSE(fail_errno(Errc::io, "cannot map", ENOMEM).value().out_of_descriptors);
}

} // namespace
} // namespace comch
