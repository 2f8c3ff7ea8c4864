// Which link an object is on: decided when it is made, looked at once per call.
#pragma once

#include <cstdint>
#include <utility>

#include <comch/device.hpp>

#include "core/link/soft/port.hpp"
#include "core/link/verbs/port.hpp"
#ifdef COMCH_FAKE_LINK // in builds with tests
#include "core/link/fake/fake_link.hpp"
#endif

namespace comch::channel {

enum class LinkKind : std::uint8_t { soft, verbs, fake };

/// The link that is used on a device.
[[nodiscard]] inline LinkKind link_kind_of(const Device& device) noexcept {
#ifdef COMCH_FAKE_LINK
    if (link::fake::Network::bound_to(*device.domain())) {
        return LinkKind::fake;
    }
#endif
    return device.domain()->over_rdma() ? LinkKind::verbs : LinkKind::soft;
}

/// Calls `function` with a Link{} of the kind: one predictable branch, then everything is known to the
/// compiler.
template <class Function> decltype(auto) with_link(LinkKind kind, Function&& function) {
    if (kind == LinkKind::soft) [[likely]] {
        return function(link::soft::Link{});
    }
#ifdef COMCH_FAKE_LINK
    if (kind == LinkKind::fake) {
        return function(link::fake::Link{});
    }
#endif
    return function(link::verbs::Link{});
}

/// The same with a Core<Link>&, for the object behind `core`.
template <template <class> class Core, class Function>
decltype(auto) visit(LinkKind kind, void* core, Function&& function) {
    return with_link(kind, [&]<class Link>(Link) -> decltype(auto) {
        return function(*static_cast<Core<Link>*>(core));
    });
}

} // namespace comch::channel
