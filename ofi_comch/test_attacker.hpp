// A peer that speaks the core's language over the soft link, and says in the provider's what it is
// told.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "address.hpp"
#include "core/device/process_id.hpp"
#include "core/link/soft/names.hpp"
#include "core/link/soft/port.hpp"
#include "test_node.hpp"
#include "wire.hpp"

namespace comch::ofi::test {

inline std::uint8_t id_of(wire::Kind kind, unsigned flags = 0) {
    return static_cast<std::uint8_t>(static_cast<unsigned>(kind) | flags);
}

using Record = std::pair<std::uint8_t, std::vector<std::byte>>;

/// A message's first part: how long it says that the whole is, and `size` bytes.
inline Record begin(std::uint64_t whole, std::size_t size, unsigned flags = 0) {
    std::vector<std::byte> bytes(sizeof(whole) + size, std::byte{'m'});
    std::memcpy(bytes.data(), &whole, sizeof(whole));
    return {id_of(wire::Kind::parts, flags), bytes};
}

inline Record go_on(std::size_t size) {
    return {id_of(wire::Kind::part), std::vector<std::byte>(size, std::byte{'m'})};
}

/// What a program has in its address vector there.
inline Address address_at(const Node& node, fi_addr_t at) {
    Address address{};
    std::size_t length = sizeof(address);
    COMCH_FI(fi_av_lookup(node.av, at, &address, &length));
    return address;
}

class Attacker {
    using Port = link::soft::Port;
    using Connection = link::soft::Connection;

public:
    explicit Attacker(const Node& victim, std::uint32_t version = wire::version) : Attacker() {
        connect(victim, version, port_->address());
    }
    /// Of connected endpoints: who listens there.
    explicit Attacker(const fi_info* listener) : Attacker() {
        Address address{};
        std::memcpy(&address, listener->src_addr, sizeof(address));
        const wire::Hello hello = hello_of(FI_EP_MSG, wire::version, port_->address());
        keep(port_->connect(
            link::ServiceName{FunctionId{address.function}, {address.name, address.name_length}},
            std::as_bytes(std::span(&hello, 1)), this));
    }

    void progress() {
        Sink sink{*this};
        (void)port_->progress(sink);
    }
    /// As the victim's program knows it.
    [[nodiscard]] std::vector<char> name(const Node& victim) const {
        std::vector<char> bytes = victim.name();
        const link::PortAddress own = port_->address();
        std::memcpy(bytes.data() + offsetof(Address, port), own.bytes.data(), own.bytes.size());
        return bytes;
    }
    /// Instead of the connection that there is: as if from a port of that number, here or in
    /// another process.
    void connect_again(const Node& victim, std::uint64_t number,
                       std::uint64_t process = process_id()) {
        if (!ended_) {
            port_->close(link_);
        }
        connected_ = ended_ = false;
        connect(victim, wire::version, link::soft::make_port_address(process, number));
    }
    void leave() {
        port_->close(link_);
        ended_ = true;
    }
    [[nodiscard]] bool connected() const { return connected_; }
    /// Of operations that the victim has said how they ended.
    [[nodiscard]] unsigned answers() const { return answers_; }
    [[nodiscard]] bool ended() const { return ended_; }
    [[nodiscard]] link::Reason reason() const { return reason_; }
    [[nodiscard]] Errc send(std::uint8_t id, const std::vector<std::byte>& bytes) {
        return ended_ ? Errc::connection_reset : link_->send(id, bytes);
    }
    /// Says that it listens there.
    [[nodiscard]] Errc claim(const Address& address) {
        const wire::Name head{address.function};
        std::vector<std::byte> bytes(sizeof(head) + address.name_length);
        std::memcpy(bytes.data(), &head, sizeof(head));
        std::memcpy(bytes.data() + sizeof(head), address.name, address.name_length);
        return send(id_of(wire::Kind::name), bytes);
    }
    /// Announces a message whose data nobody can fetch before this peer progresses, and then in
    /// vain.
    [[nodiscard]] Errc announce(std::uint64_t length) {
        const wire::LongMessage announcement{1, {length, 1, 4096, 0}};
        const auto* const bytes = reinterpret_cast<const std::byte*>(&announcement);
        return send(id_of(wire::Kind::long_message), {bytes, bytes + sizeof(announcement)});
    }

private:
    struct Sink {
        Attacker& self;
        link::ConnectDecision on_connect_request(Connection&, const link::ConnectRequest&) {
            return {Errc::not_found, nullptr, {}};
        }
        void on_connected(Connection&, std::span<const std::byte>) { self.connected_ = true; }
        void on_message(Connection&, std::uint8_t id, const std::byte*, std::uint32_t) {
            self.answers_ += id == id_of(wire::Kind::done) ? 1 : 0;
        }
        void on_complete(Connection&, void*, Errc) {}
        void on_disconnected(Connection& connection, link::Reason reason,
                             std::span<const std::byte>) {
            self.ended_ = true;
            self.reason_ = reason;
            self.port_->close(&connection);
        }
        void on_channel(Connection&, std::uint64_t, link::soft::Link::Channel&&) {}
    };

    Attacker() {
        auto domain = Domain::open({});
        auto device = domain ? default_device(*domain) : tl::unexpected(domain.error());
        auto port = device ? Port::open(*device, {.face = "test"}) : tl::unexpected(device.error());
        if (!port) {
            throw std::runtime_error(port.error().message);
        }
        port_ = std::move(*port);
    }
    static wire::Hello hello_of(fi_ep_type type, std::uint32_t version,
                                const link::PortAddress& as) {
        wire::Hello hello{};
        hello.magic = wire::hello_magic;
        hello.version = version;
        hello.endpoint_type = static_cast<std::uint32_t>(type);
        std::memcpy(hello.port, as.bytes.data(), sizeof(hello.port));
        return hello;
    }
    void keep(Result<Connection*> connection) {
        if (!connection) {
            throw std::runtime_error(connection.error().message);
        }
        link_ = *connection;
    }
    void connect(const Node& victim, std::uint32_t version, const link::PortAddress& as) {
        Address address{};
        const std::vector<char> name = victim.name();
        std::memcpy(&address, name.data(), std::min(name.size(), sizeof(address)));
        link::PortAddress to{};
        std::memcpy(to.bytes.data(), address.port, sizeof(address.port));
        const wire::Hello hello = hello_of(FI_EP_RDM, version, as);
        keep(port_->connect(to, std::as_bytes(std::span(&hello, 1)), this));
    }

    std::unique_ptr<Port> port_;
    Connection* link_ = nullptr;
    unsigned answers_ = 0;
    bool connected_ = false;
    bool ended_ = false;
    link::Reason reason_{};
};

/// A program that such a peer is connected to.
struct Attacked : testing::Test {
    explicit Attacked(const NodeOptions& options = {}) : victim(options) {}

    Node victim;
    Attacker attacker{victim};

    template <class Condition> [[nodiscard]] bool until(Condition condition) {
        const auto end = Clock::now() + std::chrono::seconds(60);
        while (Clock::now() < end) {
            if (condition()) {
                return true;
            }
            attacker.progress();
            (void)fi_cq_read(victim.tx, nullptr, 0);
        }
        return false;
    }
    void say(const Record& record) {
        ASSERT_TRUE(until([&] { return attacker.connected(); }));
        ASSERT_TRUE(
            until([&] { return attacker.send(record.first, record.second) != Errc::again; }));
    }
};

} // namespace comch::ofi::test
