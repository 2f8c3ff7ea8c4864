// The end of a connection needs no memory, however many gets end with it.
#include "core/link/soft/test_joint_get.hpp"

#include <array>

#include "core/base/test_failing_new_operators.hpp"

namespace comch::link::soft::test {
namespace {

TEST_F(ShortJointGet, EndsWithoutMemory) {
    std::vector<std::byte> third(length);
    std::vector<std::byte> fourth(length);
    std::array<int, 3> tokens{};
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    ASSERT_EQ(requester.engine.flush(&tokens[0]), Errc::in_progress);
    owner.progress();
    owner.progress();
    ASSERT_EQ(begin(third, tokens[1]), Errc::in_progress) << "both are complete";
    ASSERT_EQ(begin(fourth, tokens[2]), Errc::in_progress);
    const comch::test::FailingAllocation fails(1);
    EXPECT_EQ(requester.engine.fail_all(Errc::connection_reset).size(), 5u);
}

} // namespace
} // namespace comch::link::soft::test
