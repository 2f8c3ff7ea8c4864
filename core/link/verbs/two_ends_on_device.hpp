// What tests on a real device share: a port on each side, connected, and a look inside.
#pragma once

#include <chrono>
#include <memory>

#include <gtest/gtest.h>

#include "core/link/contract_test.hpp"
#include "core/link/verbs/port.hpp"

namespace comch::link::verbs {

/// To provoke what no correct program does.
struct Inside {
    static Pipe& pipe(Connection& connection) { return *connection.pipe_; }
    static Pipe& pipe(Channel& channel) { return *channel.core_->pipe; }
    static Queues& queues(Port& port) { return *port.queues_; }
    static std::uint16_t tcp_port(const Port& port) { return port.tcp_port_; }
    static std::uint64_t number(const Port& port) { return port.number_; }
    static std::uint8_t device_port(const Port& port) { return port.device_port_; }
    /// Connections that the port has accepted and knows no more of yet.
    static std::vector<Connection*> met(const Port& port) {
        std::vector<Connection*> found;
        for (const auto& c : port.connections_) {
            if (c->state_ == Connection::State::meeting) {
                found.push_back(c.get());
            }
        }
        return found;
    }
    static std::uint64_t deadline(const Connection& connection) { return connection.deadline_ns_; }
    static void expire(Connection& connection) { connection.deadline_ns_ = 1; }
    /// Its peer has been asked whether it is there, and has not answered.
    static bool asks(const Connection& connection) { return connection.asked_ns_ != 0; }
    /// It was so long ago.
    static void asked_before(Connection& connection, std::uint64_t ns) {
        connection.asked_ns_ -= ns;
    }
    static unsigned probe(const Connection& connection) { return connection.probe_; }
    /// What the peer's kernel may answer to a request to connect.
    static std::optional<Reason> refuse(Port& port, Connection& connection, int status) {
        CmEvent event;
        event.type = RDMA_CM_EVENT_REJECTED;
        event.status = status;
        return port.take_event(connection, event);
    }
    /// What arrives waits, as while a get is answered.
    static void pause(Connection& connection) { connection.paused_ = true; }
    static void resume(Connection& connection) {
        connection.paused_ = false;
        connection.needs_work();
    }
    static std::size_t waiting(const Connection& connection) { return connection.deferred_.size(); }
};

struct End {
    std::unique_ptr<Port> port;
    contract::Recorder<Link> seen;

    explicit End(const Device& device, PortOptions options = {.face = "test"})
        : port(*Port::open(device, std::move(options))) {}
    unsigned progress() { return port->progress(seen); }
};

class TwoEnds : public ::testing::Test {
protected:
    std::shared_ptr<Domain> domain = *Domain::open();
    Device host_device = devices(domain, Side::host).at(0);
    Device dpu_device = devices(domain, Side::dpu).at(0);
    End host{host_device};
    End dpu{dpu_device};
    Connection* connection = nullptr; ///< the host's

    template <class Done> bool until(Done done) {
        const auto deadline = std::chrono::steady_clock::now() + contract::patience;
        while (!done()) {
            if (host.progress() + dpu.progress() == 0 &&
                std::chrono::steady_clock::now() > deadline) {
                return false;
            }
        }
        return true;
    }
    Connection* connect() {
        const std::size_t before = host.seen.connected.size();
        Connection* const made = *host.port->connect(dpu.port->address(), {}, nullptr);
        EXPECT_TRUE(until([&] { return host.seen.connected.size() > before; }));
        return made;
    }
    void SetUp() override {
        connection = connect();
        ASSERT_TRUE(until([&] { return connection->confirmed() == connection->sent(); }));
        for (int i = 0; i < 100; ++i) { // what is still to be said of the connection
            host.progress();
            dpu.progress();
        }
    }
};

} // namespace comch::link::verbs
