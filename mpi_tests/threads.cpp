// MPI_THREAD_MULTIPLE: several threads of each rank in MPI at once, on communicators of their own
// and on a shared one with tags of their own.
#include "common.hpp"

#include <barrier>
#include <thread>

using namespace mpi_tests;

namespace {

const std::vector<std::size_t> sizes = {0, 1, 8, 100, 1000, 4096, 8193, 30000, 100000, 400000};

/// Runs `body(thread)` on several threads at once and waits for all.
template <typename Body> void on_threads(int count, Body&& body) {
    std::barrier together(count);
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < count; ++thread) {
        threads.emplace_back([&, thread] {
            together.arrive_and_wait(); // so that they really overlap
            body(thread);
        });
    }
}

/// One communicator per thread, over all ranks; made and freed by the main thread.
class PerThread {
public:
    explicit PerThread(int count) : comms_(std::size_t(count)) {
        for (auto& comm : comms_) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        }
    }
    ~PerThread() {
        for (auto& comm : comms_) {
            MPI_Comm_free(&comm);
        }
    }
    PerThread(const PerThread&) = delete;
    PerThread& operator=(const PerThread&) = delete;
    MPI_Comm operator[](int thread) const { return comms_[std::size_t(thread)]; }

private:
    std::vector<MPI_Comm> comms_;
};

/// A ring of exchanges. The pattern's tag has the thread in it; MPI's tag may not.
void exchanges(Session& s, MPI_Comm comm, int thread, int base_tag, int rounds) {
    Buffer out(sizes.back());
    Buffer in(sizes.back());
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < sizes.size(); ++i) {
            const int distance = 1 + round % (s.size() - 1);
            const int to = s.neighbour(distance);
            const int from = s.neighbour(-distance);
            const int content = (thread * 100 + round) * 100 + int(i);
            const int tag = base_tag + int(i);
            MPI_Request requests[2];
            MPI_Irecv(in.arm(sizes[i]), int(sizes[i]), MPI_BYTE, from, tag, comm, &requests[0]);
            MPI_Isend(out.fill({s.rank(), to, content}, sizes[i]), int(sizes[i]), MPI_BYTE, to, tag,
                      comm, &requests[1]);
            s.moved(sizes[i]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            in.verify("exchange of threads", {from, s.rank(), content}, sizes[i]);
        }
    }
}

/// Half of the threads only send, the other half only receive, from whoever.
void senders_and_receivers(Session& s, MPI_Comm comm, int thread, int pairs, int count) {
    const int pair = thread % pairs;
    const int tag = 10 + pair;
    const auto size_of = [](int i) { return std::size_t(i * 977 % 20000); };
    if (thread < pairs) {
        for (int i = 0; i < count; ++i) {
            for (int distance = 1; distance < s.size(); ++distance) {
                const int to = s.neighbour(distance);
                Buffer out(size_of(i));
                MPI_Send(out.fill({s.rank(), to, pair * 10000 + i}, size_of(i)), int(size_of(i)),
                         MPI_BYTE, to, tag, comm);
                s.moved(size_of(i));
            }
        }
        return;
    }
    std::vector<int> next(std::size_t(s.size()));
    Buffer in(20000);
    in.arm_all();
    for (int received = 0; received < count * (s.size() - 1); ++received) {
        MPI_Status status;
        MPI_Recv(in.data(), 20000, MPI_BYTE, MPI_ANY_SOURCE, tag, comm, &status);
        const int from = status.MPI_SOURCE;
        const int i = next[std::size_t(from)]++;
        int got = -1;
        MPI_Get_count(&status, MPI_BYTE, &got);
        require(got == int(size_of(i)),
                "message {} of rank {} for thread pair {} has {} bytes, expected {}", i, from, pair,
                got, size_of(i));
        in.verify_part("sender and receiver threads", {from, s.rank(), pair * 10000 + i},
                       size_of(i));
    }
}

/// Threads take messages of one shared stream by matched probes: each message exactly once.
void matched_probes(Session& s, int threads, int per_thread) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    const int count = threads * per_thread;
    const auto size_of = [](int i) { return std::size_t(i) * 61 % 12000 + sizeof(int); };
    std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
    std::vector<Buffer> out;
    std::vector<MPI_Request> sends;
    for (int i = 0; i < count; ++i) {
        out.emplace_back(size_of(i));
        // The message begins with its number: the threads do not know which they will get.
        out.back().fill({s.rank(), to, i}, size_of(i));
        std::memcpy(out.back().data(), &i, sizeof i);
        MPI_Isend(out.back().data(), int(size_of(i)), MPI_BYTE, to, 99, MPI_COMM_WORLD,
                  &sends.emplace_back());
        s.moved(size_of(i));
    }
    on_threads(threads, [&](int) {
        for (int k = 0; k < per_thread; ++k) {
            MPI_Message message;
            MPI_Status status;
            MPI_Mprobe(from, 99, MPI_COMM_WORLD, &message, &status);
            int got = 0;
            MPI_Get_count(&status, MPI_BYTE, &got);
            Buffer in{std::size_t(got)};
            MPI_Mrecv(in.data(), got, MPI_BYTE, &message, MPI_STATUS_IGNORE);
            int number = -1;
            std::memcpy(&number, in.data(), sizeof number);
            require(number >= 0 && number < count && std::size_t(got) == size_of(number),
                    "a matched message of {} bytes says that it is number {}", got, number);
            verify("matched by threads", {from, s.rank(), number},
                   in.first(std::size_t(got)).subspan(sizeof number), sizeof number);
            seen[std::size_t(number)].fetch_add(1);
        }
    });
    MPI_Waitall(int(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; ++i) {
        require(seen[std::size_t(i)] == 1, "message {} was received {} times", i,
                seen[std::size_t(i)].load());
    }
}

/// Each thread its own collectives.
void collectives(Session& s, MPI_Comm comm, int thread, int rounds) {
    for (int round = 0; round < rounds; ++round) {
        const int root = (thread + round) % s.size();
        const std::size_t size = std::size_t(round) * 7001 % 50000 + 1;
        const Key key{root, thread, round};
        Buffer buffer(size);
        buffer.arm(size);
        if (s.rank() == root) {
            buffer.fill(key, size);
        } else {
            s.moved_by_collective(size);
        }
        MPI_Bcast(buffer.data(), int(size), MPI_BYTE, root, comm);
        buffer.verify("bcast of a thread", key, size);

        const std::int64_t mine = (std::int64_t(s.rank()) + 1) * (thread + 1) + round;
        std::int64_t sum = 0;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, comm);
        s.moved_by_collective(sizeof mine);
        const std::int64_t n = s.size();
        const std::int64_t expected = n * (n + 1) / 2 * (thread + 1) + n * round;
        require(sum == expected, "allreduce of thread {}, round {}: {}, expected {}", thread, round,
                sum, expected);
        MPI_Barrier(comm);
    }
}

/// One thread waits in MPI for what another thread of the same rank makes possible.
void waiting_does_not_block_others(Session& s, const PerThread& comms) {
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    for (int round = 0; round < 20; ++round) {
        on_threads(2, [&](int thread) {
            constexpr std::size_t size = 100000;
            Buffer buffer(size);
            if (thread == 0) {
                // Comes only after the neighbour's second thread has sent.
                MPI_Recv(buffer.arm(size), size, MPI_BYTE, from, 1, comms[0], MPI_STATUS_IGNORE);
                buffer.verify("received by a waiting thread", {from, s.rank(), round}, size);
            } else {
                // First a round trip of its own, while the other is blocked.
                char token = 0;
                MPI_Sendrecv(&token, 1, MPI_CHAR, to, 2, &token, 1, MPI_CHAR, from, 2, comms[1],
                             MPI_STATUS_IGNORE);
                MPI_Send(buffer.fill({s.rank(), to, round}, size), size, MPI_BYTE, to, 1, comms[0]);
                s.moved(size + 1, 2);
            }
        });
    }
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "threads", MPI_THREAD_MULTIPLE);
    // Threads times ranks on few CPUs: fewer threads and rounds with more ranks.
    const int threads = s.size() <= 4 ? 4 : 2;
    const int rounds = s.size() <= 4 ? 10 : 2;
    {
        const PerThread comms(threads);
        s.group("exchanges, a communicator for each thread",
                [&] { on_threads(threads, [&](int t) { exchanges(s, comms[t], t, 0, rounds); }); });
        s.group("exchanges, one communicator, tags for each", [&] {
            on_threads(threads,
                       [&](int t) { exchanges(s, MPI_COMM_WORLD, t, 1000 * (t + 1), rounds); });
        });
        s.group("sending threads and receiving threads", [&] {
            on_threads(threads, [&](int t) {
                senders_and_receivers(s, MPI_COMM_WORLD, t, threads / 2, 10 * rounds);
            });
        });
        s.group("matched probes of one stream", [&] { matched_probes(s, threads, 10 * rounds); });
        s.group("collectives of each thread", [&] {
            on_threads(threads, [&](int t) { collectives(s, comms[t], t, 5 * rounds); });
        });
        s.group("a waiting thread does not block others",
                [&] { waiting_does_not_block_others(s, comms); });
    }
    return s.finish();
}
