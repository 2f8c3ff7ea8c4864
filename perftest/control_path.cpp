#include "perftest/control_path.hpp"

#include <limits>
#include <vector>

#include <fmt/format.h>

#include "perftest/clock.hpp"
#include "perftest/content.hpp"

namespace comch::perftest {
namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();
/// Messages sent between two progress calls, at most.
constexpr unsigned burst = 16;
/// Progress calls between two looks at the clock and at what else goes on.
constexpr unsigned look_interval = 64;

/// One end of a round.
class ControlRound {
public:
    ControlRound(Session& session, const Plan& plan, const Load& load, bool client)
        : session_(session), plan_(plan), load_(load),
          to_peer_(client ? Direction::to_server : Direction::to_client), bytes_(load.size),
          checker_(client ? Direction::to_client : Direction::to_server, 0, load.size, plan.verify,
                   1),
          idle_(plan.sleep), watchdog_(session.timeout()) {
        bytes_[0] = protocol::data_mark;
        // At once: the other end's first message may come right behind its Ready or Round.
        if (plan.mode != Mode::ping_pong) {
            handle<&ControlRound::on_data>();
        } else if (client) {
            handle<&ControlRound::on_pong>();
        } else {
            handle<&ControlRound::on_ping>();
        }
    }
    ~ControlRound() { session_.set_data_handler(nullptr, nullptr); }
    ControlRound(const ControlRound&) = delete;
    ControlRound& operator=(const ControlRound&) = delete;

    // ---- client

    /// Round trips until there were so many, or so long.
    [[nodiscard]] Result<void> ping(const Amount& amount, ProgressLine& progress) {
        begin(amount);
        if (done() == goal_) {
            return {};
        }
        finished_ = false;
        round_trip_began_ = Clock::now();
        reply();
        while (!finished_) {
            if (owed_ != 0) [[unlikely]] {
                retry_replies();
            }
            if (idle_.progress(session_.engine(), look_interval)) {
                if (auto ok = look(&progress); !ok) {
                    return ok;
                }
            }
        }
        return {};
    }

    /// Sends until so many have arrived, or so long.
    [[nodiscard]] Result<void> stream(const Amount& amount, ProgressLine& progress) {
        begin(amount);
        while (confirmed_ < goal_) {
            send_burst();
            if (idle_.progress(session_.engine(), look_interval)) {
                if (auto ok = look(&progress); !ok) {
                    return ok;
                }
                if (Clock::now() >= deadline_) {
                    refresh_confirmed();
                    break;
                }
            }
            if (sent_ == goal_ && confirmed_ != goal_) {
                refresh_confirmed();
            }
        }
        return {};
    }

    /// Until all that was sent has arrived.
    [[nodiscard]] Result<void> settle(ProgressLine& progress) {
        for (refresh_confirmed(); confirmed_ != sent_; refresh_confirmed()) {
            if (idle_.progress(session_.engine(), look_interval)) {
                if (auto ok = look(&progress); !ok) {
                    return ok;
                }
            }
        }
        return {};
    }

    /// What is to come is measured; the warm-up is over.
    void measure() {
        phase_ = Phase::measurement;
        round_trips_.clear();
    }
    /// What goals count.
    [[nodiscard]] std::uint64_t done() const noexcept {
        return plan_.mode == Mode::ping_pong ? received() : confirmed_;
    }

    // ---- server

    /// Answers, takes or sends until a message of the protocol comes.
    [[nodiscard]] Result<void> serve() {
        const bool sends = plan_.mode == Mode::two_way;
        while (!session_.has_message()) {
            if (owed_ != 0) [[unlikely]] {
                retry_replies();
            }
            if (sends) {
                send_burst();
            }
            if (idle_.progress(session_.engine(), look_interval)) {
                // How long the client measures is its own affair; its death is not missed.
                if (auto ok = look(nullptr); !ok) {
                    return ok;
                }
            }
        }
        return {};
    }
    void goal_is_far() noexcept {
        goal_ = no_limit;
        deadline_ = no_limit;
    }

    [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
    [[nodiscard]] std::uint64_t received() const noexcept { return checker_.count(); }
    [[nodiscard]] const Histogram& round_trips() const noexcept { return round_trips_; }
    [[nodiscard]] Wrong wrong() const { return checker_.wrong(); }

private:
    template <void (ControlRound::*Handler)(std::span<const std::byte>)> void handle() {
        session_.set_data_handler(
            [](void* user, std::span<const std::byte> message) {
                (static_cast<ControlRound*>(user)->*Handler)(message);
            },
            this);
    }

    void on_data(std::span<const std::byte> message) { checker_.check(message); }

    void on_ping(std::span<const std::byte> message) {
        checker_.check(message);
        reply();
    }

    void on_pong(std::span<const std::byte> message) {
        const std::uint64_t now = Clock::now();
        round_trips_.record(now - round_trip_began_);
        checker_.check(message);
        if (received() >= goal_ || now >= deadline_) {
            finished_ = true;
            return;
        }
        // Making a verified message is not part of its way.
        round_trip_began_ = plan_.verify ? Clock::now() : now;
        reply();
    }

    void reply() {
        if (owed_ != 0 || send_one() != Errc::ok) [[unlikely]] {
            ++owed_;
        }
    }
    void retry_replies() {
        while (owed_ != 0 && send_one() == Errc::ok) {
            --owed_;
        }
    }

    /// again: no room, or something is wrong with the connection, which look() finds out.
    Errc send_one() {
        Connection* const connection = session_.connection();
        if (connection == nullptr) [[unlikely]] {
            return Errc::not_connected;
        }
        if (plan_.verify) [[unlikely]] {
            pattern::fill(bytes_, pattern::seed(to_peer_, 0, sent_));
            bytes_[0] = protocol::data_mark;
        }
        const Errc result = connection->send(bytes_);
        if (result == Errc::ok) {
            ++sent_;
        } else if (result != Errc::again) [[unlikely]] {
            send_error_ = result;
        }
        return result;
    }

    void send_burst() {
        for (unsigned i = 0; i < burst && sent_ < goal_; ++i) {
            if (sent_ - confirmed_ >= load_.window) {
                refresh_confirmed();
                if (sent_ - confirmed_ >= load_.window) {
                    return;
                }
            }
            if (send_one() != Errc::ok) {
                return;
            }
        }
    }

    /// Reads what the other end writes, so not more often than the window makes it.
    void refresh_confirmed() {
        if (Connection* const connection = session_.connection()) {
            confirmed_ = sent_ - connection->statistics().in_flight_messages;
        }
    }

    void begin(const Amount& amount) {
        began_with_ = done();
        goal_ = amount.seconds > 0 ? no_limit : began_with_ + amount.messages;
        deadline_ = amount.seconds > 0 ? Clock::now() + Clock::ticks(amount.seconds) : no_limit;
    }

    /// What need not be done for every message.
    [[nodiscard]] Result<void> look(ProgressLine* progress) {
        if (auto failed = session_.failure()) {
            return tl::unexpected(std::move(*failed));
        }
        if (session_.has_message() && progress != nullptr) {
            auto message = session_.take();
            return message ? Result<void>(session_.unexpected_message())
                           : tl::unexpected(std::move(message.error()));
        }
        if (send_error_ != Errc::ok && session_.connection() != nullptr &&
            send_error_ != Errc::not_connected && send_error_ != Errc::connection_reset) {
            return fail(send_error_, fmt::format("cannot send {} bytes to {}: {}", load_.size,
                                                 session_.peer(), to_string(send_error_)));
        }
        if (watchdog_.expired(confirmed_ + received() + sent_)) {
            return session_.stalled();
        }
        if (progress != nullptr) {
            progress->update(phase_, done() - began_with_);
        }
        return {};
    }

    Session& session_;
    const Plan& plan_;
    const Load& load_;
    Direction to_peer_;
    std::vector<std::byte> bytes_;
    Checker checker_;
    Idle idle_;
    Session::Watchdog watchdog_;
    Histogram round_trips_;
    std::uint64_t sent_ = 0;
    std::uint64_t confirmed_ = 0;
    std::uint64_t owed_ = 0; ///< replies that found no room
    Phase phase_ = Phase::warm_up;
    std::uint64_t began_with_ = 0; ///< done() when warm-up or measurement began
    std::uint64_t goal_ = 0;       ///< of done()
    std::uint64_t deadline_ = 0;
    std::uint64_t round_trip_began_ = 0;
    bool finished_ = false;
    Errc send_error_ = Errc::ok;
};

Result<void> check_size(const Session& session, const Load& load) {
    Connection* const connection = const_cast<Session&>(session).connection();
    if (connection != nullptr && load.size > connection->max_message_size()) {
        return fail(
            Errc::too_big,
            fmt::format("{} bytes cannot be sent on this connection, whose control messages "
                        "have at most {}",
                        load.size, connection->max_message_size()));
    }
    return {};
}

} // namespace

Result<RoundResult> run_control_client(Session& session, const Plan& plan, const Load& load,
                                       const Amount& warm_up, const Amount& goal,
                                       ProgressLine& progress) {
    if (auto ok = check_size(session, load); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    ControlRound round(session, plan, load, true);
    if (auto ok = session.send(protocol::Round{.load = load, .consumers = {}}); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    if (auto ready = session.receive<protocol::Ready>(); !ready) {
        return tl::unexpected(std::move(ready.error()));
    }
    const bool ping_pong = plan.mode == Mode::ping_pong;
    const auto run = [&](const Amount& amount) {
        return ping_pong ? round.ping(amount, progress) : round.stream(amount, progress);
    };
    if (auto ok = run(warm_up); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    if (goal.messages != 0 && !ping_pong) {
        // What the warm-up has sent would be among so many messages.
        if (auto ok = round.settle(progress); !ok) {
            return tl::unexpected(std::move(ok.error()));
        }
    }
    round.measure();
    RoundResult result{.load = load};
    const std::uint64_t done_before = round.done();
    const std::uint64_t received_before = round.received();
    const std::uint64_t began = Clock::now();
    if (auto ok = run(goal); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    result.seconds = Clock::seconds(static_cast<double>(Clock::now() - began));
    result.sent = round.done() - done_before;
    result.received = plan.mode == Mode::two_way ? round.received() - received_before : 0;
    result.round_trips = round.round_trips();

    if (auto ok = session.send(protocol::End{.sent = {round.sent()}}); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    auto outcome = session.receive<protocol::Outcome>();
    if (!outcome) {
        return tl::unexpected(std::move(outcome.error()));
    }
    result.wrong = round.wrong();
    if (outcome->wrong != 0) {
        result.wrong.add(outcome->wrong, outcome->first_wrong);
    }
    if (outcome->received != round.sent()) {
        result.wrong.add(1, fmt::format("{} messages were sent to the server, and it received {}",
                                        round.sent(), outcome->received));
    }
    if (outcome->sent.size() != 1 || outcome->sent[0] != round.received()) {
        result.wrong.add(1, fmt::format("the server sent {} messages, and {} arrived",
                                        outcome->sent.empty() ? 0 : outcome->sent[0],
                                        round.received()));
    }
    return result;
}

Result<std::uint64_t> run_control_server(Session& session, const Plan& plan, const Load& load) {
    if (auto ok = check_size(session, load); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    ControlRound round(session, plan, load, false);
    round.goal_is_far();
    if (auto ok = session.send(protocol::Ready{}); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    if (auto ok = round.serve(); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    if (auto end = session.receive<protocol::End>(); !end) {
        return tl::unexpected(std::move(end.error()));
    }
    const Wrong wrong = round.wrong();
    if (auto ok = session.send(protocol::Outcome{.received = round.received(),
                                                 .wrong = wrong.messages,
                                                 .sent = {round.sent()},
                                                 .first_wrong = wrong.first});
        !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    return round.received();
}

} // namespace comch::perftest
