#include <comch/server.hpp>

#include <fmt/format.h>

#include "core/channel/link_kind.hpp"
#include "core/channel/server_core.hpp"

namespace comch {

using channel::ServerCore;
using channel::visit;

Result<std::unique_ptr<Server>> Server::open(ProgressEngine& engine, const Device& device,
                                             const Representor& representor, std::string_view name,
                                             const ServerOptions& options,
                                             const ServerHandlers& handlers) {
    if (device.side() != Side::dpu) {
        return fail(Errc::not_permitted,
                    fmt::format("cannot open server '{}' on {}: servers run on the DPU, and this "
                                "device is the host's",
                                name, device.function().name));
    }
    if (representor.domain()->directory_key() != device.domain()->directory_key()) {
        return fail(Errc::invalid_argument,
                    fmt::format("cannot open server '{}' on {}: the representor of {} belongs to "
                                "another domain",
                                name, device.function().name, representor.function().name));
    }
    if (auto ok = channel::check_name(name); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    if (auto ok = channel::check_limits(options.limits); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    if (options.max_clients > limits::clients_per_server) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} clients for server '{}' are more than the device allows, {}",
                                options.max_clients, name, limits::clients_per_server));
    }
    const channel::LinkKind kind = channel::link_kind_of(device);
    return channel::with_link(kind, [&](auto link) -> Result<std::unique_ptr<Server>> {
        auto core = ServerCore<decltype(link)>::open(
            engine, kind, device, representor.function().id, name, options, handlers);
        if (!core) {
            return tl::unexpected(std::move(core.error()));
        }
        return std::unique_ptr<Server>(new Server(kind, core->release()));
    });
}

Server::~Server() {
    visit<ServerCore>(kind_, core_, [](auto& core) { delete &core; });
}

State Server::state() const noexcept {
    return visit<ServerCore>(kind_, core_, [](auto& core) { return core.state(); });
}

Result<void> Server::stop() {
    return visit<ServerCore>(kind_, core_, [](auto& core) { return core.stop(); });
}

Result<void> Server::disconnect(Connection& connection) {
    return visit<ServerCore>(kind_, core_, [&](auto& core) {
        using Core = typename std::remove_reference_t<decltype(core)>::Core;
        return core.disconnect(static_cast<Core&>(connection));
    });
}

std::uint32_t Server::pending_connections() const noexcept {
    return visit<ServerCore>(kind_, core_, [](auto& core) { return core.pending_connections(); });
}

Connection* Server::next_pending() const noexcept {
    return visit<ServerCore>(kind_, core_,
                             [](auto& core) -> Connection* { return core.next_pending(); });
}

Result<void> Server::accept(Connection& connection, std::span<const std::byte> data) {
    return visit<ServerCore>(kind_, core_, [&](auto& core) {
        using Core = typename std::remove_reference_t<decltype(core)>::Core;
        return core.decide(static_cast<Core&>(connection), true, data);
    });
}

Result<void> Server::refuse(Connection& connection, std::span<const std::byte> data) {
    return visit<ServerCore>(kind_, core_, [&](auto& core) {
        using Core = typename std::remove_reference_t<decltype(core)>::Core;
        return core.decide(static_cast<Core&>(connection), false, data);
    });
}

std::vector<Connection*> Server::connections() const {
    return visit<ServerCore>(kind_, core_, [](auto& core) { return core.connections(); });
}

void Server::wake_on_confirmation(bool on) noexcept {
    visit<ServerCore>(kind_, core_, [&](auto& core) { core.wake_on_confirmation(on); });
}

} // namespace comch
