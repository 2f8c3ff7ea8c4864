// What the entry points of sending and receiving share.
#pragma once

#include "endpoint.hpp"
#include "over_link.hpp"
#include "srx.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

/// What a receive is posted to: an endpoint, or a shared receive context.
struct Receiver {
    RecvQueue* queue = nullptr;
    Endpoint* endpoint = nullptr; ///< null: shared
    Srx* srx = nullptr;
    std::uint64_t op_flags = 0;
    std::size_t min_multi_recv = 0;
};
[[nodiscard]] Lock& lock_of(fid_ep* fid) noexcept;
/// With the lock held.
[[nodiscard]] Receiver receiver_of(fid_ep* fid) noexcept;

/// Posts a receive, or serves it at once from what has arrived. `flags` are the operation's,
/// FI_TAGGED or FI_MSG included. With the lock held.
[[nodiscard]] ssize_t post_receive(const Receiver& to, const iovec* iov, std::size_t count,
                                   fi_addr_t from, std::uint64_t tag, std::uint64_t ignore,
                                   std::uint64_t flags, void* context);

/// FI_PEEK, FI_CLAIM and FI_DISCARD.
[[nodiscard]] ssize_t look_for(const Receiver& at, const iovec* iov, std::size_t count,
                               fi_addr_t from, std::uint64_t tag, std::uint64_t ignore,
                               std::uint64_t flags, void* context);

} // namespace comch::ofi::inline COMCH_OFI_LINK
