// Gets that both ends copy, of memory that an end has mapped.
#include "core/link/soft/test_joint_get.hpp"

#include <algorithm>

#include "core/device/process_id.hpp"

namespace comch::link::soft::test {
namespace {

/// Of memory that the requester has mapped (here: that is its own), into memory that the owner may map.
class JointMappedGet : public JointGet {
protected:
    SharedMemory into = create_shared_memory("into", size).value();
    RegionKey into_key;

    void SetUp() override {
        JointGet::SetUp();
        owner.engine.set_peer(process_id());
        into_key = RegionTable::instance()
                       .add({.base = into.mapping.data(),
                             .length = into.mapping.size(),
                             .access = access_remote_all,
                             .memfd = into.fd.get()})
                       .value();
        (void)requester.pipe.mapped_ways().choose(size);
        for (unsigned i = 0; i < 2 * tuning::pace_of_short.turn(); ++i) {
            requester.pipe.mapped_ways().took(Way::alone, size, 1'000'000'000);
        }
    }
    void TearDown() override {
        forget_imports_of(process_id());
        RegionTable::instance().remove(into_key.region);
        JointGet::TearDown();
    }
    Errc get_mapped(const RegionKey* key_of_target, std::size_t length = size) {
        std::memset(into.mapping.data(), 0, size);
        return retry_mapped(key_of_target, length);
    }
    Errc retry_mapped(const RegionKey* key_of_target, std::size_t length = size) {
        return requester.engine.get_mapped(into.mapping.data(), content.data(), length, key.region,
                                           key.base, &token, key_of_target);
    }
    /// The same get by both CPUs, as far as the requester knows.
    void both_take(std::uint64_t time) {
        (void)requester.pipe.mapped_ways().choose(size);
        for (unsigned i = 0; i < 2 * tuning::pace_of_short.turn(); ++i) {
            requester.pipe.mapped_ways().took(Way::joint, size, time);
        }
    }
    /// One of which each end copies one part is done by both.
    static constexpr std::size_t short_length = tuning::joint_of_mapped;
    void both_take_short() {
        for (const auto& [way, time] :
             {std::pair{Way::alone, 1'000'000u}, std::pair{Way::joint, 1u}}) {
            (void)requester.pipe.mapped_ways().choose(short_length);
            for (unsigned i = 0; i < 2 * tuning::pace_of_short.turn(); ++i) {
                requester.pipe.mapped_ways().took(way, short_length, time);
            }
        }
    }
    bool arrived(std::size_t length = size) const {
        return std::memcmp(into.mapping.data(), content.data(), length) == 0;
    }
    /// Until the owner has copied parts of so many, which are checked.
    void get_until_helped(const RegionKey* key_of_target, std::uint64_t parts) {
        std::atomic<bool> over = false;
        std::thread attending([&] {
            while (!over.load()) {
                owner.progress();
            }
        });
        while (owner.slot.rx.one_sided_served.get() < parts && !HasFailure()) {
            const std::size_t before = requester.done.size();
            const Errc result = get_mapped(key_of_target);
            EXPECT_TRUE(result == Errc::ok || result == Errc::in_progress) << to_string(result);
            while (result == Errc::in_progress && requester.done.size() == before) {
                requester.progress();
            }
            EXPECT_TRUE(arrived());
            total += size;
        }
        over.store(true);
        attending.join();
    }
    std::uint64_t total = 0;
};

TEST_F(JointMappedGet, IsDoneWithoutTheOwner) {
    std::uint64_t asked = 0;
    for (unsigned i = 0; i < joint_gets; ++i) {
        ASSERT_EQ(get_mapped(&into_key), Errc::ok);
        EXPECT_TRUE(arrived());
        EXPECT_NE(requester.pipe.tx().head(), asked);
        asked = requester.pipe.tx().head();
    }
    ASSERT_EQ(get_mapped(&into_key), Errc::ok);
    EXPECT_EQ(requester.pipe.tx().head(), asked) << "it has not seen those";
    EXPECT_TRUE(arrived());
    EXPECT_EQ(requester.slot.tx.mapped_bytes.get(), 3 * size);
    EXPECT_EQ(requester.slot.tx.process_vm_bytes.get(), 0u);
}

TEST_F(JointMappedGet, AShortOneIsNotTheOwnersBusiness) {
    ASSERT_EQ(get_mapped(&into_key, tuning::joint_of_mapped - 1), Errc::ok);
    EXPECT_EQ(requester.pipe.tx().head(), 0u);
    EXPECT_TRUE(arrived(tuning::joint_of_mapped - 1));
}

TEST_F(JointMappedGet, IsHelpedWithByTheKernel) {
    get_until_helped(nullptr, 20);
    EXPECT_EQ(owner.engine.wanted_mapping(), nullptr);
    EXPECT_GT(owner.slot.tx.process_vm_bytes.get(), 0u);
    EXPECT_EQ(owner.slot.tx.mapped_bytes.get(), 0u);
    EXPECT_EQ(requester.slot.tx.mapped_bytes.get() + owner.slot.tx.process_vm_bytes.get(), total);
}

TEST_F(JointMappedGet, IsHelpedWithInMappedMemory) {
    get_until_helped(&into_key, 1);
    RemoteRegion* const wanted = owner.engine.wanted_mapping();
    ASSERT_NE(wanted, nullptr) << "nobody would ask for the mapping";
    EXPECT_EQ(wanted->key().region, into_key.region);
    ASSERT_TRUE(wanted->import()->claim_request());
    wanted->import()->set_mapped(map_shared_memory(into.fd.get(), size, true).value(), true);
    const std::uint64_t before = owner.slot.tx.process_vm_bytes.get();
    get_until_helped(&into_key, owner.slot.rx.one_sided_served.get() + 20);
    EXPECT_EQ(owner.slot.tx.process_vm_bytes.get(), before) << "it goes on by the kernel";
    EXPECT_GT(owner.slot.tx.mapped_bytes.get(), 0u);
    EXPECT_EQ(requester.slot.tx.mapped_bytes.get() + before + owner.slot.tx.mapped_bytes.get(),
              total);
}

TEST_F(JointMappedGet, OthersAreReadMeanwhile) {
    both_take(2'000'000'000); // so our CPU alone is the faster
    ASSERT_EQ(get_that_waits(), Errc::in_progress);
    EXPECT_FALSE(requester.engine.direct_allowed()) << "a put would be seen by it";
    EXPECT_TRUE(requester.engine.mapped_reads_allowed());
    ASSERT_EQ(get_mapped(&into_key), Errc::ok);
    EXPECT_TRUE(arrived());
    words().done.store(Done{generation(), true, 0}.pack());
    requester.progress();
    EXPECT_EQ(requester.done.size(), 1u);
    EXPECT_TRUE(holds());
}

TEST_F(JointMappedGet, WaitsForTheOneUnderWay) {
    both_take(1);
    both_take_short();
    const unsigned begun = get_that_waits_meanwhile([this] {
        if (retry_mapped(&into_key, short_length) != Errc::in_progress) {
            return 1u; // there are two at a time
        }
        for (unsigned i = 0; i < 2 * tuning::pace_of_long.period;
             ++i) { // more than are between trials
            if (retry_mapped(&into_key) != Errc::again) {
                return 1u;
            }
        }
        return 0u;
    });
    EXPECT_EQ(begun, 0u) << "by one alone meanwhile";
    words().done.store(Done{generation(), true, 0}.pack());
    requester.progress();
    finish_all(2);
    owner.progress();
    requester.done.clear();
    finish(get_mapped(&into_key));
    EXPECT_TRUE(arrived());
}

TEST_F(JointMappedGet, IsCopiedAloneWhenTheOwnerHasNotSeenTheOnesBefore) {
    both_take_short();
    while (get_mapped(&into_key, short_length) == Errc::ok) { // our CPU was away: nobody waited
        owner.progress();
    }
    ASSERT_EQ(retry_mapped(&into_key, short_length), Errc::in_progress);
    for (const std::uint64_t until = requester.pipe.now_ns() + 2 * tuning::most_joint_part_ns;
         requester.pipe.now_ns() < until;) { // both ends compute
    }
    EXPECT_EQ(get_mapped(&into_key, short_length), Errc::ok)
        << "nothing would make it worth a retry";
    EXPECT_TRUE(arrived(short_length));
    requester.progress();
    EXPECT_EQ(requester.done.size(), 2u);
}

TEST_F(JointMappedGet, IsNotReadAheadOfAPut) {
    const std::uint64_t value = 4711;
    ASSERT_EQ(requester.engine.put(reinterpret_cast<const std::byte*>(&value), 8, key.region,
                                   key.base, nullptr),
              Errc::ok);
    EXPECT_FALSE(requester.engine.mapped_reads_allowed());
    owner.progress();
    EXPECT_TRUE(requester.engine.mapped_reads_allowed());
}

/// The owner's end, whose requester says more about its memory than is true.
class JointMappedHelper : public JointMappedGet {
protected:
    /// What the owner has mapped is smaller than the key says.
    static constexpr std::size_t really = 1 << 20;

    /// Has the owner help with a get of so many bytes.
    void have_help(const Joint& joint, std::uint64_t region, std::size_t length) {
        words().claims.store(Claims{static_cast<std::uint16_t>(joint.generation)}.pack());
        ASSERT_TRUE(ask({region, key.base, length, 0}, joint));
        while (owner.engine.busy()) {
            owner.progress();
        }
    }
    void answer_with_mapping() {
        RemoteRegion* const wanted = owner.engine.wanted_mapping();
        ASSERT_NE(wanted, nullptr);
        ASSERT_TRUE(wanted->import()->claim_request());
        wanted->import()->set_mapped(map_shared_memory(into.fd.get(), really, true).value(), true);
    }
    [[nodiscard]] Joint joint_into() const {
        return {reinterpret_cast<std::uint64_t>(into.mapping.data()), 1, into_key.region,
                into_key.base, into_key.length};
    }
};

TEST_F(JointMappedHelper, AsksForNoMappingOfWhoMayNotReadHere) {
    have_help(joint_into(), key.region + 1, size);
    EXPECT_TRUE(Done::unpack(words().done.load()).failed);
    EXPECT_EQ(owner.engine.wanted_mapping(), nullptr);
}

TEST_F(JointMappedHelper, AsksForNoMappingThatCannotBeOrIsTooLarge) {
    std::uint64_t generation = 0;
    for (const auto& [base, length] : {std::pair{into_key.base + 1, into_key.length},
                                       std::pair{into_key.base, tuning::most_helped_bytes + 1}}) {
        Joint joint = joint_into();
        joint.generation = ++generation;
        joint.base = base;
        joint.length = length;
        have_help(joint, key.region, size);
        EXPECT_FALSE(Done::unpack(words().done.load()).failed) << "the kernel writes there";
        EXPECT_EQ(owner.engine.wanted_mapping(), nullptr);
        EXPECT_EQ(owner.slot.tx.mapped_bytes.get(), 0u);
    }
}

TEST_F(JointMappedHelper, ManyMemoriesTakeNoneThatItIsWritingTo) {
    have_help(joint_into(), key.region, size);
    answer_with_mapping();
    // Another of that, of which one part is copied when it is asked for.
    Joint joint = joint_into();
    joint.generation = 2;
    words().claims.store(Claims{2}.pack());
    ASSERT_TRUE(ask({key.region, key.base, size, 0}, joint));
    ASSERT_TRUE(owner.engine.busy());
    const std::uint64_t before = owner.slot.tx.mapped_bytes.get();
    for (std::uint16_t i = 1; i <= 3 * tuning::helped_regions; ++i) {
        const std::uint64_t page = i * mapping_alignment;
        const Joint also{joint.to, JointName{i, false, 1}.pack(), into_key.region + i,
                         into_key.base + page, page};
        words(1).claims.store(Claims{i, joint::units_of(size)}.pack()); // nothing is left
        ASSERT_TRUE(ask({key.region, key.base, size, 0}, also));
    }
    while (owner.engine.busy()) {
        owner.progress();
    }
    EXPECT_GT(owner.slot.tx.mapped_bytes.get() - before, really / 2)
        << "by the kernel from then on";
}

TEST_F(JointMappedHelper, WritesNothingOutsideWhatItHasMapped) {
    struct Lie {
        Joint joint;
        std::size_t length; ///< of the get
    };
    // Addresses that nobody has, so that the kernel writes nothing, either.
    constexpr std::uint64_t base = std::uint64_t{1} << 62;
    constexpr std::uint64_t most = tuning::most_helped_bytes;
    const std::uint64_t region = into_key.region;
    std::uint64_t generation = 0;
    for (const Lie& lie : {Lie{{base, 0, region, base, size}, size}, // all of it lies beyond
                           Lie{{base, 0, region, base, size}, really + joint::unit}, // its end does
                           Lie{{base + most - 100, 0, region, base, most}, size},
                           Lie{{base - size, 0, region, base, size}, size},
                           Lie{{~std::uint64_t{0} - 100, 0, region, ~(most - 1), most}, size}}) {
        Joint joint = lie.joint;
        std::memset(into.mapping.data(), 0, size);
        for (const bool mapped : {false, true}) {
            joint.generation = ++generation;
            have_help(joint, key.region, lie.length);
            const auto done = Done::unpack(words().done.load());
            EXPECT_TRUE(done.failed);
            EXPECT_EQ(done.units, 0u);
            if (!mapped &&
                owner.engine.wanted_mapping() != nullptr) { // else an earlier lie's is known
                answer_with_mapping();
            }
        }
        EXPECT_TRUE(std::all_of(into.mapping.data(), into.mapping.data() + size,
                                [](std::byte b) { return b == std::byte{}; }));
    }
    EXPECT_EQ(owner.slot.tx.mapped_bytes.get(), 0u);
}

} // namespace
} // namespace comch::link::soft::test
