// Peers that break the protocol: each is disconnected, and nothing else is disturbed.
#include <algorithm>
#include <chrono>
#include <span>
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
    /// The host's device is asked for something that this link never asks for.
    void post(ibv_wr_opcode opcode, std::uint32_t immediate) {
        ibv_send_wr request{};
        request.opcode = opcode;
        request.imm_data = immediate;
        ibv_send_wr* bad = nullptr;
        ASSERT_EQ(::ibv_post_send(Inside::pipe(*connection).queue_pair(), &request, &bad), 0);
    }
    /// What the DPU gets of this has to wait its turn, as behind a get that is being answered. It
    /// is more than there are buffers.
    void flood(ibv_wr_opcode opcode, std::uint8_t kind) {
        Connection& theirs = *dpu.seen.requests[0].connection;
        Inside::pause(theirs);
        const wire::Header header{.kind = kind};
        for (unsigned i = 0; i < 3 * tuning::window; ++i) {
            post(opcode, header.pack());
        }
        std::size_t most = 0;
        EXPECT_TRUE(until([&] {
            most = std::max(most, Inside::waiting(theirs));
            return !dpu.seen.ends.empty();
        }));
        EXPECT_LE(most, tuning::window + tuning::uncredited) << "buffers of other connections";
    }
    /// While the DPU's program does nothing.
    template <class Done> bool alone(Done done) {
        const auto deadline = std::chrono::steady_clock::now() + contract::patience;
        while (!done() && std::chrono::steady_clock::now() < deadline) {
            host.progress();
        }
        return done();
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

TEST_F(Hostile, APeerWithoutTheBuffersThatItGaveCreditForIsGivenUpAfterAWhile) {
    const wire::Header header{.kind = static_cast<std::uint8_t>(Kind::data)};
    for (unsigned i = 0; i < 3 * tuning::window; ++i) { // to a DPU that takes nothing out
        post(IBV_WR_SEND_WITH_IMM, header.pack());
    }
    ASSERT_TRUE(alone([&] { return Inside::asks(*connection); }));
    EXPECT_TRUE(host.seen.ends.empty());
    Inside::asked_before(*connection, tuning::silence_ns);
    ASSERT_TRUE(alone([&] { return !host.seen.ends.empty(); }));
    EXPECT_EQ(host.seen.ends[0].reason, Reason::peer_died);
    EXPECT_NE(connection->error_text().find("acknowledged"), std::string::npos);
}

TEST_F(Hostile, APeerThatAnswersAfterAWhileIsKept) {
    // What answers is its device: its program does nothing.
    for (unsigned i = 0; i < 2; ++i) {
        ASSERT_TRUE(alone([&] { return Inside::asks(*connection); }));
        Inside::asked_before(*connection, tuning::silence_ns);
        ASSERT_TRUE(alone([&] { return !Inside::asks(*connection); }));
    }
    EXPECT_TRUE(host.seen.ends.empty());
}

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

TEST_F(Hostile, AskingWithMoreThanTheQuestion) {
    send(wire::Control::ask, 8);
    expect_disconnected();
}

TEST_F(Hostile, AskingForCreditAllTheTimeCostsOneAnswerInACall) {
    Pipe& pipe = Inside::pipe(*connection);
    const std::uint64_t before = dpu.port->tally().work_requests;
    const std::uint64_t known = pipe.tx().consumed();
    const Pipe::Ticket first = pipe.posted();
    unsigned calls = 0;
    constexpr unsigned count = 48;
    for (unsigned i = 0; i < count; ++i) {
        send(wire::Control::ask);
    }
    // Most are there before the first is looked at.
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    while (!pipe.done(first + count - tuning::signal_every)) {
        host.progress();
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    ASSERT_TRUE(until([&] {
        calls += dpu.progress() != 0 ? 1 : 0;
        return pipe.tx().consumed() == known + count;
    }));
    EXPECT_TRUE(dpu.seen.ends.empty());
    // And one for each part of the window.
    EXPECT_LE(dpu.port->tally().work_requests - before, calls + count / tuning::credit_batch + 4);
}

TEST_F(Hostile, ARecordThatIsNone) {
    send(40, 8);
    expect_disconnected();
}

TEST_F(Hostile, AMessageWithoutAHeader) {
    post(IBV_WR_SEND, 0);
    expect_disconnected();
}

TEST_F(Hostile, AWriteThatTakesABuffer) {
    const wire::Header header{.kind = static_cast<std::uint8_t>(Kind::data)};
    post(IBV_WR_RDMA_WRITE_WITH_IMM, header.pack());
    expect_disconnected();
}

TEST_F(Hostile, CreditThatCannotBe) {
    // So many messages were not sent.
    const wire::Header header{.kind = static_cast<std::uint8_t>(Kind::data), .messages = 100};
    post(IBV_WR_SEND_WITH_IMM, header.pack());
    expect_disconnected();
}

TEST_F(Hostile, WhatWaitsItsTurnTakesNoBuffersOfOthers) {
    flood(IBV_WR_SEND_WITH_IMM, static_cast<std::uint8_t>(Kind::data));
    expect_disconnected();
}

TEST_F(Hostile, NeitherDoWaitingMessagesWithoutAHeader) {
    flood(IBV_WR_SEND, 0);
    expect_disconnected();
}

TEST_F(Hostile, NorDoGoodbyes) {
    flood(IBV_WR_SEND_WITH_IMM, static_cast<std::uint8_t>(wire::Control::goodbye));
    expect_disconnected();
}

/// Says in its answer that it is another function.
struct Impostor : contract::Recorder<Link> {
    wire::Welcome welcome{};

    ConnectDecision on_connect_request(Connection& connection, const ConnectRequest& request) {
        EXPECT_EQ(Inside::pipe(connection)
                      .put_plain(wire::Control::welcome, std::as_bytes(std::span(&welcome, 1))),
                  Errc::ok);
        return Recorder::on_connect_request(connection, request);
    }
};

TEST_F(Hostile, AnAnswerInTheNameOfAnotherFunction) {
    const Device other = devices(domain, Side::host).at(1);
    Impostor impostor;
    impostor.welcome.process_id = 1;
    impostor.welcome.port = 1;
    impostor.welcome.side = static_cast<std::uint8_t>(Side::host);
    impostor.welcome.function = other.function().id;
    Connection* const victim = *host.port->connect(dpu.port->address(), {}, nullptr);
    const std::size_t connected = host.seen.connected.size();
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    while (host.seen.ends.empty()) {
        host.progress();
        (void)dpu.port->progress(impostor);
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    EXPECT_EQ(host.seen.ends[0].connection, victim);
    EXPECT_EQ(host.seen.ends[0].reason, Reason::protocol_error);
    EXPECT_EQ(host.seen.connected.size(), connected) << "as function " << victim->peer().function;
}

} // namespace
} // namespace comch::link::verbs
