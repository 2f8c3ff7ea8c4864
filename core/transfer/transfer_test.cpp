// Memory that is reached without its program's help, and what unfriendly peers make of that.
#include <csignal>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/test_sandbox.hpp"
#include "core/channel/test_support.hpp"
#include "core/link/soft/port.hpp"
#include "core/memory/region_key.hpp"
#include "core/transfer/client.hpp"
#include "core/transfer/descriptor.hpp"
#include "core/transfer/service.hpp"

/// A forked child whose parent had threads may find the address sanitizer's allocator locked for ever,
/// which its search for leaks at the end would wait for.
static bool look_for_leaks = true;
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() {
    return look_for_leaks ? 0 : 1;
}

namespace comch::transfer {
namespace {

using channel::test::Lab;
using channel::test::make_engine;
using channel::test::patience;

/// Copies one thing at a time, and waits for it.
struct Copier {
    struct Operation {
        std::optional<Errc> status;
    };

    std::unique_ptr<ProgressEngine> engine = make_engine();
    std::unique_ptr<Client> client;

    explicit Copier(const Device& device)
        : client(*Client::open(*engine, device, [](void* cookie, Errc status) {
              static_cast<Operation*>(cookie)->status = status;
          })) {}

    [[nodiscard]] Errc read(const ImportedMemory& from, void* to, std::size_t size,
                            std::size_t offset = 0) {
        return finish([&](Operation& operation) {
            return client->read({*from.map, from.service, from.map->address() + offset}, to, size,
                                &operation);
        });
    }
    [[nodiscard]] Errc write(const ImportedMemory& to, const void* from, std::size_t size) {
        return finish([&](Operation& operation) {
            return client->write({*to.map, to.service, to.map->address()}, from, size, &operation);
        });
    }
    template <class Begin> [[nodiscard]] Errc finish(Begin&& begin) {
        Operation operation;
        const auto deadline = std::chrono::steady_clock::now() + patience;
        Errc result = begin(operation);
        while (result == Errc::again && std::chrono::steady_clock::now() < deadline) {
            (void)engine->progress();
            result = begin(operation);
        }
        if (result != Errc::in_progress) {
            return result;
        }
        while (!operation.status && std::chrono::steady_clock::now() < deadline) {
            (void)engine->progress();
        }
        EXPECT_TRUE(operation.status.has_value()) << "never done";
        return operation.status.value_or(Errc::io);
    }
};

struct Exported {
    std::vector<char> bytes;
    std::unique_ptr<MemoryMap> map;
    std::vector<std::byte> descriptor;

    Exported(const Device& device, std::size_t size, std::uint32_t permissions) : bytes(size) {
        std::iota(bytes.begin(), bytes.end(), char{1});
        map = *MemoryMap::create(std::as_writable_bytes(std::span(bytes)), permissions);
        descriptor = *export_memory(device, *map);
    }
    [[nodiscard]] ImportedMemory import() const {
        auto memory = import_memory(descriptor);
        EXPECT_TRUE(memory.has_value());
        return std::move(*memory);
    }
};

// First, while this process has no other threads: sanitizers want that of one that forks.
TEST(Transfer, AForkedChildOfAnExporterEndsAsItShould) {
    // In a process of its own, since it is about how one ends. It leaves its directory behind.
    const test::TempDir around;
    const test::ScopedEnvironment environment({{"TMPDIR", around / ""}});
    const pid_t child = fork();
    if (child == 0) {
        const Lab lab(false);
        const Exported exported(lab.hosts[0], 4096, peer_read);
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            look_for_leaks = false;
            std::exit(0); // does not wait for its parent's thread
        }
        int status = -1;
        waitpid(grandchild, &status, 0);
        std::exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Transfer, WithoutAThreadToServeItMemoryIsNotExported) {
    const pid_t child = fork();
    if (child == 0) {
        look_for_leaks = false;
        const Lab lab(false);
        comch::test::forbid_calls({SYS_clone3, SYS_clone}, EAGAIN); // for threads
        const auto refused = serve_memory(lab.hosts[0]);
        EXPECT_FALSE(refused);
        if (!refused) {
            EXPECT_EQ(refused.error().code, Errc::no_memory);
        }
        sigset_t blocked;
        EXPECT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &blocked), 0);
        EXPECT_EQ(sigismember(&blocked, SIGTERM), 0) << "the program's signals are blocked";
        ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Transfer, ReadsAndWritesWhatIsGranted) {
    const Lab lab(false);
    Exported exported(lab.hosts[0], 1 << 20, local_write | peer_read | peer_write);
    Copier copier(*lab.dpu);
    const ImportedMemory memory = exported.import();
    std::vector<char> here(exported.bytes.size());
    EXPECT_EQ(copier.read(memory, here.data(), here.size()), Errc::ok);
    EXPECT_EQ(here, exported.bytes);
    std::vector<char> other(exported.bytes.size(), 'w');
    EXPECT_EQ(copier.write(memory, other.data(), other.size()), Errc::ok);
    EXPECT_EQ(exported.bytes, other);
    EXPECT_EQ(*export_memory(lab.hosts[0], *exported.map), exported.descriptor);
}

TEST(Transfer, AnExportThatEndedIsReachedNoMore) {
    const Lab lab(false);
    Exported exported(lab.hosts[0], 4096, local_write | peer_read | peer_write);
    Copier copier(*lab.dpu);
    const ImportedMemory memory = exported.import();
    std::vector<char> here(64);
    EXPECT_EQ(copier.read(memory, here.data(), here.size()), Errc::ok);
    exported.map.reset();
    EXPECT_EQ(copier.read(memory, here.data(), here.size()), Errc::not_permitted);
    const std::vector<char> before = exported.bytes;
    EXPECT_NE(copier.write(memory, "overwritten", 11), Errc::ok);
    EXPECT_EQ(exported.bytes, before);
}

TEST(Transfer, ForgedDescriptorsGainNothing) {
    const Lab lab(false);
    Exported exported(lab.hosts[0], 4096, peer_read);
    Copier copier(*lab.dpu);
    constexpr std::size_t permissions_at = 8;
    constexpr std::size_t key_at = 16;
    const auto forge = [&](auto&& change) {
        std::vector<std::byte> bytes = exported.descriptor;
        RegionKey key;
        std::uint32_t permissions = peer_read;
        std::memcpy(&key, bytes.data() + key_at, sizeof(key));
        change(permissions, key);
        std::memcpy(bytes.data() + permissions_at, &permissions, sizeof(permissions));
        std::memcpy(bytes.data() + key_at, &key, sizeof(key));
        auto memory = import_memory(bytes);
        EXPECT_TRUE(memory.has_value());
        return std::move(*memory);
    };
    std::vector<char> here(8192);
    const std::vector<char> before = exported.bytes;
    const auto writable = forge([](std::uint32_t& permissions, RegionKey& key) {
        permissions |= peer_write;
        key.access |= access_remote_write | access_remote_atomic;
    });
    EXPECT_NE(copier.write(writable, "overwritten", 11), Errc::ok);
    EXPECT_EQ(exported.bytes, before);
    const auto longer = forge([](std::uint32_t&, RegionKey& key) { key.length *= 2; });
    EXPECT_EQ(copier.read(longer, here.data(), 64, 4096), Errc::not_permitted);
    EXPECT_EQ(copier.read(longer, here.data(), 8192), Errc::not_permitted);
    const auto another = forge([](std::uint32_t&, RegionKey& key) { key.region ^= 1u << 25; });
    EXPECT_EQ(copier.read(another, here.data(), 64), Errc::not_permitted);
    EXPECT_EQ(here, std::vector<char>(8192));
    EXPECT_EQ(copier.read(exported.import(), here.data(), 64), Errc::ok);
}

TEST(Transfer, NonsenseIsNotImported) {
    const Lab lab(false);
    const Exported exported(lab.hosts[0], 4096, peer_read);
    for (std::size_t length = 0; length < exported.descriptor.size(); ++length) {
        EXPECT_FALSE(import_memory({exported.descriptor.data(), length}).has_value()) << length;
    }
    auto elsewhere = exported.descriptor;
    // Its end is the address of a port; nobody is at this one.
    elsewhere[elsewhere.size() - sizeof(link::PortAddress)] ^= std::byte{1};
    const auto memory = import_memory(elsewhere);
    ASSERT_TRUE(memory.has_value());
    Copier copier(*lab.dpu);
    std::vector<char> here(64);
    EXPECT_NE(copier.read(*memory, here.data(), here.size()), Errc::ok);
    const auto map = *MemoryMap::create(std::as_writable_bytes(std::span(here)), local_read);
    EXPECT_EQ(export_memory(lab.hosts[0], *map).error().code, Errc::not_permitted);
}

/// Connects to a memory service and does there what no client does.
struct Stranger {
    using Port = link::soft::Port;

    std::unique_ptr<Port> port;
    link::soft::Connection* connection;
    bool ended = false;

    Stranger(const Device& device, const link::PortAddress& service)
        : port(*Port::open(device, {.face = "test"})),
          connection(*port->connect(service, {}, nullptr)) {}

    link::ConnectDecision on_connect_request(link::soft::Connection&, const link::ConnectRequest&) {
        return {.code = Errc::rejected};
    }
    void on_connected(link::soft::Connection&, std::span<const std::byte>) {}
    void on_disconnected(link::soft::Connection&, link::Reason, std::span<const std::byte>) {
        ended = true;
    }
    void on_message(link::soft::Connection&, std::uint8_t, const std::byte*, std::uint32_t) {}
    void on_complete(link::soft::Connection&, void*, Errc) {}
    void on_channel(link::soft::Connection&, std::uint64_t, link::soft::Channel&&) {}

    [[nodiscard]] bool is_thrown_out() {
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (!ended && std::chrono::steady_clock::now() < deadline) {
            (void)port->progress(*this);
        }
        return ended;
    }
};

TEST(Transfer, StrangersAreThrownOutAndOthersServedOn) {
    const Lab lab(false);
    Exported exported(lab.hosts[0], 4096, peer_read);
    Copier copier(*lab.dpu);
    const ImportedMemory memory = exported.import();
    std::vector<char> here(64);
    EXPECT_EQ(copier.read(memory, here.data(), here.size()), Errc::ok);

    Stranger talker(*lab.dpu, memory.service);
    EXPECT_EQ(talker.connection->send(1, std::as_bytes(std::span(here))), Errc::ok);
    EXPECT_TRUE(talker.is_thrown_out());

    Stranger opener(*lab.dpu, memory.service);
    const auto channel = opener.connection->open_channel(7);
    EXPECT_TRUE(channel.has_value());
    EXPECT_TRUE(opener.is_thrown_out());

    EXPECT_EQ(copier.read(memory, here.data(), here.size()), Errc::ok);
}

} // namespace
} // namespace comch::transfer
