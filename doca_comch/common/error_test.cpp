#include <cstring>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <doca_common_defines.h>
#include <doca_error.h>
#include <doca_version.h>

#include "doca_comch/common/status.hpp"

namespace {

TEST(DocaError, EveryCodeHasANameAndAMeaning) {
    std::set<std::string> names;
    for (int code = 0; code <= DOCA_ERROR_DEVICE_FATAL_ERROR; ++code) {
        const auto error = static_cast<doca_error_t>(code);
        EXPECT_TRUE(names.insert(doca_error_get_name(error)).second) << code;
        EXPECT_NE(std::strlen(doca_error_get_descr(error)), 0u) << code;
    }
    EXPECT_STREQ(doca_error_get_name(DOCA_ERROR_IN_PROGRESS), "DOCA_ERROR_IN_PROGRESS");
    EXPECT_STREQ(doca_error_get_name(DOCA_ERROR_DEVICE_FATAL_ERROR),
                 "DOCA_ERROR_DEVICE_FATAL_ERROR");
}

TEST(DocaError, PropagateKeepsTheFirst) {
    doca_error_t result = DOCA_SUCCESS;
    DOCA_ERROR_PROPAGATE(result, DOCA_SUCCESS);
    EXPECT_EQ(result, DOCA_SUCCESS);
    DOCA_ERROR_PROPAGATE(result, DOCA_ERROR_AGAIN);
    DOCA_ERROR_PROPAGATE(result, DOCA_ERROR_IN_USE);
    EXPECT_EQ(result, DOCA_ERROR_AGAIN);
}

TEST(DocaError, HintsForTheCompilerKeepTheCondition) {
    EXPECT_TRUE(doca_likely(2));
    EXPECT_FALSE(doca_likely(0));
    EXPECT_TRUE(doca_unlikely(2));
    EXPECT_FALSE(doca_unlikely(0));
}

TEST(DocaError, TheCoresCodesAreTold) {
    using comch::Errc;
    using comch::doca::to_doca;
    EXPECT_EQ(to_doca(Errc::ok), DOCA_SUCCESS);
    EXPECT_EQ(to_doca(Errc::invalid_argument), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(to_doca(Errc::version_mismatch), DOCA_ERROR_UNSUPPORTED_VERSION);
    EXPECT_EQ(to_doca(Errc::io), DOCA_ERROR_OPERATING_SYSTEM);
}

TEST(DocaVersion, HeadersAndLibraryAgree) {
    EXPECT_STREQ(doca_version(), doca_version_runtime());
    EXPECT_STREQ(DOCA_VERSION_STRING, doca_version());
    EXPECT_STREQ(DOCA_VER_STRING, DOCA_VERSION_STRING);
    EXPECT_TRUE(
        DOCA_VERSION_EQ_CURRENT(DOCA_VERSION_MAJOR, DOCA_VERSION_MINOR, DOCA_VERSION_PATCH));
    EXPECT_TRUE(DOCA_VERSION_EQ_CURRENT(DOCA_VER_MAJOR, DOCA_VER_MINOR, DOCA_VER_PATCH));
    EXPECT_TRUE(DOCA_VERSION_LTE_CURRENT(2, 9, 0));
    EXPECT_FALSE(DOCA_VERSION_LTE_CURRENT(99, 0, 0));
}

TEST(DocaVersion, NumbersGrowWithTheVersion) {
    EXPECT_EQ(DOCA_VERSION_CALC_EXACT(2, 7, 85), std::size_t{0x02070055});
    EXPECT_EQ(DOCA_VERSION_CALC(2, 9, 1), std::size_t{0x02090000 + 1000});
    EXPECT_LT(DOCA_VERSION_CALC(2, 9, 4), DOCA_VERSION_CALC(2, 10, 0));
    EXPECT_EQ(DOCA_VERSION_NUM(1, 5, 55), DOCA_VERSION_CALC_EXACT(1, 5, 55));
    EXPECT_EQ(DOCA_CURRENT_VERSION_NUM, DOCA_VERSION_EXACT);
    EXPECT_GE(DOCA_VERSION_OFFICIAL, DOCA_VERSION_EXACT);
}

} // namespace
