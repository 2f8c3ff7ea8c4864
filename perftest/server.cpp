#include "perftest/server.hpp"

#include <cerrno>
#include <list>
#include <memory>
#include <optional>

#include <unistd.h>

#include <comch/server.hpp>
#include <fmt/format.h>

#include "perftest/control_path.hpp"
#include "perftest/fast_path.hpp"
#include "perftest/interrupt.hpp"
#include "perftest/pinning.hpp"
#include "perftest/report.hpp"
#include "perftest/role.hpp"
#include "perftest/session.hpp"

namespace comch::perftest {
namespace {

constexpr double greeting_timeout = 10; // seconds for a client to say what it wants

std::string_view words_for(EndReason reason) {
    switch (reason) {
    case EndReason::peer_died:
        return "the client has died or, over RDMA, can no longer be reached";
    case EndReason::protocol_error:
        return "the client broke the channel's protocol";
    case EndReason::device_error:
        return "the device has failed";
    default:
        return "the client has left";
    }
}

/// What the server's handlers work on.
struct ServerProgram {
    ProgressEngine* engine = nullptr;
    /// The first is being served. The next client may be there before all has been said of one that
    /// has died, and waits.
    std::list<Session> sessions;

    /// Null of one that is not known any more.
    [[nodiscard]] Session* session_of(const Connection& connection) {
        for (Session& session : sessions) {
            if (session.connection() == &connection) {
                return &session;
            }
        }
        return nullptr;
    }

    [[nodiscard]] ServerHandlers handlers() {
        return {.user = this,
                .connected =
                    [](void* user, Connection& connection) {
                        auto& self = *static_cast<ServerProgram*>(user);
                        self.sessions.emplace_back(*self.engine, connection, "the client");
                    },
                .disconnected =
                    [](void* user, Connection& connection, EndReason reason) {
                        auto& self = *static_cast<ServerProgram*>(user);
                        if (Session* const session = self.session_of(connection)) {
                            session->on_end(std::string(words_for(reason)),
                                            reason == EndReason::closed ||
                                                reason == EndReason::local);
                        }
                    },
                .message =
                    [](void* user, Connection& connection, std::span<const std::byte> message) {
                        auto& self = *static_cast<ServerProgram*>(user);
                        if (Session* const session = self.session_of(connection)) {
                            session->on_message(message);
                        }
                    }};
    }
};

Result<std::uint64_t> serve_round(Session& session, const protocol::Hello& hello) {
    auto round = session.receive<protocol::Round>();
    if (!round) {
        return tl::unexpected(std::move(round.error()));
    }
    if (hello.plan.path == Path::fast) {
        return run_fast_server(session, hello.plan, *round, hello.cpus);
    }
    ScopedPin pin;
    if (auto ok = pin.pin(hello.cpus, 0); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    return run_control_server(session, hello.plan, round->load);
}

struct Served {
    std::uint64_t rounds = 0;
    std::uint64_t messages = 0;
};

/// From its Hello to its goodbye.
Result<Served> serve_client(Server& server, Session& session) {
    session.set_timeout(greeting_timeout, "Start it again");
    const auto hello = session.receive<protocol::Hello>();
    if (!hello) {
        return tl::unexpected(hello.error());
    }
    if (auto ok = check_cpus(hello->cpus); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    server.wake_on_confirmation(hello->plan.sleep);
    if (auto ok = session.send(protocol::Welcome{.pid = static_cast<std::uint64_t>(::getpid())});
        !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    Served served;
    for (;;) {
        // What the client does between two rounds is its own affair.
        session.set_timeout(std::nullopt);
        auto waited =
            session.wait([&] { return session.has_message() || session.connection() == nullptr; });
        if (!waited) {
            return tl::unexpected(std::move(waited.error()));
        }
        if (!session.has_message() && session.ended_orderly()) {
            return served;
        }
        session.set_timeout(hello->timeout_ms / 1000.0);
        const auto messages = serve_round(session, *hello);
        if (!messages) {
            return tl::unexpected(messages.error());
        }
        ++served.rounds;
        served.messages += *messages;
    }
}

/// Tells the client why, and waits until it is gone.
void give_up(Server& server, Session& session, const Error& error) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    // Session::wait() would give up too, when this process is interrupted.
    const auto until = [&](auto done) {
        while (session.connection() != nullptr && !done() &&
               std::chrono::steady_clock::now() < deadline) {
            if (session.engine().progress() == 0 && session.engine().arm() == Errc::ok) {
                sleep_on(session.engine());
            }
        }
    };
    const auto words = protocol::encode(protocol::Failure{.text = error.message});
    // There may be no room: measured messages are under way.
    until([&] { return session.connection()->send(words) != Errc::again; });
    if (session.connection() != nullptr) {
        (void)server.disconnect(*session.connection());
    }
    until([] { return false; });
}

Result<std::unique_ptr<Server>> open_server(const Options& options, ProgressEngine& engine,
                                            ServerProgram& program, std::string& function) {
    auto domain = Domain::open(options.domain);
    if (!domain) {
        return tl::unexpected(std::move(domain.error()));
    }
    auto device = open_device_of(*domain, Side::dpu, options);
    if (!device) {
        return tl::unexpected(std::move(device.error()));
    }
    auto representor = options.representor.empty()
                           ? device->representor((*domain)->functions(Side::host).front().name)
                           : device->representor(options.representor);
    if (!representor) {
        return tl::unexpected(std::move(representor.error()));
    }
    function = representor->function().name;
    return Server::open(engine, *device, *representor, options.name,
                        {.limits = {.message_size = 0,
                                    .send_queue = limits::send_queue_depth,
                                    .recv_queue = limits::recv_queue_depth},
                         .max_clients = 1},
                        program.handlers());
}

void say_ready(const Options& options, const std::string& function) {
    if (options.ready_fd < 0) {
        fmt::print(stderr, "comch_perftest: serving the clients of {} as '{}'{}\n", function,
                   options.name, options.persistent ? "; end with Ctrl-C" : "");
        return;
    }
    const char byte = 1;
    while (::write(options.ready_fd, &byte, 1) < 0 && errno == EINTR) {
    }
    ::close(options.ready_fd);
}

} // namespace

int run_server(const Options& options) {
    auto engine = ProgressEngine::create();
    if (!engine) {
        return complain(engine.error());
    }
    ServerProgram program{.engine = engine->get(), .sessions = {}};
    std::string function;
    auto server = open_server(options, **engine, program, function);
    if (!server) {
        return complain(server.error());
    }
    interrupt::catch_signals(**engine);
    say_ready(options, function);
    // Whoever started this one prints what it is told anyway.
    const bool quiet = options.ready_fd >= 0;

    int status = 0;
    do {
        const auto nothing = [&] { return program.sessions.empty() && !interrupt::requested(); };
        while (nothing()) {
            if ((*engine)->progress() == 0 && (*engine)->arm() == Errc::ok && nothing()) {
                sleep_on(**engine, -1);
            }
        }
        if (program.sessions.empty()) {
            if (!options.persistent && !quiet) {
                status = complain({Errc::canceled, "interrupted before a client came"});
            }
            break;
        }
        Session& session = program.sessions.front();
        const auto served = serve_client(**server, session);
        status = served ? 0 : 1;
        if (served && !quiet) {
            fmt::print(stderr, "comch_perftest: served a client: {} rounds, {} messages received\n",
                       served->rounds, served->messages);
        }
        if (!served) {
            if (!quiet) {
                complain(served.error());
            }
            give_up(**server, session, served.error());
        }
        program.sessions.pop_front();
    } while (options.persistent && !interrupt::requested());
    interrupt::release();
    // Interrupting is how a persistent server ends.
    return options.persistent && interrupt::requested() ? 0 : status;
}

} // namespace comch::perftest
