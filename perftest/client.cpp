#include "perftest/client.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include <unistd.h>

#include <comch/client.hpp>
#include <fmt/format.h>

#include "core/tools/output.hpp"
#include "perftest/clock.hpp"
#include "perftest/control_path.hpp"
#include "perftest/fast_path.hpp"
#include "perftest/interrupt.hpp"
#include "perftest/pinning.hpp"
#include "perftest/report.hpp"
#include "perftest/role.hpp"
#include "perftest/server_process.hpp"
#include "perftest/session.hpp"

namespace comch::perftest {
namespace {

constexpr double connect_timeout = 10; // seconds, or --timeout if that is longer

/// What the client's handlers work on.
struct ClientProgram {
    std::unique_ptr<Client> client;
    std::optional<Session> session;

    [[nodiscard]] ClientHandlers handlers() {
        return {.user = this,
                .state_changed =
                    [](void* user, State state) {
                        auto& self = *static_cast<ClientProgram*>(user);
                        if (state == State::stopping || state == State::idle) {
                            self.ended();
                        }
                    },
                .message =
                    [](void* user, Connection&, std::span<const std::byte> message) {
                        static_cast<ClientProgram*>(user)->session->on_message(message);
                    }};
    }
    void ended() {
        const Errc outcome = client->outcome();
        session->on_end(outcome == Errc::not_connected ? "the server has ended the connection"
                                                       : client->error().message,
                        outcome == Errc::not_connected || outcome == Errc::canceled);
    }
};

class Measurement {
public:
    explicit Measurement(const Options& options) : options_(options), name_(options.name) {}
    ~Measurement() { interrupt::release(); }
    Measurement(const Measurement&) = delete;
    Measurement& operator=(const Measurement&) = delete;

    [[nodiscard]] Result<void> connect() {
        auto domain = Domain::open(options_.domain);
        if (!domain) {
            return tl::unexpected(std::move(domain.error()));
        }
        auto device = open_device_of(*domain, Side::host, options_);
        if (!device) {
            return tl::unexpected(std::move(device.error()));
        }
        device_ = device->function().name;
        if (auto ok = check_cpus(options_.cpus); !ok) {
            return ok;
        }
        if (options_.both_sides) {
            name_ = fmt::format("{}-{}", options_.name, ::getpid());
            auto started = ServerProcess::start(options_, name_, device_);
            if (!started) {
                return tl::unexpected(std::move(started.error()));
            }
            server_process_ = std::move(*started);
        }
        auto engine = ProgressEngine::create();
        if (!engine) {
            return tl::unexpected(std::move(engine.error()));
        }
        engine_ = std::move(*engine);
        interrupt::catch_signals(*engine_);
        // As deep as there are; --window says how much of it is used.
        const ClientOptions client_options{.limits = {.message_size = 0,
                                                      .send_queue = limits::send_queue_depth,
                                                      .recv_queue = limits::recv_queue_depth}};
        auto client = Client::open(*engine_, *device, name_, client_options, program_.handlers());
        if (!client) {
            return tl::unexpected(std::move(client.error()));
        }
        program_.client = std::move(*client);
        Session& session =
            program_.session.emplace(*engine_, program_.client->connection(), "the server");
        session.set_timeout(std::max(connect_timeout, options_.timeout));
        auto waited = session.wait([&] { return program_.client->outcome() != Errc::in_progress; });
        if (!waited) {
            return waited;
        }
        switch (program_.client->outcome()) {
        case Errc::ok:
            break;
        case Errc::not_found:
            return fail(Errc::not_found,
                        fmt::format("no server '{}' for {} in domain {}: start 'comch_perftest "
                                    "--server' on the DPU's side first, or use --both-sides, which "
                                    "starts one",
                                    name_, device_, (*domain)->path()));
        case Errc::rejected:
            if (program_.client->refusal() == Refusal::too_many_clients) {
                return fail(Errc::rejected,
                            fmt::format("the server '{}' is busy with another client; try again, "
                                        "or start one with another --name",
                                        name_));
            }
            [[fallthrough]];
        default:
            return tl::unexpected(program_.client->error());
        }
        program_.client->wake_on_confirmation(options_.plan.sleep);
        session.set_timeout(options_.timeout);
        return greet();
    }

    [[nodiscard]] Result<Wrong> measure(Report& report) {
        report.begin(options_, {.client_device = device_,
                                .server_name = name_,
                                .client_pid = static_cast<std::uint64_t>(::getpid()),
                                .server_pid = server_pid_});
        ProgressLine progress(options_.progress);
        Wrong wrong;
        std::size_t number = 0;
        for (const std::uint64_t size : options_.sizes) {
            progress.begin(size, ++number, options_.sizes.size(), of_all_threads(options_.warm_up),
                           of_all_threads(options_.goal));
            auto result = round(size, progress);
            progress.clear();
            if (!result) {
                report.end(false);
                return tl::unexpected(std::move(result.error()));
            }
            if (result->wrong.messages != 0) {
                wrong.add(result->wrong.messages, result->wrong.first);
            }
            report.row(*result);
        }
        report.end(true);
        return wrong;
    }

    /// The failure, and how the server that was started ended, if that is why.
    [[nodiscard]] Error explained(Error error) {
        if (server_process_ != nullptr && !interrupt::requested()) {
            error.message += server_process_->death();
        }
        return error;
    }

    /// Says goodbye, so that the server knows that all is well.
    void leave() {
        if (program_.client->stop()) {
            constexpr double patience = 5; // seconds
            (void)program_.session->wait([&] { return program_.client->state() == State::idle; },
                                         [] { return std::uint64_t{0}; }, patience);
        }
    }

private:
    [[nodiscard]] Amount of_all_threads(Amount amount) const {
        amount.messages *= options_.plan.threads;
        return amount;
    }

    [[nodiscard]] Result<void> greet() {
        Session& session = *program_.session;
        if (auto ok =
                session.send(protocol::Hello{.plan = options_.plan,
                                             .timeout_ms = static_cast<std::uint32_t>(std::clamp(
                                                 options_.timeout * 1000, 1.0, max_seconds * 1000)),
                                             .cpus = options_.server_cpus});
            !ok) {
            return ok;
        }
        auto welcome = session.receive<protocol::Welcome>();
        if (!welcome) {
            return tl::unexpected(std::move(welcome.error()));
        }
        server_pid_ = welcome->pid;
        return {};
    }

    [[nodiscard]] Result<RoundResult> round(std::uint64_t size, ProgressLine& progress) {
        const Load load = make_load(options_.plan, size, options_.window, options_.buffers);
        Session& session = *program_.session;
        if (options_.plan.path == Path::fast) {
            return run_fast_client(session, options_.plan, load, options_.cpus, options_.warm_up,
                                   options_.goal, progress);
        }
        ScopedPin pin;
        if (auto ok = pin.pin(options_.cpus, 0); !ok) {
            return tl::unexpected(std::move(ok.error()));
        }
        return run_control_client(session, options_.plan, load, options_.warm_up, options_.goal,
                                  progress);
    }

    const Options& options_;
    std::string name_;
    std::string device_;
    std::uint64_t server_pid_ = 0;
    std::unique_ptr<ServerProcess> server_process_; ///< ends after the client has left
    std::unique_ptr<ProgressEngine> engine_;
    ClientProgram program_;
};

} // namespace

int run_client(const Options& options) {
    Clock::calibrate();
    Measurement measurement(options);
    if (auto ok = measurement.connect(); !ok) {
        return complain(measurement.explained(ok.error()));
    }
    const auto report = make_report(options.format, stdout);
    const auto wrong = measurement.measure(*report);
    if (!wrong) {
        return complain(measurement.explained(wrong.error()));
    }
    measurement.leave();
    if (tools::output_status("comch_perftest") != 0) {
        return 1;
    }
    if (wrong->messages != 0) {
        fmt::print(stderr, "comch_perftest: {} wrong message{}; the first: {}\n", wrong->messages,
                   wrong->messages == 1 ? "" : "s", wrong->first);
        return 2;
    }
    return 0;
}

} // namespace comch::perftest
