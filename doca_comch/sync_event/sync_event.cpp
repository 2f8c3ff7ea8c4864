#include <doca_sync_event.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sched.h>

#include "core/transfer/client.hpp"
#include "core/transfer/descriptor.hpp"
#include "doca_comch/common/buffer.hpp"
#include "doca_comch/common/context.hpp"
#include "doca_comch/common/device.hpp"
#include "doca_comch/common/status.hpp"

namespace comch::doca {
namespace {

enum class Location : std::uint8_t { none, cpu, remote };

bool fits(const void* address) {
    return address != nullptr &&
           reinterpret_cast<std::uintptr_t>(address) % alignof(std::uint64_t) == 0;
}

/// An event: a counter here, or in another process.
class SyncEvent final : public doca_ctx {
public:
    SyncEvent() = default;
    SyncEvent(doca_dev& device, transfer::ImportedMemory memory) : remote_(std::move(memory)) {
        hold(device);
    }
    ~SyncEvent() override {
        for (doca_dev* const device : devices_) {
            device->users.fetch_sub(1, std::memory_order_release);
        }
    }

    [[nodiscard]] doca_error_t set_location(Location SyncEvent::*which, Location where,
                                            doca_dev* device);
    [[nodiscard]] doca_error_t set_counter(void* address);
    [[nodiscard]] doca_error_t export_to(doca_dev& device, std::span<const std::byte>& bytes);

    /// The counter's old value.
    [[nodiscard]] doca_error_t perform(link::AtomicOp op, std::uint64_t operand,
                                       std::uint64_t& old);
    template <class Condition>
    [[nodiscard]] doca_error_t wait(Condition&& reached, std::uint64_t mask, bool yields) {
        for (;;) {
            std::uint64_t value = 0;
            const doca_error_t result = perform(link::AtomicOp::add, 0, value);
            if (result != DOCA_SUCCESS || reached(value & mask)) {
                return result;
            }
            if (yields) {
                ::sched_yield();
            }
        }
    }

    Location publisher = Location::none;
    Location subscriber = Location::none;

private:
    doca_error_t begin_start() override;
    doca_error_t begin_stop() override { return DOCA_SUCCESS; }
    bool drained() const noexcept override { return true; }
    bool needs_engine() const noexcept override { return false; }
    void closed() override {
        client_.reset();
        engine_.reset();
        exported_.clear();
        map_.reset();
    }

    [[nodiscard]] doca_error_t changeable() const;
    [[nodiscard]] Errc perform_there(const link::AtomicRequest& request);
    void hold(doca_dev& device) {
        device.users.fetch_add(1, std::memory_order_relaxed);
        devices_.push_back(&device);
    }

    std::uint64_t own_counter_ = 0;
    std::uint64_t* counter_ = &own_counter_;
    std::vector<doca_dev*> devices_; ///< held, one of them perhaps twice
    // exported
    std::unique_ptr<MemoryMap> map_;
    std::map<const doca_dev*, std::vector<std::byte>> exported_;
    // imported
    std::optional<transfer::ImportedMemory> remote_;
    std::unique_ptr<ProgressEngine> engine_;
    std::unique_ptr<transfer::Client> client_;
};

doca_error_t SyncEvent::changeable() const {
    if (remote_) {
        return refuse(DOCA_ERROR_NOT_PERMITTED, "an imported sync event cannot be changed");
    }
    return idle() ? DOCA_SUCCESS
                  : refuse(DOCA_ERROR_BAD_STATE, "the sync event is started: stop it to change it");
}

doca_error_t SyncEvent::set_location(Location SyncEvent::*which, Location where, doca_dev* device) {
    if (where == Location::cpu && device == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const doca_error_t result = changeable();
    if (result != DOCA_SUCCESS) {
        return result;
    }
    if (this->*which != Location::none) {
        return refuse(DOCA_ERROR_NOT_SUPPORTED,
                      "a sync event has one publisher and one subscriber");
    }
    this->*which = where;
    if (device != nullptr) {
        hold(*device);
    }
    return DOCA_SUCCESS;
}

doca_error_t SyncEvent::set_counter(void* address) {
    if (!fits(address)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const doca_error_t result = changeable();
    if (result == DOCA_SUCCESS) {
        counter_ = static_cast<std::uint64_t*>(address);
    }
    return result;
}

doca_error_t SyncEvent::begin_start() {
    if (!remote_) {
        return publisher != Location::none && subscriber != Location::none
                   ? DOCA_SUCCESS
                   : refuse(DOCA_ERROR_INVALID_VALUE, "cannot start the sync event: give it a "
                                                      "publisher's and a subscriber's location");
    }
    auto engine = ProgressEngine::create();
    if (!engine) {
        return refuse(engine.error());
    }
    auto client = transfer::Client::open(
        **engine, devices_.front()->info.device,
        [](void* cookie, Errc status) { *static_cast<std::optional<Errc>*>(cookie) = status; });
    if (!client) {
        return refuse(client.error());
    }
    engine_ = std::move(*engine);
    client_ = std::move(*client);
    return DOCA_SUCCESS;
}

doca_error_t SyncEvent::export_to(doca_dev& device, std::span<const std::byte>& bytes) {
    if (remote_ || (publisher != Location::remote && subscriber != Location::remote)) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "cannot export the sync event: it was imported itself, or neither its "
                      "publisher nor its subscriber is remote");
    }
    if (state() != DOCA_CTX_STATE_RUNNING) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot export the sync event: it is not started");
    }
    if (map_ == nullptr) {
        auto map = MemoryMap::create(std::as_writable_bytes(std::span(counter_, 1)),
                                     local_read | local_write | peer_read | peer_write);
        if (!map) {
            return refuse(map.error());
        }
        map_ = std::move(*map);
    }
    auto found = exported_.find(&device);
    if (found == exported_.end()) {
        auto descriptor = transfer::export_memory(device.info.device, *map_);
        if (!descriptor) {
            return refuse(descriptor.error());
        }
        found = exported_.emplace(&device, std::move(*descriptor)).first;
    }
    bytes = found->second;
    return DOCA_SUCCESS;
}

doca_error_t SyncEvent::perform(link::AtomicOp op, std::uint64_t operand, std::uint64_t& old) {
    if (state() != DOCA_CTX_STATE_RUNNING) {
        return refuse(DOCA_ERROR_BAD_STATE, "the sync event is not started");
    }
    if (remote_) {
        return to_doca(perform_there(
            {.op = op, .size = sizeof(old), .operand = operand, .compare = 0, .result = &old}));
    }
    // Who sees an update sees what its publisher did before it.
    const std::atomic_ref counter(*counter_);
    old = op == link::AtomicOp::swap ? counter.exchange(operand, std::memory_order_acq_rel)
          : operand == 0             ? counter.load(std::memory_order_acquire)
                                     : counter.fetch_add(operand, std::memory_order_acq_rel);
    return DOCA_SUCCESS;
}

Errc SyncEvent::perform_there(const link::AtomicRequest& request) {
    alignas(2) std::optional<Errc> status; // cookies are even
    const transfer::RemotePlace place{*remote_->map, remote_->service, remote_->map->address()};
    Errc result = client_->atomic(place, request, &status);
    while (result == Errc::again) {
        (void)engine_->progress();
        result = client_->atomic(place, request, &status);
    }
    while (result == Errc::in_progress && !status) {
        if (engine_->progress() == 0) {
            ::sched_yield(); // the other end may be waiting for this CPU
        }
    }
    return status.value_or(result);
}

SyncEvent* of(doca_sync_event* event) {
    return reinterpret_cast<SyncEvent*>(event);
}

doca_error_t supported(const doca_devinfo* devinfo, doca_error_t answer) {
    return devinfo == nullptr ? DOCA_ERROR_INVALID_VALUE : answer;
}

doca_error_t set_location(doca_sync_event* event, Location SyncEvent::*which, Location where,
                          doca_dev* device) {
    return event == nullptr ? DOCA_ERROR_INVALID_VALUE
                            : of(event)->set_location(which, where, device);
}

/// For what nobody has here.
doca_error_t refuse_null(const void* event, const void* other) {
    return event == nullptr || other == nullptr ? DOCA_ERROR_INVALID_VALUE
                                                : DOCA_ERROR_NOT_SUPPORTED;
}

template <class Condition>
doca_error_t wait(doca_sync_event* event, std::uint64_t mask, bool yields, Condition&& reached) {
    return event == nullptr ? DOCA_ERROR_INVALID_VALUE : of(event)->wait(reached, mask, yields);
}

} // namespace
} // namespace comch::doca

using comch::doca::Location;
using comch::doca::of;
using comch::doca::SyncEvent;
using comch::link::AtomicOp;

doca_error_t doca_sync_event_cap_is_create_supported(const doca_devinfo* devinfo) {
    return comch::doca::supported(devinfo, DOCA_SUCCESS);
}

doca_error_t doca_sync_event_cap_is_create_from_export_supported(const doca_devinfo* devinfo) {
    return comch::doca::supported(devinfo, DOCA_SUCCESS);
}

doca_error_t doca_sync_event_cap_is_export_to_remote_pci_supported(const doca_devinfo* devinfo) {
    return comch::doca::supported(devinfo, DOCA_SUCCESS);
}

doca_error_t doca_sync_event_cap_is_export_to_remote_net_supported(const doca_devinfo* devinfo) {
    return comch::doca::supported(devinfo, DOCA_ERROR_NOT_SUPPORTED);
}

doca_error_t doca_sync_event_cap_is_export_to_dpa_supported(const doca_devinfo* devinfo) {
    return comch::doca::supported(devinfo, DOCA_ERROR_NOT_SUPPORTED);
}

doca_error_t doca_sync_event_cap_is_export_to_gpu_supported(const doca_devinfo* devinfo) {
    return comch::doca::supported(devinfo, DOCA_ERROR_NOT_SUPPORTED);
}

doca_error_t doca_sync_event_create(doca_sync_event** event) {
    if (event == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *event = reinterpret_cast<doca_sync_event*>(new SyncEvent);
    return DOCA_SUCCESS;
}

doca_error_t doca_sync_event_create_from_export(doca_dev* dev, const uint8_t* data, size_t sz,
                                                doca_sync_event** event) {
    if (dev == nullptr || data == nullptr || sz == 0 || event == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    auto memory = comch::transfer::import_memory(std::as_bytes(std::span(data, sz)));
    if (!memory) {
        return comch::doca::refuse(memory.error());
    }
    if (memory->map->check(memory->map->address(), sizeof(uint64_t),
                           comch::peer_read | comch::peer_write) != comch::Errc::ok ||
        !comch::doca::fits(memory->map->address())) {
        return comch::doca::refuse(DOCA_ERROR_INVALID_VALUE,
                                   "these bytes do not describe a sync event");
    }
    *event = reinterpret_cast<doca_sync_event*>(new SyncEvent(*dev, std::move(*memory)));
    return DOCA_SUCCESS;
}

doca_error_t doca_sync_event_destroy(doca_sync_event* event) {
    return comch::doca::destroy(of(event));
}

doca_ctx* doca_sync_event_as_ctx(doca_sync_event* event) {
    return of(event);
}

doca_error_t doca_sync_event_start(doca_sync_event* event) {
    return event == nullptr ? DOCA_ERROR_INVALID_VALUE : of(event)->start();
}

doca_error_t doca_sync_event_stop(doca_sync_event* event) {
    return event == nullptr ? DOCA_ERROR_INVALID_VALUE : of(event)->stop();
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
    const doca_error_t result = of(event)->export_to(*dev, bytes);
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
               : of(event)->perform(AtomicOp::add, value, *fetched);
}

doca_error_t doca_sync_event_update_set(doca_sync_event* event, uint64_t value) {
    uint64_t old = 0;
    return event == nullptr ? DOCA_ERROR_INVALID_VALUE
                            : of(event)->perform(AtomicOp::swap, value, old);
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
