// Messages that are longer than one of the core's, sent at once in several. Whether they are
// depends on the link and on FI_COMCH_EAGER_SIZE (CMakeLists.txt runs all tests both ways); what a
// program sees does not.
#include <memory>
#include <thread>

#include "test_node.hpp"

namespace comch::ofi::test {
namespace {

constexpr std::size_t longest = 65535; // on any link

struct InParts : testing::Test {
    std::unique_ptr<Pair> pair = std::make_unique<Pair>();
    Node& a = pair->a;
    Node& b = pair->b;

    void progress() const {
        for (fid_cq* const cq : pair->cqs) {
            (void)fi_cq_read(cq, nullptr, 0);
        }
    }
    /// Until the connection is made.
    void meet() {
        post([&] { return fi_inject(a.ep, "", 1, pair->to_b); }, pair->cqs);
        char buffer[1];
        COMCH_FI(fi_recv(b.ep, buffer, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
        ASSERT_EQ(await(b.rx, pair->cqs).error, 0);
    }
};

/// Sends as many of the longest as there is room for: where they go in parts, some of the last
/// wait.
unsigned fill(const Node& from, fi_addr_t to, const std::vector<char>& data) {
    unsigned sent = 0;
    while (fi_send(from.ep, data.data(), data.size(), nullptr, to, nullptr) == 0 && ++sent < 100) {
    }
    return sent;
}

TEST_F(InParts, NothingOvertakesThem) {
    // More than there is room for, while the receiver does nothing; then all of it.
    constexpr unsigned count = 200;
    meet();
    std::vector<std::vector<char>> messages;
    for (unsigned i = 0; i < count; ++i) {
        messages.push_back(pattern(i % 3 == 1 ? 8 + i : longest - i, i));
    }
    unsigned sent = 0;
    const auto send_some = [&] {
        while (sent < count && fi_send(a.ep, messages[sent].data(), messages[sent].size(), nullptr,
                                       pair->to_b, &messages[sent]) == 0) {
            ++sent;
        }
    };
    send_some();
    std::vector<std::vector<char>> buffers(count, std::vector<char>(longest));
    for (auto& buffer : buffers) {
        COMCH_FI(fi_recv(b.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, &buffer));
    }
    unsigned completed = 0;
    unsigned received = 0;
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (received < count || completed < count) {
        ASSERT_LT(Clock::now(), end) << sent << " sent, " << received << " received";
        send_some();
        fi_cq_tagged_entry entry{};
        if (fi_cq_read(a.tx, &entry, 1) == 1) {
            ++completed;
        }
        if (fi_cq_read(b.rx, &entry, 1) == 1) {
            // Matched in order; completed in the order in which their data is there.
            auto& buffer = *static_cast<std::vector<char>*>(entry.op_context);
            const auto& message = messages[static_cast<std::size_t>(&buffer - buffers.data())];
            ASSERT_EQ(entry.len, message.size());
            buffer.resize(entry.len);
            EXPECT_EQ(buffer, message);
            ++received;
        }
    }
}

TEST_F(InParts, OtherOperationsWaitForThem) {
    meet();
    const auto data = pattern(longest, 1);
    const unsigned sent = fill(a, pair->to_b, data);
    std::vector<char> memory(64, 'x');
    b.expose(memory.data(), memory.size(), 7);
    ssize_t written = -FI_EAGAIN;
    std::vector<char> buffer(longest);
    for (unsigned i = 0; i < sent; ++i) {
        COMCH_FI(fi_recv(b.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, nullptr));
        const auto end = Clock::now() + std::chrono::seconds(60);
        fi_cq_tagged_entry entry{};
        while (fi_cq_read(b.rx, &entry, 1) != 1) {
            ASSERT_LT(Clock::now(), end);
            (void)fi_cq_read(a.tx, nullptr, 0);
            if (written == -FI_EAGAIN) {
                written = fi_write(a.ep, "written", 8, nullptr, pair->to_b, 0, 7, nullptr);
            }
        }
        ASSERT_EQ(entry.len, longest);
        EXPECT_EQ(buffer, data);
    }
    post(
        [&] {
            return written == -FI_EAGAIN
                       ? written = fi_write(a.ep, "written", 8, nullptr, pair->to_b, 0, 7, nullptr)
                       : written;
        },
        pair->cqs);
    for (unsigned i = 0; i < sent + 1; ++i) {
        EXPECT_EQ(await(a.tx, pair->cqs).error, 0);
    }
    EXPECT_STREQ(memory.data(), "written");
}

TEST_F(InParts, AreDeliveredWhereThatIsAskedFor) {
    const auto data = pattern(50000, 3);
    const iovec part{const_cast<char*>(data.data()), data.size()};
    fi_msg_tagged message{};
    message.msg_iov = &part;
    message.iov_count = 1;
    message.addr = pair->to_b;
    message.tag = 5;
    message.data = 9;
    post(
        [&] {
            return fi_tsendmsg(a.ep, &message,
                               FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA | FI_COMPLETION);
        },
        pair->cqs);
    for (int i = 0; i < 1000; ++i) {
        progress();
    }
    fi_cq_tagged_entry entry{};
    EXPECT_EQ(fi_cq_read(a.tx, &entry, 1), -FI_EAGAIN) << "nobody has received it";
    std::vector<char> buffer(data.size());
    COMCH_FI(fi_trecv(b.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, 5, 0, nullptr));
    const Event event = await(b.rx, pair->cqs);
    EXPECT_EQ(event.entry.len, data.size());
    EXPECT_EQ(event.entry.data, 9u);
    EXPECT_EQ(event.entry.tag, 5u);
    EXPECT_EQ(buffer, data);
    EXPECT_EQ(await(a.tx, pair->cqs).error, 0);
}

TEST_F(InParts, WhoTriesAgainWithoutProgressGetsOn) {
    meet();
    const auto data = pattern(longest, 4);
    const unsigned sent = fill(a, pair->to_b, data);
    std::vector<char> buffer(longest);
    for (unsigned i = 0; i < sent; ++i) {
        COMCH_FI(fi_recv(b.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, nullptr));
    }
    // Only the receiver makes progress otherwise. (Of messages that are read out of the sender's
    // memory it has all that it needs, or has to ask.)
    const std::vector<fid_cq*> receiver{b.tx, b.rx};
    post([&] { return fi_inject(a.ep, "x", 1, pair->to_b); }, receiver);
    pair.reset(); // before the messages and their buffer
}

TEST_F(InParts, AreSentOnByAProgressThreadThatSleeps) {
    NodeOptions options;
    options.progress = FI_PROGRESS_AUTO;
    options.wait_object = FI_WAIT_FD;
    Node sender(options);
    const fi_addr_t to = sender.add(b.name());
    post([&] { return fi_inject(sender.ep, "x", 1, to); }, {sender.tx, b.rx});
    std::vector<char> buffer(longest);
    COMCH_FI(fi_recv(b.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, nullptr));
    ASSERT_EQ(await(b.rx, {sender.tx}).error, 0);
    const auto data = pattern(longest, 5);
    for (int round = 0; round < 20; ++round) {
        // The program makes no call for longer than its thread stays awake.
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        const unsigned sent = fill(sender, to, data);
        for (unsigned i = 0; i < sent; ++i) {
            COMCH_FI(fi_recv(b.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, nullptr));
            ASSERT_EQ(await(b.rx).entry.len, longest);
            ASSERT_EQ(buffer, data);
        }
        for (unsigned i = 0; i < sent; ++i) {
            ASSERT_EQ(await(sender.tx, {b.rx}).error, 0);
        }
    }
}

TEST_F(InParts, ThatWaitedAreErrorsWhenThePeerGoes) {
    Node other;
    const fi_addr_t to = a.add(other.name());
    auto gone = std::make_unique<Node>();
    const fi_addr_t to_gone = a.add(gone->name());
    const auto data = pattern(longest, 2);
    const std::vector<fid_cq*> cqs{a.tx, a.rx, gone->tx, gone->rx};
    post([&] { return fi_send(a.ep, data.data(), data.size(), nullptr, to_gone, nullptr); }, cqs);
    unsigned sent = 1;
    while (fi_send(a.ep, data.data(), data.size(), nullptr, to_gone, nullptr) == 0 &&
           ++sent < 100) {
    }
    gone.reset();
    for (unsigned i = 0; i < sent; ++i) {
        (void)await(a.tx); // each ends, well or not
    }
    // And nobody else is concerned.
    post([&] { return fi_send(a.ep, data.data(), data.size(), nullptr, to, nullptr); },
         {a.tx, a.rx, other.tx, other.rx});
    std::vector<char> buffer(longest);
    COMCH_FI(fi_recv(other.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, nullptr));
    EXPECT_EQ(await(other.rx, {a.tx}).entry.len, longest);
    EXPECT_EQ(buffer, data);
}

} // namespace
} // namespace comch::ofi::test
