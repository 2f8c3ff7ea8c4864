// What happens between the refusal of a put and the moment when its requester hears of it, seen from
// either end by a peer that is played by hand.
#include <array>

#include "core/link/soft/test_raw_peer.hpp"
#include "core/memory/region_table.hpp"
#include "core/memory/remote_region.hpp"

namespace comch::link::soft::test {
namespace {

class Refusal : public ::testing::Test {
protected:
    Lab lab;
    std::shared_ptr<Domain> domain = lab.domain();
    End end{lab, Side::dpu};
    RawPeer peer{domain};
    const std::array<std::byte, 8> data{};

    void SetUp() override { peer.join(end); }

    /// The raw peer's put, to memory that nobody has registered.
    Errc put_to_nowhere() {
        const OneSided request{.region = 77, .address = 0x1000, .length = 8, .op = 0};
        return peer.pipe.put_record(Kind::put, 0, sizeof(request) + 8, [&](std::byte* to) {
            std::memcpy(to, &request, sizeof(request));
            std::memset(to + sizeof(request), 1, 8);
        });
    }
    /// A put to the raw peer, which has its record at hand.
    void ask_for_a_put(RingReader::Record& record) {
        RemoteRegion region({.process_id = peer.hello.process_id,
                             .region = 77,
                             .base = 0x1000,
                             .length = 4096,
                             .access = access_remote_all});
        ASSERT_EQ(peer.connection->put(data.data(), data.size(), region, 0x1000, nullptr),
                  Errc::ok);
        ASSERT_EQ(peer.pipe.rx().peek(record), RingReader::Peek::record);
    }
    /// What the raw peer finds next in its ring.
    std::optional<Kind> next_kind() {
        RingReader::Record record;
        if (peer.pipe.rx().peek(record) != RingReader::Peek::record) {
            return std::nullopt;
        }
        return static_cast<Kind>(record.header.kind);
    }
    /// How far the raw peer's records have been taken out.
    std::uint64_t taken_out() { return peer.pipe.tx().consumed(); }
};

TEST_F(Refusal, IsOnItsWayBeforeAnythingLaterIsHandledOrTheRecordCounts) {
    ASSERT_EQ(put_to_nowhere(), Errc::ok);
    ASSERT_EQ(peer.pipe.send(1, bytes_of("later")), Errc::ok);
    std::optional<Kind> said;
    end.seen.message_hook = [&](Connection&, std::uint8_t, const std::byte*, std::uint32_t) {
        said = next_kind();
    };
    ASSERT_TRUE(until([&] { return end.seen.message_count == 1; }, end));
    EXPECT_EQ(said, Kind::error_reply);
}

TEST_F(Refusal, EndsTheConnectionWhereItCannotBeSaid) {
    unsigned answers = 0;
    while (peer.connection->send(1, bytes_of("in the way")) == Errc::ok) {
        ASSERT_LT(++answers, RawPeer::cells());
    }
    const std::uint64_t before = peer.pipe.tx().head();
    ASSERT_EQ(put_to_nowhere(), Errc::ok);
    ASSERT_TRUE(until([&] { return !end.seen.ends.empty(); }, end));
    EXPECT_EQ(end.seen.ends[0].reason, Reason::protocol_error);
    EXPECT_FALSE(peer.connection->error_text().empty());
    EXPECT_LE(taken_out(), before) << "a flush could take the put for done";
    EXPECT_TRUE(peer.pipe.peer_refused_something());
}

TEST_F(Refusal, IsToldByTheEndOfAConnectionThatHadNoRoomForIt) {
    peer.control().direction[0].producer.closed.store(static_cast<std::uint32_t>(Goodbye::refusal));
    peer.socket.reset();
    ASSERT_TRUE(until([&] { return !end.seen.ends.empty(); }, end));
    EXPECT_EQ(end.seen.ends[0].reason, Reason::protocol_error);
    EXPECT_FALSE(peer.connection->error_text().empty());
}

TEST_F(Refusal, IsHeardBeforeAFlushIsDone) {
    RingReader::Record record;
    ASSERT_NO_FATAL_FAILURE(ask_for_a_put(record));
    ASSERT_EQ(static_cast<Kind>(record.header.kind), Kind::put);
    int token = 0;
    // Answers that have come do not show it, as long as it may be among those that wait.
    ASSERT_EQ(peer.pipe.send(1, bytes_of("before")), Errc::ok);
    const Reply refusal{.op = 0, .offset = static_cast<std::uint64_t>(Errc::not_permitted)};
    ASSERT_EQ(
        peer.pipe.put_record(Kind::error_reply, 0, sizeof(refusal),
                             [&](std::byte* to) { std::memcpy(to, &refusal, sizeof(refusal)); }),
        Errc::ok);
    peer.pipe.pop(record);
    peer.pipe.idle(); // credit
    // Nor does it that the memory of later ones may be touched directly.
    std::array<std::byte, 8> memory{};
    const auto key = RegionTable::instance().add(
        {.base = memory.data(), .length = memory.size(), .access = access_remote_all});
    RemoteRegion own(*key);
    ASSERT_EQ(peer.connection->put(data.data(), data.size(), own, key->base, nullptr), Errc::ok);
    RegionTable::instance().remove(key->region);
    EXPECT_EQ(peer.connection->flush(nullptr), Errc::in_progress);
    EXPECT_EQ(peer.connection->flush(&token), Errc::in_progress);
    ASSERT_TRUE(until([&] { return !end.seen.ends.empty(); }, end));
    ASSERT_EQ(end.seen.completions.size(), 1u);
    EXPECT_EQ(end.seen.completions[0].token, &token);
    EXPECT_NE(end.seen.completions[0].status, Errc::ok);
    EXPECT_EQ(peer.connection->flush(nullptr), Errc::connection_reset);
}

TEST_F(Refusal, IsNotWaitedForWhileAPeerThatNeverStopsIsListenedTo) {
    RingReader::Record record;
    ASSERT_NO_FATAL_FAILURE(ask_for_a_put(record));
    ASSERT_EQ(peer.pipe.send(1, bytes_of("and on")), Errc::ok);
    peer.pipe.pop(record);
    peer.pipe.idle();
    int token = 0;
    ASSERT_EQ(peer.connection->flush(&token), Errc::in_progress);
    // The ring is never empty, but all that can have come before the put was taken out has been seen.
    bool asked_again = false;
    end.seen.message_hook = [&](Connection&, std::uint8_t, const std::byte*, std::uint32_t) {
        ASSERT_EQ(peer.pipe.send(1, bytes_of("and on")), Errc::ok);
    };
    unsigned calls = 0;
    while (end.seen.completions.empty() || !asked_again) {
        (void)end.progress();
        asked_again = asked_again || peer.connection->flush(nullptr) == Errc::ok;
        ASSERT_LT(++calls, RawPeer::cells());
    }
    EXPECT_GE(end.seen.message_count, RawPeer::cells() / line_cells); // of a line each
    EXPECT_EQ(end.seen.completions[0].status, Errc::ok);
}

} // namespace
} // namespace comch::link::soft::test
