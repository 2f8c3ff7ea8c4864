// The short way of the calls that most programs make: one buffer, a short message, and nothing
// asked for beyond a completion in the queue. Whether an endpoint's calls may go this way is
// decided once (Endpoint::choose_ways), so that a message pays for no question whose answer never
// changes. Everything else goes the general way (endpoint_send.cpp, post.cpp), which can do this as
// well.
#pragma once

#include <cstring>

#include "core/base/short_copy.hpp"
#include "endpoint.hpp"
#include "iov.hpp"
#include "over_link.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

/// Longest message, with the words in front of it, that is copied straight into the ring of short
/// messages; longer ones go through the bulk ring, where both CPUs copy at once.
inline constexpr std::size_t max_short = 2048;
static_assert(max_short <= tuning::max_inline);

inline std::byte* put_word(std::byte* to, std::uint64_t word) noexcept {
    std::memcpy(to, &word, sizeof(word));
    return to + sizeof(word);
}

/// `Kind` is FI_MSG or FI_TAGGED.
template <std::uint64_t Kind, bool HasData, bool Inject>
bool Endpoint::send_plain(const void* buffer, std::size_t length, fi_addr_t to, std::uint64_t tag,
                          std::uint64_t data, void* context, ssize_t& result) {
    constexpr bool tagged = Kind == FI_TAGGED;
    constexpr std::size_t head = 8 * (std::size_t{tagged} + HasData);
    constexpr auto id =
        static_cast<std::uint8_t>(static_cast<unsigned>(wire::Kind::message) |
                                  (tagged ? wire::has_tag : 0u) | (HasData ? wire::has_data : 0u));
    if (!sends_plainly || length > max_short - head || to >= routes_.size()) [[unlikely]] {
        return false;
    }
    Conn* const known = routes_[to];
    if (known == nullptr) [[unlikely]] {
        return false;
    }
    const auto fill = [=](std::byte* at) {
        if constexpr (tagged) {
            at = put_word(at, tag);
        }
        if constexpr (HasData) {
            at = put_word(at, data);
        }
        copy_short(at, buffer, length);
    };
    if (known->link->send_inline(id, static_cast<std::uint32_t>(head + length), fill) != Errc::ok)
        [[unlikely]] {
        result = try_again(*known);
        return true;
    }
    if (!Inject && reports_sends) {
        tx_cq->add({context, Kind | FI_SEND, 0, nullptr, 0, 0}, FI_ADDR_NOTAVAIL);
    }
    result = 0;
    return true;
}

template <std::uint64_t Kind>
bool Endpoint::post_plain(void* buffer, std::size_t length, fi_addr_t from, std::uint64_t tag,
                          std::uint64_t ignore, void* context) {
    constexpr bool tagged = Kind == FI_TAGGED;
    RecvQueue& mine = *own_queue;
    if (!posts_plainly || !mine.unexpected[tagged].empty() || !mine.receives.has_free())
        [[unlikely]] {
        return false;
    }
    Receive& receive = mine.receives.take();
    receive.tag = tag;
    receive.ignore = ignore;
    receive.from = is_directed ? from : FI_ADDR_UNSPEC;
    receive.context = context;
    receive.flags = Kind | rx_op_flags; // FI_COMPLETION or nothing
    receive.length = length;
    receive.used = 0;
    receive.users = 0;
    receive.retired = false;
    receive.end = Errc::ok;
    receive.count = 1;
    receive.iov[0] = {buffer, length};
    mine.posted[tagged].append(receive);
    return true;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
