// Which link an object is on: decided when it is made, looked at once per call.
#pragma once

#include <cstdint>
#include <utility>

#include <comch/device.hpp>

#include "core/link/fake/fake_link.hpp"
#include "core/link/soft/port.hpp"
#include "core/link/verbs/port.hpp"

namespace comch::channel {

enum class LinkKind : std::uint8_t { soft, verbs, fake };

/// The link that is used on a device.
[[nodiscard]] inline LinkKind link_kind_of(const Device& device) noexcept {
    if (link::fake::Network::bound_to(*device.domain())) {
        return LinkKind::fake;
    }
    return device.domain()->over_rdma() ? LinkKind::verbs : LinkKind::soft;
}

/// Calls `function` with a Core<Link>& for the object behind `core`: one predictable branch, then
/// everything is known to the compiler.
template <template <class> class Core, class Function>
decltype(auto) visit(LinkKind kind, void* core, Function&& function) {
    if (kind == LinkKind::soft) [[likely]] {
        return function(*static_cast<Core<link::soft::Link>*>(core));
    }
    if (kind == LinkKind::verbs) {
        return function(*static_cast<Core<link::verbs::Link>*>(core));
    }
    return function(*static_cast<Core<link::fake::Link>*>(core));
}

/// Calls `function` with a Link{} of the kind, to make objects of it.
template <class Function> decltype(auto) with_link(LinkKind kind, Function&& function) {
    if (kind == LinkKind::soft) {
        return function(link::soft::Link{});
    }
    if (kind == LinkKind::verbs) {
        return function(link::verbs::Link{});
    }
    return function(link::fake::Link{});
}

} // namespace comch::channel
