// FI_PROGRESS_AUTO: peers are served while the program does not call into libfabric.
#include <thread>

#include "core/base/test_process.hpp"
#include "test_connection.hpp"

namespace comch::ofi::test {
namespace {

using comch::test::Line;
using comch::test::Process;

constexpr std::size_t large = 1000000;
constexpr std::size_t small = 64;

NodeOptions automatic(fi_threading threading = FI_THREAD_SAFE) {
    NodeOptions options;
    options.progress = FI_PROGRESS_AUTO;
    options.threading = threading;
    return options;
}

TEST(Progress, IsManualUnlessAskedFor) {
    fi_info* const manual = query(nullptr);
    ASSERT_NE(manual, nullptr);
    EXPECT_EQ(manual->domain_attr->data_progress, FI_PROGRESS_MANUAL);
    EXPECT_EQ(manual->domain_attr->control_progress, FI_PROGRESS_MANUAL);
    fi_freeinfo(manual);
    InfoHints hints;
    hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
    fi_info* const automatic = query(hints.value);
    ASSERT_NE(automatic, nullptr);
    EXPECT_EQ(automatic->domain_attr->data_progress, FI_PROGRESS_AUTO);
    EXPECT_EQ(automatic->domain_attr->control_progress, FI_PROGRESS_AUTO);
    fi_freeinfo(automatic);
}

class AutomaticProgress : public testing::TestWithParam<fi_threading> {};

TEST_P(AutomaticProgress, ServesPeersOfAProgramThatDoesNotCall) {
    (void)environment();
    Process target([&](Line& line) {
        ::setenv("COMCH_SIDE", "dpu", 1);
        Node node(automatic(GetParam()));
        line.put_bytes(node.name());
        (void)node.add(line.get_bytes());
        std::vector<char> memory(large);
        std::vector<char> received(large);
        char first[small] = {};
        std::uint64_t word = 7;
        node.expose(memory.data(), memory.size(), 1);
        node.expose(&word, sizeof(word), 2);
        COMCH_FI(fi_recv(node.ep, first, small, nullptr, FI_ADDR_UNSPEC, nullptr));
        COMCH_FI(fi_trecv(node.ep, received.data(), large, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
        line.put(1);
        (void)line.get<int>(); // nothing of libfabric is called until all is over
        // Before the memory is looked at: the thread that filled it has let go of the lock by then.
        EXPECT_EQ(await(node.rx).entry.len, small);
        EXPECT_EQ(await(node.rx).entry.len, large);
        EXPECT_EQ(memory, pattern(large, 1));
        EXPECT_EQ(received, pattern(large, 2));
        EXPECT_EQ(std::vector<char>(first, first + small), pattern(small, 3));
        EXPECT_EQ(word, 12u);
    });
    ::setenv("COMCH_SIDE", "host", 1);
    Node node;
    const fi_addr_t to = node.add(target.line().get_bytes());
    target.line().put_bytes(node.name());
    (void)target.line().get<int>();
    const auto finish = [&](auto&& call) {
        post(call, {node.tx});
        EXPECT_EQ(await(node.tx).error, 0);
    };
    const auto opening = pattern(small, 3);
    fi_msg message{};
    const iovec part{const_cast<char*>(opening.data()), small};
    message.msg_iov = &part;
    message.iov_count = 1;
    message.addr = to;
    finish([&] { return fi_sendmsg(node.ep, &message, FI_DELIVERY_COMPLETE | FI_COMPLETION); });
    const auto written = pattern(large, 1);
    finish([&] { return fi_write(node.ep, written.data(), large, nullptr, to, 0, 1, nullptr); });
    std::vector<char> seen(large);
    finish([&] { return fi_read(node.ep, seen.data(), large, nullptr, to, 0, 1, nullptr); });
    EXPECT_EQ(seen, written);
    const std::uint64_t five = 5;
    std::uint64_t before = 0;
    finish([&] {
        return fi_fetch_atomic(node.ep, &five, 1, nullptr, &before, nullptr, to, 0, 2, FI_UINT64,
                               FI_SUM, nullptr);
    });
    EXPECT_EQ(before, 7u);
    const auto sent = pattern(large, 2);
    finish([&] { return fi_tsend(node.ep, sent.data(), large, nullptr, to, 1, nullptr); });
    target.line().put(1);
    EXPECT_EQ(target.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(Threading, AutomaticProgress,
                         testing::Values(FI_THREAD_SAFE, FI_THREAD_DOMAIN));

TEST(Progress, ThreadAndProgramDoNotDisturbEachOther) {
    Pair pair(automatic());
    const auto data = pattern(large, 1);
    std::vector<char> buffer(large);
    for (unsigned i = 0; i < 300; ++i) {
        const std::size_t length = i % 3 == 0 ? large / 10 : small;
        COMCH_FI(
            fi_recv(pair.b.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, nullptr));
        post([&] { return fi_send(pair.a.ep, data.data(), length, nullptr, pair.to_b, nullptr); },
             {});
        if (i % 10 == 0) { // long enough for the threads to take over
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
        }
        EXPECT_EQ(await(pair.a.tx).error, 0);
        EXPECT_EQ(await(pair.b.rx).entry.len, length);
        EXPECT_EQ(std::memcmp(buffer.data(), data.data(), length), 0);
    }
}

TEST(Progress, WakesWhoSleepsOnAQueue) {
    NodeOptions options = automatic();
    options.wait_object = FI_WAIT_FD;
    Pair pair(options);
    for (unsigned i = 0; i < 100; ++i) {
        char byte = 0;
        COMCH_FI(fi_recv(pair.b.ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
        post([&] { return fi_inject(pair.a.ep, "x", 1, pair.to_b); }, {});
        fi_cq_tagged_entry entry{};
        ASSERT_EQ(fi_cq_sread(pair.b.rx, &entry, 1, nullptr, 60'000), 1);
        EXPECT_EQ(byte, 'x');
    }
}

TEST(Progress, ServesConnectedEndpoints) {
    Listener listener("always-open");
    Client client("always-open");
    ASSERT_EQ(client.result, 0);
    const CmEvent request = next_event(listener.eq, {client.node.eq});
    NodeOptions options = connected();
    options.progress = FI_PROGRESS_AUTO;
    {
        Node server(options, request.info, listener.fabric);
        std::vector<char> received(large);
        std::vector<char> memory(large);
        server.expose(memory.data(), large, 1);
        COMCH_FI(fi_recv(server.ep, received.data(), large, nullptr, 0, nullptr));
        COMCH_FI(fi_accept(server.ep, nullptr, 0));
        EXPECT_EQ(next_event(client.node.eq).event, static_cast<std::uint32_t>(FI_CONNECTED));
        const auto data = pattern(large, 1);
        const auto call = [&](auto&& begin) {
            post(begin, {client.node.tx});
            EXPECT_EQ(await(client.node.tx).error, 0);
        };
        call([&] { return fi_send(client.node.ep, data.data(), large, nullptr, 0, nullptr); });
        call([&] {
            return fi_write(client.node.ep, data.data(), large, nullptr, 0, 0, 1, nullptr);
        });
        EXPECT_EQ(await(server.rx).entry.len, large);
        EXPECT_EQ(received, data);
        EXPECT_EQ(memory, data);
    }
    fi_freeinfo(request.info);
}

} // namespace
} // namespace comch::ofi::test
