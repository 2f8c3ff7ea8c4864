// A message in parts of which some are still to come, and what a program may do meanwhile.
#include <array>
#include <span>
#include <utility>

#include "test_attacker.hpp"
#include "test_node.hpp"

namespace comch::ofi::test {
namespace {

constexpr std::uint64_t any = ~std::uint64_t{0};
/// That all parts are made of, tags too.
constexpr char filler = 'm';

struct Coming : Attacked {
    using Attacked::Attacked;

    std::array<char, 100> buffer{};

    /// Tagged, with a payload of 12 bytes of which 3 come.
    void begin_message() { ASSERT_NO_FATAL_FAILURE(say(begin(20, 11, wire::has_tag))); }
    void receive(std::size_t size, void* context = nullptr) {
        COMCH_FI(
            fi_trecv(victim.ep, buffer.data(), size, nullptr, FI_ADDR_UNSPEC, 0, any, context));
    }
    /// Into two bytes at the beginning, and twenty in the middle.
    void receive_in_parts() {
        const iovec parts[] = {{buffer.data(), 2}, {buffer.data() + 50, 20}};
        COMCH_FI(receive_into(parts, 0));
    }
    /// All of the buffer, for untagged messages.
    void receive_several() {
        const iovec part{buffer.data(), buffer.size()};
        fi_msg message{};
        message.msg_iov = &part;
        message.iov_count = 1;
        message.addr = FI_ADDR_UNSPEC;
        COMCH_FI(fi_recvmsg(victim.ep, &message, FI_MULTI_RECV));
    }
    ssize_t look(std::uint64_t flags, void* context = nullptr) {
        const iovec part{buffer.data(), buffer.size()};
        return receive_into({&part, 1}, flags, context);
    }
    /// The beginning of the message has come.
    void await_beginning() {
        ASSERT_TRUE(until([&] {
            EXPECT_EQ(look(FI_PEEK), 0);
            return await(victim.rx).error == 0;
        }));
    }
    void expect_nothing_yet() const {
        for (int i = 0; i < 100; ++i) {
            ASSERT_EQ(fi_cq_read(victim.rx, nullptr, 0), -FI_EAGAIN);
        }
    }
    void expect_filled(std::size_t size) const {
        for (std::size_t i = 0; i < buffer.size(); ++i) {
            ASSERT_EQ(buffer[i], i < size ? filler : '\0') << i;
        }
    }
    /// The attacker that has left, as another one.
    void come_again() {
        attacker.connect_again(victim, 1);
        ASSERT_TRUE(until([&] { return attacker.connected(); }));
    }
    ssize_t receive_into(std::span<const iovec> parts, std::uint64_t flags,
                         void* context = nullptr) {
        fi_msg_tagged message{};
        message.msg_iov = parts.data();
        message.iov_count = parts.size();
        message.addr = FI_ADDR_UNSPEC;
        message.ignore = any;
        message.context = context;
        return fi_trecvmsg(victim.ep, &message, flags);
    }
};

struct ComingToSeveral : Coming {
    ComingToSeveral() : Coming({.shared_receives = true}) {}
};

TEST_F(Coming, GoesIntoTheReceiveThatWaitsForIt) {
    receive(buffer.size());
    ASSERT_NO_FATAL_FAILURE(begin_message());
    ASSERT_TRUE(until([&] { return buffer[2] == filler; })) << "what has come is there";
    expect_filled(3);
    ASSERT_NO_FATAL_FAILURE(expect_nothing_yet());
    ASSERT_NO_FATAL_FAILURE(say(go_on(8)));
    ASSERT_NO_FATAL_FAILURE(say(go_on(1)));
    const Event event = await(victim.rx, {});
    EXPECT_EQ(event.error, 0);
    EXPECT_EQ(event.entry.len, 12u);
    expect_filled(12);
}

TEST_F(Coming, GoesIntoAReceiveThatIsPostedMeanwhile) {
    ASSERT_NO_FATAL_FAILURE(begin_message());
    ASSERT_NO_FATAL_FAILURE(await_beginning());
    expect_filled(0);
    receive(buffer.size());
    expect_filled(3);
    ASSERT_NO_FATAL_FAILURE(expect_nothing_yet());
    ASSERT_NO_FATAL_FAILURE(say(go_on(9)));
    EXPECT_EQ(await(victim.rx).entry.len, 12u);
    expect_filled(12);
}

TEST_F(Coming, IsCutOffWhereItIsTooLong) {
    receive(5);
    ASSERT_NO_FATAL_FAILURE(begin_message());
    ASSERT_NO_FATAL_FAILURE(say(go_on(1)));
    ASSERT_NO_FATAL_FAILURE(say(go_on(5)));
    ASSERT_NO_FATAL_FAILURE(say(go_on(3)));
    const Event event = await(victim.rx);
    EXPECT_EQ(event.error, FI_ETRUNC);
    EXPECT_EQ(event.failure.olen, 7u);
    expect_filled(5);
}

TEST_F(Coming, GoesIntoSeveralParts) {
    receive_in_parts();
    ASSERT_NO_FATAL_FAILURE(begin_message());
    ASSERT_NO_FATAL_FAILURE(say(go_on(9)));
    EXPECT_EQ(await(victim.rx).entry.len, 12u);
    for (std::size_t i = 0; i < buffer.size(); ++i) {
        ASSERT_EQ(buffer[i], i < 2 || (i >= 50 && i < 60) ? filler : '\0') << i;
    }
}

TEST_F(Coming, HasNoRoomInAReceiveOfNoParts) {
    COMCH_FI(receive_into({}, 0));
    ASSERT_NO_FATAL_FAILURE(begin_message());
    ASSERT_NO_FATAL_FAILURE(say(go_on(9)));
    const Event event = await(victim.rx);
    EXPECT_EQ(event.error, FI_ETRUNC);
    EXPECT_EQ(event.failure.olen, 12u);
    expect_filled(0);
}

TEST_F(Coming, IsOneOfSeveralInOneBuffer) {
    receive_several();
    for (std::size_t i = 0; i < 2; ++i) {
        ASSERT_NO_FATAL_FAILURE(say(begin(15, 7)));
        ASSERT_NO_FATAL_FAILURE(say(go_on(8)));
        const Event event = await(victim.rx);
        EXPECT_EQ(event.entry.len, 15u);
        EXPECT_EQ(event.entry.buf, buffer.data() + i * 15);
    }
    expect_filled(30);
}

TEST_F(Coming, ThatIsDiscardedGoesNowhereAndTheNextIsWhole) {
    ASSERT_NO_FATAL_FAILURE(begin_message());
    ASSERT_NO_FATAL_FAILURE(await_beginning());
    EXPECT_EQ(look(FI_PEEK | FI_DISCARD), 0);
    EXPECT_EQ(await(victim.rx).error, 0);
    receive(buffer.size());
    ASSERT_NO_FATAL_FAILURE(say(go_on(9)));
    ASSERT_NO_FATAL_FAILURE(say(begin(10, 9, wire::has_tag)));
    ASSERT_NO_FATAL_FAILURE(say(go_on(1)));
    EXPECT_EQ(await(victim.rx).entry.len, 2u);
    expect_filled(2);
    EXPECT_FALSE(attacker.ended());
}

TEST_F(Coming, ThatIsDiscardedIsAnsweredWhenItIsWhole) {
    // With the name of an operation behind its tag.
    ASSERT_NO_FATAL_FAILURE(say(begin(20, 17, wire::has_tag | wire::wants_done)));
    ASSERT_NO_FATAL_FAILURE(await_beginning());
    EXPECT_EQ(look(FI_PEEK | FI_DISCARD), 0);
    EXPECT_EQ(await(victim.rx).error, 0);
    ASSERT_NO_FATAL_FAILURE(say(go_on(2)));
    for (int i = 0; i < 1000; ++i) {
        (void)fi_cq_read(victim.tx, nullptr, 0);
        attacker.progress();
    }
    EXPECT_EQ(attacker.answers(), 0u) << "a sender that has more to send takes it for a lie";
    ASSERT_NO_FATAL_FAILURE(say(go_on(1)));
    EXPECT_TRUE(until([&] { return attacker.answers() == 1; }));
    EXPECT_FALSE(attacker.ended());
}

TEST_F(Coming, CanBeClaimed) {
    int claim = 0;
    ASSERT_NO_FATAL_FAILURE(begin_message());
    ASSERT_NO_FATAL_FAILURE(await_beginning());
    EXPECT_EQ(look(FI_PEEK | FI_CLAIM, &claim), 0);
    EXPECT_EQ(await(victim.rx).error, 0);
    ASSERT_NO_FATAL_FAILURE(say(go_on(4)));
    EXPECT_EQ(look(FI_CLAIM, &claim), 0);
    ASSERT_NO_FATAL_FAILURE(say(go_on(5)));
    EXPECT_EQ(await(victim.rx).entry.len, 12u);
    expect_filled(12);
}

TEST_F(Coming, CanBeClaimedAndDiscarded) {
    int claim = 0;
    ASSERT_NO_FATAL_FAILURE(begin_message());
    ASSERT_NO_FATAL_FAILURE(await_beginning());
    EXPECT_EQ(look(FI_PEEK | FI_CLAIM, &claim), 0);
    EXPECT_EQ(await(victim.rx).error, 0);
    EXPECT_EQ(look(FI_CLAIM | FI_DISCARD, &claim), 0);
    EXPECT_EQ(await(victim.rx).error, 0);
    ASSERT_NO_FATAL_FAILURE(say(go_on(9)));
    receive(buffer.size());
    ASSERT_NO_FATAL_FAILURE(say(begin(10, 9, wire::has_tag)));
    ASSERT_NO_FATAL_FAILURE(say(go_on(1)));
    EXPECT_EQ(await(victim.rx).entry.len, 2u);
    expect_filled(2);
}

TEST_F(Coming, ThatIsNeverWholeIsAnErrorOfItsReceive) {
    receive(buffer.size());
    ASSERT_NO_FATAL_FAILURE(begin_message());
    ASSERT_TRUE(until([&] { return buffer[0] == filler; }));
    attacker.leave();
    EXPECT_EQ(await(victim.rx).error, FI_ECONNRESET);
}

TEST_F(Coming, ThatIsNeverWholeIsAnErrorOfAReceiveOfSeveralParts) {
    receive_in_parts();
    ASSERT_NO_FATAL_FAILURE(begin_message());
    attacker.leave();
    EXPECT_EQ(await(victim.rx).error, FI_ECONNRESET);
    expect_filled(0); // what has come is put together before it is handed out
}

TEST_F(Coming, ThatIsNeverWholeLeavesABufferForSeveralToTheNext) {
    receive_several();
    ASSERT_NO_FATAL_FAILURE(say(begin(15, 7)));
    attacker.leave();
    const Event event = await(victim.rx);
    EXPECT_EQ(event.error, FI_ECONNRESET);
    EXPECT_EQ(event.failure.buf, buffer.data());
    EXPECT_EQ(event.failure.flags & FI_MULTI_RECV, 0u) << "the buffer is not given back yet";

    ASSERT_NO_FATAL_FAILURE(come_again());
    ASSERT_NO_FATAL_FAILURE(say(begin(5, 4)));
    ASSERT_NO_FATAL_FAILURE(say(go_on(1)));
    const Event next = await(victim.rx);
    EXPECT_EQ(next.error, 0);
    EXPECT_EQ(next.entry.len, 5u);
    EXPECT_EQ(next.entry.buf, buffer.data() + 15);
}

TEST_F(Coming, ThatIsNeverWholeIsAnErrorOfWhoClaimedIt) {
    int claim = 0;
    ASSERT_NO_FATAL_FAILURE(begin_message());
    ASSERT_NO_FATAL_FAILURE(await_beginning());
    EXPECT_EQ(look(FI_PEEK | FI_CLAIM, &claim), 0);
    EXPECT_EQ(await(victim.rx).error, 0);
    attacker.leave();
    // (Not before the victim has heard of the end, which no completion tells.)
    ASSERT_NO_FATAL_FAILURE(come_again());
    EXPECT_EQ(look(FI_CLAIM, &claim), 0);
    EXPECT_EQ(await(victim.rx).error, FI_ECONNRESET);
}

TEST_F(ComingToSeveral, GivesItsReceiveBackWhenTheEndpointIsClosed) {
    COMCH_FI(fi_trecv(victim.srx, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, 0, any,
                      &buffer));
    ASSERT_NO_FATAL_FAILURE(begin_message());
    ASSERT_TRUE(until([&] { return buffer[2] == filler; }));
    EXPECT_EQ(fi_close(&std::exchange(victim.ep, nullptr)->fid), 0);
    const Event event = await(victim.rx);
    EXPECT_EQ(event.error, FI_ECANCELED);
    EXPECT_EQ(event.failure.op_context, &buffer);
    // Nobody writes to it any more.
    ASSERT_TRUE(until([&] { return attacker.ended(); }));
}

TEST_F(Coming, ThatIsNeverWholeIsNotThereForWhoAsksLater) {
    ASSERT_NO_FATAL_FAILURE(begin_message());
    ASSERT_NO_FATAL_FAILURE(await_beginning());
    attacker.leave();
    ASSERT_TRUE(until([&] {
        EXPECT_EQ(look(FI_PEEK), 0);
        return await(victim.rx).error == FI_ENOMSG;
    }));
}

} // namespace
} // namespace comch::ofi::test
