// Jobs that copy to and from another process, which has sent the description of its memory over a Comm
// Channel: both directions, both forms of maps, sleeping meanwhile, and the other one killed.
#include <cstdlib>
#include <functional>

#include <csignal>

#include "doca_comch/workq/test_support.hpp"

namespace comch::doca::test {
namespace {

constexpr std::size_t size = 300'000;

/// Where memory is, told to the other side.
struct Place {
    std::uint64_t address;
    std::uint64_t length;
};

std::string_view bytes_of(const Place& place) {
    return {reinterpret_cast<const char*>(&place), sizeof(place)};
}

/// Of memory that the other side writes. The library's thread that does it for a soft device is told to by
/// another process, which the thread sanitizer does not see: this is not for it to watch.
__attribute__((no_sanitize("thread"))) bool same(const volatile char* a, const volatile char* b,
                                                 std::size_t length) {
    for (std::size_t i = 0; i < length; ++i) {
        if (a[i] != b[i]) {
            return false;
        }
    }
    return true;
}

/// How the owner of memory makes its map, and describes it.
enum class Form { range, populated };

/// A map whose description is `exported`, and which is destroyed with this.
struct Exported {
    doca_mmap* mmap = nullptr;
    std::string exported;

    Exported(doca_dev* dev, std::vector<char>& bytes, Form form, std::uint32_t access) {
        std::size_t length = 0;
        if (form == Form::range) {
            const void* description = nullptr;
            EXPECT_OK(doca_mmap_create(NULL, &mmap));
            EXPECT_OK(doca_mmap_dev_add(mmap, dev));
            EXPECT_OK(doca_mmap_set_permissions(mmap, access));
            EXPECT_OK(doca_mmap_set_memrange(mmap, bytes.data(), bytes.size()));
            EXPECT_OK(doca_mmap_start(mmap));
            EXPECT_OK(doca_mmap_export_dpu(mmap, dev, &description, &length));
            exported.assign(static_cast<const char*>(description), length);
        } else {
            char* description = nullptr;
            EXPECT_OK(doca_mmap_create("a name", &mmap));
            EXPECT_OK(doca_mmap_start(mmap));
            EXPECT_OK(doca_mmap_dev_add(mmap, dev));
            EXPECT_OK(doca_mmap_populate(mmap, bytes.data(), bytes.size(), 4096, NULL, NULL));
            EXPECT_OK(doca_mmap_export(mmap, dev, (void**)&description, &length));
            exported.assign(description, length);
            std::free(description);
        }
    }
    ~Exported() { EXPECT_OK(doca_mmap_destroy(mmap)); }
    Exported(const Exported&) = delete;
    Exported& operator=(const Exported&) = delete;
};

/// Another process, on the other side, which owns memory, has sent its description, and waits for
/// messages: "end", to see whether the second half of its memory is what its first half was.
class Owner {
public:
    /// On the host, that is the client's side; or on the DPU.
    enum class Side { host, dpu };

    explicit Owner(Side side, Form form = Form::range,
                   std::uint32_t access = DOCA_ACCESS_DPU_READ_WRITE)
        : process([=, this] { return run(side, form, access); }) {
        lab.open();
        device = side == Side::host ? lab.dpu : lab.hosts.at(0);
        if (side == Side::host) {
            ep.emplace(lab.dpu, lab.representors.at(0));
            EXPECT_OK(doca_comm_channel_ep_listen(*ep, "memory"));
        } else {
            ep.emplace(lab.hosts.at(0));
            EXPECT_TRUE(eventually([&] { return ep->connect("memory") == DOCA_SUCCESS; }));
            EXPECT_TRUE(eventually([&] { return ep->update() == DOCA_SUCCESS; }));
            say("go on");
        }
        EXPECT_OK(ep->await());
        EXPECT_OK(doca_mmap_create_from_export(NULL, ep->text.data(), ep->text.size(), device,
                                               &imported));
        EXPECT_OK(ep->await());
        Place place{};
        EXPECT_EQ(ep->text.size(), sizeof(place));
        std::memcpy(&place, ep->text.data(), std::min(sizeof(place), ep->text.size()));
        address = reinterpret_cast<char*>(place.address);
        EXPECT_EQ(place.length, size);
    }
    ~Owner() { EXPECT_OK(doca_mmap_destroy(imported)); }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;

    static std::vector<char> content() { return uneven(size, 99); }

    void say(std::string_view what) {
        doca_comm_channel_addr_t* const to = ep->peer != nullptr ? ep->peer : ep->from;
        EXPECT_TRUE(eventually([&] { return ep->send(what, to) != DOCA_ERROR_AGAIN; }));
    }
    /// Its exit code: 0 if it found what it should.
    int end() {
        say("end");
        return process.wait();
    }

    Lab lab;
    Process process;
    std::optional<Ep> ep;
    doca_dev* device = nullptr; ///< of this side
    doca_mmap* imported = nullptr;
    char* address = nullptr; ///< the owner's

private:
    int run(Side side, Form form, std::uint32_t access) {
        lab.open();
        doca_dev* const own = side == Side::host ? lab.hosts.at(0) : lab.dpu;
        std::optional<Ep> channel;
        if (side == Side::host) {
            channel.emplace(own);
            eventually([&] { return channel->connect("memory") == DOCA_SUCCESS; });
            eventually([&] { return channel->update() == DOCA_SUCCESS; });
        } else {
            channel.emplace(own, lab.representors.at(0));
            (void)doca_comm_channel_ep_listen(*channel, "memory");
            (void)channel->await();
        }
        doca_comm_channel_addr_t* const to = side == Side::host ? channel->peer : channel->from;
        std::vector<char> bytes = content();
        const std::vector<char> half(bytes.begin(), bytes.begin() + size / 2);
        const Exported exported(own, bytes, form, access);
        const Place place{reinterpret_cast<std::uintptr_t>(bytes.data()), bytes.size()};
        for (const std::string_view what : {std::string_view(exported.exported), bytes_of(place)}) {
            eventually([&] { return channel->send(what, to) != DOCA_ERROR_AGAIN; });
        }
        if (channel->await() != DOCA_SUCCESS || channel->text != "end") {
            return 2;
        }
        return same(half.data(), bytes.data() + size / 2, size / 2) && !testing::Test::HasFailure()
                   ? 0
                   : 3;
    }
};

/// Reads the first half, and writes it to the second.
void move_the_half(Owner& owner) {
    const Dma dma(owner.device);
    const Queue queue(16);
    const Attached attached(dma, queue);
    const std::vector<char> content = Owner::content();
    std::vector<char> here(size / 2);
    const Map local(owner.device, here);
    ASSERT_OK(copy(dma, queue, owner.imported, owner.address, local.mmap, here.data(), size / 2));
    ASSERT_TRUE(std::equal(here.begin(), here.end(), content.begin()));
    ASSERT_OK(copy(dma, queue, local.mmap, here.data(), owner.imported, owner.address + size / 2,
                   size / 2));
    EXPECT_EQ(
        copy(dma, queue, owner.imported, owner.address, owner.imported, owner.address + 4096, 64),
        DOCA_ERROR_NOT_SUPPORTED);
}

TEST(DocaWorkqPeers, TheDpuReadsAndWritesTheHostsMemory) {
    Owner owner(Owner::Side::host);
    move_the_half(owner);
    EXPECT_EQ(owner.end(), 0);
}

TEST(DocaWorkqPeers, TheHostReadsAndWritesTheDpusMemory) {
    Owner owner(Owner::Side::dpu);
    move_the_half(owner);
    EXPECT_EQ(owner.end(), 0);
}

TEST(DocaWorkqPeers, TheDpuReadsAndWritesMemoryThatTheHostPopulated) {
    Owner owner(Owner::Side::host, Form::populated);
    move_the_half(owner);
    EXPECT_EQ(owner.end(), 0);
}

TEST(DocaWorkqPeers, AQueueIsHandedFromThreadToThread) {
    const Owner owner(Owner::Side::host);
    const Dma dma(owner.device);
    const Queue queue(4);
    const Attached attached(dma, queue); // by this thread, which takes it off again
    std::vector<char> here(size);
    const Map local(owner.device, here);
    for (int i = 0; i < 3; ++i) {
        std::fill(here.begin(), here.end(), '\0');
        std::thread([&] {
            EXPECT_OK(
                copy(dma, queue, owner.imported, owner.address, local.mmap, here.data(), size));
        }).join();
        EXPECT_EQ(here, Owner::content());
    }
}

TEST(DocaWorkqPeers, AReadOnlyMapIsNotWritten) {
    const Owner owner(Owner::Side::host, Form::range, DOCA_ACCESS_DPU_READ_ONLY);
    const Dma dma(owner.device);
    const Queue queue(16);
    const Attached attached(dma, queue);
    std::vector<char> here(64);
    const Map local(owner.device, here);
    EXPECT_OK(copy(dma, queue, owner.imported, owner.address, local.mmap, here.data(), 64));
    EXPECT_EQ(copy(dma, queue, local.mmap, here.data(), owner.imported, owner.address, 64),
              DOCA_ERROR_NOT_PERMITTED);
}

TEST(DocaWorkqPeers, ManyCopiesAreSleptFor) {
    const Owner owner(Owner::Side::host);
    const Dma dma(owner.device);
    const Queue queue(8);
    ASSERT_OK(doca_workq_set_event_driven_enable(queue.workq, 1));
    const Attached attached(dma, queue);
    doca_event_handle_t handle = doca_event_invalid_handle;
    ASSERT_OK(doca_workq_get_event_handle(queue.workq, &handle));
    constexpr std::size_t piece = 1500;
    std::vector<char> here(size);
    const Map local(owner.device, here);
    Buffers buffers(2 * size / piece);
    std::size_t submitted = 0;
    std::vector<int> told(size / piece);
    for (std::size_t retrieved = 0; retrieved != told.size();) {
        for (; submitted != told.size(); ++submitted) {
            const std::size_t at = submitted * piece;
            doca_buf* const from = buffers.data(owner.imported, owner.address + at, piece);
            doca_buf* const to = buffers.room(local.mmap, here.data() + at, piece);
            const doca_error_t result = dma.submit(queue, from, to, submitted);
            if (result == DOCA_ERROR_NO_MEMORY) {
                for (doca_buf* const buf : {from, to}) {
                    EXPECT_OK(doca_buf_refcount_rm(buf, NULL));
                    buffers.taken.pop_back();
                }
                break;
            }
            ASSERT_OK(result);
        }
        ASSERT_OK(doca_workq_event_handle_arm(queue.workq));
        ASSERT_TRUE(wakes(handle));
        ASSERT_OK(doca_workq_event_handle_clear(queue.workq, handle));
        doca_event event{};
        doca_error_t result = DOCA_SUCCESS;
        while ((result = doca_workq_progress_retrieve(queue.workq, &event, 0)) !=
               DOCA_ERROR_AGAIN) {
            ASSERT_OK(result);
            ++told.at(event.user_data.u64);
            ++retrieved;
        }
    }
    EXPECT_EQ(told, std::vector<int>(told.size(), 1));
    EXPECT_EQ(here, Owner::content());
}

TEST(DocaWorkqPeers, AKilledOwnerIsAnEventWithAnError) {
    Owner owner(Owner::Side::host);
    const Dma dma(owner.device);
    const Queue queue(8);
    ASSERT_OK(doca_workq_set_event_driven_enable(queue.workq, 1));
    ASSERT_OK(doca_ctx_workq_add(dma.ctx, queue.workq));
    doca_event_handle_t handle = doca_event_invalid_handle;
    ASSERT_OK(doca_workq_get_event_handle(queue.workq, &handle));
    std::vector<char> here(size);
    const Map local(owner.device, here);
    Buffers buffers;
    ASSERT_OK(copy(dma, queue, owner.imported, owner.address, local.mmap, here.data(), size));

    // Nothing of it does anything any more, so that copies stay under way.
    owner.process.freeze();
    doca_buf* const from = buffers.data(owner.imported, owner.address, size);
    std::vector<int> told(4);
    for (std::size_t i = 0; i < told.size(); ++i) {
        ASSERT_OK(dma.submit(queue, from, buffers.room(local.mmap, here.data(), size), i));
    }
    queue.is_empty();
    EXPECT_EQ(doca_ctx_workq_rm(dma.ctx, queue.workq), DOCA_ERROR_NOT_PERMITTED);
    ASSERT_OK(doca_workq_event_handle_arm(queue.workq));
    owner.process.kill();
    EXPECT_TRUE(wakes(handle));
    doca_event event{};
    for (std::size_t i = 0; i < told.size(); ++i) {
        EXPECT_EQ(queue.next(event), DOCA_ERROR_IO_FAILED);
        EXPECT_EQ(event.type, DOCA_DMA_JOB_MEMCPY);
        EXPECT_NE(event.result.u64, std::uint64_t{DOCA_SUCCESS});
        ++told.at(event.user_data.u64);
    }
    EXPECT_EQ(told, std::vector<int>(4, 1));

    // What is submitted now is taken, and told of in the same way.
    for (int i = 0; i < 3; ++i) {
        doca_buf* const room = buffers.room(local.mmap, here.data(), size);
        ASSERT_OK(dma.submit(queue, from, room, 5));
        EXPECT_EQ(queue.next(event), DOCA_ERROR_IO_FAILED);
        EXPECT_EQ(event.user_data.u64, 5u);
        EXPECT_TRUE(event.result.u64 == DOCA_ERROR_CONNECTION_RESET ||
                    event.result.u64 == DOCA_ERROR_NOT_FOUND)
            << event.result.u64;
        EXPECT_EQ(data_length(room), 0u);
    }
    EXPECT_OK(copy(dma, queue, local.mmap, here.data(), local.mmap, here.data() + 4096, 64));
    EXPECT_OK(doca_ctx_workq_rm(dma.ctx, queue.workq));
}

TEST(DocaWorkqPeers, AProgramThatPopulatesWritesWhereTheDataBegins) {
    // In a process of its own: it is of that time from then on.
    Lab lab;
    Process process([&] {
        lab.open();
        std::vector<char> from = uneven(100);
        std::vector<char> to(1000);
        doca_mmap* mmap = nullptr;
        EXPECT_OK(doca_mmap_create(NULL, &mmap));
        EXPECT_OK(doca_mmap_set_max_num_chunks(mmap, 2));
        EXPECT_OK(doca_mmap_start(mmap));
        EXPECT_OK(doca_mmap_dev_add(mmap, lab.dpu));
        EXPECT_OK(doca_mmap_populate(mmap, from.data(), from.size(), 4096, NULL, NULL));
        EXPECT_OK(doca_mmap_populate(mmap, to.data(), to.size(), 4096, NULL, NULL));
        {
            const Dma dma(lab.dpu);
            const Queue queue(16);
            const Attached attached(dma, queue);
            Buffers buffers;
            doca_buf* const source = buffers.data(mmap, from.data(), from.size());
            doca_buf* const room = buffers.room(mmap, to.data(), to.size());
            const doca_dma_job_memcpy job = dma.job(source, room);
            for (int i = 0; i < 16; ++i) { // the same job, all at once
                EXPECT_OK(doca_workq_submit(queue.workq, &job.base));
            }
            for (int i = 0; i < 16; ++i) {
                doca_event event{};
                EXPECT_OK(queue.next(event));
            }
            EXPECT_EQ(data_length(room), from.size());
            EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
            EXPECT_EQ(std::count(to.begin() + 100, to.end(), '\0'), 900);
        }
        EXPECT_OK(doca_mmap_destroy(mmap));
        return testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(process.wait(), 0);
}

} // namespace
} // namespace comch::doca::test
