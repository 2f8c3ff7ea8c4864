// Which messages leave half of a line to the next one, seen in the ring of a peer that is played by hand.
#include "core/link/soft/test_raw_peer.hpp"

namespace comch::link::soft::test {
namespace {

class Share : public ::testing::Test {
protected:
    Lab lab;
    End end{lab, Side::dpu};
    RawPeer peer{lab.domain()};

    void SetUp() override {
        peer.join(end);
        drain();
    }
    void drain() {
        RingReader::Record record;
        while (peer.pipe.rx().peek(record) == RingReader::Peek::record) {
            peer.pipe.pop(record);
        }
        peer.pipe.idle();
    }
    /// The cells that each of these messages takes, sent one right after the other.
    std::vector<std::uint64_t> cells_of(std::initializer_list<std::uint32_t> lengths) {
        for (const std::uint32_t length : lengths) {
            EXPECT_EQ(peer.connection->send(1, std::vector<std::byte>(length)), Errc::ok);
        }
        std::vector<std::uint64_t> result;
        RingReader::Record record;
        while (peer.pipe.rx().peek(record) == RingReader::Peek::record) {
            result.push_back(record.end - peer.pipe.rx().position());
            peer.pipe.pop(record);
        }
        peer.pipe.idle();
        return result;
    }
    void something_comes() {
        ASSERT_EQ(peer.pipe.send(1, bytes_of("something")), Errc::ok);
        const std::size_t before = end.seen.message_count;
        ASSERT_TRUE(until([&] { return end.seen.message_count > before; }, end));
    }

    using Cells = std::vector<std::uint64_t>;
};

TEST_F(Share, WhoJustSendsDoes) {
    (void)cells_of({56}); // whatever came while the connection was made has been answered
    EXPECT_EQ(cells_of({24, 8, 0, 24, 64, 64}), (Cells{1, 1, 1, 1, 3, 3}));
}

TEST_F(Share, AnAnswerDoesNotButWhatFollowsIt) {
    something_comes();
    EXPECT_EQ(cells_of({8, 8, 8}), (Cells{2, 1, 1}));
    something_comes();
    EXPECT_EQ(cells_of({64, 64, 64}), (Cells{4, 3, 3}));
}

TEST_F(Share, AnAnswerThatMustBeginInTheMiddleOfALineIsFollowedByOneThatDoesNot) {
    (void)cells_of({56});
    ASSERT_EQ(cells_of({8}), (Cells{1}));
    something_comes();
    EXPECT_EQ(cells_of({8, 8, 8}), (Cells{1, 2, 1}));
}

TEST_F(Share, LongOnesDoNot) {
    (void)cells_of({56});
    static_assert(tuning::most_to_share == 11 * cell_size - 16);
    EXPECT_EQ(cells_of({336, 336}), (Cells{11, 11}));
    EXPECT_EQ(cells_of({344}), (Cells{12})) << "of which the last is empty";
}

} // namespace
} // namespace comch::link::soft::test
