// Endpoints of the 2023 generation: how much of everything there may be, exactly.
#include <deque>
#include <set>

#include <sys/resource.h>

#include "doca_comch/comm_channel/test_support.hpp"

namespace comch::doca::test {
namespace {

/// A service and a client with these sizes.
struct Sizes {
    std::uint16_t message = 0; ///< 0: as they are
    std::uint16_t send = 0;
    std::uint16_t recv = 0;

    void set(Ep& ep) const {
        if (message != 0) {
            EXPECT_EQ(doca_comm_channel_ep_set_max_msg_size(ep, message), DOCA_SUCCESS);
        }
        if (send != 0) {
            EXPECT_EQ(doca_comm_channel_ep_set_send_queue_size(ep, send), DOCA_SUCCESS);
        }
        if (recv != 0) {
            EXPECT_EQ(doca_comm_channel_ep_set_recv_queue_size(ep, recv), DOCA_SUCCESS);
        }
    }
};

class CommChannelLimits : public CommChannel {
protected:
    CommChannelLimits() : service(lab.dpu, rep()), client(host()) {}
    void connect(const Sizes& of_service, const Sizes& of_client, const char* name = "s") {
        of_service.set(service);
        of_client.set(client);
        ASSERT_EQ(doca_comm_channel_ep_listen(service, name), DOCA_SUCCESS);
        ASSERT_EQ(client.connect(name), DOCA_SUCCESS);
        meet(client, service);
    }
    /// Sends until there is no room; how many that were.
    int fill() {
        int sent = 0;
        while (client.send(std::to_string(sent)) == DOCA_SUCCESS) {
            ++sent;
        }
        EXPECT_EQ(client.send("more"), DOCA_ERROR_AGAIN);
        return sent;
    }
    void expect_numbers(int count) {
        for (int i = 0; i < count; ++i) {
            ASSERT_EQ(service.await(), DOCA_SUCCESS);
            ASSERT_EQ(service.text, std::to_string(i));
        }
    }

    Ep service;
    Ep client;
};

TEST_F(CommChannelLimits, WhatADeviceSaysCanBeSet) {
    doca_devinfo* const info = doca_dev_as_devinfo(host());
    const struct {
        doca_error_t (*most)(doca_devinfo*, std::uint32_t*);
        doca_error_t (*set)(doca_comm_channel_ep_t*, std::uint16_t);
        doca_error_t (*get)(doca_comm_channel_ep_t*, std::uint16_t*);
    } properties[] = {
        {doca_comm_channel_get_max_message_size, doca_comm_channel_ep_set_max_msg_size,
         doca_comm_channel_ep_get_max_msg_size},
        {doca_comm_channel_get_max_send_queue_size, doca_comm_channel_ep_set_send_queue_size,
         doca_comm_channel_ep_get_send_queue_size},
        {doca_comm_channel_get_max_recv_queue_size, doca_comm_channel_ep_set_recv_queue_size,
         doca_comm_channel_ep_get_recv_queue_size},
    };
    for (const auto& property : properties) {
        std::uint32_t most = 0;
        std::uint16_t value = 0;
        ASSERT_EQ(property.most(info, &most), DOCA_SUCCESS);
        EXPECT_EQ(property.set(client, static_cast<std::uint16_t>(most)), DOCA_SUCCESS);
        EXPECT_EQ(property.get(client, &value), DOCA_SUCCESS);
        EXPECT_EQ(value, most);
        // What is refused changes nothing.
        EXPECT_EQ(property.set(client, static_cast<std::uint16_t>(most + 1)),
                  DOCA_ERROR_INVALID_VALUE);
        EXPECT_EQ(property.set(client, 0), DOCA_ERROR_INVALID_VALUE);
        EXPECT_EQ(property.get(client, &value), DOCA_SUCCESS);
        EXPECT_EQ(value, most);
    }
}

TEST_F(CommChannelLimits, ARaisedMessageSizeHolds) {
    connect({.message = 1}, {.message = 1});
    const std::string longest(32, 'x');
    EXPECT_EQ(client.send(longest), DOCA_SUCCESS);
    EXPECT_EQ(service.await(), DOCA_SUCCESS);
    EXPECT_EQ(service.text, longest);
    EXPECT_EQ(client.send(longest + 'x'), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(service.send(longest + 'x', service.from), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(service.send(longest, service.from), DOCA_SUCCESS);
    EXPECT_EQ(client.await(), DOCA_SUCCESS);
    EXPECT_EQ(client.text, longest);
}

TEST_F(CommChannelLimits, AMessageOfNothingIsAMessage) {
    connect({}, {});
    EXPECT_EQ(client.send(""), DOCA_SUCCESS);
    EXPECT_EQ(client.send("after it"), DOCA_SUCCESS);
    char room[16];
    std::size_t length = 0;
    doca_comm_channel_addr_t* from = nullptr;
    ASSERT_TRUE(eventually([&] {
        length = 0; // which is room enough
        return doca_comm_channel_ep_recvfrom(service, room, &length, 0, &from) == DOCA_SUCCESS;
    }));
    EXPECT_EQ(length, 0u);
    EXPECT_EQ(doca_comm_channel_peer_addr_update_info(from), DOCA_SUCCESS);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_recv_messages, from), 1u);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_recv_bytes, from), 0u);
    EXPECT_EQ(service.await(), DOCA_SUCCESS);
    EXPECT_EQ(service.text, "after it");
}

// ---- queues ------------------------------------------------------------------------------------

TEST_F(CommChannelLimits, TheSendersQueueBoundsWhatIsUnderWay) {
    connect({.recv = 1024}, {.send = 16});
    EXPECT_EQ(fill(), 16);
    expect_numbers(16);
}

TEST_F(CommChannelLimits, TheReceiversQueueBoundsWhatIsUnderWay) {
    connect({.recv = 16}, {.send = 1024});
    EXPECT_EQ(fill(), 16);
    expect_numbers(16);
}

/// They are bounds: the link may be full before. What it took is under way, and arrives.
TEST_F(CommChannelLimits, TheDeepestQueuesAreBounds) {
    connect({.message = 32, .recv = 8192}, {.message = 32, .send = 8192});
    const int sent = fill();
    EXPECT_GT(sent, 0);
    EXPECT_LE(sent, 8192);
    EXPECT_EQ(client.update(), DOCA_SUCCESS);
    EXPECT_EQ(value_of(doca_comm_channel_peer_addr_get_send_in_flight_messages, client.peer),
              static_cast<std::uint64_t>(sent));
    expect_numbers(sent);
}

TEST_F(CommChannelLimits, EachConnectionHasAQueueOfItsOwn) {
    connect({}, {.send = 4});
    Ep other(host());
    Sizes{.send = 4}.set(other);
    ASSERT_EQ(other.connect("s"), DOCA_SUCCESS);
    meet(other, service);
    EXPECT_EQ(fill(), 4);
    EXPECT_EQ(other.send("not held up"), DOCA_SUCCESS);
    expect_numbers(4);
    EXPECT_EQ(service.await(), DOCA_SUCCESS);
    EXPECT_EQ(service.text, "not held up");
}

// ---- names and clients -------------------------------------------------------------------------

TEST_F(CommChannelLimits, TheLongestNameAndAnyCharactersWillDo) {
    const std::string longest(119, 'n');
    for (const std::string& name :
         {longest, std::string("../a b/%s\n"), std::string("\xc3\xbc\xff"), std::string(".")}) {
        Ep one(lab.dpu, rep());
        Ep other(host());
        ASSERT_EQ(doca_comm_channel_ep_listen(one, name.c_str()), DOCA_SUCCESS) << name;
        EXPECT_EQ(other.connect(name.substr(0, name.size() - 1).append("N").c_str()),
                  DOCA_ERROR_CONNECTION_ABORTED)
            << name;
        ASSERT_EQ(other.connect(name.c_str()), DOCA_SUCCESS) << name;
        meet(other, one);
    }
}

/// There must be descriptors for them.
class CommChannelCrowd : public CommChannelLimits {};

TEST_F(CommChannelCrowd, AServiceTakesAsManyClientsAsItsDeviceSays) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit raised{.rlim_cur = before.rlim_max, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &raised), 0);
    std::uint32_t most = 0;
    ASSERT_EQ(
        doca_comm_channel_get_service_max_num_connections(doca_dev_as_devinfo(lab.dpu), &most),
        DOCA_SUCCESS);
    const Sizes small{.message = 32, .send = 4, .recv = 4};
    connect(small, small);
    {
        std::deque<Ep> others;
        for (std::uint32_t i = 1; i < most; ++i) {
            small.set(others.emplace_back(host()));
            ASSERT_EQ(others.back().connect("s"), DOCA_SUCCESS) << i;
            meet(others.back(), service);
            ASSERT_FALSE(HasFailure()) << "client " << i;
        }
        ASSERT_EQ(others.back().send("the last"), DOCA_SUCCESS);
        ASSERT_EQ(service.await(), DOCA_SUCCESS);
        EXPECT_EQ(service.text, "the last");

        Ep late(host());
        small.set(late);
        // Turned away: at once, or when the service has looked.
        doca_error_t refusal = late.connect("s");
        doca_error_t seen = DOCA_ERROR_AGAIN;
        EXPECT_TRUE(eventually([&] {
            seen = seen == DOCA_ERROR_AGAIN ? service.receive() : seen;
            if (late.peer != nullptr) {
                refusal = late.update();
            }
            return seen != DOCA_ERROR_AGAIN && refusal == DOCA_ERROR_CONNECTION_ABORTED;
        }));
        EXPECT_EQ(seen, DOCA_ERROR_CONNECTION_ABORTED); // a handshake that fails
        EXPECT_EQ(service.from, nullptr);
        EXPECT_EQ(service.receive(), DOCA_ERROR_AGAIN); // and the others are served on
        ASSERT_EQ(client.send("the first"), DOCA_SUCCESS);
        ASSERT_EQ(service.await(), DOCA_SUCCESS);
        EXPECT_EQ(service.text, "the first");
    }
    // Where many have left, one may come.
    Ep next(host());
    small.set(next);
    ASSERT_TRUE(eventually([&] {
        (void)service.receive();
        return next.connect("s") == DOCA_SUCCESS;
    }));
    EXPECT_TRUE(eventually([&] {
        (void)service.receive();
        const doca_error_t result = next.update();
        if (result == DOCA_ERROR_CONNECTION_ABORTED) { // too early
            EXPECT_EQ(doca_comm_channel_ep_disconnect(next, next.peer), DOCA_SUCCESS);
            EXPECT_EQ(next.connect("s"), DOCA_SUCCESS);
        }
        return result == DOCA_SUCCESS;
    }));
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(CommChannelFunctions, ClientsOfEveryKindReachTheDpu) {
    Lab lab;
    comch::test::TempDir directory;
    const std::string text = R"(
[dpu]
name = "dpu0"
pci = "0000:03:00.0"
[[host]]
name = "host_pf0"
kind = "PF"
pci = "0000:3b:00.0"
[[host]]
name = "host_pf0vf0"
kind = "VF"
pci = "0000:3b:00.2"
[[host]]
name = "host_pf0sf4"
kind = "SF"
index = 4
pci = "0000:3b:00.0"
)";
    comch::test::write_file(directory / "domain.toml", text);
    const comch::test::ScopedEnvironment environment{
        {"COMCH_DOMAIN_FILE", directory / "domain.toml"}};
    lab.open();
    ASSERT_EQ(lab.hosts.size(), 3u);
    ASSERT_EQ(lab.representors.size(), 3u);
    std::set<doca_pci_func_type> kinds;
    for (std::size_t i = 0; i < lab.hosts.size(); ++i) {
        doca_pci_func_type kind{};
        EXPECT_EQ(doca_devinfo_get_pci_func_type(doca_dev_as_devinfo(lab.hosts[i]), &kind),
                  DOCA_SUCCESS);
        kinds.insert(kind);
        Ep service(lab.dpu, lab.representors[i]);
        Ep client(lab.hosts[i]);
        ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
        for (doca_dev* const other : lab.hosts) {
            Ep stranger(other);
            EXPECT_EQ(stranger.connect("s"),
                      other == lab.hosts[i] ? DOCA_SUCCESS : DOCA_ERROR_CONNECTION_ABORTED);
        }
        ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
        EXPECT_TRUE(eventually([&] {
            (void)service.receive(); // of the one that has left again, too
            return client.update() == DOCA_SUCCESS;
        }));
    }
    EXPECT_EQ(kinds.size(), 3u);
}

} // namespace
} // namespace comch::doca::test
