#include "doca_comch/sync_event/sync_event.hpp"

#include <algorithm>

#include "doca_comch/common/device.hpp"
#include "doca_comch/common/status.hpp"

namespace comch::doca {
namespace {

constexpr std::uint32_t max_tasks = 8192; // of a kind

template <class Task, class Report>
void call(Callback callback, EventTask& task, doca_data ctx_user_data) {
    reinterpret_cast<Report>(callback)(reinterpret_cast<Task*>(&task), task.user_data,
                                       ctx_user_data);
}

} // namespace

bool fits_counter(const void* address) {
    return address != nullptr &&
           reinterpret_cast<std::uintptr_t>(address) % alignof(std::uint64_t) == 0;
}

SyncEvent::SyncEvent(doca_dev& device, transfer::ImportedMemory memory)
    : counter_(std::move(memory)) {
    lenient = true;
    hold(device);
}

SyncEvent::~SyncEvent() {
    for (doca_dev* const device : devices_) {
        device->users.fetch_sub(1, std::memory_order_release);
    }
}

void SyncEvent::hold(doca_dev& device) {
    devices_.push_back(&device);
    device.users.fetch_add(1, std::memory_order_relaxed);
}

doca_error_t SyncEvent::changeable() const {
    if (counter_.imported()) {
        return refuse(DOCA_ERROR_NOT_PERMITTED, "an imported sync event cannot be changed");
    }
    return idle() ? DOCA_SUCCESS
                  : refuse(DOCA_ERROR_BAD_STATE, "the sync event is started: stop it to change it");
}

doca_error_t SyncEvent::set_location(Location SyncEvent::*which, Location where, doca_dev* device) {
    if (where == Location::cpu && !is_open(device)) {
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
    if (device != nullptr) {
        hold(*device);
    }
    this->*which = where;
    return DOCA_SUCCESS;
}

doca_error_t SyncEvent::set_counter(void* address) {
    if (!fits_counter(address)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const doca_error_t result = changeable();
    if (result == DOCA_SUCCESS) {
        counter_.put_at(static_cast<std::uint64_t*>(address));
    }
    return result;
}

doca_error_t SyncEvent::set_tasks_conf(EventTaskKind kind, Callback done, Callback failed,
                                       std::uint32_t count) {
    if (done == nullptr || failed == nullptr || count > max_tasks) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!idle()) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "cannot configure tasks of the sync event: it is started");
    }
    conf_[static_cast<std::size_t>(kind)] = {done, failed, count};
    return DOCA_SUCCESS;
}

bool SyncEvent::needs_engine() const noexcept {
    return std::any_of(conf_.begin(), conf_.end(), [](const Conf& conf) { return conf.count > 0; });
}

doca_error_t SyncEvent::begin_start() {
    if (!counter_.imported() && (publisher == Location::none || subscriber == Location::none)) {
        return refuse(DOCA_ERROR_INVALID_VALUE, "cannot start the sync event: give it a "
                                                "publisher's and a subscriber's location");
    }
    const doca_error_t result = guarded([&] { return open(); });
    if (result != DOCA_SUCCESS) {
        closed();
    }
    return result;
}

doca_error_t SyncEvent::open() {
    if (counter_.imported()) {
        if (auto opened = counter_.open(devices_.front()->info.device); !opened) {
            return refuse(opened.error());
        }
    }
    if (needs_engine()) {
        allocate_tasks();
        if (auto opened = tasks_.open(pe()->engine()); !opened) {
            return refuse(opened.error());
        }
    }
    return DOCA_SUCCESS;
}

void SyncEvent::allocate_tasks() {
    for (std::uint8_t kind = 0; kind < doca_task::kinds; ++kind) {
        set_tasks(
            stores_[kind].allocate(conf_[kind].count, *this, kind),
            [](doca_task& task) {
                return static_cast<SyncEvent&>(*task.ctx).tasks_.begin(
                    static_cast<EventTask&>(task));
            },
            report, kind);
    }
}

void SyncEvent::closed() {
    if (tasks_.is_open()) {
        tasks_.close();
    }
    counter_.close();
    exported_.clear();
    map_.reset();
}

doca_error_t SyncEvent::take(EventTaskKind kind, EventTask*& task) {
    if (state() != DOCA_CTX_STATE_RUNNING) {
        return refuse(DOCA_ERROR_BAD_STATE, "the sync event is not started");
    }
    task = static_cast<EventTask*>(take_task(static_cast<std::uint8_t>(kind)));
    return task == nullptr ? DOCA_ERROR_NO_MEMORY : DOCA_SUCCESS;
}

void SyncEvent::report(doca_task& base, bool success) {
    auto& task = static_cast<EventTask&>(base);
    const auto& self = static_cast<const SyncEvent&>(*task.ctx);
    const Conf& conf = self.conf_[task.kind];
    const Callback callback = success ? conf.done : conf.failed;
    switch (task.what()) {
    case EventTaskKind::get:
        return call<doca_sync_event_task_get, doca_sync_event_task_get_completion_cb_t>(
            callback, task, self.user_data);
    case EventTaskKind::notify_set:
        return call<doca_sync_event_task_notify_set,
                    doca_sync_event_task_notify_set_completion_cb_t>(callback, task,
                                                                     self.user_data);
    case EventTaskKind::notify_add:
        return call<doca_sync_event_task_notify_add,
                    doca_sync_event_task_notify_add_completion_cb_t>(callback, task,
                                                                     self.user_data);
    case EventTaskKind::wait_eq:
        return call<doca_sync_event_task_wait_eq, doca_sync_event_task_wait_eq_completion_cb_t>(
            callback, task, self.user_data);
    case EventTaskKind::wait_neq:
        return call<doca_sync_event_task_wait_neq, doca_sync_event_task_wait_neq_completion_cb_t>(
            callback, task, self.user_data);
    }
}

doca_error_t SyncEvent::export_to(doca_dev& device, std::span<const std::byte>& bytes) {
    if (counter_.imported() || (publisher != Location::remote && subscriber != Location::remote)) {
        return refuse(DOCA_ERROR_NOT_PERMITTED,
                      "cannot export the sync event: it was imported itself, or neither its "
                      "publisher nor its subscriber is remote");
    }
    if (state() != DOCA_CTX_STATE_RUNNING) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot export the sync event: it is not started");
    }
    if (map_ == nullptr) {
        auto map =
            MemoryMap::create(counter_.memory(), local_read | local_write | peer_read | peer_write);
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
    return state() == DOCA_CTX_STATE_RUNNING
               ? to_doca(counter_.perform(op, operand, old))
               : refuse(DOCA_ERROR_BAD_STATE, "the sync event is not started");
}

} // namespace comch::doca
