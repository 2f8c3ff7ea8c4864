// Deaths at random moments, with real processes: what the survivor hears, when, and what it keeps.
//
// The victim kills itself with SIGKILL from a timer, so the moment lies anywhere: between any two
// instructions, in any system call. Every case prints its seed when it fails.
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <optional>
#include <ostream>
#include <set>

#include <sys/syscall.h>
#include <sys/time.h>

#include "core/base/test_sandbox.hpp"
#include "core/counters/process_counters.hpp"
#include "core/link/soft/test_process.hpp"
#include "core/link/soft/test_random.hpp"
#include "core/memory/region_table.hpp"
#include "core/memory/remote_region.hpp"

namespace comch::link::soft::test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds promised{100};

/// CPU time of this thread: a busy machine may keep it from running, which is not the link's doing.
milliseconds cpu_time() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::duration_cast<milliseconds>(std::chrono::seconds(now.tv_sec) +
                                                    std::chrono::nanoseconds(now.tv_nsec));
}

UniqueFd process_descriptor(pid_t pid) {
    return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

void die_after(std::uint32_t microseconds) {
    struct sigaction action {};
    action.sa_handler = [](int) { ::kill(::getpid(), SIGKILL); };
    ::sigaction(SIGALRM, &action, nullptr);
    itimerval timer{};
    timer.it_value.tv_sec = microseconds / 1'000'000;
    timer.it_value.tv_usec = static_cast<suseconds_t>(microseconds % 1'000'000 + 1);
    ::setitimer(ITIMER_REAL, &timer, nullptr);
}

/// A child that lives on and holds copies of all descriptors; it ends with its process group.
void fork_holder() {
    // The parent's timer waits, too: else its death may come while the child still holds the lock
    // that says that its parent lives.
    sigset_t timer{};
    sigset_t before{};
    ::sigemptyset(&timer);
    ::sigaddset(&timer, SIGALRM);
    ASSERT_EQ(::sigprocmask(SIG_BLOCK, &timer, &before), 0);
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    if (::fork() == 0) {
        (void)!::write(ends[1], "r", 1); // what the library does in a child is done
        for (;;) {
            ::pause();
        }
    }
    char ready = 0;
    ASSERT_EQ(::read(ends[0], &ready, 1), 1);
    ::close(ends[0]);
    ::close(ends[1]);
    ASSERT_EQ(::sigprocmask(SIG_SETMASK, &before, nullptr), 0);
}

/// The same, of a child that has not run yet: it even holds the lock that says that its parent lives.
void fork_holder_of_everything() {
    if (::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) {
        for (;;) {
            ::pause();
        }
    }
}

/// Uses a connection in every way, at random, and keeps count.
class Worker {
public:
    Worker(End& end, std::uint32_t seed) : end_(end), random_(seed) {
        shared_ = create_shared_memory("comch-test", size).value();
        heap_.resize(size);
        keys_[0] = RegionTable::instance()
                       .add({.base = heap_.data(), .length = size, .access = access_remote_all})
                       .value();
        keys_[1] = RegionTable::instance()
                       .add({.base = shared_.mapping.data(),
                             .length = size,
                             .access = access_remote_all,
                             .memfd = shared_.fd.get()})
                       .value();
        end_.seen.message_hook = [this](Connection&, std::uint8_t id, const std::byte* data,
                                        std::uint32_t length) {
            if (id == key_message && length == sizeof(RegionKey)) {
                RegionKey key;
                std::memcpy(&key, data, sizeof(key));
                regions_.emplace_back(key);
            }
        };
    }
    ~Worker() {
        for (const RegionKey& key : keys_) {
            RegionTable::instance().remove(key.region);
        }
        end_.seen.message_hook = nullptr;
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    /// One step on a connection; harmless at any time of its life.
    void step(Connection& c) {
        if (told_.insert(&c).second) {
            for (const RegionKey& key : keys_) {
                (void)c.send(key_message, std::as_bytes(std::span(&key, 1)));
            }
        }
        switch (random_.below(12)) {
        case 0:
        case 1:
            (void)c.send(1, {buffer_.data(), random_.below(200)});
            break;
        case 2:
            (void)c.send(1, {buffer_.data(), random_.below(tuning::max_inline + 1)});
            break;
        case 3:
        case 4:
            (void)c.send_packed(1, tuning::max_message, [&](std::byte* to) {
                const std::uint32_t length = random_.below(tuning::max_message + 1);
                std::memset(to, 7, length);
                return length;
            });
            break;
        case 5:
            (void)c.send_ordered(1, {buffer_.data(), random_.below(tuning::max_message + 1)});
            break;
        case 6:
            if (auto* region = any_region()) {
                start(c.put(buffer_.data(), 1 + random_.below(size - 1), *region,
                            region->key().base, token()));
            }
            break;
        case 7:
            if (auto* region = any_region()) {
                start(c.get(buffer_.data(), 1 + random_.below(size - 1), *region,
                            region->key().base, token()));
            }
            break;
        case 8:
            if (auto* region = any_region()) {
                start(c.atomic({AtomicOp::add, 8, 1, 0, &word_}, *region, region->key().base,
                               token()));
            }
            break;
        case 9:
            start(c.flush(token()));
            break;
        case 10:
            if (random_.below(8) == 0) {
                (void)c.fence();
            }
            break;
        case 11:
            if (channels_.size() < 4 && random_.below(8) == 0) {
                if (auto channel = c.open_channel(1)) {
                    channels_.push_back(std::move(*channel));
                }
            }
            for (Channel& channel : channels_) {
                (void)channel.send_packed(1, 20'000, [](std::byte*) { return 20'000u; });
            }
            break;
        }
        for (auto& [tag, channel] : end_.seen.channels) {
            (void)channel.poll([](auto, auto, auto) { return true; }, 4);
        }
    }
    [[nodiscard]] std::size_t started() const { return started_; }
    /// What keeps the peer's memory mapped: channels, and keys whose memory is mapped here.
    void drop_all() {
        channels_.clear();
        end_.seen.channels.clear();
        regions_.clear();
    }
    [[nodiscard]] bool channels_are_reset() {
        for (Channel& channel : channels_) {
            while (channel.poll([](auto, auto, auto) { return true; }, 16) != 0) {
            }
            if (channel.check() != Errc::connection_reset &&
                channel.check() != Errc::not_connected) {
                return false;
            }
        }
        return true;
    }

    static constexpr std::uint32_t size = 256 * 1024;
    static constexpr std::uint8_t key_message = 200;

private:
    void* token() { return &token_; }
    void start(Errc result) { started_ += result == Errc::in_progress ? 1 : 0; }
    RemoteRegion* any_region() {
        return regions_.empty()
                   ? nullptr
                   : &regions_[random_.below(static_cast<std::uint32_t>(regions_.size()))];
    }

    End& end_;
    Random random_;
    SharedMemory shared_;
    std::vector<std::byte> heap_;
    std::vector<std::byte> buffer_ = std::vector<std::byte>(size);
    std::array<RegionKey, 2> keys_;
    std::vector<RemoteRegion> regions_;
    std::set<Connection*> told_;
    std::vector<Channel> channels_;
    std::uint64_t word_ = 0;
    std::size_t started_ = 0;
    int token_ = 0;
};

struct Plan {
    const char* name;
    bool victim_initiates;
    bool reconnects;        ///< set-up again and again, rather than one long connection
    bool sleeps;            ///< the survivor; the victim sleeps where the survivor does not
    bool holder;            ///< a forked child of the victim lives on
    bool sandboxed = false; ///< the victim has no descriptor of its process

    friend std::ostream& operator<<(std::ostream& out, const Plan& plan) {
        return out << plan.name;
    }
};

class Death : public ::testing::TestWithParam<Plan> {
protected:
    Lab lab;
};

/// The victim: until its timer ends it.
[[noreturn]] void live_until_killed(const Plan& plan, const Lab& lab, Line& address, Line& ours,
                                    std::uint32_t seed) {
    Random random(seed);
    if (plan.sandboxed) {
        comch::test::forbid_calls({SYS_pidfd_open, SYS_pidfd_send_signal}, ENOSYS);
    }
    die_after(random.below(plan.reconnects ? 20'000 : 40'000));
    End end(lab, Side::host);
    if (plan.holder) {
        fork_holder(); // has the listening socket only
    }
    const auto survivor = address.get<PortAddress>();
    if (!plan.victim_initiates) {
        ours.put(end.port->address());
    }
    Worker worker(end, seed);
    Connection* connection = nullptr;
    bool held = false;
    for (unsigned steps = 0;; ++steps) {
        if (plan.victim_initiates && connection == nullptr) {
            connection = end.port->connect(survivor, {}, nullptr).value_or(nullptr);
        } else if (!plan.victim_initiates && !end.seen.accepted.empty()) {
            connection = end.seen.accepted.back();
        }
        for (const auto& ended : end.seen.ends) {
            std::erase(end.seen.accepted, ended.connection);
            connection = connection == ended.connection ? nullptr : connection;
            end.port->close(ended.connection);
        }
        end.seen.ends.clear();
        if (connection != nullptr) {
            worker.step(*connection);
            if (plan.holder && !held && connection->established()) {
                held = true;
                fork_holder(); // has everything
            }
            if (plan.reconnects && plan.victim_initiates && random.below(20) == 0) {
                end.port->close(connection);
                connection = nullptr;
            }
        }
        const bool idle = end.progress() == 0;
        if (idle && !plan.sleeps && random.below(4) == 0 && end.port->arm() == Errc::ok) {
            (void)readable(end.port->event_fd(), milliseconds(2));
        }
    }
}

TEST_P(Death, IsHeardOnceInTimeAndLeavesNothing) {
    const Plan& plan = GetParam();
    unsigned connections_seen = 0;
    for (std::uint32_t seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        Line address;
        Line victims;
        Process victim([&] { live_until_killed(plan, lab, address, victims, seed * 7919); });
        const UniqueFd death = process_descriptor(victim.pid());
        const Holdings nothing = Holdings::now();
        {
            End end(lab, Side::dpu);
            std::optional<PortAddress> target;
            Worker worker(end, seed);
            (void)end.progress();
            const Holdings before = Holdings::now();
            address.put(end.port->address()); // from now on it may come
            std::set<Connection*> open;
            std::size_t reported = 0;
            Connection* ours = nullptr;
            bool dead = false;
            milliseconds cpu{};
            for (unsigned steps = 0;; ++steps) {
                if (!dead && readable(death.get(), milliseconds(0))) {
                    dead = true;
                    cpu = cpu_time();
                }
                if (!plan.victim_initiates && !target && victims.has_something()) {
                    target = victims.get<PortAddress>();
                }
                if (target && ours == nullptr && !dead) {
                    if (auto started = end.port->connect(*target, {}, nullptr)) {
                        ours = *started;
                        open.insert(ours);
                    }
                }
                for (; connections_seen < end.seen.accepted.size(); ++connections_seen) {
                    open.insert(end.seen.accepted[connections_seen]);
                }
                if (!open.empty()) {
                    worker.step(**open.begin());
                }
                const unsigned handled = end.progress();
                for (; connections_seen < end.seen.accepted.size(); ++connections_seen) {
                    open.insert(end.seen.accepted[connections_seen]);
                }
                for (; reported < end.seen.ends.size(); ++reported) {
                    const auto& ended = end.seen.ends[reported];
                    ASSERT_EQ(open.count(ended.connection), 1u) << "reported twice, or never there";
                    open.erase(ended.connection);
                    if (ended.connection == ours) {
                        ours = nullptr;
                    }
                    EXPECT_TRUE(ended.reason == Reason::peer_died ||
                                (plan.reconnects && ended.reason == Reason::closed))
                        << to_string(ended.reason);
                    EXPECT_NE(ended.connection->send(1, bytes_of("x")), Errc::ok);
                    end.port->close(ended.connection);
                }
                if (plan.reconnects && ours != nullptr && ours->established() && steps % 32 == 31) {
                    open.erase(ours);
                    end.port->close(ours);
                    ours = nullptr;
                }
                // Connections of the dead may still wait to be accepted, and then end, too.
                if (dead && open.empty() && end.port->arm() == Errc::ok) {
                    break;
                }
                if (dead) {
                    ASSERT_LT(cpu_time() - cpu, promised) << open.size() << " not reported";
                }
                if (plan.sleeps && handled == 0 && end.port->arm() == Errc::ok) {
                    if (dead) {
                        ASSERT_TRUE(readable(end.port->event_fd(), promised))
                            << "slept through a death";
                    } else {
                        (void)readable(end.port->event_fd(), milliseconds(2));
                    }
                }
            }
            connections_seen = 0;
            // Nobody else is told, and every operation that was under way is complete.
            settle(milliseconds(2), end);
            EXPECT_EQ(end.seen.ends.size(), reported);
            if (!plan.reconnects) { // closing drops what is under way
                EXPECT_EQ(end.seen.completions.size(), worker.started());
            }
            EXPECT_TRUE(worker.channels_are_reset());
            worker.drop_all();
            EXPECT_TRUE(comes_to_hold(before, end))
                << "now " << Holdings::now() << ", before " << before;
            if (!plan.victim_initiates && target) { // nobody is there any more
                auto late = end.port->connect(*target, {}, nullptr);
                if (late) {
                    EXPECT_TRUE(until([&] { return end.seen.ends.size() > reported; }, end));
                    end.port->close(*late);
                } else {
                    EXPECT_EQ(late.error().code, Errc::not_found);
                }
            }
        }
        EXPECT_EQ(Holdings::now(), nothing);
        // The next one starts clean.
        End next(lab, Side::dpu);
        for (const std::string& name : lab.files()) {
            EXPECT_NE(name.find(process_suffix(process_id())), std::string::npos)
                << name << " was left";
        }
        if (::testing::Test::HasFailure()) {
            return;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Of, Death,
    ::testing::Values(
        Plan{"AnInitiatorInSetUp", true, true, false, false},
        Plan{"AnInitiatorInSetUpWhileWeSleep", true, true, true, false},
        Plan{"AnInitiatorInSetUpWithAForkedChild", true, true, false, true},
        Plan{"AnAcceptorInSetUp", false, true, false, false},
        Plan{"AnAcceptorInSetUpWhileWeSleep", false, true, true, false},
        Plan{"AnAcceptorInSetUpWithAForkedChildWhileWeSleep", false, true, true, true},
        Plan{"AnInitiatorInTraffic", true, false, false, false},
        Plan{"AnInitiatorInTrafficWithAForkedChild", true, false, false, true},
        Plan{"AnInitiatorInTrafficWhileWeSleep", true, false, true, false},
        Plan{"AnAcceptorInTraffic", false, false, false, false},
        Plan{"AnAcceptorInTrafficWithAForkedChildWhileWeSleep", false, false, true, true},
        Plan{"AnAcceptorInTrafficWhileWeSleep", false, false, true, false},
        Plan{"ASandboxedInitiatorInSetUp", true, true, false, false, true},
        Plan{"ASandboxedInitiatorInTrafficWhileWeSleep", true, false, true, false, true},
        Plan{"ASandboxedInitiatorInTrafficWithAForkedChild", true, false, false, true, true},
        Plan{"ASandboxedAcceptorInTraffic", false, false, false, false, true},
        Plan{"ASandboxedAcceptorInTrafficWithAForkedChildWhileWeSleep", false, false, true, true,
             true}),
    [](const auto& test) { return test.param.name; });

// ---- single cases ------------------------------------------------------------------------------

class Fault : public ::testing::Test {
protected:
    Lab lab;
    Line to_child;
    Line to_parent;
    [[nodiscard]] FunctionId function() const {
        return device_of(lab.domain(), Side::host).function().id;
    }
};

TEST_F(Fault, AnOrderlyExitIsNoError) {
    Process other([&] {
        End client(lab, Side::host);
        ASSERT_TRUE(client.port->connect(to_child.get<PortAddress>(), {}, nullptr).has_value());
        ASSERT_TRUE(until([&] { return !client.seen.messages.empty(); }, client));
    });
    End server(lab, Side::dpu);
    to_child.put(server.port->address());
    ASSERT_TRUE(until([&] { return !server.seen.accepted.empty(); }, server));
    ASSERT_EQ(server.seen.accepted[0]->send(1, bytes_of("go")), Errc::ok);
    ASSERT_TRUE(sleep_until(server, [&] { return !server.seen.ends.empty(); }));
    EXPECT_EQ(server.seen.ends[0].reason, Reason::closed);
    EXPECT_EQ(other.wait(), 0);
    EXPECT_EQ(lab.files().size(), 3u) << "it took its files along";
}

TEST_F(Fault, AnExitWithoutAWordIsADeath) {
    Process other([&] {
        End client(lab, Side::host);
        ASSERT_TRUE(client.port->connect(to_child.get<PortAddress>(), {}, nullptr).has_value());
        ASSERT_TRUE(until([&] { return !client.seen.messages.empty(); }, client));
        ::_exit(0);
    });
    End server(lab, Side::dpu);
    to_child.put(server.port->address());
    ASSERT_TRUE(until([&] { return !server.seen.accepted.empty(); }, server));
    ASSERT_EQ(server.seen.accepted[0]->send(1, bytes_of("go")), Errc::ok);
    ASSERT_TRUE(sleep_until(server, [&] { return !server.seen.ends.empty(); }));
    EXPECT_EQ(server.seen.ends[0].reason, Reason::peer_died);
}

/// A server that is dead, while its forked child holds its sockets open.
class DeadServer : public Fault, public ::testing::WithParamInterface<bool> {
protected:
    static constexpr const char* name = "the service";

    /// What the server does before it dies.
    void serve(void (*fork)() = fork_holder) {
        End server(lab, Side::dpu);
        ASSERT_TRUE(server.port->listen({function(), name}).has_value());
        fork();
        to_parent.put(server.port->address());
        (void)to_child.get<char>();
        ::kill(::getpid(), SIGKILL);
    }
    /// The client may sleep in the meantime, and is woken then.
    void die_while_waited_for(Process& server, End& client) {
        settle(milliseconds(30), client);
        EXPECT_TRUE(client.seen.ends.empty()) << "it lives";
        if (GetParam()) {
            while (client.port->arm() != Errc::ok) {
                (void)client.progress();
            }
        }
        to_child.put('d');
        EXPECT_EQ(server.wait(), -1);
        if (GetParam()) {
            EXPECT_TRUE(readable(client.port->event_fd(), promised));
        }
    }
    void expect_refusal(End& client, const Result<Connection*>& started) {
        if (!started) {
            EXPECT_EQ(started.error().code, Errc::not_found);
            return;
        }
        const auto ended = [&] { return !client.seen.ends.empty(); };
        ASSERT_TRUE(GetParam() ? sleep_until(client, ended) : until(ended, client));
        const Reason reason = client.seen.ends[0].reason;
        EXPECT_TRUE(reason == Reason::peer_died || reason == Reason::not_found)
            << to_string(reason);
        EXPECT_FALSE((*started)->error_text().empty());
        client.port->close(*started);
        client.seen.ends.clear();
    }
};

TEST_P(DeadServer, IsNotFound) {
    Process server([&] { serve(); });
    const auto address = to_parent.get<PortAddress>();
    End client(lab, Side::host);
    to_child.put('d');
    EXPECT_EQ(server.wait(), -1);
    expect_refusal(client, client.port->connect(address, {}, nullptr));
    expect_refusal(client, client.port->connect(ServiceName{function(), name}, {}, nullptr));
    // Its name is free again, for whoever asks.
    End other(lab, Side::dpu);
    EXPECT_TRUE(other.port->listen({function(), name}).has_value());
    ASSERT_TRUE(client.port->connect(ServiceName{function(), name}, {}, nullptr).has_value());
    EXPECT_TRUE(until([&] { return !client.seen.connected.empty(); }, client, other));
}

TEST_P(DeadServer, IsNotFoundWhateverItsChildHolds) {
    Process server([&] { serve(fork_holder_of_everything); });
    const auto address = to_parent.get<PortAddress>();
    End client(lab, Side::host);
    to_child.put('d');
    EXPECT_EQ(server.wait(), -1);
    expect_refusal(client, client.port->connect(address, {}, nullptr));
    expect_refusal(client, client.port->connect(ServiceName{function(), name}, {}, nullptr));
}

TEST_P(DeadServer, IsHeardOfByThoseWhoWaitForItsAnswer) {
    Process server([&] { serve(); });
    const auto address = to_parent.get<PortAddress>();
    End client(lab, Side::host);
    const auto by_address = client.port->connect(address, {}, nullptr); // it does not progress
    ASSERT_TRUE(by_address.has_value());
    EXPECT_EQ((*by_address)->send(1, bytes_of("early")), Errc::ok);
    die_while_waited_for(server, client);
    expect_refusal(client, by_address);
}

TEST_P(DeadServer, IsHeardOfByThoseWhoCannotWatchItsProcess) {
    Process server([&] { serve(); });
    const auto address = to_parent.get<PortAddress>();
    End client(lab, Side::host);
    Connection* connection = nullptr;
    std::thread([&] { // as if it had no number here, in another PID namespace
        comch::test::forbid_calls({SYS_pidfd_open}, EPERM);
        connection = client.port->connect(address, {}, nullptr).value();
    })
        .join();
    die_while_waited_for(server, client);
    expect_refusal(client, connection);
}

INSTANTIATE_TEST_SUITE_P(With, DeadServer, ::testing::Bool(), [](const auto& test) {
    return test.param ? "SleepingClient" : "PollingClient";
});

TEST_F(Fault, AServerThatStopsListeningBeforeItHasAnsweredIsNotDead) {
    Process server([&] {
        End end(lab, Side::dpu);
        ASSERT_TRUE(end.port->listen({function(), "brief"}).has_value());
        to_parent.put('r');
        (void)to_child.get<char>(); // somebody waits in the queue
        ASSERT_TRUE(until([&] { return !end.seen.accepted.empty(); }, end));
        (void)to_child.get<char>();
    });
    (void)to_parent.get<char>();
    End client(lab, Side::host);
    ASSERT_TRUE(client.port->connect(ServiceName{function(), "brief"}, {}, nullptr).has_value());
    // As when it had stopped listening: the name is gone, the socket is not.
    const auto names = lab.domain()->list_entries("name.").value();
    for (const std::string& entry : names) {
        ASSERT_TRUE(lab.domain()->remove_entry(entry).has_value());
    }
    settle(milliseconds(60), client);
    EXPECT_TRUE(client.seen.ends.empty());
    to_child.put('g');
    EXPECT_TRUE(until([&] { return !client.seen.connected.empty(); }, client));
    to_child.put('e');
    EXPECT_EQ(server.wait(), 0);
}

TEST_F(Fault, AStoppedPeerIsNotDead) {
    Process other([&] {
        End client(lab, Side::host);
        ASSERT_TRUE(client.port->connect(to_child.get<PortAddress>(), {}, nullptr).has_value());
        ASSERT_TRUE(until([&] { return client.seen.message_count >= 100; }, client));
        to_parent.put('k');
        (void)to_child.get<char>();
    });
    End server(lab, Side::dpu);
    to_child.put(server.port->address());
    ASSERT_TRUE(until([&] { return !server.seen.accepted.empty(); }, server));
    Connection& c = *server.seen.accepted[0];
    other.signal(SIGSTOP);
    unsigned sent = 0;
    while (sent < 100 && c.send(1, bytes_of("m")) == Errc::ok) {
        ++sent;
    }
    settle(milliseconds(150), server);
    EXPECT_TRUE(server.seen.ends.empty());
    other.signal(SIGCONT);
    ASSERT_TRUE(until(
        [&] {
            if (sent < 100 && c.send(1, bytes_of("m")) == Errc::ok) {
                ++sent;
            }
            return to_parent.has_something();
        },
        server));
    to_child.put('e');
    EXPECT_EQ(other.wait(), 0);
}

TEST_F(Fault, AnotherPortOfTheSameProcessEndingIsNoDeath) {
    End one(lab, Side::dpu);
    auto two = std::make_unique<End>(lab, Side::host);
    const Connected pair = connect(*two, one);
    ASSERT_NE(pair.acceptor, nullptr);
    two.reset();
    ASSERT_TRUE(until([&] { return !one.seen.ends.empty(); }, one));
    EXPECT_EQ(one.seen.ends[0].reason, Reason::closed);
    EXPECT_EQ(lab.files().size(), 3u) << "the process lives on";
}

} // namespace
} // namespace comch::link::soft::test
