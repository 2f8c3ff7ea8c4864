// Requests to connect that no correct peer makes, by programs that speak to rdma_cm themselves: each is
// refused with its reason, and those who connect and then say nothing are disconnected.
#include <cstring>
#include <memory>
#include <optional>

#include "core/link/verbs/two_ends_on_device.hpp"

namespace comch::link::verbs {
namespace {

using contract::bytes_of;

/// Not a port: a queue pair, and what its owner likes to say.
class Stranger {
public:
    Stranger(const Address& from, const Address& to) {
        bool resolved = false;
        id_ = *CmId::create_to(channel_, nullptr, from, to, 5000, resolved);
        EXPECT_TRUE(resolved);
        pd_.reset(::ibv_alloc_pd(id_->verbs));
        cq_.reset(::ibv_create_cq(id_->verbs, 8, nullptr, nullptr, 0));
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = cq_.get();
        attr.cap = {.max_send_wr = 1,
                    .max_recv_wr = 1,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
        attr.qp_type = IBV_QPT_RC;
        EXPECT_EQ(::rdma_create_qp(id_.get(), pd_.get(), &attr), 0);
    }
    void ask(const wire::Request& request, std::uint8_t responder_resources = 1,
             std::uint8_t initiator_depth = 1) {
        rdma_conn_param param{};
        param.private_data = &request;
        param.private_data_len = sizeof(request);
        param.responder_resources = responder_resources;
        param.initiator_depth = initiator_depth;
        param.retry_count = 6;
        EXPECT_EQ(::rdma_connect(id_.get(), &param), 0);
    }
    [[nodiscard]] bool hears(CmEvent& event) { return next_event(channel_, event); }

private:
    struct Free {
        void operator()(ibv_pd* pd) const { (void)::ibv_dealloc_pd(pd); }
        void operator()(ibv_cq* cq) const { (void)::ibv_destroy_cq(cq); }
    };
    CmChannel channel_ = *CmChannel::create();
    std::unique_ptr<ibv_pd, Free> pd_;
    std::unique_ptr<ibv_cq, Free> cq_;
    CmId id_; // its queue pair goes first
};

class Admission : public TwoEnds {
protected:
    Address host_address = *Address::parse(host_device.function().address, 0);
    Stranger stranger{host_address,
                      *Address::parse(dpu_device.function().address, Inside::tcp_port(*dpu.port))};

    [[nodiscard]] wire::Request correct() {
        wire::Request request{};
        request.magic = wire::magic;
        request.version = wire::version;
        request.size = sizeof(request);
        request.target = static_cast<std::uint8_t>(wire::Target::port);
        std::memcpy(&request.domain, domain->id().bytes.data(), sizeof(request.domain));
        request.name = Inside::number(*dpu.port);
        request.process_id = 0x1234;
        request.function = host_device.function().id;
        request.side = static_cast<std::uint8_t>(Side::host);
        return request;
    }
    [[nodiscard]] rdma_cm_event_type answer(CmEvent& event) {
        EXPECT_TRUE(until([&] { return stranger.hears(event); }));
        return event.type;
    }
    void expect_refused(wire::Why why) {
        CmEvent event;
        ASSERT_EQ(answer(event), RDMA_CM_EVENT_REJECTED);
        wire::Refusal refusal{};
        ASSERT_EQ(wire::read_private(event.private_data, event.private_length, refusal),
                  wire::Check::ok);
        EXPECT_EQ(static_cast<wire::Why>(refusal.why), why);
        expect_nobody_disturbed();
    }
    void expect_nobody_disturbed() {
        EXPECT_TRUE(Inside::met(*dpu.port).empty());
        EXPECT_EQ(dpu.seen.requests.size(), 1u);
        EXPECT_TRUE(dpu.seen.ends.empty());
        ASSERT_EQ(connection->send(1, bytes_of("hello")), Errc::ok);
        EXPECT_TRUE(until([&] { return !dpu.seen.messages.empty(); }));
    }
};

TEST_F(Admission, WhoConnectsAndThenSaysNothingIsDisconnected) {
    stranger.ask(correct());
    CmEvent event;
    ASSERT_EQ(answer(event), RDMA_CM_EVENT_ESTABLISHED);
    ASSERT_TRUE(until([&] {
        const auto met = Inside::met(*dpu.port);
        return met.size() == 1 &&
               Inside::deadline(*met[0]) <= monotonic_ns() + tuning::hello_timeout_ns;
    }));
    Inside::expire(*Inside::met(*dpu.port)[0]);
    EXPECT_EQ(answer(event), RDMA_CM_EVENT_DISCONNECTED);
    expect_nobody_disturbed();
}

TEST_F(Admission, ForeignWords) {
    wire::Request request = correct();
    request.magic = 0x21212121;
    stranger.ask(request);
    expect_refused(wire::Why::malformed);
}

TEST_F(Admission, AnotherVersion) {
    wire::Request request = correct();
    request.version += 1;
    stranger.ask(request);
    expect_refused(wire::Why::version_mismatch);
}

TEST_F(Admission, AnUnknownTarget) {
    wire::Request request = correct();
    request.target = 77;
    stranger.ask(request);
    expect_refused(wire::Why::malformed);
}

TEST_F(Admission, AnotherDomain) {
    wire::Request request = correct();
    request.domain += 1;
    stranger.ask(request);
    expect_refused(wire::Why::nobody);
}

TEST_F(Admission, AnotherPortsNumber) {
    wire::Request request = correct();
    request.name += 1;
    stranger.ask(request);
    expect_refused(wire::Why::nobody);
}

TEST_F(Admission, AFunctionThatTheAddressIsNotOf) {
    wire::Request request = correct();
    request.function = devices(domain, Side::host).at(1).function().id;
    stranger.ask(request);
    expect_refused(wire::Why::wrong_function);
}

TEST_F(Admission, ASideThatTheAddressIsNotOf) {
    wire::Request request = correct();
    request.function = dpu_device.function().id;
    request.side = static_cast<std::uint8_t>(Side::dpu);
    stranger.ask(request);
    expect_refused(wire::Why::wrong_function);
}

TEST_F(Admission, ASideThatIsNone) {
    wire::Request request = correct();
    request.side = 2;
    stranger.ask(request);
    expect_refused(wire::Why::wrong_function);
}

TEST_F(Admission, AChannelOfNoConnection) {
    wire::Request request = correct();
    request.target = static_cast<std::uint8_t>(wire::Target::channel);
    request.name = 1;
    stranger.ask(request);
    expect_refused(wire::Why::closing);
}

TEST_F(Admission, WhoLetsNobodyRead) {
    stranger.ask(correct(), 0, 1);
    expect_refused(wire::Why::malformed);
}

TEST_F(Admission, WhoNeverReads) {
    stranger.ask(correct(), 1, 0);
    expect_refused(wire::Why::malformed);
}

} // namespace
} // namespace comch::link::verbs
