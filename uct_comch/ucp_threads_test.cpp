// Several threads over UCP: each with a worker of its own, or all on one; and workers that sleep.
#include <random>

#include "test_ucp.hpp"

namespace comch::uct::test {
namespace {

/// Sends and receives `count` checked messages each way between a worker here and one there.
void exchange(Party& party, ucp_worker_h worker, ucp_ep_h ep, std::uint64_t lane,
              std::uint64_t count) {
    std::mt19937 random(static_cast<unsigned>(lane));
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::size_t size = i % 16 == 0 ? random() % 200'000 : random() % 2000;
        const ucp_tag_t tag = lane << 32 | i;
        const auto out = pattern(size, tag * 2 + party.rank());
        std::vector<std::byte> in(size);
        const ucs_status_ptr_t received =
            party.receive(in.data(), size, tag, ucp_dt_make_contig(1), ~ucp_tag_t{0}, worker);
        const ucs_status_ptr_t sent = party.send(ep, out.data(), size, tag);
        ASSERT_EQ(party.wait(sent, worker), UCS_OK);
        ASSERT_EQ(party.wait(received, worker), UCS_OK);
        ASSERT_TRUE(in == pattern(size, tag * 2 + 1 - party.rank())) << "lane " << lane;
    }
}

TEST(UcpThreads, EachWithAWorkerOfItsOwn) {
    run_job({}, [](Party& party) {
        constexpr unsigned threads = 3;
        std::vector<ucp_worker_h> workers;
        std::vector<ucp_ep_h> eps;
        for (unsigned i = 0; i < threads; ++i) {
            workers.push_back(party.make_worker());
            party.line().put_bytes(Party::address(workers.back()));
        }
        for (unsigned i = 0; i < threads; ++i) {
            eps.push_back(party.connect(workers[i], party.line().get_bytes()));
        }
        std::atomic<unsigned> closing{0};
        std::vector<std::thread> running;
        for (unsigned i = 0; i < threads; ++i) {
            running.emplace_back([&, i] {
                exchange(party, workers[i], eps[i], i + 1, 400);
                party.close(eps[i], workers[i]);
                ++closing;
                // Others may still flush to this one.
                while (closing != threads) {
                    party.progress(workers[i]);
                }
            });
        }
        for (std::thread& thread : running) {
            thread.join();
        }
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
        party.line().put(true);
        while (!party.line().has_something() || std::chrono::steady_clock::now() < deadline) {
            for (const ucp_worker_h worker : workers) {
                party.progress(worker);
            }
            if (party.line().has_something() && std::chrono::steady_clock::now() >= deadline) {
                break;
            }
        }
        (void)party.line().get<bool>();
        for (const ucp_worker_h worker : workers) {
            ucp_worker_destroy(worker);
        }
    });
}

TEST(UcpThreads, AllOnOneWorkerInMultiMode) {
    JobOptions options;
    options.threads = UCS_THREAD_MODE_MULTI;
    run_job(options, [](Party& party) {
        constexpr unsigned threads = 3;
        std::vector<std::thread> running;
        for (unsigned i = 0; i < threads; ++i) {
            running.emplace_back([&, i] { exchange(party, party.worker, party.ep(), i + 1, 400); });
        }
        for (std::thread& thread : running) {
            thread.join();
        }
    });
}

TEST(UcpSleep, WorkersThatWaitAreWoken) {
    JobOptions options;
    options.wakeup = true;
    run_job(options, [](Party& party) {
        const auto sleep_for = [&](ucs_status_ptr_t request) {
            ASSERT_FALSE(UCS_PTR_IS_ERR(request));
            while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
                if (ucp_worker_progress(party.worker) == 0) {
                    ASSERT_EQ(ucp_worker_wait(party.worker), UCS_OK);
                }
            }
            if (UCS_PTR_IS_PTR(request)) {
                ASSERT_EQ(ucp_request_check_status(request), UCS_OK);
                ucp_request_free(request);
            }
        };
        std::mt19937 random(1);
        for (std::uint64_t round = 0; round < 600; ++round) {
            const std::size_t size = round % 20 == 0 ? random() % 3'000'000 : random() % 4000;
            auto bytes = pattern(size, round);
            if (party.first() == (round % 2 == 0)) {
                sleep_for(party.send(party.ep(), bytes.data(), size, round));
            } else {
                std::vector<std::byte> in(size);
                sleep_for(party.receive(in.data(), size, round));
                ASSERT_TRUE(in == bytes) << round;
            }
        }
    });
}

TEST(UcpSleep, TheDescriptorOfAWorkerIsArmedAndReadable) {
    JobOptions options;
    options.wakeup = true;
    run_job(options, [](Party& party) {
        int fd = -1;
        ASSERT_EQ(ucp_worker_get_efd(party.worker, &fd), UCS_OK);
        for (std::uint64_t round = 0; round < 100; ++round) {
            std::uint64_t word = 0;
            if (party.first()) {
                ASSERT_EQ(party.wait(party.send(party.ep(), &round, 8, 1)), UCS_OK);
                ASSERT_EQ(party.wait(party.receive(&word, 8, 2)), UCS_OK);
            } else {
                const ucs_status_ptr_t request = party.receive(&word, 8, 1);
                while (UCS_PTR_IS_PTR(request) &&
                       ucp_request_check_status(request) == UCS_INPROGRESS) {
                    const ucs_status_t armed = ucp_worker_arm(party.worker);
                    if (armed == UCS_OK) {
                        pollfd entry{fd, POLLIN, 0};
                        ASSERT_EQ(::poll(&entry, 1, 10'000), 1) << "an event was lost";
                    } else {
                        ASSERT_EQ(armed, UCS_ERR_BUSY);
                    }
                    while (ucp_worker_progress(party.worker) != 0) {
                    }
                }
                ASSERT_EQ(party.wait(request), UCS_OK);
                ASSERT_EQ(word, round);
                ASSERT_EQ(party.wait(party.send(party.ep(), &word, 8, 2)), UCS_OK);
            }
        }
    });
}

TEST(UcpSleep, EndsAlthoughAnotherThreadHasProgressed) {
    JobOptions options;
    options.wakeup = true;
    options.threads = UCS_THREAD_MODE_MULTI;
    run_job(options, [](Party& party) {
        int fd = -1;
        ASSERT_EQ(ucp_worker_get_efd(party.worker, &fd), UCS_OK);
        std::uint64_t word = 0;
        if (party.first()) {
            (void)party.line().get<bool>();
            ASSERT_EQ(party.wait(party.send(party.ep(), &word, 8, 1)), UCS_OK);
            (void)party.line().get<bool>();
            ASSERT_EQ(party.wait(party.send(party.ep(), &word, 8, 2)), UCS_OK);
        } else {
            // A thread that has armed and does not run before this one has taken what came.
            const ucs_status_ptr_t first = party.receive(&word, 8, 1);
            const ucs_status_ptr_t second = party.receive(&word, 8, 2);
            while (ucp_worker_arm(party.worker) != UCS_OK) {
                party.progress();
            }
            party.line().put(true);
            ASSERT_EQ(party.wait(first), UCS_OK);
            comch::test::for_a_while(std::chrono::milliseconds(10), [&] { party.progress(); });
            pollfd entry{fd, POLLIN, 0};
            EXPECT_EQ(::poll(&entry, 1, 10'000), 1) << "an event was lost";
            party.line().put(true);
            ASSERT_EQ(party.wait(second), UCS_OK);
        }
    });
}

TEST(UcpFailure, OfAPeerIsToldToTheErrorHandlerAndEndsItsRequests) {
    const Lab lab;
    auto [one, other] = Line::make();
    Process victim([&, line = &other](Line&) {
        std::vector<Line> lines;
        lines.push_back(std::move(*line));
        lines.emplace_back(-1);
        JobOptions options;
        options.error_handling = true;
        Party party(1, lines, options);
        (void)party.until([] { return false; });
    });
    Process survivor([&, line = &one](Line& control) {
        const Log log;
        std::vector<Line> lines;
        lines.emplace_back(-1);
        lines.push_back(std::move(*line));
        JobOptions options;
        options.error_handling = true;
        Party party(0, lines, options);
        std::vector<std::byte> bytes(1 << 20);
        const ucs_status_ptr_t first = party.send(party.ep(), bytes.data(), 100, 1);
        ASSERT_EQ(party.wait(first), UCS_OK);
        ucp_request_param_t param{};
        ASSERT_EQ(party.wait(ucp_ep_flush_nbx(party.ep(), &param)), UCS_OK);
        // A rendezvous that nobody answers, and a receive.
        const ucs_status_ptr_t second = party.send(party.ep(), bytes.data(), bytes.size(), 2);
        control.put(true);
        ASSERT_TRUE(party.until([&] { return !party.errors.empty(); }));
        EXPECT_EQ(party.errors.size(), 1u);
        EXPECT_LT(party.errors[0], UCS_OK);
        EXPECT_LT(party.wait(second), UCS_OK);
        EXPECT_EQ(log.count(UCS_LOG_LEVEL_ERROR), 1u) << log.text();
        EXPECT_THAT(log.text(), testing::HasSubstr("comch"));
        std::fflush(nullptr);
        ::_exit(testing::Test::HasFailure() ? 1 : 0); // a barrier with the dead would not end
    });
    (void)survivor.line().get<bool>();
    victim.kill();
    EXPECT_EQ(survivor.wait(), 0);
}

} // namespace
} // namespace comch::uct::test
