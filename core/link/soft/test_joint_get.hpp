// One end of a pipe with its one-sided engine, and gets that both ends copy, for tests step by step.
#pragma once

#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/link/one_sided/engine_impl.hpp"
#include "core/link/soft/pipe.hpp"
#include "core/link/soft/test_raw_peer.hpp"
#include "core/memory/region_table.hpp"

namespace comch::link::soft::test {

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
            while (requester.engine.busy() && !::testing::Test::HasFailure()) {
                requester.progress();
            }
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
    void finish_all(std::size_t gets) {
        while (requester.done.size() < gets && !HasFailure()) {
            requester.progress();
        }
    }
    [[nodiscard]] std::uint16_t generation(std::size_t index = 0) {
        return Claims::unpack(words(index).claims.load()).generation;
    }
};

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

/// Of which each end copies one part.
class ShortJointGet : public NextJointGet {
protected:
    static constexpr std::size_t length = 256 << 10;

    void know_the_ways() override {
        took(Way::ring, length, 2'000'000);
        took(Way::alone, length, 1'000'000);
        took(Way::joint, length, 1);
    }
    /// The first under way is begun by both ends: again, if our CPU was away until nobody waited for the owner.
    Errc begin(std::vector<std::byte>& into, int& its_token) {
        Errc result = begin_once(into, its_token);
        while (result == Errc::ok && !requester.engine.busy() && !HasFailure()) {
            owner.progress();
            result = begin_once(into, its_token);
        }
        return result;
    }
    Errc begin_once(std::vector<std::byte>& into, int& its_token, std::size_t bytes = length) {
        std::memset(into.data(), 0, bytes);
        return requester.engine.get(into.data(), bytes, key.region, key.base, &its_token, true);
    }
    /// One that both ends begin, unless our CPU was away for so long that nobody waits for the owner.
    /// False: that one was copied alone.
    bool begins_or_is_late(std::vector<std::byte>& into, int& its_token) {
        const Errc result = begin(into, its_token);
        EXPECT_TRUE(result == Errc::in_progress || result == Errc::ok) << to_string(result);
        return result == Errc::in_progress;
    }
    [[nodiscard]] bool has(const std::vector<std::byte>& into) const {
        return std::memcmp(into.data(), content.data(), length) == 0;
    }
    [[nodiscard]] std::uint64_t by_us() const { return requester.slot.tx.process_vm_bytes.get(); }
    [[nodiscard]] std::uint64_t by_owner() const { return owner.slot.tx.process_vm_bytes.get(); }
    /// What the owner takes of the `index`-th is never done.
    void steal(std::size_t index) {
        const auto claims = Claims::unpack(words(index).claims.load());
        const std::uint32_t rest = joint::units_of(length) - claims.front;
        words(index).claims.store(Claims{claims.generation, claims.front, rest}.pack());
    }
};

} // namespace comch::link::soft::test
