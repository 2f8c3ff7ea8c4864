// One-sided communication: put, get and accumulate operations under every kind of synchronisation,
// on windows over the user's memory and on windows that MPI allocates.
#include "common.hpp"
#include "window.hpp"

#include <functional>

using namespace mpi_tests;

namespace {

/// How an epoch to one target is opened and closed; everybody is done when `end` returns on all.
struct Synchronisation {
    std::string name;
    std::function<void(MPI_Win)> begin;         ///< on all ranks
    std::function<void(MPI_Win, int)> open;     ///< before operations to a target
    std::function<void(MPI_Win, int)> complete; ///< after them: they are done at the target
    std::function<void(MPI_Win)> end;           ///< on all ranks
};

std::vector<Synchronisation> synchronisations() {
    const auto nothing = [](MPI_Win) {};
    const auto nothing_for = [](MPI_Win, int) {};
    const auto barrier = [](MPI_Win) { MPI_Barrier(MPI_COMM_WORLD); };
    const auto unlock = [](MPI_Win win, int target) { MPI_Win_unlock(target, win); };
    return {
        {"fence", [](MPI_Win win) { MPI_Win_fence(MPI_MODE_NOPRECEDE, win); }, nothing_for,
         nothing_for, [](MPI_Win win) { MPI_Win_fence(MPI_MODE_NOSUCCEED, win); }},
        {"lock, exclusive", nothing,
         [](MPI_Win win, int target) { MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win); }, unlock,
         barrier},
        {"lock, shared", nothing,
         [](MPI_Win win, int target) { MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win); }, unlock,
         barrier},
        {"lock_all and flush", [](MPI_Win win) { MPI_Win_lock_all(0, win); }, nothing_for,
         [](MPI_Win win, int target) { MPI_Win_flush(target, win); },
         [](MPI_Win win) {
             MPI_Win_unlock_all(win);
             MPI_Barrier(MPI_COMM_WORLD);
         }},
        {"lock_all and flush_all", [](MPI_Win win) { MPI_Win_lock_all(MPI_MODE_NOCHECK, win); },
         nothing_for, [](MPI_Win win, int) { MPI_Win_flush_all(win); },
         [](MPI_Win win) {
             MPI_Win_unlock_all(win);
             MPI_Barrier(MPI_COMM_WORLD);
         }},
    };
}

/// After remote writes, this rank may look at its own window.
void look(const Window& window, const Synchronisation& how) {
    if (how.name == "fence") {
        return;
    }
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window.win());
    MPI_Win_unlock(rank, window.win());
}

const std::vector<std::size_t> sizes = {1, 2, 8, 60, 100, 1000, 4096, 8193, 65536, 300001, mib};

/// Every rank writes to two others, into its own part of their windows; they check, then everybody
/// reads it back.
void put_get(Session& s, Memory memory, const Synchronisation& how) {
    const std::size_t stride = mib + 64;
    const std::vector<int> distances =
        s.size() > 2 ? std::vector<int>{1, s.size() / 2 + 1} : std::vector<int>{1};
    Window window(memory, stride * distances.size() + 64);
    int tag = 0;
    for (const std::size_t size : sizes) {
        ++tag;
        Buffer out(size);
        Buffer in(size);
        how.begin(window.win());
        for (std::size_t d = 0; d < distances.size(); ++d) {
            const int to = s.neighbour(distances[d]);
            how.open(window.win(), to);
            // Not at the start of the window, and not aligned.
            MPI_Put(out.fill({s.rank(), to, tag}, size), int(size), MPI_BYTE, to,
                    MPI_Aint(d * stride + 3), int(size), MPI_BYTE, window.win());
            s.moved_to(to, size);
            how.complete(window.win(), to);
            if (how.name == "fence" && d + 1 < distances.size()) {
                MPI_Win_fence(0, window.win()); // `out` is about to change
            }
        }
        how.end(window.win());
        look(window, how);
        for (std::size_t d = 0; d < distances.size(); ++d) {
            const int from = s.neighbour(-distances[d]);
            verify("put, " + how.name, {from, s.rank(), tag},
                   window.bytes().subspan(d * stride + 3, size));
            require(window.data()[d * stride + 2] == std::byte{0},
                    "put of {} bytes, {}: the byte before it was overwritten", size, how.name);
            require(size < mib ? window.data()[d * stride + 3 + size] == std::byte{0} : true,
                    "put of {} bytes, {}: the byte behind it was overwritten", size, how.name);
        }
        MPI_Barrier(MPI_COMM_WORLD); // everybody has looked
        for (std::size_t d = 0; d < distances.size(); ++d) {
            const int target = s.neighbour(distances[d]);
            how.begin(window.win());
            how.open(window.win(), target);
            MPI_Get(in.arm(size), int(size), MPI_BYTE, target, MPI_Aint(d * stride + 3), int(size),
                    MPI_BYTE, window.win());
            s.moved_to(target, size);
            how.complete(window.win(), target);
            how.end(window.win());
            in.verify("get, " + how.name, {s.rank(), target, tag}, size);
        }
    }
}

/// Many small operations in one epoch.
void many(Session& s, Memory memory, const Synchronisation& how) {
    constexpr int count = 1000;
    constexpr std::size_t size = 24;
    const auto n = std::size_t(s.size());
    Window window(memory, n * count * size);
    std::vector<Buffer> out;
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    for (int i = 0; i < count; ++i) {
        out.emplace_back(size);
        out.back().fill({s.rank(), to, i}, size);
    }
    how.begin(window.win());
    how.open(window.win(), to);
    for (int i = 0; i < count; ++i) {
        const auto place = MPI_Aint((std::size_t(s.rank()) * count + std::size_t(i)) * size);
        MPI_Put(out[std::size_t(i)].data(), size, MPI_BYTE, to, place, size, MPI_BYTE,
                window.win());
        s.moved_to(to, size);
    }
    how.complete(window.win(), to);
    how.end(window.win());
    look(window, how);
    for (int i = 0; i < count; ++i) {
        verify("many puts, " + how.name, {from, s.rank(), i},
               window.bytes().subspan((std::size_t(from) * count + std::size_t(i)) * size, size));
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

void start_complete_post_wait(Session& s, Memory memory) {
    constexpr std::size_t size = 20000;
    Window window(memory, 2 * size);
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    MPI_Group targets;
    MPI_Group origins;
    MPI_Group_incl(world, 1, &to, &targets);
    MPI_Group_incl(world, 1, &from, &origins);
    for (int round = 0; round < 20; ++round) {
        Buffer out(size);
        Buffer in(size);
        // What the target will read from us lies in the second half of our own window.
        Pattern({s.rank(), from, 1000 + round}).fill(window.bytes().subspan(size, size));
        MPI_Win_post(origins, 0, window.win());
        MPI_Win_start(targets, 0, window.win());
        MPI_Put(out.fill({s.rank(), to, round}, size), size, MPI_BYTE, to, 0, size, MPI_BYTE,
                window.win());
        MPI_Get(in.arm(size), size, MPI_BYTE, to, size, size, MPI_BYTE, window.win());
        s.moved(2 * size, 2);
        MPI_Win_complete(window.win());
        if (round % 2 == 0) {
            MPI_Win_wait(window.win());
        } else {
            int done = 0;
            while (done == 0) {
                MPI_Win_test(window.win(), &done);
            }
        }
        verify("put, post and start", {from, s.rank(), round}, window.bytes().first(size));
        in.verify("get, post and start", {to, s.rank(), 1000 + round}, size);
    }
    MPI_Group_free(&targets);
    MPI_Group_free(&origins);
    MPI_Group_free(&world);
}

/// All ranks add to, and combine in other ways with, the same elements of every rank.
template <typename T>
void accumulate_as(Session& s, Memory memory, MPI_Datatype type, const char* name) {
    constexpr std::size_t count = 300;
    Window window(memory, count * sizeof(T), sizeof(T));
    T* const mine = window.as<T>();
    std::vector<T> out(count);
    const int n = s.size();

    // Sum, from all to all.
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = T(int(i % 50) + s.rank());
    }
    MPI_Win_fence(0, window.win());
    for (int distance = 0; distance < n; ++distance) {
        const int to = s.neighbour(distance);
        MPI_Accumulate(out.data(), int(count), type, to, 0, int(count), type, MPI_SUM,
                       window.win());
        s.moved_to(to, count * sizeof(T));
    }
    MPI_Win_fence(0, window.win());
    for (std::size_t i = 0; i < count; ++i) {
        T expected = 0;
        for (int rank = 0; rank < n; ++rank) {
            expected = T(expected + T(int(i % 50) + rank));
        }
        require(mine[i] == expected, "accumulated sum of {}: element {} is {}, expected {}", name,
                i, mine[i], expected);
    }

    // Maximum, under locks.
    MPI_Win_fence(0, window.win());
    std::fill_n(mine, count, T(0));
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window.win());
    for (int distance = 0; distance < n; ++distance) {
        const int to = s.neighbour(distance);
        MPI_Win_lock(MPI_LOCK_SHARED, to, 0, window.win());
        MPI_Accumulate(out.data(), int(count), type, to, 0, int(count), type, MPI_MAX,
                       window.win());
        MPI_Win_unlock(to, window.win());
        s.moved_to(to, count * sizeof(T));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, s.rank(), 0, window.win());
    for (std::size_t i = 0; i < count; ++i) {
        const T expected = T(int(i % 50) + n - 1);
        require(mine[i] == expected, "accumulated maximum of {}: element {} is {}, expected {}",
                name, i, mine[i], expected);
    }
    MPI_Win_unlock(s.rank(), window.win());
    MPI_Barrier(MPI_COMM_WORLD);

    // Replacement by one, read back with the same operation.
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    std::vector<T> previous(count, T(1));
    std::vector<T> now(count, T(1));
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, window.win());
    MPI_Get_accumulate(out.data(), int(count), type, previous.data(), int(count), type, to, 0,
                       int(count), type, MPI_REPLACE, window.win());
    MPI_Win_flush(to, window.win());
    MPI_Get_accumulate(nullptr, 0, type, now.data(), int(count), type, to, 0, int(count), type,
                       MPI_NO_OP, window.win());
    MPI_Win_unlock(to, window.win());
    s.moved(3 * count * sizeof(T), 2);
    for (std::size_t i = 0; i < count; ++i) {
        require(previous[i] == T(int(i % 50) + n - 1),
                "get_accumulate of {}: the previous element {} is {}, expected {}", name, i,
                previous[i], T(int(i % 50) + n - 1));
        require(now[i] == out[i], "get_accumulate of {}: element {} is {}, expected {}", name, i,
                now[i], out[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, s.rank(), 0, window.win());
    for (std::size_t i = 0; i < count; ++i) {
        require(mine[i] == T(int(i % 50) + from),
                "replaced elements of {}: element {} is {}, expected {}", name, i, mine[i],
                T(int(i % 50) + from));
    }
    MPI_Win_unlock(s.rank(), window.win());
    MPI_Barrier(MPI_COMM_WORLD);
}

void accumulate(Session& s, Memory memory) {
    accumulate_as<std::int32_t>(s, memory, MPI_INT32_T, "int32");
    accumulate_as<std::uint32_t>(s, memory, MPI_UINT32_T, "uint32");
    accumulate_as<std::int64_t>(s, memory, MPI_INT64_T, "int64");
    accumulate_as<std::uint64_t>(s, memory, MPI_UINT64_T, "uint64");
    accumulate_as<float>(s, memory, MPI_FLOAT, "float");
    accumulate_as<double>(s, memory, MPI_DOUBLE, "double");
    accumulate_as<std::int16_t>(s, memory, MPI_INT16_T, "int16");
}

/// Accumulations of whole messages: the result must be as if they were done element by element.
void accumulate_large(Session& s, Memory memory) {
    const std::size_t count = 100000;
    Window window(memory, count * 8, 8);
    std::vector<std::int64_t> out(count);
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = std::int64_t(i) + s.rank();
    }
    const int n = s.size();
    const int targets = std::min(n, 3);
    MPI_Win_fence(0, window.win());
    for (int to = 0; to < targets; ++to) {
        MPI_Accumulate(out.data(), int(count), MPI_INT64_T, to, 0, int(count), MPI_INT64_T, MPI_SUM,
                       window.win());
        s.moved_to(to, count * 8);
    }
    MPI_Win_fence(0, window.win());
    for (std::size_t i = 0; s.rank() < targets && i < count; ++i) {
        const auto expected = std::int64_t(i) * n + std::int64_t(n) * (n - 1) / 2;
        require(window.as<std::int64_t>()[i] == expected,
                "large accumulation: element {} is {}, expected {}", i,
                window.as<std::int64_t>()[i], expected);
    }
}

/// A counter on each rank that all take tickets from: each ticket once.
template <typename T> void tickets(Session& s, Memory memory, MPI_Datatype type, const char* name) {
    constexpr int per_rank = 50;
    const int n = s.size();
    Window window(memory, sizeof(T), sizeof(T));
    for (int target = 0; target < std::min(n, 4); ++target) {
        std::vector<int> drawn(std::size_t(n * per_rank));
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window.win());
        T last = 0;
        for (int i = 0; i < per_rank; ++i) {
            const T one = 1;
            T ticket = 0;
            MPI_Fetch_and_op(&one, &ticket, type, target, 0, MPI_SUM, window.win());
            MPI_Win_flush(target, window.win());
            s.moved_to(target, sizeof(T));
            require(ticket < T(n * per_rank), "fetch_and_op on {}: ticket {} of {}", name, ticket,
                    n * per_rank);
            require(i == 0 || ticket > last, "fetch_and_op on {}: ticket {} after {}", name, ticket,
                    last);
            last = ticket;
            drawn[std::size_t(ticket)] = 1;
        }
        MPI_Win_unlock(target, window.win());
        MPI_Allreduce(MPI_IN_PLACE, drawn.data(), n * per_rank, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n * per_rank; ++i) {
            require(drawn[std::size_t(i)] == 1, "fetch_and_op on {}: ticket {} was drawn {} times",
                    name, i, drawn[std::size_t(i)]);
        }
        // Read without changing.
        T value = 0;
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window.win());
        MPI_Fetch_and_op(nullptr, &value, type, target, 0, MPI_NO_OP, window.win());
        MPI_Win_unlock(target, window.win());
        require(value == T(n * per_rank), "fetch_and_op on {}: the counter is {}, expected {}",
                name, value, n * per_rank);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/// A lock made of compare-and-swap, protecting a counter that is read and written plainly.
template <typename T>
void spin_lock(Session& s, Memory memory, MPI_Datatype type, const char* name) {
    const int rounds = s.size() <= 4 ? 20 : 3;
    const int target = s.size() - 1;
    Window window(memory, 2 * sizeof(T), sizeof(T)); // the lock, the counter
    MPI_Win_lock_all(0, window.win());
    const T unlocked = 0;
    const T own = T(s.rank() + 1);
    for (int i = 0; i < rounds; ++i) {
        T found = -1;
        while (found != unlocked) {
            MPI_Compare_and_swap(&own, &unlocked, &found, type, target, 0, window.win());
            MPI_Win_flush(target, window.win());
            s.moved_to(target, sizeof(T));
            require(found >= 0 && found <= T(s.size()) && found != own,
                    "compare_and_swap on {}: found {}", name, found);
            // Operations on oneself may complete without making progress for others, and the rank
            // that holds the lock may need this rank's progress to give it back.
            int unused = 0;
            MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &unused, MPI_STATUS_IGNORE);
        }
        T counter = 0;
        MPI_Get(&counter, 1, type, target, 1, 1, type, window.win());
        MPI_Win_flush(target, window.win());
        ++counter;
        MPI_Put(&counter, 1, type, target, 1, 1, type, window.win());
        MPI_Win_flush(target, window.win());
        s.moved_to(target, 2 * sizeof(T), 2);
        T released = 0;
        MPI_Compare_and_swap(&unlocked, &own, &released, type, target, 0, window.win());
        MPI_Win_flush(target, window.win());
        s.moved_to(target, sizeof(T));
        require(released == own, "compare_and_swap on {}: the lock of rank {} was held by {}", name,
                s.rank(), released - 1);
    }
    MPI_Win_unlock_all(window.win());
    MPI_Barrier(MPI_COMM_WORLD);
    if (s.rank() == target) {
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window.win());
        require(window.as<T>()[1] == T(rounds * s.size()),
                "under a lock of compare_and_swap on {}: {} increments, expected {}", name,
                window.as<T>()[1], rounds * s.size());
        MPI_Win_unlock(target, window.win());
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/// An exclusive lock excludes: increments by get and put are not lost.
void exclusive_lock_excludes(Session& s, Memory memory) {
    const int rounds = s.size() <= 4 ? 50 : 10;
    Window window(memory, 8, 8);
    for (int i = 0; i < rounds; ++i) {
        std::int64_t value = 0;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window.win());
        MPI_Get(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, window.win());
        MPI_Win_flush(0, window.win());
        ++value;
        MPI_Put(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, window.win());
        MPI_Win_unlock(0, window.win());
        s.moved_to(0, 16, 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (s.rank() == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window.win());
        require(window.as<std::int64_t>()[0] == std::int64_t(rounds) * s.size(),
                "under an exclusive lock: {} increments, expected {}", window.as<std::int64_t>()[0],
                rounds * s.size());
        MPI_Win_unlock(0, window.win());
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/// Operations with requests of their own, and local completion only.
void requests(Session& s, Memory memory) {
    constexpr std::size_t size = 50000;
    constexpr int count = 8;
    Window window(memory, size * count + 8, 1);
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    std::vector<Buffer> out(count, Buffer(size));
    std::vector<Buffer> in(count, Buffer(size));
    std::vector<MPI_Request> pending(count);
    MPI_Win_lock_all(0, window.win());
    for (int i = 0; i < count; ++i) {
        const auto place = MPI_Aint(std::size_t(i) * size);
        MPI_Rput(out[i].fill({s.rank(), to, i}, size), size, MPI_BYTE, to, place, size, MPI_BYTE,
                 window.win(), &pending[std::size_t(i)]);
        s.moved(size);
    }
    MPI_Waitall(count, pending.data(), MPI_STATUSES_IGNORE);
    for (auto& buffer : out) {
        std::memset(buffer.data(), 0xff, size); // free again: only what was sent counts
    }
    MPI_Win_flush(to, window.win());
    for (int i = count; i-- > 0;) {
        const auto place = MPI_Aint(std::size_t(i) * size);
        MPI_Rget(in[i].arm(size), size, MPI_BYTE, to, place, size, MPI_BYTE, window.win(),
                 &pending[std::size_t(i)]);
        s.moved(size);
    }
    MPI_Waitall(count, pending.data(), MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; ++i) {
        in[i].verify("rget", {s.rank(), to, i}, size);
    }
    // Local completion: the origin's buffer may be changed at once.
    MPI_Barrier(MPI_COMM_WORLD);
    Buffer reused(size);
    for (int i = 0; i < count; ++i) {
        const auto place = MPI_Aint(std::size_t(i) * size);
        MPI_Put(reused.fill({s.rank(), to, 100 + i}, size), size, MPI_BYTE, to, place, size,
                MPI_BYTE, window.win());
        s.moved(size);
        if (i % 2 == 0) {
            MPI_Win_flush_local(to, window.win());
        } else {
            MPI_Win_flush_local_all(window.win());
        }
        std::memset(reused.data(), 0xff, size);
    }
    MPI_Win_unlock_all(window.win());
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, s.rank(), 0, window.win());
    for (int i = 0; i < count; ++i) {
        verify("put, flush_local", {from, s.rank(), 100 + i},
               window.bytes().subspan(std::size_t(i) * size, size));
    }
    MPI_Win_unlock(s.rank(), window.win());
    MPI_Barrier(MPI_COMM_WORLD);

    // Accumulations with requests.
    std::int64_t one = 1;
    std::int64_t before = -1;
    std::int64_t after = -1;
    std::memset(window.data(), 0, 8);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window.win());
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window.win());
    MPI_Win_lock_all(0, window.win());
    MPI_Request request;
    MPI_Raccumulate(&one, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, MPI_SUM, window.win(), &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(to, window.win());
    MPI_Rget_accumulate(&one, 1, MPI_INT64_T, &before, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T,
                        MPI_SUM, window.win(), &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(to, window.win());
    MPI_Rget(&after, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, window.win(), &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(window.win());
    s.moved(24, 3);
    require(before == 1 && after == 2, "raccumulate: 1 + 1 gave {}, then {}", before, after);
    MPI_Barrier(MPI_COMM_WORLD);
}

/// Strided at the target, contiguous at the origin, and the other way round.
void strided(Session& s, Memory memory) {
    constexpr int blocks = 100;
    constexpr int length = 30;
    constexpr int stride = 70;
    constexpr std::size_t size = std::size_t(blocks) * length;
    Window window(memory, std::size_t(blocks) * stride);
    MPI_Datatype vector;
    MPI_Type_vector(blocks, length, stride, MPI_BYTE, &vector);
    MPI_Type_commit(&vector);
    const int to = s.neighbour(1);
    const int from = s.neighbour(-1);
    Buffer out(size);
    Buffer in(size);
    out.fill({s.rank(), to, 1}, size);
    MPI_Win_fence(0, window.win());
    MPI_Put(out.data(), int(size), MPI_BYTE, to, 0, 1, vector, window.win());
    s.moved(size);
    MPI_Win_fence(0, window.win());
    for (int b = 0; b < blocks; ++b) {
        const auto start = std::size_t(b) * stride;
        verify("strided put", {from, s.rank(), 1}, window.bytes().subspan(start, length),
               std::uint64_t(b) * length);
        for (std::size_t i = start + length; i < start + stride; ++i) {
            require(window.data()[i] == std::byte{0}, "strided put: gap byte {} was overwritten",
                    i);
        }
    }
    MPI_Win_fence(0, window.win());
    MPI_Get(in.arm(size), int(size), MPI_BYTE, to, 0, 1, vector, window.win());
    s.moved(size);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window.win());
    in.verify("strided get", {s.rank(), to, 1}, size);
    MPI_Type_free(&vector);
    MPI_Barrier(MPI_COMM_WORLD);
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "onesided");
    for (const Memory memory : {Memory::create, Memory::allocate}) {
        const auto group = [&](const std::string& name, auto&& body) {
            s.group(fmt::format("{}, {} window", name, name_of(memory)), body);
        };
        for (const auto& how : synchronisations()) {
            group("put and get, " + how.name, [&] { put_get(s, memory, how); });
            group("many puts, " + how.name, [&] { many(s, memory, how); });
        }
        group("post, start, complete, wait", [&] { start_complete_post_wait(s, memory); });
        group("accumulate, get_accumulate", [&] { accumulate(s, memory); });
        group("large accumulate", [&] { accumulate_large(s, memory); });
        group("fetch_and_op", [&] {
            tickets<std::int32_t>(s, memory, MPI_INT32_T, "int32");
            tickets<std::int64_t>(s, memory, MPI_INT64_T, "int64");
            // Not floating point: OpenMPI 4.1.4's osc/ucx adds those as if they were integers.
            tickets<std::uint64_t>(s, memory, MPI_UINT64_T, "uint64");
        });
        group("compare_and_swap", [&] {
            spin_lock<std::int32_t>(s, memory, MPI_INT32_T, "int32");
            spin_lock<std::int64_t>(s, memory, MPI_INT64_T, "int64");
        });
        group("exclusive lock", [&] { exclusive_lock_excludes(s, memory); });
        group("requests and local completion", [&] { requests(s, memory); });
        group("strided", [&] { strided(s, memory); });
    }
    return s.finish();
}
