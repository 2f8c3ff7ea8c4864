// The packets of established connections: doorbells, memory that is mapped, channels.
#include "core/link/soft/port.hpp"

#include <algorithm>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include "core/link/soft/socket.hpp"

namespace comch::link::soft {

Port::SocketResult Port::next_packet(Connection& c, wire::Answer& buffer, Received& packet) {
    packet.length = 0;
    if (!c.socket_ || c.state_ == Connection::State::connecting) {
        return SocketResult::fine;
    }
    packet = receive_packet(c.socket_.get(), std::as_writable_bytes(std::span(&buffer, 1)));
    switch (packet.status) {
    case SocketStatus::again:
        packet.length = 0;
        return SocketResult::fine;
    case SocketStatus::ended:
        return SocketResult::ended;
    case SocketStatus::failed:
        // Another version's answer may be longer than ours, and cut.
        if (c.state_ != Connection::State::waiting || packet.length < 16 ||
            buffer.version == protocol_version) {
            return SocketResult::broken;
        }
        break;
    case SocketStatus::ok:
        break;
    }
    return SocketResult::fine;
}

bool Port::does_without_descriptor(Connection& c, const wire::Answer& buffer,
                                   const Received& packet) {
    wire::Packet head{};
    std::memcpy(&head, &buffer, sizeof(head));
    // Memory that cannot be mapped is reached by records; a channel's opener finds it closed.
    if (c.state_ == Connection::State::established && packet.length == sizeof(head) &&
        (head.type == static_cast<std::uint32_t>(wire::Type::map_answer) ||
         head.type == static_cast<std::uint32_t>(wire::Type::channel))) {
        return true;
    }
    c.error_text_ =
        "the peer sent a descriptor, and this process has as many open as it may: raise "
        "the limit (ulimit -n)";
    return false;
}

bool Port::take_packet(Connection& c, const wire::Packet& packet,
                       std::array<UniqueFd, 2>& descriptors) {
    switch (static_cast<wire::Type>(packet.type)) {
    case wire::Type::doorbell:
        c.pipe_.slot()->rx.wakeups.add(1);
        wake_ring(c);
        return true;
    case wire::Type::bulk:
        return descriptors[0] && c.pipe_.accept_bulk(descriptors[0].get(), packet.value);
    case wire::Type::map_request:
        if (c.map_answers_.size() >= tuning::max_one_sided) {
            return false; // nobody asks for more at once (may_ask())
        }
        if (!c.answer_.empty() || !c.map_answers_.empty() || !answer_map_request(c, packet.value)) {
            c.map_answers_.push_back(packet.value);
            c.needs_work();
        }
        return true;
    case wire::Type::map_answer: {
        const auto asked = std::find_if(c.asked_.begin(), c.asked_.end(), [&](const auto& entry) {
            return entry.region == packet.value;
        });
        if (asked == c.asked_.end()) {
            return false; // nobody has asked
        }
        const std::shared_ptr<Import> import = std::move(asked->import);
        const bool fits = packet.extra <= asked->length; // else it is not what the key was for
        c.asked_.erase(asked);
        const bool writable = (packet.flags & wire::map_read_only) == 0;
        Result<Mapping> mapping =
            descriptors[0] && fits ? map_shared_memory(descriptors[0].get(), packet.extra, writable)
                                   : Result<Mapping>(fail(Errc::not_permitted, "refused"));
        if (mapping) {
            import->set_mapped(std::move(*mapping), writable);
        } else {
            import->set_refused();
        }
        return true;
    }
    default:
        return false;
    }
}

bool Port::answer_map_request(Connection& c, std::uint64_t region) {
    wire::Packet answer{static_cast<std::uint32_t>(wire::Type::map_answer), 0, region, 0};
    int descriptor = -1;
    UniqueFd read_only;
    const RegionTable::Pin pin = RegionTable::instance().pin(region);
    // Who has it mapped can read it, whatever else was granted.
    if (pin && pin.region().memfd >= 0 && (pin.region().access & access_remote_read) != 0) {
        descriptor = pin.region().memfd;
        answer.extra = pin.region().length;
        if ((pin.region().access & (access_remote_write | access_remote_atomic)) == 0) {
            const std::string path = fmt::format("/proc/thread-self/fd/{}", descriptor);
            read_only.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
            descriptor = read_only.get();
            answer.flags = wire::map_read_only;
        }
    }
    const auto packet = std::as_bytes(std::span(&answer, 1));
    if (descriptor >= 0) {
        const SocketStatus status =
            send_packet(c.socket_.get(), packet, std::span<const int>(&descriptor, 1));
        if (status != SocketStatus::failed) {
            return status != SocketStatus::again;
        }
        answer = {static_cast<std::uint32_t>(wire::Type::map_answer), 0, region,
                  0}; // refused, then
    }
    return send_packet(c.socket_.get(), packet) != SocketStatus::again;
}

void Port::send_waiting_packets(Connection& c) {
    if (!c.answer_.empty() && !send_answer(c)) {
        return;
    }
    while (!c.map_answers_.empty() && answer_map_request(c, c.map_answers_.front())) {
        c.map_answers_.erase(c.map_answers_.begin());
    }
    while (c.may_ask() && c.state_ == Connection::State::established) {
        const wire::Packet request{static_cast<std::uint32_t>(wire::Type::map_request), 0,
                                   c.map_requests_.front(), 0};
        if (send_packet(c.socket_.get(), std::as_bytes(std::span(&request, 1))) ==
            SocketStatus::again) {
            return;
        }
        c.map_requests_.erase(c.map_requests_.begin());
    }
}

bool Port::accept_channel(Connection& c, std::array<UniqueFd, 2>& descriptors, Channel& channel) {
    if (!descriptors[0] || !descriptors[1]) {
        return false;
    }
    // It must be a socket, or our doorbells would go to a file of the peer's choosing.
    const auto option = [&](int name) {
        int value = -1;
        socklen_t size = sizeof(value);
        return ::getsockopt(descriptors[1].get(), SOL_SOCKET, name, &value, &size) == 0 ? value
                                                                                        : -1;
    };
    if (option(SO_DOMAIN) != AF_UNIX || option(SO_TYPE) != SOCK_SEQPACKET ||
        option(SO_ACCEPTCONN) != 0) {
        return false;
    }
    auto pipe = Pipe::accept(descriptors[0].get());
    if (!pipe) {
        return false;
    }
    channel =
        Channel(std::move(*pipe), std::move(descriptors[1]), c.life_, counters_,
                c.slot_info(counters::SlotState::connected), !membarrier_ || c.pipe_.fenced());
    return true;
}

} // namespace comch::link::soft
