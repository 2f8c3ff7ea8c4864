// All blocking collective operations: many lengths, all roots, in place, all types and operations
// of reductions, operations of the user.
#include "collective_cases.hpp"
#include "common.hpp"
#include "reduction_cases.hpp"

using namespace mpi_tests;

namespace {

/// Nobody leaves before everybody has come: the clock is the same for all processes of a machine.
void barriers(Session& s) {
    for (int round = 0; round < 50; ++round) {
        // A different rank is late each time.
        if (s.rank() == round % s.size()) {
            for (int spin = 0; spin < 20; ++spin) {
                int found = 0;
                MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
            }
        }
        const auto now = [] {
            return (long long)(std::chrono::steady_clock::now().time_since_epoch() /
                               std::chrono::nanoseconds(1));
        };
        const long long came = now();
        MPI_Barrier(MPI_COMM_WORLD);
        const long long left = now();
        long long last_came = 0;
        long long first_left = 0;
        MPI_Allreduce(&came, &last_came, 1, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(&left, &first_left, 1, MPI_LONG_LONG, MPI_MIN, MPI_COMM_WORLD);
        require(first_left >= last_came, "barrier {}: a rank left {} ns before the last one came",
                round, last_came - first_left);
        s.moved(2 * sizeof(long long), 3);
    }
}

void run(const std::vector<Operation>& operations) {
    for (const auto& operation : operations) {
        operation.blocking();
        operation.verify();
    }
}

constexpr ReduceKind kinds[] = {ReduceKind::reduce,         ReduceKind::allreduce,
                                ReduceKind::reduce_scatter, ReduceKind::reduce_scatter_block,
                                ReduceKind::scan,           ReduceKind::exscan};

template <typename T>
void reduce_all(Session& s, const std::vector<Reduction<T>>& reductions,
                const std::vector<std::size_t>& lengths) {
    for (const auto& reduction : reductions) {
        for (const std::size_t length : lengths) {
            for (const ReduceKind kind : kinds) {
                for (const bool in_place : {false, true}) {
                    const int root = int(length) % s.size();
                    run({reduction_case(s, MPI_COMM_WORLD, kind, reduction, length, in_place,
                                        root)});
                }
            }
        }
    }
}

void number_types(Session& s) {
    // Thousands of operations: with many ranks on few CPUs one length must do.
    const auto lengths =
        s.size() <= 8 ? std::vector<std::size_t>{1, 37} : std::vector<std::size_t>{37};
    reduce_all(s, arithmetic<std::int8_t>("int8", MPI_INT8_T), lengths);
    reduce_all(s, arithmetic<std::uint8_t>("uint8", MPI_UINT8_T), lengths);
    reduce_all(s, arithmetic<std::int16_t>("int16", MPI_INT16_T), lengths);
    reduce_all(s, arithmetic<std::uint16_t>("uint16", MPI_UINT16_T), lengths);
    reduce_all(s, arithmetic<std::int32_t>("int32", MPI_INT32_T), lengths);
    reduce_all(s, arithmetic<std::uint32_t>("uint32", MPI_UINT32_T), lengths);
    reduce_all(s, arithmetic<std::int64_t>("int64", MPI_INT64_T), lengths);
    reduce_all(s, arithmetic<std::uint64_t>("uint64", MPI_UINT64_T), lengths);
    reduce_all(s, arithmetic<float>("float", MPI_FLOAT), lengths);
    reduce_all(s, arithmetic<double>("double", MPI_DOUBLE), lengths);
    reduce_all(s, arithmetic<long double>("long double", MPI_LONG_DOUBLE), lengths);
    reduce_all(s, arithmetic<std::complex<float>>("float complex", MPI_C_FLOAT_COMPLEX), lengths);
    reduce_all(s, arithmetic<std::complex<double>>("double complex", MPI_C_DOUBLE_COMPLEX),
               lengths);
    reduce_all(s, with_index<int>("int", MPI_2INT), lengths);
    reduce_all(s, with_index<float>("float", MPI_FLOAT_INT), lengths);
    reduce_all(s, with_index<double>("double", MPI_DOUBLE_INT), lengths);
    reduce_all(s, with_index<long>("long", MPI_LONG_INT), lengths);
}

void long_reductions(Session& s, std::size_t most_bytes) {
    std::vector<std::size_t> lengths = {0, 1000, 8193, most_bytes / 8};
    const auto int64 = arithmetic<std::int64_t>("int64", MPI_INT64_T);
    const auto doubles = arithmetic<double>("double", MPI_DOUBLE);
    reduce_all<std::int64_t>(s, {int64[0]}, lengths);
    reduce_all<double>(s, {doubles[0], doubles[2]}, lengths);
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "collectives");
    CollectiveCases cases(s, MPI_COMM_WORLD);
    // A block for each pair of ranks must fit.
    const auto n = std::size_t(s.size());
    const std::size_t largest = std::min(mib, 64 * mib / (n * n));

    s.group("barrier", [&] { barriers(s); });
    for (const bool in_place : {false, true}) {
        const char* suffix = in_place ? ", in place" : "";
        s.group(fmt::format("short blocks{}", suffix), [&] {
            for (const std::size_t length : {0, 1, 17, 1000}) {
                run(cases.all(length, cases.roots(true), in_place));
            }
        });
        s.group(fmt::format("long blocks{}", suffix), [&] {
            for (const std::size_t length : {std::size_t{8192}, 65536 / n + 1, largest}) {
                run(cases.all(length, cases.roots(false), in_place));
            }
        });
    }
    s.group("bcast up to 8 MiB", [&] {
        for (const std::size_t length : {mib, 3 * mib + 1, 8 * mib}) {
            run({cases.bcast(0, length), cases.bcast(s.size() - 1, length)});
        }
    });
    s.group("reductions, all types and operations", [&] { number_types(s); });
    s.group("long reductions", [&] { long_reductions(s, largest); });
    s.group("reductions by the user's operations", [&] {
        const UserReductions user;
        reduce_all<Matrix>(s, {user.matrices()}, {1, 10, 1000});
        reduce_all<std::uint64_t>(s, {user.modular()}, {1, 10, 5000});
    });
    return s.finish();
}
