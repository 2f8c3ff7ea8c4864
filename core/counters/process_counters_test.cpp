#include "core/counters/process_counters.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/device/test_support.hpp"

namespace comch {
namespace {

using counters::SlotState;

class ProcessCountersTest : public ::testing::Test {
protected:
    std::shared_ptr<Domain> open_domain() {
        const test::CleanEnvironment clean;
        return Domain::open({.directory = directory_ / "domain", .description_file = {}}).value();
    }
    /// Names in the domain's directory, without the domain's own.
    std::vector<std::string> files() {
        std::vector<std::string> names;
        const auto entries = domain->list_entries("").value();
        for (const std::string& name : entries) {
            if (!name.starts_with("domain.")) {
                names.push_back(name);
            }
        }
        return names;
    }
    void leave(const std::string& name) {
        const UniqueFd fd(
            ::openat(domain->directory_fd(), name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        ASSERT_TRUE(fd);
    }
    /// Runs `body` in a child; it is waited for. The child's own expectations count.
    template <class F> void in_child(F body) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            body();
            ::_exit(::testing::Test::HasFailure() ? 1 : 0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(pid, &status, 0), pid);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    /// A process that has the counters open and is then killed with SIGKILL, together with what it
    /// left. `grandchild`: it has forked another that lives on.
    std::string killed_process(bool grandchild = false) {
        int ends[2] = {-1, -1};
        EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
        const UniqueFd read_end(ends[0]);
        UniqueFd write_end(ends[1]);
        const pid_t pid = ::fork();
        if (pid == 0) {
            const auto counters = ProcessCounters::open(open_domain()).value();
            const std::string suffix = process_suffix(process_id());
            leave("port." + suffix + ".1");
            leave("service." + suffix + ".2");
            (void)::symlinkat(("service." + suffix + ".2").c_str(), domain->directory_fd(),
                              ("name.00000001." + std::string(32, 'a')).c_str());
            pid_t other = 0;
            if (grandchild) {
                other = ::fork();
                if (other == 0) {
                    for (;;) {
                        ::pause();
                    }
                }
            }
            (void)!::write(write_end.get(), suffix.data(), 16);
            (void)!::write(write_end.get(), &other, sizeof(other));
            for (;;) {
                ::pause();
            }
        }
        write_end.reset();
        std::string suffix(16, ' ');
        EXPECT_EQ(::read(read_end.get(), suffix.data(), 16), 16);
        EXPECT_EQ(::read(read_end.get(), &grandchild_, sizeof(grandchild_)),
                  static_cast<ssize_t>(sizeof(grandchild_)));
        EXPECT_TRUE(process_lives(*domain, suffix));
        ::kill(pid, SIGKILL);
        (void)::waitpid(pid, nullptr, 0);
        return suffix;
    }
    ~ProcessCountersTest() override {
        if (grandchild_ > 0) {
            ::kill(grandchild_, SIGKILL);
        }
    }

    const counters::File& read(const std::string& suffix = process_suffix(process_id())) {
        const UniqueFd fd(
            ::openat(domain->directory_fd(), ("counters." + suffix).c_str(), O_RDONLY | O_CLOEXEC));
        EXPECT_TRUE(fd);
        void* const at =
            ::mmap(nullptr, sizeof(counters::File), PROT_READ, MAP_SHARED, fd.get(), 0);
        EXPECT_NE(at, MAP_FAILED);
        mappings_.emplace_back(static_cast<std::byte*>(at), sizeof(counters::File));
        return *static_cast<const counters::File*>(at);
    }

    test::TempDir directory_;
    std::vector<Mapping> mappings_;
    pid_t grandchild_ = -1;

protected:
    std::shared_ptr<Domain> domain = open_domain();
};

TEST_F(ProcessCountersTest, FilesAreThereWhileSomebodyHoldsThem) {
    const std::string suffix = process_suffix(process_id());
    {
        const auto one = ProcessCounters::open(domain).value();
        const auto two = ProcessCounters::open(open_domain()).value();
        EXPECT_EQ(one, two) << "one per process and domain";
        EXPECT_EQ(files(), (std::vector<std::string>{"alive." + suffix, "counters." + suffix}));
        EXPECT_TRUE(process_lives(*domain, suffix));
    }
    EXPECT_TRUE(files().empty());
}

TEST_F(ProcessCountersTest, SaysWhoItIs) {
    const auto counters = ProcessCounters::open(domain).value();
    const counters::FileHeader& header = read().header;
    EXPECT_EQ(header.magic, counters::magic);
    EXPECT_EQ(header.version, counters::version);
    EXPECT_EQ(header.slot_count, counters::max_slots);
    EXPECT_EQ(header.pid, static_cast<std::uint64_t>(::getpid()));
    EXPECT_EQ(header.process_id, process_id());
    EXPECT_GT(header.start_time_ns, 1'600'000'000u * std::uint64_t{1'000'000'000});
    EXPECT_STRNE(header.program, "");
    EXPECT_EQ(std::string(header.program).find('\n'), std::string::npos);
}

TEST_F(ProcessCountersTest, OthersSeeThatAProcessLivesAndThatItDied) {
    const auto counters = ProcessCounters::open(domain).value();
    const std::string ours = process_suffix(process_id());
    in_child([&] { EXPECT_TRUE(process_lives(*open_domain(), ours)); });
    const std::string theirs = killed_process();
    EXPECT_FALSE(process_lives(*domain, theirs));
    EXPECT_FALSE(process_lives(*domain, "0123456789abcdef")) << "never was";
    in_child(
        [&] { EXPECT_TRUE(process_lives(*open_domain(), ours)) << "asking took no lock away"; });
}

TEST_F(ProcessCountersTest, AForkedChildDoesNotKeepTheDeadAlive) {
    const std::string suffix = killed_process(true);
    // The child lets go as soon as it runs, which may be after its parent's death.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (process_lives(*domain, suffix) && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
    }
    EXPECT_FALSE(process_lives(*domain, suffix));
    const auto counters = ProcessCounters::open(domain).value();
    EXPECT_EQ(files().size(), 2u) << "only our own";
}

TEST_F(ProcessCountersTest, AProcessWithoutDescriptorsTakesNobodyForDead) {
    const std::string ours = process_suffix(process_id());
    const auto counters = ProcessCounters::open(domain).value();
    in_child([&] {
        const auto mine = open_domain();
        rlimit limit{3, 3};
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
        EXPECT_LT(::open("/dev/null", O_RDONLY), 0);
        EXPECT_TRUE(process_lives(*mine, ours));
    });
}

TEST_F(ProcessCountersTest, TheNextOpenerRemovesWhatTheDeadLeft) {
    const std::string first = killed_process();
    EXPECT_EQ(files().size(), 5u);
    (void)killed_process();
    EXPECT_EQ(files().size(), 5u) << "the second has removed what the first left";
    for (const std::string& name : files()) {
        EXPECT_EQ(name.find(first), std::string::npos) << name;
    }
    leave("not-ours");
    const auto counters = ProcessCounters::open(domain).value();
    const std::string suffix = process_suffix(process_id());
    EXPECT_EQ(files(),
              (std::vector<std::string>{"alive." + suffix, "counters." + suffix, "not-ours"}));
}

TEST_F(ProcessCountersTest, NothingOfTheLivingIsRemoved) {
    const auto counters = ProcessCounters::open(domain).value();
    const std::string suffix = process_suffix(process_id());
    leave("port." + suffix + ".1");
    auto before = files();
    in_child([&] {
        const auto theirs = ProcessCounters::open(open_domain()).value();
        for (const std::string& name : before) {
            EXPECT_EQ(std::ranges::count(files(), name), 1) << name;
        }
        EXPECT_EQ(files().size(), before.size() + 2);
    });
    // The child ended with _exit: what it left is collected by the next to open.
    in_child([&] {
        const auto theirs = ProcessCounters::open(open_domain()).value();
        EXPECT_EQ(files().size(), before.size() + 2);
    });
    EXPECT_TRUE(process_lives(*domain, suffix));
}

TEST_F(ProcessCountersTest, AForkedChildLeavesItsParentsFilesAlone) {
    auto counters = ProcessCounters::open(domain).value();
    const auto before = files();
    in_child([&] {
        counters.reset();
        EXPECT_EQ(files(), before);
        const auto own = ProcessCounters::open(domain).value();
        EXPECT_EQ(files().size(), before.size() + 2);
    });
    EXPECT_TRUE(process_lives(*domain, process_suffix(process_id())));
}

TEST_F(ProcessCountersTest, AnotherCopyOfThisLibraryInTheProcessLives) {
    // As UCX's module and libfabric's provider have in one MPI program: each draws an id of its
    // own.
    const std::string other(16, 'a');
    UniqueFd alive(::openat(domain->directory_fd(), ("alive." + other).c_str(),
                            O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    ASSERT_EQ(::fcntl(alive.get(), F_OFD_SETLK, &lock), 0);
    leave("port." + other + ".1");
    {
        const auto counters = ProcessCounters::open(domain).value();
        EXPECT_TRUE(process_lives(*domain, other));
        EXPECT_EQ(files().size(), 4u) << "what the other copy has is not collected";
        // The other copy looks at us in turn, and closes the file that it has looked at.
        leave("alive." + process_suffix(process_id()));
        const std::string ours = process_suffix(process_id());
        in_child([&] { EXPECT_TRUE(process_lives(*domain, ours)); });
    }
    alive.reset();
    EXPECT_FALSE(process_lives(*domain, other));
}

TEST_F(ProcessCountersTest, AFullDirectoryIsAnErrorAndKillsNobody) {
    in_child([&] {
        const std::string small = directory_ / "small";
        ASSERT_EQ(::mkdir(small.c_str(), 0700), 0);
        if (::unshare(CLONE_NEWNS) != 0) {
            ASSERT_EQ(::unshare(CLONE_NEWUSER | CLONE_NEWNS), 0);
        }
        ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
        ASSERT_EQ(::mount("comch-test", small.c_str(), "tmpfs", 0, "size=64k,mode=700"), 0);
        const auto open_small = [&] {
            const test::CleanEnvironment clean;
            return Domain::open({.directory = small, .description_file = {}}).value();
        };
        const auto full = open_small();
        const auto counters = ProcessCounters::open(full).value();
        const UniqueFd filler(::openat(full->directory_fd(), "filler", O_RDWR | O_CREAT, 0600));
        const std::vector<char> page(4096);
        while (::write(filler.get(), page.data(), page.size()) > 0) {
        }
        ASSERT_EQ(errno, ENOSPC);
        counters::Slot* last = nullptr;
        for (int i = 0; i < 100; ++i) {
            last = counters->take_slot({.peer = "somebody"});
            last->tx.messages.add(1);
        }
        EXPECT_EQ(last->tx.messages.get() > 1, true)
            << "there is room for all, so nothing is tested";
        // Whoever comes now hears why it cannot.
        in_child([&] {
            const auto refused = ProcessCounters::open(open_small());
            ASSERT_FALSE(refused);
            EXPECT_EQ(refused.error().code, Errc::no_memory);
            EXPECT_NE(refused.error().message.find(small), std::string::npos)
                << refused.error().message;
        });
    });
}

TEST_F(ProcessCountersTest, TwoDirectoriesOfOneDomainHaveTheirOwn) {
    const std::string description = directory_ / "named.toml";
    {
        std::ofstream file(description);
        file << "[domain]\nname = \"one-of-two\"\n[dpu]\nname = \"dpu0\"\npci = \"03:00.0\"\n"
                "[[host]]\nname = \"pf0\"\nkind = \"PF\"\npci = \"3b:00.0\"\n";
    }
    const auto open_named = [&](const char* name) {
        const test::CleanEnvironment clean;
        return Domain::open({.directory = directory_ / name, .description_file = description})
            .value();
    };
    const auto first = open_named("first");
    const auto second = open_named("second");
    ASSERT_EQ(first->id().to_string(), second->id().to_string());
    const auto in_first = ProcessCounters::open(first).value();
    const auto in_second = ProcessCounters::open(second).value();
    const std::string suffix = process_suffix(process_id());
    in_child([&] {
        EXPECT_TRUE(process_lives(*first, suffix));
        EXPECT_TRUE(process_lives(*second, suffix));
    });
}

TEST_F(ProcessCountersTest, OddFilesDoNoHarm) {
    leave("alive.");
    leave("alive.x");
    leave("alive.0123456789abcdeg");
    ASSERT_EQ(::symlinkat("/etc/passwd", domain->directory_fd(), "alive.00000000000000aa"), 0);
    ASSERT_EQ(::mkdirat(domain->directory_fd(), "alive.00000000000000bb", 0700), 0);
    ASSERT_EQ(::mkfifoat(domain->directory_fd(), "alive.00000000000000cc", 0600), 0);
    EXPECT_TRUE(ProcessCounters::open(domain).has_value());
    EXPECT_EQ(::access("/etc/passwd", F_OK), 0);
}

TEST_F(ProcessCountersTest, SlotsAreGivenBackAndTheirSumsStay) {
    const auto counters = ProcessCounters::open(domain).value();
    std::vector<counters::Slot*> slots;
    std::set<counters::Slot*> different;
    for (unsigned i = 0; i < counters::max_slots; ++i) {
        slots.push_back(counters->take_slot());
        different.insert(slots.back());
        slots.back()->tx.messages.add(2);
        slots.back()->rx.bytes.add(3);
        slots.back()->tx.buffer_stalls.add(1);
        slots.back()->rx.wakeups.add(1);
        std::memcpy(slots.back()->face, "old", 4);
        slots.back()->state.store(static_cast<std::uint32_t>(SlotState::connected));
    }
    EXPECT_EQ(different.size(), counters::max_slots);
    counters::Slot* const shared = counters->take_slot();
    EXPECT_EQ(shared, counters->take_slot()) << "beyond the last one they share";
    EXPECT_EQ(different.count(shared), 0u);
    counters->release_slot(shared, SlotState::closed);
    EXPECT_EQ(counters->take_slot(), shared);

    counters->release_slot(slots[17], SlotState::failed);
    const counters::File& file = read();
    EXPECT_EQ(file.slots[17].state.load(), static_cast<std::uint32_t>(SlotState::failed));
    EXPECT_EQ(file.slots[17].tx.messages.get(), 2u) << "to be read until it is taken again";
    EXPECT_EQ(file.header.closed_tx.messages.get(), 0u);
    counters::Slot* const again = counters->take_slot();
    EXPECT_EQ(again, slots[17]);
    EXPECT_EQ(again->tx.messages.get(), 0u);
    EXPECT_EQ(again->rx.wakeups.get(), 0u);
    EXPECT_STREQ(again->face, "");
    EXPECT_EQ(again->connection, 0u);
    EXPECT_EQ(file.header.closed_tx.messages.get(), 2u);
    EXPECT_EQ(file.header.closed_tx.buffer_stalls.get(), 1u);
    EXPECT_EQ(file.header.closed_rx.bytes.get(), 3u);
    EXPECT_EQ(file.header.closed_rx.wakeups.get(), 1u);
    std::uint64_t total = file.header.closed_tx.messages.get();
    for (const counters::Slot& slot : file.slots) {
        total += slot.tx.messages.get();
    }
    EXPECT_EQ(total, 2u * counters::max_slots);
}

TEST_F(ProcessCountersTest, ASlotSaysWhoseItIs) {
    const auto counters = ProcessCounters::open(domain).value();
    const std::string name = "a name that is longer than a slot";
    counters::Slot* const slot = counters->take_slot({.kind = counters::SlotKind::channel,
                                                      .face = "a long face",
                                                      .peer = name,
                                                      .local_side = Side::dpu,
                                                      .connection = 17});
    EXPECT_EQ(slot->state.load(), static_cast<std::uint32_t>(SlotState::connecting));
    EXPECT_EQ(slot->kind, static_cast<std::uint32_t>(counters::SlotKind::channel));
    EXPECT_EQ(slot->local_side, 1u);
    EXPECT_EQ(slot->connection, 17u);
    EXPECT_STREQ(slot->face, "a long ") << "cut, and with its end";
    EXPECT_EQ(slot->peer, name.substr(0, 23));
    slot->tx.messages.add(4);
    counters->describe_slot(slot, {.state = SlotState::connected,
                                   .peer = "b",
                                   .peer_side = Side::dpu,
                                   .peer_pid = 99,
                                   .connection = 17});
    EXPECT_EQ(slot->state.load(), static_cast<std::uint32_t>(SlotState::connected));
    EXPECT_STREQ(slot->peer, "b");
    EXPECT_EQ(slot->peer_side, 1u);
    EXPECT_EQ(slot->peer_pid, 99u);
    EXPECT_EQ(slot->tx.messages.get(), 4u);
}

TEST_F(ProcessCountersTest, ThreadsTakeSlotsOfTheirOwn) {
    const auto counters = ProcessCounters::open(domain).value();
    std::vector<std::thread> threads;
    for (unsigned n = 0; n < 3; ++n) {
        threads.emplace_back([&] {
            for (unsigned i = 0; i < 2000; ++i) {
                counters::Slot* const slot = counters->take_slot();
                slot->tx.messages.add(1);
                slot->rx.messages.add(1);
                counters->release_slot(slot, SlotState::closed);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    const counters::File& file = read();
    std::uint64_t total = file.header.closed_tx.messages.get();
    for (const counters::Slot& slot : file.slots) {
        total += slot.tx.messages.get();
    }
    EXPECT_EQ(total, 6000u);
}

TEST_F(ProcessCountersTest, OpeningAndClosingFromThreadsKeepsTheFiles) {
    // The last holder in one thread lets go while another thread opens: whoever holds it has files.
    std::vector<std::thread> threads;
    const std::string suffix = process_suffix(process_id());
    for (unsigned n = 0; n < 3; ++n) {
        threads.emplace_back([&] {
            for (unsigned i = 0; i < 200; ++i) {
                const auto counters = ProcessCounters::open(domain);
                ASSERT_TRUE(counters.has_value()) << counters.error().message;
                ASSERT_EQ(::faccessat(domain->directory_fd(), ("alive." + suffix).c_str(), F_OK, 0),
                          0);
                ASSERT_EQ(
                    ::faccessat(domain->directory_fd(), ("counters." + suffix).c_str(), F_OK, 0),
                    0);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_TRUE(files().empty());
}

} // namespace
} // namespace comch
