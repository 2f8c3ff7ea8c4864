// A peer that speaks the core's language, and nonsense in the provider's: it loses its connection,
// and nobody else is disturbed.
#include <cstring>
#include <ostream>
#include <utility>
#include <vector>

#include <malloc.h>

#include "test_attacker.hpp"
#include "test_connection.hpp"

namespace comch::ofi::test {
namespace {

/// Records that are sent one after the other.
struct Speech {
    const char* name;
    std::vector<Record> records;
    bool is_begun = false; ///< there is a message in it of which a part is missing

    friend std::ostream& operator<<(std::ostream& out, const Speech& speech) {
        return out << speech.name;
    }
};

struct HostilePeer : Attacked, testing::WithParamInterface<Speech> {
    char buffer[100] = {};

    void say(const Speech& speech) {
        for (const auto& record : speech.records) {
            ASSERT_NO_FATAL_FAILURE(Attacked::say(record));
        }
    }
};

using Understood = HostilePeer;

TEST_F(HostilePeer, ThatTakesNoAnswersIsCutOff) {
    constexpr std::uint64_t length = 30'000;
    std::vector<char> memory(length);
    victim.expose(memory.data(), memory.size(), 7);
    ASSERT_TRUE(until([&] { return attacker.connected(); }));
    struct {
        wire::Remote remote;
        wire::Length length;
    } const request{{7, 0, 1}, {length}};
    const auto* const bytes = reinterpret_cast<const std::byte*>(&request);
    const std::vector<std::byte> record(bytes, bytes + sizeof(request));
    for (unsigned i = 0; i < 2 * wire::max_owed / length; ++i) {
        (void)attacker.send(id_of(wire::Kind::read), record);
        (void)fi_cq_read(victim.tx, nullptr, 0);
    }
    EXPECT_TRUE(until([&] { return attacker.ended(); }));
}

TEST_F(Understood, APeerThatKeepsToTheRules) {
    COMCH_FI(fi_trecv(victim.ep, buffer, sizeof(buffer), nullptr, FI_ADDR_UNSPEC, 0,
                      ~std::uint64_t{0}, nullptr));
    ASSERT_NO_FATAL_FAILURE(say({"", {begin(20, 11, wire::has_tag), go_on(8), go_on(1)}}));
    fi_cq_tagged_entry entry{};
    ASSERT_TRUE(until([&] { return fi_cq_read(victim.rx, &entry, 1) == 1; }));
    EXPECT_EQ(entry.len, 12u);
    EXPECT_EQ(entry.tag, 0x6d6d6d6d6d6d6d6du);
    EXPECT_FALSE(attacker.ended());
}

TEST_F(Understood, EachSendCompletesOnceWhateverThePeerSaysOfIt) {
    ASSERT_TRUE(until([&] { return attacker.connected(); }));
    const fi_addr_t to = victim.add(attacker.name(victim));
    const std::vector<char> data(65536, 'd');
    constexpr unsigned most = 300;
    unsigned sent = 0;
    ASSERT_TRUE(until(
        [&] { return fi_send(victim.ep, data.data(), data.size(), nullptr, to, nullptr) == 0; }));
    // The attacker takes nothing out now: where messages go in parts, some of the last wait.
    for (++sent; sent < most; ++sent) {
        if (fi_send(victim.ep, data.data(), data.size(), nullptr, to, nullptr) != 0) {
            break;
        }
    }
    unsigned completed = 0;
    const auto count = [&] {
        fi_cq_tagged_entry entry{};
        fi_cq_err_entry failure{};
        const ssize_t got = fi_cq_read(victim.tx, &entry, 1);
        completed += got == 1 ? 1 : 0;
        completed += got == -FI_EAVAIL && fi_cq_readerr(victim.tx, &failure, 0) == 1 ? 1 : 0;
    };
    // Every name that an operation of the victim's can have by now: a new one's, or one's that is
    // used again and again.
    for (std::uint64_t i = 1; i <= most; ++i) {
        for (const std::uint64_t name : {i | std::uint64_t{1} << 32, 1 | i << 32}) {
            for (const wire::Kind kind : {wire::Kind::done, wire::Kind::read_reply}) {
                const wire::Done done{name, 0, 0};
                const auto* const bytes = reinterpret_cast<const std::byte*>(&done);
                for (int tries = 1;
                     attacker.send(id_of(kind), {bytes, bytes + sizeof(done)}) == Errc::again;
                     ++tries) {
                    count();
                    ASSERT_LT(tries, 10'000'000);
                    if (tries % 1000 == 0) {
                        attacker.progress(); // it has been cut off, and does not know
                    }
                }
                count();
            }
        }
    }
    const auto end = Clock::now() + std::chrono::milliseconds(100);
    while (Clock::now() < end || completed < sent) {
        ASSERT_LT(Clock::now(), end + std::chrono::seconds(60)) << completed << " of " << sent;
        attacker.progress();
        count();
    }
    EXPECT_EQ(completed, sent);
}

TEST_F(Understood, ThatAPeerIsOfAnotherVersion) {
    for (const std::uint32_t version : {wire::version - 1, wire::version + 1}) {
        Attacker other(victim, version);
        ASSERT_TRUE(until([&] {
            other.progress();
            return other.ended();
        }));
        EXPECT_EQ(other.reason(), link::Reason::version_mismatch);
    }
}

TEST_F(HostilePeer, ThatClaimsToBeAnothersPortIsRefused) {
    attacker.connect_again(victim, 1, process_id() ^ 1);
    ASSERT_TRUE(until([&] { return attacker.ended(); }));
    EXPECT_EQ(attacker.reason(), link::Reason::rejected);
    attacker.connect_again(victim, 1);
    EXPECT_TRUE(until([&] { return attacker.connected(); }));
}

/// What one that has gone leaves in the victim's memory is little, but may be there for each of
/// them.
struct Gone : HostilePeer {
    template <class Say> void expect_forgotten(Say say) {
        const auto meet = [&](std::uint64_t first, std::uint64_t count) {
            for (std::uint64_t i = first; i < first + count; ++i) {
                attacker.connect_again(victim, i);
                ASSERT_TRUE(until([&] { return attacker.connected(); }));
                say();
            }
        };
        ASSERT_NO_FATAL_FAILURE(meet(1, 1000));
        const std::size_t before = ::mallinfo2().uordblks;
        ASSERT_NO_FATAL_FAILURE(meet(1001, 3000));
        EXPECT_LT(::mallinfo2().uordblks, before + 150'000);
    }
};

TEST_F(Gone, PeersAreForgotten) {
    expect_forgotten([] {});
}

TEST_F(Gone, PeersAreForgottenAlsoThoseThatListenUnderANameThatIsKnown) {
    const Address known = address_at(victim, victim.look_up("well"));
    expect_forgotten([&] { ASSERT_EQ(attacker.claim(known), Errc::ok); });
}

TEST_P(HostilePeer, IsCutOff) {
    COMCH_FI(fi_recv(victim.ep, buffer, sizeof(buffer), nullptr, FI_ADDR_UNSPEC, nullptr));
    COMCH_FI(fi_trecv(victim.ep, buffer, sizeof(buffer), nullptr, FI_ADDR_UNSPEC, 0,
                      ~std::uint64_t{0}, nullptr));
    ASSERT_NO_FATAL_FAILURE(say(GetParam()));
    EXPECT_TRUE(until([&] { return attacker.ended(); }));
    if (GetParam().is_begun) {
        EXPECT_EQ(await(victim.rx).error, FI_ECONNRESET) << "whose the beginning was";
        COMCH_FI(fi_recv(victim.ep, buffer, sizeof(buffer), nullptr, FI_ADDR_UNSPEC, nullptr));
    }
    EXPECT_EQ(fi_cq_read(victim.rx, nullptr, 0), -FI_EAGAIN) << "no message was meant";
    // Others are served: the receives are still posted.
    Node friendly;
    const fi_addr_t to = friendly.add(victim.name());
    post([&] { return fi_inject(friendly.ep, "hello", 6, to); },
         {friendly.tx, friendly.rx, victim.tx, victim.rx});
    EXPECT_EQ(await(victim.rx, {friendly.tx}).entry.len, 6u);
    EXPECT_STREQ(buffer, "hello");
}

constexpr std::uint64_t too_long = wire::max_in_parts + 1;

INSTANTIATE_TEST_SUITE_P(
    , HostilePeer,
    testing::Values(
        Speech{"APartOfNothing", {go_on(8)}},
        Speech{"AnEmptyPart", {begin(100, 10), go_on(0)}, true},
        Speech{"NoLength", {{id_of(wire::Kind::parts), std::vector<std::byte>(4, std::byte{1})}}},
        Speech{"ALengthOfNothing", {begin(0, 0)}}, Speech{"AllInTheFirstPart", {begin(8, 8)}},
        Speech{"MoreThanAllInTheFirstPart", {begin(8, 9)}}, Speech{"TooLong", {begin(too_long, 8)}},
        Speech{"AllMemoryThereIs", {begin(~std::uint64_t{0}, 8)}},
        Speech{"OneInAnother", {begin(100, 10), begin(100, 10)}, true},
        Speech{"MoreThanAnnounced", {begin(100, 10), go_on(91)}, true},
        Speech{"ATagThatIsCutOff", {begin(7, 1, wire::has_tag), go_on(6)}},
        Speech{"ARegionThatNobodyAskedFor",
               {{id_of(wire::Kind::region), std::vector<std::byte>(sizeof(wire::Region))}}},
        Speech{"ANameOfNoLength",
               {{id_of(wire::Kind::name), std::vector<std::byte>(sizeof(wire::Name))}}},
        Speech{"ANameThatIsCutOff",
               {{id_of(wire::Kind::name), std::vector<std::byte>(sizeof(wire::Name) - 1)}}},
        Speech{"ANameThatIsTooLong",
               {{id_of(wire::Kind::name),
                 std::vector<std::byte>(sizeof(wire::Name) + wire::max_name + 1)}}},
        Speech{"AnUnknownKind", {{31, {}}}}, Speech{"NoKind", {{0, {}}}}),
    [](const auto& test) { return test.param.name; });

TEST(HostileClient, DoesNotAcceptItself) {
    using wire::Kind;
    for (const Kind kind : {Kind::accept, Kind::reject, Kind::message}) {
        Listener listener("kitchen");
        Attacker attacker(listener.info);
        const CmEvent request = next_event(listener.eq);
        {
            Node server(connected(), request.info, listener.fabric);
            const auto end = Clock::now() + std::chrono::seconds(60);
            const auto progress = [&] {
                ASSERT_LT(Clock::now(), end);
                attacker.progress();
                (void)fi_cq_read(server.rx, nullptr, 0);
            };
            while (!attacker.connected()) {
                ASSERT_NO_FATAL_FAILURE(progress());
            }
            ASSERT_EQ(attacker.send(id_of(kind), {}), Errc::ok);
            while (!attacker.ended()) {
                ASSERT_NO_FATAL_FAILURE(progress());
            }
            std::uint32_t event = 0;
            fi_eq_cm_entry entry{};
            EXPECT_NE(fi_eq_read(server.eq, &event, &entry, sizeof(entry), 0),
                      static_cast<ssize_t>(sizeof(entry)));
            EXPECT_EQ(fi_accept(server.ep, nullptr, 0), -FI_ECONNABORTED);
        }
        fi_freeinfo(request.info);
    }
}

} // namespace
} // namespace comch::ofi::test
