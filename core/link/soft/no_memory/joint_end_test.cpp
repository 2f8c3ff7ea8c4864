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
    std::size_t to_end = 3;
    to_end += begins_or_is_late(third, tokens[1]) ? 1 : 0; // both are complete
    to_end += begins_or_is_late(fourth, tokens[2]) ? 1 : 0;
    const comch::test::FailingAllocation fails(1);
    EXPECT_EQ(requester.engine.fail_all(Errc::connection_reset).size(), to_end);
}

} // namespace
} // namespace comch::link::soft::test
