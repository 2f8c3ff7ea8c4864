// What the endpoint's tests share: a domain of their own with devices of both sides, endpoints that
// clean up after themselves, and waiting for conditions.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doca_comm_channel.h>
#include <doca_dev.h>

#include "core/device/test_support.hpp"

namespace comch::doca::test {

inline constexpr auto patience = std::chrono::seconds(60); ///< far more than anything takes

inline bool eventually(const std::function<bool()>& condition) {
    // A process that was stopped for a while has not waited meanwhile.
    using Clock = std::chrono::steady_clock;
    Clock::duration waited{0};
    for (auto last = Clock::now(); !condition();) {
        const auto now = Clock::now();
        waited += std::min<Clock::duration>(now - last, std::chrono::seconds(1));
        last = now;
        if (waited > patience) {
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

/// Whether the descriptor is readable now, or within `timeout` milliseconds.
inline bool readable(int fd, int timeout = 0) {
    pollfd what{fd, POLLIN, 0};
    return ::poll(&what, 1, timeout) == 1 && (what.revents & POLLIN) != 0;
}
inline bool wakes(int fd) {
    return readable(fd, static_cast<int>(std::chrono::milliseconds(patience).count()));
}

/// A domain in a directory of its own, one DPU and two host functions.
class Lab {
public:
    Lab()
        : environment_{{"COMCH_DOMAIN", directory_ / "domain"},
                       {"COMCH_DOMAIN_FILE", comch::test::test_description()},
                       {"COMCH_SIDE", std::nullopt},
                       {"COMCH_DEVICE", std::nullopt}} {}
    ~Lab() {
        for (doca_dev_rep* const rep : representors) {
            EXPECT_EQ(doca_dev_rep_close(rep), DOCA_SUCCESS);
        }
        for (doca_dev* const device : hosts) {
            EXPECT_EQ(doca_dev_close(device), DOCA_SUCCESS);
        }
        if (dpu != nullptr) {
            EXPECT_EQ(doca_dev_close(dpu), DOCA_SUCCESS);
        }
    }

    /// In the process that uses them: a test that forks opens them in each.
    void open() {
        doca_devinfo** list = nullptr;
        std::uint32_t count = 0;
        if (doca_devinfo_create_list(&list, &count) != DOCA_SUCCESS) {
            return;
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            doca_dev* device = nullptr;
            std::uint32_t clients = 0;
            if (doca_dev_open(list[i], &device) != DOCA_SUCCESS) {
                continue;
            }
            if (doca_comm_channel_get_service_max_num_connections(list[i], &clients) ==
                DOCA_SUCCESS) {
                dpu = device;
            } else {
                hosts.push_back(device);
            }
        }
        (void)doca_devinfo_destroy_list(list);
        // A representor for each host function, in their order.
        for (doca_dev* const host : hosts) {
            doca_devinfo_rep** reps = nullptr;
            if (doca_devinfo_rep_create_list(dpu, DOCA_DEVINFO_REP_FILTER_NET, &reps, &count) !=
                DOCA_SUCCESS) {
                return;
            }
            char vuid[DOCA_DEVINFO_VUID_SIZE];
            char other[DOCA_DEVINFO_REP_VUID_SIZE];
            (void)doca_devinfo_get_vuid(doca_dev_as_devinfo(host), vuid, sizeof(vuid));
            for (std::uint32_t i = 0; i < count; ++i) {
                doca_dev_rep* rep = nullptr;
                (void)doca_devinfo_rep_get_vuid(reps[i], other, sizeof(other));
                if (std::string_view(vuid) == other &&
                    doca_dev_rep_open(reps[i], &rep) == DOCA_SUCCESS) {
                    representors.push_back(rep);
                }
            }
            (void)doca_devinfo_rep_destroy_list(reps);
        }
    }

    doca_dev* dpu = nullptr;
    std::vector<doca_dev*> hosts;
    std::vector<doca_dev_rep*> representors;

private:
    comch::test::TempDir directory_;
    comch::test::ScopedEnvironment environment_;
};

/// An endpoint, destroyed with this.
class Ep {
public:
    Ep() { EXPECT_EQ(doca_comm_channel_ep_create(&ep_), DOCA_SUCCESS); }
    explicit Ep(doca_dev* device, doca_dev_rep* representor = nullptr) : Ep() {
        EXPECT_EQ(doca_comm_channel_ep_set_device(ep_, device), DOCA_SUCCESS);
        if (representor != nullptr) {
            EXPECT_EQ(doca_comm_channel_ep_set_device_rep(ep_, representor), DOCA_SUCCESS);
        }
    }
    ~Ep() { (void)doca_comm_channel_ep_destroy(ep_); }
    Ep(const Ep&) = delete;
    Ep& operator=(const Ep&) = delete;

    operator doca_comm_channel_ep_t*() const { return ep_; } // NOLINT: it stands for the handle

    doca_error_t connect(const char* name) {
        return doca_comm_channel_ep_connect(ep_, name, &peer);
    }
    doca_error_t send(std::string_view message, doca_comm_channel_addr_t* to) {
        return doca_comm_channel_ep_sendto(ep_, message.data(), message.size(),
                                           DOCA_CC_MSG_FLAG_NONE, to);
    }
    doca_error_t send(std::string_view message) { return send(message, peer); }
    /// What arrived is in `text`, from `from`.
    doca_error_t receive() {
        char room[4096];
        std::size_t length = sizeof(room);
        from = nullptr;
        const doca_error_t result =
            doca_comm_channel_ep_recvfrom(ep_, room, &length, DOCA_CC_MSG_FLAG_NONE, &from);
        text = result == DOCA_SUCCESS ? std::string(room, length) : "";
        return result;
    }
    /// Until it is something else than AGAIN.
    doca_error_t await() {
        doca_error_t result = DOCA_ERROR_AGAIN;
        eventually([&] { return (result = receive()) != DOCA_ERROR_AGAIN; });
        return result;
    }
    doca_error_t update() { return doca_comm_channel_peer_addr_update_info(peer); }

    doca_comm_channel_addr_t* peer = nullptr; ///< a client's
    doca_comm_channel_addr_t* from = nullptr;
    std::string text;

private:
    doca_comm_channel_ep_t* ep_ = nullptr;
};

/// A value of the peer's last snapshot.
template <class F> std::uint64_t value_of(F f, const doca_comm_channel_addr_t* peer) {
    std::uint64_t value = ~0ull;
    EXPECT_EQ(f(peer, &value), DOCA_SUCCESS);
    return value;
}

/// The client is connected, and the service accepts it.
inline void meet(Ep& client, Ep& service) {
    ASSERT_TRUE(eventually([&] {
        EXPECT_EQ(service.receive(), DOCA_ERROR_AGAIN);
        return client.update() != DOCA_ERROR_CONNECTION_INPROGRESS;
    }));
    ASSERT_EQ(client.update(), DOCA_SUCCESS);
}

/// Runs `body` in a process of its own, which is killed with this.
class Process {
public:
    template <class Body> explicit Process(Body body) : pid_(::fork()) {
        if (pid_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::_exit(body());
        }
    }
    ~Process() {
        if (pid_ > 0) {
            kill();
        }
    }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    void kill() {
        ::kill(pid_, SIGKILL);
        (void)wait();
    }
    /// Not even its library's threads do anything from here on.
    void freeze() {
        ::kill(pid_, SIGSTOP);
        int status = 0;
        EXPECT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    }
    /// Its exit code; -1 if it was killed.
    int wait() {
        int status = 0;
        (void)::waitpid(pid_, &status, 0);
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

private:
    pid_t pid_;
};

class CommChannel : public testing::Test {
protected:
    CommChannel() { lab.open(); }
    [[nodiscard]] doca_dev* host() const { return lab.hosts.at(0); }
    [[nodiscard]] doca_dev_rep* rep() const { return lab.representors.at(0); }

    Lab lab;
};

/// Tests of what the process has, which do not depend on the link.
class CommChannelResources : public CommChannel {};

/// A service "s" on the first function, and a client that it has accepted.
class CommChannelPair : public CommChannel {
protected:
    CommChannelPair() : service(lab.dpu, rep()), client(host()) {}
    void SetUp() override { connect(); }
    void connect() {
        ASSERT_EQ(doca_comm_channel_ep_listen(service, "s"), DOCA_SUCCESS);
        ASSERT_EQ(client.connect("s"), DOCA_SUCCESS);
        meet(client, service);
    }
    std::uint64_t in_flight() {
        (void)client.update();
        return value_of(doca_comm_channel_peer_addr_get_send_in_flight_messages, client.peer);
    }
    /// The service's address of the client.
    doca_comm_channel_addr_t* known() {
        doca_comm_channel_addr_t** list = nullptr;
        std::uint32_t count = 0;
        EXPECT_EQ(doca_comm_channel_ep_update_service_state_info(service), DOCA_SUCCESS);
        EXPECT_EQ(doca_comm_channel_ep_get_peer_addr_list(service, &list, &count), DOCA_SUCCESS);
        return count == 1 ? list[0] : nullptr;
    }

    Ep service;
    Ep client;
};

} // namespace comch::doca::test
