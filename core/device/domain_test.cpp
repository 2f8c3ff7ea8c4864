#include <comch/device.hpp>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/unique_fd.hpp"
#include "settings.hpp"
#include "test_support.hpp"

namespace comch {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class DomainTest : public testing::Test {
protected:
    test::CleanEnvironment environment_;
    test::TempDir temp_;

    std::shared_ptr<Domain> open_or_throw(const std::string& name = "dom") {
        auto domain = Domain::open({.directory = temp_ / name, .description_file = {}});
        if (!domain)
            throw std::runtime_error(domain.error().message);
        return *domain;
    }

    Error refused(const std::string& directory) {
        const auto domain = Domain::open({.directory = directory, .description_file = {}});
        EXPECT_FALSE(domain) << directory;
        return domain ? Error{Errc::ok, {}} : domain.error();
    }
};

TEST_F(DomainTest, CreatesThePrivateDirectory) {
    const auto domain = open_or_throw();
    struct stat status {};
    ASSERT_EQ(lstat((temp_ / "dom").c_str(), &status), 0);
    EXPECT_TRUE(S_ISDIR(status.st_mode));
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    EXPECT_EQ(domain->path(), temp_ / "dom");
    EXPECT_EQ(fcntl(domain->directory_fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST_F(DomainTest, TakesItsPlaceFromTheEnvironment) {
    {
        test::ScopedEnvironment set({{"COMCH_DOMAIN", temp_ / "env"}});
        const auto domain = Domain::open();
        ASSERT_TRUE(domain) << domain.error().message;
        EXPECT_EQ((*domain)->path(), temp_ / "env");
    }
    const std::string bare = fmt::format("unit-test-{}", getpid());
    const std::string expected = fmt::format("/dev/shm/comch-{}-{}", geteuid(), bare);
    test::ScopedEnvironment set({{"COMCH_DOMAIN", bare}});
    const auto domain = Domain::open();
    std::filesystem::remove_all(expected);
    ASSERT_TRUE(domain) << domain.error().message;
    EXPECT_EQ((*domain)->path(), expected);
}

TEST_F(DomainTest, RefusesNamesThatAreNeitherPathNorName) {
    for (const std::string name : {"a/b", "../x", ".", "..", "a b", "-x"}) {
        const auto error = refused(name);
        EXPECT_EQ(error.code, Errc::invalid_argument);
        EXPECT_THAT(error.message, HasSubstr("'" + name + "'"));
    }
    for (const std::string name : {"/", "//", "/tmp/.", "/tmp/.."})
        EXPECT_EQ(refused(name).code, Errc::invalid_argument) << name;
    EXPECT_EQ(refused(temp_ / "absent/dom").code, Errc::not_found);
}

TEST_F(DomainTest, ErrorsNameTheSettingAndItsValue) {
    test::write_file(temp_ / "file", "");
    const NamedSettings names({.domain = "--domain", .domain_file = "--domain-file"});
    for (const std::string& value : {std::string("a/b"), temp_ / "absent/dom", temp_ / "file"}) {
        EXPECT_THAT(refused(value).message, testing::StartsWith("--domain is '" + value + "'"));
        test::ScopedEnvironment set({{"COMCH_DOMAIN", value}});
        EXPECT_THAT(refused({}).message, testing::StartsWith("COMCH_DOMAIN is '" + value + "'"));
    }
    const std::string absent = temp_ / "absent.toml";
    const auto domain = Domain::open({temp_ / "dom", absent});
    ASSERT_FALSE(domain);
    EXPECT_THAT(domain.error().message, testing::StartsWith("--domain-file is '" + absent + "'"));
    test::ScopedEnvironment set({{"COMCH_DOMAIN_FILE", absent}});
    EXPECT_THAT(refused(temp_ / "dom").message,
                testing::StartsWith("COMCH_DOMAIN_FILE is '" + absent + "'"));
}

TEST_F(DomainTest, SettingsHaveTheirOldNamesAgainAfterwards) {
    {
        const NamedSettings names({.domain = "--domain"});
        const NamedSettings inner({.domain = "UCX_COMCH_DOMAIN"});
        EXPECT_THAT(refused("a/b").message, testing::StartsWith("UCX_COMCH_DOMAIN"));
    }
    EXPECT_THAT(refused("a/b").message, testing::StartsWith("the domain setting"));
}

TEST_F(DomainTest, DirectoriesAreFoundWithoutBeingMade) {
    const auto directory = domain_directory({.directory = temp_ / "dom/", .description_file = {}});
    ASSERT_TRUE(directory) << directory.error().message;
    EXPECT_EQ(directory->path, temp_ / "dom");
    EXPECT_FALSE(std::filesystem::exists(temp_ / "dom"));
    const auto named = domain_directory({.directory = "lab", .description_file = {}});
    ASSERT_TRUE(named);
    EXPECT_EQ(named->path, fmt::format("/dev/shm/comch-{}-lab", geteuid()));
    EXPECT_FALSE(domain_directory({.directory = "a/b", .description_file = {}}));
}

TEST_F(DomainTest, DoesNotFollowASymbolicLinkInItsPlace) {
    const auto target = open_or_throw("target");
    ASSERT_EQ(symlink((temp_ / "target").c_str(), (temp_ / "lure").c_str()), 0);
    for (const std::string spelling : {"lure", "lure/", "lure//", "lure/."}) {
        const auto error = refused(temp_ / spelling);
        if (spelling == "lure/.") {
            EXPECT_EQ(error.code, Errc::invalid_argument);
            continue;
        }
        EXPECT_EQ(error.code, Errc::not_permitted) << spelling;
        EXPECT_THAT(error.message, HasSubstr("symbolic link")) << spelling;
    }
    ASSERT_EQ(symlink((temp_ / "nowhere").c_str(), (temp_ / "dangling").c_str()), 0);
    EXPECT_EQ(refused(temp_ / "dangling").code, Errc::not_permitted);
    EXPECT_FALSE(std::filesystem::exists(temp_ / "nowhere"));
}

TEST_F(DomainTest, RefusesWhatIsNoDirectory) {
    test::write_file(temp_ / "file", "");
    EXPECT_THAT(refused(temp_ / "file").message, HasSubstr("not a directory"));
    ASSERT_EQ(mkfifo((temp_ / "fifo").c_str(), 0600), 0);
    EXPECT_THAT(refused(temp_ / "fifo").message, HasSubstr("not a directory"));
}

TEST_F(DomainTest, RefusesEveryOtherMode) {
    ASSERT_EQ(mkdir((temp_ / "dom").c_str(), 0700), 0);
    for (const mode_t mode : {0701, 0710, 0750, 0755, 0770, 0777, 0500}) {
        ASSERT_EQ(chmod((temp_ / "dom").c_str(), mode), 0);
        const auto error = refused(temp_ / "dom");
        EXPECT_EQ(error.code, Errc::not_permitted);
        EXPECT_THAT(error.message,
                    AllOf(HasSubstr(fmt::format("{:04o}", mode)), HasSubstr("chmod 0700")));
        EXPECT_TRUE(std::filesystem::is_empty(temp_ / "dom")); // nothing was put there
    }
    ASSERT_EQ(chmod((temp_ / "dom").c_str(), 0700), 0);
    open_or_throw();
}

TEST_F(DomainTest, RefusesAnotherUsersDirectory) {
    // Root can give a directory away; anybody else finds one of root's.
    std::string directory = "/usr";
    if (geteuid() == 0) {
        directory = temp_ / "dom";
        ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
        ASSERT_EQ(chown(directory.c_str(), 12345, 12345), 0);
    }
    const auto error = refused(directory);
    EXPECT_EQ(error.code, Errc::not_permitted);
    EXPECT_THAT(error.message, AllOf(HasSubstr("belongs to user"),
                                     HasSubstr("name another in the domain setting")));
    if (geteuid() == 0) {
        EXPECT_TRUE(std::filesystem::is_empty(directory));
    }
}

TEST_F(DomainTest, IdentityStaysAcrossOpensAndNamesTheDirectoryNotThePath) {
    const auto first = open_or_throw();
    const auto id = first->id();
    EXPECT_EQ(open_or_throw()->id(), id);
    EXPECT_NE(open_or_throw("other")->id(), id);
    EXPECT_EQ(id.to_string().size(), 32u);
    EXPECT_NE(id, DomainId{});

    std::filesystem::rename(temp_ / "dom", temp_ / "moved");
    EXPECT_EQ(open_or_throw("moved")->id(), id);
    EXPECT_NE(open_or_throw()->id(), id); // a new directory in the old place
}

TEST_F(DomainTest, ThreadsThatOpenFirstTogetherAgree) {
    constexpr int count = 8;
    std::vector<std::string> ids(count);
    std::atomic<int> ready{0};
    {
        std::vector<std::jthread> threads;
        for (auto& id : ids)
            threads.emplace_back([&] {
                ++ready;
                while (ready != count)
                    std::this_thread::yield();
                const auto domain =
                    Domain::open({.directory = temp_ / "dom", .description_file = {}});
                id = domain ? (*domain)->id().to_string() : domain.error().message;
            });
    }
    EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()),
              std::set<std::string>{open_or_throw()->id().to_string()});
}

TEST_F(DomainTest, ProcessesThatOpenFirstTogetherAgree) {
    constexpr int count = 8;
    int start[2];
    int answers[2];
    ASSERT_EQ(pipe(start), 0);
    ASSERT_EQ(pipe(answers), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < count; ++i) {
        children.push_back(fork());
        if (children.back() == 0) {
            close(start[1]);
            char byte = 0;
            if (read(start[0], &byte, 1) != 0) // the end of the pipe is the starting shot
                _exit(2);
            const auto domain = Domain::open({.directory = temp_ / "dom", .description_file = {}});
            if (!domain)
                _exit(3);
            const auto id = (*domain)->id();
            _exit(write(answers[1], id.bytes.data(), id.bytes.size()) == 16 ? 0 : 4);
        }
    }
    close(start[0]);
    close(start[1]);
    close(answers[1]);
    for (const pid_t child : children)
        EXPECT_EQ(test::wait_for(child), 0);
    const auto expected = open_or_throw()->id();
    int received = 0;
    for (DomainId id; read(answers[0], id.bytes.data(), id.bytes.size()) == 16; ++received)
        EXPECT_EQ(id, expected);
    EXPECT_EQ(received, count);
    close(answers[0]);
}

TEST_F(DomainTest, AKilledCreatorsHalfMadeIdIsReplaced) {
    ASSERT_EQ(mkdir((temp_ / "dom").c_str(), 0700), 0);
    test::write_file(temp_ / "dom/domain.id.new", "half");
    const auto domain = open_or_throw();
    EXPECT_THAT(*domain->list_entries(""), ElementsAre("domain.id", "domain.lock"));
}

TEST_F(DomainTest, ADamagedIdIsAnErrorForPeople) {
    open_or_throw();
    for (const std::string content : {"", "short", "longer than sixteen bytes"}) {
        test::write_file(temp_ / "dom/domain.id", content);
        EXPECT_THAT(refused(temp_ / "dom").message,
                    AllOf(HasSubstr("domain.id"), HasSubstr("damaged"), HasSubstr("remove")));
    }
    std::filesystem::remove(temp_ / "dom/domain.id");
    ASSERT_EQ(symlink("/etc/passwd", (temp_ / "dom/domain.id").c_str()), 0);
    EXPECT_EQ(refused(temp_ / "dom").code, Errc::io);
}

TEST_F(DomainTest, ABadDescriptionFailsTheOpen) {
    open_or_throw();
    test::write_file(temp_ / "dom/domain.toml", "[dpu]\n");
    const auto error = refused(temp_ / "dom");
    EXPECT_EQ(error.code, Errc::invalid_argument);
    EXPECT_THAT(error.message, HasSubstr(temp_ / "dom/domain.toml"));

    const auto with_file =
        Domain::open({.directory = temp_ / "dom", .description_file = temp_ / "absent.toml"});
    ASSERT_FALSE(with_file);
    EXPECT_EQ(with_file.error().code, Errc::not_found);
    test::ScopedEnvironment set({{"COMCH_DOMAIN_FILE", temp_ / "from-env.toml"}});
    EXPECT_THAT(refused(temp_ / "dom").message, HasSubstr("from-env.toml"));
}

TEST_F(DomainTest, EntriesAreListedByPrefixAndRemoved) {
    const auto domain = open_or_throw();
    for (const std::string name : {"sock.b", "sock.a", "counters.1", "sock"})
        test::write_file(temp_ / "dom/" + name, "");
    EXPECT_THAT(*domain->list_entries("sock."), ElementsAre("sock.a", "sock.b"));
    EXPECT_THAT(*domain->list_entries("nothing"), ElementsAre());

    EXPECT_TRUE(domain->remove_entry("sock.a"));
    EXPECT_TRUE(domain->remove_entry("sock.a")); // gone already
    EXPECT_THAT(*domain->list_entries("sock."), ElementsAre("sock.b"));
    EXPECT_THAT(*domain->list_entries("sock."), ElementsAre("sock.b")); // from its start again

    for (const std::string name : {"", ".", "..", "../x", "a/b", "domain.id", "domain.lock"})
        EXPECT_FALSE(domain->remove_entry(name)) << name;
    EXPECT_FALSE(domain->remove_entry(std::string("sock.b\0x", 8)));
    EXPECT_THAT(*domain->list_entries("sock."), ElementsAre("sock.b"));
}

TEST_F(DomainTest, SocketsAreReachedWhereverTheDirectoryIs) {
    // Deeper than sun_path is long, and moved after it was opened.
    std::string deep = temp_ / "d";
    for (int i = 0; i < 12; ++i) {
        std::filesystem::create_directory(deep);
        deep += "/0123456789";
    }
    ASSERT_GT(deep.size(), sizeof(sockaddr_un::sun_path));
    const auto domain = Domain::open({.directory = deep, .description_file = {}});
    ASSERT_TRUE(domain) << domain.error().message;
    std::filesystem::rename(temp_ / "d", temp_ / "e");

    const std::string name(Domain::max_socket_name, 's');
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto path = (*domain)->socket_path(name);
    ASSERT_LT(path.size(), sizeof address.sun_path);
    std::copy(path.begin(), path.end(), address.sun_path);
    const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const UniqueFd client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
    ASSERT_EQ(bind(listener.get(), generic, sizeof address), 0) << strerror(errno);
    ASSERT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(connect(client.get(), generic, sizeof address), 0) << strerror(errno);
    EXPECT_THAT(*(*domain)->list_entries("s"), ElementsAre(name));
}

TEST_F(DomainTest, TheLongestSocketNameFitsWithTheLargestDescriptor) {
    EXPECT_LT(std::string("/proc/thread-self/fd/1048576/").size() + Domain::max_socket_name,
              sizeof(sockaddr_un::sun_path));
}

class DomainLockTest : public DomainTest {};

TEST_F(DomainLockTest, ExcludesOtherOpenersUntilItEnds) {
    const auto one = open_or_throw();
    const auto two = open_or_throw();
    {
        auto lock = one->lock();
        ASSERT_TRUE(lock) << lock.error().message;
        std::jthread([&] {
            const auto refused = two->lock(0ms);
            ASSERT_FALSE(refused);
            EXPECT_EQ(refused.error().code, Errc::in_use);
            EXPECT_THAT(refused.error().message, HasSubstr("domain.lock"));
        }).join();
        DomainLock moved = std::move(*lock);
        std::jthread([&] { EXPECT_FALSE(one->lock(0ms)); }).join();
    }
    EXPECT_TRUE(two->lock(0ms));
    EXPECT_TRUE(one->lock(0ms));
}

TEST_F(DomainLockTest, ExcludesOtherProcessesUntilTheyDie) {
    const auto domain = open_or_throw();
    int locked[2];
    ASSERT_EQ(pipe(locked), 0);
    const pid_t child = fork();
    if (child == 0) {
        const auto lock = domain->lock();
        (void)!write(locked[1], lock ? "y" : "n", 1);
        for (;;)
            pause();
    }
    char answer = 0;
    ASSERT_EQ(read(locked[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    const auto refused = domain->lock(0ms);
    EXPECT_FALSE(refused);
    kill(child, SIGKILL);
    test::wait_for(child);
    EXPECT_TRUE(domain->lock());
    close(locked[0]);
    close(locked[1]);
}

/// The state letter of a thread of this process: 'S' when it sleeps.
char thread_state(pid_t thread) {
    std::ifstream file(fmt::format("/proc/self/task/{}/stat", thread));
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    const auto end_of_name = line.rfind(')');
    return end_of_name == std::string::npos ? '?' : line.at(end_of_name + 2);
}

TEST_F(DomainLockTest, AChildForkedByAnotherThreadDoesNotInheritIt) {
    const auto domain = open_or_throw();
    std::atomic<pid_t> forker{0};
    std::atomic<pid_t> child{0};
    std::jthread thread;
    {
        const auto lock = domain->lock();
        ASSERT_TRUE(lock) << lock.error().message;
        thread = std::jthread([&] {
            forker = gettid();
            const pid_t pid = fork();
            if (pid == 0)
                for (;;)
                    pause();
            child = pid;
        });
        // Until it waits for the lock, or has forked in spite of it.
        while (child == 0 && (forker == 0 || thread_state(forker) != 'S'))
            std::this_thread::yield();
        EXPECT_EQ(child, 0) << "fork() did not wait";
    }
    thread.join();
    EXPECT_TRUE(domain->lock(0ms)); // while the child lives
    kill(child, SIGKILL);
    test::wait_for(child);
}

TEST_F(DomainLockTest, ARemovedDirectoryIsExplained) {
    const auto domain = open_or_throw();
    std::filesystem::remove_all(temp_ / "dom");
    const auto lock = domain->lock();
    ASSERT_FALSE(lock);
    EXPECT_EQ(lock.error().code, Errc::not_found);
    EXPECT_THAT(lock.error().message, HasSubstr("removed"));
}

} // namespace
} // namespace comch
