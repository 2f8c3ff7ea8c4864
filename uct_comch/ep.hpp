// The endpoint: one connection of the core, from this interface to a peer's.
#pragma once

#include "iface.hpp"

namespace comch::uct {

/// What a request from the pending queue may still do.
enum class Turn : std::uint8_t { none, one_operation, any_number };

/// By what the answer of a get_short is not one for a call from now on: a flush or fence, or more.
enum class Outdated : std::uint8_t { no, by_order, by_write };

/// A uct_ep_h of ours points here.
template <class Link> struct Ep {
    uct_base_ep_t super;
    typename Link::Connection* connection = nullptr; ///< null once it has ended
    ucs_queue_head_t queue;                          ///< pending requests
    ucs_status_t failure = UCS_OK;  ///< what operations answer once the connection has ended
    bool watched = false;           ///< somebody has asked whether the peer is there
    bool wanted = false;            ///< the peer's end took an operation with it
    bool untold_loss = false;       ///< it ended in an orderly way, without puts of ours
    bool untold_end = false;        ///< it ended in an orderly way, and nobody wanted anything
    bool all_done = false;          ///< it ended in an orderly way, and there is nothing to flush
    bool stuck = false;             ///< its queue, for want of room, when it last had its turn
    bool queued = false;            ///< in the interface's list
    Turn turn = Turn::none;         ///< of the request from the queue that is being tried
    GetBcopy* get_short = nullptr;  ///< the one get_short under way, or its result
    std::uint64_t get_short_at = 0; ///< its address
    std::uint64_t get_short_region = 0; ///< and where that is
    std::uint64_t get_short_tried = 0;  ///< the interface's round in which it was last called for
    Outdated get_short_outdated = Outdated::no;
    bool get_short_again = false; ///< asked once more, since an order came after the first time
    bool get_short_done = false;

    [[nodiscard]] bool awaits_get_short() const { return get_short != nullptr && !get_short_done; }
    [[nodiscard]] static Ep* of(uct_ep_h ep) { return reinterpret_cast<Ep*>(ep); }
    [[nodiscard]] Iface<Link>* iface() const {
        return reinterpret_cast<Iface<Link>*>(super.super.iface);
    }
};

/// The endpoint's entries of the operation table.
template <class Link> void fill_ep_ops(uct_iface_ops_t& ops);

/// Sends what waits in the queues. Returns how many requests moved.
template <class Link> unsigned dispatch_pending(Iface<Link>& iface);

/// A token of the core's on_complete(): a completion, or a get_bcopy.
template <class Link> void complete(Ep<Link>& ep, void* token, ucs_status_t status);

/// The connection has ended. The endpoint stays, and fails what is asked of it.
template <class Link> void fail_ep(Ep<Link>& ep, ucs_status_t status);

} // namespace comch::uct
