#include <comch/client.hpp>

#include <fmt/format.h>

#include "core/channel/client_core.hpp"
#include "core/channel/link_kind.hpp"

namespace comch {

using channel::ClientCore;
using channel::visit;

namespace {

std::string why_broken(const std::string& name, EndReason reason) {
    switch (reason) {
    case EndReason::peer_died:
        return fmt::format("server '{}' is gone without disconnecting: its process died or, over "
                           "RDMA, can no longer be reached; see whether it runs, and connect again",
                           name);
    case EndReason::device_error:
        return fmt::format("the RDMA device that leads to server '{}' failed here; see what "
                           "'rdma link' and 'dmesg' say of it, and connect again",
                           name);
    default:
        return fmt::format("server '{}' broke the protocol, so it was disconnected; use the same "
                           "version of comch on both sides",
                           name);
    }
}

} // namespace

Result<std::unique_ptr<Client>> Client::open(ProgressEngine& engine, const Device& device,
                                             std::string_view name, const ClientOptions& options,
                                             const ClientHandlers& handlers) {
    if (device.side() != Side::host) {
        return fail(Errc::not_permitted,
                    fmt::format("cannot open a client of '{}' on {}: clients run on the host, and "
                                "this device is the DPU's",
                                name, device.function().name));
    }
    if (auto ok = channel::check_name(name); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    if (auto ok = channel::check_limits(options.limits); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    if (options.data.size() > max_connect_data) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} bytes of data for server '{}' are more than {}",
                                options.data.size(), name, max_connect_data));
    }
    const channel::LinkKind kind = channel::link_kind_of(device);
    return channel::with_link(kind, [&](auto link) -> Result<std::unique_ptr<Client>> {
        auto core = ClientCore<decltype(link)>::open(engine, kind, device, name, options, handlers);
        if (!core) {
            return tl::unexpected(std::move(core.error()));
        }
        return std::unique_ptr<Client>(new Client(kind, core->release()));
    });
}

Client::~Client() {
    visit<ClientCore>(kind_, core_, [](auto& core) { delete &core; });
}

State Client::state() const noexcept {
    return visit<ClientCore>(kind_, core_, [](auto& core) { return core.state(); });
}

Errc Client::outcome() const noexcept {
    return visit<ClientCore>(kind_, core_, [](auto& core) { return core.outcome(); });
}

Refusal Client::refusal() const noexcept {
    return visit<ClientCore>(kind_, core_, [](auto& core) { return core.refusal(); });
}

Error Client::error() const {
    const Errc code = outcome();
    const std::string& name = visit<ClientCore>(
        kind_, core_, [](auto& core) -> const std::string& { return core.name(); });
    switch (code) {
    case Errc::ok:
        return {code, fmt::format("connected to server '{}'", name)};
    case Errc::in_progress:
        return {code, fmt::format("still connecting to server '{}'", name)};
    case Errc::not_found:
        return {code, fmt::format("no server named '{}' serves this function; start it first, on "
                                  "the representor of this function",
                                  name)};
    case Errc::rejected:
        return {
            code,
            refusal() != Refusal::none
                ? fmt::format("server '{}' refused the connection: {}", name, to_string(refusal()))
                : fmt::format("server '{}' could not make the connection; its descriptors "
                              "or memory may be at their limit (ulimit -n, ulimit -l)",
                              name)};
    case Errc::version_mismatch:
        return {code, fmt::format("server '{}' speaks another version of the protocol; use the "
                                  "same version of comch on both sides",
                                  name)};
    case Errc::not_connected:
        return {code, fmt::format("server '{}' has disconnected", name)};
    case Errc::connection_reset:
        return {code, visit<ClientCore>(kind_, core_, [&](auto& core) {
                    return core.detail().empty()
                               ? why_broken(name, core.connection().end_reason)
                               : fmt::format("the connection to server '{}' has broken: {}", name,
                                             core.detail());
                })};
    case Errc::canceled:
        return {code, fmt::format("the client of '{}' was stopped", name)};
    default:
        return {code,
                fmt::format("the connection to server '{}' failed: {}", name, to_string(code))};
    }
}

Connection& Client::connection() noexcept {
    return visit<ClientCore>(kind_, core_,
                             [](auto& core) -> Connection& { return core.connection(); });
}

Result<void> Client::stop() {
    return visit<ClientCore>(kind_, core_, [](auto& core) { return core.stop(); });
}

void Client::wake_on_confirmation(bool on) noexcept {
    visit<ClientCore>(kind_, core_, [&](auto& core) { core.wake_on_confirmation(on); });
}

} // namespace comch
