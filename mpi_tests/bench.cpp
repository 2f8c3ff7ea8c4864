// A measurement between two ranks (or all, for alltoall), on memory from malloc() as applications
// have it. Prints one number.
//
//     bench lat SIZE SECONDS       µs for one way, the median of many ping-pongs
//     bench used_lat SIZE SECONDS  the same of messages that are written before they are sent and read when
//                                  they have come, time for that included
//     bench bw SIZE SECONDS        bytes per second one way, 64 messages in flight
//     bench alltoall SIZE SECONDS  µs for one MPI_Alltoall of SIZE bytes for each pair, all ranks
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include "../core/base/median.hpp"
#include "../perftest/used_data.hpp"

namespace {

constexpr int window = 64;

struct Test {
    int rank = 0;
    int ranks = 0;
    std::size_t size = 0;
    double duration = 0;
    bool used = false; ///< messages are written and read
    long sent = 0;     ///< of those
    long read = 0;
    std::vector<char> out;
    std::vector<char> in;

    [[nodiscard]] int count() const { return static_cast<int>(size); }
};

/// How many rounds fill the duration, the same on all ranks: from so many that the first ones, which find
/// out ways, do not count for much. The very first connects and gets pages: it may take longer than all
/// that is to be measured, and counts for nothing.
template <class Round> long rounds_for(const Test& test, Round round) {
    round();
    for (long rounds = 1;; rounds *= 2) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        for (long i = 0; i < rounds; ++i) {
            round();
        }
        double took = MPI_Wtime() - begin;
        MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        if (took >= test.duration / 10) {
            const double each = took / static_cast<double>(rounds);
            return std::max(4L, static_cast<long>(test.duration / each));
        }
    }
}

void send(Test& test) {
    if (test.used) {
        comch::perftest::write_message(std::as_writable_bytes(std::span(test.out)), test.sent++);
    }
    MPI_Send(test.out.data(), test.count(), MPI_CHAR, 1 - test.rank, 0, MPI_COMM_WORLD);
}

void receive(Test& test) {
    MPI_Recv(test.in.data(), test.count(), MPI_CHAR, 1 - test.rank, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    if (test.used &&
        !comch::perftest::read_message(std::as_bytes(std::span(test.in)), test.read++)) {
        std::fprintf(stderr, "bench: a message has come with wrong data\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

double latency(Test& test) {
    const auto round = [&] {
        if (test.rank == 0) {
            send(test);
            receive(test);
        } else {
            receive(test);
            send(test);
        }
    };
    const long rounds = rounds_for(test, round);
    // Small messages in batches: reading the clock would cost as much as they do.
    const long batch = std::max(1L, std::min(100L, rounds / 20));
    std::vector<double> times;
    for (long done = 0; done < rounds; done += batch) {
        const double begin = MPI_Wtime();
        for (long i = 0; i < batch; ++i) {
            round();
        }
        times.push_back((MPI_Wtime() - begin) / static_cast<double>(batch) / 2 * 1e6);
    }
    return comch::median_of(times);
}

double bandwidth(Test& test) {
    std::vector<MPI_Request> requests(window);
    const auto round = [&] {
        for (MPI_Request& request : requests) {
            if (test.rank == 0) {
                MPI_Isend(test.out.data(), test.count(), MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
            } else {
                MPI_Irecv(test.in.data(), test.count(), MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request);
            }
        }
        MPI_Waitall(window, requests.data(), MPI_STATUSES_IGNORE);
        char done = 0;
        if (test.rank == 0) {
            MPI_Recv(&done, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Send(&done, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    };
    const long rounds = rounds_for(test, round);
    const double begin = MPI_Wtime();
    for (long i = 0; i < rounds; ++i) {
        round();
    }
    return static_cast<double>(rounds) * window * static_cast<double>(test.size) /
           (MPI_Wtime() - begin);
}

double all_to_all(Test& test) {
    const auto round = [&] {
        MPI_Alltoall(test.out.data(), test.count(), MPI_CHAR, test.in.data(), test.count(),
                     MPI_CHAR, MPI_COMM_WORLD);
    };
    const long rounds = rounds_for(test, round);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (long i = 0; i < rounds; ++i) {
        round();
    }
    return (MPI_Wtime() - begin) / static_cast<double>(rounds) * 1e6;
}

} // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    Test test;
    MPI_Comm_rank(MPI_COMM_WORLD, &test.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test.ranks);
    const std::string what = argc == 4 ? argv[1] : "";
    test.used = what == "used_lat";
    const bool is_latency = what == "lat" || test.used;
    const bool pair = is_latency || what == "bw";
    if (argc == 4) {
        test.size = std::strtoull(argv[2], nullptr, 10);
        test.duration = std::strtod(argv[3], nullptr);
    }
    if ((!pair && what != "alltoall") || (pair && test.ranks != 2) || test.size == 0 ||
        test.size > (std::size_t{1} << 30) || test.duration <= 0) {
        if (test.rank == 0) {
            std::fprintf(stderr, "usage: bench lat|used_lat|bw|alltoall SIZE SECONDS\n"
                                 "SIZE: bytes, 1 to 2^30; lat, used_lat and bw take two ranks\n");
        }
        MPI_Finalize();
        return 2;
    }
    const std::size_t total = pair ? test.size : test.size * static_cast<std::size_t>(test.ranks);
    test.out.assign(total, 1);
    test.in.assign(total, 2);
    const double value = is_latency     ? latency(test)
                         : what == "bw" ? bandwidth(test)
                                        : all_to_all(test);
    if (test.rank == 0) {
        std::printf("%.6g\n", value);
    }
    MPI_Finalize();
    return 0;
}
