#include <comch/connection.hpp>

#include "core/channel/connection_core.hpp"
#include "core/channel/link_kind.hpp"

namespace comch {
namespace {

template <class Function>
decltype(auto) visit(channel::LinkKind kind, Connection& connection, Function&& function) {
    return channel::with_link(kind, [&]<class Link>(Link) -> decltype(auto) {
        return function(static_cast<channel::ConnectionCore<Link>&>(connection));
    });
}

} // namespace

Errc Connection::send(std::span<const std::byte> message) {
    return visit(kind_, *this, [&](auto& core) { return core.send(message); });
}

ConnectionStatistics Connection::statistics() const {
    return visit(kind_, const_cast<Connection&>(*this),
                 [](auto& core) { return core.statistics(); });
}

std::uint32_t Connection::reserve_consumer_id() {
    return visit(kind_, *this, [](auto& core) { return core.reserve_consumer_id(); });
}

std::vector<std::uint32_t> Connection::remote_consumers() const {
    return visit(kind_, const_cast<Connection&>(*this),
                 [](auto& core) { return core.remote_consumers(); });
}

} // namespace comch
