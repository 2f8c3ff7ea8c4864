// Many small messages from all to all at once, in random order of peers and with random sizes:
// every receiver checks that each sender's messages come complete and in order.
//
//   --messages N   per pair of ranks (default: 40000 over all pairs, at least 100)
//   --seed N       another order
#include "common.hpp"

#include <algorithm>
#include <deque>
#include <random>

using namespace mpi_tests;

namespace {

constexpr std::size_t most_bytes = 20000;

/// The length of message `number` from one rank to another; known at both ends.
std::size_t length_of(int source, int dest, int number, unsigned seed) {
    std::minstd_rand random(seed + unsigned(source) * 10007u + unsigned(dest) * 101u +
                            unsigned(number) * 2654435761u);
    random.discard(3);
    const auto kind = random() % 100;
    if (kind < 80) {
        return random() % 200; // mostly what fits into a line or a few
    }
    return kind < 98 ? random() % 4000 : random() % most_bytes;
}

/// Sends in a random order of peers, in order to each; at most `window` sends under way.
class Sender {
public:
    Sender(Session& s, int messages, int tag, unsigned seed) : s_(s), tag_(tag), seed_(seed) {
        for (int peer = 0; peer < s.size(); ++peer) {
            if (peer != s.rank()) {
                peers_.insert(peers_.end(), std::size_t(messages), peer);
            }
        }
        std::mt19937 random(seed + unsigned(s.rank()));
        std::shuffle(peers_.begin(), peers_.end(), random);
        numbers_.resize(std::size_t(s.size()));
    }

    [[nodiscard]] bool done() const { return next_ == peers_.size() && under_way_.empty(); }

    void advance() {
        while (!under_way_.empty()) {
            int complete = 0;
            MPI_Test(&under_way_.front().request, &complete, MPI_STATUS_IGNORE);
            if (complete == 0) {
                break;
            }
            under_way_.pop_front();
        }
        while (next_ < peers_.size() && under_way_.size() < window) {
            const int peer = peers_[next_++];
            const int number = numbers_[std::size_t(peer)]++;
            const std::size_t length = length_of(s_.rank(), peer, number, seed_);
            auto& message = under_way_.emplace_back(length);
            MPI_Isend(message.buffer.fill({s_.rank(), peer, number}, length), int(length), MPI_BYTE,
                      peer, tag_, MPI_COMM_WORLD, &message.request);
            s_.moved(length);
        }
    }

private:
    static constexpr std::size_t window = 64;
    struct UnderWay {
        explicit UnderWay(std::size_t length) : buffer(length) {}
        Buffer buffer;
        MPI_Request request = MPI_REQUEST_NULL;
    };

    Session& s_;
    int tag_;
    unsigned seed_;
    std::vector<int> peers_;
    std::vector<int> numbers_;
    std::size_t next_ = 0;
    std::deque<UnderWay> under_way_;
};

/// Receives from anybody, with several receives posted.
class Receiver {
public:
    Receiver(Session& s, int messages, int tag, unsigned seed)
        : s_(s), tag_(tag), seed_(seed), left_(messages * (s.size() - 1)),
          numbers_(std::size_t(s.size())) {
        for (int i = 0; i < std::min(window, left_); ++i) {
            buffers_.emplace_back(most_bytes);
            buffers_.back().arm_all();
        }
        to_post_ = left_;
        requests_.resize(buffers_.size(), MPI_REQUEST_NULL);
        for (std::size_t i = 0; i < buffers_.size(); ++i) {
            post(i);
        }
    }

    [[nodiscard]] bool done() const { return left_ == 0; }

    void advance() {
        // Receives match in the order in which they were posted, so they are looked at in that
        // order: two messages of one sender must not be taken for swapped.
        while (left_ > 0) {
            int complete = 0;
            MPI_Status status;
            MPI_Test(&requests_[oldest_], &complete, &status);
            if (complete == 0) {
                return;
            }
            check(buffers_[oldest_], status);
            post(oldest_);
            oldest_ = (oldest_ + 1) % buffers_.size();
            --left_;
        }
    }

private:
    static constexpr int window = 32;

    void post(std::size_t i) {
        if (to_post_ > 0) {
            --to_post_;
            MPI_Irecv(buffers_[i].data(), int(most_bytes), MPI_BYTE, MPI_ANY_SOURCE, tag_,
                      MPI_COMM_WORLD, &requests_[i]);
        }
    }

    void check(Buffer& buffer, const MPI_Status& status) {
        const int from = status.MPI_SOURCE;
        const int number = numbers_[std::size_t(from)]++;
        const std::size_t length = length_of(from, s_.rank(), number, seed_);
        int got = -1;
        MPI_Get_count(&status, MPI_BYTE, &got);
        require(got == int(length), "message {} of rank {}: {} bytes, expected {}: out of order?",
                number, from, got, length);
        buffer.verify_part("storm", {from, s_.rank(), number}, length);
    }

    Session& s_;
    int tag_;
    unsigned seed_;
    int left_;
    int to_post_ = 0;
    std::vector<int> numbers_;
    std::vector<Buffer> buffers_;
    std::vector<MPI_Request> requests_;
    std::size_t oldest_ = 0;
};

/// Everybody sends and receives at the same time.
void storm(Session& s, int messages, int tag, unsigned seed) {
    Sender sender(s, messages, tag, seed);
    Receiver receiver(s, messages, tag, seed);
    while (!sender.done() || !receiver.done()) {
        sender.advance();
        receiver.advance();
    }
}

/// All to one, which starts to receive only when everybody has begun: rings fill up.
void all_to_one(Session& s, int messages, int tag, unsigned seed) {
    const int target = s.size() / 2;
    if (s.rank() == target) {
        std::vector<int> numbers(std::size_t(s.size()));
        Buffer in(most_bytes);
        in.arm_all();
        s.barrier();
        for (int left = messages * (s.size() - 1); left > 0; --left) {
            MPI_Status status;
            MPI_Recv(in.data(), int(most_bytes), MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD,
                     &status);
            const int from = status.MPI_SOURCE;
            const int number = numbers[std::size_t(from)]++;
            const std::size_t length = length_of(from, target, number, seed);
            int got = -1;
            MPI_Get_count(&status, MPI_BYTE, &got);
            require(got == int(length), "message {} of rank {}: {} bytes, expected {}", number,
                    from, got, length);
            in.verify_part("all to one", {from, target, number}, length);
        }
        return;
    }
    std::vector<Buffer> out;
    std::vector<MPI_Request> requests;
    for (int number = 0; number < messages; ++number) {
        const std::size_t length = length_of(s.rank(), target, number, seed);
        out.emplace_back(length);
        MPI_Isend(out.back().fill({s.rank(), target, number}, length), int(length), MPI_BYTE,
                  target, tag, MPI_COMM_WORLD, &requests.emplace_back());
        s.moved(length);
    }
    s.barrier();
    MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

/// The rank changes with each message: a token visits all ranks in random order, many at once.
void tokens(Session& s, int hops, unsigned seed) {
    constexpr int tag = 4;
    constexpr std::size_t length = 40;
    // Everybody knows the whole journey: token t is at rank route(t, h) after h hops.
    const auto route = [&](int token, int hop) {
        std::minstd_rand random(seed + unsigned(token) * 7919u + unsigned(hop) * 2654435761u);
        random.discard(2);
        return int(random() % unsigned(s.size()));
    };
    for (int hop = 0; hop < hops; ++hop) {
        std::vector<Buffer> out;
        std::vector<Buffer> in;
        std::vector<int> received;
        std::vector<MPI_Request> requests;
        out.reserve(std::size_t(s.size()));
        in.reserve(std::size_t(s.size()));
        for (int token = 0; token < s.size(); ++token) {
            const int here = route(token, hop);
            const int there = route(token, hop + 1);
            const Key key{here, there, hop * 1000 + token};
            if (there == s.rank()) {
                received.push_back(token);
                MPI_Irecv(in.emplace_back(length).arm(length), length, MPI_BYTE, here, tag + token,
                          MPI_COMM_WORLD, &requests.emplace_back());
            }
            if (here == s.rank()) {
                MPI_Isend(out.emplace_back(length).fill(key, length), length, MPI_BYTE, there,
                          tag + token, MPI_COMM_WORLD, &requests.emplace_back());
                s.moved_to(there, length);
            }
        }
        MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        for (std::size_t i = 0; i < received.size(); ++i) {
            const int token = received[i];
            in[i].verify("token", {route(token, hop), s.rank(), hop * 1000 + token}, length);
        }
    }
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "storm");
    const int pairs = s.size() * (s.size() - 1);
    const int fallback = std::max(100, 40000 / pairs);
    const int messages = std::stoi(s.option("--messages", std::to_string(fallback)));
    const auto seed = unsigned(std::stoul(s.option("--seed", "1")));
    s.group("all to all", [&] { storm(s, messages, 1, seed); });
    s.group("all to all, another order", [&] { storm(s, messages, 2, seed + 1000); });
    s.group("all to one", [&] { all_to_one(s, messages, 3, seed + 2000); });
    s.group("tokens on random journeys", [&] { tokens(s, 500, seed + 3000); });
    return s.finish();
}
