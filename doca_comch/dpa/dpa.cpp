#include "doca_comch/dpa/dpa.hpp"

#include <array>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <doca_dev.h>
#include <doca_dpa_dev.h>

#include "doca_comch/common/device.hpp"
#include "doca_comch/common/status.hpp"

using comch::doca::refuse;

namespace {

thread_local doca_dpa_thread* current = nullptr;

} // namespace

// ---- threads
// ------------------------------------------------------------------------------------

void doca_dpa_thread::activate() {
    const std::lock_guard lock(mutex_);
    activated_ = true;
    changed_.notify_one();
}

void doca_dpa_thread::run() {
    const std::lock_guard lock(mutex_);
    runs_ = true;
    changed_.notify_one();
}

void doca_dpa_thread::start() {
    ends_ = false;
    thread_ = std::thread([this] { work(); });
}

void doca_dpa_thread::stop() {
    if (!thread_.joinable()) {
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
        runs_ = false;
        activated_ = false;
        changed_.notify_one();
    }
    thread_.join();
}

void doca_dpa_thread::work() {
    current = this;
    const auto entry = reinterpret_cast<void (*)(std::uint64_t)>(function);
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return ends_ || (runs_ && activated_); });
        if (ends_) {
            return;
        }
        activated_ = false;
        lock.unlock();
        entry(argument);
        lock.lock();
    }
}

void doca_dpa_dev_thread_reschedule() {}

void doca_dpa_dev_thread_finish() {}

doca_dpa_dev_uintptr_t doca_dpa_dev_thread_get_local_storage() {
    return current == nullptr ? 0 : current->local_storage;
}

doca_error_t doca_dpa_thread_create(doca_dpa* dpa, doca_dpa_thread** dpa_thread) {
    if (dpa == nullptr || dpa_thread == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!dpa->started) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot create a DPA thread: the DPA is not started");
    }
    *dpa_thread = new doca_dpa_thread(*dpa);
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_thread_destroy(doca_dpa_thread* dpa_thread) {
    if (dpa_thread == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (dpa_thread == current) {
        return DOCA_ERROR_NOT_PERMITTED; // it cannot wait for its own end
    }
    if (dpa_thread->users != 0) {
        return refuse(DOCA_ERROR_IN_USE, "cannot destroy the DPA thread: completions activate it; "
                                         "destroy them first");
    }
    delete dpa_thread;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_thread_set_func_arg(doca_dpa_thread* thread, doca_dpa_func_t* func,
                                          uint64_t arg) {
    if (thread == nullptr || func == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (thread->started()) {
        return DOCA_ERROR_BAD_STATE;
    }
    thread->function = func;
    thread->argument = arg;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_thread_set_local_storage(doca_dpa_thread* dpa_thread,
                                               doca_dpa_dev_uintptr_t thread_local_storage_addr) {
    if (dpa_thread == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (dpa_thread->started()) {
        return DOCA_ERROR_BAD_STATE;
    }
    dpa_thread->local_storage = thread_local_storage_addr;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_thread_start(doca_dpa_thread* dpa_thread) {
    if (dpa_thread == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (dpa_thread->started() || dpa_thread->function == nullptr) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot start the DPA thread: it is started already, "
                                            "or has no function");
    }
    dpa_thread->start();
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_thread_stop(doca_dpa_thread* dpa_thread) {
    if (dpa_thread == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!dpa_thread->started() || dpa_thread == current) {
        return DOCA_ERROR_BAD_STATE;
    }
    dpa_thread->stop();
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_thread_run(doca_dpa_thread* dpa_thread) {
    if (dpa_thread == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!dpa_thread->started()) {
        return DOCA_ERROR_BAD_STATE;
    }
    dpa_thread->run();
    return DOCA_SUCCESS;
}

// ---- the DPA
// ------------------------------------------------------------------------------------

doca_error_t doca_dpa_cap_is_supported(const doca_devinfo* devinfo) {
    return devinfo == nullptr ? DOCA_ERROR_INVALID_VALUE : DOCA_SUCCESS;
}

doca_error_t doca_dpa_create(doca_dev* dev, doca_dpa** dpa) {
    if (!comch::doca::is_open(dev) || dpa == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *dpa = new doca_dpa;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_destroy(doca_dpa* dpa) {
    if (dpa == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (dpa->users != 0) {
        return refuse(DOCA_ERROR_IN_USE, "cannot destroy the DPA: threads, completions or message "
                                         "queues of it exist");
    }
    delete dpa;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_set_app(doca_dpa* dpa, doca_dpa_app* app) {
    if (dpa == nullptr || app == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return dpa->started ? DOCA_ERROR_BAD_STATE : DOCA_SUCCESS;
}

doca_error_t doca_dpa_start(doca_dpa* dpa) {
    if (dpa == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (dpa->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    dpa->started = true;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_stop(doca_dpa* dpa) {
    if (dpa == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!dpa->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    if (dpa->users != 0) {
        return DOCA_ERROR_IN_USE;
    }
    dpa->started = false;
    return DOCA_SUCCESS;
}

// Reads six arguments as the C library's syscall() does, however many were given: the rest is
// whatever the registers and the caller's frame hold, which the address sanitizer would take for a
// mistake.
__attribute__((no_sanitize("address"))) doca_error_t
doca_dpa_rpc(doca_dpa* dpa, doca_dpa_func_t* func, uint64_t* retval, ...) {
    if (dpa == nullptr || func == nullptr || retval == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!dpa->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    // How many were given only the function knows; a call with too many is one with enough.
    std::array<std::uint64_t, 6> given{};
    std::va_list list;
    va_start(list, retval);
    for (std::uint64_t& value : given) {
        value = va_arg(list, std::uint64_t);
    }
    va_end(list);
    using Function = std::uint64_t (*)(std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                                       std::uint64_t, std::uint64_t);
    *retval = reinterpret_cast<Function>(func)(given[0], given[1], given[2], given[3], given[4],
                                               given[5]);
    return DOCA_SUCCESS;
}

// ---- completions
// --------------------------------------------------------------------------------

doca_error_t doca_dpa_completion_create(doca_dpa* dpa, unsigned int queue_size,
                                        doca_dpa_completion** dpa_comp) {
    if (dpa == nullptr || queue_size == 0 || dpa_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    *dpa_comp = new doca_dpa_completion{.dpa = *dpa, .queue_size = queue_size};
    ++dpa->users;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_completion_destroy(doca_dpa_completion* dpa_comp) {
    if (dpa_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (dpa_comp->users != 0) {
        return refuse(DOCA_ERROR_IN_USE, "producers are attached to the DPA completion");
    }
    --dpa_comp->dpa.users;
    if (dpa_comp->thread != nullptr) {
        --dpa_comp->thread->users;
    }
    delete dpa_comp;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_completion_set_thread(doca_dpa_completion* dpa_comp,
                                            doca_dpa_thread* thread) {
    if (dpa_comp == nullptr || thread == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (dpa_comp->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    ++thread->users;
    if (dpa_comp->thread != nullptr) {
        --dpa_comp->thread->users;
    }
    dpa_comp->thread = thread;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_completion_start(doca_dpa_completion* dpa_comp) {
    if (dpa_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (dpa_comp->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    dpa_comp->started = true;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_completion_stop(doca_dpa_completion* dpa_comp) {
    if (dpa_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!dpa_comp->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    dpa_comp->started = false;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_completion_get_dpa_handle(doca_dpa_completion* dpa_comp,
                                                doca_dpa_dev_completion_t* handle) {
    if (dpa_comp == nullptr || handle == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!dpa_comp->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    *handle = reinterpret_cast<doca_dpa_dev_completion_t>(dpa_comp);
    return DOCA_SUCCESS;
}

// ---- memory
// -------------------------------------------------------------------------------------

doca_error_t doca_dpa_mem_alloc(doca_dpa* dpa, size_t size, doca_dpa_dev_uintptr_t* dev_ptr) {
    if (dpa == nullptr || size == 0 || dev_ptr == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    void* const memory = std::calloc(1, size);
    if (memory == nullptr) {
        return DOCA_ERROR_NO_MEMORY;
    }
    *dev_ptr = reinterpret_cast<doca_dpa_dev_uintptr_t>(memory);
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_mem_free(doca_dpa* dpa, doca_dpa_dev_uintptr_t dev_ptr) {
    if (dpa == nullptr || dev_ptr == 0) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    std::free(reinterpret_cast<void*>(dev_ptr));
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_h2d_memcpy(doca_dpa* dpa, doca_dpa_dev_uintptr_t dst_ptr, void* src_ptr,
                                 size_t size) {
    if (dpa == nullptr || dst_ptr == 0 || src_ptr == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    std::memcpy(reinterpret_cast<void*>(dst_ptr), src_ptr, size);
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_d2h_memcpy(doca_dpa* dpa, void* dst_ptr, doca_dpa_dev_uintptr_t src_ptr,
                                 size_t size) {
    if (dpa == nullptr || dst_ptr == nullptr || src_ptr == 0) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    std::memcpy(dst_ptr, reinterpret_cast<const void*>(src_ptr), size);
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_memset(doca_dpa* dpa, doca_dpa_dev_uintptr_t dev_ptr, int value,
                             size_t size) {
    if (dpa == nullptr || dev_ptr == 0) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    std::memset(reinterpret_cast<void*>(dev_ptr), value, size);
    return DOCA_SUCCESS;
}
