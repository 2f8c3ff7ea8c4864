// A peer that does not keep to the rules: sockets, packets and shared memory by hand.
#pragma once

#include <optional>

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "core/link/soft/names.hpp"
#include "core/link/soft/socket.hpp"
#include "core/link/soft/test_process.hpp"
#include "core/link/soft/wire.hpp"

namespace comch::link::soft::test {

inline UniqueFd own_process() {
    return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
}

inline UniqueFd test_memfd(std::size_t size, int seals = F_SEAL_SHRINK | F_SEAL_SEAL) {
    UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0 ||
        (seals != 0 && ::fcntl(fd.get(), F_ADD_SEALS, seals) != 0)) {
        throw std::runtime_error("no memfd");
    }
    return fd;
}

/// Any number of descriptors, unlike send_packet().
inline bool send_raw(int socket, std::span<const std::byte> packet,
                     std::span<const int> descriptors) {
    iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(16 * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
    }
    return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

template <class T> std::span<const std::byte> raw(const T& value) {
    return std::as_bytes(std::span(&value, 1));
}

/// The initiating end of a connection, by hand.
class RawPeer {
public:
    explicit RawPeer(const std::shared_ptr<Domain>& domain) : domain_(domain) {
        auto created = Pipe::create().value();
        pipe = std::move(created.pipe);
        memfd = std::move(created.memfd);
        segment = map_shared_memory(memfd.get(), ring_offset, true).value();
        segment =
            map_shared_memory(memfd.get(), ring_offset + 2ul * cells() * cell_size, true).value();
        hello.magic = wire::hello_magic;
        hello.version = protocol_version;
        hello.size = sizeof(hello);
        hello.process_id = 0xabcdef;
        std::memcpy(hello.domain, domain->id().bytes.data(), sizeof(hello.domain));
        hello.function = device_of(domain, Side::host).function().id;
        hello.side = static_cast<std::uint8_t>(Side::host);
    }

    bool connect(const std::string& entry) {
        socket.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string path = domain_->socket_path(entry);
        std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
        return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                         sizeof(address)) == 0;
    }
    bool connect(const End& victim) { return connect(port_entry(victim.port->address())); }

    bool say_hello() {
        const UniqueFd process = own_process();
        const std::array<int, 2> descriptors{memfd.get(), process.get()};
        return send_raw(socket.get(), raw(hello), descriptors);
    }
    /// The victim's answer, once there is one; its socket may be closed instead.
    std::optional<wire::Answer> answer() {
        wire::Answer result{};
        const Received packet =
            receive_packet(socket.get(), std::as_writable_bytes(std::span(&result, 1)));
        if (packet.status != SocketStatus::ok || packet.length != sizeof(result)) {
            return std::nullopt;
        }
        return result;
    }
    bool closed() {
        char byte = 0;
        const auto n = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
        return n == 0 || (n < 0 && errno != EAGAIN);
    }
    /// Connected as a correct peer would be; what follows is another matter.
    void join(End& victim) {
        ASSERT_TRUE(connect(victim));
        ASSERT_TRUE(say_hello());
        const std::size_t before = victim.seen.accepted.size();
        ASSERT_TRUE(until([&] { return victim.seen.accepted.size() > before; }, victim));
        connection = victim.seen.accepted.back();
        const auto reply = answer();
        ASSERT_TRUE(reply.has_value());
        ASSERT_EQ(reply->code, 0);
        pipe.attach(socket.get(), &slot, true);
        pipe.set_socket_ready(true);
    }
    bool packet(const wire::Packet& value, std::span<const int> descriptors = {}) {
        return send_raw(socket.get(), raw(value), descriptors);
    }

    [[nodiscard]] static std::uint32_t cells() { return tuning::ring_cells; }
    [[nodiscard]] SegmentControl& control() {
        return *reinterpret_cast<SegmentControl*>(segment.data());
    }

    UniqueFd socket;
    UniqueFd memfd;
    wire::Hello hello{};
    Pipe pipe;
    Mapping segment; ///< all of it
    counters::Slot slot{};
    Connection* connection = nullptr; ///< the victim's end

private:
    std::shared_ptr<Domain> domain_;
};

/// A listening socket where the victim expects a port, by hand.
class RawListener {
public:
    RawListener(const std::shared_ptr<Domain>& domain, std::uint64_t number)
        : address(make_port_address(process_id(), number)) {
        socket_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        sockaddr_un name{};
        name.sun_family = AF_UNIX;
        const std::string path = domain->socket_path(port_entry(address));
        std::memcpy(name.sun_path, path.c_str(), path.size() + 1);
        if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 ||
            ::listen(socket_.get(), 16) != 0) {
            throw std::runtime_error("no listener");
        }
    }

    /// Takes the next connection and its hello.
    bool accept() {
        peer.reset(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        hello = {};
        Received packet = receive_packet(peer.get(), std::as_writable_bytes(std::span(&hello, 1)));
        if (packet.status != SocketStatus::ok || packet.length != sizeof(hello)) {
            return false;
        }
        auto accepted = Pipe::accept(packet.fd[0].get());
        if (!accepted) {
            return false;
        }
        pipe = std::move(*accepted);
        segment = map_shared_memory(packet.fd[0].get(),
                                    ring_offset + 2ul * tuning::ring_cells * cell_size, true)
                      .value();
        pipe.attach(peer.get(), &slot, true);
        pipe.set_socket_ready(true);
        return true;
    }
    [[nodiscard]] static wire::Answer good_answer() {
        wire::Answer answer{};
        answer.magic = wire::hello_magic;
        answer.version = protocol_version;
        answer.size = sizeof(answer);
        answer.process_id = 0xfedcba;
        answer.side = static_cast<std::uint8_t>(Side::dpu);
        return answer;
    }
    bool say(std::span<const std::byte> packet, std::span<const int> descriptors) {
        return send_raw(peer.get(), packet, descriptors);
    }

    PortAddress address;
    UniqueFd peer;
    wire::Hello hello{};
    Pipe pipe;
    Mapping segment;
    counters::Slot slot{};

private:
    UniqueFd socket_;
};

} // namespace comch::link::soft::test
