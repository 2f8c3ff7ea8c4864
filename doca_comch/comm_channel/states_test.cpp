// Endpoints of the 2023 generation: every call in every state, and with everything that is not what
// it should be.
#include <array>
#include <memory>

#include "doca_comch/comm_channel/test_support.hpp"

namespace comch::doca::test {
namespace {

// ---- the states --------------------------------------------------------------------------------

enum StateOf : std::size_t {
    bare,         ///< created, nothing set
    dpu_ready,    ///< device and representor are set
    host_ready,   ///< the device is set
    listening,    ///< a service that nobody has connected to
    serving,      ///< a service with a client
    connecting,   ///< a client that was not accepted yet
    connected,    ///< a client
    failed,       ///< a client whose service is gone, as it has found out
    left,         ///< a client that has disconnected
    destroyed,    ///<
    another_kind, ///< an address for the endpoint, an endpoint for the address
    state_count,
};

/// What a call is made on: an endpoint in its state, and an address: its own connection's if it has
/// one, else one that has ended.
struct Subject {
    doca_comm_channel_ep_t* ep = nullptr;
    doca_comm_channel_addr_t* address = nullptr;
};

/// Brings an endpoint into a state. Everything is torn down with it, whatever the call has done.
class Scene {
public:
    Scene(const Lab& lab, StateOf state)
        : lab_(lab), service_(lab.dpu, lab.representors.at(0)), client_(lab.hosts.at(0)),
          stranger_(lab.dpu, lab.representors.at(1)) {
        EXPECT_EQ(doca_comm_channel_ep_listen(service_, "s"), DOCA_SUCCESS);
        // A service that is nobody's subject, for those who look for one.
        EXPECT_EQ(doca_comm_channel_ep_listen(stranger_, "s"), DOCA_SUCCESS);
        prepare(state);
    }

    Subject subject;

private:
    void prepare(StateOf state) {
        subject.address = ended_address();
        switch (state) {
        case bare:
            subject.ep = make(nullptr);
            break;
        case dpu_ready:
            subject.ep = make(lab_.dpu, lab_.representors.at(0));
            break;
        case host_ready:
            subject.ep = make(lab_.hosts.at(0));
            break;
        case listening:
            subject.ep = service_;
            break;
        case serving:
            subject = {.ep = service_, .address = be_served()};
            break;
        case connecting:
            EXPECT_EQ(client_.connect("s"), DOCA_SUCCESS);
            subject = {.ep = client_, .address = client_.peer};
            break;
        case connected:
            (void)be_served();
            subject = {.ep = client_, .address = client_.peer};
            break;
        case failed:
            (void)be_served();
            EXPECT_EQ(doca_comm_channel_ep_destroy(service_), DOCA_SUCCESS);
            EXPECT_TRUE(
                eventually([&] { return client_.send("x") == DOCA_ERROR_CONNECTION_RESET; }));
            subject = {.ep = client_, .address = client_.peer};
            break;
        case left:
            (void)be_served();
            EXPECT_EQ(doca_comm_channel_ep_disconnect(client_, client_.peer), DOCA_SUCCESS);
            subject = {.ep = client_, .address = client_.peer};
            break;
        case destroyed:
            (void)be_served();
            EXPECT_EQ(doca_comm_channel_ep_destroy(client_), DOCA_SUCCESS);
            subject = {.ep = client_, .address = client_.peer};
            break;
        case another_kind:
            (void)be_served();
            subject = {.ep = reinterpret_cast<doca_comm_channel_ep_t*>(client_.peer),
                       .address = reinterpret_cast<doca_comm_channel_addr_t*>(
                           static_cast<doca_comm_channel_ep_t*>(client_))};
            break;
        case state_count:
            break;
        }
    }

    doca_comm_channel_ep_t* make(doca_dev* device, doca_dev_rep* representor = nullptr) {
        fresh_ =
            device == nullptr ? std::make_unique<Ep>() : std::make_unique<Ep>(device, representor);
        return *fresh_;
    }
    /// The service's address of the client.
    doca_comm_channel_addr_t* be_served() {
        EXPECT_EQ(client_.connect("s"), DOCA_SUCCESS);
        meet(client_, service_);
        doca_comm_channel_addr_t** list = nullptr;
        std::uint32_t count = 0;
        EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(service_), DOCA_SUCCESS);
        EXPECT_EQ(doca_comm_channel_ep_get_peer_addr_list(service_, &list, &count), DOCA_SUCCESS);
        return count == 1 ? list[0] : nullptr;
    }
    doca_comm_channel_addr_t* ended_address() {
        Ep other(lab_.hosts.at(1));
        EXPECT_EQ(other.connect("s"), DOCA_SUCCESS);
        return other.peer;
    }

    const Lab& lab_;
    Ep service_;
    Ep client_;
    Ep stranger_;
    std::unique_ptr<Ep> fresh_;
};

// ---- the calls ---------------------------------------------------------------------------------

constexpr doca_error_t ok = DOCA_SUCCESS;
constexpr doca_error_t invalid = DOCA_ERROR_INVALID_VALUE;
constexpr doca_error_t bad_state = DOCA_ERROR_BAD_STATE;
constexpr doca_error_t not_permitted = DOCA_ERROR_NOT_PERMITTED;
constexpr doca_error_t not_supported = DOCA_ERROR_NOT_SUPPORTED;
constexpr doca_error_t not_connected = DOCA_ERROR_NOT_CONNECTED;
constexpr doca_error_t again = DOCA_ERROR_AGAIN;
constexpr doca_error_t reset = DOCA_ERROR_CONNECTION_RESET;
constexpr doca_error_t aborted = DOCA_ERROR_CONNECTION_ABORTED;
constexpr doca_error_t in_progress = DOCA_ERROR_CONNECTION_INPROGRESS;

/// In the order of StateOf.
using Answers = std::array<doca_error_t, state_count>;

struct Call {
    const char* name;
    std::function<doca_error_t(const Lab&, const Subject&)> make;
    Answers answers;
};

constexpr Answers always(doca_error_t answer) {
    Answers answers{};
    answers.fill(answer);
    return answers;
}
/// Properties change while the endpoint is not active.
constexpr Answers setting{ok,        ok,        ok, bad_state, bad_state, bad_state,
                          bad_state, bad_state, ok, invalid,   invalid};
/// A wrong value is found out after that.
constexpr Answers setting_wrongly{invalid,   invalid,   invalid, bad_state, bad_state, bad_state,
                                  bad_state, bad_state, invalid, invalid,   invalid};
constexpr Answers getting{ok, ok, ok, ok, ok, ok, ok, ok, ok, invalid, invalid};
/// After the first listening or connecting.
constexpr Answers once_active{bad_state, bad_state, bad_state, ok,      ok,     ok,
                              ok,        ok,        ok,        invalid, invalid};
constexpr Answers of_a_service{
    bad_state,     bad_state,     bad_state,     ok,      ok,     not_supported,
    not_supported, not_supported, not_supported, invalid, invalid};
/// Of an address alone.
constexpr Answers of_an_address{invalid, invalid, invalid, invalid, ok,     ok,
                                ok,      ok,      invalid, invalid, invalid};

doca_error_t send(const Subject& s, std::size_t length, int flags) {
    const std::string message(length, 'x');
    return doca_comm_channel_ep_sendto(s.ep, message.data(), length, flags, s.address);
}

doca_error_t receive(const Subject& s, std::size_t room, int flags) {
    std::string buffer(room + 1, '\0');
    doca_comm_channel_addr_t* from = nullptr;
    return doca_comm_channel_ep_recvfrom(s.ep, buffer.data(), &room, flags, &from);
}

template <class F> auto on_ep(F f) {
    return [f](const Lab&, const Subject& s) { return f(s.ep); };
}
template <class T, class F> auto into(F f) {
    return [f](const Lab&, const Subject& s) {
        T value{};
        return f(s.ep, &value);
    };
}
template <class F> auto statistic(F f) {
    return [f](const Lab&, const Subject& s) {
        std::uint64_t value = 0;
        return f(s.address, &value);
    };
}
auto size_setter(doca_error_t (*f)(doca_comm_channel_ep_t*, std::uint16_t), std::uint16_t value) {
    return [=](const Lab&, const Subject& s) { return f(s.ep, value); };
}
auto listen_as(std::string name) {
    return [name](const Lab&, const Subject& s) {
        return doca_comm_channel_ep_listen(s.ep, name.c_str());
    };
}
auto connect_to(std::string name) {
    return [name](const Lab&, const Subject& s) {
        doca_comm_channel_addr_t* peer = nullptr;
        return doca_comm_channel_ep_connect(s.ep, name.c_str(), &peer);
    };
}

std::vector<Call> property_calls() {
    return {
        {"set_device",
         [](const Lab& lab, const Subject& s) {
             return doca_comm_channel_ep_set_device(s.ep, lab.dpu);
         },
         setting},
        {"set_device, of another kind",
         [](const Lab& lab, const Subject& s) {
             return doca_comm_channel_ep_set_device(
                 s.ep, reinterpret_cast<doca_dev*>(lab.representors.at(0)));
         },
         setting_wrongly},
        {"set_device_rep",
         [](const Lab& lab, const Subject& s) {
             return doca_comm_channel_ep_set_device_rep(s.ep, lab.representors.at(0));
         },
         setting},
        {"set_device_rep, of another kind",
         [](const Lab& lab, const Subject& s) {
             return doca_comm_channel_ep_set_device_rep(s.ep,
                                                        reinterpret_cast<doca_dev_rep*>(lab.dpu));
         },
         setting_wrongly},
        {"set_max_msg_size", size_setter(doca_comm_channel_ep_set_max_msg_size, 64), setting},
        {"set_max_msg_size, 0", size_setter(doca_comm_channel_ep_set_max_msg_size, 0),
         setting_wrongly},
        {"set_max_msg_size, too much", size_setter(doca_comm_channel_ep_set_max_msg_size, 4081),
         setting_wrongly},
        {"set_send_queue_size", size_setter(doca_comm_channel_ep_set_send_queue_size, 64), setting},
        {"set_send_queue_size, 0", size_setter(doca_comm_channel_ep_set_send_queue_size, 0),
         setting_wrongly},
        {"set_send_queue_size, too much",
         size_setter(doca_comm_channel_ep_set_send_queue_size, 65535), setting_wrongly},
        {"set_recv_queue_size", size_setter(doca_comm_channel_ep_set_recv_queue_size, 64), setting},
        {"set_recv_queue_size, 0", size_setter(doca_comm_channel_ep_set_recv_queue_size, 0),
         setting_wrongly},
        {"set_recv_queue_size, too much",
         size_setter(doca_comm_channel_ep_set_recv_queue_size, 65535), setting_wrongly},
        {"get_device", into<doca_dev*>(doca_comm_channel_ep_get_device), getting},
        {"get_device_rep", into<doca_dev_rep*>(doca_comm_channel_ep_get_device_rep), getting},
        {"get_max_msg_size", into<std::uint16_t>(doca_comm_channel_ep_get_max_msg_size), getting},
        {"get_send_queue_size", into<std::uint16_t>(doca_comm_channel_ep_get_send_queue_size),
         getting},
        {"get_recv_queue_size", into<std::uint16_t>(doca_comm_channel_ep_get_recv_queue_size),
         getting},
    };
}

std::vector<Call> connection_calls() {
    const std::string too_long(120, 'n');
    return {
        {"listen",
         listen_as("t"),
         {bad_state, ok, not_permitted, not_permitted, not_permitted, not_permitted, not_permitted,
          not_permitted, not_permitted, invalid, invalid}},
        {"listen, the name is taken",
         listen_as("s"),
         {bad_state, aborted, not_permitted, not_permitted, not_permitted, not_permitted,
          not_permitted, not_permitted, not_permitted, invalid, invalid}},
        {"listen, no name", listen_as(""), always(invalid)},
        {"listen, too long a name", listen_as(too_long), always(invalid)},
        {"connect",
         connect_to("s"),
         {bad_state, not_permitted, ok, not_permitted, not_permitted, not_permitted, not_permitted,
          not_permitted, ok, invalid, invalid}},
        {"connect, nobody listens",
         connect_to("nobody"),
         {bad_state, not_permitted, aborted, not_permitted, not_permitted, not_permitted,
          not_permitted, not_permitted, aborted, invalid, invalid}},
        {"connect, no name", connect_to(""), always(invalid)},
        {"connect, too long a name", connect_to(too_long), always(invalid)},
        {"disconnect",
         [](const Lab&, const Subject& s) {
             return doca_comm_channel_ep_disconnect(s.ep, s.address);
         },
         {not_connected, not_connected, not_connected, not_connected, ok, ok, ok, ok, not_connected,
          invalid, invalid}},
        {"destroy",
         on_ep(doca_comm_channel_ep_destroy),
         {ok, ok, ok, ok, ok, ok, ok, ok, ok, not_connected, not_connected}},
    };
}

std::vector<Call> message_calls() {
    return {
        {"sendto",
         [](const Lab&, const Subject& s) { return send(s, 8, 0); },
         {not_connected, not_connected, not_connected, not_connected, ok, again, ok, reset,
          not_connected, invalid, invalid}},
        {"sendto, nothing",
         [](const Lab&, const Subject& s) { return send(s, 0, 0); },
         {not_connected, not_connected, not_connected, not_connected, ok, again, ok, reset,
          not_connected, invalid, invalid}},
        {"sendto, too much",
         [](const Lab&, const Subject& s) { return send(s, 4081, 0); },
         {not_connected, not_connected, not_connected, not_connected, invalid, invalid, invalid,
          invalid, not_connected, invalid, invalid}},
        {"sendto, a flag", [](const Lab&, const Subject& s) { return send(s, 8, 1); },
         always(invalid)},
        {"recvfrom",
         [](const Lab&, const Subject& s) { return receive(s, 4096, 0); },
         {not_connected, not_connected, not_connected, again, again, again, again, reset,
          not_connected, invalid, invalid}},
        {"recvfrom, no room",
         [](const Lab&, const Subject& s) { return receive(s, 0, 0); },
         {not_connected, not_connected, not_connected, again, again, again, again, reset,
          not_connected, invalid, invalid}},
        {"recvfrom, a flag", [](const Lab&, const Subject& s) { return receive(s, 4096, 1); },
         always(invalid)},
        {"get_event_channel",
         [](const Lab&, const Subject& s) {
             int send = -1;
             int recv = -1;
             return doca_comm_channel_ep_get_event_channel(s.ep, &send, &recv);
         },
         once_active},
        {"get_event_channel, none",
         [](const Lab&, const Subject& s) {
             return doca_comm_channel_ep_get_event_channel(s.ep, nullptr, nullptr);
         },
         always(invalid)},
        {"event_handle_arm_send", on_ep(doca_comm_channel_ep_event_handle_arm_send), once_active},
        {"event_handle_arm_recv", on_ep(doca_comm_channel_ep_event_handle_arm_recv), once_active},
    };
}

std::vector<Call> information_calls() {
    return {
        {"set_user_data",
         [](const Lab&, const Subject& s) {
             return doca_comm_channel_peer_addr_set_user_data(s.address, 1);
         },
         of_an_address},
        {"get_user_data", statistic(doca_comm_channel_peer_addr_get_user_data), of_an_address},
        {"update_info",
         [](const Lab&, const Subject& s) {
             return doca_comm_channel_peer_addr_update_info(s.address);
         },
         {invalid, invalid, invalid, invalid, ok, in_progress, ok, aborted, invalid, invalid,
          invalid}},
        {"get_send_messages", statistic(doca_comm_channel_peer_addr_get_send_messages),
         of_an_address},
        {"get_send_bytes", statistic(doca_comm_channel_peer_addr_get_send_bytes), of_an_address},
        {"get_recv_messages", statistic(doca_comm_channel_peer_addr_get_recv_messages),
         of_an_address},
        {"get_recv_bytes", statistic(doca_comm_channel_peer_addr_get_recv_bytes), of_an_address},
        {"get_send_in_flight_messages",
         statistic(doca_comm_channel_peer_addr_get_send_in_flight_messages), of_an_address},
        {"get_service_event_channel", into<int>(doca_comm_channel_ep_get_service_event_channel),
         of_a_service},
        {"update_service_state_info", on_ep(doca_comm_channel_ep_update_service_state_info),
         of_a_service},
        {"get_peer_addr_list",
         [](const Lab&, const Subject& s) {
             doca_comm_channel_addr_t** list = nullptr;
             std::uint32_t count = 0;
             return doca_comm_channel_ep_get_peer_addr_list(s.ep, &list, &count);
         },
         of_a_service},
        {"get_pending_connections",
         into<std::uint32_t>(doca_comm_channel_ep_get_pending_connections), of_a_service},
    };
}

constexpr std::array<const char*, state_count> state_names{
    "bare",    "ready on the DPU", "ready on the host", "listening",
    "serving", "connecting",       "connected",         "failed",
    "left",    "destroyed",        "of another kind"};

/// Each on an endpoint of its own, since a call may change the state.
void expect_answers(const Lab& lab, const std::vector<Call>& calls) {
    for (const Call& call : calls) {
        for (std::size_t state = 0; state < state_count; ++state) {
            Scene scene(lab, static_cast<StateOf>(state));
            EXPECT_EQ(call.make(lab, scene.subject), call.answers[state])
                << call.name << "; the endpoint is " << state_names[state];
        }
    }
}

/// The states are the face's own: one link is enough.
class CommChannelStates : public CommChannel {};

TEST_F(CommChannelStates, PropertyCallsInEveryState) {
    expect_answers(lab, property_calls());
}
TEST_F(CommChannelStates, ConnectionCallsInEveryState) {
    expect_answers(lab, connection_calls());
}
TEST_F(CommChannelStates, MessageCallsInEveryState) {
    expect_answers(lab, message_calls());
}
TEST_F(CommChannelStates, InformationCallsInEveryState) {
    expect_answers(lab, information_calls());
}

// ---- what is not what it should be -------------------------------------------------------------

TEST_F(CommChannelStates, OtherObjectsAreNoEndpointsAndNoAddresses) {
    Ep other(lab.hosts.at(1)); // that nothing changes on
    const std::array<void*, 3> objects{lab.dpu, lab.representors.at(0),
                                       doca_dev_as_devinfo(lab.hosts.at(0))};
    for (const auto& calls :
         {property_calls(), connection_calls(), message_calls(), information_calls()}) {
        for (const Call& call : calls) {
            for (void* const object : objects) {
                const Subject subject{.ep = static_cast<doca_comm_channel_ep_t*>(object),
                                      .address = static_cast<doca_comm_channel_addr_t*>(object)};
                EXPECT_EQ(call.make(lab, subject), call.answers[another_kind]) << call.name;
            }
        }
    }
}

} // namespace
} // namespace comch::doca::test
