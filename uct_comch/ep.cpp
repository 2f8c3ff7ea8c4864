#include "ep.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "allocations.hpp"
#include "core/base/make_room.hpp"
#include "core/base/short_copy.hpp"
#include "guarded.hpp"
#include "status.hpp"

extern "C" {
#include <uct/base/uct_iov.inl>
}

namespace comch::uct {
namespace {

using link::AtomicOp;
using link::AtomicRequest;

/// Tokens of gets carry a mark in their lowest bits; completions are aligned.
constexpr std::uintptr_t get_mark = 1;
constexpr std::uintptr_t get_short_mark = 2;

RemoteRegion& region_of(uct_rkey_t rkey) {
    return *reinterpret_cast<RemoteRegion*>(rkey);
}

/// What a call on an endpoint without a connection answers.
template <class Link> ucs_status_t ended(const Ep<Link>& ep) {
    return ep.failure;
}

/// The answer of an operation. The first one of a request from the queue that is through, or has
/// failed, may complete it, and who is told of that may send the next: it must not pass those that
/// are still queued.
template <class Link, class Status> Status answer(Ep<Link>& ep, Status status) {
    if (ep.turn == Turn::one_operation && status != UCS_ERR_NO_RESOURCE) [[unlikely]] {
        ep.turn = Turn::none;
        if (!ucs_queue_is_empty(&ep.queue) && ep.connection != nullptr) {
            ep.connection->hold(true);
        }
    }
    return status;
}

/// The port watches the peer's process by itself and calls the error handler; there is nothing to
/// send. One that goes in an orderly way, and takes no operation with it, is an error only to who
/// asks by this, before or after: UCP does so where something of the peer is waited for. (The handler
/// is called by progress, not in here.)
template <class Link> [[gnu::cold, gnu::noinline]] void ask_for_peer(Ep<Link>& ep) {
    ep.watched = true;
    if (std::exchange(ep.untold_end, false)) {
        ep.iface()->to_tell.push_back(&ep);
        ep.iface()->port->wake();
    }
}

template <class Link>
ucs_status_t above_limit(Ep<Link>& ep, const char* what, const char* of, std::size_t value,
                         std::size_t limit) {
    ucs_error("comch: the %s of an %s is %zu, above the limit of %zu that the interface states",
              what, of, value, limit);
    return answer(ep, UCS_ERR_INVALID_PARAM);
}
template <class Link>
ucs_status_t too_long(Ep<Link>& ep, const char* of, std::size_t length, std::size_t limit) {
    return above_limit(ep, "length", of, length, limit);
}
template <class Link> ucs_status_t unknown_id(Ep<Link>& ep, const char* of, std::uint8_t id) {
    return above_limit(ep, "active message id", of, id, UCT_AM_ID_MAX - 1);
}

/// The lengths that a put or get does not come to the link with. Of nothing, it is done; and its key may
/// be none, as there is nothing that could have been registered.
constexpr bool unusual(std::size_t length, std::size_t limit) {
    return length - 1 >= limit; // 0, too
}
template <class Link>
ucs_status_t nothing_or_too_long(Ep<Link>& ep, const char* what, std::size_t length,
                                 std::size_t limit) {
    return length == 0 ? answer(ep, UCS_OK) : too_long(ep, what, length, limit);
}

/// Copies what the entries name, one behind the other. An empty entry's pointer may be null.
void gather(std::byte* to, const uct_iov_t* iov, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t length = uct_iov_get_length(iov + i);
        if (length != 0) {
            std::memcpy(to, iov[i].buffer, length);
        }
        to += length;
    }
}

/// What UCX has registered need not be registered again. (Where it need not register at all, the handle
/// is anything.)
template <class Link> link::LocalMemory memory_of(const uct_iov_t& local) {
    const auto* const memory = // UCT_MEM_HANDLE_NULL is null
        Link::has_devices ? static_cast<const Memory*>(local.memh) : nullptr;
    return {.region = memory != nullptr ? memory->key.region : 0};
}

// ---- active messages ----------------------------------------------------------------------------

template <class Link>
[[gnu::noinline]] ucs_status_t am_short_anyhow(Ep<Link>& ep, std::uint8_t id, std::uint64_t header,
                                               const void* payload, unsigned length) {
    if (id >= UCT_AM_ID_MAX) [[unlikely]] {
        return unknown_id(ep, "am_short", id);
    }
    if (ep.connection == nullptr) [[unlikely]] {
        return ended(ep);
    }
    const std::size_t total = sizeof(header) + length;
    if (total > ep.iface()->max_short) [[unlikely]] {
        return too_long(ep, "am_short", total, ep.iface()->max_short);
    }
    // By value: what a call that is not inlined could see through a reference has to be in memory.
    const Errc result =
        ep.connection->send_inline(id, static_cast<std::uint32_t>(total), [=](std::byte* to) {
            std::memcpy(to, &header, sizeof(header));
            copy_short(to + sizeof(header), payload, length);
        });
    return answer(ep, to_ucs(result));
}

/// What fits into a line goes without a frame (soft/pipe.hpp); into half of one, with the fewest
/// registers, too, so they are functions of their own.
template <class Link>
[[gnu::noinline]] ucs_status_t am_short_line(Ep<Link>& ep, std::uint8_t id, std::uint64_t header,
                                             const void* payload, unsigned length) {
    constexpr std::uint32_t longest = Link::Connection::max_line - sizeof(header);
    static_assert(Link::Connection::max_line <= least_max_short); // it is no setting's to forbid
    if (ep.connection != nullptr && length <= longest && id < UCT_AM_ID_MAX &&
        ep.connection->send_line(id, std::uint32_t{sizeof(header)} + length, [=](std::byte* to) {
            std::memcpy(to, &header, sizeof(header));
            copy_short(to + sizeof(header), payload, length);
        })) [[likely]] {
        return UCS_OK;
    }
    return am_short_anyhow(ep, id, header, payload, length);
}

template <class Link>
ucs_status_t am_short(uct_ep_h tl_ep, std::uint8_t id, std::uint64_t header, const void* payload,
                      unsigned length) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if constexpr (requires { Link::Connection::max_cell; }) {
        constexpr std::uint32_t longest = Link::Connection::max_cell - sizeof(header);
        if (id >= UCT_AM_ID_MAX || length > longest || ep.connection == nullptr ||
            ep.connection->answering()) {
            return am_short_line(ep, id, header, payload, length);
        }
        if (ep.connection->send_cell(id, std::uint32_t{sizeof(header)} + length,
                                     [=](std::byte* to) {
                                         std::memcpy(to, &header, sizeof(header));
                                         copy_short(to + sizeof(header), payload, length);
                                     })) [[likely]] {
            return UCS_OK;
        }
    }
    return am_short_anyhow(ep, id, header, payload, length);
}

template <class Link>
ucs_status_t am_short_iov(uct_ep_h tl_ep, std::uint8_t id, const uct_iov_t* iov,
                          std::size_t count) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if (id >= UCT_AM_ID_MAX) [[unlikely]] {
        return unknown_id(ep, "am_short_iov", id);
    }
    if (ep.connection == nullptr) [[unlikely]] {
        return ended(ep);
    }
    const std::size_t total = uct_iov_total_length(iov, count);
    if (total > ep.iface()->max_short) [[unlikely]] {
        return too_long(ep, "am_short_iov", total, ep.iface()->max_short);
    }
    const Errc result = ep.connection->send_inline(id, static_cast<std::uint32_t>(total),
                                                   [=](std::byte* to) { gather(to, iov, count); });
    return answer(ep, to_ucs(result));
}

template <class Link>
ssize_t am_bcopy(uct_ep_h tl_ep, std::uint8_t id, uct_pack_callback_t pack, void* arg,
                 unsigned flags) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if ((flags & UCT_SEND_FLAG_PEER_CHECK) != 0) [[unlikely]] {
        ask_for_peer(ep);
    }
    if (id >= UCT_AM_ID_MAX) [[unlikely]] {
        return unknown_id(ep, "am_bcopy", id);
    }
    if (ep.connection == nullptr) [[unlikely]] {
        return ended(ep);
    }
    const std::int64_t result = ep.connection->send_packed(
        id, Link::max_message,
        [&](std::byte* to) { return static_cast<std::uint32_t>(pack(to, arg)); },
        ep.iface()->am_data_at);
    return answer(ep, result >= 0 ? static_cast<ssize_t>(result)
                                  : static_cast<ssize_t>(to_ucs(static_cast<Errc>(-result))));
}

/// The sender's buffers are copied once, into the ring, and are the caller's again at once.
template <class Link>
ucs_status_t am_zcopy(uct_ep_h tl_ep, std::uint8_t id, const void* header, unsigned header_length,
                      const uct_iov_t* iov, std::size_t count, unsigned flags, uct_completion_t*) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if ((flags & UCT_SEND_FLAG_PEER_CHECK) != 0) [[unlikely]] {
        ask_for_peer(ep);
    }
    if (id >= UCT_AM_ID_MAX) [[unlikely]] {
        return unknown_id(ep, "am_zcopy", id);
    }
    if (ep.connection == nullptr) [[unlikely]] {
        return ended(ep);
    }
    if (header_length > max_am_header) [[unlikely]] {
        return above_limit(ep, "length of the header", "am_zcopy", header_length, max_am_header);
    }
    const std::size_t total = header_length + uct_iov_total_length(iov, count);
    if (total > Link::max_message) [[unlikely]] {
        return too_long(ep, "am_zcopy", total, Link::max_message);
    }
    const std::int64_t result = ep.connection->send_packed(
        id, static_cast<std::uint32_t>(total),
        [&](std::byte* to) {
            if (header_length != 0) {
                std::memcpy(to, header, header_length);
            }
            gather(to + header_length, iov, count);
            return static_cast<std::uint32_t>(total);
        },
        header_length);
    return answer(ep, result >= 0 ? UCS_OK : to_ucs(static_cast<Errc>(-result)));
}

// ---- put and get --------------------------------------------------------------------------------

/// What a get_short has been answered, or will be, is not for one that is called from now on.
/// Of flushes and fences only the first counts: who tries, and orders between the tries, comes to
/// an end.
template <class Link> void outdate_get_short_by_order(Ep<Link>& ep) {
    if (ep.get_short_outdated == Outdated::no && !ep.get_short_again) {
        ep.get_short_outdated = Outdated::by_order;
    }
}

/// The answer to a write. Only for the place that it was aimed at is a get_short outdated by it:
/// who tries for one, and writes elsewhere meanwhile, comes to an end.
template <class Link>
ucs_status_t written(Ep<Link>& ep, Errc result, std::uint64_t address, std::size_t length) {
    if (ep.get_short != nullptr && (result == Errc::ok || result == Errc::in_progress))
        [[unlikely]] {
        if (address < ep.get_short_at + ep.get_short->length &&
            ep.get_short_at < address + length) {
            ep.get_short_outdated = Outdated::by_write;
        }
    }
    return answer(ep, to_ucs(result));
}

template <class Link>
ucs_status_t put_short(uct_ep_h tl_ep, const void* buffer, unsigned length, std::uint64_t address,
                       uct_rkey_t rkey) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if (ep.connection == nullptr) [[unlikely]] {
        return ended(ep);
    }
    if (unusual(length, Link::max_message)) [[unlikely]] {
        return nothing_or_too_long(ep, "put_short", length, Link::max_message);
    }
    return written(ep, ep.connection->put_copy(buffer, length, region_of(rkey), address), address,
                   length);
}

template <class Link>
ssize_t put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack, void* arg, std::uint64_t address,
                  uct_rkey_t rkey) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if (ep.connection == nullptr) [[unlikely]] {
        return ended(ep);
    }
    // Behind a queue, it is not packed in vain. (Where there is no room for a message, memory that
    // is mapped or reached by the kernel may be written all the same.)
    if (!ucs_queue_is_empty(&ep.queue) && ep.turn == Turn::none) [[unlikely]] {
        return UCS_ERR_NO_RESOURCE;
    }
    std::byte* const scratch = ep.iface()->scratch.get();
    const std::size_t length = pack(scratch, arg);
    if (length == 0) [[unlikely]] {
        return answer(ep, ssize_t{0});
    }
    const ucs_status_t status = written(
        ep, ep.connection->put_copy(scratch, length, region_of(rkey), address), address, length);
    return status == UCS_OK ? static_cast<ssize_t>(length) : static_cast<ssize_t>(status);
}

template <class Link>
ucs_status_t put_zcopy(uct_ep_h tl_ep, const uct_iov_t* iov, std::size_t count,
                       std::uint64_t address, uct_rkey_t rkey, uct_completion_t* completion) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if (ep.connection == nullptr) [[unlikely]] {
        return ended(ep);
    }
    if (count != 1) [[unlikely]] {
        return count == 0 ? answer(ep, UCS_OK)
                          : above_limit(ep, "number of entries", "put_zcopy", count, 1);
    }
    const std::size_t length = uct_iov_get_length(iov);
    if (length == 0) [[unlikely]] {
        return answer(ep, UCS_OK);
    }
    const Errc result = ep.connection->put(iov[0].buffer, length, region_of(rkey), address,
                                           completion, memory_of<Link>(iov[0]));
    return written(ep, result, address, length);
}

/// A get of memory that is mapped here is done at once. For any other the data has to come first:
/// the call asks for it and answers no-resource, and the caller's retry (from its pending queue)
/// finds the data here.
template <class Link>
ucs_status_t get_short(uct_ep_h tl_ep, void* buffer, unsigned length, std::uint64_t address,
                       uct_rkey_t rkey) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if (ep.connection == nullptr) [[unlikely]] {
        return ended(ep);
    }
    if (unusual(length, Link::max_message)) [[unlikely]] {
        return nothing_or_too_long(ep, "get_short", length, Link::max_message);
    }
    const std::uint64_t region = region_of(rkey).key().region;
    const std::uint64_t last_tried = std::exchange(ep.get_short_tried, ep.iface()->rounds);
    bool again = false;
    if (ep.get_short != nullptr) {
        if (ep.turn == Turn::none && ep.get_short_tried - last_tried > 1) {
            // Its caller had gone on, and may have learnt since then what the answer does not show.
            outdate_get_short_by_order(ep);
        }
        if (!ep.get_short_done) {
            return UCS_ERR_NO_RESOURCE;
        }
        std::unique_ptr<GetBcopy> get(std::exchange(ep.get_short, nullptr));
        const bool same =
            ep.get_short_at == address && ep.get_short_region == region && get->length == length;
        const ucs_status_t status = get->status;
        const bool good = same && (ep.get_short_outdated == Outdated::no || status != UCS_OK);
        again = same && ep.get_short_outdated == Outdated::by_order;
        if (good && status == UCS_OK) {
            std::memcpy(buffer, get->buffer.get(), length);
        }
        ep.iface()->give_back(std::move(get));
        if (good) {
            return answer(ep, status);
        }
    }
    auto get = ep.iface()->take_get();
    get->length = length;
    auto* const token =
        reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(get.get()) | get_short_mark);
    const Errc result =
        ep.connection->get(get->buffer.get(), length, region_of(rkey), address, token);
    if (result == Errc::ok) {
        std::memcpy(buffer, get->buffer.get(), length);
    }
    if (result == Errc::in_progress) {
        ep.get_short = get.release();
        ep.get_short_at = address;
        ep.get_short_region = region;
        ep.get_short_done = false;
        ep.get_short_outdated = Outdated::no;
        ep.get_short_again = again;
        return UCS_ERR_NO_RESOURCE;
    }
    ep.iface()->give_back(std::move(get));
    return answer(ep, to_ucs(result));
}

template <class Link>
ucs_status_t get_bcopy(uct_ep_h tl_ep, uct_unpack_callback_t unpack, void* arg, std::size_t length,
                       std::uint64_t address, uct_rkey_t rkey, uct_completion_t* completion) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if (ep.connection == nullptr) [[unlikely]] {
        return ended(ep);
    }
    if (unusual(length, Link::max_message)) [[unlikely]] {
        if (length == 0) {
            unpack(arg, ep.iface()->scratch.get(), 0);
        }
        return nothing_or_too_long(ep, "get_bcopy", length, Link::max_message);
    }
    auto get = ep.iface()->take_get();
    get->unpack = unpack;
    get->arg = arg;
    get->length = length;
    get->completion = completion;
    auto* const token =
        reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(get.get()) | get_mark);
    const Errc result =
        ep.connection->get(get->buffer.get(), length, region_of(rkey), address, token);
    if (result == Errc::in_progress) {
        (void)get.release(); // complete() takes it back
        return answer(ep, UCS_INPROGRESS);
    }
    if (result == Errc::ok) {
        unpack(arg, get->buffer.get(), length);
    }
    ep.iface()->give_back(std::move(get));
    return answer(ep, to_ucs(result));
}

template <class Link>
ucs_status_t get_zcopy(uct_ep_h tl_ep, const uct_iov_t* iov, std::size_t count,
                       std::uint64_t address, uct_rkey_t rkey, uct_completion_t* completion) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if (ep.connection == nullptr) [[unlikely]] {
        return ended(ep);
    }
    if (count != 1) [[unlikely]] {
        return count == 0 ? answer(ep, UCS_OK)
                          : above_limit(ep, "number of entries", "get_zcopy", count, 1);
    }
    const std::size_t length = uct_iov_get_length(iov);
    if (length == 0) [[unlikely]] {
        return answer(ep, UCS_OK);
    }
    link::LocalMemory memory = memory_of<Link>(iov[0]);
    std::optional<RegionKey> mappable;
    if (length >= Link::mappable_from) {
        // Where the owner may help, it does so best in memory that it can map.
        mappable = Allocations::instance().around(reinterpret_cast<std::uint64_t>(iov[0].buffer),
                                                  length, access_remote_read | access_remote_write);
        memory.key = mappable ? &*mappable : nullptr;
    }
    return answer(ep, to_ucs(ep.connection->get(iov[0].buffer, length, region_of(rkey), address,
                                                completion, memory)));
}

// ---- atomics ------------------------------------------------------------------------------------

bool to_core(unsigned op, AtomicOp& out) {
    switch (op) {
    case UCT_ATOMIC_OP_ADD:
        out = AtomicOp::add;
        return true;
    case UCT_ATOMIC_OP_AND:
        out = AtomicOp::bit_and;
        return true;
    case UCT_ATOMIC_OP_OR:
        out = AtomicOp::bit_or;
        return true;
    case UCT_ATOMIC_OP_XOR:
        out = AtomicOp::bit_xor;
        return true;
    case UCT_ATOMIC_OP_SWAP:
        out = AtomicOp::swap;
        return true;
    default:
        return false;
    }
}

template <class Link>
ucs_status_t run_atomic(uct_ep_h tl_ep, const AtomicRequest& request, std::uint64_t address,
                        uct_rkey_t rkey, uct_completion_t* completion) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if (ep.connection == nullptr) [[unlikely]] {
        return ended(ep);
    }
    return written(ep, ep.connection->atomic(request, region_of(rkey), address, completion),
                   address, request.size);
}

template <class Link, class Word>
ucs_status_t atomic_post(uct_ep_h ep, unsigned op, Word value, std::uint64_t address,
                         uct_rkey_t rkey) {
    AtomicRequest request{AtomicOp::add, sizeof(Word), value};
    return to_core(op, request.op) ? run_atomic<Link>(ep, request, address, rkey, nullptr)
                                   : UCS_ERR_UNSUPPORTED;
}

template <class Link, class Word>
ucs_status_t atomic_fetch(uct_ep_h ep, unsigned op, Word value, Word* result, std::uint64_t address,
                          uct_rkey_t rkey, uct_completion_t* completion) {
    AtomicRequest request{AtomicOp::add, sizeof(Word), value, 0, result};
    return to_core(op, request.op) ? run_atomic<Link>(ep, request, address, rkey, completion)
                                   : UCS_ERR_UNSUPPORTED;
}

template <class Link, class Word>
ucs_status_t atomic_cswap(uct_ep_h ep, Word compare, Word swap, std::uint64_t address,
                          uct_rkey_t rkey, Word* result, uct_completion_t* completion) {
    return run_atomic<Link>(ep, {AtomicOp::compare_swap, sizeof(Word), swap, compare, result},
                            address, rkey, completion);
}

// ---- pending queue ------------------------------------------------------------------------------

uct_pending_req_priv_queue_t* priv_of(uct_pending_req_t* request) {
    return reinterpret_cast<uct_pending_req_priv_queue_t*>(&request->priv);
}

/// (UCX's macros for this name members of a null pointer, which a sanitizer refuses.)
template <class Link> uct_pending_req_t* head_of(const Ep<Link>& ep) {
    auto* const elem = reinterpret_cast<std::byte*>(ep.queue.head);
    return reinterpret_cast<uct_pending_req_t*>(elem -
                                                offsetof(uct_pending_req_priv_queue_t, queue_elem) -
                                                offsetof(uct_pending_req_t, priv));
}

template <class Link>
ucs_status_t pending_add(uct_ep_h tl_ep, uct_pending_req_t* request, unsigned) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if (ep.connection == nullptr) {
        return UCS_ERR_BUSY; // the retry will answer with the failure
    }
    if (ucs_queue_is_empty(&ep.queue) && ep.connection->may_retry() && !ep.awaits_get_short()) {
        return UCS_ERR_BUSY;
    }
    ucs_queue_push(&ep.queue, &priv_of(request)->queue_elem);
    if (!ep.queued) {
        ep.queued = true;
        ep.iface()->pending.push_back(&ep);
    }
    ep.connection->hold(true); // later sends must not pass the queue
    return UCS_OK;
}

template <class Link> void leave_pending(Ep<Link>& ep) {
    if (ep.queued) {
        ep.queued = false;
        ep.turn = Turn::none;
        std::erase(ep.iface()->pending, &ep);
    }
}

template <class Link>
void pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t callback, void* arg) {
    auto& ep = *Ep<Link>::of(tl_ep);
    while (!ucs_queue_is_empty(&ep.queue)) {
        uct_pending_req_t* request = head_of(ep);
        (void)ucs_queue_pull_non_empty(&ep.queue);
        if (callback != nullptr) {
            callback(request, arg);
        }
    }
    leave_pending(ep);
    if (ep.connection != nullptr) {
        ep.connection->hold(false);
    }
}

// ---- synchronization ----------------------------------------------------------------------------

template <class Link>
ucs_status_t flush(uct_ep_h tl_ep, unsigned flags, uct_completion_t* completion) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if (ep.connection == nullptr) {
        // Whatever was in flight has been completed with an error.
        return (flags & UCT_FLUSH_FLAG_CANCEL) != 0 || ep.all_done ? UCS_OK : ep.failure;
    }
    if ((flags & UCT_FLUSH_FLAG_CANCEL) != 0) {
        // (Requests in the queue are the caller's to purge.)
        ep.get_short_outdated = Outdated::by_write; // its caller has given it up
        ep.connection->cancel(
            [&](void* token, Errc status) { complete(ep, token, to_ucs(status)); });
        return UCS_OK;
    }
    // A request that is just being dispatched was queued before those that still are, and need not
    // wait for them; one flush in a queue before another request would wait for ever.
    if (!ucs_queue_is_empty(&ep.queue) && ep.turn == Turn::none) {
        return UCS_ERR_NO_RESOURCE;
    }
    outdate_get_short_by_order(ep);
    return answer(ep, to_ucs(ep.connection->flush(completion)));
}

template <class Link> ucs_status_t fence(uct_ep_h tl_ep, unsigned) {
    auto& ep = *Ep<Link>::of(tl_ep);
    if (ucs_queue_is_empty(&ep.queue)) { // one in the queue is older than the fence
        outdate_get_short_by_order(ep);
    }
    return ep.connection == nullptr ? UCS_OK : to_ucs(ep.connection->fence());
}

template <class Link>
ucs_status_t check(uct_ep_h tl_ep, unsigned flags, uct_completion_t* completion) {
    UCT_EP_KEEPALIVE_CHECK_PARAM(flags, completion);
    auto& ep = *Ep<Link>::of(tl_ep);
    ask_for_peer(ep);
    return ep.connection == nullptr ? ep.failure : UCS_OK;
}

// ---- life ---------------------------------------------------------------------------------------

template <class Link> ucs_status_t create(const uct_ep_params_t* params, uct_ep_h* ep_p) {
    UCT_EP_PARAMS_CHECK_DEV_IFACE_ADDRS(params);
    auto& iface = *Iface<Link>::of(params->iface);
    make_room(iface.eps);
    make_room_for_all(iface.pending, iface.eps); // to wait takes none
    make_room_for_all(iface.to_tell, iface.eps);
    auto ep = std::make_unique<Ep<Link>>();
    ucs_queue_head_init(&ep->queue);
    const ucs_status_t status = init_base_ep(&ep->super, &iface.super);
    if (status != UCS_OK) {
        return status;
    }
    link::PortAddress address;
    std::memcpy(address.bytes.data(), params->iface_addr, address.bytes.size());
    auto connection = [&] {
        try {
            return iface.port->connect(address, {}, ep.get());
        } catch (...) {
            cleanup_base_ep(&ep->super);
            throw;
        }
    }();
    if (!connection) {
        cleanup_base_ep(&ep->super);
        ucs_debug("comch: %s", connection.error().message.c_str());
        return to_ucs(connection.error().code);
    }
    ep->connection = *connection;
    iface.eps.push_back(ep.get());
    *ep_p = &ep.release()->super.super;
    return UCS_OK;
}

template <class Link> void destroy(uct_ep_h tl_ep) {
    std::unique_ptr<Ep<Link>> ep(Ep<Link>::of(tl_ep));
    pending_purge<Link>(tl_ep, nullptr, nullptr);
    if (ep->connection != nullptr) {
        ep->connection->cancel(
            [&](void* token, Errc status) { complete(*ep, token, to_ucs(status)); });
        ep->iface()->port->close(ep->connection);
    }
    if (ep->get_short != nullptr) {
        ep->iface()->give_back(std::unique_ptr<GetBcopy>(ep->get_short));
    }
    std::erase(ep->iface()->eps, ep.get());
    std::erase(ep->iface()->to_tell, ep.get());
    cleanup_base_ep(&ep->super);
}

} // namespace

template <class Link> void complete(Ep<Link>& ep, void* token, ucs_status_t status) {
    const auto bits = reinterpret_cast<std::uintptr_t>(token);
    if ((bits & get_short_mark) != 0) {
        auto* get = reinterpret_cast<GetBcopy*>(bits & ~get_short_mark);
        if (status != UCS_ERR_CANCELED && ep.get_short == get) {
            get->status = status; // which the next call finds
            ep.get_short_done = true;
        } else {
            ep.get_short = nullptr;
            ep.iface()->give_back(std::unique_ptr<GetBcopy>(get));
        }
        return;
    }
    uct_completion_t* completion = nullptr;
    if ((bits & get_mark) != 0) {
        std::unique_ptr<GetBcopy> get(reinterpret_cast<GetBcopy*>(bits & ~get_mark));
        if (status == UCS_OK) {
            get->unpack(get->arg, get->buffer.get(), get->length);
        }
        completion = get->completion;
        ep.iface()->give_back(std::move(get));
    } else {
        completion = static_cast<uct_completion_t*>(token);
    }
    if (completion != nullptr) {
        uct_invoke_completion(completion, status);
    }
}

template <class Link> void fail_ep(Ep<Link>& ep, ucs_status_t status) {
    ep.connection = nullptr;
    ep.failure = status;
}

namespace {

/// A request may have put endpoints out of the list. Where this one is in it now; false, and the
/// place as it was, if it is not there any more.
template <class Link>
bool find_again(const Iface<Link>& iface, const Ep<Link>* ep, std::size_t& place) {
    const auto& pending = iface.pending;
    if (place < pending.size() && pending[place] == ep) {
        return true;
    }
    const auto found = std::find(pending.begin(), pending.end(), ep);
    if (found == pending.end()) {
        return false;
    }
    place = static_cast<std::size_t>(found - pending.begin());
    return true;
}

/// What an endpoint's turn came to.
struct Dispatched {
    unsigned count = 0;
    bool listed = true; ///< the endpoint is still in the list of those that wait
};

/// One endpoint's turn; `place` is where it is in the list, before and after.
template <class Link> Dispatched dispatch_one(Iface<Link>& iface, std::size_t& place) {
    constexpr unsigned most_turns = 64;
    // Whoever is told may send more at once, and the others' turn comes, too.
    constexpr unsigned most_at_once = 16;
    Ep<Link>* const ep = iface.pending[place];
    Dispatched result;
    bool stuck = false;
    unsigned turns = 0;
    unsigned done = 0;
    while (result.listed && !stuck && done != most_at_once && !ucs_queue_is_empty(&ep->queue)) {
        uct_pending_req_t* request = head_of(*ep);
        (void)ucs_queue_pull_non_empty(&ep->queue);
        if (ep->connection != nullptr) {
            ep->connection->hold(false);
        }
        // One that has had so many turns may be asking for the same again each time, as for a
        // flush: it gets all it asks for at once.
        ep->turn = turns < most_turns ? Turn::one_operation : Turn::any_number;
        const ucs_status_t status = request->func(request);
        result.listed = find_again(iface, ep, place);
        // (Not listed, it may be destroyed.)
        const bool had_its_turn =
            result.listed && std::exchange(ep->turn, Turn::none) == Turn::none;
        if (status == UCS_OK) {
            ++result.count;
            turns = 0;
            ++done;
            continue;
        }
        if (!result.listed) {
            break; // destroyed or purged by its own request: there is no queue to put it into
        }
        ucs_queue_push_head(&ep->queue, &priv_of(request)->queue_elem);
        // If something of it went, what it wanted besides was refused for that: it is the next
        // again.
        result.count += had_its_turn ? 1 : 0;
        turns += had_its_turn && status != UCS_INPROGRESS ? 1 : 0;
        stuck = status != UCS_INPROGRESS && !had_its_turn;
    }
    if (!result.listed) {
        return result;
    }
    if (ucs_queue_is_empty(&ep->queue)) {
        ep->queued = false;
        iface.pending.erase(iface.pending.begin() + static_cast<std::ptrdiff_t>(place));
        result.listed = false;
        return result;
    }
    if (ep->connection != nullptr) {
        ep->connection->hold(true);
    }
    ep->stuck = stuck;
    return result;
}

} // namespace

template <class Link> unsigned dispatch_pending(Iface<Link>& iface) {
    // As long as somebody has room: behind a queue that is never empty everything queues up, and a
    // program that keeps 32 messages under way would have each of them wait in it. But not for ever:
    // there is something to be received, too.
    constexpr unsigned most_rounds = 16;
    unsigned count = 0;
    bool again = true;
    for (unsigned round = 0; again && round < most_rounds; ++round) {
        again = false;
        for (std::size_t place = 0; place < iface.pending.size();) {
            if (round != 0 && iface.pending[place]->stuck) {
                ++place; // it had no room in this call
                continue;
            }
            const Dispatched turn = dispatch_one(iface, place);
            count += turn.count;
            if (turn.listed) { // else somebody else is in its place now
                again = again || !iface.pending[place]->stuck;
                ++place;
            }
        }
    }
    return count;
}

template <class Link> void fill_ep_ops(uct_iface_ops_t& ops) {
    ops.ep_put_short = guarded<put_short<Link>>;
    ops.ep_put_bcopy = guarded<put_bcopy<Link>>;
    ops.ep_put_zcopy = guarded<put_zcopy<Link>>;
    ops.ep_get_short = guarded<get_short<Link>>;
    ops.ep_get_bcopy = guarded<get_bcopy<Link>>;
    ops.ep_get_zcopy = guarded<get_zcopy<Link>>;
    ops.ep_am_short = am_short<Link>;
    ops.ep_am_short_iov = am_short_iov<Link>;
    ops.ep_am_bcopy = am_bcopy<Link>;
    ops.ep_am_zcopy = am_zcopy<Link>;
    ops.ep_atomic_cswap64 = guarded<atomic_cswap<Link, std::uint64_t>>;
    ops.ep_atomic_cswap32 = guarded<atomic_cswap<Link, std::uint32_t>>;
    ops.ep_atomic64_post = guarded<atomic_post<Link, std::uint64_t>>;
    ops.ep_atomic32_post = guarded<atomic_post<Link, std::uint32_t>>;
    ops.ep_atomic64_fetch = guarded<atomic_fetch<Link, std::uint64_t>>;
    ops.ep_atomic32_fetch = guarded<atomic_fetch<Link, std::uint32_t>>;
    ops.ep_pending_add = pending_add<Link>;
    ops.ep_pending_purge = pending_purge<Link>;
    ops.ep_flush = guarded<flush<Link>>;
    ops.ep_fence = fence<Link>;
    ops.ep_check = check<Link>;
    ops.ep_create = guarded<create<Link>>;
    ops.ep_destroy = destroy<Link>;
}

template void fill_ep_ops<SoftLink>(uct_iface_ops_t&);
template unsigned dispatch_pending(Iface<SoftLink>&);
template void complete(Ep<SoftLink>&, void*, ucs_status_t);
template void fail_ep(Ep<SoftLink>&, ucs_status_t);
template void fill_ep_ops<VerbsLink>(uct_iface_ops_t&);
template unsigned dispatch_pending(Iface<VerbsLink>&);
template void complete(Ep<VerbsLink>&, void*, ucs_status_t);
template void fail_ep(Ep<VerbsLink>&, ucs_status_t);

} // namespace comch::uct
