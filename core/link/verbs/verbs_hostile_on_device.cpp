// Peers that break the protocol: each is disconnected, and nothing else is disturbed.
#include <vector>

#include "core/link/verbs/two_ends_on_device.hpp"

namespace comch::link::verbs {
namespace {

using contract::bytes_of;

class Hostile : public TwoEnds {
protected:
    /// The host sends a record of that kind, whatever it is.
    void send(std::uint8_t kind, std::uint32_t length) {
        ASSERT_EQ(Inside::pipe(*connection)
                      .put_record(static_cast<Kind>(kind), 0, length,
                                  [&](std::byte* to) { std::fill_n(to, length, std::byte{0xff}); }),
                  Errc::ok);
    }
    void send(wire::Control kind, std::uint32_t length = 0) {
        send(static_cast<std::uint8_t>(kind), length);
    }
    /// The DPU has ended this connection for that, and another one works.
    void expect_disconnected() {
        ASSERT_TRUE(until([&] { return !dpu.seen.ends.empty(); }));
        EXPECT_EQ(dpu.seen.ends[0].reason, Reason::protocol_error);
        EXPECT_EQ(dpu.seen.ends[0].connection, dpu.seen.requests[0].connection);
        EXPECT_TRUE(dpu.seen.messages.empty());
        ASSERT_EQ(connect()->send(1, bytes_of("hello")), Errc::ok);
        ASSERT_TRUE(until([&] { return !dpu.seen.messages.empty(); }));
        EXPECT_EQ(dpu.seen.ends.size(), 1u);
    }
};

TEST_F(Hostile, AMessageThatIsTooLong) {
    send(static_cast<std::uint8_t>(Kind::data), tuning::max_message + 1);
    expect_disconnected();
}

TEST_F(Hostile, ABellThatNobodyAskedFor) {
    send(wire::Control::bell, sizeof(std::uint64_t));
    expect_disconnected();
}

TEST_F(Hostile, AskingForCreditTwice) {
    send(wire::Control::want_credit, sizeof(wire::WantCredit));
    send(wire::Control::want_credit, sizeof(wire::WantCredit));
    expect_disconnected();
}

TEST_F(Hostile, ARecordThatIsNone) {
    send(77, 8);
    expect_disconnected();
}

} // namespace
} // namespace comch::link::verbs
