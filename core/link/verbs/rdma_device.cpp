#include "core/link/verbs/rdma_device.hpp"

#include <algorithm>
#include <cerrno>
#include <map>

#include <fcntl.h>
#include <fmt/format.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include "core/base/clock.hpp"
#include "core/device/per_process.hpp"
#include "core/link/bell.hpp"
#include "core/link/verbs/device_needs.hpp"
#include "core/link/verbs/memlock.hpp"

namespace comch::link::verbs {
namespace {

struct Devices {
    std::mutex mutex;
    std::map<ibv_context*, std::weak_ptr<RdmaDevice>> known;
    std::map<std::string, std::weak_ptr<RdmaDevice>> by_address;
};
Devices& devices() {
    static constinit PerProcess<Devices> instance;
    return instance.get();
}

} // namespace

unsigned remote_access_flags(std::uint32_t access) noexcept {
    return ((access & access_remote_read) != 0 ? unsigned{IBV_ACCESS_REMOTE_READ} : 0u) |
           ((access & access_remote_write) != 0 ? unsigned{IBV_ACCESS_REMOTE_WRITE} : 0u);
}

Result<std::shared_ptr<RdmaDevice>> RdmaDevice::of(ibv_context* context, std::uint8_t port,
                                                   const std::string& address) {
    Devices& all = devices();
    // Both are let go of after the lock: their destructor takes it.
    std::shared_ptr<RdmaDevice> known;
    std::shared_ptr<RdmaDevice> device;
    const std::lock_guard lock(all.mutex);
    known = all.known[context].lock();
    if (known != nullptr) {
        if (!known->gone()) {
            all.by_address[address] = known;
            return known;
        }
        return fail(Errc::not_found,
                    fmt::format("the RDMA device {} is being removed", known->name()));
    }
    device.reset(new RdmaDevice(context));
    if (auto opened = device->open(port); !opened) {
        return tl::unexpected(std::move(opened.error()));
    }
    all.known[context] = device;
    all.by_address[address] = device;
    return device;
}

std::shared_ptr<RdmaDevice> RdmaDevice::behind(const std::string& address) {
    Devices& all = devices();
    const std::lock_guard lock(all.mutex);
    const auto found = all.by_address.find(address);
    return found == all.by_address.end() ? nullptr : found->second.lock();
}

std::uint64_t link_data_of(const Device& device, std::uint64_t region) {
    const auto rdma = RdmaDevice::behind(device.function().address);
    if (rdma == nullptr) {
        return 0;
    }
    const RdmaDevice::RegionKeys keys = rdma->keys_of(region);
    return keys.valid ? has_remote_key | keys.rkey : 0;
}

bool is_open(const Device& device) {
    return RdmaDevice::behind(device.function().address) != nullptr;
}

bool make_known(const Device& device, std::uint64_t region) {
    const auto rdma = RdmaDevice::behind(device.function().address);
    return rdma != nullptr && rdma->keys_of(region).valid;
}

Result<void> RdmaDevice::open(std::uint8_t port_number) {
    pd_ = ::ibv_alloc_pd(context_);
    if (pd_ == nullptr) {
        return fail_pinning(fmt::format("cannot allocate a protection domain on {}", name()),
                            errno);
    }
    ibv_device_attr attr{};
    ibv_port_attr port{};
    if (::ibv_query_device(context_, &attr) != 0 ||
        ::ibv_query_port(context_, port_number, &port) != 0) {
        return fail_errno(Errc::io, fmt::format("cannot query the limits of {}", name()), errno);
    }
    auto limits = judge_device(name(), context_->device->transport_type, attr, port);
    if (!limits) {
        return tl::unexpected(std::move(limits.error()));
    }
    limits_ = *limits;
    const int flags = ::fcntl(context_->async_fd, F_GETFL);
    if (flags < 0 || ::fcntl(context_->async_fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return fail_errno(Errc::io, fmt::format("cannot watch {} for events", name()), errno);
    }
    RegionTable::instance().add_observer(&RdmaDevice::region_removed, this);
    return {};
}

RdmaDevice::~RdmaDevice() {
    RegionTable::instance().remove_observer(this);
    regions_.clear();
    if (pd_ != nullptr) {
        (void)::ibv_dealloc_pd(pd_);
    }
    Devices& all = devices();
    {
        const std::lock_guard lock(all.mutex);
        const auto found = all.known.find(context_);
        if (found != all.known.end() && found->second.expired()) {
            all.known.erase(found);
        }
    }
    if (gone()) {
        // Makes librdmacm notice that the device is no longer there, and close it: until then the
        // kernel does not let it go.
        if (ibv_context** list = ::rdma_get_devices(nullptr); list != nullptr) {
            ::rdma_free_devices(list);
        }
    }
}

Result<Mr> RdmaDevice::register_memory(const void* address, std::size_t length, int access) {
    ibv_mr* const mr = ::ibv_reg_mr(pd_, const_cast<void*>(address), length, access);
    if (mr != nullptr) {
        registrations_.fetch_add(1, std::memory_order_relaxed); // nothing goes by it
        return Mr(mr);
    }
    return fail_pinning(
        fmt::format("cannot register {} bytes with the RDMA device {}", length, name()), errno);
}

RdmaDevice::RegionKeys RdmaDevice::keys_of(std::uint64_t region) {
    const std::lock_guard lock(mutex_);
    const auto mr = find_or_register(region);
    return mr == nullptr ? RegionKeys{} : RegionKeys{mr->lkey(), mr->rkey(), true};
}

std::shared_ptr<const Mr> RdmaDevice::memory_of(std::uint64_t region) {
    const std::lock_guard lock(mutex_);
    return find_or_register(region);
}

std::shared_ptr<const Mr> RdmaDevice::find_or_register(std::uint64_t region) {
    if (gone()) {
        return nullptr;
    }
    const auto known = [this](std::uint64_t id) {
        const auto found = regions_.find(id);
        return found == regions_.end() ? nullptr : found->second;
    };
    if (auto mr = known(region)) {
        return mr;
    }
    // Pinned: the memory is there while it is being registered.
    RegionTable& table = RegionTable::instance();
    const RegionTable::Pin pin = table.pin(region);
    if (pin && pin.region().device_region != 0) {
        region = pin.region().device_region;
        if (auto mr = known(region)) {
            return mr;
        }
        const RegionTable::Pin around = table.pin(region);
        return around ? add_region(region, around.region()) : nullptr;
    }
    return pin ? add_region(region, pin.region()) : nullptr;
}

std::shared_ptr<const Mr> RdmaDevice::add_region(std::uint64_t id,
                                                 const RegionTable::Region& region) {
    unsigned flags = IBV_ACCESS_LOCAL_WRITE | remote_access_flags(region.access);
    if ((region.access & access_by_window) != 0 && limits_.windows) {
        flags |= IBV_ACCESS_MW_BIND;
    }
    auto mr = register_memory(region.base, region.length, static_cast<int>(flags));
    return mr ? regions_.emplace(id, std::make_shared<const Mr>(std::move(*mr))).first->second
              : nullptr;
}

std::size_t RdmaDevice::known_regions() {
    const std::lock_guard lock(mutex_);
    return regions_.size();
}

void RdmaDevice::region_removed(void* self, std::uint64_t region) {
    auto& device = *static_cast<RdmaDevice*>(self);
    const std::lock_guard lock(device.mutex_);
    device.regions_.erase(region);
}

void RdmaDevice::set_gone() noexcept {
    const std::lock_guard lock(mutex_);
    if (!gone_.exchange(true, std::memory_order_acq_rel)) {
        regions_.clear();
        ring_bells();
    }
}

void RdmaDevice::look_at_events() {
    ibv_async_event event{};
    while (!gone() && ::ibv_get_async_event(context_, &event) == 0) {
        take(event);
        ::ibv_ack_async_event(&event); // until then, nobody can destroy the object it is of
    }
}

void RdmaDevice::take(const ibv_async_event& event) {
    const auto tell = [&](const void* object, auto&& say) {
        const std::lock_guard lock(mutex_);
        if (const auto found = watched_.find(object); found != watched_.end()) {
            say(*found->second);
            ring_bells();
        }
    };
    const auto error = [&](Said& said) {
        said.error.store(event.event_type, std::memory_order_release);
    };
    switch (event.event_type) {
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE: {
        down_since_ns_[static_cast<std::uint8_t>(event.element.port_num)].store(
            event.event_type == IBV_EVENT_PORT_ERR ? monotonic_ns() : 0, std::memory_order_relaxed);
        const std::lock_guard lock(mutex_);
        ring_bells();
        break;
    }
    case IBV_EVENT_DEVICE_FATAL:
        set_gone();
        break;
    case IBV_EVENT_CQ_ERR:
        tell(event.element.cq, error);
        break;
    case IBV_EVENT_SRQ_ERR:
        tell(event.element.srq, error);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        tell(event.element.qp, error);
        break;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        tell(event.element.qp,
             [](Said& said) { said.last_receive.store(true, std::memory_order_release); });
        break;
    default:
        break; // nothing that this link depends on
    }
}

void RdmaDevice::watch(const void* object, Said& said) {
    const std::lock_guard lock(mutex_);
    watched_[object] = &said;
}

void RdmaDevice::unwatch(const void* object) {
    const std::lock_guard lock(mutex_);
    watched_.erase(object);
}

void RdmaDevice::add_bell(int fd) {
    const std::lock_guard lock(mutex_);
    bells_.push_back(fd);
}

void RdmaDevice::remove_bell(int fd) {
    const std::lock_guard lock(mutex_);
    std::erase(bells_, fd);
}

void RdmaDevice::ring_bells() {
    std::for_each(bells_.begin(), bells_.end(), ring);
}

} // namespace comch::link::verbs
