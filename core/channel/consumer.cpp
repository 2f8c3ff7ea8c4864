#include <comch/consumer.hpp>

#include "core/channel/consumer_core.hpp"
#include "core/channel/link_kind.hpp"

namespace comch {

using channel::ConsumerCore;
using channel::visit;

Result<std::unique_ptr<Consumer>> Consumer::open(ProgressEngine& engine, Connection& connection,
                                                 const ConsumerOptions& options,
                                                 const ConsumerHandlers& handlers) {
    const channel::LinkKind kind = connection.kind_;
    return channel::with_link(kind, [&](auto link) -> Result<std::unique_ptr<Consumer>> {
        using Link = decltype(link);
        auto& shared = static_cast<channel::ConnectionCore<Link>&>(connection);
        auto core = ConsumerCore<Link>::open(engine, shared.shared_from_this(), options, handlers);
        if (!core) {
            return tl::unexpected(std::move(core.error()));
        }
        return std::unique_ptr<Consumer>(new Consumer(kind, core->release()));
    });
}

Consumer::~Consumer() {
    visit<ConsumerCore>(kind_, core_, [](auto& core) { delete &core; });
}

std::uint32_t Consumer::id() const noexcept {
    return visit<ConsumerCore>(kind_, core_, [](auto& core) { return core.id(); });
}

State Consumer::state() const noexcept {
    return visit<ConsumerCore>(kind_, core_, [](auto& core) { return core.state(); });
}

Connection& Consumer::connection() const noexcept {
    return visit<ConsumerCore>(kind_, core_,
                               [](auto& core) -> Connection& { return core.connection(); });
}

Result<void> Consumer::stop() {
    return visit<ConsumerCore>(kind_, core_, [](auto& core) { return core.stop(); });
}

Errc Consumer::post(const ReceiveBuffer& buffer, void* cookie) {
    return visit<ConsumerCore>(kind_, core_, [&](auto& core) { return core.post(buffer, cookie); });
}

} // namespace comch
