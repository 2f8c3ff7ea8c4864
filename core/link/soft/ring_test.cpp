// The rings by themselves: what is written comes out, whatever the bytes are; what the other end
// makes up is found out.
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/link/soft/bulk_writer.hpp"
#include "core/link/soft/ring_reader.hpp"
#include "core/link/soft/ring_writer.hpp"
#include "core/link/soft/test_random.hpp"

namespace comch::link::soft {
namespace {

using test::Random;

constexpr std::uint8_t data_kind = static_cast<std::uint8_t>(Kind::data);
constexpr std::uint8_t pad_kind = static_cast<std::uint8_t>(Kind::pad);

struct alignas(64) Line {
    std::array<std::byte, line_size> bytes;
};

/// Both ends of one ring, in ordinary memory.
struct Ring {
    explicit Ring(std::uint32_t cells)
        : control(new Direction{}), memory(cells / line_cells),
          writer(control.get(), memory[0].bytes.data(), cells),
          reader(control.get(), memory[0].bytes.data(), cells) {}

    /// A record that `fill` writes; by the short way where there is one, as a pipe sends it.
    template <class Fill>
    bool put(std::uint8_t id, std::uint32_t length, Fill&& fill, bool share = true) {
        if (std::byte* const to = share && length <= cell_payload ? writer.free_cell() : nullptr) {
            fill(to);
            writer.publish_cell(id, length);
            return true;
        }
        if (std::byte* const to = (!share || length > cell_payload) && length <= line_payload
                                      ? writer.free_line()
                                      : nullptr) {
            fill(to);
            writer.publish_line(id, length);
            return true;
        }
        std::byte* const to = writer.reserve(length);
        if (to == nullptr) {
            return false;
        }
        fill(to);
        writer.publish(data_kind, id, length, share);
        return true;
    }
    bool send(std::span<const std::byte> message, std::uint8_t id = 0, bool share = true) {
        const auto fill = [&](std::byte* to) {
            if (!message.empty()) {
                std::memcpy(to, message.data(), message.size());
            }
        };
        return put(id, static_cast<std::uint32_t>(message.size()), fill, share);
    }
    /// The next message; pads are taken out on the way.
    bool receive(std::vector<std::byte>& message, std::uint8_t& id) {
        RingReader::Record record;
        for (;;) {
            switch (reader.peek(record)) {
            case RingReader::Peek::empty:
                return false; // no word on ready(): another thread may publish right now
            case RingReader::Peek::corrupt:
                ADD_FAILURE() << "corrupt at " << reader.position();
                return false;
            case RingReader::Peek::record:
                break;
            }
            EXPECT_TRUE(reader.ready());
            const bool pad = record.header.kind == pad_kind;
            if (!pad) {
                EXPECT_EQ(record.header.kind, data_kind);
                message.assign(record.payload, record.payload + record.header.length);
                id = record.header.id;
            }
            reader.pop(record);
            if (!pad) {
                return true;
            }
        }
    }
    std::byte* cell(std::uint32_t index) {
        return memory[0].bytes.data() + std::size_t{index} * cell_size;
    }
    std::uint64_t& word(std::uint32_t index) {
        return *reinterpret_cast<std::uint64_t*>(cell(index));
    }

    std::unique_ptr<Direction> control;
    std::vector<Line> memory;
    RingWriter writer;
    RingReader reader;
};

std::vector<std::byte> numbered(std::uint32_t length, std::uint64_t number) {
    std::vector<std::byte> message(length);
    std::mt19937_64 random(number);
    for (std::byte& b : message) {
        b = static_cast<std::byte>(random());
    }
    return message;
}

/// A payload that looks like records: each word carries the tag that a reader will expect where the
/// word lies, one lap (or more) after now.
void forge(std::byte* to, std::uint32_t length, std::uint64_t head, unsigned log2_cells,
           Random& random) {
    for (std::uint32_t at = 0; at + 8 <= length; at += 8) {
        const std::uint64_t position = head + (at + 8) / cell_size;
        const std::uint64_t later = position + (std::uint64_t{random() % 3} << log2_cells);
        const std::uint64_t lie = pack({tag_at(later, log2_cells), 40, 0xee, data_kind});
        std::memcpy(to + at, &lie, sizeof(lie));
    }
}

TEST(Ring, MessagesOfAnyLengthArriveInOrder) {
    for (const std::uint32_t cells : {128u, 512u}) {
        Ring ring(cells);
        Random random(cells);
        std::deque<std::vector<std::byte>> under_way;
        std::vector<std::byte> got;
        std::uint64_t sent = 0;
        std::uint64_t received = 0;
        while (received < 20'000) {
            if (random() % 3 != 0) {
                const bool big = random() % 4 == 0;
                const std::uint32_t longest = cells / 4 * cell_size - 8;
                auto message = numbered(random() % (big ? longest + 1 : 200), sent);
                if (ring.send(message, static_cast<std::uint8_t>(sent), random() % 2 == 0)) {
                    under_way.push_back(std::move(message));
                    ++sent;
                } else if (under_way.empty()) {
                    ASSERT_TRUE(ring.reader.return_rest()) << "no room in an empty ring";
                }
            }
            if (random() % 3 != 0) {
                std::uint8_t id = 0;
                if (ring.receive(got, id)) {
                    ASSERT_FALSE(under_way.empty());
                    ASSERT_EQ(got, under_way.front());
                    ASSERT_EQ(id, static_cast<std::uint8_t>(received));
                    under_way.pop_front();
                    ++received;
                } else {
                    ASSERT_TRUE(under_way.empty());
                    (void)ring.reader.return_rest();
                }
            }
        }
        EXPECT_FALSE(ring.writer.corrupt());
    }
}

TEST(Ring, APayloadIsNeverTakenForARecord) {
    constexpr unsigned log2_cells = 7;
    Ring ring(1u << log2_cells);
    Random random(7);
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::vector<std::byte> got;
    std::uint8_t id = 0;
    while (sent < 50'000) {
        // At first only what no line begins inside.
        const std::uint32_t length = random() % (sent > 5000 && random() % 4 == 0 ? 1000 : 57);
        const auto fill = [&](std::byte* to) {
            forge(to, length, ring.writer.head(), log2_cells, random);
        };
        if (ring.put(static_cast<std::uint8_t>(sent), length, fill, random() % 2 == 0)) {
            ++sent;
        }
        for (unsigned n = random() % 4; n != 0 && ring.receive(got, id); --n) {
            ASSERT_EQ(id, static_cast<std::uint8_t>(received)) << "of " << sent;
            ++received;
            ASSERT_LE(received, sent);
        }
        if (random() % 8 == 0) {
            while (ring.receive(got, id)) {
                ASSERT_EQ(id, static_cast<std::uint8_t>(received++));
            }
            ASSERT_EQ(received, sent) << "empty means that all is read";
            (void)ring.reader.return_rest();
        }
    }
}

TEST(Ring, WhatFilledALineIsNoRecordInItsSecondHalf) {
    Ring ring(128);
    std::vector<std::byte> got;
    std::uint8_t id = 0;
    for (unsigned i = 0; i < 64; ++i) { // no line begins inside any of them
        const std::uint64_t lie = pack({tag_at(2 * i + 1 + 128, 7), 8, 0xee, data_kind});
        ASSERT_TRUE(ring.put(0, 56, [&](std::byte* to) {
            std::memset(to, 0, 56);
            std::memcpy(to + 24, &lie, sizeof(lie));
        }));
        ASSERT_TRUE(ring.receive(got, id));
        (void)ring.reader.return_rest();
    }
    ASSERT_TRUE(ring.send({}));
    ASSERT_TRUE(ring.receive(got, id));
    EXPECT_FALSE(ring.receive(got, id));
}

TEST(Ring, WhatDoesNotFitBeforeTheEndStartsAtTheBeginning) {
    Ring ring(128);
    std::vector<std::byte> got;
    std::uint8_t id = 0;
    for (unsigned i = 0; i < 120; ++i) {
        ASSERT_TRUE(ring.send({}));
        ASSERT_TRUE(ring.receive(got, id));
    }
    (void)ring.reader.return_rest();
    const auto message = numbered(10 * cell_size - 8, 1); // 10 cells where 8 are left
    ASSERT_TRUE(ring.send(message));
    RingReader::Record record;
    ASSERT_EQ(ring.reader.peek(record), RingReader::Peek::record);
    EXPECT_EQ(record.header.kind, pad_kind);
    EXPECT_EQ(cells_for(record.header.length), 8u);
    ring.reader.pop(record);
    ASSERT_EQ(ring.reader.peek(record), RingReader::Peek::record);
    EXPECT_EQ(record.payload, ring.cell(0) + 8);
    ASSERT_TRUE(ring.receive(got, id));
    EXPECT_EQ(got, message);
}

TEST(Ring, AFullRingOverwritesNothingAndFillsAgainAfterItWasRead) {
    Ring ring(128);
    std::vector<std::byte> got;
    std::uint8_t id = 0;
    for (unsigned round = 0; round < 300; ++round) {
        std::uint32_t sent = 0;
        while (ring.send(numbered(sent % 120, sent), static_cast<std::uint8_t>(sent))) {
            ++sent;
        }
        ASSERT_GE(sent, 32u);
        ASSERT_EQ(ring.writer.reserve(sent % 120), nullptr) << "still";
        for (std::uint32_t i = 0; i < sent; ++i) {
            ASSERT_TRUE(ring.receive(got, id));
            ASSERT_EQ(got, numbered(i % 120, i));
        }
        ASSERT_FALSE(ring.receive(got, id));
        (void)ring.reader.return_rest();
        EXPECT_EQ(ring.writer.consumed(), ring.writer.head());
    }
}

TEST(Ring, CreditIsReturnedOnceAQuarterOfALapAndAtRest) {
    Ring ring(tuning::ring_cells);
    std::vector<std::byte> got;
    std::uint8_t id = 0;
    unsigned changes = 0;
    std::uint64_t before = 0;
    for (unsigned i = 0; i < 4 * tuning::ring_cells; ++i) {
        ASSERT_TRUE(ring.send({}));
        ASSERT_TRUE(ring.receive(got, id));
        const std::uint64_t now = ring.control->consumer.cells.load();
        changes += now != before ? 1 : 0;
        before = now;
    }
    EXPECT_EQ(changes, 16u);
    ASSERT_TRUE(ring.send({}));
    ASSERT_TRUE(ring.receive(got, id));
    EXPECT_EQ(ring.control->consumer.cells.load(), before);
    EXPECT_TRUE(ring.reader.return_rest());
    EXPECT_EQ(ring.control->consumer.cells.load(), before + 1);
    EXPECT_FALSE(ring.reader.return_rest()) << "nothing is left to return";
}

TEST(Ring, LiesAboutCreditAreFoundOut) {
    {
        Ring ring(128);
        ASSERT_TRUE(ring.send({}));
        ring.control->consumer.cells.store(2); // more than was written
        (void)ring.writer.consumed();
        EXPECT_TRUE(ring.writer.corrupt());
        EXPECT_EQ(ring.writer.consumed(), 0u);
    }
    {
        Ring ring(128);
        std::vector<std::byte> got;
        std::uint8_t id = 0;
        for (unsigned i = 0; i < 10; ++i) {
            ASSERT_TRUE(ring.send({}));
            ASSERT_TRUE(ring.receive(got, id));
        }
        (void)ring.reader.return_rest();
        EXPECT_EQ(ring.writer.consumed(), 10u);
        ring.control->consumer.cells.store(9); // taken back
        (void)ring.writer.consumed();
        EXPECT_TRUE(ring.writer.corrupt());
    }
    for (const std::uint64_t lie :
         {std::uint64_t{200}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
        Ring ring(128);
        while (ring.send({})) {
        }
        ring.control->consumer.cells.store(lie);
        EXPECT_EQ(ring.writer.reserve(0), nullptr);
        EXPECT_TRUE(ring.writer.corrupt()) << lie;
    }
}

TEST(Ring, ARecordThatLeavesTheRingIsCorrupt) {
    Ring ring(128);
    std::vector<std::byte> got;
    std::uint8_t id = 0;
    for (unsigned i = 0; i < 124; ++i) {
        ASSERT_TRUE(ring.send({}));
        ASSERT_TRUE(ring.receive(got, id));
    }
    RingReader::Record record;
    for (const std::uint16_t length :
         std::initializer_list<std::uint16_t>{121, 1000, 32767}) { // two lines are left: 120 bytes
        for (const std::uint16_t flag : {std::uint16_t{0}, fills_line}) {
            ring.word(124) =
                pack({tag_at(124, 7), static_cast<std::uint16_t>(length | flag), 0, data_kind});
            EXPECT_EQ(ring.reader.peek(record), RingReader::Peek::corrupt) << length << flag;
        }
    }
    for (const std::uint16_t flag : {std::uint16_t{0}, fills_line}) {
        ring.word(124) =
            pack({tag_at(124, 7), static_cast<std::uint16_t>(120 | flag), 0, data_kind});
        ASSERT_EQ(ring.reader.peek(record), RingReader::Peek::record);
        EXPECT_EQ(record.header.length, 120u);
        EXPECT_EQ(record.end, 128u);
    }
}

/// Where the records of these messages begin, in cells.
std::vector<std::uint64_t> places(Ring& ring, std::initializer_list<std::uint32_t> lengths) {
    std::vector<std::uint64_t> result;
    std::vector<std::byte> got;
    std::uint8_t id = 0;
    for (const std::uint32_t length : lengths) {
        result.push_back(ring.reader.position());
        EXPECT_TRUE(ring.send(numbered(length, length)));
        EXPECT_TRUE(ring.receive(got, id));
        EXPECT_EQ(got, numbered(length, length));
    }
    result.push_back(ring.reader.position());
    return result;
}

TEST(Ring, ShortMessagesShareALine) {
    using Places = std::vector<std::uint64_t>;
    Ring ring(tuning::ring_cells);
    EXPECT_EQ(places(ring, {24, 0, 24, 24}), (Places{0, 1, 2, 3, 4}));
    EXPECT_EQ(places(ring, {88, 88}), (Places{4, 7, 10})) << "nor is the half of one left over";
}

TEST(Ring, WhoFillsALineIsNotPushedIntoTwoForGood) {
    using Places = std::vector<std::uint64_t>;
    Ring ring(tuning::ring_cells);
    EXPECT_EQ(places(ring, {8, 56, 56, 25}), (Places{0, 1, 4, 6, 8}));
    EXPECT_EQ(places(ring, {8, 120, 120}), (Places{8, 9, 14, 18})) << "nor a longer one";
}

TEST(Ring, WhatDoesNotShareLeavesNothingOfItsLine) {
    Ring ring(tuning::ring_cells);
    for (const Kind kind : {Kind::data_bulk, Kind::put, Kind::get_reply, Kind::bulk_attach}) {
        const std::uint64_t before = ring.writer.head();
        ASSERT_NE(ring.writer.reserve(8), nullptr);
        ring.writer.publish(static_cast<std::uint8_t>(kind), 0, 8);
        EXPECT_EQ(ring.writer.head(), before + line_cells);
        RingReader::Record record;
        ASSERT_EQ(ring.reader.peek(record), RingReader::Peek::record);
        EXPECT_EQ(record.header.length, 8u);
        ring.reader.pop(record);
        EXPECT_EQ(ring.reader.position(), ring.writer.head());
    }
}

TEST(Ring, WhoLooksAtItsOwnRecordsSeesTheirPayloadsLength) {
    Ring ring(128);
    for (const std::uint32_t length :
         {56u, 70u, 10u, 10u, 70u}) { // with halves left out, and without
        ASSERT_TRUE(ring.send(numbered(length, 0), 0, length == 10));
    }
    std::vector<std::uint32_t> lengths;
    EXPECT_TRUE(
        ring.writer.visit_from(0, [&](std::uint64_t, const Header& header, const std::byte*) {
            lengths.push_back(header.length);
            return true;
        }));
    EXPECT_EQ(lengths, (std::vector<std::uint32_t>{56, 70, 10, 10, 70}));
}

TEST(Ring, ALineIsFreeOnlyWhenThereIsKnownRoomForIt) {
    Ring ring(128);
    EXPECT_EQ(ring.writer.free_line(), ring.writer.reserve(56));
    EXPECT_EQ(ring.writer.free_cell(), ring.writer.reserve(24));
    unsigned sent = 0;
    while (ring.writer.free_line() != nullptr) {
        ASSERT_TRUE(ring.send({}));
        ASSERT_LT(++sent, 128u);
    }
    while (ring.writer.free_cell() != nullptr) {
        ASSERT_TRUE(ring.send({}));
        ASSERT_LT(++sent, 128u);
    }
    EXPECT_EQ(ring.writer.reserve(0), nullptr);
    std::vector<std::byte> got;
    std::uint8_t id = 0;
    while (ring.receive(got, id)) {
    }
    (void)ring.reader.return_rest();
    EXPECT_EQ(ring.writer.free_cell(), nullptr) << "who looks at the peer's credit is reserve()";
    EXPECT_NE(ring.writer.reserve(0), nullptr);
    EXPECT_NE(ring.writer.free_cell(), nullptr);
    ASSERT_TRUE(ring.send({}));
    EXPECT_EQ(ring.writer.head() % line_cells, 0u) << "where a line begins, again";
    EXPECT_NE(ring.writer.free_line(), nullptr);
}

TEST(Ring, TheLastHalfOfALineIsFreeForWhatFitsIntoIt) {
    Ring ring(128);
    std::vector<std::byte> got;
    std::uint8_t id = 0;
    for (unsigned i = 0; i < 127; ++i) {
        ASSERT_TRUE(ring.send({}));
        ASSERT_TRUE(ring.receive(got, id));
        (void)ring.reader.return_rest();
    }
    (void)ring.writer.reserve(0); // looks at the credit
    EXPECT_EQ(ring.writer.free_cell(), ring.cell(127) + 8);
    EXPECT_EQ(ring.writer.free_line(), nullptr);
    const auto message = numbered(25, 0);
    ASSERT_TRUE(ring.send(message));
    ASSERT_TRUE(ring.receive(got, id));
    EXPECT_EQ(got, message);
    EXPECT_EQ(ring.writer.head(), 130u);
}

TEST(Ring, AStoppedRingHasNoRoomUntilItIsResumed) {
    Ring ring(128);
    ASSERT_TRUE(ring.send({}));
    ring.writer.stop();
    EXPECT_FALSE(ring.send({}));
    EXPECT_FALSE(ring.writer.corrupt());
    ring.writer.resume();
    EXPECT_TRUE(ring.send({}));
}

TEST(Ring, TwoThreadsShareNothingElse) {
    constexpr unsigned log2_cells = 7;
    constexpr std::uint32_t messages = 30'000;
    Ring ring(1u << log2_cells);
    // Long ones, then short ones, of which two are in a line.
    const auto length_of = [](std::uint32_t i) { return 4 + i % (i / 512 % 2 == 0 ? 300 : 24); };
    std::atomic<bool> failed{false};
    std::thread sender([&] {
        Random random(11);
        Random noise(12);
        for (std::uint32_t i = 0; i < messages && !failed.load();) {
            const std::uint32_t length = length_of(i);
            const auto fill = [&](std::byte* to) {
                forge(to, length, ring.writer.head(), log2_cells, random);
                std::memcpy(to, &i, sizeof(i));
            };
            if (!ring.put(static_cast<std::uint8_t>(i), length, fill, noise() % 4 != 0)) {
                std::this_thread::yield();
                continue;
            }
            ++i;
            if (noise() % 64 == 0) {
                std::this_thread::yield();
            }
        }
    });
    std::uint32_t received = 0;
    std::vector<std::byte> got;
    std::uint8_t id = 0;
    while (received < messages) {
        if (!ring.receive(got, id)) {
            (void)ring.reader.return_rest();
            std::this_thread::yield();
            if (::testing::Test::HasFailure()) {
                failed.store(true); // the sender need not wait for credit that does not come
                break;
            }
            continue;
        }
        std::uint32_t number = 0;
        EXPECT_EQ(got.size(), length_of(received));
        std::memcpy(&number, got.data(), sizeof(number));
        EXPECT_EQ(number, received);
        ++received;
    }
    sender.join();
}

// ---- the bulk ring -----------------------------------------------------------------------------

struct BulkRing {
    explicit BulkRing(std::uint32_t bytes) : BulkRing(bytes, BulkSpan(bytes)) {}
    BulkRing(std::uint32_t bytes, const BulkSpan& span)
        : size(bytes), ring(128), memory(bytes / line_size),
          writer(ring.control.get(), memory[0].bytes.data(), bytes, span) {}
    const std::byte* base() { return memory[0].bytes.data(); }
    bool pop() { return ring.reader.pop({.end = ring.reader.position() + 1}); }
    void returned() {
        // As when the records that named them are popped and the ring is found empty.
        (void)pop();
        (void)ring.reader.return_rest();
    }

    std::uint32_t size;
    Ring ring;
    std::vector<Line> memory;
    BulkWriter writer;
};

TEST(BulkRing, PayloadsOfAnyLengthAreFoundWhereTheyWerePut) {
    BulkRing bulk(16 * 1024);
    Random random(3);
    struct Sent {
        BulkRef ref;
        std::vector<std::byte> bytes;
    };
    std::deque<Sent> under_way;
    for (std::uint32_t received = 0; received < 20'000;) {
        const std::uint32_t most = random() % 4097;
        const std::uint32_t data_at = random() % 2 * (random() % 200);
        std::byte* const to = bulk.writer.reserve(most, data_at);
        if (to != nullptr) {
            EXPECT_EQ((to + data_at - bulk.base()) % line_size, 0);
        }
        if (to != nullptr && random() % 2 == 0) {
            const std::uint32_t length = most == 0 ? 0 : random() % (most + 1); // or less
            auto bytes = numbered(length, random());
            if (length != 0) {
                std::memcpy(to, bytes.data(), length);
            }
            under_way.push_back({bulk.writer.commit(length), std::move(bytes)});
        }
        if (!under_way.empty() && random() % 2 == 0) {
            const Sent& sent = under_way.front();
            const std::byte* const at = bulk.ring.reader.bulk(sent.ref, bulk.base(), bulk.size);
            ASSERT_NE(at, nullptr);
            ASSERT_TRUE(std::equal(sent.bytes.begin(), sent.bytes.end(), at));
            under_way.pop_front();
            ++received;
            if (random() % 4 == 0) {
                bulk.returned();
            }
        } else if (under_way.empty()) {
            bulk.returned();
            ASSERT_NE(bulk.writer.reserve(4096), nullptr) << "no room in an empty ring";
        }
    }
    EXPECT_FALSE(bulk.writer.corrupt());
}

/// With what is under way.
struct BulkTraffic : BulkRing {
    using BulkRing::BulkRing;
    /// Where it lies, if there is room; null else.
    const std::byte* send(std::uint32_t length, std::uint32_t at_most) {
        std::byte* const to = writer.reserve(at_most);
        if (to != nullptr) {
            EXPECT_LE(to + at_most, base() + size);
            refs.push_back(writer.commit(length));
        }
        return to;
    }
    const std::byte* send(std::uint32_t length) { return send(length, length); }
    bool take_one() {
        const BulkRef ref = refs.front();
        refs.pop_front();
        return ring.reader.bulk(ref, base(), size) == base() + ref.offset;
    }
    std::deque<BulkRef> refs;
};

/// Of which the beginning is better.
struct BulkRingUsedInPart : BulkTraffic {
    static constexpr std::uint32_t bytes = 4 * BulkSpan::small;
    static BulkSpan found_out() {
        BulkSpan span(bytes);
        std::uint64_t now = 0;
        while (span.bytes() == bytes || now < 100'000'000) {
            now += span.bytes() == bytes ? 2000 : 1000;
            if (span.wrote(4096)) {
                span.took(now);
            }
        }
        return span;
    }
    BulkRingUsedInPart() : BulkTraffic(bytes, found_out()) {}
};

TEST(BulkRing, OfWhichTheBeginningIsBetterOnlyThatIsUsed) {
    BulkRingUsedInPart bulk;
    for (unsigned i = 0; i < 1000; ++i) {
        const std::byte* const at = bulk.send(5000);
        ASSERT_NE(at, nullptr) << i;
        ASSERT_LE(at + 5000, bulk.base() + BulkSpan::small) << i;
        ASSERT_TRUE(bulk.take_one()) << i;
        if (i % 16 == 0) {
            bulk.returned();
        }
    }
    EXPECT_FALSE(bulk.writer.corrupt());
}

TEST(BulkRing, OfWhichABeginningIsUsedHasRoomInTheRest) {
    BulkRingUsedInPart bulk;
    constexpr std::uint32_t length = 4096;
    for (unsigned lap = 0; lap < 10; ++lap) {
        for (unsigned i = 0; i < bulk.size / length; ++i) {
            ASSERT_EQ(bulk.send(length), bulk.base() + std::size_t{i} * length) << lap;
        }
        ASSERT_EQ(bulk.send(length), nullptr) << "it is full";
        // The beginning is free again: what comes next goes there, wherever the last one lies.
        ASSERT_TRUE(bulk.take_one());
        bulk.returned();
        while (!bulk.refs.empty()) {
            ASSERT_TRUE(bulk.take_one());
        }
        bulk.returned();
    }
    EXPECT_FALSE(bulk.writer.corrupt());
}

TEST(BulkRing, GoesBackToItsBeginningAsSoonAsThatIsFree) {
    BulkRingUsedInPart bulk;
    constexpr std::uint32_t length = 4096;
    constexpr unsigned in_beginning = BulkSpan::small / length;
    for (unsigned i = 0; i < in_beginning + 3; ++i) {
        ASSERT_EQ(bulk.send(length), bulk.base() + std::size_t{i} * length);
    }
    ASSERT_TRUE(bulk.take_one());
    ASSERT_TRUE(bulk.take_one());
    bulk.returned();
    EXPECT_EQ(bulk.send(length), bulk.base());
    EXPECT_EQ(bulk.send(length), bulk.base() + length);
    // And not over what has not been taken out.
    EXPECT_EQ(bulk.send(length), nullptr);
    while (!bulk.refs.empty()) {
        ASSERT_TRUE(bulk.take_one());
    }
    bulk.returned();
    EXPECT_EQ(bulk.send(length), bulk.base() + 2 * std::size_t{length});
    EXPECT_FALSE(bulk.writer.corrupt());
}

TEST(BulkRing, OfWhichTheBeginningIsTimedHasNoRoomInTheRest) {
    constexpr std::uint32_t length = 4096;
    BulkSpan span(4 * BulkSpan::small);
    for (std::uint64_t now = 1; !span.is_strict() || span.bytes() != BulkSpan::small; ++now) {
        if (span.wrote(length)) {
            span.took(now * 1000);
        }
    }
    BulkRing bulk(4 * BulkSpan::small, span);
    for (unsigned i = 0; i < BulkSpan::small / length; ++i) {
        ASSERT_NE(bulk.writer.reserve(length), nullptr) << i;
        const BulkRef ref = bulk.writer.commit(length);
        ASSERT_NE(bulk.ring.reader.bulk(ref, bulk.base(), bulk.size), nullptr) << i;
    }
    EXPECT_EQ(bulk.writer.reserve(length), nullptr);
    bulk.returned();
    EXPECT_EQ(bulk.writer.reserve(length), bulk.base());
    EXPECT_FALSE(bulk.writer.corrupt());
}

/// Of which few lines are better; `timed`: that is just being found out.
struct BulkRingOfFewLines : BulkTraffic {
    static constexpr std::uint32_t bytes = tuning::bulk_size;
    static BulkSpan found_out(bool timed) {
        BulkSpan span(bytes);
        for (std::uint64_t now = 0; !span.few_lines() || span.is_strict() != timed;) {
            now += span.few_lines() ? 1000 : 2000;
            if (span.wrote(4096)) {
                span.took(now);
            }
        }
        return span;
    }
    explicit BulkRingOfFewLines(bool timed = false) : BulkTraffic(bytes, found_out(timed)) {}
    bool take_one() {
        const bool found = BulkTraffic::take_one();
        returned();
        return found;
    }
};
constexpr std::uint32_t longest = tuning::max_message;

TEST(BulkRing, OfWhichFewLinesAreBetterUsesTheSameAgainAndAgain) {
    for (const std::uint32_t length : {200u, 1024u, 8192u, longest}) {
        BulkRingOfFewLines bulk;
        std::set<std::size_t> lines;
        for (unsigned i = 0; i < 300; ++i) {
            const std::byte* const at = bulk.send(length, longest);
            ASSERT_NE(at, nullptr) << i;
            const auto begin = static_cast<std::size_t>(at - bulk.base());
            for (std::size_t line = begin; line < begin + length; line += line_size) {
                lines.insert(line / line_size);
            }
            ASSERT_TRUE(bulk.take_one()) << i;
        }
        EXPECT_LE(lines.size() * line_size, tuning::few_lines_bytes + line_size) << length;
        EXPECT_FALSE(bulk.writer.corrupt());
    }
}

TEST(BulkRing, OfWhichFewLinesAreBetterHasRoomInTheRest) {
    BulkRingOfFewLines bulk;
    constexpr std::uint32_t length = 8192;
    for (unsigned round = 0; round < 5; ++round) {
        std::uint64_t under_way = 0;
        while (bulk.send(length, longest) != nullptr) {
            under_way += length;
        }
        // All but what the slots leave free, and what is asked for in vain.
        EXPECT_GE(under_way, bulk.size - 4 * tuning::slot_size - longest) << round;
        while (!bulk.refs.empty()) {
            ASSERT_TRUE(bulk.take_one());
        }
        std::set<const std::byte*> places;
        for (unsigned i = 0; i < 20; ++i) {
            const std::byte* const at = bulk.send(length, longest);
            ASSERT_NE(at, nullptr);
            ASSERT_TRUE(bulk.take_one());
            places.insert(at);
        }
        EXPECT_EQ(places.size(), 4u) << "in the few again";
    }
    EXPECT_FALSE(bulk.writer.corrupt());
}

TEST(BulkRing, OfWhichFewLinesAreTimedHasNoRoomInTheRest) {
    BulkRingOfFewLines bulk(true);
    for (unsigned i = 0; i < 4; ++i) {
        ASSERT_NE(bulk.send(8192, longest), nullptr) << i;
    }
    EXPECT_EQ(bulk.send(8192, longest), nullptr);
    ASSERT_TRUE(bulk.take_one());
    EXPECT_EQ(bulk.send(8192, longest), bulk.base());
    EXPECT_EQ(bulk.send(8192, longest), nullptr) << "the second has not been taken out";
    EXPECT_FALSE(bulk.writer.corrupt());
}

TEST(BulkRing, OfWhichFewLinesAreTimedHasRoomWhenItIsEmpty) {
    // Its writer comes to it when a payload has just begun a lap: the next lap begins a ring's length behind that,
    // and a payload there would be longer than what is left.
    constexpr std::uint32_t length = 600;
    BulkSpan span(tuning::bulk_size);
    for (std::uint64_t now = 0;; ++now) {
        BulkSpan then = span;
        if (then.wrote(length)) {
            then.took(now);
        }
        if (then.few_lines()) {
            break; // with the next payload
        }
        span = then;
    }
    BulkRing bulk(tuning::bulk_size, span);
    for (unsigned i = 0; i < 200; ++i) {
        ASSERT_NE(bulk.writer.reserve(longest), nullptr) << i;
        const BulkRef ref = bulk.writer.commit(length);
        ASSERT_NE(bulk.ring.reader.bulk(ref, bulk.base(), bulk.size), nullptr);
        bulk.returned();
    }
    EXPECT_FALSE(bulk.writer.corrupt());
}

TEST(BulkRing, OfFewLinesAPayloadMayBeAsLongAsItWasAllowedToBe) {
    // Short ones and longest ones in turn, whose lengths only their writer knows, and a reader that is behind by
    // so many: none is ever written over.
    for (const bool timed : {false, true}) {
        for (const unsigned behind : {1u, 2u, 3u, 20u}) {
            BulkRingOfFewLines bulk(timed);
            Random random(behind);
            std::deque<std::vector<std::byte>> sent;
            const auto check = [&] {
                const BulkRef ref = bulk.refs.front();
                ASSERT_EQ(ref.length, sent.front().size());
                ASSERT_TRUE(
                    std::equal(sent.front().begin(), sent.front().end(), bulk.base() + ref.offset));
                sent.pop_front();
                ASSERT_TRUE(bulk.take_one());
            };
            for (unsigned i = 0; i < 800; ++i) {
                const std::uint32_t data_at = random() % 2 * (random() % 64);
                std::byte* const to = bulk.writer.reserve(longest, data_at);
                if (to == nullptr) {
                    ASSERT_FALSE(sent.empty()) << "no room in an empty ring";
                    ASSERT_NO_FATAL_FAILURE(check());
                    continue;
                }
                ASSERT_LE(to + longest, bulk.base() + bulk.size);
                const std::uint32_t length =
                    random() % 3 == 0 ? longest - random() % 100 : 1 + random() % 3000;
                auto bytes = numbered(length, random());
                std::memset(to, 0xee, longest);
                std::memcpy(to, bytes.data(), length);
                bulk.refs.push_back(bulk.writer.commit(length));
                sent.push_back(std::move(bytes));
                if (sent.size() > behind) {
                    ASSERT_NO_FATAL_FAILURE(check());
                }
            }
            EXPECT_FALSE(bulk.writer.corrupt());
        }
    }
}

TEST(BulkRing, ThatLostItsPagesBeginsAnew) {
    BulkSpan span(4 * BulkSpan::small);
    for (std::uint64_t now = 1; span.is_strict() || span.bytes() == BulkSpan::small; ++now) {
        if (span.wrote(4096)) {
            span.took(now * (span.bytes() == BulkSpan::small ? 1000 : 500));
        }
    }
    BulkRing bulk(4 * BulkSpan::small, span);
    const auto is_used_beyond_the_beginning = [&] {
        for (unsigned i = 0; i < 2 * BulkSpan::small / 4096; ++i) {
            const std::byte* const at = bulk.writer.reserve(4096);
            if (at == nullptr || at >= bulk.base() + BulkSpan::small) {
                return true;
            }
            const BulkRef ref = bulk.writer.commit(4096);
            EXPECT_EQ(bulk.ring.reader.bulk(ref, bulk.base(), bulk.size), at);
            bulk.returned();
        }
        return false;
    };
    ASSERT_TRUE(is_used_beyond_the_beginning());
    bulk.writer.lost_pages();
    EXPECT_FALSE(is_used_beyond_the_beginning());
}

TEST(BulkRing, NothingIsOverwrittenBeforeItIsReturned) {
    BulkRing bulk(1024);
    std::vector<BulkRef> refs;
    while (bulk.writer.reserve(100) != nullptr) {
        refs.push_back(bulk.writer.commit(100));
    }
    EXPECT_EQ(refs.size(), 8u);
    for (const BulkRef& ref : refs) {
        EXPECT_NE(bulk.ring.reader.bulk(ref, bulk.base(), bulk.size), nullptr);
        EXPECT_EQ(bulk.writer.reserve(100), nullptr) << "taken, but not returned";
    }
    bulk.returned();
    EXPECT_NE(bulk.writer.reserve(100), nullptr);
    EXPECT_FALSE(bulk.writer.corrupt());
}

TEST(BulkRing, WhatWasOnlyLookedAtIsNotReturned) {
    BulkRing bulk(1024);
    bulk.ring.reader.set_bulk_size(1024); // it is due after 128 bytes
    const auto returned = [&] { return bulk.ring.control->consumer.bulk.load(); };
    const auto look = [&] {
        ASSERT_NE(bulk.writer.reserve(256), nullptr);
        ASSERT_NE(bulk.ring.reader.bulk(bulk.writer.commit(256), bulk.base(), bulk.size), nullptr);
    };
    look();
    EXPECT_FALSE(bulk.ring.reader.return_rest()) << "there is nothing else";
    EXPECT_EQ(returned(), 0u);
    EXPECT_TRUE(bulk.pop()) << "due";
    EXPECT_EQ(returned(), 256u);
    look();
    (void)bulk.ring.reader.return_rest();
    EXPECT_EQ(returned(), 256u);
    EXPECT_TRUE(bulk.pop()) << "due all the same";
    EXPECT_EQ(returned(), 512u);
    // At the end of the ring, too: what is left out there comes back with what follows it.
    look();
    (void)bulk.pop();
    ASSERT_NE(bulk.writer.reserve(512), nullptr);
    ASSERT_NE(bulk.ring.reader.bulk(bulk.writer.commit(512), bulk.base(), bulk.size), nullptr);
    (void)bulk.ring.reader.return_rest();
    EXPECT_EQ(returned(), 768u);
    (void)bulk.pop();
    EXPECT_EQ(returned(), 1024u + 512u);
}

TEST(BulkRing, AReferenceToAnywhereElseIsRefused) {
    for (const BulkRef lie : {BulkRef{64, 10}, BulkRef{127, 10}, BulkRef{0, 1025}, BulkRef{1, 1024},
                              BulkRef{1024, 0}, BulkRef{960, 65}, BulkRef{0xffffffff, 2},
                              BulkRef{2, 0xffffffff}, BulkRef{512, 0xffffffff}}) {
        BulkRing bulk(1024);
        ASSERT_NE(bulk.ring.reader.bulk({128, 64}, bulk.base(), bulk.size), nullptr);
        EXPECT_EQ(bulk.ring.reader.bulk(lie, bulk.base(), bulk.size), nullptr)
            << lie.offset << "+" << lie.length;
        EXPECT_EQ(bulk.ring.reader.bulk_taken(), 192u);
    }
    BulkRing bulk(1024);
    EXPECT_EQ(bulk.ring.reader.bulk({0, 1024}, bulk.base(), bulk.size), bulk.base());
    // It need not begin with its line.
    BulkRing other(1024);
    EXPECT_EQ(other.ring.reader.bulk({63, 961}, other.base(), other.size), other.base() + 63);
    EXPECT_EQ(other.ring.reader.bulk_taken(), 1024u);
}

TEST(BulkRing, LiesAboutCreditAreFoundOut) {
    for (const std::uint64_t lie : {std::uint64_t{1088}, ~std::uint64_t{0}}) {
        BulkRing bulk(1024);
        while (bulk.writer.reserve(64) != nullptr) {
            (void)bulk.writer.commit(64);
        }
        bulk.ring.control->consumer.bulk.store(lie);
        EXPECT_EQ(bulk.writer.reserve(64), nullptr);
        EXPECT_TRUE(bulk.writer.corrupt()) << lie;
    }
}

/// Not a multiple of a line: no correct peer, but within what was written.
void write_with_odd_credit(BulkRing& bulk, std::uint32_t longest_payload) {
    std::byte* const end = bulk.memory.back().bytes.data() + line_size;
    Random random(5);
    std::uint64_t written = 0;
    for (unsigned i = 0; i < 5000; ++i) {
        const std::uint32_t length = random() % longest_payload;
        if (std::byte* const to = bulk.writer.reserve(length, random() % 64)) {
            ASSERT_GE(to, bulk.base());
            ASSERT_LE(to + length, end);
            (void)bulk.writer.commit(length);
            written += length;
        }
        const std::uint64_t before = bulk.ring.control->consumer.bulk.load();
        bulk.ring.control->consumer.bulk.store(before + random() % (longest_payload + 100));
        if (bulk.writer.corrupt()) {
            break;
        }
    }
    EXPECT_GT(written, 0u);
}

TEST(BulkRing, AnOddCreditDoesNotLeadOutOfTheRing) {
    BulkRing bulk(1024);
    write_with_odd_credit(bulk, 600);
    for (const bool timed : {false, true}) {
        BulkRingOfFewLines few(timed);
        write_with_odd_credit(few, longest);
    }
}

} // namespace
} // namespace comch::link::soft
