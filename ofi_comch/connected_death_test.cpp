// A connected peer that is killed. ("Death": over RDMA devices these are run in a process each.)
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/test_process.hpp"
#include "test_connection.hpp"

namespace comch::ofi::test {
namespace {

using comch::test::Line;
using comch::test::Process;

/// Accepts one connection to `service` on the DPU, and does `then` with it.
template <class Then> Process server(const char* service, Then then) {
    return Process([service, then](Line& line) {
        ::setenv("COMCH_SIDE", "dpu", 1);
        Listener listener(service);
        line.put(1);
        const CmEvent request = next_event(listener.eq);
        ASSERT_EQ(request.event, static_cast<std::uint32_t>(FI_CONNREQ));
        {
            Node node(connected(), request.info, listener.fabric);
            COMCH_FI(fi_accept(node.ep, nullptr, 0));
            ASSERT_EQ(next_event(node.eq).event, static_cast<std::uint32_t>(FI_CONNECTED));
            then(node, line);
        }
        fi_freeinfo(request.info);
    });
}

TEST(Death, OfAConnectedPeerFailsWhatIsOutstandingAndNothingElse) {
    (void)environment();
    Process victim = server("victim", [](Node&, Line& line) {
        (void)line.get<int>(); // never progresses again
    });
    Process bystander = server("bystander", [](Node& node, Line& line) {
        char buffer[8] = {};
        COMCH_FI(fi_recv(node.ep, buffer, 8, nullptr, 0, nullptr));
        EXPECT_EQ(await(node.rx).entry.len, 6u);
        post([&] { return fi_send(node.ep, buffer, 6, nullptr, 0, nullptr); }, {node.tx});
        EXPECT_EQ(await(node.tx).error, 0);
        (void)line.get<int>();
    });
    ::setenv("COMCH_SIDE", "host", 1);
    EXPECT_EQ(victim.line().get<int>(), 1);
    EXPECT_EQ(bystander.line().get<int>(), 1);
    Client lost("victim");
    Client other("bystander");
    for (Client* const client : {&lost, &other}) {
        ASSERT_EQ(client->result, 0);
        ASSERT_EQ(next_event(client->node.eq).event, static_cast<std::uint32_t>(FI_CONNECTED));
    }

    std::vector<char> large(1000000);
    char there[8] = {};
    std::uint64_t value = 1;
    std::uint64_t before = 0;
    int send = 0;
    int atomic = 0;
    int any = 0;
    int tagged = 0;
    Node& node = lost.node;
    const std::vector<fid_cq*> cqs = {node.tx, node.rx};
    post([&] { return fi_tsend(node.ep, large.data(), large.size(), nullptr, 0, 1, &send); }, cqs);
    post(
        [&] {
            return fi_fetch_atomic(node.ep, &value, 1, nullptr, &before, nullptr, 0, 0, 1,
                                   FI_UINT64, FI_SUM, &atomic);
        },
        cqs);
    COMCH_FI(fi_recv(node.ep, there, 8, nullptr, 0, &any));
    COMCH_FI(fi_trecv(node.ep, there, 8, nullptr, 0, 5, 0, &tagged));
    victim.kill();
    for (fid_cq* const cq : cqs) {
        std::vector<void*> failed;
        for (int i = 0; i < 2; ++i) {
            const Event event = await(cq, cqs);
            EXPECT_EQ(event.error, FI_ECONNRESET) << fi_strerror(event.error);
            failed.push_back(event.failure.op_context);
        }
        for (void* const context : cq == node.tx ? std::vector<void*>{&send, &atomic}
                                                 : std::vector<void*>{&any, &tagged}) {
            EXPECT_NE(std::find(failed.begin(), failed.end(), context), failed.end());
        }
    }
    EXPECT_EQ(next_event(node.eq).event, static_cast<std::uint32_t>(FI_SHUTDOWN));

    COMCH_FI(fi_recv(other.node.ep, there, 8, nullptr, 0, &any));
    post([&] { return fi_send(other.node.ep, "still", 6, nullptr, 0, nullptr); }, {other.node.tx});
    EXPECT_EQ(await(other.node.tx, {other.node.rx}).error, 0);
    EXPECT_EQ(await(other.node.rx, {other.node.tx}).error, 0);
    EXPECT_STREQ(there, "still");
    bystander.line().put(1);
    EXPECT_EQ(bystander.wait(), 0);
}

} // namespace
} // namespace comch::ofi::test
