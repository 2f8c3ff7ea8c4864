#include "core/link/verbs/memlock.hpp"

#include <cerrno>

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace comch::link::verbs {
namespace {

class Memlock : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before_), 0);
        const rlimit low{.rlim_cur = 64 * 1024, .rlim_max = before_.rlim_max};
        ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &low), 0);
    }
    void TearDown() override { EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before_), 0); }

private:
    rlimit before_{};
};

TEST_F(Memlock, ALowLimitIsNamedWithWhatToSet) {
    for (const int error : {ENOMEM, EAGAIN, EPERM}) {
        const Error said = fail_pinning("cannot create a queue", error).value();
        EXPECT_EQ(said.code, Errc::no_memory);
        EXPECT_EQ(said.message.find("cannot create a queue: the limit of locked memory is 64 KiB"),
                  0u);
        EXPECT_NE(said.message.find("ulimit -l"), std::string::npos);
    }
}

TEST_F(Memlock, OtherErrorsAreTold) {
    const Error said = fail_pinning("cannot create a queue", EINVAL).value();
    EXPECT_EQ(said.message, "cannot create a queue: Invalid argument");
}

} // namespace
} // namespace comch::link::verbs
