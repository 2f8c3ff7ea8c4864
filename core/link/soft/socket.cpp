#include "core/link/soft/socket.hpp"

#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace comch::link::soft {
namespace {

/// With room for one descriptor too many, so that who sends more is told apart from who finds no
/// room for one in this process.
struct alignas(cmsghdr) ControlBuffer {
    std::byte bytes[CMSG_SPACE((max_descriptors + 1) * sizeof(int))];
};

/// Calls bind() or connect().
template <class Call>
int at_entry(Call call, int socket, const Domain& domain, const std::string& entry) {
    const std::string path = domain.socket_path(entry);
    sockaddr_un address{};
    if (path.size() >= sizeof(address.sun_path)) {
        return ENAMETOOLONG;
    }
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return call(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0
                                                                                           : errno;
}

} // namespace

SocketStatus send_packet(int socket, std::span<const std::byte> packet,
                         std::span<const int> descriptors) noexcept {
    iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    ControlBuffer control{};
    if (!descriptors.empty()) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
    }
    for (;;) {
        if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
            return SocketStatus::ok;
        }
        switch (errno) {
        case EINTR:
            continue;
        case EAGAIN:
        case ENOBUFS:
        case ETOOMANYREFS: // too many of our descriptors are in flight: the peers must read first
        case ENOTCONN:     // the connect is still in progress
            return SocketStatus::again;
        case EPIPE:
        case ECONNRESET:
            return SocketStatus::ended;
        default:
            return SocketStatus::failed;
        }
    }
}

Received receive_packet(int socket, std::span<std::byte> buffer) noexcept {
    Received result;
    iovec part{buffer.data(), buffer.size()};
    ControlBuffer control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    ssize_t length = -1;
    for (;;) {
        length = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        // The kernel reports a reset (the peer closed with our packets unread) before what the peer
        // had sent; reporting it clears it, so look again.
        if (length >= 0 || (errno != EINTR && errno != ECONNRESET)) {
            break;
        }
    }
    if (length < 0) {
        result.status = errno == EAGAIN ? SocketStatus::again : SocketStatus::failed;
        return result;
    }
    bool too_many = false;
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
            UniqueFd owned(fd);
            if (result.descriptors < max_descriptors) {
                result.fd[result.descriptors++] = std::move(owned);
            } else {
                too_many = true;
            }
        }
    }
    result.length = static_cast<std::size_t>(length);
    if (length == 0) {
        result.status = SocketStatus::ended;
    } else if (too_many || (message.msg_flags & MSG_TRUNC) != 0) {
        result.status = SocketStatus::failed;
    } else {
        result.status = SocketStatus::ok;
        result.misses_descriptor = (message.msg_flags & MSG_CTRUNC) != 0;
    }
    return result;
}

UniqueFd make_socket() noexcept {
    return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int bind_to(int socket, const Domain& domain, const std::string& entry) {
    return at_entry(::bind, socket, domain, entry);
}

int connect_to(int socket, const Domain& domain, const std::string& entry) {
    return at_entry(::connect, socket, domain, entry);
}

bool is_our_user(int socket, std::uint64_t& pid) noexcept {
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
        return false;
    }
    pid = peer.pid > 0 ? static_cast<std::uint64_t>(peer.pid) : 0;
    return peer.uid == ::geteuid();
}

} // namespace comch::link::soft
