#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <comch/progress.hpp>

#include "core/base/test_yields.hpp"

namespace comch {
namespace {

bool readable(const ProgressEngine& engine, int timeout_ms = 0) {
    pollfd entry{.fd = engine.event_fd(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, timeout_ms) == 1;
}

/// Does what it is told.
struct Source : ProgressSource {
    explicit Source(ProgressEngine& on)
        : ProgressSource{
              .progress =
                  [](ProgressSource& self) {
                      auto& source = static_cast<Source&>(self);
                      ++source.calls;
                      return source.work ? source.work() : 0u;
                  },
              .arm = [](ProgressSource& self) { return static_cast<Source&>(self).arms; }},
          engine(on) {
        engine.add(*this);
    }
    ~Source() { engine.remove(*this); }

    ProgressEngine& engine;
    std::function<unsigned()> work;
    Errc arms = Errc::ok;
    unsigned calls = 0;
};

TEST(ProgressEngine, YieldsWhenThereIsNothingToDoForLong) {
    const auto engine = *ProgressEngine::create();
    Source source(*engine);
    EXPECT_EQ(test::yields_in_vain([&] { engine->progress(); }), 2u);
    source.work = [] { return 1u; };
    EXPECT_EQ(test::yields_in_vain([&] { engine->progress(); }), 0u) << "there was something";
    source.work = [&] { return source.calls % 1000 == 0 ? 1u : 0u; };
    EXPECT_EQ(test::yields_in_vain([&] { engine->progress(); }), 0u) << "there was, now and then";
}

TEST(ProgressEngine, ProgressesItsSourcesAndCountsWhatTheyDid) {
    const auto engine = *ProgressEngine::create();
    EXPECT_EQ(engine->progress(), 0u);
    Source one(*engine);
    Source two(*engine);
    one.work = [] { return 2u; };
    two.work = [] { return 3u; };
    EXPECT_EQ(engine->progress(), 5u);
    {
        Source three(*engine);
        engine->progress();
        EXPECT_EQ(three.calls, 1u);
    }
    EXPECT_EQ(engine->progress(), 5u);
    EXPECT_EQ(one.calls, 3u);
}

TEST(ProgressEngine, SourcesComeAndGoInsideHandlers) {
    const auto engine = *ProgressEngine::create();
    std::unique_ptr<Source> added;
    auto first = std::make_unique<Source>(*engine);
    Source killer(*engine);
    auto last = std::make_unique<Source>(*engine);
    killer.work = [&] {
        EXPECT_EQ(engine->progress(), 0u) << "not inside itself";
        first.reset();
        last.reset();
        added = std::make_unique<Source>(*engine);
        added->work = [] { return 7u; };
        killer.work = nullptr;
        return 1u;
    };
    EXPECT_EQ(engine->progress(), 8u);
    EXPECT_EQ(engine->progress(), 7u);
    EXPECT_EQ(killer.calls, 2u);
}

TEST(ProgressEngine, AHandlerThatThrowsEndsItsRoundOnly) {
    const auto engine = ProgressEngine::create().value();
    Source one(*engine);
    one.work = []() -> unsigned { throw std::bad_alloc(); };
    EXPECT_THROW((void)engine->progress(), std::bad_alloc);
    one.work = [] { return 1u; };
    EXPECT_EQ(engine->progress(), 1u);
}

TEST(ProgressEngine, DoesNotSleepWhileASourceHasSomething) {
    const auto engine = *ProgressEngine::create();
    Source one(*engine);
    Source two(*engine);
    EXPECT_EQ(engine->arm(), Errc::ok);
    two.arms = Errc::again;
    EXPECT_EQ(engine->arm(), Errc::again);
}

TEST(ProgressEngine, WatchedDescriptorsEndASleep) {
    const auto engine = *ProgressEngine::create();
    const int fd = ::eventfd(0, EFD_CLOEXEC);
    ASSERT_TRUE(engine->watch(fd).has_value());
    ASSERT_TRUE(engine->watch(fd).has_value()) << "twice is once";
    EXPECT_EQ(engine->arm(), Errc::ok);
    EXPECT_FALSE(readable(*engine));
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(fd, &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
    EXPECT_TRUE(readable(*engine));
    engine->unwatch(fd);
    EXPECT_FALSE(readable(*engine));
    engine->unwatch(fd);
    EXPECT_FALSE(engine->watch(-1).has_value());
    ::close(fd);
}

TEST(ProgressEngine, AWakeIsNeverLost) {
    const auto engine = *ProgressEngine::create();
    std::atomic<unsigned> asked{0};
    std::atomic<unsigned> answered{0};
    constexpr unsigned rounds = 2000;
    std::thread other([&] {
        for (unsigned i = 1; i <= rounds; ++i) {
            asked.store(i);
            engine->wake();
            while (answered.load() != i) {
                std::this_thread::yield();
            }
        }
    });
    unsigned seen = 0;
    while (seen < rounds) {
        ASSERT_EQ(engine->arm(), Errc::ok);
        if (asked.load() == seen) {
            ASSERT_TRUE(readable(*engine, 20'000));
        }
        seen = asked.load();
        answered.store(seen);
    }
    other.join();
    engine->wake();
    EXPECT_TRUE(readable(*engine));
    EXPECT_EQ(engine->arm(), Errc::ok);
    EXPECT_FALSE(readable(*engine)) << "quiet again until the next one";
}

} // namespace
} // namespace comch
