#include "perftest/fast_path.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include "perftest/buffers.hpp"
#include "perftest/clock.hpp"
#include "perftest/fast_worker.hpp"

namespace comch::perftest {
namespace {

using Stage = FastWorker::Stage;

/// The workers of one round.
class Crew {
public:
    explicit Crew(Session& session) : session_(session) {}

    [[nodiscard]] Result<void> start(FastWorker::Setup setup) {
        setup.main = &session_.engine();
        const std::uint64_t buffers =
            (receives(setup.plan, setup.client) ? setup.load.buffers : 0) +
            (sends(setup.plan, setup.client) ? send_buffers(setup.plan, setup.load) : 0);
        if (auto ok = check_memory(setup.load.size, buffers * setup.plan.threads); !ok) {
            return ok;
        }
        for (std::uint32_t i = 0; i < setup.plan.threads; ++i) {
            Connection* const connection = session_.connection();
            if (connection == nullptr) {
                break; // reach() says why
            }
            setup.number = i;
            auto worker = FastWorker::start(*connection, setup);
            if (!worker) {
                return tl::unexpected(std::move(worker.error()));
            }
            workers_.push_back(std::move(*worker));
        }
        return reach(Stage::waiting);
    }

    /// Waits until all are at this stage or beyond, and calls `tick` now and then. A message of the
    /// protocol that comes meanwhile can only be bad news.
    template <class Tick> [[nodiscard]] Result<void> reach(Stage stage, Tick tick) {
        const auto there = [&] {
            // One that has failed will not get there, and the others may wait for it.
            return any_failed() || std::all_of(workers_.begin(), workers_.end(),
                                               [&](const auto& w) { return w->stage() >= stage; });
        };
        auto waited = session_.wait(
            [&] { return session_.connection() == nullptr || session_.has_message() || there(); },
            [&] {
                tick();
                return activity();
            });
        // What the session knows explains what the workers saw.
        if (waited && session_.has_message()) {
            auto message = session_.take();
            waited = message ? Result<void>(session_.unexpected_message())
                             : tl::unexpected(std::move(message.error()));
        }
        if (waited) {
            if (auto failed = session_.failure()) {
                waited = tl::unexpected(std::move(*failed));
            }
        }
        if (!waited) {
            return waited;
        }
        return failure();
    }
    [[nodiscard]] Result<void> reach(Stage stage) {
        return reach(stage, [] {});
    }

    /// What went wrong in a worker. A lost connection is left to the session to explain.
    [[nodiscard]] Result<void> failure() {
        for (const auto& worker : workers_) {
            if (worker->stage() != Stage::failed) {
                continue;
            }
            Error error = worker->error();
            if (error.code == Errc::connection_reset || error.code == Errc::not_connected ||
                error.code == Errc::not_found || error.code == Errc::canceled) {
                // The peer's consumers and producers go a moment before the peer does.
                (void)session_.wait(
                    [&] { return session_.connection() == nullptr || session_.has_message(); },
                    [] { return std::uint64_t{0}; }, patience);
                if (session_.has_message()) {
                    if (auto message = session_.take(); !message) {
                        error = std::move(message.error());
                    }
                } else if (auto why = session_.failure()) {
                    error = std::move(*why);
                }
            }
            return tl::unexpected(std::move(error));
        }
        return {};
    }

    /// The next message of the protocol, if no worker fails before it comes.
    template <class T> [[nodiscard]] Result<T> receive() {
        auto waited = session_.wait([&] { return session_.has_message() || any_failed(); },
                                    [&] { return activity(); });
        if (waited && !session_.has_message()) {
            waited = failure();
        }
        if (!waited) {
            return tl::unexpected(std::move(waited.error()));
        }
        return session_.receive<T>();
    }

    [[nodiscard]] bool any_failed() const {
        return std::any_of(workers_.begin(), workers_.end(),
                           [](const auto& w) { return w->stage() == Stage::failed; });
    }
    [[nodiscard]] std::uint64_t activity() const {
        std::uint64_t sum = 0;
        for (const auto& worker : workers_) {
            sum += worker->activity() + static_cast<std::uint64_t>(worker->stage());
        }
        return sum;
    }
    /// Measuring only when all are.
    [[nodiscard]] Phase phase() const {
        const bool all = std::all_of(workers_.begin(), workers_.end(), [](const auto& w) {
            return w->phase() == Phase::measurement;
        });
        return all ? Phase::measurement : Phase::warm_up;
    }
    [[nodiscard]] std::uint64_t done(Phase phase) const {
        std::uint64_t sum = 0;
        for (const auto& worker : workers_) {
            sum += worker->done(phase);
        }
        return sum;
    }
    [[nodiscard]] std::vector<std::uint32_t> consumers() const {
        std::vector<std::uint32_t> ids;
        for (const auto& worker : workers_) {
            ids.push_back(worker->consumer());
        }
        return ids;
    }
    [[nodiscard]] std::vector<std::uint64_t> sent() const {
        std::vector<std::uint64_t> all;
        for (const auto& worker : workers_) {
            all.push_back(worker->sent());
        }
        return all;
    }
    [[nodiscard]] std::uint64_t received() const {
        std::uint64_t sum = 0;
        for (const auto& worker : workers_) {
            sum += worker->received();
        }
        return sum;
    }
    [[nodiscard]] Wrong wrong() const {
        Wrong all;
        for (const auto& worker : workers_) {
            if (const Wrong one = worker->wrong(); one.messages != 0) {
                all.add(one.messages, one.first);
            }
        }
        return all;
    }
    /// Every worker gets its peer; false: not as many as there are workers.
    [[nodiscard]] bool begin(const std::vector<std::uint32_t>& peers) {
        if (peers.size() != workers_.size() ||
            std::find(peers.begin(), peers.end(), 0u) != peers.end()) {
            return false;
        }
        for (std::size_t i = 0; i < peers.size(); ++i) {
            workers_[i]->begin(peers[i]);
        }
        return true;
    }
    [[nodiscard]] bool finish(const std::vector<std::uint64_t>& sent) {
        // The largest number means that it is not known yet.
        if (sent.size() != workers_.size() ||
            std::find(sent.begin(), sent.end(), std::numeric_limits<std::uint64_t>::max()) !=
                sent.end()) {
            return false;
        }
        for (std::size_t i = 0; i < sent.size(); ++i) {
            workers_[i]->finish(sent[i]);
        }
        return true;
    }
    [[nodiscard]] const std::vector<std::unique_ptr<FastWorker>>& workers() const {
        return workers_;
    }

private:
    static constexpr double patience = 5; // seconds

    Session& session_;
    std::vector<std::unique_ptr<FastWorker>> workers_;
};

RoundResult collect(const Crew& crew, const Load& load) {
    RoundResult result{.load = load};
    std::uint64_t began = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t ended = 0;
    for (const auto& worker : crew.workers()) {
        const FastWorker::Measured& one = worker->measured();
        began = std::min(began, one.began);
        ended = std::max(ended, one.ended);
        result.sent += one.sent;
        result.received += one.received;
        result.round_trips.merge(one.round_trips);
    }
    result.seconds = Clock::seconds(static_cast<double>(ended - began));
    return result;
}

} // namespace

Result<RoundResult> run_fast_client(Session& session, const Plan& plan, const Load& load,
                                    const std::vector<std::uint32_t>& cpus, const Amount& warm_up,
                                    const Amount& goal, ProgressLine& progress) {
    Crew crew(session);
    if (auto ok = crew.start({.plan = plan,
                              .load = load,
                              .client = true,
                              .cpus = cpus,
                              .warm_up = warm_up,
                              .goal = goal});
        !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    if (auto ok = session.send(protocol::Round{.load = load, .consumers = crew.consumers()}); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    const auto ready = session.receive<protocol::Ready>();
    if (!ready) {
        return tl::unexpected(ready.error());
    }
    if (!crew.begin(ready->consumers)) {
        return session.unexpected_message();
    }
    const auto tick = [&] {
        const Phase phase = crew.phase();
        progress.update(phase, crew.done(phase));
    };
    if (auto ok = crew.reach(Stage::measured, tick); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    RoundResult result = collect(crew, load);
    if (auto ok = session.send(protocol::End{.sent = crew.sent()}); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    const auto outcome = crew.receive<protocol::Outcome>();
    if (!outcome) {
        return tl::unexpected(outcome.error());
    }
    if (!crew.finish(outcome->sent)) {
        return session.unexpected_message();
    }
    if (auto ok = crew.reach(Stage::drained); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    result.wrong = crew.wrong();
    if (outcome->wrong != 0) {
        result.wrong.add(outcome->wrong, outcome->first_wrong);
    }
    return result;
}

Result<std::uint64_t> run_fast_server(Session& session, const Plan& plan,
                                      const protocol::Round& round,
                                      const std::vector<std::uint32_t>& cpus) {
    Crew crew(session);
    if (auto ok = crew.start({.plan = plan, .load = round.load, .client = false, .cpus = cpus});
        !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    if (auto ok = session.send(protocol::Ready{.consumers = crew.consumers()}); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    if (!crew.begin(round.consumers)) {
        return session.unexpected_message();
    }
    const auto end = crew.receive<protocol::End>();
    if (!end) {
        return tl::unexpected(end.error());
    }
    if (!crew.finish(end->sent)) {
        return session.unexpected_message();
    }
    if (auto ok = crew.reach(Stage::drained); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    const Wrong wrong = crew.wrong();
    if (auto ok = session.send(protocol::Outcome{.received = crew.received(),
                                                 .wrong = wrong.messages,
                                                 .sent = crew.sent(),
                                                 .first_wrong = wrong.first});
        !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    return crew.received();
}

} // namespace comch::perftest
