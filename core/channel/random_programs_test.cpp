// Producers and a consumer that do anything at any time, over the fake link: what arrives is whole and
// in order, buffers come back once, and nobody writes into one that has.
#include <array>
#include <cstring>
#include <deque>
#include <map>

#include "core/channel/test_support.hpp"

namespace comch::channel::test {
namespace {

constexpr std::byte returned{0x55}; ///< what a buffer is filled with that is the program's

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u) {}
    std::uint32_t below(std::uint32_t limit) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<std::uint32_t>((state_ >> 33) % limit);
    }
    bool one_in(std::uint32_t count) { return below(count) == 0; }

private:
    std::uint64_t state_;
};

struct Buffer {
    std::vector<std::byte> bytes;
    std::unique_ptr<MemoryMap> map;
    Buffer(std::vector<std::byte> content, bool mapped)
        : bytes(std::move(content)),
          map(mapped ? *MemoryMap::create(bytes, local_read | peer_write) : nullptr) {}
};

/// A producer with an engine of its own, and the numbers of its messages.
struct Sender {
    std::unique_ptr<ProgressEngine> engine = *ProgressEngine::create();
    ProducerProgram program;
    std::vector<std::uint32_t> accepted;

    [[nodiscard]] bool runs() const {
        return program.producer && program.producer->state() == State::running;
    }
    [[nodiscard]] bool is_done() const {
        return !program.producer || program.sent.size() == accepted.size();
    }
};

class RandomPrograms : public ::testing::TestWithParam<std::uint64_t> {
protected:
    Random random{GetParam() + 1};
    Lab lab{true};
    ServerProgram server;
    ClientProgram client;
    ConsumerProgram consumer;
    std::deque<Buffer> buffers;
    std::vector<Buffer*> own; ///< of them, those that are not posted
    std::deque<Sender> senders;
    std::deque<Buffer> memory; ///< of what was sent
    std::map<std::uint32_t, std::vector<std::byte>> messages;
    std::vector<std::uint32_t> received;
    std::uint32_t kinds = 2; ///< of messages, at the moment
    const bool posts_late = random.one_in(3);

    void SetUp() override {
        ASSERT_EQ(server.open(lab, "name"), Errc::ok);
        ASSERT_EQ(client.open(lab, "name"), Errc::ok);
        ASSERT_TRUE(until(
            [&] { return !server.connected.empty() && client.client->state() == State::running; },
            server, client));
        consumer.on_received = [this](const Received& r) { on_received(r); };
        ASSERT_EQ(consumer.open(*client.engine, client.connection()), Errc::ok);
        ASSERT_TRUE(until(
            [&] { return consumer.consumer->state() == State::running && !server.added.empty(); },
            server, client));
        constexpr std::array<std::size_t, 3> rooms = {40'000, 50'000, 100'000};
        const bool alike = random.one_in(2);
        const bool mapped = !random.one_in(3);
        std::size_t room = 50'000;
        for (std::uint32_t i = 1 + random.below(60); i != 0; --i) {
            if (!alike && random.one_in(5)) {
                room = rooms[random.below(rooms.size())];
            }
            Buffer& buffer =
                buffers.emplace_back(std::vector<std::byte>(room), mapped || !random.one_in(4));
            post(buffer);
        }
        open_sender();
    }
    void open_sender() {
        Sender& sender = senders.emplace_back();
        ASSERT_EQ(sender.program.open(*sender.engine, *server.connected.at(0),
                                      {.max_in_flight = 1 + random.below(40)}),
                  Errc::ok);
    }
    Sender& any_sender() {
        return senders[random.below(static_cast<std::uint32_t>(senders.size()))];
    }

    void post(Buffer& buffer) {
        std::fill(buffer.bytes.begin(), buffer.bytes.end(), std::byte{0});
        ASSERT_EQ(consumer.consumer->post({.address = buffer.bytes.data(),
                                           .capacity = buffer.bytes.size(),
                                           .memory = buffer.map.get()},
                                          &buffer),
                  Errc::ok);
    }
    void keep(Buffer& buffer) {
        std::fill(buffer.bytes.begin(), buffer.bytes.end(), returned);
        own.push_back(&buffer);
    }
    void post_what_is_own() {
        while (!own.empty()) {
            Buffer& buffer = *own.back();
            own.pop_back();
            post(buffer);
        }
    }
    void on_received(const Received& r) {
        Buffer& buffer = *static_cast<Buffer*>(r.cookie);
        if (r.status == Errc::ok) {
            std::uint32_t number = 0;
            std::memcpy(&number, buffer.bytes.data(), sizeof(number));
            const auto& sent = messages[number];
            EXPECT_TRUE(sent.size() == r.length &&
                        std::equal(sent.begin(), sent.end(), buffer.bytes.begin()))
                << number;
            received.push_back(number);
        }
        if (consumer.consumer->state() != State::running || (posts_late && random.one_in(3))) {
            keep(buffer);
        } else {
            post(buffer);
        }
    }

    bool send_one(Sender& sender) {
        constexpr std::array<std::size_t, 9> sizes = {33'000, 40'000, 49'000, 20,     5'000,
                                                      45'000, 60'000, 90'000, 101'000};
        if (random.one_in(15)) {
            kinds = 1 + random.below(sizes.size());
        }
        const auto number = static_cast<std::uint32_t>(messages.size());
        auto content = pattern(sizes[random.below(kinds)] - random.below(3), number);
        std::memcpy(content.data(), &number, sizeof(number));
        Buffer& data = memory.emplace_back(content, !random.one_in(5));
        const std::string immediate(random.below(3) * random.below(2), 'i');
        const Errc result = sender.program.producer->send(consumer.consumer->id(),
                                                          {.data = data.bytes,
                                                           .immediate = bytes_of(immediate),
                                                           .memory = data.map.get(),
                                                           .more = random.one_in(8)},
                                                          nullptr);
        if (result != Errc::ok) {
            memory.pop_back();
            return false;
        }
        messages[number] = std::move(content);
        sender.accepted.push_back(number);
        return true;
    }
    void progress(ProgressEngine& engine, std::uint32_t arms_one_in) {
        engine.progress();
        if (random.one_in(arms_one_in)) {
            (void)engine.arm();
        }
    }
    /// Senders come, stop, or are gone without a word.
    void change_senders() {
        const auto alive =
            std::count_if(senders.begin(), senders.end(), [](const Sender& s) { return s.runs(); });
        if (alive < 2 || random.one_in(5)) {
            if (senders.size() < 12) {
                open_sender();
            }
            return;
        }
        Sender& sender = any_sender();
        if (sender.runs() && random.one_in(2)) {
            ASSERT_TRUE(sender.program.producer->stop());
            ASSERT_TRUE(until([&] { return sender.program.producer->state() == State::idle; },
                              *sender.engine, client));
        }
        sender.program.producer.reset();
    }
    void step(const std::array<std::uint32_t, 3>& weights) {
        std::uint32_t what = random.below(weights[0] + weights[1] + weights[2] + 1);
        Sender& sender = any_sender();
        if (what < weights[0]) {
            progress(*client.engine, 3);
        } else if ((what -= weights[0]) < weights[1]) {
            progress(*sender.engine, 6);
        } else if (what - weights[1] < weights[2]) {
            for (std::uint32_t i = random.below(4); sender.runs() && send_one(sender) && i != 0;
                 --i) {
            }
        } else {
            server.engine->progress();
            if (random.one_in(2)) {
                post_what_is_own();
            }
            if (random.one_in(12)) {
                change_senders();
            }
        }
    }
    void expect_all_arrived(const Sender& sender) const {
        std::vector<std::uint32_t> good;
        for (std::size_t i = 0; i < sender.program.sent.size(); ++i) {
            const Errc status = sender.program.sent[i].second;
            EXPECT_TRUE(status == Errc::ok || status == Errc::invalid_argument);
            if (status == Errc::ok) {
                good.push_back(sender.accepted.at(i));
            }
        }
        std::vector<std::uint32_t> here;
        std::copy_if(
            received.begin(), received.end(), std::back_inserter(here), [&](std::uint32_t number) {
                return std::binary_search(sender.accepted.begin(), sender.accepted.end(), number);
            });
        EXPECT_EQ(here, good) << "all of them, once, in order";
    }
};

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, ::testing::Range<std::uint64_t>(0, 60));

TEST_P(RandomPrograms, LoseNothingAndWriteNowhereElse) {
    const std::array<std::uint32_t, 3> weights = {1 + random.below(6), 1 + random.below(6),
                                                  1 + random.below(6)};
    const std::uint32_t again = random.one_in(2) ? 3 + random.below(30) : 0;
    for (std::uint32_t steps = 300 + random.below(1000); steps != 0 && !HasFailure(); --steps) {
        if (again != 0 && random.one_in(again)) {
            lab.network->again_on_send(1 + random.below(5));
        }
        step(weights);
    }
    ASSERT_FALSE(HasFailure());
    if (random.one_in(2)) { // to the end, or the consumer stops in the middle of it
        ASSERT_TRUE(until(
            [&] {
                bool done = true;
                for (Sender& sender : senders) {
                    sender.engine->progress();
                    done = done && sender.is_done();
                }
                post_what_is_own();
                return done;
            },
            server, client));
        for (const Sender& sender : senders) {
            if (sender.program.producer) {
                expect_all_arrived(sender);
            }
        }
    }
    ASSERT_TRUE(consumer.consumer->stop());
    const bool help = random.one_in(2);
    ASSERT_TRUE(until(
        [&] {
            for (Sender& sender : senders) {
                if (help) {
                    sender.engine->progress();
                }
            }
            return consumer.consumer->state() == State::idle;
        },
        client));
    EXPECT_EQ(own.size(), buffers.size()) << "each comes back once";
    comch::test::for_a_while(std::chrono::milliseconds(30), [&] {
        for (Sender& sender : senders) {
            sender.engine->progress();
        }
        client.engine->progress();
        server.engine->progress();
    });
    for (const Buffer& buffer : buffers) {
        EXPECT_TRUE(std::all_of(buffer.bytes.begin(), buffer.bytes.end(), [](std::byte b) {
            return b == returned;
        })) << "nobody has written into it since";
    }
    EXPECT_EQ(client.client->state(), State::running);
    EXPECT_TRUE(server.disconnected.empty());
}

} // namespace
} // namespace comch::channel::test
