// Nonblocking collective operations: many under way at once, on one and on several communicators,
// completed in any order, mixed with point-to-point messages and with blocking collectives.
#include "collective_cases.hpp"
#include "common.hpp"
#include "reduction_cases.hpp"

using namespace mpi_tests;

namespace {

/// Starts all, completes them as `order` says, checks all.
void start_all(const std::vector<Operation>& operations, bool one_by_one) {
    std::vector<MPI_Request> requests(operations.size());
    for (std::size_t i = 0; i < operations.size(); ++i) {
        operations[i].nonblocking(&requests[i]);
    }
    if (one_by_one) {
        // Last first: all progress while one is waited for.
        for (std::size_t i = requests.size(); i-- > 0;) {
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            operations[i].verify();
        }
        return;
    }
    for (std::size_t done = 0; done < requests.size(); ++done) {
        int index = MPI_UNDEFINED;
        MPI_Waitany(int(requests.size()), requests.data(), &index, MPI_STATUS_IGNORE);
        require(index >= 0 && std::size_t(index) < requests.size(),
                "MPI_Waitany names request {} of {}", index, requests.size());
        operations[std::size_t(index)].verify();
    }
}

void one_after_the_other(const std::vector<Operation>& operations) {
    for (const auto& operation : operations) {
        MPI_Request request;
        operation.nonblocking(&request);
        int done = 0;
        while (done == 0) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
        operation.verify();
    }
}

constexpr ReduceKind kinds[] = {ReduceKind::reduce,         ReduceKind::allreduce,
                                ReduceKind::reduce_scatter, ReduceKind::reduce_scatter_block,
                                ReduceKind::scan,           ReduceKind::exscan};

std::vector<Operation> reductions(Session& s, MPI_Comm comm, const UserReductions& user,
                                  std::size_t length, bool in_place) {
    const auto int64 = arithmetic<std::int64_t>("int64", MPI_INT64_T);
    const auto doubles = arithmetic<double>("double", MPI_DOUBLE);
    std::vector<Operation> operations;
    for (const ReduceKind kind : kinds) {
        const int root = s.size() / 2;
        operations.push_back(reduction_case(s, comm, kind, int64[0], length, in_place, root));
        operations.push_back(reduction_case(s, comm, kind, doubles[2], length, in_place, root));
        operations.push_back(
            reduction_case(s, comm, kind, user.matrices(), length, in_place, root));
    }
    return operations;
}

void barriers(Session& s) {
    const auto now = [] {
        return (long long)(std::chrono::steady_clock::now().time_since_epoch() /
                           std::chrono::nanoseconds(1));
    };
    for (int round = 0; round < 20; ++round) {
        const long long came = now();
        MPI_Request request;
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        int done = 0;
        while (done == 0) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
        const long long left = now();
        long long last_came = 0;
        long long first_left = 0;
        MPI_Allreduce(&came, &last_came, 1, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(&left, &first_left, 1, MPI_LONG_LONG, MPI_MIN, MPI_COMM_WORLD);
        require(first_left >= last_came, "ibarrier {}: a rank left {} ns before the last one came",
                round, last_came - first_left);
        s.moved(2 * sizeof(long long), 3);
    }
}

/// Point-to-point messages with the same peers, and a blocking collective, while others run.
void mixed_with_messages(Session& s, CollectiveCases& cases) {
    for (int round = 0; round < 5; ++round) {
        const auto operations = cases.all(std::size_t(3000 * round + 1), {round % s.size()}, false);
        std::vector<MPI_Request> requests(operations.size());
        const std::size_t size = std::size_t(20000 * round + 7);
        const int to = s.neighbour(round + 1);
        const int from = s.neighbour(-(round + 1));
        Buffer out(size);
        Buffer in(size);
        MPI_Request receive;
        MPI_Request send;
        for (std::size_t i = 0; i < operations.size(); ++i) {
            operations[i].nonblocking(&requests[i]);
            if (i == operations.size() / 3) {
                MPI_Irecv(in.arm(size), int(size), MPI_BYTE, from, round, MPI_COMM_WORLD, &receive);
                MPI_Isend(out.fill({s.rank(), to, round}, size), int(size), MPI_BYTE, to, round,
                          MPI_COMM_WORLD, &send);
                s.moved_to(to, size);
            }
            if (i == operations.size() / 2) {
                const auto blocking = cases.allgather(100, false, false);
                blocking.blocking();
                blocking.verify();
            }
        }
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        in.verify("message between collectives", {from, s.rank(), round}, size);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        for (const auto& operation : operations) {
            operation.verify();
        }
    }
}

/// The same kinds of operations on several communicators over the same ranks at once.
void several_communicators(Session& s) {
    constexpr int count = 4;
    std::vector<MPI_Comm> comms(count);
    for (auto& comm : comms) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    {
        std::vector<CollectiveCases> cases;
        std::vector<Operation> operations;
        cases.reserve(count);
        for (const MPI_Comm comm : comms) {
            cases.emplace_back(s, comm);
        }
        for (int i = 0; i < 3; ++i) {
            for (auto& each : cases) {
                for (auto& operation :
                     each.all(std::size_t(500 + 777 * i), {i % s.size()}, false)) {
                    operations.push_back(std::move(operation));
                }
            }
        }
        start_all(operations, false);
    }
    for (auto& comm : comms) {
        MPI_Comm_free(&comm);
    }
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "nonblocking_collectives");
    CollectiveCases cases(s, MPI_COMM_WORLD);
    const auto n = std::size_t(s.size());
    const std::size_t largest = std::min(256 * kib, 16 * mib / (n * n));

    s.group("ibarrier", [&] { barriers(s); });
    for (const bool in_place : {false, true}) {
        const char* suffix = in_place ? ", in place" : "";
        s.group(fmt::format("one after the other{}", suffix), [&] {
            for (const std::size_t length :
                 {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{9000}, largest}) {
                one_after_the_other(cases.all(length, cases.roots(false), in_place));
            }
        });
        s.group(fmt::format("all at once, waited for last first{}", suffix), [&] {
            for (const std::size_t length : {std::size_t{3}, std::size_t{8191}, largest}) {
                start_all(cases.all(length, cases.roots(false), in_place), true);
            }
        });
        s.group(fmt::format("all at once, any order{}", suffix), [&] {
            for (const std::size_t length : {std::size_t{64}, std::size_t{5000}}) {
                start_all(cases.all(length, cases.roots(true), in_place), false);
            }
        });
        s.group(fmt::format("reductions{}", suffix), [&] {
            const UserReductions user;
            for (const std::size_t length : {1, 100, 5000}) {
                one_after_the_other(reductions(s, MPI_COMM_WORLD, user, length, in_place));
                start_all(reductions(s, MPI_COMM_WORLD, user, length, in_place), false);
            }
        });
    }
    s.group("mixed with messages", [&] { mixed_with_messages(s, cases); });
    s.group("several communicators", [&] { several_communicators(s); });
    return s.finish();
}
