#include <comch/producer.hpp>

#include "core/channel/link_kind.hpp"
#include "core/channel/producer_core.hpp"

namespace comch {

using channel::ProducerCore;
using channel::visit;

Result<std::unique_ptr<Producer>> Producer::open(ProgressEngine& engine, Connection& connection,
                                                 const ProducerOptions& options,
                                                 const ProducerHandlers& handlers) {
    const channel::LinkKind kind = connection.kind_;
    return channel::with_link(kind, [&](auto link) -> Result<std::unique_ptr<Producer>> {
        using Link = decltype(link);
        auto& shared = static_cast<channel::ConnectionCore<Link>&>(connection);
        auto core = ProducerCore<Link>::open(engine, shared.shared_from_this(), options, handlers);
        if (!core) {
            return tl::unexpected(std::move(core.error()));
        }
        return std::unique_ptr<Producer>(new Producer(kind, core->release()));
    });
}

Producer::~Producer() {
    visit<ProducerCore>(kind_, core_, [](auto& core) { delete &core; });
}

std::uint32_t Producer::id() const noexcept {
    return visit<ProducerCore>(kind_, core_, [](auto& core) { return core.id(); });
}

State Producer::state() const noexcept {
    return visit<ProducerCore>(kind_, core_, [](auto& core) { return core.state(); });
}

Connection& Producer::connection() const noexcept {
    return visit<ProducerCore>(kind_, core_,
                               [](auto& core) -> Connection& { return core.connection(); });
}

Result<void> Producer::stop() {
    return visit<ProducerCore>(kind_, core_, [](auto& core) { return core.stop(); });
}

std::uint32_t Producer::in_flight() const noexcept {
    return visit<ProducerCore>(kind_, core_, [](auto& core) { return core.in_flight(); });
}

std::uint32_t Producer::completed() {
    return visit<ProducerCore>(kind_, core_, [](auto& core) { return core.completed(); });
}

Errc Producer::send(std::uint32_t consumer, const SendBuffer& buffer, void* cookie) {
    return visit<ProducerCore>(kind_, core_,
                               [&](auto& core) { return core.send(consumer, buffer, cookie); });
}

void Producer::flush() {
    visit<ProducerCore>(kind_, core_, [](auto& core) { core.flush(); });
}

} // namespace comch
