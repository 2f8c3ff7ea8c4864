// What the channel layer's tests share: a domain on either link, programs on both sides that
// remember everything they are told, and waiting for conditions.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include <comch/comch.hpp>

#include "core/base/test_waiting.hpp"
#include "core/device/test_support.hpp"
#include "core/link/fake/fake_link.hpp"

namespace comch::channel::test {

inline constexpr auto patience = std::chrono::seconds(30); ///< far more than anything takes

inline std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}
inline std::string text_of(std::span<const std::byte> bytes) {
    std::string text(bytes.size(), '\0');
    std::transform(bytes.begin(), bytes.end(), text.begin(),
                   [](std::byte b) { return static_cast<char>(b); });
    return text;
}
/// Bytes that tell a wrong length, order or place.
inline std::vector<std::byte> pattern(std::size_t length, std::uint32_t seed) {
    std::vector<std::byte> bytes(length);
    std::uint32_t state = seed * 2654435761u + 12345u;
    for (std::byte& b : bytes) {
        state = state * 1664525u + 1013904223u;
        b = static_cast<std::byte>(state >> 24);
    }
    return bytes;
}

inline std::unique_ptr<ProgressEngine> make_engine() {
    return *ProgressEngine::create();
}

/// A domain in a directory of its own.
struct TestDomain {
    comch::test::TempDir directory;
    std::shared_ptr<Domain> domain;

    TestDomain() {
        const comch::test::CleanEnvironment clean;
        domain = *Domain::open({.directory = directory / "domain",
                                .description_file = comch::test::test_description().value_or("")});
    }
};

/// A domain with a DPU and two host functions. There is one with a fake network at a time.
struct Lab {
    std::optional<TestDomain> own;
    std::shared_ptr<Domain> domain;
    std::optional<link::fake::Network> network; ///< if everything is to run over the fake link
    std::optional<Device> dpu;
    std::vector<Device> hosts;
    std::vector<Representor> representors;

    explicit Lab(bool fake, const link::fake::Settings& settings = {}) {
        if (fake) {
            // Nothing happens in the directory, so one serves all tests.
            static const TestDomain shared;
            domain = shared.domain;
            network.emplace(domain, settings);
        } else {
            domain = own.emplace().domain;
        }
        dpu = devices(domain, Side::dpu).at(0);
        hosts = devices(domain, Side::host);
        for (const Device& host : hosts) {
            representors.push_back(*dpu->representor(host.function().name));
        }
    }
};

/// A server and what it was told.
struct ServerProgram {
    std::unique_ptr<ProgressEngine> engine = make_engine();
    std::vector<Connection*> connected;
    std::vector<std::pair<Connection*, EndReason>> disconnected;
    std::vector<std::pair<Connection*, std::string>> messages;
    std::vector<std::pair<Connection*, std::uint32_t>> added;
    std::vector<std::pair<Connection*, std::uint32_t>> removed;
    std::vector<Refusal> refused;
    std::vector<Connection*> requested;
    std::vector<State> states;
    std::function<void(Connection&)> on_connected;
    std::function<void(Connection&)> on_disconnected;
    std::function<void(Connection&, std::string_view)> on_message;
    std::function<void(Connection&, std::uint32_t)> on_added;
    std::unique_ptr<Server> server; ///< last: destroyed first

    [[nodiscard]] ServerHandlers handlers() {
        return {.user = this,
                .connected =
                    [](void* user, Connection& c) {
                        auto& self = *static_cast<ServerProgram*>(user);
                        self.connected.push_back(&c);
                        if (self.on_connected) {
                            self.on_connected(c);
                        }
                    },
                .disconnected =
                    [](void* user, Connection& c, EndReason reason) {
                        auto& self = *static_cast<ServerProgram*>(user);
                        self.disconnected.emplace_back(&c, reason);
                        if (self.on_disconnected) {
                            self.on_disconnected(c);
                        }
                    },
                .refused =
                    [](void* user, const Peer&, Refusal refusal) {
                        static_cast<ServerProgram*>(user)->refused.push_back(refusal);
                    },
                .requested =
                    [](void* user, Connection& c) {
                        static_cast<ServerProgram*>(user)->requested.push_back(&c);
                    },
                .message =
                    [](void* user, Connection& c, std::span<const std::byte> message) {
                        auto& self = *static_cast<ServerProgram*>(user);
                        self.messages.emplace_back(&c, text_of(message));
                        if (self.on_message) {
                            self.on_message(c, self.messages.back().second);
                        }
                    },
                .consumer_added =
                    [](void* user, Connection& c, std::uint32_t id) {
                        auto& self = *static_cast<ServerProgram*>(user);
                        self.added.emplace_back(&c, id);
                        if (self.on_added) {
                            self.on_added(c, id);
                        }
                    },
                .consumer_removed =
                    [](void* user, Connection& c, std::uint32_t id) {
                        static_cast<ServerProgram*>(user)->removed.emplace_back(&c, id);
                    },
                .state_changed =
                    [](void* user, State state) {
                        static_cast<ServerProgram*>(user)->states.push_back(state);
                    }};
    }

    [[nodiscard]] Errc open(const Lab& lab, std::string_view name,
                            const ServerOptions& options = {}, std::size_t function = 0) {
        auto opened =
            Server::open(*engine, *lab.dpu, lab.representors[function], name, options, handlers());
        if (!opened) {
            return opened.error().code;
        }
        server = std::move(*opened);
        return Errc::ok;
    }
};

/// A client and what it was told.
struct ClientProgram {
    std::unique_ptr<ProgressEngine> engine = make_engine();
    std::vector<std::string> messages;
    std::vector<std::uint32_t> added;
    std::vector<std::uint32_t> removed;
    std::vector<State> states;
    std::function<void(State)> on_state;
    std::function<void(std::string_view)> on_message;
    std::function<void(std::uint32_t)> on_added;
    std::unique_ptr<Client> client;

    [[nodiscard]] ClientHandlers handlers() {
        return {.user = this,
                .state_changed =
                    [](void* user, State state) {
                        auto& self = *static_cast<ClientProgram*>(user);
                        self.states.push_back(state);
                        if (self.on_state) {
                            self.on_state(state);
                        }
                    },
                .message =
                    [](void* user, Connection&, std::span<const std::byte> message) {
                        auto& self = *static_cast<ClientProgram*>(user);
                        self.messages.push_back(text_of(message));
                        if (self.on_message) {
                            self.on_message(self.messages.back());
                        }
                    },
                .consumer_added =
                    [](void* user, Connection&, std::uint32_t id) {
                        auto& self = *static_cast<ClientProgram*>(user);
                        self.added.push_back(id);
                        if (self.on_added) {
                            self.on_added(id);
                        }
                    },
                .consumer_removed =
                    [](void* user, Connection&, std::uint32_t id) {
                        static_cast<ClientProgram*>(user)->removed.push_back(id);
                    }};
    }

    [[nodiscard]] Errc open(const Lab& lab, std::string_view name,
                            const ClientOptions& options = {}, std::size_t function = 0) {
        auto opened = Client::open(*engine, lab.hosts[function], name, options, handlers());
        if (!opened) {
            return opened.error().code;
        }
        client = std::move(*opened);
        return Errc::ok;
    }
    [[nodiscard]] Connection& connection() { return client->connection(); }
};

struct ConsumerProgram {
    struct Landed {
        void* cookie;
        Errc status;
        std::size_t offset;
        std::size_t length;
        std::string immediate;
        Connection* connection;
        std::uint32_t producer;
    };
    std::vector<Landed> landed;
    std::vector<State> states;
    std::function<void(const Received&)> on_received;
    std::unique_ptr<Consumer> consumer;

    [[nodiscard]] ConsumerHandlers handlers() {
        return {.user = this,
                .received =
                    [](void* user, const Received& r) {
                        auto& self = *static_cast<ConsumerProgram*>(user);
                        self.landed.push_back({r.cookie, r.status, r.offset, r.length,
                                               text_of(r.immediate), r.connection, r.producer});
                        if (self.on_received) {
                            self.on_received(r);
                        }
                    },
                .state_changed =
                    [](void* user, State state) {
                        static_cast<ConsumerProgram*>(user)->states.push_back(state);
                    }};
    }
    [[nodiscard]] Errc open(ProgressEngine& engine, Connection& connection,
                            const ConsumerOptions& options = {}) {
        auto opened = Consumer::open(engine, connection, options, handlers());
        if (!opened) {
            return opened.error().code;
        }
        consumer = std::move(*opened);
        return Errc::ok;
    }
    [[nodiscard]] Errc post(std::vector<std::byte>& buffer, std::size_t used = 0) {
        return consumer->post({.address = buffer.data(), .capacity = buffer.size(), .length = used},
                              &buffer);
    }
};

struct ProducerProgram {
    std::vector<std::pair<void*, Errc>> sent;
    std::vector<State> states;
    std::function<void(void*, Errc)> on_sent;
    std::unique_ptr<Producer> producer;

    [[nodiscard]] ProducerHandlers handlers() {
        return {.user = this,
                .sent =
                    [](void* user, void* cookie, Errc status) {
                        auto& self = *static_cast<ProducerProgram*>(user);
                        self.sent.emplace_back(cookie, status);
                        if (self.on_sent) {
                            self.on_sent(cookie, status);
                        }
                    },
                .state_changed =
                    [](void* user, State state) {
                        static_cast<ProducerProgram*>(user)->states.push_back(state);
                    }};
    }
    [[nodiscard]] Errc open(ProgressEngine& engine, Connection& connection,
                            const ProducerOptions& options = {}) {
        auto opened = Producer::open(engine, connection, options, handlers());
        if (!opened) {
            return opened.error().code;
        }
        producer = std::move(*opened);
        return Errc::ok;
    }
    [[nodiscard]] Errc send(std::uint32_t consumer, std::span<const std::byte> data,
                            void* cookie = nullptr) {
        return producer->send(consumer, {.data = data}, cookie);
    }
};

inline unsigned step(ProgressEngine& engine) {
    return engine.progress();
}
inline unsigned step(ServerProgram& program) {
    return program.engine->progress();
}
inline unsigned step(ClientProgram& program) {
    return program.engine->progress();
}
inline unsigned step(std::deque<ClientProgram>& programs) {
    unsigned handled = 0;
    for (ClientProgram& program : programs) {
        handled += program.engine->progress();
    }
    return handled;
}

/// Progresses all of them until `done`; a failure when nothing has happened for `patience`.
template <class Done, class... Programs>
::testing::AssertionResult until(Done done, Programs&... programs) {
    auto deadline = std::chrono::steady_clock::now() + patience;
    while (!done()) {
        if ((step(programs) + ... + 0u) != 0) {
            deadline = std::chrono::steady_clock::now() + patience;
            continue;
        }
        std::this_thread::yield();
        if (std::chrono::steady_clock::now() > deadline) {
            return ::testing::AssertionFailure() << "nothing happens any more";
        }
    }
    return ::testing::AssertionSuccess();
}

/// Progresses for a while: for what must not happen.
template <class... Programs> void settle(Programs&... programs) {
    comch::test::for_a_while(std::chrono::milliseconds(30), [&] { ((void)step(programs), ...); });
}

inline bool sleep_on(int fd) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
    return ::poll(&entry, 1, static_cast<int>(ms)) == 1;
}

} // namespace comch::channel::test
