// What a message costs, counted: work requests, completions asked for, doorbells, copies. Emulated
// devices hide our own cost in time; these numbers do not depend on the device.
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/link/verbs/two_ends_on_device.hpp"
#include "core/memory/region_table.hpp"

namespace comch::link::verbs {
namespace {

using contract::pattern;

class Counting : public TwoEnds {
protected:
    static Tally difference(const Tally& after, const Tally& before) {
        return {.work_requests = after.work_requests - before.work_requests,
                .signalled = after.signalled - before.signalled,
                .doorbells = after.doorbells - before.doorbells,
                .fenced = after.fenced - before.fenced,
                .receive_doorbells = after.receive_doorbells - before.receive_doorbells,
                .copied_bytes = after.copied_bytes - before.copied_bytes,
                .rdma_bytes = after.rdma_bytes - before.rdma_bytes};
    }
    /// How often a port has looked at all that it owes, at the most: credit that is found then goes
    /// out. Ports do so by the clock, and a machine may be slow.
    [[nodiscard]] std::uint64_t looks_at_all() const {
        return 2 + static_cast<std::uint64_t>((std::chrono::steady_clock::now() - began_) /
                                              std::chrono::nanoseconds(tuning::look_at_all_ns));
    }
    /// Polls a channel once. One that was polled in vain often enough returns credit.
    template <class Handler> unsigned poll(Channel& channel, const Handler& handler) {
        ++polls_;
        return channel.poll(handler, 16);
    }
    /// What all channels together may have returned of `messages`, and what each says first.
    [[nodiscard]] std::uint64_t returns_of_channels(std::uint64_t messages) const {
        return messages / tuning::credit_batch + polls_ / tuning::credit_after_polls + 2;
    }

private:
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    std::uint64_t polls_ = 0;
};

TEST_F(Counting, AStreamOfSmallMessagesCostsOneWorkRequestEach) {
    constexpr std::uint64_t messages = 3200;
    const auto message = pattern(32, 1);
    const Tally host_before = host.port->tally();
    const Tally dpu_before = dpu.port->tally();
    for (std::uint64_t sent = 0; sent < messages;) {
        if (connection->send(1, message) == Errc::ok) {
            ++sent;
        } else {
            host.progress();
            dpu.progress();
        }
    }
    ASSERT_TRUE(until([&] { return dpu.seen.messages.size() == messages; }));
    const Tally sender = difference(host.port->tally(), host_before);
    const Tally receiver = difference(dpu.port->tally(), dpu_before);
    EXPECT_LE(sender.work_requests, messages + 8) << "one each";
    EXPECT_LE(sender.doorbells, messages + 8);
    EXPECT_LE(sender.signalled, messages / 16 + 8) << "one completion for sixteen";
    EXPECT_EQ(sender.copied_bytes, messages * message.size()) << "one copy, into the request";
    EXPECT_EQ(receiver.copied_bytes, 0u) << "handed out in place";
    // The receiver sees a window at a time here, and returns credit a quarter at a time.
    EXPECT_LE(receiver.work_requests, messages / 12);
    EXPECT_LE(receiver.receive_doorbells, messages / 8 + 8) << "eight buffers at once";
}

TEST_F(Counting, APingPongNeedsNoMessagesForCredit) {
    constexpr unsigned rounds = 500;
    Connection* const there = dpu.seen.requests.at(0).connection;
    dpu.seen.on_message_hook = [&](Connection&) {
        ASSERT_EQ(there->send(2, pattern(8, 2)), Errc::ok);
    };
    unsigned back = 0;
    host.seen.on_message_hook = [&](Connection&) {
        if (++back < rounds) {
            ASSERT_EQ(connection->send(1, pattern(8, 1)), Errc::ok);
        }
    };
    const Tally host_before = host.port->tally();
    const Tally dpu_before = dpu.port->tally();
    ASSERT_EQ(connection->send(1, pattern(8, 1)), Errc::ok);
    ASSERT_TRUE(until([&] { return back == rounds; }));
    EXPECT_LE(difference(host.port->tally(), host_before).work_requests, rounds + looks_at_all());
    const Tally answerer = difference(dpu.port->tally(), dpu_before);
    EXPECT_LE(answerer.work_requests, rounds + looks_at_all());
    EXPECT_LE(answerer.receive_doorbells, rounds / tuning::repost_batch + 1)
        << "an answer tells of a buffer that the device need not have yet";
}

TEST_F(Counting, MessagesThatNothingAnswersCostLittleCredit) {
    // As UCX's, whose answers go over another connection: none comes before a round trip is over.
    constexpr unsigned rounds = 100;
    constexpr unsigned calls_each = 5000;
    const Tally before = dpu.port->tally();
    for (unsigned i = 1; i <= rounds; ++i) {
        ASSERT_EQ(connection->send(1, pattern(8, 1)), Errc::ok);
        const auto deadline = std::chrono::steady_clock::now() + contract::patience;
        while (dpu.seen.messages.size() != i) {
            dpu.progress();
            ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        }
        for (unsigned more = 0; more < calls_each; ++more) {
            dpu.progress();
        }
    }
    // A part of the window at a time, however often the port looks meanwhile.
    EXPECT_LE(difference(dpu.port->tally(), before).work_requests,
              rounds / tuning::credit_batch + looks_at_all());
}

TEST_F(Counting, CreditIsFoundInWhatHasToWait) {
    // Both ends could wait for it for ever: it is told once.
    Connection& there = *dpu.seen.requests.at(0).connection;
    ASSERT_EQ(there.send(1, pattern(8, 1)), Errc::ok);
    ASSERT_TRUE(until([&] { return host.seen.messages.size() == 1; }));
    ASSERT_EQ(connection->send(1, pattern(8, 1)), Errc::ok); // takes along that it was taken out
    const std::uint64_t sent = Inside::pipe(there).tx().head();
    ASSERT_LT(Inside::pipe(there).tx().consumed(), sent) << "it came another way";
    Inside::pause(there);
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    while (Inside::waiting(there) == 0) {
        (void)dpu.progress();
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    EXPECT_EQ(Inside::pipe(there).tx().consumed(), sent);
    EXPECT_TRUE(dpu.seen.messages.empty());
    Inside::resume(there);
    EXPECT_TRUE(until([&] { return dpu.seen.messages.size() == 1; }));
}

TEST_F(Counting, AHeaderThatSaysOnlyThatABufferIsFreeIsNews) {
    // The first answer goes out while its message has its buffer, the second when it has given it back.
    Connection& there = *dpu.seen.requests.at(0).connection;
    dpu.seen.on_message_hook = [&](Connection&) {
        ASSERT_EQ(there.send(2, pattern(8, 2)), Errc::ok);
    };
    ASSERT_EQ(connection->send(1, pattern(8, 1)), Errc::ok);
    ASSERT_TRUE(until([&] { return host.seen.messages.size() == 1; }));
    ASSERT_EQ(there.send(2, pattern(8, 2)), Errc::ok);
    ASSERT_TRUE(until([&] { return host.seen.messages.size() == 2; }));
    unsigned sent = 0;
    while (connection->send(1, pattern(8, 1)) == Errc::ok) {
        ++sent;
    }
    EXPECT_EQ(sent, tuning::window);
}

/// Sends more messages than the bits of a header count, and hears of them by RDMA only: it takes
/// nothing from the device meanwhile.
class LongAgo : public Counting {
protected:
    static constexpr unsigned count = 2000;
    Connection* there = nullptr;

    void SetUp() override {
        Counting::SetUp();
        there = dpu.seen.requests.at(0).connection;
        ASSERT_EQ(there->send(1, pattern(8, 1)), Errc::ok); // its header tells of what was before
    }
    void send_all() {
        const auto deadline = std::chrono::steady_clock::now() + contract::patience;
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(connection->send(1, pattern(8, 1)), Errc::ok);
            while (connection->confirmed() != connection->sent()) {
                (void)dpu.progress();
                Inside::pipe(*there).idle(); // nobody has asked
                ASSERT_LT(std::chrono::steady_clock::now(), deadline) << i;
            }
        }
        EXPECT_TRUE(host.seen.messages.empty());
    }
    void expect_that_all_is_well() {
        ASSERT_TRUE(until([&] { return host.seen.messages.size() == 1; }));
        EXPECT_EQ(connection->confirmed(), connection->sent());
        ASSERT_EQ(connection->send(1, pattern(8, 1)), Errc::ok);
        ASSERT_TRUE(until([&] { return dpu.seen.messages.size() == count + 1; }));
        EXPECT_TRUE(host.seen.ends.empty());
        EXPECT_TRUE(dpu.seen.ends.empty());
    }
};

TEST_F(LongAgo, AHeaderThatNobodyFetchedIsUnderstood) {
    Pipe& pipe = Inside::pipe(*there);
    ASSERT_TRUE(pipe.ask_for_completion());
    const Pipe::Ticket sent = pipe.posted();
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    while (!pipe.done(sent)) { // then it is at the host
        (void)dpu.progress();
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    send_all();
    expect_that_all_is_well();
}

TEST_F(LongAgo, AHeaderThatLooksLikeAnOldOneIsNews) {
    ASSERT_TRUE(until([&] { return host.seen.messages.size() == 1; }));
    constexpr std::uint64_t round = std::uint64_t{1} << wire::records_bits;
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    std::uint64_t sent = 0;
    // (What is owed for the last of a round may be given back for the time that has passed.)
    while (sent == 0 || !Inside::pipe(*there).owes_credit()) {
        for (const std::uint64_t last = sent + round; sent != last;) {
            ASSERT_EQ(connection->send(1, pattern(8, 1)), Errc::ok);
            ++sent;
            while (dpu.seen.messages.size() != sent) {
                (void)dpu.progress();
                ASSERT_LT(std::chrono::steady_clock::now(), deadline) << sent;
            }
            while (sent != last && connection->confirmed() != sent) {
                Inside::pipe(*there).idle();
                ASSERT_LT(std::chrono::steady_clock::now(), deadline) << sent;
            }
        }
    }
    ASSERT_EQ(there->send(1, pattern(8, 1)), Errc::ok); // its bits are those of the first
    ASSERT_TRUE(until([&] { return host.seen.messages.size() == 2; }));
    EXPECT_EQ(connection->confirmed(), sent);
}

TEST_F(LongAgo, AHeaderThatHadToWaitIsUnderstood) {
    Inside::pause(*connection);
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    while (Inside::waiting(*connection) == 0) {
        (void)host.progress();
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    send_all();
    Inside::resume(*connection);
    expect_that_all_is_well();
}

TEST_F(Counting, WhoIsAboutToSleepIsHeardAlthoughOthersWait) {
    Connection& there = *dpu.seen.requests.at(0).connection;
    Inside::pause(there);
    ASSERT_EQ(connection->send(1, pattern(8, 1)), Errc::ok);
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    while (Inside::waiting(there) == 0) {
        (void)dpu.progress();
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    (void)host.port->arm(true); // it waits for a confirmation
    while (!Inside::pipe(there).peer_waits()) {
        (void)dpu.progress();
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    EXPECT_EQ(Inside::waiting(there), 1u);
    Inside::resume(there);
    EXPECT_TRUE(until([&] { return connection->confirmed() == connection->sent(); }));
}

TEST_F(Counting, AFlushIsOneRecordThatAsksAndOneWriteThatAnswers) {
    constexpr unsigned rounds = 100;
    const Tally host_before = host.port->tally();
    const Tally dpu_before = dpu.port->tally();
    unsigned calls = 0;
    for (std::size_t i = 1; i <= rounds; ++i) {
        ASSERT_EQ(connection->send(1, pattern(8, 1)), Errc::ok);
        int token = 0;
        ASSERT_EQ(connection->flush(&token), Errc::in_progress);
        // Nothing that the peer does once it has taken it out: as if it were busy with others.
        const auto deadline = std::chrono::steady_clock::now() + contract::patience;
        while (Inside::pipe(*dpu.seen.requests.at(0).connection).returned() < 1 + 2 * i) {
            calls += dpu.progress() != 0 ? 1 : 0;
            ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        }
        while (host.seen.completions.size() != i) {
            host.progress();
            ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        }
    }
    EXPECT_LE(calls, 2 * rounds) << "answered by the call that took it out";
    EXPECT_LE(difference(host.port->tally(), host_before).work_requests,
              2 * rounds + looks_at_all());
    EXPECT_LE(difference(dpu.port->tally(), dpu_before).work_requests, rounds + looks_at_all());
}

TEST_F(Counting, WhoWaitsForAConfirmationAsksOnce) {
    const Tally before = host.port->tally();
    ASSERT_EQ(connection->send(1, pattern(8, 1)), Errc::ok);
    const auto deadline = std::chrono::steady_clock::now() + contract::patience;
    while (connection->confirmed() != connection->sent()) {
        connection->hurry_confirmation();
        // Seldom enough that it would take very long unasked.
        if (dpu.progress() == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    }
    connection->hurry_confirmation(); // for nothing
    EXPECT_EQ(difference(host.port->tally(), before).work_requests, 2u);
}

TEST_F(Counting, APingPongOnAChannelNeedsNoMessagesForCreditEither) {
    constexpr unsigned rounds = 500;
    auto here = connection->open_channel(1);
    ASSERT_TRUE(here.has_value()) << here.error().message;
    ASSERT_TRUE(until([&] { return dpu.seen.channels.size() == 1; }));
    Channel& there = dpu.seen.channels[0].second;
    unsigned back = 0;
    const auto answer = [&](std::uint8_t, const std::byte*, std::uint32_t) {
        EXPECT_EQ(there.send(2, pattern(8, 2)), Errc::ok);
        return true;
    };
    const auto take = [&](std::uint8_t, const std::byte*, std::uint32_t) {
        ++back;
        return true;
    };
    const Tally here_before = here->tally();
    const Tally there_before = there.tally();
    for (unsigned i = 0; i < rounds; ++i) {
        ASSERT_EQ(here->send(1, pattern(8, 1)), Errc::ok);
        ASSERT_TRUE(until([&] {
            (void)poll(there, answer);
            (void)poll(*here, take);
            return back == i + 1;
        }));
    }
    const std::uint64_t most = rounds + returns_of_channels(rounds);
    EXPECT_LE(difference(here->tally(), here_before).work_requests, most);
    const Tally answerer = difference(there.tally(), there_before);
    EXPECT_LE(answerer.work_requests, most);
    EXPECT_LE(answerer.receive_doorbells, rounds / tuning::repost_batch + 1);
}

TEST_F(Counting, AMessageThatIsWrittenIsOneWorkRequest) {
    auto here = connection->open_channel(1);
    ASSERT_TRUE(here.has_value()) << here.error().message;
    ASSERT_TRUE(until([&] { return dpu.seen.channels.size() == 1; }));
    Channel& there = dpu.seen.channels[0].second;
    std::vector<std::byte> target(1u << 20);
    const auto source = pattern(target.size(), 3);
    RegionTable& table = RegionTable::instance();
    const auto from = *table.add(
        {.base = const_cast<std::byte*>(source.data()), .length = source.size(), .access = 0});
    const auto to =
        *table.add({.base = target.data(), .length = target.size(), .access = access_remote_write});
    std::uint32_t local = 0;
    std::uint64_t remote = 0;
    ASSERT_TRUE(here->local_key(from.region, local) && there.remote_key(to.region, remote));
    constexpr unsigned messages = 100;
    const Tally here_before = here->tally();
    const Tally there_before = there.tally();
    Channel::Ticket ticket = 0;
    for (unsigned i = 0; i < messages; ++i) {
        unsigned count = 0;
        ASSERT_TRUE(until([&] {
            return here->write_and_send(source.data(), static_cast<std::uint32_t>(source.size()),
                                        local, to.base, remote, 1, ticket) == Errc::ok;
        }));
        ASSERT_TRUE(until([&] {
            count += poll(there, [](auto, auto, auto) { return true; });
            (void)poll(*here, [](auto, auto, auto) { return true; });
            return count == 1 && here->written(ticket);
        }));
    }
    EXPECT_EQ(target, source);
    const Tally cost = difference(here->tally(), here_before);
    EXPECT_LE(cost.work_requests, messages + 1) << "one is the channel's first word";
    EXPECT_LT(cost.copied_bytes, 100u);
    EXPECT_EQ(cost.rdma_bytes, messages * source.size());
    EXPECT_LE(difference(there.tally(), there_before).work_requests, returns_of_channels(messages));
    table.remove(from.region);
    table.remove(to.region);
}

TEST_F(Counting, AStreamFromRegisteredMemoryIsNotCopiedAndMayShareDoorbells) {
    auto here = connection->open_channel(1);
    ASSERT_TRUE(here.has_value()) << here.error().message;
    ASSERT_TRUE(until([&] { return dpu.seen.channels.size() == 1; }));
    Channel& there = dpu.seen.channels[0].second;
    const auto source = pattern(4096, 3);
    RegionTable& table = RegionTable::instance();
    const auto from = *table.add(
        {.base = const_cast<std::byte*>(source.data()), .length = source.size(), .access = 0});
    std::uint32_t local = 0;
    ASSERT_TRUE(here->local_key(from.region, local));
    unsigned taken = 0;
    const auto take = [&](std::uint8_t, const std::byte* data, std::uint32_t length) {
        EXPECT_TRUE(std::equal(data, data + length, source.begin(), source.end()));
        ++taken;
        return true;
    };
    const auto ignore = [](auto, auto, auto) { return true; };
    // Connected, so that all that follows goes from where it is.
    ASSERT_EQ(here->send(1, source), Errc::ok);
    ASSERT_TRUE(until([&] {
        (void)poll(*here, ignore);
        (void)poll(there, take);
        return taken == 1;
    }));
    constexpr unsigned messages = 1600;
    for (const bool more : {false, true}) {
        const Tally before = here->tally();
        Channel::Ticket ticket = 0;
        taken = 0;
        for (unsigned sent = 0; sent < messages;) {
            const Errc result =
                here->send_from(1, source.data(), static_cast<std::uint32_t>(source.size()), local,
                                false, more, ticket);
            if (result == Errc::ok) {
                ++sent;
                continue;
            }
            ASSERT_EQ(result, Errc::again);
            (void)poll(there, take);
        }
        here->ring();
        ASSERT_TRUE(until([&] {
            (void)poll(*here, ignore);
            (void)poll(there, take);
            return taken == messages;
        }));
        const Tally cost = difference(here->tally(), before);
        EXPECT_EQ(cost.copied_bytes, 0u);
        EXPECT_EQ(cost.rdma_bytes, messages * source.size());
        EXPECT_EQ(cost.work_requests, messages);
        EXPECT_LE(cost.signalled, messages / tuning::signal_every + 1);
        // What has come to the end of its credit goes without waiting for more.
        EXPECT_LE(cost.doorbells, more ? messages / tuning::doorbell_batch * 3 / 2 : messages);
    }
    table.remove(from.region);
}

TEST_F(Counting, ShortMessagesShareDoorbellsIfMoreFollow) {
    auto here = connection->open_channel(1);
    ASSERT_TRUE(here.has_value()) << here.error().message;
    ASSERT_TRUE(until([&] { return dpu.seen.channels.size() == 1; }));
    Channel& there = dpu.seen.channels[0].second;
    const auto message = pattern(8, 3);
    unsigned taken = 0;
    const auto take = [&](std::uint8_t, const std::byte* data, std::uint32_t length) {
        EXPECT_TRUE(std::equal(data, data + length, message.begin(), message.end()));
        ++taken;
        return true;
    };
    const auto arrives = [&](unsigned messages) {
        return until([&] {
            (void)poll(*here, [](auto, auto, auto) { return true; });
            (void)poll(there, take);
            return taken == messages;
        });
    };
    ASSERT_EQ(here->send(1, message), Errc::ok);
    ASSERT_TRUE(arrives(1)); // it is connected
    constexpr unsigned messages = 1600;
    for (const bool more : {false, true}) {
        const Tally before = here->tally();
        taken = 0;
        for (unsigned sent = 0; sent < messages;) {
            const Errc result = here->send(1, message, more);
            ASSERT_TRUE(result == Errc::ok || result == Errc::again);
            sent += result == Errc::ok ? 1 : 0;
            if (result == Errc::again) {
                (void)poll(there, take);
            }
        }
        here->ring();
        ASSERT_TRUE(arrives(messages));
        const Tally cost = difference(here->tally(), before);
        EXPECT_EQ(cost.copied_bytes, messages * message.size()) << "one copy, into the request";
        EXPECT_EQ(cost.work_requests, messages);
        EXPECT_LE(cost.doorbells, more ? messages / tuning::doorbell_batch * 3 / 2 : messages);
    }
}

TEST_F(Counting, ALongPutIsNotCopied) {
    std::vector<std::byte> target(4u << 20);
    const auto source = pattern(target.size(), 3);
    auto key = *RegionTable::instance().add(
        {.base = target.data(), .length = target.size(), .access = access_remote_all});
    key.link_data = link_data_of(dpu_device, key.region);
    ASSERT_NE(key.link_data, 0u);
    RemoteRegion region(key);
    const Tally before = host.port->tally();
    int token = 0;
    ASSERT_EQ(connection->put(source.data(), source.size(), region, key.base, &token),
              Errc::in_progress);
    ASSERT_TRUE(until([&] { return host.seen.completions.size() == 1; }));
    EXPECT_EQ(host.seen.completions[0].status, Errc::ok);
    EXPECT_EQ(target, source);
    std::vector<std::byte> back(target.size());
    ASSERT_EQ(connection->get(back.data(), back.size(), region, key.base, &token),
              Errc::in_progress);
    ASSERT_TRUE(until([&] { return host.seen.completions.size() == 2; }));
    EXPECT_EQ(back, source);
    const Tally cost = difference(host.port->tally(), before);
    EXPECT_EQ(cost.copied_bytes, 0u);
    EXPECT_EQ(cost.rdma_bytes, 2 * target.size());
    EXPECT_LE(cost.work_requests, 2 * (target.size() >> 20) + 8) << "a megabyte each";
    EXPECT_LE(cost.signalled, 8u);
    RegionTable::instance().remove(key.region);
}

TEST_F(Counting, ShortPutsAndGetsGoByRdmaToo) {
    std::vector<std::byte> target(8192);
    auto key = *RegionTable::instance().add(
        {.base = target.data(), .length = target.size(), .access = access_remote_all});
    key.link_data = link_data_of(dpu_device, key.region);
    RemoteRegion region(key);
    for (const std::size_t size : {1u, 8u, 200u, 3000u, 8192u}) {
        const auto source = pattern(size, static_cast<std::uint32_t>(size));
        std::vector<std::byte> back(size);
        host.seen.completions.clear();
        int token = 0;
        ASSERT_EQ(connection->put(source.data(), size, region, key.base, nullptr), Errc::ok);
        ASSERT_EQ(connection->get(back.data(), size, region, key.base, &token), Errc::in_progress);
        // Without the owner's help.
        const auto deadline = std::chrono::steady_clock::now() + contract::patience;
        while (host.seen.completions.empty()) {
            host.progress();
            ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        }
        EXPECT_EQ(back, source) << size;
    }
    RegionTable::instance().remove(key.region);
}

TEST_F(Counting, AFencedMessageWaitsForAPutThatIsOnlyPartlyPosted) {
    constexpr std::size_t chunk = tuning::rdma_chunk;
    constexpr std::size_t piece = tuning::bounce_up_to + 64;
    std::vector<std::byte> target(32 * chunk);
    const std::vector<std::byte> first(target.size(), std::byte{1});
    const std::vector<std::byte> second(target.size(), std::byte{2});
    auto key = *RegionTable::instance().add(
        {.base = target.data(), .length = target.size(), .access = access_remote_all});
    key.link_data = link_data_of(dpu_device, key.region);
    RemoteRegion region(key);
    // Registered, so that all is posted long before the device is done with the first put.
    const auto registered = [](const std::vector<std::byte>& source) {
        return RegionTable::instance()
            .add({.base = const_cast<std::byte*>(source.data()),
                  .length = source.size(),
                  .access = access_remote_read})
            ->region;
    };
    const std::uint64_t first_region = registered(first);
    const std::uint64_t second_region = registered(second);
    Pipe& pipe = Inside::pipe(*connection);
    const auto put = [&](const std::vector<std::byte>& source, std::size_t length) {
        ASSERT_EQ(connection->put(source.data(), length, region, key.base, nullptr,
                                  {.region = &source == &first ? first_region : second_region}),
                  Errc::in_progress);
    };
    // The device has work for long, and many more requests than are left behind these.
    const auto post_until_a_part_is_left = [&] {
        const Pipe::Ticket before = pipe.posted();
        put(first, first.size());
        while (pipe.posted() - before < tuning::send_queue - 24) {
            put(first, piece);
        }
        const Pipe::Ticket last = pipe.posted();
        put(second, second.size());
        return pipe.posted() - last < second.size() / chunk ? last : 0;
    };
    // It may be done all the same, if this program had to wait for a CPU meanwhile: once more then.
    auto deadline = std::chrono::steady_clock::now() + contract::patience;
    Pipe::Ticket last = 0;
    while ((last = post_until_a_part_is_left()) == 0) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "no part of it is ever left";
        ASSERT_TRUE(until([&] { return connection->flush(nullptr) == Errc::ok; }));
    }
    ASSERT_EQ(connection->fence(), Errc::ok);
    deadline = std::chrono::steady_clock::now() + contract::patience;
    while (!pipe.done(last)) {
        (void)Inside::queues(*host.port).fetch();
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the device does not get on";
    }
    EXPECT_EQ(connection->send(1, pattern(8, 1)), Errc::again) << "there is room, but not its turn";
    bool was_there = false;
    dpu.seen.on_message_hook = [&](Connection&) { was_there = target == second; };
    ASSERT_TRUE(until([&] { return connection->send(1, pattern(8, 1)) == Errc::ok; }));
    ASSERT_TRUE(until([&] { return !dpu.seen.messages.empty(); }));
    EXPECT_TRUE(was_there);
    ASSERT_TRUE(until([&] { return connection->flush(nullptr) == Errc::ok; }));
    RegionTable::instance().remove(first_region);
    RegionTable::instance().remove(second_region);
    RegionTable::instance().remove(key.region);
}

/// Gets whose answers are under way: what is behind them must say so to the device, whose order an
/// emulated one keeps anyhow.
class BehindReads : public Counting {
protected:
    std::vector<std::byte> memory_ = std::vector<std::byte>(1u << 20);
    std::vector<std::byte> into_ = std::vector<std::byte>(memory_.size());
    RegionKey key_ = *RegionTable::instance().add(
        {.base = memory_.data(), .length = memory_.size(), .access = access_remote_all});
    End sender_{host_device, {.face = "test", .one_way = true}};
    Connection* one_way_ = nullptr;
    int token_ = 0;

    void SetUp() override {
        Counting::SetUp();
        key_.link_data = link_data_of(dpu_device, key_.region);
        one_way_ = *sender_.port->connect(dpu.port->address(), {}, nullptr);
        ASSERT_TRUE(until([&] {
            sender_.progress();
            return !sender_.seen.connected.empty();
        }));
    }
    void TearDown() override { RegionTable::instance().remove(key_.region); }
    /// How many of the work requests of what is done wait for the get before them.
    template <class Do> std::uint64_t fenced(End& end, Connection& by, Do&& what) {
        RemoteRegion region(key_);
        const std::size_t before = end.seen.completions.size();
        EXPECT_EQ(by.get(into_.data(), into_.size(), region, key_.base, &token_),
                  Errc::in_progress);
        const std::uint64_t count = end.port->tally().fenced;
        what(region);
        const std::uint64_t result = end.port->tally().fenced - count;
        EXPECT_TRUE(until([&] {
            end.progress();
            return end.seen.completions.size() > before && by.flush(nullptr) == Errc::ok;
        }));
        return result;
    }
    static Errc add_one(Connection& by, RemoteRegion& region, std::uint64_t address) {
        return by.atomic({.op = AtomicOp::add, .size = 8, .operand = 1}, region, address, nullptr);
    }
};

TEST_F(BehindReads, WhatNeedNotWaitDoesNot) {
    EXPECT_EQ(fenced(host, *connection,
                     [&](RemoteRegion& region) {
                         EXPECT_EQ(connection->send(1, pattern(8, 1)), Errc::ok);
                         EXPECT_NE(add_one(*connection, region, key_.base), Errc::again);
                     }),
              0u);
    EXPECT_EQ(fenced(sender_, *one_way_,
                     [&](RemoteRegion&) { EXPECT_EQ(one_way_->send(1, pattern(8, 1)), Errc::ok); }),
              0u);
}

TEST_F(BehindReads, AFenceHoldsForWhatIsSentAndWritten) {
    EXPECT_EQ(fenced(host, *connection,
                     [&](RemoteRegion& region) {
                         EXPECT_EQ(connection->fence(), Errc::ok);
                         EXPECT_EQ(connection->send(1, pattern(8, 1)), Errc::ok);
                         EXPECT_EQ(connection->put("x", 1, region, key_.base, nullptr), Errc::ok);
                         EXPECT_NE(add_one(*connection, region, key_.base), Errc::again);
                     }),
              3u);
    EXPECT_EQ(
        fenced(host, *connection,
               [&](RemoteRegion&) { EXPECT_EQ(connection->send(1, pattern(8, 1)), Errc::ok); }),
        0u)
        << "the fence was before this get";
}

TEST_F(BehindReads, OneWayItIsSoForAllOneSidedOperations) {
    EXPECT_EQ(fenced(sender_, *one_way_,
                     [&](RemoteRegion& region) {
                         EXPECT_EQ(one_way_->put("x", 1, region, key_.base, nullptr), Errc::ok);
                         EXPECT_NE(add_one(*one_way_, region, key_.base), Errc::again);
                     }),
              2u);
}

TEST(Queues, TheReceiveQueueOfAPortIsMadeOnce) {
    // Where devices cannot make one larger (the emulated one can), a ninth connection must do
    // without.
    const auto domain = *Domain::open();
    const End host(devices(domain, Side::host).at(0));
    const auto queues = *Queues::create(host.port->rdma(), tuning::port_pipes);
    const auto depth = [&] {
        ibv_srq_attr attr{};
        EXPECT_EQ(::ibv_query_srq(queues->srq(), &attr), 0);
        return attr.max_wr;
    };
    const std::uint32_t at_first = depth();
    EXPECT_GE(at_first, std::min(host.port->rdma()->limits().shared_depth,
                                 tuning::port_pipes * tuning::receive_buffers));
    for (unsigned i = 0; i < 20; ++i) {
        const auto room = queues->add_room();
        ASSERT_TRUE(room.has_value()) << room.error().message;
    }
    EXPECT_EQ(depth(), at_first);
}

TEST_F(Counting, RegionsThatNameAnotherAreRegisteredByThatOnce) {
    std::vector<std::byte> memory(1 << 20);
    RegionTable& table = RegionTable::instance();
    constexpr std::uint32_t access = access_remote_read | access_remote_write;
    const auto whole =
        table.add({.base = memory.data(), .length = memory.size(), .access = access});
    ASSERT_TRUE(whole);
    const auto part = [&](std::size_t offset) {
        return table.add({.base = memory.data() + offset,
                          .length = 4096,
                          .access = access,
                          .device_region = whole->region});
    };
    const auto first = part(0);
    const auto second = part(8192);
    ASSERT_TRUE(first && second);
    RdmaDevice& device = *host.port->rdma();
    const std::size_t before = device.known_regions();
    const RdmaDevice::RegionKeys keys = device.keys_of(first->region);
    ASSERT_TRUE(keys.valid);
    EXPECT_EQ(device.keys_of(second->region).rkey, keys.rkey);
    EXPECT_EQ(device.keys_of(whole->region).rkey, keys.rkey);
    EXPECT_EQ(device.known_regions(), before + 1);
    table.remove(first->region);
    EXPECT_FALSE(device.keys_of(first->region).valid);
    EXPECT_TRUE(device.keys_of(second->region).valid);
    table.remove(whole->region);
    EXPECT_EQ(device.known_regions(), before);
    EXPECT_FALSE(device.keys_of(second->region).valid) << "what held it is gone";
    table.remove(second->region);
}

} // namespace
} // namespace comch::link::verbs
