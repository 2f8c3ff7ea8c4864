// Buffers whose registration with the device is kept: the device must not be at memory that is gone.
#include <algorithm>
#include <cstring>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test_node.hpp"

namespace comch::ofi::test {
namespace {

constexpr std::size_t length = 1 << 20;

/// Always at one address, however often its memory is another.
class Buffer {
public:
    Buffer() : at_(map(nullptr, 0)) {}
    ~Buffer() { ::munmap(at_, length); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    [[nodiscard]] char* data() const { return at_; }

    void unmap_and_map() {
        ASSERT_EQ(::munmap(at_, length), 0);
        ASSERT_EQ(map(at_, MAP_FIXED_NOREPLACE), at_);
    }
    /// As no library can see.
    void unmap_by_system_call() {
        ASSERT_EQ(::syscall(SYS_munmap, at_, length), 0);
        ASSERT_EQ(map(at_, MAP_FIXED_NOREPLACE), at_);
    }
    void move_away() {
        void* const moved = ::mremap(at_, length, 2 * length, MREMAP_MAYMOVE);
        ASSERT_NE(moved, MAP_FAILED);
        if (moved != at_) {
            ASSERT_EQ(map(at_, MAP_FIXED_NOREPLACE), at_);
        }
        ASSERT_EQ(::munmap(moved == at_ ? at_ + length : moved, moved == at_ ? length : 2 * length),
                  0);
    }
    void empty() { ASSERT_EQ(::madvise(at_, length, MADV_DONTNEED), 0); }
    void map_over() { ASSERT_EQ(map(at_, MAP_FIXED), at_); }

private:
    static char* map(void* where, int flags) {
        return static_cast<char*>(::mmap(where, length, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0));
    }
    char* at_;
};

struct Change {
    const char* name;
    void (Buffer::*make)();
};

class KeptOnDevice : public testing::TestWithParam<Change> {};

TEST_P(KeptOnDevice, MessagesAreOfTheMemoryThatIsThere) {
    Pair pair;
    Buffer from;
    Buffer to;
    for (unsigned round = 0; round < 4; ++round) {
        const auto data = pattern(length, round);
        std::copy(data.begin(), data.end(), from.data());
        COMCH_FI(fi_trecv(pair.b.ep, to.data(), length, nullptr, pair.to_a, 1, 0, nullptr));
        post(
            [&] {
                return fi_tsend(pair.a.ep, from.data(), length, nullptr, pair.to_b, 1, nullptr);
            },
            pair.cqs);
        ASSERT_EQ(await(pair.b.rx, pair.cqs).error, 0);
        ASSERT_EQ(await(pair.a.tx, pair.cqs).error, 0);
        ASSERT_EQ(std::memcmp(to.data(), data.data(), length), 0) << "round " << round;
        (from.*GetParam().make)();
        (to.*GetParam().make)();
    }
}

TEST_P(KeptOnDevice, WritesAndReadsAreOfTheMemoryThatIsThere) {
    NodeOptions options;
    options.mr_mode = FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    Pair pair(options);
    std::vector<char> memory(length);
    fid_mr* const mr = pair.b.expose(memory.data(), length, 1);
    Buffer local;
    for (unsigned round = 0; round < 4; ++round) {
        auto data = pattern(length, round);
        std::copy(data.begin(), data.end(), local.data());
        post(
            [&] {
                return fi_write(pair.a.ep, local.data(), length, nullptr, pair.to_b, 0,
                                fi_mr_key(mr), nullptr);
            },
            pair.cqs);
        ASSERT_EQ(await(pair.a.tx, pair.cqs).error, 0);
        ASSERT_EQ(memory, data) << "round " << round;
        (local.*GetParam().make)();
        data = pattern(length, round + 100);
        memory = data;
        post(
            [&] {
                return fi_read(pair.a.ep, local.data(), length, nullptr, pair.to_b, 0,
                               fi_mr_key(mr), nullptr);
            },
            pair.cqs);
        ASSERT_EQ(await(pair.a.tx, pair.cqs).error, 0);
        ASSERT_EQ(std::memcmp(local.data(), data.data(), length), 0) << "round " << round;
        (local.*GetParam().make)();
    }
}

/// More than a connection has windows for, to and fro, from buffers that lie side by side.
TEST(ManyOnDevice, EachIsOfItsOwnBuffer) {
    constexpr std::size_t count = 40;
    constexpr std::size_t each = 100'000;
    Pair pair;
    const std::vector<char> data = pattern(count * each, 1);
    std::vector<char> from = data;
    std::vector<char> to(2 * count * each);
    for (unsigned round = 0; round < 3; ++round) {
        std::ranges::fill(to, 0);
        for (std::size_t i = 0; i < count; ++i) {
            char* const buffer = from.data() + i * each;
            post([&] { return fi_tsend(pair.a.ep, buffer, each, nullptr, pair.to_b, i, nullptr); },
                 pair.cqs);
            post([&] { return fi_tsend(pair.b.ep, buffer, each, nullptr, pair.to_a, i, nullptr); },
                 pair.cqs);
        }
        for (std::size_t i = count; i-- != 0;) {
            char* const buffer = to.data() + 2 * i * each;
            COMCH_FI(fi_trecv(pair.b.ep, buffer, each, nullptr, pair.to_a, i, 0, nullptr));
            COMCH_FI(fi_trecv(pair.a.ep, buffer + each, each, nullptr, pair.to_b, i, 0, nullptr));
        }
        for (std::size_t i = 0; i < count; ++i) {
            for (fid_cq* const cq : {pair.a.tx, pair.b.tx, pair.a.rx, pair.b.rx}) {
                ASSERT_EQ(await(cq, pair.cqs).error, 0);
            }
        }
        for (std::size_t i = 0; i < count; ++i) {
            for (const std::size_t of : {2 * i, 2 * i + 1}) {
                ASSERT_EQ(std::memcmp(to.data() + of * each, data.data() + i * each, each), 0)
                    << "round " << round << ", buffer " << of;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    , KeptOnDevice,
    testing::Values(Change{"unmapped", &Buffer::unmap_and_map},
                    Change{"unmapped_by_system_call", &Buffer::unmap_by_system_call},
                    Change{"moved", &Buffer::move_away}, Change{"emptied", &Buffer::empty},
                    Change{"mapped_over", &Buffer::map_over}),
    [](const auto& test) { return test.param.name; });

} // namespace
} // namespace comch::ofi::test
