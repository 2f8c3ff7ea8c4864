// The memory domain: allocation, registration, keys, and what it does with nonsense.
#include <climits>
#include <random>

#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/memory/region_key.hpp"
#include "iface.hpp"
#include "test_target.hpp"

namespace comch::uct::test {
namespace {

struct MemoryDomain : testing::Test {
    Lab lab;
    Interface host{"host"};
    Log log;
};

TEST_F(MemoryDomain, DeclaresWhatItCanDo) {
    const std::uint64_t flags = host.md_attr.cap.flags;
    EXPECT_NE(flags & UCT_MD_FLAG_ALLOC, 0u);
    EXPECT_NE(flags & UCT_MD_FLAG_REG, 0u);
    EXPECT_NE(flags & UCT_MD_FLAG_NEED_RKEY, 0u);
    EXPECT_NE(flags & UCT_MD_FLAG_INVALIDATE, 0u);
    EXPECT_EQ(flags & UCT_MD_FLAG_NEED_MEMH, 0u);
    EXPECT_NE(host.md_attr.cap.access_mem_types & UCS_BIT(UCS_MEMORY_TYPE_HOST), 0u);
    EXPECT_LE(host.md_attr.rkey_packed_size, 64u);
}

TEST_F(MemoryDomain, AllocatedMemoryIsZeroWholePagesAndWritable) {
    for (const std::size_t length :
         {std::size_t{1}, std::size_t{4096}, std::size_t{4097}, std::size_t{5} << 20}) {
        Memory memory(host.md, Kind::allocated, length);
        EXPECT_EQ(memory.address() % 4096, 0u);
        EXPECT_EQ(std::count(memory.data(), memory.data() + length, std::byte{0}),
                  static_cast<std::ptrdiff_t>(length));
        std::memset(memory.data(), 0x77, length);
    }
}

TEST_F(MemoryDomain, AllocatesAtAFixedAddressThatIsFree) {
    void* const hole = ::mmap(nullptr, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(hole, MAP_FAILED);
    uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_mem_alloc_params_t params{};
    params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_MDS | UCT_MEM_ALLOC_PARAM_FIELD_FLAGS |
                        UCT_MEM_ALLOC_PARAM_FIELD_ADDRESS;
    params.flags = UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_FIXED;
    params.address = hole;
    params.mds.mds = &host.md;
    params.mds.count = 1;
    uct_allocated_memory_t memory{};
    // What is there is not replaced.
    EXPECT_LT(uct_mem_alloc(65536, &method, 1, &params, &memory), UCS_OK);
    ASSERT_EQ(::munmap(hole, 1 << 20), 0);
    ASSERT_EQ(uct_mem_alloc(65536, &method, 1, &params, &memory), UCS_OK);
    EXPECT_EQ(memory.address, hole);
    std::memset(memory.address, 1, 65536);
    EXPECT_EQ(uct_mem_free(&memory), UCS_OK);
}

TEST_F(MemoryDomain, WhatCannotBeHadIsAnErrorThatSaysWhat) {
    uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_mem_alloc_params_t params{};
    params.field_mask = UCT_MEM_ALLOC_PARAM_FIELD_MDS;
    params.mds.mds = &host.md;
    params.mds.count = 1;
    uct_allocated_memory_t memory{};
    for (const std::size_t length : {std::size_t{1} << 60, SIZE_MAX, SIZE_MAX - 4096}) {
        Log::lines().clear();
        EXPECT_LT(uct_mem_alloc(length, &method, 1, &params, &memory), UCS_OK);
        EXPECT_THAT(log.text(), testing::HasSubstr(std::to_string(length)));
    }
    EXPECT_LT(uct_mem_alloc(0, &method, 1, &params, &memory), UCS_OK);
    uct_mem_h handle = nullptr;
    std::byte byte{};
    EXPECT_LT(uct_md_mem_reg(host.md, &byte, 0, UCT_MD_MEM_ACCESS_ALL, &handle), UCS_OK);
    EXPECT_LT(uct_md_mem_reg(host.md, nullptr, 100, UCT_MD_MEM_ACCESS_ALL, &handle), UCS_OK);
    const Memory allocation(host.md, Kind::allocated, 4096);
    EXPECT_LT(uct_md_mem_reg(host.md, allocation.data(), 0, UCT_MD_MEM_ACCESS_ALL, &handle),
              UCS_OK);
}

TEST_F(MemoryDomain, WhatItHasNotIsAnAnswerToo) {
    sockaddr_in somebody{};
    somebody.sin_family = AF_INET;
    const ucs_sock_addr_t address{reinterpret_cast<const sockaddr*>(&somebody), sizeof(somebody)};
    EXPECT_EQ(uct_md_is_sockaddr_accessible(host.md, &address, UCT_SOCKADDR_ACC_LOCAL), 0);
    EXPECT_EQ(uct_md_is_sockaddr_accessible(host.md, &address, UCT_SOCKADDR_ACC_REMOTE), 0);
    const Memory memory(host.md, Kind::allocated, 4096);
    EXPECT_EQ(uct_md_mem_advise(host.md, memory.handle(), memory.data(), 4096, UCT_MADV_WILLNEED),
              UCS_ERR_UNSUPPORTED);
}

TEST_F(MemoryDomain, ThousandsOfRegistrationsComeAndGo) {
    std::vector<std::byte> bytes(10'000);
    std::vector<uct_mem_h> handles(bytes.size());
    for (int round = 0; round < 3; ++round) {
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            ASSERT_EQ(uct_md_mem_reg(host.md, &bytes[i], 1, UCT_MD_MEM_ACCESS_ALL, &handles[i]),
                      UCS_OK);
        }
        std::vector<PackedKey> keys(2);
        ASSERT_EQ(uct_md_mkey_pack(host.md, handles[0], keys[0].bytes), UCS_OK);
        ASSERT_EQ(uct_md_mkey_pack(host.md, handles[1], keys[1].bytes), UCS_OK);
        EXPECT_NE(std::memcmp(&keys[0], &keys[1], sizeof(PackedKey)), 0);
        for (const uct_mem_h handle : handles) {
            ASSERT_EQ(uct_md_mem_dereg(host.md, handle), UCS_OK);
        }
    }
}

TEST_F(MemoryDomain, OneRangeMayBeRegisteredTwice) {
    Endpoint self(host, host);
    std::vector<std::byte> bytes(4096);
    uct_mem_h first = nullptr;
    uct_mem_h second = nullptr;
    ASSERT_EQ(uct_md_mem_reg(host.md, bytes.data(), 4096, UCT_MD_MEM_ACCESS_ALL, &first), UCS_OK);
    ASSERT_EQ(uct_md_mem_reg(host.md, bytes.data(), 4096, UCT_MD_MEM_ACCESS_ALL, &second), UCS_OK);
    PackedKey packed{};
    ASSERT_EQ(uct_md_mkey_pack(host.md, second, packed.bytes), UCS_OK);
    const RemoteKey key(packed);
    const RemoteKey again(packed);
    ASSERT_EQ(uct_md_mem_dereg(host.md, first), UCS_OK);
    const std::uint64_t word = 42;
    const auto at = reinterpret_cast<std::uint64_t>(bytes.data());
    ASSERT_EQ(uct_ep_put_short(self, &word, 8, at, key), UCS_OK);
    ASSERT_EQ(uct_ep_put_short(self, &word, 8, at + 8, again), UCS_OK);
    ASSERT_EQ(flush(self, host), UCS_OK);
    EXPECT_EQ(std::memcmp(bytes.data(), &word, 8), 0);
    EXPECT_EQ(std::memcmp(bytes.data() + 8, &word, 8), 0);
    ASSERT_EQ(uct_md_mem_dereg(host.md, second), UCS_OK);
    EXPECT_LT(uct_ep_put_short(self, &word, 8, at, key), UCS_OK);
}

TEST_F(MemoryDomain, InvalidationIsConfirmed) {
    std::vector<std::byte> bytes(4096);
    uct_mem_h handle = nullptr;
    ASSERT_EQ(uct_md_mem_reg(host.md, bytes.data(), 4096, UCT_MD_MEM_ACCESS_ALL, &handle), UCS_OK);
    Completion completion;
    uct_md_mem_dereg_params_t params{};
    params.field_mask = UCT_MD_MEM_DEREG_FIELD_MEMH | UCT_MD_MEM_DEREG_FIELD_FLAGS |
                        UCT_MD_MEM_DEREG_FIELD_COMPLETION;
    params.memh = handle;
    params.flags = UCT_MD_MEM_DEREG_FLAG_INVALIDATE;
    params.comp = &completion.super;
    ASSERT_EQ(uct_md_mem_dereg_v2(host.md, &params), UCS_OK);
    EXPECT_EQ(completion.calls, 1);
    EXPECT_EQ(completion.status(), UCS_OK);
}

/// Registers a part of an allocation, as UCP does for every long message from there.
struct Part {
    Part(Interface& of, const Memory& memory, std::size_t offset, std::size_t length,
         unsigned flags = UCT_MD_MEM_ACCESS_ALL)
        : interface_(of) {
        check_ok(uct_md_mem_reg(of.md, memory.data() + offset, length, flags, &handle),
                 "uct_md_mem_reg");
    }
    ~Part() {
        if (handle != nullptr) {
            (void)uct_md_mem_dereg(interface_.md, handle);
        }
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    [[nodiscard]] PackedKey key(unsigned flags = 0) const {
        return pack_key(interface_, handle, flags);
    }
    void end() {
        EXPECT_EQ(uct_md_mem_dereg(interface_.md, std::exchange(handle, nullptr)), UCS_OK);
    }

    Interface& interface_;
    uct_mem_h handle = nullptr;
};

bool same(const PackedKey& a, const PackedKey& b) {
    return std::memcmp(&a, &b, sizeof(PackedKey)) == 0;
}

TEST_F(MemoryDomain, APartOfAnAllocationGoesByTheAllocationsName) {
    // So that the peer, which has mapped it, need not map it again for every message.
    const Memory memory(host.md, Kind::allocated, 3 * 4096);
    const PackedKey whole = pack_key(host, memory);
    EXPECT_TRUE(same(Part(host, memory, 0, 3 * 4096).key(), whole));
    EXPECT_TRUE(same(Part(host, memory, 3 * 4096 - 1, 1).key(), whole));
    Part part(host, memory, 100, 5000);
    EXPECT_TRUE(same(part.key(), whole));
    part.end();
    Endpoint self(host, host);
    const RemoteKey key(whole);
    const std::uint64_t word = 42;
    ASSERT_EQ(uct_ep_put_short(self, &word, 8, memory.address() + 100, key), UCS_OK)
        << "it ended the allocation's registration";
    ASSERT_EQ(flush(self, host), UCS_OK);
    EXPECT_EQ(std::memcmp(memory.data() + 100, &word, 8), 0);
}

TEST_F(MemoryDomain, WhatIsNotAllInOneAllocationHasANameOfItsOwn) {
    PackedKey whole{};
    {
        const Memory memory(host.md, Kind::allocated, 4096);
        whole = pack_key(host, memory);
        EXPECT_FALSE(same(Part(host, memory, 4095, 2).key(), whole));
        EXPECT_FALSE(same(Part(host, memory, 0, 4097).key(), whole));
        EXPECT_FALSE(same(Part(host, memory, 4096, 1).key(), whole));
        const Memory heap(host.md, Kind::registered, 4096);
        EXPECT_FALSE(same(Part(host, heap, 0, 4096).key(), pack_key(host, heap)));
    }
    // It is gone, and other memory may lie where it was.
    std::byte* const at = reinterpret_cast<std::byte*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    uct_mem_h handle = nullptr;
    ASSERT_EQ(uct_md_mem_reg(host.md, at, 4096, UCT_MD_MEM_ACCESS_ALL, &handle), UCS_OK);
    PackedKey now{};
    ASSERT_EQ(uct_md_mkey_pack(host.md, handle, now.bytes), UCS_OK);
    EXPECT_FALSE(same(now, whole));
    ASSERT_EQ(uct_md_mem_dereg(host.md, handle), UCS_OK);
    ASSERT_EQ(::munmap(at, 4096), 0);
}

TEST_F(MemoryDomain, APartGrantsWhatItIsRegisteredFor) {
    const Memory readable(host.md, Kind::allocated, 4096, UCT_MD_MEM_ACCESS_REMOTE_GET);
    const PackedKey to_read = pack_key(host, readable);
    EXPECT_TRUE(same(Part(host, readable, 0, 64, UCT_MD_MEM_ACCESS_REMOTE_GET).key(), to_read));
    EXPECT_FALSE(same(Part(host, readable, 0, 64).key(), to_read)) << "it could not be written to";
    const Memory memory(host.md, Kind::allocated, 4096);
    EXPECT_FALSE(
        same(Part(host, memory, 0, 64, UCT_MD_MEM_ACCESS_REMOTE_GET).key(), pack_key(host, memory)))
        << "all of it could be written to";
    // As UCP does.
    const PackedKey to_move =
        Part(host, memory, 0, 64, UCT_MD_MEM_ACCESS_RMA).key(); // of an allocation for all
    PackedKey other = Part(host, memory, 64, 64, UCT_MD_MEM_ACCESS_RMA).key();
    EXPECT_TRUE(same(to_move, other)) << "not by the allocation's name";
}

TEST_F(MemoryDomain, AForkedChildRegistersItsOwn) {
    const Memory memory(host.md, Kind::allocated, 4096);
    const PackedKey whole = pack_key(host, memory);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::_exit(same(Part(host, memory, 0, 64).key(), whole) ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(MemoryDomain, AForkedChildThatGivesMemoryBackLeavesItsParentsAsItIs) {
    Memory memory(host.md, Kind::allocated, 2 * 4096);
    const auto bytes = pattern(memory.length(), 7);
    std::copy(bytes.begin(), bytes.end(), memory.data());
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        memory.release();
        ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), memory.data()));
}

TEST_F(MemoryDomain, ARevocableKeyOfAPartEndsWithIt) {
    const Memory memory(host.md, Kind::allocated, 2 * 4096);
    Part part(host, memory, 4096, 4096);
    const PackedKey packed = part.key(UCT_MD_MKEY_PACK_FLAG_INVALIDATE);
    EXPECT_FALSE(same(packed, pack_key(host, memory)));
    EXPECT_TRUE(same(packed, part.key(UCT_MD_MKEY_PACK_FLAG_INVALIDATE))) << "one is enough";
    Endpoint self(host, host);
    const RemoteKey key(packed);
    const RemoteKey whole(pack_key(host, memory));
    const std::uint64_t word = 42;
    const std::uint64_t at = memory.address() + 4096;
    ASSERT_EQ(uct_ep_put_short(self, &word, 8, at, key), UCS_OK);
    EXPECT_LT(uct_ep_put_short(self, &word, 8, at - 8, key), UCS_OK) << "before the part";
    part.end();
    EXPECT_LT(uct_ep_put_short(self, &word, 8, at, key), UCS_OK);
    EXPECT_EQ(uct_ep_put_short(self, &word, 8, at - 8, whole), UCS_OK);
    ASSERT_EQ(flush(self, host), UCS_OK);
}

TEST_F(MemoryDomain, AKeyIsNoPointer) {
    Memory memory(host.md, Kind::allocated, 4096);
    uct_rkey_bundle_t bundle{};
    const PackedKey packed = pack_key(host, memory);
    ASSERT_EQ(uct_rkey_unpack(comch_component(), packed.bytes, &bundle), UCS_OK);
    void* pointer = nullptr;
    EXPECT_LT(uct_rkey_ptr(comch_component(), &bundle, memory.address(), &pointer), UCS_OK);
    EXPECT_EQ(uct_rkey_release(comch_component(), &bundle), UCS_OK);
}

TEST_F(MemoryDomain, AddressesOutsideItsDomainAreNotReachable) {
    const Address address = address_of(host);
    const auto* device = reinterpret_cast<const uct_device_addr_t*>(address.device);
    const auto* iface = reinterpret_cast<const uct_iface_addr_t*>(address.iface);
    EXPECT_TRUE(uct_iface_is_reachable(host.iface, device, iface));
    Address other_version = address;
    other_version.device[offsetof(DeviceAddress, version)] ^= std::byte{1};
    EXPECT_FALSE(uct_iface_is_reachable(
        host.iface, reinterpret_cast<const uct_device_addr_t*>(other_version.device), iface));
    const Lab elsewhere;
    Interface stranger("dpu");
    EXPECT_FALSE(uct_iface_is_reachable(stranger.iface, device, iface));
}

/// Keys whose bytes are wrong somewhere: operations fail, and neither process is harmed.
TEST(Keys, OfNonsenseHarmNobody) {
    for (const Kind kind : kinds) {
        const Lab lab;
        const Log log;
        Target target(kind, 1 << 20);
        Interface host("host");
        std::vector<std::byte> bytes(65536);
        const uct_iov_t iov = iov_of(bytes.data(), bytes.size());
        std::mt19937 random(5);
        for (int round = 0; round < 300; ++round) {
            PackedKey packed = target.key();
            for (unsigned changes = 1 + static_cast<unsigned>(random() % 3); changes != 0;
                 --changes) {
                packed.bytes[random() % host.md_attr.rkey_packed_size] ^=
                    static_cast<std::byte>(1 + random() % 255);
            }
            Endpoint ep(host, target.address());
            const RemoteKey key(packed);
            Completion completion;
            ucs_status_t status = UCS_OK;
            switch (random() % 4) {
            case 0:
                status = uct_ep_get_zcopy(ep, &iov, 1, target.memory(4096), key, &completion.super);
                break;
            case 1:
                status = uct_ep_put_zcopy(ep, &iov, 1, target.memory(4096), key, &completion.super);
                break;
            case 2:
                status = uct_ep_put_short(ep, bytes.data(), 8, target.memory(8), key);
                break;
            default:
                status = uct_ep_atomic64_fetch(ep, UCT_ATOMIC_OP_ADD, 1,
                                               reinterpret_cast<std::uint64_t*>(bytes.data()),
                                               target.memory(8), key, &completion.super);
            }
            if (status == UCS_INPROGRESS) {
                ASSERT_TRUE(until([&] { return completion.done(); }, host));
            }
            if (round % 8 == 0) {
                (void)flush(ep, host);
            }
        }
        EXPECT_EQ(target.leave(), 0) << name_of(kind);
    }
}

TEST(Keys, ThatClaimMoreThanThereIsReachNothingBeyondIt) {
    for (const Kind kind : kinds) {
        const Lab lab;
        const Log log;
        Target target(kind, 4096);
        Interface host("host");
        std::vector<std::byte> bytes(64 * 4096, std::byte{0x33});
        PackedKey packed = target.key();
        // The length is a 64-bit word of the key.
        const std::uint64_t claimed = std::uint64_t{1} << 40;
        bool found = false;
        for (std::size_t i = 0; i + 12 <= host.md_attr.rkey_packed_size; i += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, packed.bytes + i, 8);
            if (word == 4096) {
                std::memcpy(packed.bytes + i, &claimed, 8);
                // What the kernel lets a process read of another is not for the key to say.
                std::uint32_t access = 0;
                std::memcpy(&access, packed.bytes + i + 8, 4);
                access &= ~std::uint32_t{comch::access_by_kernel};
                std::memcpy(packed.bytes + i + 8, &access, 4);
                found = true;
            }
        }
        ASSERT_TRUE(found);
        const RemoteKey key(packed);
        const uct_iov_t iov = iov_of(bytes.data(), bytes.size());
        Endpoint ep(host, target.address());
        // By now, if ever, it is mapped.
        std::uint64_t word = 0;
        ASSERT_EQ(
            persist([&] { return uct_ep_get_short(ep, &word, 8, target.memory(), key); }, host),
            UCS_OK);
        settle(std::chrono::milliseconds(20), host);
        Completion get;
        EXPECT_LT(
            finish(uct_ep_get_zcopy(ep, &iov, 1, target.memory(), key, &get.super), get, host),
            UCS_OK);
        Completion put;
        (void)finish(uct_ep_put_zcopy(ep, &iov, 1, target.memory(), key, &put.super), put, host);
        (void)flush(ep, host);
        EXPECT_EQ(target.leave(), 0) << name_of(kind);
    }
}

} // namespace
} // namespace comch::uct::test
