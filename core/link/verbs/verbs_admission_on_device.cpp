// Requests to connect that no correct peer makes, by programs that speak to rdma_cm themselves: each is
// refused with its reason, and those who connect and then say nothing are disconnected.
#include <cstring>
#include <memory>
#include <string>

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

/// A request that is right but for one thing.
struct Wrong {
    const char* what;
    wire::Why why;
    void (*change)(wire::Request& request, const std::shared_ptr<Domain>& domain);
    std::uint8_t responder_resources = 1;
    std::uint8_t initiator_depth = 1;
};

class WrongRequest : public Admission, public testing::WithParamInterface<Wrong> {};

TEST_P(WrongRequest, IsRefusedAndSaysWhy) {
    wire::Request request = correct();
    GetParam().change(request, domain);
    stranger.ask(request, GetParam().responder_resources, GetParam().initiator_depth);
    expect_refused(GetParam().why);
}

using Request = wire::Request;
using Where = std::shared_ptr<Domain>;
INSTANTIATE_TEST_SUITE_P(
    , WrongRequest,
    testing::Values(
        Wrong{"ForeignWords", wire::Why::malformed,
              [](Request& r, const Where&) { r.magic = 0x21212121; }},
        Wrong{"AnotherVersion", wire::Why::version_mismatch,
              [](Request& r, const Where&) { r.version += 1; }},
        Wrong{"AnUnknownTarget", wire::Why::malformed,
              [](Request& r, const Where&) { r.target = 77; }},
        Wrong{"AnotherDomain", wire::Why::nobody, [](Request& r, const Where&) { r.domain += 1; }},
        Wrong{"AnotherPortsNumber", wire::Why::nobody,
              [](Request& r, const Where&) { r.name += 1; }},
        Wrong{"AFunctionThatTheAddressIsNotOf", wire::Why::wrong_function,
              [](Request& r, const Where& domain) {
                  r.function = devices(domain, Side::host).at(1).function().id;
              }},
        Wrong{"ASideThatTheAddressIsNotOf", wire::Why::wrong_function,
              [](Request& r, const Where& domain) {
                  r.function = devices(domain, Side::dpu).at(0).function().id;
                  r.side = static_cast<std::uint8_t>(Side::dpu);
              }},
        Wrong{"ASideThatIsNone", wire::Why::wrong_function,
              [](Request& r, const Where&) { r.side = 2; }},
        Wrong{"AChannelOfNoConnection", wire::Why::closing,
              [](Request& r, const Where&) {
                  r.target = static_cast<std::uint8_t>(wire::Target::channel);
                  r.name = 1;
              }},
        Wrong{"WhoLetsNobodyRead", wire::Why::malformed, [](Request&, const Where&) {}, 0, 1},
        Wrong{"WhoNeverReads", wire::Why::malformed, [](Request&, const Where&) {}, 1, 0}),
    [](const auto& wrong) { return std::string(wrong.param.what); });

} // namespace
} // namespace comch::link::verbs
