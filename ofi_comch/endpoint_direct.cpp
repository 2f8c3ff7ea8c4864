// Reads and writes of a peer's memory that our device carries out without the peer's CPU.
//
// The first ones that could be are sent as all others, and ask for the memory's region; the owner
// tells it if its program has said that the pages stay and left the keys to us (no key is used
// again, so what is remembered of one stays true), and if nobody there counts what comes. From then
// on they go to the device. They are in no order with what goes by way of the CPU, so a program
// that asks for an order of reads and writes has none of this; but a message that follows a write
// finds it done, and a fence waits for all of both ways.
//
// What the owner would refuse is left to it to refuse. What it has let go of (fi_close of the
// memory) while peers are still at it, its device refuses, and that ends the connection.
#include "core/memory/region_key.hpp"
#include "core/memory/remote_region.hpp"
#include "endpoint.hpp"
#include "endpoint_parser.hpp"
#include "info.hpp"
#include "provider.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

/// Regions of one peer that are remembered; then they are asked for anew.
constexpr std::size_t max_reaches = 4096;
/// Operations that are under way on one connection.
constexpr std::size_t max_direct = 1024;

/// What peers may do to it, as the core says it.
std::uint32_t remote_access(const Mr& mr) noexcept {
    return ((mr.access & FI_REMOTE_READ) != 0 ? std::uint32_t{access_remote_read} : 0u) |
           ((mr.access & FI_REMOTE_WRITE) != 0 ? std::uint32_t{access_remote_write} : 0u);
}

/// Their devices may be at it by themselves: what is told of it stays true, and nobody counts.
bool peers_may_reach(const Mr& mr) noexcept {
    return mr.domain->own_keys && mr.remote_read == nullptr && mr.remote_write == nullptr &&
           (mr.flags & FI_RMA_EVENT) == 0;
}

} // namespace

/// What the program has registered for its peers is registered with the device once, if that pins
/// what stays there. (Connected endpoints are closed before their last writes have gone out, and
/// the registration may end right after.)
std::uint64_t Endpoint::device_region_of(Mr& mr) try {
    if (!domain->pages_stay || type != FI_EP_RDM) {
        return 0;
    }
    if (!mr.shown) {
        mr.shown = true;
        // (A read-write registration; a device that cannot have it leaves the work to us.)
        mr.region = own_region(station->device(), mr.base, mr.length,
                               peers_may_reach(mr) ? remote_access(mr) : 0, false);
    }
    return mr.region;
} catch (const std::bad_alloc&) {
    return 0;
}

Kept* Endpoint::keep(std::byte* base, std::uint64_t length, std::uint32_t access) try {
    const bool is_shown = (access & access_remote_all) != 0;
    if (domain->kept == nullptr || (is_shown && settings().keep_registrations != Keep::all)) {
        return nullptr;
    }
    return domain->kept->get(
        base, length, access,
        // (The program may free the memory of what is kept.)
        [&](auto... what) { return own_region(station->device(), what..., true); });
} catch (const std::bad_alloc&) {
    return nullptr;
}

void Endpoint::let_go(Kept*& kept) {
    if (kept != nullptr) {
        domain->kept->put(*std::exchange(kept, nullptr));
    }
}

Reach* Endpoint::reach_of(Conn& to, const RmaCall& call, std::size_t length, bool is_write,
                          bool& asks) {
    constexpr std::uint64_t for_the_cpu = FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE;
    if (!goes_direct || call.count != 1 || length == 0 || (call.flags & for_the_cpu) != 0) {
        return nullptr;
    }
    if (to.last_reach == nullptr || to.last_key != call.key) {
        const auto found = to.reaches.find(call.key);
        if (found == to.reaches.end()) {
            asks = true;
            return nullptr;
        }
        to.last_reach = &found->second;
        to.last_key = call.key;
    }
    const RegionKey& key = to.last_reach->region.key();
    const std::uint64_t offset = call.address - to.last_reach->address;
    const bool reachable =
        offset <= key.length && length <= key.length - offset &&
        (key.access & (is_write ? access_remote_write : access_remote_read)) != 0;
    return reachable ? to.last_reach : nullptr;
}

bool Endpoint::go_direct(Conn& to, Reach& reach, const RmaCall& call, std::size_t length,
                         bool is_write, ssize_t& result) {
    // A program that tries again without reading its queue must get on, too.
    const auto wait = [&] {
        (void)station->progress(); // `to` may have ended in it
        result = -FI_EAGAIN;
        return true;
    };
    if (to.direct == max_direct) {
        return wait();
    }
    std::uint64_t name = 0;
    Operation& operation = begin(is_write ? Operation::Kind::write : Operation::Kind::read, to,
                                 call.flags, error_context(call), call.report, name);
    operation.direct = true;
    ++to.direct;
    auto* const local = static_cast<std::byte*>(call.iov->iov_base);
    std::uint64_t own = 0;
    if (length > tuning::max_message) { // shorter ones are copied
        Mr* const mr = domain->around(local, length);
        own = mr != nullptr ? device_region_of(*mr) : 0;
        if (own != 0) {
            operation.mr = mr;
            ++mr->users;
        } else if ((operation.kept = keep(local, length, 0)) != nullptr) {
            own = operation.kept->region();
        }
    }
    const std::uint64_t address = reach.region.key().base + (call.address - reach.address);
    Awaited* const token = &operation;
    const Errc started =
        is_write ? to.link->write(local, length, reach.region, address, token, {.region = own})
                 : to.link->get(local, length, reach.region, address, token, {.region = own});
    if (started == Errc::in_progress) {
        result = 0;
        return true;
    }
    if (started == Errc::ok) {
        finish(operation, Errc::ok);
        result = 0;
        return true;
    }
    forget(operation);
    return started == Errc::again && wait();
}

void Endpoint::let_go_of_memory(Operation& operation) {
    if (operation.region != 0) {
        RegionTable::instance().remove(std::exchange(operation.region, 0));
    }
    if (operation.mr != nullptr) {
        --std::exchange(operation.mr, nullptr)->users;
    }
    // (A connection that has been closed has none open, nor has one that has ended.)
    if (operation.window != 0 && operation.conn->link != nullptr) {
        (void)operation.conn->link->close_window(operation.window, nullptr);
    }
    operation.window = 0;
    let_go(operation.kept);
}

bool Endpoint::open_window(Operation& operation, std::byte* base, std::uint64_t length,
                           std::uint32_t access) {
    Connection& link = *operation.conn->link;
    // (Of this range alone: soft-RoCE has peers reach all of what a window is into.)
    if (settings().keep_registrations != Keep::windows || !link.may_open_window(length) ||
        (operation.kept = keep(base, length, access_by_window)) == nullptr) {
        return false;
    }
    operation.window = link.open_window(operation.kept->region(), base, length, access);
    if (operation.window == 0) {
        let_go(operation.kept);
    }
    return operation.window != 0;
}

void Endpoint::on_direct(Operation& operation, Errc status) {
    if (operation.closing) { // whatever has become of the connection since, the peer was done
        finish(operation, operation.ended_with);
        return;
    }
    // Who waits for something has not got it, however orderly the end was.
    finish(operation, status == Errc::not_connected ? Errc::connection_reset : status);
}

void Endpoint::tell_region(Conn& to, Mr& mr) {
    const bool counted = counters[remote_reads] != nullptr || counters[remote_writes] != nullptr;
    const std::uint64_t own = counted || !peers_may_reach(mr) ? 0 : device_region_of(mr);
    if (own == 0) {
        return;
    }
    wire::Region region{};
    region.key = mr.fid.key;
    region.base = reinterpret_cast<std::uint64_t>(mr.base);
    region.address = domain->virtual_addresses ? region.base : 0;
    region.length = mr.length;
    region.region = own;
    region.link_data = Link::link_data_of(station->device(), own);
    region.access = remote_access(mr);
    mr.told = true;
    to.send_own(static_cast<std::uint8_t>(wire::Kind::region), &region, sizeof(region));
}

bool Endpoint::take_region(Conn& from, Parser& parser) {
    wire::Region region{};
    if (!goes_direct || !parser.take(region)) {
        return false; // nobody asked
    }
    RegionKey key;
    key.process_id = from.link->peer().process_id;
    key.region = region.region;
    key.base = region.base;
    key.length = region.length;
    key.access = region.access & (access_remote_read | access_remote_write);
    key.link_data = region.link_data;
    if (from.reaches.size() >= max_reaches) {
        from.reaches.clear();
    }
    from.last_reach = nullptr;
    from.reaches.insert_or_assign(region.key, Reach{RemoteRegion(key), region.address});
    return true;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
