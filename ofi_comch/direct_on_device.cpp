// Reads and writes that the requester's device carries out without the owner's CPU: which those
// are, and what holds of them all the same.
#include <algorithm>
#include <array>

#include <sys/wait.h>

#include "test_node.hpp"

namespace comch::ofi::test {
namespace {

constexpr int memory_of_devices = FI_MR_ALLOCATED | FI_MR_PROV_KEY;

NodeOptions with_mode(int mr_mode) {
    NodeOptions options;
    options.mr_mode = mr_mode;
    return options;
}

class OnePair {
protected:
    explicit OnePair(const NodeOptions& options) : pair_(options) {
        mr_ = pair_.b.expose(memory_.data(), memory_.size(), 42);
    }
    /// How the owner's domain names a place.
    [[nodiscard]] std::uint64_t named(const void* at, const void* base) const {
        const auto first = reinterpret_cast<std::uint64_t>(base);
        const auto address = reinterpret_cast<std::uint64_t>(at);
        return pair_.b.info->domain_attr->mr_mode == mr_basic ? address : address - first;
    }
    [[nodiscard]] std::uint64_t at(std::size_t offset) const {
        return named(memory_.data() + offset, memory_.data());
    }
    [[nodiscard]] std::uint64_t key() const { return fi_mr_key(mr_); }

    void begin_write(const void* data, std::size_t length, std::uint64_t address, std::uint64_t of,
                     const std::vector<fid_cq*>& progressed) {
        post(
            [&] {
                return fi_write(pair_.a.ep, data, length, nullptr, pair_.to_b, address, of,
                                nullptr);
            },
            progressed);
    }
    void begin_read(void* data, std::size_t length, std::uint64_t address, std::uint64_t of,
                    const std::vector<fid_cq*>& progressed) {
        post(
            [&] {
                return fi_read(pair_.a.ep, data, length, nullptr, pair_.to_b, address, of, nullptr);
            },
            progressed);
    }
    // While both are progressed: 0, or the error.
    [[nodiscard]] int write_helped(const void* data, std::size_t length, std::uint64_t address,
                                   std::uint64_t of) {
        begin_write(data, length, address, of, pair_.cqs);
        return await(pair_.a.tx, pair_.cqs).error;
    }
    [[nodiscard]] int read_helped(void* data, std::size_t length, std::uint64_t address,
                                  std::uint64_t of) {
        begin_read(data, length, address, of, pair_.cqs);
        return await(pair_.a.tx, pair_.cqs).error;
    }
    /// The first write of a region is the CPU's; with its answer comes what the device needs.
    void meet() { ASSERT_EQ(write_helped("", 1, at(0), key()), 0); }

    // While the owner sleeps.
    [[nodiscard]] int write_alone(const void* data, std::size_t length, std::uint64_t address,
                                  std::uint64_t of) {
        begin_write(data, length, address, of, {pair_.a.tx});
        return await(pair_.a.tx).error;
    }
    [[nodiscard]] int read_alone(void* data, std::size_t length, std::uint64_t address,
                                 std::uint64_t of) {
        begin_read(data, length, address, of, {pair_.a.tx});
        return await(pair_.a.tx).error;
    }
    /// Nothing completes as long as the owner sleeps.
    [[nodiscard]] bool waits_for_the_owner() {
        const auto end = Clock::now() + std::chrono::milliseconds(100);
        fi_cq_tagged_entry entry{};
        while (Clock::now() < end) {
            if (fi_cq_read(pair_.a.tx, &entry, 1) != -FI_EAGAIN) {
                return false;
            }
        }
        return await(pair_.a.tx, pair_.cqs).error == 0;
    }

    std::vector<char> memory_ = std::vector<char>(4'000'000);
    Pair pair_;
    fid_mr* mr_ = nullptr;
};

// ---- what the device does -----------------------------------------------------------------------

class Direct : public OnePair, public testing::TestWithParam<int> {
protected:
    Direct() : OnePair(with_mode(GetParam())) {}
};

TEST_P(Direct, WritesAndReadsOfEveryLengthWhileTheOwnerSleeps) {
    ASSERT_NO_FATAL_FAILURE(meet());
    for (const bool registered : {false, true}) {
        for (const std::size_t length :
             {std::size_t{1}, std::size_t{8}, std::size_t{64}, std::size_t{2000}, std::size_t{8192},
              std::size_t{8193}, std::size_t{100000}, std::size_t{3000000}}) {
            auto data = pattern(length, static_cast<unsigned>(length) + (registered ? 1 : 0));
            std::vector<char> back(length);
            if (registered) {
                (void)pair_.a.expose(data.data(), length, 1, FI_WRITE);
                (void)pair_.a.expose(back.data(), length, 2, FI_READ);
            }
            ASSERT_EQ(write_alone(data.data(), length, at(16), key()), 0);
            ASSERT_TRUE(std::equal(data.begin(), data.end(), memory_.begin() + 16)) << length;
            ASSERT_EQ(read_alone(back.data(), length, at(16), key()), 0);
            ASSERT_EQ(back, data) << length;
            for (fid_mr* const mr : pair_.a.regions) {
                ASSERT_EQ(fi_close(&mr->fid), 0);
            }
            pair_.a.regions.clear();
        }
    }
}

TEST_P(Direct, SeveralRegionsAndManyAtOnce) {
    constexpr std::size_t count = 3;
    constexpr std::size_t size = 64 * 256;
    std::array<std::vector<char>, count> memory;
    std::array<fid_mr*, count> mr{};
    for (std::size_t i = 0; i < count; ++i) {
        memory[i].resize(size);
        mr[i] = pair_.b.expose(memory[i].data(), size, 100 + i);
        ASSERT_EQ(write_helped("", 1, named(memory[i].data(), memory[i].data()), fi_mr_key(mr[i])),
                  0);
    }
    const auto data = pattern(size, 5);
    constexpr std::size_t piece = 64;
    std::size_t posted = 0;
    std::size_t done = 0;
    const std::size_t all = count * (size / piece);
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (done < all && Clock::now() < end) {
        const std::size_t region = posted % count;
        const std::size_t offset = posted / count * piece;
        if (posted < all && fi_write(pair_.a.ep, data.data() + offset, piece, nullptr, pair_.to_b,
                                     named(memory[region].data() + offset, memory[region].data()),
                                     fi_mr_key(mr[region]), nullptr) == 0) {
            ++posted;
        }
        fi_cq_tagged_entry entry{};
        done += fi_cq_read(pair_.a.tx, &entry, 1) == 1 ? 1 : 0;
    }
    ASSERT_EQ(done, all);
    for (const auto& each : memory) {
        EXPECT_EQ(each, data);
    }
}

TEST_P(Direct, WhoTriesAgainWithoutReadingAnythingGetsOn) {
    ASSERT_NO_FATAL_FAILURE(meet());
    constexpr std::size_t count = 3000;
    const auto data = pattern(20000, 5);
    const auto end = Clock::now() + std::chrono::seconds(60);
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t length = i % 8 == 0 ? data.size() : 8;
        ssize_t result = -FI_EAGAIN;
        while (result == -FI_EAGAIN && Clock::now() < end) {
            result = fi_write(pair_.a.ep, data.data(), length, nullptr, pair_.to_b, at(0), key(),
                              nullptr);
        }
        ASSERT_EQ(result, 0) << i;
    }
    for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(await(pair_.a.tx).error, 0);
    }
    EXPECT_TRUE(std::equal(data.begin(), data.end(), memory_.begin()));
}

TEST_P(Direct, WhatIsNotExposedIsRefusedByTheOwnerAndHarmsNothing) {
    ASSERT_NO_FATAL_FAILURE(meet());
    char byte = 'x';
    fid_mr* const read_only = pair_.b.expose(&byte, 1, 43, FI_REMOTE_READ);
    const std::uint64_t of_byte = named(&byte, &byte);
    char got = 0;
    ASSERT_EQ(read_helped(&got, 1, of_byte, fi_mr_key(read_only)), 0);
    EXPECT_EQ(read_alone(&got, 1, of_byte, fi_mr_key(read_only)), 0);
    EXPECT_EQ(write_helped("y", 1, of_byte, fi_mr_key(read_only)), FI_EACCES);
    EXPECT_EQ(byte, 'x');
    EXPECT_EQ(write_helped("yy", 2, at(memory_.size() - 1), key()), FI_EACCES);
    EXPECT_EQ(write_helped("y", 1, at(0) - 1, key()), FI_EACCES);
    EXPECT_EQ(write_helped("y", 1, at(0), key() + 1000), FI_EACCES);
    // The connection is the same, or the device would know nothing.
    EXPECT_EQ(write_alone("z", 1, at(0), key()), 0);
    EXPECT_EQ(memory_[0], 'z');
}

TEST_P(Direct, AMessageThatFollowsAWriteFindsItDone) {
    ASSERT_NO_FATAL_FAILURE(meet());
    for (std::uint64_t i = 1; i <= 200; ++i) {
        const std::size_t words = i % 4 == 0 ? 20000 : 1;
        const std::vector<std::uint64_t> data(words, i);
        std::uint64_t got = 0;
        COMCH_FI(fi_recv(pair_.b.ep, &got, 8, nullptr, FI_ADDR_UNSPEC, nullptr));
        begin_write(data.data(), words * 8, at(0), key(), {pair_.a.tx});
        post([&] { return fi_inject(pair_.a.ep, &i, 8, pair_.to_b); }, {pair_.a.tx});
        ASSERT_EQ(await(pair_.b.rx).error, 0);
        std::uint64_t last = 0;
        std::memcpy(&last, memory_.data() + (words - 1) * 8, 8);
        ASSERT_EQ(last, i);
        ASSERT_EQ(await(pair_.a.tx, pair_.cqs).error, 0);
    }
}

TEST_P(Direct, WhatIsInjectedIsTheProgramsAgainAtOnce) {
    ASSERT_NO_FATAL_FAILURE(meet());
    for (const std::size_t length : {std::size_t{8}, std::size_t{2048}}) {
        std::vector<char> data = pattern(length, 3);
        const std::vector<char> kept = data;
        post(
            [&] {
                return fi_inject_write(pair_.a.ep, data.data(), length, pair_.to_b, at(0), key());
            },
            {pair_.a.tx});
        std::fill(data.begin(), data.end(), '!');
        ASSERT_EQ(read_alone(data.data(), 1, at(100000), key()), 0); // and no completion before it
        EXPECT_TRUE(std::equal(kept.begin(), kept.end(), memory_.begin()));
    }
}

TEST_P(Direct, AFenceWaitsForWhatTheOwnersCpuHasToDo) {
    ASSERT_NO_FATAL_FAILURE(meet());
    for (const bool with_data : {true, false}) {
        const auto fenced_write = [&](const char* byte) {
            const iovec part{const_cast<char*>(byte), 1};
            fi_rma_iov target{at(0), 1, key()};
            fi_msg_rma message{};
            message.msg_iov = &part;
            message.iov_count = 1;
            message.addr = pair_.to_b;
            message.rma_iov = &target;
            message.rma_iov_count = 1;
            return fi_writemsg(pair_.a.ep, &message, FI_FENCE | FI_COMPLETION);
        };
        // An atomic, or data for the owner's queue: neither can its device do.
        const std::uint64_t one = 0x3131313131313131;
        post(
            [&] {
                return with_data
                           ? fi_inject_writedata(pair_.a.ep, &one, 8, 7, pair_.to_b, at(0), key())
                           : fi_inject_atomic(pair_.a.ep, &one, 1, pair_.to_b, at(0), key(),
                                              FI_UINT64, FI_ATOMIC_WRITE);
            },
            {pair_.a.tx});
        const auto end = Clock::now() + std::chrono::milliseconds(100);
        while (Clock::now() < end) {
            ASSERT_EQ(fenced_write("2"), -FI_EAGAIN);
            (void)fi_cq_read(pair_.a.tx, nullptr, 0);
        }
        post([&] { return fenced_write("2"); }, pair_.cqs);
        ASSERT_EQ(await(pair_.a.tx, pair_.cqs).error, 0);
        if (with_data) {
            EXPECT_EQ(await(pair_.b.rx).entry.data, 7u);
        }
        EXPECT_EQ(memory_[0], '2');
        EXPECT_EQ(memory_[1], '1');
    }
}

TEST_P(Direct, MemoryThatTheDeviceIsAtCannotBeLetGoOf) {
    ASSERT_NO_FATAL_FAILURE(meet());
    std::vector<char> data = pattern(3'000'000, 1);
    fid_mr* mr = nullptr;
    COMCH_FI(fi_mr_reg(pair_.a.domain, data.data(), data.size(), FI_WRITE, 0, 1, 0, &mr, nullptr));
    begin_write(data.data(), data.size(), at(0), key(), {pair_.a.tx});
    EXPECT_EQ(fi_close(&mr->fid), -FI_EBUSY);
    EXPECT_EQ(await(pair_.a.tx).error, 0);
    EXPECT_EQ(fi_close(&mr->fid), 0);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), memory_.begin()));
}

TEST_P(Direct, AForkedChildTakesNothingFromItsParent) {
    ASSERT_NO_FATAL_FAILURE(meet());
    ASSERT_EQ(write_alone("a", 1, at(0), key()), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) { // as exit() and destructors of a program do
        ::_exit(fi_close(&mr_->fid) == 0 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(write_alone("b", 1, at(0), key()), 0);
    EXPECT_EQ(memory_[0], 'b');
}

TEST_P(Direct, ACounterOfWhatDevicesDoComesTooLate) {
    ASSERT_NO_FATAL_FAILURE(meet());
    fi_cntr_attr attr{};
    fid_cntr* cntr = nullptr;
    COMCH_FI(fi_cntr_open(pair_.b.domain, &attr, &cntr, nullptr));
    EXPECT_EQ(fi_mr_bind(mr_, &cntr->fid, FI_REMOTE_WRITE), -FI_EOPNOTSUPP);
    // Nobody has been told of this one yet: the owner's CPU does what is done to it.
    std::vector<char> other(10);
    fid_mr* const counted = pair_.b.expose(other.data(), other.size(), 43);
    EXPECT_EQ(fi_mr_bind(counted, &cntr->fid, FI_REMOTE_WRITE), 0);
    for (std::uint64_t i = 1; i <= 3; ++i) {
        EXPECT_EQ(write_helped("x", 1, named(other.data(), other.data()), fi_mr_key(counted)), 0);
        EXPECT_EQ(fi_cntr_read(cntr), i);
    }
    COMCH_FI(fi_close(&counted->fid));
    pair_.b.regions.pop_back();
    COMCH_FI(fi_close(&cntr->fid));
}

TEST_P(Direct, WhatTheOwnerHasLetGoOfIsAnErrorAndAnotherConnectionFollows) {
    ASSERT_NO_FATAL_FAILURE(meet());
    const std::uint64_t old = key();
    COMCH_FI(fi_close(&mr_->fid));
    pair_.b.regions.clear();
    EXPECT_NE(write_helped("x", 1, at(0), old), 0);
    EXPECT_EQ(memory_[0], 0);
    mr_ = pair_.b.expose(memory_.data(), memory_.size(), 42);
    EXPECT_NE(key(), old);
    EXPECT_EQ(write_helped("y", 1, at(0), key()), 0);
    EXPECT_EQ(memory_[0], 'y');
    EXPECT_EQ(write_alone("z", 1, at(0), key()), 0);
    EXPECT_EQ(write_helped("x", 1, at(0), old), FI_EACCES);
}

TEST_P(Direct, EachCompletesOnceWhenTheOwnerGoes) {
    const auto data = pattern(1'000'000, 1);
    Node owner(with_mode(GetParam()));
    const fi_addr_t to = pair_.a.add(owner.name());
    std::vector<char> memory(data.size());
    fid_mr* const mr = owner.expose(memory.data(), memory.size(), 1);
    const std::uint64_t address = named(memory.data(), memory.data());
    std::vector<fid_cq*> both = {pair_.a.tx, owner.tx, owner.rx};
    post(
        [&] {
            return fi_write(pair_.a.ep, data.data(), 8, nullptr, to, address, fi_mr_key(mr),
                            nullptr);
        },
        both);
    ASSERT_EQ(await(pair_.a.tx, both).error, 0);
    unsigned posted = 0;
    while (posted < 16 && fi_write(pair_.a.ep, data.data(), data.size(), nullptr, to, address,
                                   fi_mr_key(mr), nullptr) == 0) {
        ++posted;
    }
    ASSERT_GT(posted, 0u);
    EXPECT_EQ(fi_close(&owner.ep->fid), 0);
    owner.ep = nullptr;
    for (unsigned i = 0; i < posted; ++i) {
        (void)await(pair_.a.tx);
    }
    fi_cq_tagged_entry entry{};
    for (const auto end = Clock::now() + std::chrono::milliseconds(50); Clock::now() < end;) {
        EXPECT_EQ(fi_cq_read(pair_.a.tx, &entry, 1), -FI_EAGAIN);
    }
}

INSTANTIATE_TEST_SUITE_P(, Direct, testing::Values(mr_basic, memory_of_devices),
                         [](const auto& mode) {
                             return mode.param == mr_basic ? "ByAddress" : "ByOffset";
                         });

TEST(Offer, OrdersAreGrantedWhereTheyAreAskedForAndSizesGoWithThem) {
    const auto offered = [](int mr_mode, std::uint64_t order, std::size_t size, fi_ep_type type) {
        InfoHints hints;
        hints->ep_attr->type = type;
        hints->domain_attr->mr_mode = mr_mode;
        hints->tx_attr->msg_order = order;
        hints->ep_attr->max_order_waw_size = size;
        fi_info* const info = query(hints.value);
        const auto granted = std::pair(info->tx_attr->msg_order, info->ep_attr->max_order_waw_size);
        EXPECT_EQ(info->rx_attr->msg_order, granted.first);
        fi_freeinfo(info);
        return granted;
    };
    EXPECT_EQ(offered(memory_of_devices, 0, 0, FI_EP_RDM),
              std::pair(std::uint64_t{FI_ORDER_SAS}, std::size_t{0}));
    const auto by_name = offered(memory_of_devices, FI_ORDER_WAW, 0, FI_EP_RDM);
    EXPECT_EQ(by_name.first, FI_ORDER_SAS | FI_ORDER_WAW);
    EXPECT_GT(by_name.second, 4096u);
    EXPECT_EQ(offered(mr_basic, 0, 64, FI_EP_RDM), by_name);
    for (const auto& all :
         {offered(0, 0, 0, FI_EP_RDM), offered(memory_of_devices, 0, 0, FI_EP_MSG)}) {
        EXPECT_EQ(all.first & (FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW),
                  FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW);
        EXPECT_EQ(all.second, by_name.second);
    }
}

// ---- and what it does not -----------------------------------------------------------------------

struct Reason {
    const char* name;
    int mr_mode;
    std::uint64_t order;
    bool counters;
    std::uint64_t flags = 0; ///< of each operation

    friend std::ostream& operator<<(std::ostream& out, const Reason& reason) {
        return out << reason.name;
    }
};

class NotDirect : public OnePair, public testing::TestWithParam<Reason> {
protected:
    NotDirect() : OnePair(options()) {}
    static NodeOptions options() {
        NodeOptions made;
        made.mr_mode = GetParam().mr_mode;
        made.order = GetParam().order;
        made.counters = GetParam().counters;
        made.tx_flags = GetParam().flags;
        return made;
    }
};

TEST_P(NotDirect, TheOwnersCpuIsNeeded) {
    EXPECT_EQ(pair_.a.info->tx_attr->msg_order & GetParam().order, GetParam().order);
    ASSERT_NO_FATAL_FAILURE(meet());
    for (const std::size_t length : {std::size_t{8}, std::size_t{100000}}) {
        auto data = pattern(length, 1);
        begin_write(data.data(), length, at(0), key(), {pair_.a.tx});
        EXPECT_TRUE(waits_for_the_owner());
        EXPECT_TRUE(std::equal(data.begin(), data.end(), memory_.begin()));
        std::vector<char> back(length);
        begin_read(back.data(), length, at(0), key(), {pair_.a.tx});
        EXPECT_TRUE(waits_for_the_owner());
        EXPECT_EQ(back, data);
    }
    if (GetParam().counters) {
        EXPECT_EQ(fi_cntr_read(pair_.b.counters[5]), 3u);
        EXPECT_EQ(fi_cntr_read(pair_.b.counters[4]), 2u);
    }
}

INSTANTIATE_TEST_SUITE_P(
    , NotDirect,
    testing::Values(Reason{"WhereAnOrderIsKept", memory_of_devices, FI_ORDER_WAW, false},
                    Reason{"WhereTheOwnerCounts", memory_of_devices, 0, true},
                    Reason{"WhereKeysAreTheProgramsToChoose", FI_MR_ALLOCATED, 0, false},
                    Reason{"WherePagesMayGo", FI_MR_PROV_KEY, 0, false},
                    Reason{"WhereNothingIsPromised", 0, 0, false},
                    Reason{"WhereDeliveryIsToBeConfirmed", memory_of_devices, 0, false,
                           FI_DELIVERY_COMPLETE}),
    [](const auto& reason) { return reason.param.name; });

} // namespace
} // namespace comch::ofi::test
