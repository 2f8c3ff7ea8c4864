// Connected endpoints: how their connections begin and end.
#include <algorithm>
#include <cstring>
#include <utility>

#include "endpoint.hpp"
#include "endpoint_parser.hpp"
#include "eq.hpp"
#include "guarded.hpp"
#include "passive_endpoint.hpp"
#include "provider.hpp"
#include "srx.hpp"
#include "status.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

struct CmEntry {
    ::fid* fid;
    fi_info* info;
};
static_assert(sizeof(CmEntry) == sizeof(fi_eq_cm_entry));

Endpoint& endpoint_of(void* fid) {
    return *object_of<Endpoint>(fid);
}

int get_name(fid* fid, void* to, std::size_t* length) {
    Endpoint& endpoint = endpoint_of(fid);
    const Guard guard(*endpoint.domain->lock);
    if (endpoint.socket_addresses) {
        return copy_address(socket_address(endpoint.function, endpoint.socket_port), to, length);
    }
    // Also one that was given a name is known to its peers by its port.
    return copy_address(
        port_address(*endpoint.station->device().domain(), endpoint.station->port().address()), to,
        length);
}

int get_peer(fid_ep* fid, void* to, std::size_t* length) {
    Endpoint& endpoint = endpoint_of(fid);
    const Guard guard(*endpoint.domain->lock);
    if (!endpoint.remote_address) {
        return -FI_ENOTCONN;
    }
    return endpoint.socket_addresses
               ? copy_address(socket_address(*endpoint.remote_address), to, length)
               : copy_address(*endpoint.remote_address, to, length);
}

int connect(fid_ep* fid, const void* to, const void* data, std::size_t length) {
    Endpoint& endpoint = endpoint_of(fid);
    if (endpoint.type != FI_EP_MSG) {
        return -FI_EINVAL;
    }
    const Guard guard(*endpoint.domain->lock);
    if (endpoint.state != Endpoint::State::idle) {
        return -FI_EOPBADSTATE;
    }
    const auto address = parse_address(endpoint.station->device(), to, sizeof(Address));
    if (!address || !is_chosen(*address)) {
        return -FI_EINVAL;
    }
    if (const int error = endpoint.enabled ? 0 : endpoint.enable(); error != 0) {
        return error;
    }
    return endpoint.connect_to(*address, connection_data(data, length));
}

int accept(fid_ep* fid, const void* data, std::size_t length) {
    Endpoint& endpoint = endpoint_of(fid);
    if (endpoint.type != FI_EP_MSG) {
        return -FI_EINVAL;
    }
    const Guard guard(*endpoint.domain->lock);
    return endpoint.accept(connection_data(data, length));
}

int shut_down(fid_ep* fid, std::uint64_t flags) {
    Endpoint& endpoint = endpoint_of(fid);
    if (flags != 0) {
        return -FI_EBADFLAGS;
    }
    const Guard guard(*endpoint.domain->lock);
    if (endpoint.type != FI_EP_MSG || endpoint.conn == nullptr) {
        return -FI_ENOTCONN;
    }
    endpoint.shut_down();
    return 0;
}

} // namespace

int Endpoint::connect_to(const Address& address, std::span<const std::byte> data) {
    std::byte bytes[sizeof(wire::Hello) + wire::max_connection_data];
    static_assert(sizeof(bytes) <= link::max_private_data);
    wire::Hello hello{};
    hello.magic = wire::hello_magic;
    hello.version = wire::version;
    hello.endpoint_type = FI_EP_MSG;
    hello.data_length = static_cast<std::uint32_t>(data.size());
    const link::PortAddress own = station->port().address();
    std::memcpy(hello.port, own.bytes.data(), sizeof(hello.port));
    hello.function = function;
    std::memcpy(bytes, &hello, sizeof(hello));
    if (!data.empty()) {
        std::memcpy(bytes + sizeof(hello), data.data(), data.size());
    }
    const auto made =
        station->connect(*this, nullptr, address, {bytes, sizeof(hello) + data.size()});
    remote_address = address;
    if (!made) {
        log_no_connection(made.error());
        if (made.error().code != Errc::not_found) {
            return -to_fi(made.error());
        }
        // How an attempt went is an event, also when it is known at once.
        state = State::connecting;
        end_connection(Errc::rejected);
        return 0;
    }
    conn = *made;
    state = State::connecting;
    return 0;
}

int Endpoint::accept(std::span<const std::byte> data) {
    if (state != State::connecting || conn == nullptr) {
        return state == State::ended ? -FI_ECONNABORTED : -FI_EOPBADSTATE;
    }
    if (const int error = enabled ? 0 : enable(); error != 0) {
        return error;
    }
    const bool tells = eq != nullptr && !eq->is_overrun();
    if (tells) { // first, as there may be no memory for it
        eq->try_add(FI_CONNECTED, CmEntry{&fid.fid, nullptr});
    }
    const Errc result = conn->link->send(static_cast<std::uint8_t>(wire::Kind::accept), data);
    if (result != Errc::ok) {
        if (tells) {
            eq->take_back();
        }
        return -to_fi(result);
    }
    state = State::connected;
    choose_ways();
    return 0;
}

bool Endpoint::take_decision(Conn& from, Parser& parser, bool accepted) {
    if (type != FI_EP_MSG || &from != conn || state != State::connecting ||
        taken_request != nullptr || parser.left() > wire::max_connection_data) {
        return false;
    }
    std::vector<std::byte> data(parser.rest(), parser.rest() + parser.left());
    if (accepted) {
        state = State::connected;
        choose_ways();
        if (eq != nullptr) {
            eq->add(FI_CONNECTED, CmEntry{&fid.fid, nullptr}, data);
        }
        return true;
    }
    refusal_ = std::move(data); // its end follows
    return true;
}

void Endpoint::end_connection(Errc status) {
    const State was = state;
    state = State::ended;
    ended_with = status == Errc::connection_reset || status == Errc::io ? status : Errc::canceled;
    conn = nullptr;
    choose_ways();
    if (srx == nullptr) {
        fail_receives(ended_with);
    }
    if (eq == nullptr || was == State::ended) {
        return;
    }
    if (was == State::connected) {
        eq->add(FI_SHUTDOWN, CmEntry{&fid.fid, nullptr});
        return;
    }
    // Refused by the program, by nobody being there, or by the link.
    const Errc why =
        status == Errc::not_connected || status == Errc::not_found ? Errc::rejected : status;
    fi_eq_err_entry failure{};
    failure.fid = &fid.fid;
    failure.context = fid.fid.context;
    failure.err = to_fi(why);
    failure.prov_errno = to_fi(why);
    eq->add_failure(failure, refusal_);
}

void Endpoint::shut_down() {
    drain(); // in which the peer may end it
    if (conn == nullptr) {
        return;
    }
    Conn& with = *conn;
    Station& at = *with.station;
    at.port().close(std::exchange(with.link, nullptr)); // as in break_off()
    lose(with, link::Reason::closed);
    if (state != State::connected) {
        state = State::ended; // its own program knows
    }
    end_connection(Errc::not_connected);
    at.remove_conn(&with);
}

fi_ops_cm endpoint_cm_ops = {sizeof(fi_ops_cm),  unsupported<decltype(fi_ops_cm::setname)>,
                             get_name,           get_peer,
                             guarded<connect>,   unsupported<decltype(fi_ops_cm::listen)>,
                             guarded<accept>,    unsupported<decltype(fi_ops_cm::reject)>,
                             guarded<shut_down>, unsupported<decltype(fi_ops_cm::join)>};

} // namespace comch::ofi::inline COMCH_OFI_LINK
