// doca_sync_event.h: events.
#include <doca_sync_event.h>

#include <span>
#include <utility>

#include <sched.h>

#include "doca_comch/common/buffer.hpp"
#include "doca_comch/common/capability.hpp"
#include "doca_comch/common/device.hpp"
#include "doca_comch/common/status.hpp"
#include "doca_comch/sync_event/sync_event.hpp"

namespace comch::doca {
namespace {

doca_error_t set_location(doca_sync_event* event, Location SyncEvent::*which, Location where,
                          doca_dev* device) {
    return event == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : guarded([&] { return of(event)->set_location(which, where, device); });
}

/// For what nobody has here.
doca_error_t refuse_null(const void* event, const void* other) {
    return event == nullptr || other == nullptr ? DOCA_ERROR_INVALID_VALUE
                                                : DOCA_ERROR_NOT_SUPPORTED;
}

doca_error_t perform(doca_sync_event* event, link::AtomicOp op, std::uint64_t operand,
                     std::uint64_t& old) {
    return guarded([&] { return of(event)->perform(op, operand, old); });
}

/// The event of another process that the bytes describe.
doca_error_t import(doca_dev& dev, std::span<const std::byte> bytes, doca_sync_event*& event) {
    auto memory = transfer::import_memory(bytes);
    if (!memory) {
        return refuse(memory.error());
    }
    if (memory->map->check(memory->map->address(), sizeof(std::uint64_t), peer_read | peer_write) !=
            Errc::ok ||
        !fits_counter(memory->map->address())) {
        return refuse(DOCA_ERROR_INVALID_VALUE, "these bytes do not describe a sync event");
    }
    event = reinterpret_cast<doca_sync_event*>(new SyncEvent(dev, std::move(*memory)));
    return DOCA_SUCCESS;
}

template <class Condition>
doca_error_t wait(doca_sync_event* event, std::uint64_t mask, bool yields, Condition&& reached) {
    if (event == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    for (;;) {
        std::uint64_t value = 0;
        const doca_error_t result = perform(event, link::AtomicOp::add, 0, value);
        if (result != DOCA_SUCCESS || reached(value & mask)) {
            return result;
        }
        if (yields) {
            ::sched_yield();
        }
    }
}

} // namespace
} // namespace comch::doca

using comch::doca::guarded;
using comch::doca::Location;
using comch::doca::of;
using comch::doca::SyncEvent;
using comch::link::AtomicOp;

doca_error_t doca_sync_event_cap_is_create_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo);
}

doca_error_t doca_sync_event_cap_is_create_from_export_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo);
}

doca_error_t doca_sync_event_cap_is_export_to_remote_pci_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo);
}

doca_error_t doca_sync_event_cap_is_export_to_remote_net_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo, false);
}

doca_error_t doca_sync_event_cap_is_export_to_dpa_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo, false);
}

doca_error_t doca_sync_event_cap_is_export_to_gpu_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo, false);
}

doca_error_t doca_sync_event_create(doca_sync_event** event) {
    if (event == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        *event = reinterpret_cast<doca_sync_event*>(new SyncEvent);
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_sync_event_create_from_export(doca_dev* dev, const uint8_t* data, size_t sz,
                                                doca_sync_event** event) {
    if (!comch::doca::is_open(dev) || data == nullptr || sz == 0 || event == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded(
        [&] { return comch::doca::import(*dev, std::as_bytes(std::span(data, sz)), *event); });
}

doca_error_t doca_sync_event_destroy(doca_sync_event* event) {
    return comch::doca::destroy(of(event));
}

doca_ctx* doca_sync_event_as_ctx(doca_sync_event* event) {
    return of(event);
}

doca_error_t doca_sync_event_start(doca_sync_event* event) {
    return event == nullptr ? DOCA_ERROR_INVALID_VALUE
                            : guarded([&] { return of(event)->start(); });
}

doca_error_t doca_sync_event_stop(doca_sync_event* event) {
    return event == nullptr ? DOCA_ERROR_INVALID_VALUE : guarded([&] { return of(event)->stop(); });
}

doca_error_t doca_sync_event_set_addr(doca_sync_event* event, uint64_t* addr) {
    return event == nullptr ? DOCA_ERROR_INVALID_VALUE : of(event)->set_counter(addr);
}

doca_error_t doca_sync_event_set_doca_buf(doca_sync_event* event, doca_buf* buf) {
    if (event == nullptr || buf == nullptr || buf->references == 0 || !buf->mmap->started() ||
        buf->mmap->map->check(buf->data, sizeof(uint64_t),
                              comch::local_read | comch::local_write) != comch::Errc::ok ||
        buf->mmap->imported()) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return of(event)->set_counter(buf->data);
}

doca_error_t doca_sync_event_add_publisher_location_cpu(doca_sync_event* event, doca_dev* dev) {
    return comch::doca::set_location(event, &SyncEvent::publisher, Location::cpu, dev);
}

doca_error_t doca_sync_event_add_publisher_location_remote_pci(doca_sync_event* event) {
    return comch::doca::set_location(event, &SyncEvent::publisher, Location::remote, nullptr);
}

doca_error_t doca_sync_event_add_subscriber_location_cpu(doca_sync_event* event, doca_dev* dev) {
    return comch::doca::set_location(event, &SyncEvent::subscriber, Location::cpu, dev);
}

doca_error_t doca_sync_event_add_subscriber_location_remote_pci(doca_sync_event* event) {
    return comch::doca::set_location(event, &SyncEvent::subscriber, Location::remote, nullptr);
}

doca_error_t doca_sync_event_add_publisher_location_dpa(doca_sync_event* event, doca_dpa* dpa) {
    return comch::doca::refuse_null(event, dpa);
}

doca_error_t doca_sync_event_add_publisher_location_gpu(doca_sync_event* event, doca_gpu* gpu) {
    return comch::doca::refuse_null(event, gpu);
}

doca_error_t doca_sync_event_add_publisher_location_remote_net(doca_sync_event* event) {
    return comch::doca::refuse_null(event, event);
}

doca_error_t doca_sync_event_add_subscriber_location_dpa(doca_sync_event* event, doca_dpa* dpa) {
    return comch::doca::refuse_null(event, dpa);
}

doca_error_t doca_sync_event_add_subscriber_location_gpu(doca_sync_event* event, doca_gpu* gpu) {
    return comch::doca::refuse_null(event, gpu);
}

doca_error_t doca_sync_event_export_to_remote_pci(doca_sync_event* event, doca_dev* dev,
                                                  const uint8_t** data, size_t* sz) {
    if (event == nullptr || dev == nullptr || data == nullptr || sz == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    std::span<const std::byte> bytes;
    const doca_error_t result = guarded([&] { return of(event)->export_to(*dev, bytes); });
    if (result == DOCA_SUCCESS) {
        *data = reinterpret_cast<const uint8_t*>(bytes.data());
        *sz = bytes.size();
    }
    return result;
}

doca_error_t doca_sync_event_export_to_remote_net(doca_sync_event* event, const uint8_t** data,
                                                  size_t* sz) {
    return sz == nullptr ? DOCA_ERROR_INVALID_VALUE : comch::doca::refuse_null(event, data);
}

doca_error_t doca_sync_event_get(doca_sync_event* event, uint64_t* value) {
    return doca_sync_event_update_add(event, 0, value);
}

doca_error_t doca_sync_event_update_add(doca_sync_event* event, uint64_t value, uint64_t* fetched) {
    return event == nullptr || fetched == nullptr
               ? DOCA_ERROR_INVALID_VALUE
               : comch::doca::perform(event, AtomicOp::add, value, *fetched);
}

doca_error_t doca_sync_event_update_set(doca_sync_event* event, uint64_t value) {
    uint64_t old = 0;
    return event == nullptr ? DOCA_ERROR_INVALID_VALUE
                            : comch::doca::perform(event, AtomicOp::swap, value, old);
}

doca_error_t doca_sync_event_wait_gt(doca_sync_event* event, uint64_t value, uint64_t mask) {
    return comch::doca::wait(event, mask, false, [=](uint64_t now) { return now > value; });
}

doca_error_t doca_sync_event_wait_eq(doca_sync_event* event, uint64_t value, uint64_t mask) {
    return comch::doca::wait(event, mask, false, [=](uint64_t now) { return now == value; });
}

doca_error_t doca_sync_event_wait_neq(doca_sync_event* event, uint64_t value, uint64_t mask) {
    return comch::doca::wait(event, mask, false, [=](uint64_t now) { return now != value; });
}

doca_error_t doca_sync_event_wait_gt_yield(doca_sync_event* event, uint64_t value, uint64_t mask) {
    return comch::doca::wait(event, mask, true, [=](uint64_t now) { return now > value; });
}

doca_error_t doca_sync_event_wait_eq_yield(doca_sync_event* event, uint64_t value, uint64_t mask) {
    return comch::doca::wait(event, mask, true, [=](uint64_t now) { return now == value; });
}

doca_error_t doca_sync_event_wait_neq_yield(doca_sync_event* event, uint64_t value, uint64_t mask) {
    return comch::doca::wait(event, mask, true, [=](uint64_t now) { return now != value; });
}
