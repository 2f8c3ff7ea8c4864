// Peers that compute, or have no CPU, while something is asked of them: their memory is reached by way
// of the kernel.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <limits>
#include <thread>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "core/counters/counter_files.hpp"
#include "core/link/soft/parked_thread.hpp"
#include "core/link/soft/test_process.hpp"
#include "core/memory/region_table.hpp"
#include "core/memory/remote_region.hpp"

namespace comch::link::soft::test {
namespace {

UniqueFd pidfd_of(pid_t pid) {
    return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

/// The other process owns memory and accepts our connection; then it progresses when it is told to,
/// and not otherwise.
class AbsentPeer : public ::testing::Test {
protected:
    static constexpr std::size_t size = 16 << 20; // more than the rings hold
    static constexpr std::size_t piece = 16 << 10;
    /// Of pieces so much goes by the kernel before the ring is a way.
    static constexpr std::uint64_t before_ring =
        tuning::before_ring - (tuning::alike_before_ring - 1) * piece;

    enum class Order : std::uint8_t {
        stop,
        progress_once,
        progress,
        check_first_bytes,
        protect,
        unprotect,
    };

    Lab lab;
    Line to_child;
    Line to_parent;
    std::unique_ptr<Process> child;
    std::unique_ptr<End> end;
    Connection* connection = nullptr;
    RegionKey key;
    RegionKey key_of_shared; ///< of memory that can be mapped
    std::vector<std::byte> content = pattern(size, 1);
    std::vector<std::byte> got = std::vector<std::byte>(size);
    int token = 0;

    void SetUp() override {
        child = std::make_unique<Process>([this] { be_the_owner(); });
        end =
            std::make_unique<End>(lab, Side::host, 0, PortOptions{.face = "test", .one_way = true});
        connection = end->port->connect(to_parent.get<PortAddress>(), {}, nullptr).value();
        key = to_parent.get<RegionKey>();
        key_of_shared = to_parent.get<RegionKey>();
        ASSERT_TRUE(until([&] { return !end->seen.connected.empty(); }, *end));
        (void)to_parent.get<bool>(); // it does nothing from here on
        // So much that the next ones go by the ring.
        static_assert((before_ring - size) % piece == 0);
        ASSERT_EQ(get(size), Errc::ok);
        for (std::uint64_t copied = size; copied < before_ring; copied += piece) {
            ASSERT_EQ(get(piece), Errc::ok);
        }
        ASSERT_TRUE(holds(size));
    }

    void be_the_owner() {
        End server(lab, Side::dpu);
        const auto added = RegionTable::instance().add(
            {.base = content.data(), .length = size, .access = access_remote_all});
        const SharedMemory shared = create_shared_memory("comch-test", size).value();
        const auto added_shared = RegionTable::instance().add({.base = shared.mapping.data(),
                                                               .length = size,
                                                               .access = access_remote_all,
                                                               .memfd = shared.fd.get()});
        to_parent.put(server.port->address());
        to_parent.put(*added);
        to_parent.put(*added_shared);
        ASSERT_TRUE(until([&] { return !server.seen.accepted.empty(); }, server));
        // The initiator has the answer, and nothing of this is left to do.
        settle(std::chrono::milliseconds(1), server);
        to_parent.put(true);
        for (Order order{}; to_child.get(order) && order != Order::stop;) {
            if (order == Order::check_first_bytes) {
                std::uint64_t first = 0;
                std::memcpy(&first, content.data(), sizeof(first));
                to_parent.put(first);
                continue;
            }
            if (order == Order::protect || order == Order::unprotect) {
                to_parent.put(
                    ::mprotect(second_page(content.data()), 4096,
                               order == Order::protect ? PROT_READ : PROT_READ | PROT_WRITE));
                continue;
            }
            server.progress();
            while (order == Order::progress && !to_child.has_something()) {
                server.progress();
            }
        }
    }

    Errc get(std::size_t length, std::uint64_t access = access_by_kernel) {
        RegionKey with = key;
        with.access |= static_cast<std::uint32_t>(access);
        RemoteRegion region(with);
        std::memset(got.data(), 0, length);
        return connection->get(got.data(), length, region, key.base, &token);
    }
    Errc put(std::uint64_t value, std::uint64_t offset = 0) {
        RegionKey with = key;
        with.access |= access_by_kernel;
        RemoteRegion region(with);
        return connection->put(&value, sizeof(value), region, key.base + offset, &token);
    }
    /// A page that lies in `memory` as a whole.
    static std::byte* second_page(std::byte* memory) {
        const auto address = reinterpret_cast<std::uintptr_t>(memory);
        return memory + (4096 - address % 4096) + 4096;
    }
    Errc atomic_add(std::uint64_t value) {
        RegionKey with = key;
        with.access |= access_by_kernel;
        RemoteRegion region(with);
        return connection->atomic({AtomicOp::add, sizeof(value), value, 0, nullptr}, region,
                                  key.base, &token);
    }
    bool completes(std::size_t count = 1) {
        return until([&] { return end->seen.completions.size() >= count; }, *end);
    }
    /// Longer than any peer is waited for, many times over.
    void wait_in_vain() { settle(std::chrono::milliseconds(5), *end); }
    bool holds(std::size_t length) const {
        return std::memcmp(got.data(), content.data(), length) == 0;
    }
    std::uint64_t first_of_content() const {
        std::uint64_t first = 0;
        std::memcpy(&first, content.data(), sizeof(first));
        return first;
    }
    std::uint64_t in_memory_of_the_owner() {
        to_child.put(Order::check_first_bytes);
        return to_parent.get<std::uint64_t>();
    }
    void finish() {
        to_child.put(Order::stop);
        EXPECT_EQ(child->wait(), 0);
    }
};

TEST_F(AbsentPeer, IsNotAskedBeforeARingPays) {
    EXPECT_TRUE(holds(size)) << "of SetUp()";
    EXPECT_TRUE(end->seen.completions.empty());
    EXPECT_EQ(get(1 << 20), Errc::in_progress);
    ASSERT_TRUE(completes());
    finish();
}

TEST_F(AbsentPeer, AGetIsFetched) {
    ASSERT_EQ(get(300'000), Errc::in_progress);
    ASSERT_TRUE(completes());
    EXPECT_EQ(end->seen.completions[0].status, Errc::ok);
    EXPECT_TRUE(holds(300'000));
    // From now on it is not waited for.
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, size}) {
        ASSERT_EQ(get(length), Errc::ok) << length;
        EXPECT_TRUE(holds(length));
    }
    // Nor is there anything to wait for at the end.
    EXPECT_EQ(connection->flush(nullptr), Errc::ok);
    finish();
}

TEST_F(AbsentPeer, IsWaitedForLongerUntilAllOfItsRingHasBeenWritten) {
    constexpr std::size_t length = 256 * 1024; // half of what it writes to at first
    ASSERT_EQ(get(length), Errc::in_progress);
    ASSERT_TRUE(completes()) << "by the kernel, which needs pages of its own for the first time";
    std::size_t asked = 1;
    std::uint64_t began = 0;
    // Many times more than the whole ring's positions, but all in its beginning. (Until it is trusted, when
    // it stops: it may have been stopped before, and missed.)
    ASSERT_TRUE(until(
        [&] {
            to_child.put(Order::progress);
            for (const std::size_t enough = asked + 16; asked < enough;) {
                const Errc result = get(length);
                asked += result == Errc::in_progress ? 1 : 0;
                EXPECT_TRUE(completes(asked));
            }
            (void)in_memory_of_the_owner(); // it does nothing from here on
            began = monotonic_ns();
            return get(length) == Errc::in_progress;
        },
        *end));
    ASSERT_TRUE(completes(asked + 1));
    EXPECT_GE(monotonic_ns() - began, tuning::attention_to_cold_ring_ns);
    EXPECT_TRUE(holds(length));
    finish();
}

TEST_F(AbsentPeer, WhoSleepsForAnAnswerGetsItToo) {
    ASSERT_EQ(get(300'000), Errc::in_progress);
    ASSERT_TRUE(sleep_until(*end, [&] { return !end->seen.completions.empty(); }));
    EXPECT_TRUE(holds(300'000));
    finish();
}

TEST_F(AbsentPeer, WhoWaitsForAPutToBeExecutedSleeps) {
    ASSERT_EQ(put(1), Errc::ok);
    ASSERT_EQ(get(8), Errc::in_progress); // behind it
    Errc armed = Errc::again;
    ASSERT_TRUE(until([&] { return (armed = end->port->arm()) == Errc::ok; }, *end));
    to_child.put(Order::progress);
    ASSERT_TRUE(sleep_until(*end, [&] { return !end->seen.completions.empty(); }));
    finish();
}

TEST_F(AbsentPeer, AnAnswerThatBeganIsCompleted) {
    ASSERT_EQ(get(size), Errc::in_progress);
    to_child.put(Order::progress_once); // what the rings hold
    ASSERT_TRUE(completes());
    EXPECT_TRUE(holds(size));
    // What is still in the rings harms no later operation's.
    to_child.put(Order::progress);
    ASSERT_TRUE(until([&] { return connection->flush(nullptr) == Errc::ok; }, *end));
    const std::size_t before = end->seen.completions.size();
    const Errc result = get(200'000);
    ASSERT_TRUE(result == Errc::ok || result == Errc::in_progress) << to_string(result);
    ASSERT_TRUE(completes(before + (result == Errc::ok ? 0 : 1)));
    EXPECT_TRUE(holds(200'000));
    finish();
}

TEST_F(AbsentPeer, WhoAttendsAgainIsTrustedAgain) {
    ASSERT_EQ(get(8), Errc::in_progress);
    ASSERT_TRUE(completes());
    ASSERT_EQ(get(8), Errc::ok); // by the kernel
    ASSERT_EQ(put(1), Errc::ok);
    EXPECT_EQ(connection->flush(nullptr), Errc::ok);
    to_child.put(Order::progress);
    // Though nothing but what the kernel can do is asked for.
    Errc result = Errc::ok;
    ASSERT_TRUE(until([&] { return (result = get(8)) != Errc::ok; }, *end));
    EXPECT_EQ(result, Errc::in_progress);
    ASSERT_TRUE(completes(2));
    finish();
}

TEST_F(AbsentPeer, AFetchedGetSeesNoLaterPut) {
    ASSERT_EQ(get(8), Errc::in_progress);
    ASSERT_EQ(put(4711), Errc::ok);
    wait_in_vain();
    EXPECT_TRUE(end->seen.completions.empty()); // it could be executed while the kernel reads
    to_child.put(Order::progress);
    ASSERT_TRUE(completes());
    EXPECT_TRUE(holds(8));
    finish();
}

TEST_F(AbsentPeer, AFetchedGetIsNotAnsweredOnceMore) {
    ASSERT_EQ(get(size), Errc::in_progress);
    ASSERT_TRUE(completes());
    to_child.put(Order::progress);
    // A get that only its owner may answer comes after what the owner has to say of the first.
    ASSERT_EQ(get(1000, 0), Errc::in_progress);
    ASSERT_TRUE(completes(2));
    EXPECT_TRUE(holds(1000));
    const auto processes = counters::read_counter_files(*lab.domain());
    ASSERT_TRUE(processes.has_value());
    for (const auto& process : *processes) {
        if (process.pid == static_cast<std::uint64_t>(::getpid())) {
            EXPECT_EQ(process.connections.at(0).figures.tx_process_vm_bytes, before_ring + size);
            EXPECT_EQ(process.connections.at(0).figures.rx_bytes, 1000u);
        }
    }
    finish();
}

TEST_F(AbsentPeer, AGetDoesNotOvertakeAPut) {
    std::uint64_t now = 0;
    ASSERT_EQ(put(4711), Errc::ok); // into the ring
    ASSERT_EQ(get(8), Errc::in_progress);
    wait_in_vain();
    EXPECT_TRUE(end->seen.completions.empty());
    to_child.put(Order::progress);
    ASSERT_TRUE(completes());
    std::memcpy(&now, got.data(), sizeof(now));
    EXPECT_EQ(now, 4711u);
    finish();
}

TEST_F(AbsentPeer, PutsThatItDoesNotTakeOutAreTakenBack) {
    ASSERT_EQ(put(1), Errc::ok); // into the ring
    EXPECT_EQ(connection->flush(&token), Errc::in_progress);
    ASSERT_TRUE(completes());
    EXPECT_EQ(in_memory_of_the_owner(), 1u);
    ASSERT_EQ(put(2), Errc::ok); // by the kernel, while the first still lies there
    EXPECT_EQ(connection->flush(nullptr), Errc::ok);
    EXPECT_EQ(in_memory_of_the_owner(), 2u);
    to_child.put(Order::progress_once);
    EXPECT_EQ(in_memory_of_the_owner(), 2u); // the first is not executed any more
    finish();
}

TEST_F(AbsentPeer, WhoAsksAgainAndAgainWhetherAPutIsDoneIsServed) {
    ASSERT_EQ(put(1), Errc::ok);
    ASSERT_TRUE(until([&] { return connection->flush(nullptr) == Errc::ok; }));
    EXPECT_EQ(in_memory_of_the_owner(), 1u);
    finish();
}

TEST_F(AbsentPeer, WhatIsLeftOfAPutThatWasCopiedIsDoneAndNotReported) {
    RegionKey with = key;
    with.access |= access_by_kernel;
    RemoteRegion region(with);
    std::vector<std::byte> source(tuning::max_message, std::byte{7});
    {
        const NoDescriptorLeft none; // so that it goes in parts, which do not all find room
        ASSERT_EQ(connection->put_copy(source.data(), source.size(), region, key.base), Errc::ok);
    }
    std::fill(source.begin(), source.end(), std::byte{0});
    ASSERT_TRUE(until([&] { return connection->flush(nullptr) == Errc::ok; }));
    std::vector<std::byte> there(source.size());
    PeerMemory memory;
    const UniqueFd process = pidfd_of(child->pid());
    memory.open(process.get(), static_cast<std::uint64_t>(child->pid()));
    ASSERT_TRUE(memory.read(there.data(), key.base, there.size()));
    EXPECT_TRUE(std::all_of(there.begin(), there.end(),
                            [](std::byte value) { return value == std::byte{7}; }));
    end->progress();
    EXPECT_TRUE(end->seen.completions.empty());
    finish();
}

TEST_F(AbsentPeer, WhoSleepsForAPutToBeExecutedIsServed) {
    ASSERT_EQ(put(1), Errc::ok);
    EXPECT_EQ(connection->flush(&token), Errc::in_progress);
    ASSERT_TRUE(sleep_until(*end, [&] { return !end->seen.completions.empty(); }));
    EXPECT_EQ(in_memory_of_the_owner(), 1u);
    finish();
}

TEST_F(AbsentPeer, WhoSleepsBetweenQuestionsForAPutIsServed) {
    ASSERT_EQ(put(1), Errc::ok);
    ASSERT_TRUE(sleep_until(*end, [&] { return connection->flush(nullptr) == Errc::ok; }));
    EXPECT_EQ(in_memory_of_the_owner(), 1u);
    finish();
}

TEST_F(AbsentPeer, APutThatTheKernelRefusesIsGivenBackToItsOwner) {
    to_child.put(Order::protect);
    ASSERT_EQ(to_parent.get<int>(), 0);
    const auto offset =
        static_cast<std::uint64_t>(second_page(reinterpret_cast<std::byte*>(key.base)) -
                                   reinterpret_cast<std::byte*>(key.base));
    ASSERT_EQ(put(1), Errc::ok);
    ASSERT_EQ(put(2, offset), Errc::ok);
    EXPECT_EQ(connection->flush(&token), Errc::in_progress);
    ASSERT_TRUE(
        until([&] { return in_memory_of_the_owner() == 1; }, *end)); // that one by the kernel
    EXPECT_EQ(connection->send(1, {}), Errc::again); // the second must be in the ring before it
    wait_in_vain();
    EXPECT_TRUE(end->seen.completions.empty());
    EXPECT_TRUE(end->seen.ends.empty());
    EXPECT_EQ(connection->send(1, {}), Errc::ok);
    EXPECT_EQ(put(3), Errc::ok);
    wait_in_vain();
    EXPECT_EQ(in_memory_of_the_owner(), 1u); // it does not overtake the second
    Errc armed = Errc::again;
    ASSERT_TRUE(until([&] { return (armed = end->port->arm()) == Errc::ok; }, *end));
    to_child.put(Order::unprotect);
    ASSERT_EQ(to_parent.get<int>(), 0);
    to_child.put(Order::progress);
    ASSERT_TRUE(completes());
    EXPECT_EQ(end->seen.completions[0].status, Errc::ok);
    std::uint64_t second = 0;
    PeerMemory memory;
    const UniqueFd process = pidfd_of(child->pid());
    memory.open(process.get(), static_cast<std::uint64_t>(child->pid()));
    ASSERT_TRUE(
        memory.read(reinterpret_cast<std::byte*>(&second), key.base + offset, sizeof(second)));
    EXPECT_EQ(second, 2u);
    ASSERT_TRUE(until([&] { return connection->flush(nullptr) == Errc::ok; }, *end));
    EXPECT_EQ(in_memory_of_the_owner(), 3u);
    finish();
}

TEST_F(AbsentPeer, PutsThatFindNoRoomAreDoneByTheKernel) {
    const std::vector<std::byte> source = pattern(size, 2);
    RegionKey with = key;
    with.access |= access_by_kernel;
    RemoteRegion region(with);
    // One that is too long for the rings waits with its rest; those that fit find them full.
    for (const std::size_t length : {size, std::size_t{1} << 20, std::size_t{8}}) {
        for (std::size_t at = 0; at < std::min(size, 10'000 * length); at += length) {
            const std::size_t before = end->seen.completions.size();
            Errc result = Errc::again;
            ASSERT_TRUE(until(
                [&] {
                    result =
                        connection->put(source.data() + at, length, region, key.base + at, &token);
                    return result != Errc::again;
                },
                *end));
            ASSERT_TRUE(result == Errc::ok || result == Errc::in_progress) << to_string(result);
            ASSERT_TRUE(completes(before + (result == Errc::ok ? 0 : 1)));
        }
        ASSERT_TRUE(until([&] { return connection->flush(nullptr) == Errc::ok; }, *end));
        PeerMemory memory;
        const UniqueFd process = pidfd_of(child->pid());
        memory.open(process.get(), static_cast<std::uint64_t>(child->pid()));
        const std::size_t written = std::min(size, 10'000 * length);
        std::fill(got.begin(), got.end(), std::byte{});
        ASSERT_TRUE(memory.read(got.data(), key.base, written));
        EXPECT_EQ(std::memcmp(got.data(), source.data(), written), 0) << length;
        // It attends again, so that the next ones go by the rings.
        to_child.put(Order::progress);
        ASSERT_TRUE(until([&] { return get(8) == Errc::in_progress; }, *end));
        settle(std::chrono::milliseconds(1), *end);
        to_child.put(Order::progress_once);
        (void)in_memory_of_the_owner();
    }
    finish();
}

TEST_F(AbsentPeer, APutThatSomethingLiesBehindIsLeftToIt) {
    ASSERT_EQ(put(1), Errc::ok);
    const std::uint64_t add = 4;
    ASSERT_EQ(atomic_add(add), Errc::ok);
    EXPECT_EQ(connection->flush(&token), Errc::in_progress);
    wait_in_vain();
    EXPECT_TRUE(end->seen.completions.empty());
    EXPECT_EQ(in_memory_of_the_owner(), first_of_content());
    to_child.put(Order::progress);
    ASSERT_TRUE(completes());
    EXPECT_EQ(in_memory_of_the_owner(), 5u);
    finish();
}

TEST_F(AbsentPeer, APutOfWhatIsNoMemoryIsLeftToItsOwnerToRefuse) {
    key.base = 64; // nothing is there
    ASSERT_EQ(put(1), Errc::ok);
    EXPECT_EQ(connection->flush(&token), Errc::in_progress);
    wait_in_vain();
    EXPECT_TRUE(end->seen.completions.empty());
    EXPECT_TRUE(end->seen.ends.empty());
    Errc armed = Errc::again;
    ASSERT_TRUE(until([&] { return (armed = end->port->arm()) == Errc::ok; }, *end));
    to_child.put(Order::progress);
    ASSERT_TRUE(until([&] { return !end->seen.ends.empty(); }, *end));
    finish();
}

// Whoever executes a put, it is executed before the flush says so, and not once more later.
TEST_F(AbsentPeer, PutsAreExecutedOnceWhileItComesAndGoes) {
    unsigned taken_back = 0;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (std::uint64_t i = 1; i < 60 || taken_back < 5; ++i) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << taken_back;
        if (i % 5 == 1) { // it attends until it is trusted
            to_child.put(Order::progress);
            ASSERT_TRUE(until([&] { return get(8) == Errc::in_progress; }, *end));
            ASSERT_TRUE(until([&] { return connection->flush(nullptr) == Errc::ok; }, *end));
            (void)in_memory_of_the_owner();
        }
        const bool comes = i % 3 == 0;
        if (comes) {
            to_child.put(Order::progress_once);
        }
        Errc result = Errc::again;
        ASSERT_TRUE(until([&] { return (result = put(i)) != Errc::again; }, *end));
        ASSERT_EQ(result, Errc::ok);
        const bool lies_in_ring = connection->flush(nullptr) != Errc::ok;
        ASSERT_TRUE(until([&] { return connection->flush(nullptr) == Errc::ok; }, *end));
        taken_back += lies_in_ring && !comes ? 1 : 0;
        ASSERT_EQ(in_memory_of_the_owner(), i);
    }
    finish();
}

TEST_F(AbsentPeer, WhoAttendsHelpsToCopy) {
    to_child.put(Order::progress);
    // So long that who waits for a CPU gets one meanwhile.
    constexpr std::size_t length = size;
    const auto owner_copied = [&] {
        const auto processes = counters::read_counter_files(*lab.domain()).value();
        return std::any_of(processes.begin(), processes.end(), [](const auto& process) {
            return process.pid != static_cast<std::uint64_t>(::getpid()) &&
                   process.connections.at(0).figures.tx_process_vm_bytes != 0;
        });
    };
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (std::uint64_t gets = 0; gets < 20 || !owner_copied(); ++gets) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        const std::size_t before = end->seen.completions.size();
        const Errc result = get(length);
        ASSERT_TRUE(result == Errc::ok || result == Errc::in_progress) << to_string(result);
        ASSERT_TRUE(completes(before + (result == Errc::ok ? 0 : 1)));
        ASSERT_TRUE(holds(length)) << gets;
    }
    finish();
}

TEST_F(AbsentPeer, WhoIsServedByTheKernelProgressesForTheMapping) {
    ASSERT_EQ(get(8), Errc::in_progress);
    ASSERT_TRUE(completes());
    key_of_shared.access |= access_by_kernel;
    RemoteRegion region(key_of_shared);
    // As callers do, who progress only when they are refused something or wait for something.
    const auto put = [&] {
        return connection->put(content.data(), 100'000, region, region.key().base, nullptr);
    };
    ASSERT_EQ(put(), Errc::ok);
    ASSERT_EQ(region.mapped(), nullptr);
    to_child.put(Order::progress); // it hands the memory over
    ASSERT_TRUE(until([&] {
        const Errc result = put();
        EXPECT_TRUE(result == Errc::ok || result == Errc::again) << to_string(result);
        if (result == Errc::again) {
            end->progress();
        }
        return region.mapped() != nullptr;
    }));
    finish();
}

TEST_F(AbsentPeer, WhoSleepsBetweenItsAttemptsTakesTheMapping) {
    ASSERT_EQ(get(8), Errc::in_progress);
    ASSERT_TRUE(completes());
    key_of_shared.access |= access_by_kernel;
    RemoteRegion region(key_of_shared);
    Errc result = Errc::ok;
    for (unsigned i = 0; result == Errc::ok; ++i) {
        ASSERT_LT(i, 10'000u);
        result = connection->put(content.data(), 8, region, region.key().base, nullptr);
    }
    ASSERT_EQ(result, Errc::again);
    EXPECT_FALSE(connection->may_retry()); // or a queue would try again with no progress
    // Nothing announces that it may go on: no sleep before it has been tried again.
    EXPECT_EQ(end->port->arm(), Errc::again);
    EXPECT_TRUE(connection->may_retry());
    finish();
}

TEST_F(AbsentPeer, MemoryWhoseRegistrationMayEndIsLeftToItsOwner) {
    ASSERT_EQ(get(300'000, 0), Errc::in_progress);
    wait_in_vain();
    EXPECT_TRUE(end->seen.completions.empty());
    to_child.put(Order::progress);
    ASSERT_TRUE(completes());
    EXPECT_TRUE(holds(300'000));
    finish();
}

TEST_F(AbsentPeer, WhatIsNoMemoryIsLeftToItsOwnerToRefuse) {
    key.base = 64; // nothing is there
    ASSERT_EQ(get(1000), Errc::in_progress);
    wait_in_vain();
    EXPECT_TRUE(end->seen.completions.empty());
    to_child.put(Order::progress);
    ASSERT_TRUE(completes());
    EXPECT_EQ(end->seen.completions[0].status, Errc::not_permitted);
    finish();
}

TEST_F(AbsentPeer, ItsDeathEndsWhatIsAskedOfIt) {
    ASSERT_EQ(get(300'000, 0), Errc::in_progress);
    child->kill();
    ASSERT_TRUE(until([&] { return !end->seen.ends.empty(); }, *end));
    ASSERT_EQ(end->seen.completions.size(), 1u);
    EXPECT_EQ(end->seen.completions[0].status, Errc::connection_reset);
}

TEST(PeerMemory, IsThatOfTheProcessTheDescriptorNames) {
    std::uint64_t word = 1;
    Process one([] { ::pause(); });
    Process other([] { ::pause(); });
    const UniqueFd pidfd = pidfd_of(one.pid());
    PeerMemory memory;
    EXPECT_FALSE(memory.usable());
    memory.open(pidfd.get(), 0); // of another PID namespace
    EXPECT_FALSE(memory.usable());
    memory.open(pidfd.get(), static_cast<std::uint64_t>(other.pid()));
    std::uint64_t got = 0;
    const auto address = reinterpret_cast<std::uint64_t>(&word);
    const auto to = reinterpret_cast<std::byte*>(&got);
    EXPECT_FALSE(memory.read(to, address, sizeof(got)));
    EXPECT_FALSE(memory.usable());
    EXPECT_EQ(got, 0u);

    memory.open(pidfd.get(), static_cast<std::uint64_t>(one.pid()));
    word = 2; // here, not there
    EXPECT_TRUE(memory.read(to, address, sizeof(got)));
    EXPECT_EQ(got, 1u);
    got = 3;
    EXPECT_TRUE(memory.write(address, to, sizeof(got)));
    EXPECT_EQ(word, 2u);
    got = 0;
    EXPECT_TRUE(memory.read(to, address, sizeof(got)));
    EXPECT_EQ(got, 3u);
    EXPECT_FALSE(memory.read(to, 64, sizeof(got))); // nothing is there
    EXPECT_TRUE(memory.usable());
    one.kill();
    EXPECT_FALSE(memory.read(to, address, sizeof(got)));
    EXPECT_FALSE(memory.write(address, to, sizeof(got)));
}

#ifndef COMCH_SANITIZE_THREAD // there is no parked thread then

TEST(PeerMemory, IsNamedByAThreadOfThePeersOwn) {
    std::uint64_t word = 1;
    auto* const named = static_cast<std::atomic<std::uint32_t>*>(
        ::mmap(nullptr, sizeof(std::atomic<std::uint32_t>), PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(named, MAP_FAILED);
    Process peer([&] {
        word = 2;
        named->store(parked_thread());
        ::pause();
    });
    Process other([] { ::pause(); });
    while (named->load() == 0) {
        std::this_thread::yield();
    }
    const std::uint32_t thread = named->load();
    const UniqueFd pidfd = pidfd_of(peer.pid());
    PeerMemory memory;
    memory.named_by(named);
    std::uint64_t got = 0;
    const auto reads = [&] {
        got = 0;
        return memory.read(reinterpret_cast<std::byte*>(&got),
                           reinterpret_cast<std::uint64_t>(&word), sizeof(got));
    };
    const auto pid = static_cast<std::uint64_t>(peer.pid());
    memory.open(pidfd.get(), pid);
    EXPECT_TRUE(reads());
    EXPECT_EQ(memory.number(), thread);
    EXPECT_TRUE(reads());
    EXPECT_EQ(got, 2u);
    // What is none of its threads is not named, once that is looked at.
    for (const pid_t wrong :
         {other.pid(), ::getpid(), pid_t{1}, pid_t{-1}, std::numeric_limits<pid_t>::max()}) {
        named->store(thread);
        while (memory.number() != thread) {
            ASSERT_TRUE(reads());
            ASSERT_EQ(got, 2u);
        }
        named->store(static_cast<std::uint32_t>(wrong));
        while (memory.number() != pid) {
            ASSERT_TRUE(reads());
            ASSERT_EQ(got, 2u) << memory.number();
        }
    }
    ::munmap(named, sizeof(*named));
}

TEST(PeerMemory, IsThereWhenTheThreadThatWasNamedHasEnded) {
    struct Shared {
        std::atomic<std::uint32_t> thread;
        std::atomic<bool> end;
        std::atomic<bool> ended;
    };
    auto* const shared = static_cast<Shared*>(
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(shared, MAP_FAILED);
    std::uint64_t word = 1;
    Process peer([&] {
        word = 2;
        std::thread thread([&] {
            shared->thread.store(static_cast<std::uint32_t>(::gettid()));
            while (!shared->end.load()) {
                std::this_thread::yield();
            }
        });
        thread.join();
        shared->ended.store(true);
        ::pause();
    });
    while (shared->thread.load() == 0) {
        std::this_thread::yield();
    }
    const UniqueFd pidfd = pidfd_of(peer.pid());
    PeerMemory memory;
    memory.named_by(&shared->thread);
    memory.open(pidfd.get(), static_cast<std::uint64_t>(peer.pid()));
    std::uint64_t got = 0;
    auto* const to = reinterpret_cast<std::byte*>(&got);
    const auto from = reinterpret_cast<std::uint64_t>(&word);
    ASSERT_TRUE(memory.read(to, from, sizeof(got)));
    EXPECT_EQ(memory.number(), shared->thread.load());
    shared->end.store(true);
    while (!shared->ended.load()) {
        std::this_thread::yield();
    }
    got = 0;
    EXPECT_TRUE(memory.read(to, from, sizeof(got)));
    EXPECT_EQ(got, 2u);
    EXPECT_TRUE(memory.write(from, to, sizeof(got)));
    EXPECT_EQ(memory.number(), static_cast<std::uint64_t>(peer.pid()));
    ::munmap(shared, sizeof(Shared));
}

#endif

} // namespace
} // namespace comch::link::soft::test
