// What is put into the memory of a rank that computes, and is in no MPI call, is there all the same.
// MPI wants it so; over comch's soft device it needs processes that may reach each other's memory.
#include "common.hpp"
#include "window.hpp"

#include <atomic>

using namespace mpi_tests;

namespace {

void target_that_computes(Session& s, Memory memory) {
    const int target = s.size() - 1;
    constexpr int words = 1000;
    Window window(memory, words * sizeof(std::int64_t), sizeof(std::int64_t));
    std::vector<std::int64_t> values(words);
    MPI_Win_lock_all(0, window.win());
    for (int round = 1; round <= 3; ++round) {
        // It attends first: nobody has given it up.
        for (int i = 0; s.rank() == 0 && i < 100; ++i) {
            MPI_Put(values.data(), 1, MPI_INT64_T, target, 1, 1, MPI_INT64_T, window.win());
            MPI_Win_flush(target, window.win());
            s.moved_to(target, sizeof(std::int64_t));
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (s.rank() == 0) {
            std::fill(values.begin(), values.end(), round);
            MPI_Put(values.data() + 1, words - 1, MPI_INT64_T, target, 1, words - 1, MPI_INT64_T,
                    window.win());
            MPI_Win_flush(target, window.win());
            MPI_Put(values.data(), 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, window.win());
            MPI_Win_flush(target, window.win());
            s.moved_to(target, words * sizeof(std::int64_t), 2);
        }
        if (s.rank() == target) {
            const std::atomic_ref<std::int64_t> first(window.as<std::int64_t>()[0]);
            const double begin = MPI_Wtime();
            while (first.load(std::memory_order_acquire) != round && MPI_Wtime() - begin < 30) {
            }
            require(first.load() == round, "round {}: the word is {} after half a minute", round,
                    first.load());
            for (int i = 0; i < words; ++i) {
                require(window.as<std::int64_t>()[i] == round, "round {}, word {}: {}", round, i,
                        window.as<std::int64_t>()[i]);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_unlock_all(window.win());
    MPI_Barrier(MPI_COMM_WORLD);
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "computing_target");
    for (const Memory memory : {Memory::create, Memory::allocate}) {
        s.group(fmt::format("{} window", name_of(memory)),
                [&] { target_that_computes(s, memory); });
    }
    return s.finish();
}
