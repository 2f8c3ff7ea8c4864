// Who listens under a name: whose messages come from there, and what becomes of those who wait for
// them when one who said that it listens there has gone.
#include <cstdlib>

#include "core/base/test_process.hpp"
#include "test_attacker.hpp"

namespace comch::ofi::test {
namespace {

using comch::test::Line;
using comch::test::Process;

constexpr const char* service = "oracle";
constexpr std::uint64_t left_tag = 99;

/// Leaves a message with the process at the other end of the line, and then only waits to be
/// killed.
void leave_message(Node& node, Line& line) {
    const fi_addr_t peer = node.add(line.get_bytes());
    const std::vector<char> large(100'000);
    post(
        [&] {
            return fi_tsend(node.ep, large.data(), large.size(), nullptr, peer, left_tag, nullptr);
        },
        {node.rx, node.tx});
    (void)line.get<int>();
}

/// A process that does so, once it has said its name.
Process listener(const char* name) {
    return Process([name](Line& line) {
        NodeOptions options;
        options.service = name;
        Node node(options);
        line.put_bytes(node.name());
        leave_message(node, line);
    });
}

template <class Condition> [[nodiscard]] bool until(Condition condition) {
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (!condition()) {
        if (Clock::now() > end) {
            return false;
        }
    }
    return true;
}

/// Is there a message with this tag that nobody has asked for? (A long one goes with its sender.)
bool is_kept(Node& node, std::uint64_t tag) {
    fi_msg_tagged peek{};
    peek.tag = tag;
    peek.addr = FI_ADDR_UNSPEC;
    COMCH_FI(fi_trecvmsg(node.ep, &peek, FI_PEEK));
    return await(node.rx).error == 0;
}

[[nodiscard]] bool comes(Node& node, std::uint64_t tag = left_tag) {
    return until([&] { return is_kept(node, tag); });
}
[[nodiscard]] bool goes(Node& node) {
    return until([&] {
        (void)fi_cq_read(node.tx, nullptr, 0); // who finds a message does not progress
        return !is_kept(node, left_tag);
    });
}

[[nodiscard]] bool connects(Attacker& attacker, Node& node) {
    return until([&] {
        attacker.progress();
        (void)fi_cq_read(node.tx, nullptr, 0);
        return attacker.connected();
    });
}

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
    return {bytes, bytes + text.size()};
}

std::vector<std::byte> tagged(std::uint64_t tag) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&tag);
    return {bytes, bytes + sizeof(tag)};
}

/// The next completion, while the attacker gets on, too.
Event await_with(Attacker& attacker, Node& node) {
    Event event;
    ssize_t result = -FI_EAGAIN;
    EXPECT_TRUE(until([&] {
        attacker.progress();
        result = fi_cq_readfrom(node.rx, &event.entry, 1, &event.source);
        return result != -FI_EAGAIN;
    }));
    if (result == -FI_EAVAIL) {
        EXPECT_EQ(fi_cq_readerr(node.rx, &event.failure, 0), 1);
        event.error = event.failure.err;
        event.entry.op_context = event.failure.op_context;
    }
    return event;
}

/// A receive that is for anybody, and the message for it.
struct Next {
    explicit Next(Node& node) : at(node) {
        COMCH_FI(fi_recv(at.ep, text, sizeof(text), nullptr, FI_ADDR_UNSPEC, this));
    }
    void expect_message() {
        Node friendly;
        const fi_addr_t to = friendly.add(at.name());
        post([&] { return fi_inject(friendly.ep, "hello", 6, to); }, {friendly.tx, at.tx});
        const Event event = await(at.rx, {friendly.tx});
        EXPECT_EQ(event.error, 0);
        EXPECT_EQ(event.entry.op_context, this);
        EXPECT_STREQ(text, "hello");
    }
    Node& at;
    char text[8] = {};
};

struct Names : testing::Test {
    Names() { (void)environment(); }
};

TEST_F(Names, AReceiveIsNotEndedByTheDeathOfOneOfTwoThatSayTheyAreThere) {
    Process first = listener(service);
    Node node;
    const fi_addr_t from = node.look_up(service);
    (void)first.line().get_bytes();
    first.line().put_bytes(node.name());
    ASSERT_TRUE(comes(node));
    Attacker second(node);
    ASSERT_TRUE(connects(second, node));
    ASSERT_EQ(second.claim(address_at(node, from)), Errc::ok);
    std::vector<char> buffer(1'000'000);
    post_multi_receive(node.ep, buffer, from);
    ASSERT_EQ(second.announce(100'000), Errc::ok);
    ASSERT_EQ(second.send(id_of(wire::Kind::message), bytes_of("short")), Errc::ok);
    EXPECT_EQ(await(node.rx).entry.op_context, &buffer); // the long one is on its way
    first.kill();
    ASSERT_TRUE(goes(node));
    Next next(node);
    const Event end = await_with(second, node);
    EXPECT_EQ(end.entry.op_context, &buffer);
    EXPECT_NE(end.error, 0);
    EXPECT_NE(end.error, FI_ECONNRESET);
    next.expect_message();
    ASSERT_EQ(second.send(id_of(wire::Kind::message), bytes_of("short")), Errc::ok);
    EXPECT_EQ(await(node.rx).entry.op_context, &buffer) << "it is still posted";
}

TEST_F(Names, AMultiReceiveThatIsPostedLateEndsAfterTheMessageThatIsOnItsWay) {
    Process first([](Line& line) {
        NodeOptions options;
        options.service = service;
        Node node(options);
        line.put(1);
        char byte = 0;
        COMCH_FI(fi_recv(node.ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
        EXPECT_EQ(await(node.rx).error, 0);
        leave_message(node, line);
    });
    Node node;
    const fi_addr_t from = node.look_up(service);
    Attacker second(node);
    ASSERT_TRUE(connects(second, node));
    ASSERT_EQ(second.claim(address_at(node, from)), Errc::ok);
    ASSERT_EQ(second.send(id_of(wire::Kind::message), bytes_of("short")), Errc::ok);
    char text[8] = {};
    COMCH_FI(fi_recv(node.ep, text, sizeof(text), nullptr, FI_ADDR_UNSPEC, nullptr));
    EXPECT_EQ(await(node.rx).source, from);
    (void)first.line().get<int>();
    post([&] { return fi_inject(node.ep, "x", 1, from); }, {node.tx});
    first.line().put_bytes(node.name());
    ASSERT_TRUE(comes(node));
    first.kill();
    ASSERT_TRUE(goes(node));
    ASSERT_EQ(second.announce(100'000), Errc::ok);
    ASSERT_EQ(second.send(id_of(wire::Kind::message, wire::has_tag), tagged(1)), Errc::ok);
    ASSERT_TRUE(comes(node, 1)); // and the long one was before it
    std::vector<char> buffer(1'000'000);
    post_multi_receive(node.ep, buffer, from);
    Next next(node);
    const Event message = await_with(second, node);
    EXPECT_EQ(message.entry.op_context, &buffer);
    EXPECT_NE(message.error, FI_ECONNRESET);
    const Event end = await_with(second, node);
    EXPECT_EQ(end.entry.op_context, &buffer);
    EXPECT_EQ(end.error, FI_ECONNRESET);
    next.expect_message();
}

/// Dead is the process, not the name, as long as nothing has been sent there.
TEST_F(Names, WhoSpokeFirstAndDiedIsNotWhereTheFirstMessageGoes) {
    Process first = listener(service);
    Process second([](Line& line) {
        const std::vector<char> name = line.get_bytes();
        NodeOptions options;
        options.service = service;
        Node node(options);
        char text[8] = {};
        COMCH_FI(fi_recv(node.ep, text, sizeof(text), nullptr, FI_ADDR_UNSPEC, nullptr));
        const fi_addr_t peer = node.add(name);
        post([&] { return fi_tinject(node.ep, "here", 5, peer, 1); }, {node.rx, node.tx});
        EXPECT_EQ(await(node.rx).error, 0);
        post([&] { return fi_tinject(node.ep, text, 5, peer, 2); }, {node.rx, node.tx});
        (void)line.get<int>();
    });
    Node node;
    const fi_addr_t from = node.look_up(service);
    (void)first.line().get_bytes();
    first.line().put_bytes(node.name());
    ASSERT_TRUE(comes(node));
    first.kill();
    ASSERT_TRUE(goes(node));
    char text[8] = {};
    const auto receive = [&](std::uint64_t tag) {
        COMCH_FI(fi_trecv(node.ep, text, sizeof(text), nullptr, from, tag, 0, nullptr));
        return await(node.rx, {node.tx}).error;
    };
    EXPECT_EQ(receive(1), FI_ECONNRESET) << "nobody else has said that it is there";
    second.line().put_bytes(node.name());
    ASSERT_TRUE(comes(node, 1));
    EXPECT_EQ(receive(1), 0);
    COMCH_FI(fi_trecv(node.ep, text, sizeof(text), nullptr, from, 2, 0, nullptr));
    post([&] { return fi_inject(node.ep, "back", 5, from); }, {node.tx});
    EXPECT_EQ(await(node.rx, {node.tx}).error, 0);
    EXPECT_STREQ(text, "back");
    second.line().put(1);
    EXPECT_EQ(second.wait(), 0);
}

TEST_F(Names, OfAnotherHostFunctionAreNotBelieved) {
    ::setenv("COMCH_SIDE", "host", 1);
    Node node;
    const fi_addr_t from = node.look_up(service);
    ::setenv("COMCH_DEVICE", "host_pf0vf0", 1);
    Attacker stranger(node);
    ::unsetenv("COMCH_DEVICE");
    ASSERT_TRUE(connects(stranger, node));
    ASSERT_EQ(stranger.claim(address_at(node, from)), Errc::ok);
    ASSERT_EQ(stranger.send(id_of(wire::Kind::message), bytes_of("evil")), Errc::ok);
    char text[8] = {};
    COMCH_FI(fi_recv(node.ep, text, sizeof(text), nullptr, from, nullptr));
    COMCH_FI(fi_recv(node.ep, text, sizeof(text), nullptr, FI_ADDR_UNSPEC, text));
    const Event event = await(node.rx);
    EXPECT_EQ(event.entry.op_context, text);
    EXPECT_EQ(event.source, FI_ADDR_NOTAVAIL);
}

TEST_F(Names, WhoDiedIsKnownHoweverManyOthersHaveComeSince) {
    Process dead = listener(nullptr);
    Node node;
    const std::vector<char> port = dead.line().get_bytes();
    dead.line().put_bytes(node.name());
    ASSERT_TRUE(comes(node));
    dead.kill();
    ASSERT_TRUE(goes(node));
    Attacker others(node);
    for (std::uint64_t i = 1; i <= 500; ++i) {
        others.connect_again(node, i);
        ASSERT_TRUE(connects(others, node));
    }
    char byte = 0;
    COMCH_FI(fi_recv(node.ep, &byte, 1, nullptr, node.add(port), nullptr));
    EXPECT_EQ(await(node.rx, {}, 5).error, FI_ECONNRESET);
}

} // namespace
} // namespace comch::ofi::test
