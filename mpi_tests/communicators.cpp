// Communicators of every origin: duplicated, split, from groups, Cartesian, graph,
// intercommunicators; messages of one do not reach another.
#include "collective_cases.hpp"
#include "common.hpp"

#include <algorithm>
#include <numeric>

using namespace mpi_tests;

namespace {

/// A ring of messages and a few collectives on any intracommunicator. `salt` goes into contents.
void exercise(Session& s, MPI_Comm comm, int salt) {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const int to = (rank + 1) % size;
    const int from = (rank + size - 1) % size;
    for (const std::size_t bytes : {0, 5, 3000, 40000}) {
        const int content = salt * 10 + int(bytes % 7);
        Buffer out(bytes);
        Buffer in(bytes);
        MPI_Sendrecv(out.fill({rank, to, content}, bytes), int(bytes), MPI_BYTE, to, 1,
                     in.arm(bytes), int(bytes), MPI_BYTE, from, 1, comm, MPI_STATUS_IGNORE);
        if (size > 1) {
            s.moved(bytes);
        }
        in.verify("ring in a communicator", {from, rank, content}, bytes);
    }
    CollectiveCases cases(s, comm);
    for (const auto& operation : cases.all(std::size_t(salt % 50) * 37, {salt % size}, false)) {
        operation.blocking();
        operation.verify();
    }
}

int world_rank_of(MPI_Comm comm, int rank) {
    MPI_Group group;
    MPI_Group world;
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int translated = MPI_UNDEFINED;
    MPI_Group_translate_ranks(group, 1, &rank, world, &translated);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    return translated;
}

void duplicates(Session& s) {
    MPI_Comm once;
    MPI_Comm twice;
    MPI_Comm later;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &once);
    MPI_Comm_dup_with_info(once, MPI_INFO_NULL, &twice);
    MPI_Comm_idup(MPI_COMM_WORLD, &later, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    int result = MPI_UNEQUAL;
    MPI_Comm_compare(once, twice, &result);
    require(result == MPI_CONGRUENT, "a duplicate is not congruent to its original: {}", result);
    exercise(s, once, 1);
    exercise(s, twice, 2);
    exercise(s, later, 3);
    MPI_Comm_free(&once);
    exercise(s, twice, 4);
    MPI_Comm_free(&twice);
    MPI_Comm_free(&later);
}

/// Same ranks, same tag, opposite order of receives: only the communicator tells them apart.
void isolation(Session& s) {
    constexpr int count = 10;
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    for (const std::size_t bytes : {100, 100000}) {
        std::vector<MPI_Comm> comms(count);
        std::vector<Buffer> out(count, Buffer(bytes));
        std::vector<MPI_Request> sends(count);
        for (int i = 0; i < count; ++i) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comms[std::size_t(i)]);
        }
        for (int i = 0; i < count; ++i) {
            MPI_Isend(out[std::size_t(i)].fill({s.rank(), to, i}, bytes), int(bytes), MPI_BYTE, to,
                      7, comms[std::size_t(i)], &sends[std::size_t(i)]);
            s.moved(bytes);
        }
        for (int i = count; i-- > 0;) {
            Buffer in(bytes);
            MPI_Recv(in.arm(bytes), int(bytes), MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG,
                     comms[std::size_t(i)], MPI_STATUS_IGNORE);
            in.verify("isolated communicators", {from, s.rank(), i}, bytes);
        }
        MPI_Waitall(count, sends.data(), MPI_STATUSES_IGNORE);
        for (auto& comm : comms) {
            MPI_Comm_free(&comm);
        }
    }
}

void splits(Session& s) {
    // Even and odd, in the opposite order.
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, s.rank() % 2, -s.rank(), &half);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(half, &rank);
    MPI_Comm_size(half, &size);
    const int expected_size = (s.size() + 1 - s.rank() % 2) / 2;
    const int expected_rank = expected_size - 1 - s.rank() / 2;
    require(size == expected_size && rank == expected_rank,
            "split by parity: rank {} of {}, expected {} of {}", rank, size, expected_rank,
            expected_size);
    for (int i = 0; i < size; ++i) {
        const int world = world_rank_of(half, i);
        require(world == 2 * (size - 1 - i) + s.rank() % 2,
                "split by parity: rank {} is rank {} of all", i, world);
    }
    exercise(s, half, 5);
    // And again, until everybody is alone.
    MPI_Comm current = half;
    while (size > 1) {
        MPI_Comm next;
        MPI_Comm_split(current, rank < size / 2 ? 0 : 1, rank, &next);
        MPI_Comm_free(&current);
        current = next;
        MPI_Comm_rank(current, &rank);
        MPI_Comm_size(current, &size);
        exercise(s, current, 6);
    }
    MPI_Comm_free(&current);

    // Only some take part.
    MPI_Comm some;
    MPI_Comm_split(MPI_COMM_WORLD, s.rank() == 0 ? MPI_UNDEFINED : 3, 0, &some);
    require((some == MPI_COMM_NULL) == (s.rank() == 0),
            "split: MPI_UNDEFINED does not decide who is left out");
    if (some != MPI_COMM_NULL) {
        exercise(s, some, 7);
        MPI_Comm_free(&some);
    }

    // Those that could share memory: whatever these are, it must be a communicator that works.
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    exercise(s, node, 8);
    MPI_Comm_free(&node);
}

void groups(Session& s) {
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    // The lower two thirds and the upper two thirds.
    const int n = s.size();
    const int cut = (n + 2) / 3;
    int low[1][3] = {{0, n - cut, 1}};
    int high[1][3] = {{n - 1, cut - 1, -1}}; // backwards
    MPI_Group lower;
    MPI_Group upper;
    MPI_Group_range_incl(world, 1, low, &lower);
    MPI_Group_range_incl(world, 1, high, &upper);
    MPI_Group both;
    MPI_Group common;
    MPI_Group only_lower;
    MPI_Group_union(lower, upper, &both);
    MPI_Group_intersection(lower, upper, &common);
    MPI_Group_difference(lower, upper, &only_lower);
    const auto size_of = [](MPI_Group group) {
        int size = -1;
        MPI_Group_size(group, &size);
        return size;
    };
    const int lower_size = n - cut + 1;
    const int upper_size = n - cut + 1;
    const int common_size = std::max(0, n - 2 * cut + 2);
    require(size_of(lower) == lower_size && size_of(upper) == upper_size &&
                size_of(common) == common_size &&
                size_of(both) == lower_size + upper_size - common_size &&
                size_of(only_lower) == lower_size - common_size,
            "sizes of groups: {} {} {} {} {}", size_of(lower), size_of(upper), size_of(both),
            size_of(common), size_of(only_lower));

    for (const MPI_Group group : {lower, upper, both, common, only_lower}) {
        int rank = MPI_UNDEFINED;
        MPI_Group_rank(group, &rank);
        MPI_Comm created;
        MPI_Comm_create(MPI_COMM_WORLD, group, &created);
        require((created == MPI_COMM_NULL) == (rank == MPI_UNDEFINED),
                "MPI_Comm_create: wrong ranks are in the communicator");
        if (created != MPI_COMM_NULL) {
            int in_comm = -1;
            MPI_Comm_rank(created, &in_comm);
            require(in_comm == rank, "MPI_Comm_create: rank {}, in the group {}", in_comm, rank);
            exercise(s, created, 9);
            MPI_Comm_free(&created);
        }
        // Collective over the members only.
        if (rank != MPI_UNDEFINED) {
            MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, &created);
            exercise(s, created, 10);
            MPI_Comm_free(&created);
        }
    }
    for (MPI_Group* group : {&lower, &upper, &both, &common, &only_lower, &world}) {
        if (*group != MPI_GROUP_EMPTY) {
            MPI_Group_free(group);
        }
    }
}

void intercommunicators(Session& s) {
    const int side = s.rank() % 2;
    MPI_Comm local;
    MPI_Comm_split(MPI_COMM_WORLD, side, s.rank(), &local);
    MPI_Comm inter;
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - side, 11, &inter);
    int is_inter = 0;
    int local_rank = 0;
    int local_size = 0;
    int remote_size = 0;
    MPI_Comm_test_inter(inter, &is_inter);
    MPI_Comm_rank(inter, &local_rank);
    MPI_Comm_size(inter, &local_size);
    MPI_Comm_remote_size(inter, &remote_size);
    require(is_inter != 0 && local_size + remote_size == s.size(),
            "intercommunicator: {} and {} ranks", local_size, remote_size);

    // Each with each of the other side; the keys are ranks in MPI_COMM_WORLD.
    for (const std::size_t bytes : {0, 1000, 60000}) {
        std::vector<Buffer> out(static_cast<std::size_t>(remote_size), Buffer(bytes));
        std::vector<Buffer> in(static_cast<std::size_t>(remote_size), Buffer(bytes));
        std::vector<MPI_Request> requests;
        for (int peer = 0; peer < remote_size; ++peer) {
            const auto p = std::size_t(peer);
            const int peer_world = 2 * peer + 1 - side;
            MPI_Irecv(in[p].arm(bytes), int(bytes), MPI_BYTE, peer, 3, inter,
                      &requests.emplace_back());
            MPI_Isend(out[p].fill({s.rank(), peer_world, int(bytes)}, bytes), int(bytes), MPI_BYTE,
                      peer, 3, inter, &requests.emplace_back());
            s.moved(bytes);
        }
        MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        for (int peer = 0; peer < remote_size; ++peer) {
            const int peer_world = 2 * peer + 1 - side;
            in[std::size_t(peer)].verify("intercommunicator", {peer_world, s.rank(), int(bytes)},
                                         bytes);
        }
    }

    // Collectives between the sides.
    const int sum_in = s.rank() + 1;
    int sum_out = 0;
    MPI_Allreduce(&sum_in, &sum_out, 1, MPI_INT, MPI_SUM, inter);
    s.moved_by_collective(sizeof sum_in);
    int expected = 0;
    for (int peer = 0; peer < remote_size; ++peer) {
        expected += 2 * peer + 1 - side + 1;
    }
    require(sum_out == expected, "allreduce between the sides: {}, expected {}", sum_out, expected);

    const std::size_t bytes = 5000;
    Buffer buffer(bytes);
    const Key key{0, 1, 55};
    if (side == 0) {
        buffer.fill(key, bytes);
        MPI_Bcast(buffer.data(), int(bytes), MPI_BYTE, local_rank == 0 ? MPI_ROOT : MPI_PROC_NULL,
                  inter);
    } else {
        MPI_Bcast(buffer.arm(bytes), int(bytes), MPI_BYTE, 0, inter);
        s.moved_by_collective(bytes);
        buffer.verify("bcast between the sides", key, bytes);
    }
    MPI_Barrier(inter);

    // Merged, the second side first.
    MPI_Comm merged;
    MPI_Intercomm_merge(inter, side == 0 ? 1 : 0, &merged);
    int merged_rank = -1;
    int merged_size = 0;
    MPI_Comm_rank(merged, &merged_rank);
    MPI_Comm_size(merged, &merged_size);
    const int expected_rank = side == 0 ? remote_size + local_rank : local_rank;
    require(merged_size == s.size() && merged_rank == expected_rank,
            "merged: rank {} of {}, expected {}", merged_rank, merged_size, expected_rank);
    exercise(s, merged, 12);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&local);
}

void cartesian(Session& s) {
    int sizes[2] = {0, 0};
    MPI_Dims_create(s.size(), 2, sizes);
    const int periods[2] = {1, 0};
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periods, 0, &grid);
    int rank = 0;
    int at[2] = {};
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, at);
    exercise(s, grid, 13);

    constexpr int bytes = 3000;
    for (int dimension = 0; dimension < 2; ++dimension) {
        for (const int step : {1, -1}) {
            int from = 0;
            int to = 0;
            MPI_Cart_shift(grid, dimension, step, &from, &to);
            Buffer out(bytes);
            Buffer in(bytes);
            const int tag = 2 * dimension + (step > 0);
            if (to != MPI_PROC_NULL) {
                out.fill({rank, to, tag}, bytes);
                s.moved(to == rank ? 0 : bytes, to == rank ? 0 : 1);
            }
            MPI_Sendrecv(out.data(), bytes, MPI_BYTE, to, tag, in.arm(bytes), bytes, MPI_BYTE, from,
                         tag, grid, MPI_STATUS_IGNORE);
            const bool at_border =
                dimension == 1 && (step > 0 ? at[1] == 0 : at[1] == sizes[1] - 1);
            require((from == MPI_PROC_NULL) == at_border, "Cartesian shift: wrong neighbour {}",
                    from);
            if (from != MPI_PROC_NULL) {
                in.verify("Cartesian shift", {from, rank, tag}, bytes);
            }
        }
    }

    // Neighbours: for each dimension the lower, then the upper.
    int neighbours[4];
    for (int dimension = 0; dimension < 2; ++dimension) {
        MPI_Cart_shift(grid, dimension, 1, &neighbours[2 * dimension],
                       &neighbours[2 * dimension + 1]);
    }
    Buffer all(4 * bytes);
    Buffer own(bytes);
    all.arm(4 * bytes);
    MPI_Neighbor_allgather(own.fill({rank, 0, 77}, bytes), bytes, MPI_BYTE, all.data(), bytes,
                           MPI_BYTE, grid);
    for (std::size_t i = 0; i < 4; ++i) {
        if (neighbours[i] != MPI_PROC_NULL) {
            verify("neighbour allgather", {neighbours[i], 0, 77},
                   all.first(4 * bytes).subspan(i * bytes, bytes));
            s.moved_by_collective(neighbours[i] == rank ? 0 : bytes);
        }
    }

    // Rows and columns.
    for (const int kept : {0, 1}) {
        const int keep[2] = {kept == 0, kept == 1};
        MPI_Comm line;
        MPI_Cart_sub(grid, keep, &line);
        int size = 0;
        MPI_Comm_size(line, &size);
        require(size == sizes[kept], "Cartesian line: {} ranks, expected {}", size, sizes[kept]);
        exercise(s, line, 14);
        MPI_Comm_free(&line);
    }
    MPI_Comm_free(&grid);
}

/// Each sends to those 1 and 2 further on.
void graph(Session& s) {
    std::vector<int> to;
    std::vector<int> from;
    for (int distance = 1; distance <= std::min(2, s.size() - 1); ++distance) {
        to.push_back(s.neighbour(distance));
        from.push_back(s.neighbour(-distance));
    }
    const auto degree = to.size();
    MPI_Comm comm;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, int(degree), from.data(), MPI_UNWEIGHTED,
                                   int(degree), to.data(), MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    constexpr int bytes = 2000;
    Buffer out(degree * bytes);
    Buffer in(degree * bytes);
    for (int round = 0; round < 5; ++round) {
        for (std::size_t i = 0; i < degree; ++i) {
            Pattern({s.rank(), to[i], round})
                .fill(out.first(degree * bytes).subspan(i * bytes, bytes));
            s.moved(bytes);
        }
        in.arm(degree * bytes);
        if (round % 2 == 0) {
            MPI_Neighbor_alltoall(out.data(), bytes, MPI_BYTE, in.data(), bytes, MPI_BYTE, comm);
        } else {
            MPI_Request request;
            MPI_Ineighbor_alltoall(out.data(), bytes, MPI_BYTE, in.data(), bytes, MPI_BYTE, comm,
                                   &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        for (std::size_t i = 0; i < degree; ++i) {
            verify("neighbour alltoall", {from[i], s.rank(), round},
                   in.first(degree * bytes).subspan(i * bytes, bytes));
        }
    }
    MPI_Comm_free(&comm);
}

/// Communicators come and go: nothing may be used up.
void many(Session& s) {
    const int count = s.size() <= 8 ? 300 : 50;
    for (int i = 0; i < count; ++i) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        const int to = s.neighbour(1);
        const int from = s.neighbour(-1);
        Buffer out(100);
        Buffer in(100);
        MPI_Sendrecv(out.fill({s.rank(), to, i}, 100), 100, MPI_BYTE, to, 0, in.arm(100), 100,
                     MPI_BYTE, from, 0, comm, MPI_STATUS_IGNORE);
        s.moved(100);
        in.verify("short-lived communicator", {from, s.rank(), i}, 100);
        MPI_Comm_free(&comm);
    }
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "communicators");
    s.group("duplicates", [&] { duplicates(s); });
    s.group("isolation", [&] { isolation(s); });
    s.group("splits", [&] { splits(s); });
    s.group("groups", [&] { groups(s); });
    s.group("intercommunicators", [&] { intercommunicators(s); });
    s.group("Cartesian", [&] { cartesian(s); });
    s.group("graph", [&] { graph(s); });
    s.group("many short-lived ones", [&] { many(s); });
    return s.finish();
}
