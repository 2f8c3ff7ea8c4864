// Gets that both ends copy, as the one-sided engines of both ends do it: here step by step, and with a
// peer that spoils what it can.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "core/base/test_failing_new_operators.hpp"
#include "core/device/process_id.hpp"
#include "core/link/one_sided/engine_impl.hpp"
#include "core/link/soft/pipe.hpp"
#include "core/link/soft/test_raw_peer.hpp"
#include "core/memory/region_table.hpp"

namespace comch::link::soft::test {
namespace {

using joint::Claims;
using joint::Done;
using Way = CopyWays::Way;

/// One end of a pipe, with nothing around it.
struct Bare {
    counters::Slot slot{};
    Pipe pipe;
    OneSidedEngine<Pipe> engine{pipe};
    std::vector<std::pair<void*, Errc>> done;

    void attach(Pipe&& made, int process) {
        pipe = std::move(made);
        pipe.attach(-1, &slot, true);
        pipe.peer_memory().open(process, static_cast<std::uint64_t>(::getpid()));
    }
    auto note() {
        return [this](void* token, Errc status) { done.emplace_back(token, status); };
    }
    /// Takes out what has come and does it; false: the peer broke the protocol.
    bool take_records() {
        RingReader::Record record;
        while (pipe.rx().peek(record) == RingReader::Peek::record) {
            const auto kind = static_cast<Kind>(record.header.kind);
            if (kind != Kind::pad &&
                !engine.handle(kind, record.payload, record.header.length, note())) {
                return false;
            }
            pipe.rx().pop(record);
        }
        (void)pipe.rx().return_rest();
        return true;
    }
    void progress() {
        EXPECT_TRUE(take_records());
        (void)engine.advance(note());
    }
};

class JointGet : public ::testing::Test {
protected:
    static constexpr std::size_t size = (16 << 20) + 100;

    std::vector<std::byte> content = pattern(size, 1);
    std::vector<std::byte> got = std::vector<std::byte>(size);
    RegionKey key;
    UniqueFd process = own_process();
    Mapping segment;
    Bare requester;
    Bare owner;
    int token = 0;
    std::size_t joint_part = size; ///< of a get, what both ends copy

    void SetUp() override {
        auto created = Pipe::create().value();
        segment = map_shared_memory(created.memfd.get(), ring_offset, true).value();
        owner.attach(Pipe::accept(created.memfd.get()).value(), process.get());
        requester.attach(std::move(created.pipe), process.get());
        key = RegionTable::instance()
                  .add({.base = content.data(), .length = size, .access = access_remote_all})
                  .value();
        know_the_ways();
    }
    void TearDown() override { RegionTable::instance().remove(key.region); }

    /// The others are known to be slow.
    virtual void know_the_ways() {
        for (const std::size_t length : {size, size / 4}) {
            took(Way::ring, length, 1'000'000'000);
            took(Way::alone, length, 900'000'000);
            took(Way::joint, length, 1);
        }
    }
    void took(Way way, std::size_t length, std::uint64_t time) {
        for (unsigned i = 0; i < 2 * tuning::pace_of_short.turn(); ++i) {
            requester.pipe.ways().took(way, length, time);
        }
    }
    Direction::Joint& words(std::size_t index = 0) {
        return reinterpret_cast<SegmentControl*>(segment.data())->direction[0].joint[index];
    }
    Errc get(std::size_t length = size) {
        std::memset(got.data(), 0, length);
        return requester.engine.get(got.data(), length, key.region, key.base, &token, true);
    }
    bool holds(std::size_t length = size) const {
        return std::memcmp(got.data(), content.data(), length) == 0;
    }
    /// Somebody claims parts at the back and copies nothing, until a get waits for that.
    Errc get_that_waits() {
        for (;; requester.done.clear()) {
            know_the_ways(); // a try may have taught others
            std::atomic<bool> ready = false;
            std::atomic<bool> over = false;
            const auto before = Claims::unpack(words().claims.load()).generation;
            std::thread thief([&] {
                ready.store(true);
                while (!over.load()) {
                    std::uint64_t word = words().claims.load();
                    const auto claims = Claims::unpack(word);
                    if (claims.generation == before || claims.back != 0 ||
                        claims.front + 100 > joint::units_of(joint_part)) {
                        std::this_thread::yield();
                    } else if (words().claims.compare_exchange_strong(
                                   word, Claims{claims.generation, claims.front, 100}.pack())) {
                        return;
                    }
                }
            });
            while (!ready.load()) { // on a busy machine the get would be over before it starts
                std::this_thread::yield();
            }
            const Errc result = get();
            over.store(true);
            thief.join();
            if (Claims::unpack(words().claims.load()).back != 0) {
                return result;
            }
            words().done.store(Done{Claims::unpack(words().claims.load()).generation}.pack());
            finish(result);
            owner.progress(); // who does not look is not asked again
        }
    }
    /// The same, and what `look` answers meanwhile: nothing that took so long that the owner counts as stopped.
    template <class Look> auto get_that_waits_meanwhile(Look look) {
        for (;;) {
            const std::uint64_t began = requester.pipe.now_ns();
            EXPECT_EQ(get_that_waits(), Errc::in_progress);
            const auto seen = look();
            if (requester.pipe.now_ns() - began < tuning::joint_claim_ns) {
                return seen;
            }
            words().done.store(Done{generation(), true, 0}.pack());
            finish(Errc::in_progress);
            owner.progress();
            requester.done.clear();
        }
    }
    /// By hand. False: the owner would end the connection.
    bool ask(const OneSided& request, const Joint& joint) {
        (void)requester.pipe.put_record(
            Kind::joint_get, 0, sizeof(request) + sizeof(joint), [&](std::byte* at) {
                std::memcpy(at, &request, sizeof(request));
                std::memcpy(at + sizeof(request), &joint, sizeof(joint));
            });
        return owner.take_records();
    }
    /// Waits for what a get has answered.
    void finish(Errc result) {
        while (result == Errc::in_progress && requester.done.empty() && !HasFailure()) {
            owner.progress();
            requester.progress();
        }
    }
    [[nodiscard]] std::uint16_t generation(std::size_t index = 0) {
        return Claims::unpack(words(index).claims.load()).generation;
    }
};

TEST_F(JointGet, IsDoneWithoutTheOwner) {
    std::uint64_t asked = 0;
    for (unsigned i = 0; i < joint_gets; ++i) {
        ASSERT_EQ(get(), Errc::ok);
        EXPECT_TRUE(holds());
        EXPECT_NE(requester.pipe.tx().head(), asked);
        asked = requester.pipe.tx().head();
    }
    // It has not looked yet: no use in asking it more.
    ASSERT_EQ(get(), Errc::ok);
    EXPECT_TRUE(holds());
    EXPECT_EQ(requester.pipe.tx().head(), asked);
    EXPECT_EQ(requester.engine.flush(nullptr), Errc::ok) << "nothing is on its way";
    owner.progress();
    EXPECT_FALSE(owner.engine.busy());
    EXPECT_EQ(owner.slot.rx.one_sided_served.get(), 0u);
    ASSERT_EQ(get(), Errc::ok);
    EXPECT_GT(requester.pipe.tx().head(), asked);
}

TEST_F(JointGet, IsHelpedWithByAnOwnerThatAttends) {
    std::atomic<bool> over = false;
    std::thread attending([&] {
        while (!over.load()) {
            owner.progress();
        }
    });
    std::uint64_t total = 0;
    for (unsigned i = 0; i < 100 || owner.slot.rx.one_sided_served.get() < 20; ++i) {
        const std::size_t length = i % 2 == 0 ? size : size / 4;
        const std::size_t before = requester.done.size();
        const Errc result = get(length);
        ASSERT_TRUE(result == Errc::ok || result == Errc::in_progress) << to_string(result);
        while (result == Errc::in_progress && requester.done.size() == before) {
            requester.progress();
        }
        ASSERT_TRUE(holds(length)) << i;
        total += length;
    }
    over.store(true);
    attending.join();
    EXPECT_FALSE(requester.engine.busy());
    // Each says what it has copied.
    const std::uint64_t by_owner = owner.slot.tx.process_vm_bytes.get();
    EXPECT_GT(by_owner, 0u);
    EXPECT_EQ(requester.slot.tx.process_vm_bytes.get() + by_owner, total);
}

TEST_F(JointGet, WaitsForWhatTheOwnerHasClaimed) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    EXPECT_TRUE(requester.engine.busy());
    EXPECT_TRUE(requester.engine.push_before_sleep()) << "nobody would wake us";
    EXPECT_EQ(requester.engine.flush(nullptr), Errc::in_progress);
    requester.progress();
    EXPECT_TRUE(requester.done.empty());
    std::copy(content.end() - 100 * joint::unit, content.end(), got.end() - 100 * joint::unit);
    words().done.store(Done{generation(), false, 100}.pack());
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0], std::make_pair(static_cast<void*>(&token), Errc::ok));
    EXPECT_TRUE(holds());
    EXPECT_EQ(requester.engine.flush(nullptr), Errc::ok);
    EXPECT_FALSE(requester.engine.busy());
}

TEST_F(JointGet, CopiesWhatTheOwnerFailedAt) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    const std::uint64_t before = requester.slot.tx.process_vm_bytes.get();
    words().done.store(Done{generation(), true, 0}.pack());
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0].second, Errc::ok);
    EXPECT_TRUE(holds());
    EXPECT_EQ(requester.slot.tx.process_vm_bytes.get(), before + size);
}

TEST_F(JointGet, CopiesAllWhenTheOwnerSpoilsTheClaims) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    words().claims.store(~std::uint64_t{0});
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0].second, Errc::ok);
    EXPECT_TRUE(holds());
    for (unsigned i = 0; i < 3; ++i) {
        owner.progress();
        ASSERT_EQ(get(), Errc::ok);
        EXPECT_TRUE(holds());
        EXPECT_EQ(words().claims.load(), ~std::uint64_t{0}) << "never again by these words";
    }
}

TEST_F(JointGet, ThatIsCancelledIsReportedWhenNobodyWritesAnyMore) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    std::atomic<bool> cancelling = false;
    std::atomic<bool> left = false;
    std::thread writer([&] { // goes on writing for a while
        while (!cancelling.load()) {
            std::this_thread::yield();
        }
        // By the clock: on a busy machine a number of yields may outlast the patience of the other.
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
        while (std::chrono::steady_clock::now() < until) {
            std::this_thread::yield();
        }
        left.store(true);
        words().done.store(Done{generation(), true, 0}.pack());
    });
    cancelling.store(true);
    requester.engine.cancel(Errc::canceled, [&](void* which, Errc status) {
        EXPECT_TRUE(left.load()) << "it may write still";
        requester.done.emplace_back(which, status);
    });
    writer.join();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0], std::make_pair(static_cast<void*>(&token), Errc::canceled));
    EXPECT_FALSE(requester.engine.busy());
    owner.progress();
    ASSERT_EQ(get(), Errc::ok);
    EXPECT_TRUE(holds());
}

TEST_F(JointGet, IsNotFollowedByPutsBeforeItIsComplete) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    const std::uint64_t value = 4711;
    const auto put = [&] {
        return requester.engine.put(reinterpret_cast<const std::byte*>(&value), 8, key.region,
                                    key.base, nullptr, true);
    };
    EXPECT_EQ(put(), Errc::again);
    EXPECT_EQ(requester.engine.atomic({AtomicOp::add, 8, 1}, key.region, key.base, nullptr),
              Errc::again);
    EXPECT_FALSE(requester.pipe.may_retry());
    words().done.store(Done{generation(), true, 0}.pack());
    requester.progress();
    EXPECT_TRUE(holds());
    EXPECT_TRUE(requester.pipe.may_retry());
    EXPECT_EQ(put(), Errc::ok);
}

TEST_F(JointGet, IsAnsweredByNoRecord) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    const Reply lie{1 | std::uint64_t{generation()} << 32, 1}; // its name: the only one, so far
    (void)owner.pipe.put_record(Kind::error_reply, 0, sizeof(lie),
                                [&](std::byte* at) { std::memcpy(at, &lie, sizeof(lie)); });
    EXPECT_FALSE(requester.take_records());
    EXPECT_TRUE(requester.done.empty());
}

TEST_F(JointGet, ThatIsCancelledIsNotWaitedForForEver) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    requester.engine.cancel(Errc::canceled, requester.note());
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0].second, Errc::canceled);
    EXPECT_FALSE(requester.engine.busy());
}

TEST_F(JointGet, IsNotWaitedForForEver) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    for (const auto& [token, status] : requester.engine.fail_all(Errc::connection_reset)) {
        requester.note()(token, status);
    }
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0].second, Errc::connection_reset);
}

TEST_F(JointGet, OfWhatTheKernelDoesNotReadIsLeftToTheOwner) {
    key.base = 64; // nothing is there
    ASSERT_EQ(get(), Errc::in_progress);
    owner.progress();
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0].second, Errc::not_permitted);
    EXPECT_FALSE(requester.engine.busy());
}

TEST_F(JointGet, FromAnOwnerThatHasSaidGoodbyeIsNotBelieved) {
    ASSERT_EQ(get(), Errc::ok);
    owner.pipe.say_goodbye(); // it may have given the memory back
    EXPECT_EQ(get(), Errc::in_progress);
    EXPECT_EQ(get(size / 4), Errc::in_progress);
    for (const auto& [token, status] : requester.engine.fail_all(Errc::not_connected)) {
        requester.note()(token, status);
    }
    EXPECT_EQ(requester.done.size(), 2u);
}

TEST_F(JointGet, ComesBehindPuts) {
    const std::uint64_t value = 4711;
    ASSERT_EQ(requester.engine.put(reinterpret_cast<const std::byte*>(&value), 8, key.region,
                                   key.base, nullptr),
              Errc::ok);
    ASSERT_EQ(get(), Errc::in_progress) << "by the ring, behind the put";
    std::uint64_t seen = 0;
    for (unsigned i = 0; i < 100 && requester.done.empty(); ++i) {
        owner.progress();
        requester.progress();
        if (i == 0) {
            std::memcpy(&seen, content.data(), 8);
        }
    }
    EXPECT_EQ(seen, value);
}

TEST_F(JointGet, IsNotBegunWhileTheOwnerAnswersOthers) {
    std::vector<std::byte> small(64);
    int other = 0;
    ASSERT_EQ(requester.engine.get(small.data(), small.size(), key.region, key.base, &other, false),
              Errc::in_progress);
    EXPECT_EQ(get(), Errc::again) << "it would not be helped with";
    while (requester.done.empty() && !HasFailure()) {
        owner.progress();
        requester.progress();
    }
    EXPECT_EQ(get(), Errc::ok);
    EXPECT_TRUE(holds());
}

/// Another get of that length, to elsewhere.
class NextJointGet : public JointGet {
protected:
    std::vector<std::byte> next = std::vector<std::byte>(size);
    int other = 0;

    Errc get_next() {
        return requester.engine.get(next.data(), size, key.region, key.base, &other, true);
    }
    /// The owner leaves what it claimed to the requester.
    void owner_gives_up() { words().done.store(Done{generation(), true, 0}.pack()); }
};

TEST_F(NextJointGet, WaitsForTheOneUnderWay) {
    const std::uint64_t copied = get_that_waits_meanwhile([this] {
        EXPECT_EQ(get_next(), Errc::ok) << "there are two at a time";
        EXPECT_EQ(next, content);
        const std::uint64_t before = requester.slot.tx.process_vm_bytes.get();
        for (unsigned i = 0; i < 2 * tuning::pace_of_long.period;
             ++i) { // more than are between trials
            if (get_next() != Errc::again) {
                return std::uint64_t{1};
            }
        }
        return requester.slot.tx.process_vm_bytes.get() - before;
    });
    EXPECT_EQ(copied, 0u) << "by one alone meanwhile";
    EXPECT_FALSE(requester.pipe.may_retry());
    owner_gives_up();
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_TRUE(requester.pipe.may_retry());
    owner.progress();
    requester.done.clear();
    finish(get_next());
    EXPECT_EQ(next, content);
}

TEST_F(NextJointGet, DoesNotWaitForAnOwnerThatIsStopped) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    const std::uint64_t began = requester.pipe.now_ns();
    EXPECT_EQ(get_next(), Errc::ok);
    std::ranges::fill(next, std::byte{});
    Errc result = get_next();
    while (result == Errc::again && requester.pipe.now_ns() - began < 10'000'000'000) {
        requester.progress();
        result = get_next();
    }
    EXPECT_EQ(result, Errc::ok);
    EXPECT_EQ(next, content);
    EXPECT_TRUE(requester.done.empty()) << "the first one waits";
}

TEST_F(NextJointGet, IsWorthARetryWhenTheOneUnderWayIsCancelled) {
    (void)get_that_waits_meanwhile([this] {
        EXPECT_EQ(get_next(), Errc::ok);
        return get_next() == Errc::again ? 0u : 1u;
    });
    ASSERT_FALSE(requester.pipe.may_retry());
    owner_gives_up();
    requester.engine.cancel(Errc::canceled, requester.note());
    EXPECT_TRUE(requester.pipe.may_retry());
}

/// Of which each end copies one part.
class ShortJointGet : public NextJointGet {
protected:
    static constexpr std::size_t length = 256 << 10;

    void know_the_ways() override {
        took(Way::ring, length, 2'000'000);
        took(Way::alone, length, 1'000'000);
        took(Way::joint, length, 1);
    }
    Errc begin(std::vector<std::byte>& into, int& its_token, std::size_t bytes = length) {
        std::memset(into.data(), 0, bytes);
        return requester.engine.get(into.data(), bytes, key.region, key.base, &its_token, true);
    }
    [[nodiscard]] bool has(const std::vector<std::byte>& into) const {
        return std::memcmp(into.data(), content.data(), length) == 0;
    }
    [[nodiscard]] std::uint64_t by_us() const { return requester.slot.tx.process_vm_bytes.get(); }
    [[nodiscard]] std::uint64_t by_owner() const { return owner.slot.tx.process_vm_bytes.get(); }
    void finish_all(std::size_t gets) {
        while (requester.done.size() < gets && !HasFailure()) {
            requester.progress();
        }
    }
    /// What the owner takes of the `index`-th is never done.
    void steal(std::size_t index) {
        const auto claims = Claims::unpack(words(index).claims.load());
        const std::uint32_t rest = joint::units_of(length) - claims.front;
        words(index).claims.store(Claims{claims.generation, claims.front, rest}.pack());
    }
};

TEST_F(ShortJointGet, IsCompletedByAnOwnerThatDoesNotCome) {
    ASSERT_EQ(begin(got, token), Errc::in_progress) << "the rest is the owner's, for a while";
    EXPECT_LT(by_us(), length);
    finish_all(1);
    EXPECT_TRUE(has(got));
    EXPECT_EQ(by_us(), length);
    owner.progress();
    EXPECT_EQ(by_owner(), 0u);
}

TEST_F(ShortJointGet, LeavesOnePartToTheOwner) {
    std::atomic<bool> over = false;
    std::thread attending([&] {
        while (!over.load()) {
            owner.progress();
        }
    });
    std::uint64_t gets = 0;
    for (; gets < 100 || owner.slot.rx.one_sided_served.get() < 20; ++gets) {
        requester.done.clear();
        if (begin(got, token) == Errc::in_progress) {
            finish_all(1);
        }
        ASSERT_TRUE(has(got));
    }
    over.store(true);
    attending.join();
    EXPECT_EQ(by_us() + by_owner(), gets * length);
    EXPECT_LE(owner.slot.rx.one_sided_served.get(), gets) << "more than one part";
}

TEST_F(ShortJointGet, IsBegunBesideAnother) {
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    owner.progress();
    finish_all(2);
    EXPECT_EQ(requester.done[0], std::make_pair(static_cast<void*>(&token), Errc::ok));
    EXPECT_EQ(requester.done[1], std::make_pair(static_cast<void*>(&other), Errc::ok));
    EXPECT_TRUE(has(got));
    EXPECT_TRUE(has(next));
    EXPECT_EQ(by_us() + by_owner(), 2 * length);
    EXPECT_FALSE(requester.engine.busy());
    EXPECT_FALSE(owner.engine.busy());
}

TEST_F(ShortJointGet, IsLeftToAnOwnerThatIsAtTheOneBefore) {
    std::uint64_t copied = 0;
    for (bool in_time = false;
         !in_time;) { // a machine may take the CPU away for as long as owners are believed in
        requester.done.clear();
        const std::uint64_t began = requester.pipe.now_ns();
        ASSERT_EQ(begin(got, token), Errc::in_progress);
        steal(0);
        ASSERT_EQ(begin(next, other), Errc::in_progress);
        const std::uint64_t before = by_us();
        for (const std::uint64_t until = requester.pipe.now_ns() + 10'000'000;
             requester.pipe.now_ns() < until;) { // many times what the patience is
            requester.progress();
        }
        copied = by_us() - before;
        in_time = requester.pipe.now_ns() - began < tuning::joint_claim_ns;
        EXPECT_TRUE(requester.done.empty() || !in_time);
        words().done.store(Done{generation(), true, 0}.pack());
        finish_all(2);
        owner.progress();
    }
    EXPECT_EQ(copied, 0u);
    EXPECT_TRUE(has(got));
    EXPECT_TRUE(has(next));
}

TEST_F(ShortJointGet, IsNotLeftToAnOwnerThatIsStoppedAtTheOneBefore) {
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    steal(0);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    finish_all(1);
    EXPECT_EQ(requester.done[0], std::make_pair(static_cast<void*>(&other), Errc::ok));
    EXPECT_TRUE(has(next));
    // Nor is it asked for more.
    const std::uint64_t asked = requester.pipe.tx().head();
    EXPECT_EQ(begin(next, other), Errc::ok);
    EXPECT_EQ(requester.pipe.tx().head(), asked);
    EXPECT_TRUE(has(next));
}

TEST_F(ShortJointGet, AThirdWaitsUntilOneIsComplete) {
    std::vector<std::byte> third(length);
    int its_token = 0;
    for (bool in_time = false; !in_time;) {
        requester.done.clear();
        const std::uint64_t began = requester.pipe.now_ns();
        ASSERT_EQ(begin(got, token), Errc::in_progress);
        ASSERT_EQ(begin(next, other), Errc::in_progress);
        steal(0);
        steal(1);
        const Errc result = begin(third, its_token);
        in_time = requester.pipe.now_ns() - began < tuning::joint_claim_ns;
        EXPECT_TRUE(result == Errc::again || !in_time);
        EXPECT_FALSE(requester.pipe.may_retry() && in_time);
        // What is complete is found by whoever asks for the next, and reported by progress.
        words(0).done.store(Done{generation(0), true, 0}.pack());
        if (in_time) {
            ASSERT_EQ(begin(third, its_token), Errc::in_progress);
            EXPECT_TRUE(requester.done.empty());
            EXPECT_NE(requester.engine.flush(nullptr), Errc::ok) << "of what is not reported";
        }
        words(1).done.store(Done{generation(1), true, 0}.pack());
        finish_all(in_time ? 3 : 2);
        owner.progress();
    }
    EXPECT_EQ(requester.done.size(), 3u);
    for (const int* each : {&token, &other, &its_token}) {
        EXPECT_TRUE(std::ranges::any_of(requester.done, [&](const auto& one) {
            return one.first == each && one.second == Errc::ok;
        }));
    }
    EXPECT_TRUE(has(got));
    EXPECT_TRUE(has(next));
    EXPECT_TRUE(has(third));
}

TEST_F(ShortJointGet, AllAreCancelledWhenNobodyWritesAnyMore) {
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    requester.engine.cancel(Errc::canceled, requester.note());
    EXPECT_EQ(requester.done.size(), 2u);
    EXPECT_FALSE(requester.engine.busy());
    owner.progress();
    EXPECT_EQ(by_owner(), 0u);
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress) << "both begin again";
}

TEST_F(ShortJointGet, IsCopiedAloneWhenTheOwnerHasNotSeenTheOnesBefore) {
    std::vector<std::byte> third(length);
    int its_token = 0;
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    for (const std::uint64_t until = requester.pipe.now_ns() + 2 * tuning::most_joint_part_ns;
         requester.pipe.now_ns() < until;) { // both ends compute
    }
    EXPECT_EQ(begin(third, its_token), Errc::ok) << "nothing would make it worth a retry";
    EXPECT_TRUE(has(third));
    requester.progress();
    EXPECT_EQ(requester.done.size(), 2u);
    EXPECT_TRUE(has(got));
    EXPECT_TRUE(has(next));
}

TEST_F(ShortJointGet, NobodyIsToldMoreWhoHasClosedTheConnection) {
    std::vector<std::byte> third(length);
    int its_token = 0;
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    owner.progress();
    owner.progress();
    ASSERT_EQ(begin(third, its_token), Errc::in_progress) << "both are complete";
    unsigned told = 0;
    (void)requester.engine.advance([&](void*, Errc) {
        ++told;
        requester.engine.stop_copying();
        requester.pipe.break_off(Errc::not_connected);
    });
    EXPECT_EQ(told, 1u);
}

TEST_F(ShortJointGet, IsReportedBeforeAFlushThatWaitsForIt) {
    std::vector<std::byte> third(length);
    int its_token = 0;
    int flush = 0;
    int deferred = 0;
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    ASSERT_EQ(requester.engine.flush(&flush), Errc::in_progress);
    requester.engine.make_room_to_end();
    requester.engine.defer(&deferred);
    std::vector<void*> told;
    while (told.size() < 5 && !HasFailure()) {
        (void)requester.engine.advance([&](void* which, Errc) {
            told.push_back(which);
            if (which == &deferred) { // both are complete by now
                owner.progress();
                owner.progress();
                EXPECT_EQ(begin(third, its_token), Errc::in_progress);
            }
        });
        owner.progress();
    }
    const auto at = [&](void* which) { return std::ranges::find(told, which) - told.begin(); };
    EXPECT_LT(at(&token), at(&flush));
    EXPECT_LT(at(&other), at(&flush));
}

TEST_F(ShortJointGet, DoesNotWaitForOneThatWaitsForRoom) {
    // Whose end the kernel does not read, so that the owner is to be asked for it all.
    const SharedMemory memory = create_shared_memory("memory", length).value();
    ASSERT_EQ(::munmap(memory.mapping.data() + length - 8192, 8192), 0);
    const auto address = reinterpret_cast<std::uint64_t>(memory.mapping.data());
    std::uint64_t took_ns = tuning::joint_claim_ns;
    for (unsigned i = 0; i < 20 && took_ns >= tuning::joint_claim_ns / 2;
         ++i) { // on a busy machine
        know_the_ways();
        ASSERT_EQ(requester.engine.get(got.data(), length, key.region, address, &token, true),
                  Errc::in_progress);
        ASSERT_EQ(begin(next, other), Errc::in_progress);
        while (requester.pipe.put_record(Kind::pad, 0, 0, [](std::byte*) {}) == Errc::ok) {
        }
        const std::uint64_t began = requester.pipe.now_ns();
        finish_all(1);
        took_ns = requester.pipe.now_ns() - began;
        EXPECT_EQ(requester.done[0].first, &other);
        EXPECT_TRUE(has(next));
        while (requester.done.size() < 2 && !HasFailure()) {
            owner.progress();
            requester.progress();
        }
        EXPECT_EQ(requester.done[1].second, Errc::not_permitted);
        requester.done.clear();
    }
    EXPECT_LT(took_ns, tuning::joint_claim_ns / 2);
}

TEST_F(ShortJointGet, EndsWithoutMemory) {
    std::vector<std::byte> third(length);
    std::vector<std::byte> fourth(length);
    std::array<int, 3> tokens{};
    ASSERT_EQ(begin(got, token), Errc::in_progress);
    ASSERT_EQ(begin(next, other), Errc::in_progress);
    ASSERT_EQ(requester.engine.flush(&tokens[0]), Errc::in_progress);
    owner.progress();
    owner.progress();
    ASSERT_EQ(begin(third, tokens[1]), Errc::in_progress) << "both are complete";
    ASSERT_EQ(begin(fourth, tokens[2]), Errc::in_progress);
    const comch::test::FailingAllocation fails(1);
    EXPECT_EQ(requester.engine.fail_all(Errc::connection_reset).size(), 5u);
}

/// Of a long get only the beginning goes a way that is tried.
class JointTriedPart : public JointGet {
protected:
    std::vector<std::byte> small = std::vector<std::byte>(64);
    int other = 0;

    void SetUp() override {
        JointGet::SetUp();
        joint_part = tuning::tried_part;
        begin_anew();
        took(Way::ring, 1'000'000);
    }
    void know_the_ways() override {
        begin_anew();
        took(Way::ring, 1'000'000);
        took(Way::alone, 2'000'000);
    }
    void begin_anew() {
        requester.pipe.ways() = CopyWays();
        requester.pipe.ways().took(Way::alone, tuning::before_ring, 1); // the ring's turn
    }
    void took(Way way, std::uint64_t time) { JointGet::took(way, size, time); }
    Errc get_small() {
        return requester.engine.get(small.data(), small.size(), key.region, key.base, &other,
                                    false);
    }
    /// The rest, by the ring.
    void finish_rest() {
        while (requester.done.empty() && !HasFailure()) {
            owner.progress();
            requester.progress();
        }
        ASSERT_EQ(requester.done.size(), 1u);
        EXPECT_EQ(requester.done[0], std::make_pair(static_cast<void*>(&token), Errc::ok));
        requester.done.clear();
        EXPECT_FALSE(requester.engine.busy());
        EXPECT_TRUE(holds());
    }
};

TEST_F(JointTriedPart, IsReadByTheKernel) {
    ASSERT_EQ(get(), Errc::in_progress);
    EXPECT_EQ(requester.slot.tx.process_vm_bytes.get(), tuning::tried_part);
    finish_rest();
    took(Way::alone, 1); // the best: all of it
    const std::uint64_t before = requester.slot.tx.process_vm_bytes.get();
    for (unsigned i = 0; i < 2 * tuning::pace_of_long.turn(); ++i) {
        if (get() == Errc::in_progress) { // joint is tried
            finish_rest();
        }
    }
    ASSERT_EQ(get(), Errc::ok);
    EXPECT_GE(requester.slot.tx.process_vm_bytes.get(), before + size);
}

TEST_F(JointTriedPart, IsCopiedByBoth) {
    took(Way::alone, 2'000'000);
    const std::uint64_t before = requester.pipe.tx().head();
    ASSERT_EQ(get(), Errc::in_progress);
    EXPECT_EQ(requester.slot.tx.process_vm_bytes.get(), tuning::tried_part) << "nobody helped";
    EXPECT_NE(requester.pipe.tx().head(), before);
    finish_rest();
    // And with an owner that helps, in the end.
    std::atomic<bool> over = false;
    std::thread attending([&] {
        while (!over.load()) {
            owner.progress();
        }
    });
    const std::uint64_t until =
        owner.slot.rx.one_sided_served.get() + 3 * tuning::pace_of_long.period;
    while (owner.slot.tx.process_vm_bytes.get() == 0 &&
           owner.slot.rx.one_sided_served.get() < until && !HasFailure()) {
        begin_anew();
        took(Way::ring, 1'000'000);
        took(Way::alone, 2'000'000);
        const Errc result = get();
        while (result == Errc::in_progress && requester.done.empty()) {
            requester.progress();
        }
        requester.done.clear();
        EXPECT_TRUE(holds());
    }
    over.store(true);
    attending.join();
    EXPECT_GT(owner.slot.tx.process_vm_bytes.get(), 0u);
}

TEST_F(JointTriedPart, IsFollowedByTheRestBehindLaterGets) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    std::vector<std::byte> also(512);
    ASSERT_EQ(requester.engine.get(also.data(), also.size(), key.region, key.base, &other, false),
              Errc::in_progress);
    // The owner answers neither, so that both are fetched: whoever says that the one that is later in
    // the ring needs no answer any more says it of the other.
    words().done.store(Done{generation(), true, 0}.pack());
    for (unsigned i = 0; i < 1000 || !requester.pipe.attention().distrusted(); ++i) {
        requester.progress();
    }
    EXPECT_TRUE(requester.done.empty()) << "the first in the ring must be answered by the owner";
    while (requester.done.size() < 2 && !HasFailure()) {
        owner.progress();
        requester.progress();
    }
    EXPECT_EQ(requester.done[0].first, &other);
    EXPECT_TRUE(holds());
    EXPECT_EQ(std::memcmp(also.data(), content.data(), also.size()), 0);
}

TEST_F(JointTriedPart, AsksForTheRestBeforeASleep) {
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    while (requester.pipe.put_record(Kind::pad, 0, 0, [](std::byte*) {}) == Errc::ok) {
    }
    words().done.store(Done{generation(), true, 0}.pack());
    requester.progress(); // there is no room to ask
    ASSERT_TRUE(owner.take_records());
    ASSERT_EQ(requester.engine.put(small.data(), small.size(), key.region, key.base, nullptr),
              Errc::again)
        << "who is refused knows of the room";
    (void)requester.engine.push_before_sleep();
    finish_rest();
}

TEST_F(JointTriedPart, WaitsUntilNothingElseIsUnderWay) {
    took(Way::alone, 2'000'000);
    ASSERT_EQ(get_small(), Errc::in_progress);
    ASSERT_EQ(get(), Errc::again);
    ASSERT_EQ(get(), Errc::again) << "however often it is tried";
    EXPECT_FALSE(requester.pipe.may_retry());
    finish(Errc::in_progress);
    ASSERT_EQ(requester.done.size(), 1u);
    requester.done.clear();
    EXPECT_TRUE(requester.pipe.may_retry());
    ASSERT_EQ(get(), Errc::in_progress);
    finish_rest();
}

TEST_F(JointTriedPart, DoesNotWaitForEverWhileOthersAreBegun) {
    took(Way::alone, 2'000'000);
    ASSERT_EQ(get_small(), Errc::in_progress);
    std::uint64_t begun = 1;
    while (get() == Errc::again && begun <= tuning::most_begun_before_kernel + 1) {
        ASSERT_EQ(get_small(), Errc::in_progress);
        ++begun;
    }
    EXPECT_EQ(begun, tuning::most_begun_before_kernel + 1);
    for (const auto& [token, status] : requester.engine.fail_all(Errc::connection_reset)) {
        requester.note()(token, status);
    }
    EXPECT_EQ(requester.done.size(), begun + 1);
}

TEST_F(JointTriedPart, IsNotCopiedWhereTheRestCannotBeAskedFor) {
    while (requester.pipe.put_record(Kind::pad, 0, 0, [](std::byte*) {}) == Errc::ok) {
    }
    EXPECT_EQ(get(), Errc::again);
    EXPECT_EQ(requester.slot.tx.process_vm_bytes.get(), 0u);
    EXPECT_TRUE(requester.done.empty());
}

TEST_F(JointTriedPart, ThatTheKernelRefusesIsLeftToTheOwnerWithAllTheRest) {
    took(Way::alone, 2'000'000);
    key.base = 64; // nothing is there
    ASSERT_EQ(get(), Errc::in_progress);
    owner.progress();
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    EXPECT_EQ(requester.done[0].second, Errc::not_permitted);
    EXPECT_FALSE(requester.engine.busy());
}

/// The owner's end, when the requester is not a correct one.
class JointHelper : public JointGet {
protected:
    static Joint no_region(std::uint64_t to, std::uint64_t generation) {
        return {to, generation, 0, 0, 0};
    }
    std::uint64_t here() { return reinterpret_cast<std::uint64_t>(got.data()); }
    void allow(std::uint16_t generation) { words().claims.store(Claims{generation}.pack()); }
    Done done() { return Done::unpack(words().done.load()); }
};

TEST_F(JointHelper, CopiesAll) {
    allow(7);
    ASSERT_TRUE(ask({key.region, key.base, size, 0}, no_region(here(), 7)));
    while (owner.engine.busy()) {
        owner.progress();
    }
    EXPECT_TRUE(holds());
    EXPECT_EQ(done().units, joint::units_of(size));
    EXPECT_FALSE(done().failed);
}

TEST_F(JointHelper, CopiesNothingThatIsNotGranted) {
    for (const OneSided& request :
         {OneSided{key.region, key.base - 1, 8192, 0}, OneSided{key.region, key.base + 1, size, 0},
          OneSided{key.region + 1, key.base, size, 0}, OneSided{0, 0, size, 0},
          OneSided{key.region, key.base, ~std::uint64_t{0}, 0},
          OneSided{key.region, ~std::uint64_t{0} - 100, size, 0}}) {
        allow(9);
        EXPECT_TRUE(ask(request, no_region(here(), 9)));
        for (unsigned i = 0; owner.engine.busy(); ++i) {
            ASSERT_LT(i, 1000u);
            owner.progress();
        }
        EXPECT_TRUE(std::ranges::all_of(got, [](std::byte b) { return b == std::byte{}; }));
        EXPECT_TRUE(done().failed || done().units == 0);
    }
}

TEST_F(JointHelper, SaysThatItCannotWrite) {
    allow(9);
    EXPECT_TRUE(ask({key.region, key.base, size, 0}, no_region(64, 9)));
    EXPECT_TRUE(done().failed);
    EXPECT_EQ(done().units, 0u);
    EXPECT_FALSE(owner.engine.busy());
}

TEST_F(JointHelper, RefusesWhatNoCorrectPeerSends) {
    EXPECT_FALSE(
        ask({key.region, key.base, size, 0}, no_region(here(), std::uint64_t{joint_gets} << 17)));
    (void)requester.pipe.put_record(Kind::joint_get, 0, sizeof(OneSided),
                                    [](std::byte* at) { std::memset(at, 0, sizeof(OneSided)); });
    EXPECT_FALSE(owner.take_records());
}

/// Of memory that the requester has mapped (here: that is its own), into memory that the owner may map.
class JointMappedGet : public JointGet {
protected:
    SharedMemory into = create_shared_memory("into", size).value();
    RegionKey into_key;

    void SetUp() override {
        JointGet::SetUp();
        owner.engine.set_peer(process_id());
        into_key = RegionTable::instance()
                       .add({.base = into.mapping.data(),
                             .length = into.mapping.size(),
                             .access = access_remote_all,
                             .memfd = into.fd.get()})
                       .value();
        (void)requester.pipe.mapped_ways().choose(size);
        for (unsigned i = 0; i < 2 * tuning::pace_of_short.turn(); ++i) {
            requester.pipe.mapped_ways().took(Way::alone, size, 1'000'000'000);
        }
    }
    void TearDown() override {
        forget_imports_of(process_id());
        RegionTable::instance().remove(into_key.region);
        JointGet::TearDown();
    }
    Errc get_mapped(const RegionKey* key_of_target, std::size_t length = size) {
        std::memset(into.mapping.data(), 0, size);
        return retry_mapped(key_of_target, length);
    }
    Errc retry_mapped(const RegionKey* key_of_target, std::size_t length = size) {
        return requester.engine.get_mapped(into.mapping.data(), content.data(), length, key.region,
                                           key.base, &token, key_of_target);
    }
    /// The same get by both CPUs, as far as the requester knows.
    void both_take(std::uint64_t time) {
        (void)requester.pipe.mapped_ways().choose(size);
        for (unsigned i = 0; i < 2 * tuning::pace_of_short.turn(); ++i) {
            requester.pipe.mapped_ways().took(Way::joint, size, time);
        }
    }
    bool arrived(std::size_t length = size) const {
        return std::memcmp(into.mapping.data(), content.data(), length) == 0;
    }
    /// Until the owner has copied parts of so many, which are checked.
    void get_until_helped(const RegionKey* key_of_target, std::uint64_t parts) {
        std::atomic<bool> over = false;
        std::thread attending([&] {
            while (!over.load()) {
                owner.progress();
            }
        });
        while (owner.slot.rx.one_sided_served.get() < parts && !HasFailure()) {
            const std::size_t before = requester.done.size();
            const Errc result = get_mapped(key_of_target);
            EXPECT_TRUE(result == Errc::ok || result == Errc::in_progress) << to_string(result);
            while (result == Errc::in_progress && requester.done.size() == before) {
                requester.progress();
            }
            EXPECT_TRUE(arrived());
            total += size;
        }
        over.store(true);
        attending.join();
    }
    std::uint64_t total = 0;
};

TEST_F(JointMappedGet, IsDoneWithoutTheOwner) {
    std::uint64_t asked = 0;
    for (unsigned i = 0; i < joint_gets; ++i) {
        ASSERT_EQ(get_mapped(&into_key), Errc::ok);
        EXPECT_TRUE(arrived());
        EXPECT_NE(requester.pipe.tx().head(), asked);
        asked = requester.pipe.tx().head();
    }
    ASSERT_EQ(get_mapped(&into_key), Errc::ok);
    EXPECT_EQ(requester.pipe.tx().head(), asked) << "it has not seen those";
    EXPECT_TRUE(arrived());
    EXPECT_EQ(requester.slot.tx.mapped_bytes.get(), 3 * size);
    EXPECT_EQ(requester.slot.tx.process_vm_bytes.get(), 0u);
}

TEST_F(JointMappedGet, AShortOneIsNotTheOwnersBusiness) {
    ASSERT_EQ(get_mapped(&into_key, tuning::joint_of_mapped - 1), Errc::ok);
    EXPECT_EQ(requester.pipe.tx().head(), 0u);
    EXPECT_TRUE(arrived(tuning::joint_of_mapped - 1));
}

TEST_F(JointMappedGet, IsHelpedWithByTheKernel) {
    get_until_helped(nullptr, 20);
    EXPECT_EQ(owner.engine.wanted_mapping(), nullptr);
    EXPECT_GT(owner.slot.tx.process_vm_bytes.get(), 0u);
    EXPECT_EQ(owner.slot.tx.mapped_bytes.get(), 0u);
    EXPECT_EQ(requester.slot.tx.mapped_bytes.get() + owner.slot.tx.process_vm_bytes.get(), total);
}

TEST_F(JointMappedGet, IsHelpedWithInMappedMemory) {
    get_until_helped(&into_key, 1);
    RemoteRegion* const wanted = owner.engine.wanted_mapping();
    ASSERT_NE(wanted, nullptr) << "nobody would ask for the mapping";
    EXPECT_EQ(wanted->key().region, into_key.region);
    ASSERT_TRUE(wanted->import()->claim_request());
    wanted->import()->set_mapped(map_shared_memory(into.fd.get(), size, true).value(), true);
    const std::uint64_t before = owner.slot.tx.process_vm_bytes.get();
    get_until_helped(&into_key, owner.slot.rx.one_sided_served.get() + 20);
    EXPECT_EQ(owner.slot.tx.process_vm_bytes.get(), before) << "it goes on by the kernel";
    EXPECT_GT(owner.slot.tx.mapped_bytes.get(), 0u);
    EXPECT_EQ(requester.slot.tx.mapped_bytes.get() + before + owner.slot.tx.mapped_bytes.get(),
              total);
}

TEST_F(JointMappedGet, OthersAreReadMeanwhile) {
    both_take(2'000'000'000); // so our CPU alone is the faster
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    EXPECT_FALSE(requester.engine.direct_allowed()) << "a put would be seen by it";
    EXPECT_TRUE(requester.engine.mapped_reads_allowed());
    ASSERT_EQ(get_mapped(&into_key), Errc::ok);
    EXPECT_TRUE(arrived());
    words().done.store(Done{generation(), true, 0}.pack());
    requester.progress();
    EXPECT_EQ(requester.done.size(), 1u);
    EXPECT_TRUE(holds());
}

TEST_F(JointMappedGet, WaitsForTheOneUnderWay) {
    both_take(1);
    const unsigned begun = get_that_waits_meanwhile([this] {
        EXPECT_EQ(get_mapped(&into_key), Errc::ok) << "there are two at a time";
        EXPECT_TRUE(arrived());
        for (unsigned i = 0; i < 2 * tuning::pace_of_long.period;
             ++i) { // more than are between trials
            if (retry_mapped(&into_key) != Errc::again) {
                return 1u;
            }
        }
        return 0u;
    });
    EXPECT_EQ(begun, 0u) << "by one alone meanwhile";
    words().done.store(Done{generation(), true, 0}.pack());
    requester.progress();
    ASSERT_EQ(requester.done.size(), 1u);
    owner.progress();
    requester.done.clear();
    finish(get_mapped(&into_key));
    EXPECT_TRUE(arrived());
}

TEST_F(JointMappedGet, IsCopiedAloneWhenTheOwnerHasNotSeenTheOnesBefore) {
    constexpr std::size_t length = tuning::joint_of_mapped;
    for (const auto& [way, time] : {std::pair{Way::alone, 1'000'000u}, std::pair{Way::joint, 1u}}) {
        (void)requester.pipe.mapped_ways().choose(length);
        for (unsigned i = 0; i < 2 * tuning::pace_of_short.turn(); ++i) {
            requester.pipe.mapped_ways().took(way, length, time);
        }
    }
    ASSERT_EQ(get_mapped(&into_key, length), Errc::in_progress);
    ASSERT_EQ(get_mapped(&into_key, length), Errc::in_progress);
    for (const std::uint64_t until = requester.pipe.now_ns() + 2 * tuning::most_joint_part_ns;
         requester.pipe.now_ns() < until;) { // both ends compute
    }
    EXPECT_EQ(get_mapped(&into_key, length), Errc::ok) << "nothing would make it worth a retry";
    EXPECT_TRUE(arrived(length));
    requester.progress();
    EXPECT_EQ(requester.done.size(), 2u);
}

TEST_F(JointMappedGet, IsNotReadAheadOfAPut) {
    const std::uint64_t value = 4711;
    ASSERT_EQ(requester.engine.put(reinterpret_cast<const std::byte*>(&value), 8, key.region,
                                   key.base, nullptr),
              Errc::ok);
    EXPECT_FALSE(requester.engine.mapped_reads_allowed());
    owner.progress();
    EXPECT_TRUE(requester.engine.mapped_reads_allowed());
}

/// The owner's end, whose requester says more about its memory than is true.
class JointMappedHelper : public JointMappedGet {
protected:
    /// What the owner has mapped is smaller than the key says.
    static constexpr std::size_t really = 1 << 20;

    /// Has the owner help with a get of so many bytes.
    void have_help(const Joint& joint, std::uint64_t region, std::size_t length) {
        words().claims.store(Claims{static_cast<std::uint16_t>(joint.generation)}.pack());
        ASSERT_TRUE(ask({region, key.base, length, 0}, joint));
        while (owner.engine.busy()) {
            owner.progress();
        }
    }
    void answer_with_mapping() {
        RemoteRegion* const wanted = owner.engine.wanted_mapping();
        ASSERT_NE(wanted, nullptr);
        ASSERT_TRUE(wanted->import()->claim_request());
        wanted->import()->set_mapped(map_shared_memory(into.fd.get(), really, true).value(), true);
    }
    [[nodiscard]] Joint joint_into() const {
        return {reinterpret_cast<std::uint64_t>(into.mapping.data()), 1, into_key.region,
                into_key.base, into_key.length};
    }
};

TEST_F(JointMappedHelper, AsksForNoMappingOfWhoMayNotReadHere) {
    have_help(joint_into(), key.region + 1, size);
    EXPECT_TRUE(Done::unpack(words().done.load()).failed);
    EXPECT_EQ(owner.engine.wanted_mapping(), nullptr);
}

TEST_F(JointMappedHelper, AsksForNoMappingThatCannotBeOrIsTooLarge) {
    std::uint64_t generation = 0;
    for (const auto& [base, length] : {std::pair{into_key.base + 1, into_key.length},
                                       std::pair{into_key.base, tuning::most_helped_bytes + 1}}) {
        Joint joint = joint_into();
        joint.generation = ++generation;
        joint.base = base;
        joint.length = length;
        have_help(joint, key.region, size);
        EXPECT_FALSE(Done::unpack(words().done.load()).failed) << "the kernel writes there";
        EXPECT_EQ(owner.engine.wanted_mapping(), nullptr);
        EXPECT_EQ(owner.slot.tx.mapped_bytes.get(), 0u);
    }
}

TEST_F(JointMappedHelper, ManyMemoriesTakeNoneThatItIsWritingTo) {
    have_help(joint_into(), key.region, size);
    answer_with_mapping();
    // Another of that, of which one part is copied when it is asked for.
    Joint joint = joint_into();
    joint.generation = 2;
    words().claims.store(Claims{2}.pack());
    ASSERT_TRUE(ask({key.region, key.base, size, 0}, joint));
    ASSERT_TRUE(owner.engine.busy());
    const std::uint64_t before = owner.slot.tx.mapped_bytes.get();
    for (std::uint16_t i = 1; i <= 3 * tuning::helped_regions; ++i) {
        const std::uint64_t page = i * mapping_alignment;
        const Joint also{joint.to, JointName{i, false, 1}.pack(), into_key.region + i,
                         into_key.base + page, page};
        words(1).claims.store(Claims{i, joint::units_of(size)}.pack()); // nothing is left
        ASSERT_TRUE(ask({key.region, key.base, size, 0}, also));
    }
    while (owner.engine.busy()) {
        owner.progress();
    }
    EXPECT_GT(owner.slot.tx.mapped_bytes.get() - before, really / 2)
        << "by the kernel from then on";
}

TEST_F(JointMappedHelper, WritesNothingOutsideWhatItHasMapped) {
    struct Lie {
        Joint joint;
        std::size_t length; ///< of the get
    };
    // Addresses that nobody has, so that the kernel writes nothing, either.
    constexpr std::uint64_t base = std::uint64_t{1} << 62;
    constexpr std::uint64_t most = tuning::most_helped_bytes;
    const std::uint64_t region = into_key.region;
    std::uint64_t generation = 0;
    for (const Lie& lie : {Lie{{base, 0, region, base, size}, size}, // all of it lies beyond
                           Lie{{base, 0, region, base, size}, really + joint::unit}, // its end does
                           Lie{{base + most - 100, 0, region, base, most}, size},
                           Lie{{base - size, 0, region, base, size}, size},
                           Lie{{~std::uint64_t{0} - 100, 0, region, ~(most - 1), most}, size}}) {
        Joint joint = lie.joint;
        std::memset(into.mapping.data(), 0, size);
        for (const bool mapped : {false, true}) {
            joint.generation = ++generation;
            have_help(joint, key.region, lie.length);
            const auto done = Done::unpack(words().done.load());
            EXPECT_TRUE(done.failed);
            EXPECT_EQ(done.units, 0u);
            if (!mapped &&
                owner.engine.wanted_mapping() != nullptr) { // else an earlier lie's is known
                answer_with_mapping();
            }
        }
        EXPECT_TRUE(std::all_of(into.mapping.data(), into.mapping.data() + size,
                                [](std::byte b) { return b == std::byte{}; }));
    }
    EXPECT_EQ(owner.slot.tx.mapped_bytes.get(), 0u);
}

} // namespace
} // namespace comch::link::soft::test
