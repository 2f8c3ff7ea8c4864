// A job of which one rank ends badly: the whole job must end soon, with that rank's code, and leave
// nothing behind. The program has no PASS: run.py looks at how the job ended.
//
//   --how mpi_abort|exit|kill    what the last rank does: MPI_Abort(37), _exit(37), SIGKILL
//   --others receive|barrier|bulk|compute    what the others are in meanwhile
#include "common.hpp"

#include <csignal>

#include <unistd.h>

using namespace mpi_tests;

namespace {

constexpr int exit_code = 37;

[[noreturn]] void die(const std::string& how) {
    fmt::print("abort: rank ends by {}\n", how);
    std::fflush(stdout);
    if (how == "mpi_abort") {
        MPI_Abort(MPI_COMM_WORLD, exit_code);
    } else if (how == "exit") {
        ::_exit(exit_code);
    } else if (how == "kill") {
        ::raise(SIGKILL);
    }
    fail("--how {}: use mpi_abort, exit or kill", how);
}

/// The others stay in here until they are ended.
[[noreturn]] void wait_for_the_end(Session& s, const std::string& where) {
    Buffer large(8 * mib);
    const int dying = s.size() - 1;
    if (where == "receive") {
        MPI_Recv(large.data(), 1, MPI_BYTE, dying, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (where == "barrier") {
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (where == "bulk") {
        Buffer in(8 * mib);
        for (;;) {
            // Each with each, so the dying rank is in the middle of transfers with all.
            MPI_Request request;
            MPI_Irecv(in.data(), int(8 * mib), MPI_BYTE, dying, 2, MPI_COMM_WORLD, &request);
            MPI_Send(large.data(), int(8 * mib), MPI_BYTE, dying, 2, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else if (where == "compute") {
        for (;;) {
            ::pause(); // outside of MPI: nobody polls, only the launcher can end this rank
        }
    }
    fail("rank {} came back from --others {} although rank {} is dead", s.rank(), where, dying);
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "abort");
    const std::string how = s.option("--how", "mpi_abort");
    const std::string others = s.option("--others", "receive");
    // First something that works, so that all connections are up.
    s.group("all to all before the end", [&] {
        Buffer out(1000);
        Buffer in(1000);
        for (int distance = 1; distance < s.size(); ++distance) {
            const int to = s.neighbour(distance);
            const int from = s.neighbour(-distance);
            MPI_Sendrecv(out.fill({s.rank(), to, 1}, 1000), 1000, MPI_BYTE, to, 1, in.arm(1000),
                         1000, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            s.moved(1000);
            in.verify("before the end", {from, s.rank(), 1}, 1000);
        }
    });
    if (s.rank() != s.size() - 1) {
        wait_for_the_end(s, others);
    }
    if (others == "bulk") {
        // One round with each, then the end in the middle of the next.
        std::vector<Buffer> in(std::size_t(s.size() - 1), Buffer(8 * mib));
        Buffer out(8 * mib);
        std::vector<MPI_Request> requests;
        for (int peer = 0; peer < s.size() - 1; ++peer) {
            MPI_Irecv(in[std::size_t(peer)].data(), int(8 * mib), MPI_BYTE, peer, 2, MPI_COMM_WORLD,
                      &requests.emplace_back());
            MPI_Isend(out.data(), int(8 * mib), MPI_BYTE, peer, 2, MPI_COMM_WORLD,
                      &requests.emplace_back());
        }
        int index = 0;
        MPI_Waitany(int(requests.size()), requests.data(), &index, MPI_STATUS_IGNORE);
    }
    die(how);
}
