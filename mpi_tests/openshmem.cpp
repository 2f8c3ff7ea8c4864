// OpenSHMEM programs go over comch as well: OpenMPI brings a library for them that sends by UCX. What is
// put, read and counted in other processes' memory, and what orders it.
#include "common.hpp"

#include <shmem.h>

using namespace mpi_tests;

namespace {

constexpr std::size_t largest = 4 * mib;
constexpr int rounds = 200;

/// Memory that every process has at the same place.
template <class T> class Symmetric {
public:
    explicit Symmetric(std::size_t count)
        : data_(static_cast<T*>(shmem_calloc(count, sizeof(T)))), count_(count) {
        require(data_ != nullptr, "no {} bytes of symmetric memory", count * sizeof(T));
        shmem_barrier_all(); // OpenMPI sets its bytes to zero after its own
    }
    ~Symmetric() { shmem_free(data_); }
    Symmetric(const Symmetric&) = delete;
    Symmetric& operator=(const Symmetric&) = delete;

    [[nodiscard]] T* data() const { return data_; }
    [[nodiscard]] std::span<std::byte> bytes(std::size_t length) const {
        return std::as_writable_bytes(std::span(data_, count_)).first(length);
    }
    T& operator*() const { return *data_; }

private:
    T* data_;
    std::size_t count_;
};

void check(std::span<const std::byte> bytes, Key key, const char* what) {
    const Pattern::Mismatch wrong = Pattern(key).compare(bytes);
    require(wrong.count == 0, "{} of {} bytes from {} to {}: {} wrong, the first at {}", what,
            bytes.size(), key.source, key.dest, wrong.count, wrong.first);
}

/// Every size to the next process and from it, out of symmetric memory and out of other.
void puts_and_gets(Session& s, bool wait_later) {
    const int next = s.neighbour(1);
    const int previous = s.neighbour(-1);
    const Symmetric<std::byte> window(largest + 1);
    const Symmetric<std::byte> source(largest + 1);
    std::vector<std::byte> local(largest + 1);
    int tag = 0;
    for (const std::size_t size : sweep_sizes(largest)) {
        for (std::byte* const from : {local.data(), source.data()}) {
            ++tag;
            Pattern({s.rank(), next, tag}).fill({from, size});
            (wait_later ? shmem_putmem_nbi : shmem_putmem)(window.data(), from, size, next);
            s.moved(size, size != 0 ? 1 : 0);
            shmem_barrier_all();
            check(window.bytes(size), {previous, s.rank(), tag}, "a put");

            std::fill_n(from, size, std::byte{0xee});
            (wait_later ? shmem_getmem_nbi : shmem_getmem)(from, window.data(), size, next);
            s.moved(size, size != 0 ? 1 : 0);
            shmem_quiet();
            check({from, size}, {s.rank(), next, tag}, "a get");
            shmem_barrier_all();
        }
    }
}

/// What is put before a fence is there when what is put after it is.
void order(Session& s) {
    constexpr int words = 512;
    const int next = s.neighbour(1);
    const Symmetric<long> data(words);
    const Symmetric<long> arrived(1);
    const Symmetric<long> taken(1);
    std::vector<long> mine(words);
    for (long round = 1; round <= rounds; ++round) {
        std::fill(mine.begin(), mine.end(), round);
        shmem_long_put(data.data(), mine.data(), words, next);
        shmem_fence();
        shmem_long_p(arrived.data(), round, next);
        s.moved(words * sizeof(long));
        shmem_long_wait_until(arrived.data(), SHMEM_CMP_GE, round);
        for (int i = 0; i < words; ++i) {
            require(data.data()[i] == round, "round {}: word {} is {} behind the fence", round, i,
                    data.data()[i]);
        }
        shmem_long_atomic_set(taken.data(), round, s.neighbour(-1));
        shmem_long_wait_until(taken.data(), SHMEM_CMP_GE, round);
    }
}

/// All processes at words of the first one.
void atomics(Session& s) {
    const Symmetric<long> counted(1);
    const Symmetric<long> compared(1);
    const Symmetric<int> added(1);
    const Symmetric<unsigned long> toggled(1);
    const Symmetric<double> swapped(1);
    long last = -1;
    for (int i = 0; i < rounds; ++i) {
        const long before = shmem_long_atomic_fetch_inc(counted.data(), 0);
        require(before > last, "fetch_inc answers {} after {}", before, last);
        last = before;
        shmem_int_atomic_add(added.data(), 3, 0);
        shmem_ulong_atomic_xor(toggled.data(), 1ul << (s.rank() % 64), 0);
        long seen = 0;
        do {
            seen = shmem_long_atomic_fetch(compared.data(), 0);
        } while (shmem_long_atomic_compare_swap(compared.data(), seen, seen + 1, 0) != seen);
    }
    const double old = shmem_double_atomic_swap(swapped.data(), s.rank() + 0.25, s.neighbour(1));
    require(old == 0, "swap answers {} instead of 0", old);
    shmem_barrier_all();
    const long all = long{rounds} * s.size();
    require(shmem_long_g(counted.data(), 0) == all, "fetch_inc: a count is lost");
    require(shmem_int_g(added.data(), 0) == 3 * all, "add: a sum is lost");
    require(shmem_ulong_g(toggled.data(), 0) == 0, "xor: {:x} is left",
            shmem_ulong_g(toggled.data(), 0));
    require(shmem_long_g(compared.data(), 0) == all, "compare_swap: a count is lost");
    require(*swapped == s.neighbour(-1) + 0.25, "swap: {} is here", *swapped);
    s.moved(0, s.rank() != 0 ? 4 * rounds : 0);
    shmem_barrier_all();
}

void locks(Session& s) {
    const Symmetric<long> lock(1);
    const Symmetric<long> guarded(1);
    constexpr int turns = 25;
    for (int i = 0; i < turns; ++i) {
        shmem_set_lock(lock.data());
        shmem_long_p(guarded.data(), shmem_long_g(guarded.data(), 0) + 1, 0);
        shmem_quiet();
        shmem_clear_lock(lock.data());
    }
    shmem_barrier_all();
    const long value = shmem_long_g(guarded.data(), 0);
    require(value == long{turns} * s.size(), "{} of {} turns under the lock counted", value,
            turns * s.size());
    s.moved(0, s.rank() != 0 ? turns : 0);
    shmem_barrier_all();
}

/// These are MPI's messages: without OpenMPI's settings they would go past comch.
void collectives(Session& s) {
    constexpr std::size_t words = 1000;
    const auto size = static_cast<std::size_t>(s.size());
    const Symmetric<long> sync(SHMEM_REDUCE_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE);
    const Symmetric<long> scratch(words + SHMEM_REDUCE_MIN_WRKDATA_SIZE);
    const Symmetric<long> mine(words);
    const Symmetric<long> result(words * size);
    std::fill_n(sync.data(), SHMEM_REDUCE_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE, SHMEM_SYNC_VALUE);
    for (std::size_t i = 0; i < words; ++i) {
        mine.data()[i] = 10'000 * s.rank() + static_cast<long>(i);
    }
    for (int i = 0; i < rounds; ++i) {
        shmem_barrier_all();
        s.moved(0);
    }
    shmem_long_sum_to_all(result.data(), mine.data(), words, 0, 0, s.size(), scratch.data(),
                          sync.data());
    for (std::size_t i = 0; i < words; ++i) {
        const long sum = long{s.size()} * (5'000 * (s.size() - 1) + static_cast<long>(i));
        require(result.data()[i] == sum, "the sum of word {} is {} instead of {}", i,
                result.data()[i], sum);
    }
    s.moved_by_collective(s.rank() != 0 ? words * sizeof(long) : 0);
    shmem_barrier_all();
    shmem_fcollect64(result.data(), mine.data(), words, 0, 0, s.size(), sync.data());
    for (std::size_t i = 0; i < words * size; ++i) {
        const auto expected = static_cast<long>(10'000 * (i / words) + i % words);
        require(result.data()[i] == expected, "collected word {} is {} instead of {}", i,
                result.data()[i], expected);
    }
    s.moved_by_collective((size - 1) * words * sizeof(long));
    shmem_barrier_all();
}

} // namespace

int main(int argc, char** argv) {
    Session s(argc, argv, "openshmem");
    shmem_init();
    require(shmem_my_pe() == s.rank() && shmem_n_pes() == s.size(), "PE {} of {} is MPI's rank {}",
            shmem_my_pe(), shmem_n_pes(), s.rank());
    s.group("puts and gets", [&] { puts_and_gets(s, false); });
    s.group("puts and gets that are waited for later", [&] { puts_and_gets(s, true); });
    s.group("order", [&] { order(s); });
    s.group("atomics", [&] { atomics(s); });
    s.group("locks", [&] { locks(s); });
    s.group("barriers and collectives", [&] { collectives(s); });
    return s.finish(shmem_finalize); // which ends MPI, too
}
