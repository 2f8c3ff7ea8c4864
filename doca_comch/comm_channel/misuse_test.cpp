// Endpoints of the 2023 generation, used wrongly: the documented error, and never a crash.
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include <sys/resource.h>

#include "doca_comch/comm_channel/test_support.hpp"

namespace comch::doca::test {
namespace {

TEST_F(CommChannelPair, NullAndWrongArgumentsAreRefused) {
    char room[8];
    std::size_t length = sizeof(room);
    doca_comm_channel_addr_t* from = nullptr;
    doca_comm_channel_ep_t* const none = nullptr;
    EXPECT_EQ(doca_comm_channel_ep_sendto(none, "x", 1, 0, client.peer), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_sendto(client, nullptr, 1, 0, client.peer),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_sendto(client, "x", 1, 1, client.peer),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_sendto(client, "x", 1, 0, nullptr), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comm_channel_ep_sendto(client, "x", 1, 0, known()), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comm_channel_ep_recvfrom(none, room, &length, 0, &from),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_recvfrom(client, nullptr, &length, 0, &from),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_recvfrom(client, room, nullptr, 0, &from),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_recvfrom(client, room, &length, 0, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_recvfrom(client, room, &length, 2, &from),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(none, client.peer), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(client, nullptr), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(client, known()), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comm_channel_ep_destroy(none), DOCA_ERROR_NOT_CONNECTED);
    std::uint64_t value = 0;
    EXPECT_EQ(doca_comm_channel_peer_addr_set_user_data(nullptr, 1), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_user_data(nullptr, &value), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_user_data(client.peer, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_peer_addr_update_info(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_send_bytes(nullptr, &value),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_recv_bytes(client.peer, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(none), DOCA_ERROR_INVALID_VALUE);
}

TEST_F(CommChannelPair, HandlesUsedAfterTheirEndAreRefused) {
    doca_comm_channel_addr_t* const peer = client.peer;
    ASSERT_EQ(doca_comm_channel_ep_disconnect(client, peer), DOCA_SUCCESS);
    std::uint64_t value = 0;
    EXPECT_EQ(client.send("x", peer), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comm_channel_ep_disconnect(client, peer), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(doca_comm_channel_peer_addr_update_info(peer), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_peer_addr_get_user_data(peer, &value), DOCA_ERROR_INVALID_VALUE);
    doca_comm_channel_addr_t* const known_here = known();
    ASSERT_EQ(doca_comm_channel_ep_destroy(service), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_destroy(service), DOCA_ERROR_NOT_CONNECTED);
    EXPECT_EQ(service.receive(), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(service.send("x", known_here), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_ERROR_INVALID_VALUE);
    if (known_here != nullptr) {
        EXPECT_EQ(doca_comm_channel_peer_addr_update_info(known_here), DOCA_ERROR_INVALID_VALUE);
    }
}

TEST_F(CommChannelPair, AnAddressMayEndWhileAnotherThreadAsksAboutIt) {
    std::atomic<doca_comm_channel_addr_t*> address = client.peer;
    std::atomic<bool> done = false;
    std::thread asking([&] {
        while (!done) {
            const doca_error_t result = doca_comm_channel_peer_addr_update_info(address);
            EXPECT_TRUE(result == DOCA_SUCCESS || result == DOCA_ERROR_INVALID_VALUE ||
                        result == DOCA_ERROR_CONNECTION_INPROGRESS)
                << result;
        }
    });
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(doca_comm_channel_ep_disconnect(client, client.peer), DOCA_SUCCESS);
        EXPECT_EQ(client.connect("s"), DOCA_SUCCESS);
        address = client.peer;
        EXPECT_TRUE(eventually([&] {
            (void)service.receive();
            return client.update() == DOCA_SUCCESS;
        }));
    }
    done = true;
    asking.join();
}

TEST_F(CommChannelPair, OnlyAServiceTellsOfAService) {
    std::uint32_t count = 0;
    doca_comm_channel_addr_t** list = nullptr;
    int channel = -1;
    EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(client), DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comm_channel_ep_get_peer_addr_list(client, &list, &count),
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comm_channel_ep_get_pending_connections(client, &count),
              DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_comm_channel_ep_get_service_event_channel(client, &channel),
              DOCA_ERROR_NOT_SUPPORTED);
    Ep idle;
    EXPECT_EQ(doca_comm_channel_ep_get_service_event_channel(idle, &channel), DOCA_ERROR_BAD_STATE);
    EXPECT_EQ(doca_comm_channel_ep_get_peer_addr_list(service, nullptr, &count),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_get_pending_connections(service, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_get_service_event_channel(service, nullptr),
              DOCA_ERROR_INVALID_VALUE);
}

TEST_F(CommChannelPair, AnAddressOfAnotherEndpointIsRefused) {
    Ep other(lab.hosts.at(1));
    Ep elsewhere(lab.dpu, lab.representors.at(1));
    ASSERT_EQ(doca_comm_channel_ep_listen(elsewhere, "s"), DOCA_SUCCESS);
    ASSERT_EQ(other.connect("s"), DOCA_SUCCESS);
    meet(other, elsewhere);
    doca_comm_channel_addr_t* const served = known();
    for (Ep* const ep : {&service, &client, &other, &elsewhere}) {
        for (doca_comm_channel_addr_t* const address : {served, client.peer, other.peer}) {
            const bool own = (ep == &service && address == served) || address == ep->peer;
            if (!own) {
                EXPECT_EQ(ep->send("x", address), DOCA_ERROR_NOT_CONNECTED);
                EXPECT_EQ(doca_comm_channel_ep_disconnect(*ep, address), DOCA_ERROR_NOT_CONNECTED);
            }
        }
    }
    EXPECT_EQ(client.send("the right one"), DOCA_SUCCESS); // and nobody is the worse for it
    EXPECT_EQ(service.await(), DOCA_SUCCESS);
    EXPECT_EQ(service.text, "the right one");
}

/// These take two domains.
class CommChannelDomains : public CommChannel {};

TEST_F(CommChannelDomains, ClosedDevicesAreRefused) {
    doca_dev* device = nullptr;
    doca_dev_rep* representor = nullptr;
    {
        Lab other; // a domain of its own, so that its devices are closed with it
        other.open();
        device = other.dpu;
        representor = other.representors.at(0);
    }
    Ep ep;
    EXPECT_EQ(doca_comm_channel_ep_set_device(ep, device), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_set_device_rep(ep, representor), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dev_close(device), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dev_rep_close(representor), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_listen(ep, "s"), DOCA_ERROR_BAD_STATE); // nothing is set
}

TEST_F(CommChannelDomains, ARepresentorOfAnotherDomainIsRefused) {
    Lab other;
    other.open();
    Ep service(lab.dpu, other.representors.at(0));
    EXPECT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_comm_channel_ep_set_device_rep(service, rep()), DOCA_SUCCESS);
    EXPECT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
}

TEST_F(CommChannel, ArraysThatAreVoidAreStillReadable) {
    Ep service(lab.dpu, rep());
    ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
    doca_comm_channel_addr_t** before = nullptr;
    doca_comm_channel_addr_t** list = nullptr;
    std::uint32_t count = 7;
    ASSERT_EQ(doca_comm_channel_ep_get_peer_addr_list(service, &list, &count), DOCA_SUCCESS);
    EXPECT_EQ(count, 0u); // no snapshot was taken yet
    std::vector<std::unique_ptr<Ep>> clients;
    for (std::uint32_t i = 1; i <= 20; ++i) {
        clients.push_back(std::make_unique<Ep>(host()));
        ASSERT_EQ(clients.back()->connect("s"), DOCA_SUCCESS);
        meet(*clients.back(), service);
        // What was taken holds until the next is taken.
        ASSERT_EQ(doca_comm_channel_ep_get_peer_addr_list(service, &list, &count), DOCA_SUCCESS);
        ASSERT_EQ(count, i - 1);
        ASSERT_EQ(doca_comm_channel_ep_update_service_state_info(service), DOCA_SUCCESS);
        ASSERT_EQ(doca_comm_channel_ep_get_peer_addr_list(service, &list, &count), DOCA_SUCCESS);
        ASSERT_EQ(count, i);
        if (before != nullptr) {
            // Void, but what it has leads to an answer.
            EXPECT_EQ(service.send("x", before[0]), DOCA_SUCCESS);
        } else {
            before = list;
        }
    }
    const std::vector<doca_comm_channel_addr_t*> all(list, list + count);
    for (doca_comm_channel_addr_t* const peer : all) {
        ASSERT_EQ(doca_comm_channel_ep_disconnect(service, peer), DOCA_SUCCESS);
    }
    for (std::uint32_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(list[i], all[i]); // still the snapshot
    }
    ASSERT_EQ(doca_comm_channel_ep_update_service_state_info(service), DOCA_SUCCESS);
    for (std::uint32_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(service.send("x", list[i]), DOCA_ERROR_NOT_CONNECTED);
    }
}

// ---- a process without descriptors --------------------------------------------------------------

/// A connection with a message, and all channels. The first error; the endpoints are destroyed.
doca_error_t try_everything(const Lab& lab) {
    struct Pair {
        doca_comm_channel_ep_t* service = nullptr;
        doca_comm_channel_ep_t* client = nullptr;
        ~Pair() {
            for (doca_comm_channel_ep_t* const ep : {service, client}) {
                EXPECT_EQ(doca_comm_channel_ep_destroy(ep),
                          ep != nullptr ? DOCA_SUCCESS : DOCA_ERROR_NOT_CONNECTED);
            }
        }
    } pair;
    doca_comm_channel_addr_t* peer = nullptr;
    int one = -1;
    int other = -1;
    const std::function<doca_error_t()> steps[] = {
        [&] { return doca_comm_channel_ep_create(&pair.service); },
        [&] { return doca_comm_channel_ep_create(&pair.client); },
        [&] { return doca_comm_channel_ep_set_device(pair.service, lab.dpu); },
        [&] { return doca_comm_channel_ep_set_device_rep(pair.service, lab.representors.at(0)); },
        [&] { return doca_comm_channel_ep_set_device(pair.client, lab.hosts.at(0)); },
        [&] { return doca_comm_channel_ep_listen(pair.service, "s"); },
        [&] { return doca_comm_channel_ep_connect(pair.client, "s", &peer); },
        [&] {
            doca_error_t result = DOCA_ERROR_CONNECTION_INPROGRESS;
            EXPECT_TRUE(eventually([&] {
                char room[8];
                std::size_t length = sizeof(room);
                doca_comm_channel_addr_t* from = nullptr;
                const doca_error_t received =
                    doca_comm_channel_ep_recvfrom(pair.service, room, &length, 0, &from);
                result = doca_comm_channel_peer_addr_update_info(peer);
                return received != DOCA_ERROR_AGAIN || result != DOCA_ERROR_CONNECTION_INPROGRESS;
            }));
            return result;
        },
        [&] { return doca_comm_channel_ep_get_event_channel(pair.service, &one, &other); },
        [&] { return doca_comm_channel_ep_event_handle_arm_recv(pair.service); },
        [&] { return doca_comm_channel_ep_get_service_event_channel(pair.service, &one); },
        [&] { return doca_comm_channel_ep_update_service_state_info(pair.service); },
        [&] { return doca_comm_channel_ep_sendto(pair.client, "x", 1, 0, peer); },
    };
    for (const auto& step : steps) {
        if (const doca_error_t result = step(); result != DOCA_SUCCESS) {
            return result;
        }
    }
    return DOCA_SUCCESS;
}

TEST_F(CommChannelResources, WithoutDescriptorsThereAreErrors) {
    ASSERT_EQ(try_everything(lab), DOCA_SUCCESS); // what is opened once is open then
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = ::dup(0); // the lowest that is free
    ASSERT_GE(next, 0);
    ::close(next);
    int failures = 0;
    for (rlim_t more = 0; more < 40; ++more) {
        const rlimit scarce{.rlim_cur = static_cast<rlim_t>(next) + more,
                            .rlim_max = before.rlim_max};
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &scarce), 0);
        const doca_error_t result = try_everything(lab);
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
        failures += result != DOCA_SUCCESS ? 1 : 0;
        if (more == 0) {
            EXPECT_EQ(result, DOCA_ERROR_INITIALIZATION); // of creating
        }
        ASSERT_EQ(try_everything(lab), DOCA_SUCCESS)
            << "after " << more << ": nothing stays behind";
    }
    EXPECT_GT(failures, 5);
    EXPECT_LT(failures, 40); // that many are enough
}

} // namespace
} // namespace comch::doca::test
