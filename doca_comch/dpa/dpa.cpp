#include "doca_comch/dpa/dpa.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include <doca_dev.h>
#include <doca_dpa_dev.h>

#include "core/base/quiet_thread.hpp"
#include "doca_comch/common/capability.hpp"
#include "doca_comch/common/device.hpp"
#include "doca_comch/common/never_destroyed.hpp"
#include "doca_comch/common/status.hpp"

using comch::doca::guarded;
using comch::doca::refuse;

namespace {

thread_local doca_dpa_thread* current = nullptr;
thread_local doca_dpa* current_dpa = nullptr; ///< that the calling function runs on

} // namespace

// ---- threads ------------------------------------------------------------------------------------

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
    thread_ = comch::quiet_thread("comch-dpa", [this] { work(); });
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
    current_dpa = &dpa_;
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return ends_ || (runs_ && activated_); });
        if (ends_) {
            return;
        }
        activated_ = false;
        lock.unlock();
        call();
        lock.lock();
    }
}

void doca_dpa_thread::call() {
    if (setjmp(way_out_) == 0) {
        reinterpret_cast<void (*)(std::uint64_t)>(function)(argument);
    }
}

bool doca_dpa_thread::is_to_stop() {
    if (current == nullptr) {
        return false;
    }
    const std::lock_guard lock(current->mutex_);
    return current->ends_;
}

void doca_dpa_dev_thread_reschedule() {
    if (current != nullptr) {
        current->leave();
    }
}

void doca_dpa_dev_thread_finish() {
    doca_dpa_dev_thread_reschedule();
}

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
    return guarded([&] {
        *dpa_thread = new doca_dpa_thread(*dpa);
        return DOCA_SUCCESS;
    });
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
    return guarded([&] {
        dpa_thread->start();
        return DOCA_SUCCESS;
    });
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

// ---- the DPA ------------------------------------------------------------------------------------

doca_error_t doca_dpa_cap_is_supported(const doca_devinfo* devinfo) {
    return comch::doca::is_supported(devinfo);
}

doca_error_t doca_dpa_create(doca_dev* dev, doca_dpa** dpa) {
    if (!comch::doca::is_open(dev) || dpa == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        *dpa = new doca_dpa;
        return DOCA_SUCCESS;
    });
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
    doca_dpa* const before = std::exchange(current_dpa, dpa);
    using Function = std::uint64_t (*)(std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                                       std::uint64_t, std::uint64_t);
    *retval = reinterpret_cast<Function>(func)(given[0], given[1], given[2], given[3], given[4],
                                               given[5]);
    current_dpa = before;
    return DOCA_SUCCESS;
}

// ---- what programs on the DPA have to say -------------------------------------------------------

DpaLog::~DpaLog() {
    if (file_ != nullptr) {
        (void)std::fclose(file_);
    }
}

bool DpaLog::open(const char* path) {
    std::FILE* const file = std::fopen(path, "we");
    if (file == nullptr) {
        return false;
    }
    const std::lock_guard lock(mutex_);
    if (file_ != nullptr) {
        (void)std::fclose(file_);
    }
    file_ = file;
    return true;
}

void DpaLog::write(std::string_view text) {
    const std::lock_guard lock(mutex_);
    std::FILE* const to = file_ != nullptr ? file_ : stdout;
    (void)std::fwrite(text.data(), 1, text.size(), to);
    if (text.empty() || text.back() != '\n') {
        (void)std::fputc('\n', to);
    }
    (void)std::fflush(to);
}

void doca_dpa_dev_log(doca_dpa_dev_log_level_t log_level, const char* format, ...) {
    // Else of a function that runs on no DPA.
    DpaLog& log =
        current_dpa != nullptr ? current_dpa->log : comch::doca::never_destroyed<DpaLog>();
    if (format == nullptr || log_level <= DOCA_DPA_DEV_LOG_LEVEL_DISABLE || !log.wants(log_level)) {
        return;
    }
    std::array<char, 1024> text{}; // what is longer is cut
    std::va_list list;
    va_start(list, format);
    const int length = std::vsnprintf(text.data(), text.size(), format, list);
    va_end(list);
    if (length >= 0) {
        log.write({text.data(),
                   std::min<std::size_t>(static_cast<std::size_t>(length), text.size() - 1)});
    }
}

doca_error_t doca_dpa_set_log_level(doca_dpa* dpa, doca_dpa_dev_log_level_t log_level) {
    if (dpa == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    switch (log_level) {
    case DOCA_DPA_DEV_LOG_LEVEL_DISABLE:
    case DOCA_DPA_DEV_LOG_LEVEL_CRIT:
    case DOCA_DPA_DEV_LOG_LEVEL_ERROR:
    case DOCA_DPA_DEV_LOG_LEVEL_WARNING:
    case DOCA_DPA_DEV_LOG_LEVEL_INFO:
    case DOCA_DPA_DEV_LOG_LEVEL_DEBUG:
        dpa->log.set_level(log_level);
        return DOCA_SUCCESS;
    }
    return DOCA_ERROR_INVALID_VALUE;
}

doca_error_t doca_dpa_log_file_set_path(doca_dpa* dpa, const char* file_path) {
    if (dpa == nullptr || file_path == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (dpa->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    return dpa->log.open(file_path)
               ? DOCA_SUCCESS
               : refuse(DOCA_ERROR_OPERATING_SYSTEM, "cannot write the DPA's log file");
}

// ---- completions --------------------------------------------------------------------------------

void doca_dpa_completion::start() {
    const std::lock_guard lock(mutex_);
    elements_ = std::make_unique<Element[]>(queue_size_);
    added_ = got_ = acknowledged_ = 0;
    requested_ = true; // the first one runs the thread: who should ask before?
    started_ = true;
}

void doca_dpa_completion::stop() {
    const std::lock_guard lock(mutex_);
    started_ = false;
    added_ = got_ = acknowledged_ = 0;
}

void doca_dpa_completion::add(std::uint32_t count, Element last) {
    bool runs = false;
    {
        const std::lock_guard lock(mutex_);
        if (!started_) {
            return;
        }
        for (; count != 0 && added_ - acknowledged_ < queue_size_; --count) {
            elements_[added_ % queue_size_] =
                count == 1 ? last : Element{DOCA_DPA_DEV_COMP_SEND, last.user_data};
            ++added_;
        }
        runs = added_ != got_ && std::exchange(requested_, false);
    }
    if (runs && thread != nullptr) {
        thread->activate();
    }
}

const doca_dpa_completion::Element* doca_dpa_completion::get() {
    const std::lock_guard lock(mutex_);
    return got_ == added_ ? nullptr : &elements_[got_++ % queue_size_];
}

void doca_dpa_completion::acknowledge(std::uint64_t count) {
    const std::lock_guard lock(mutex_);
    acknowledged_ += std::min(count, got_ - acknowledged_);
}

void doca_dpa_completion::request_notification() {
    {
        const std::lock_guard lock(mutex_);
        requested_ = got_ == added_;
        if (requested_) {
            return;
        }
    }
    if (thread != nullptr) {
        thread->activate();
    }
}

doca_error_t doca_dpa_completion_create(doca_dpa* dpa, unsigned int queue_size,
                                        doca_dpa_completion** dpa_comp) {
    if (dpa == nullptr || queue_size == 0 || dpa_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        *dpa_comp = new doca_dpa_completion(*dpa, queue_size);
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_dpa_completion_destroy(doca_dpa_completion* dpa_comp) {
    if (dpa_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (dpa_comp->users != 0) {
        return refuse(DOCA_ERROR_IN_USE, "producers are attached to the DPA completion");
    }
    delete dpa_comp;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_completion_set_thread(doca_dpa_completion* dpa_comp,
                                            doca_dpa_thread* thread) {
    if (dpa_comp == nullptr || thread == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (dpa_comp->started()) {
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
    if (dpa_comp->started()) {
        return DOCA_ERROR_BAD_STATE;
    }
    return guarded([&] {
        dpa_comp->start();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_dpa_completion_stop(doca_dpa_completion* dpa_comp) {
    if (dpa_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!dpa_comp->started()) {
        return DOCA_ERROR_BAD_STATE;
    }
    dpa_comp->stop();
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_completion_get_dpa_handle(doca_dpa_completion* dpa_comp,
                                                doca_dpa_dev_completion_t* handle) {
    if (dpa_comp == nullptr || handle == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!dpa_comp->started()) {
        return DOCA_ERROR_BAD_STATE;
    }
    *handle = reinterpret_cast<doca_dpa_dev_completion_t>(dpa_comp);
    return DOCA_SUCCESS;
}

int doca_dpa_dev_get_completion(doca_dpa_dev_completion_t dpa_comp_handle,
                                doca_dpa_dev_completion_element_t* comp_element) {
    if (dpa_comp_handle == 0 || comp_element == nullptr) {
        return 0;
    }
    const auto* const element = reinterpret_cast<doca_dpa_completion*>(dpa_comp_handle)->get();
    *comp_element = reinterpret_cast<std::uintptr_t>(element);
    return element != nullptr ? 1 : 0;
}

doca_dpa_dev_completion_type_t
doca_dpa_dev_get_completion_type(doca_dpa_dev_completion_element_t comp_element) {
    return comp_element == 0
               ? DOCA_DPA_DEV_COMP_SEND_ERR
               : reinterpret_cast<const doca_dpa_completion::Element*>(comp_element)->type;
}

uint32_t doca_dpa_dev_get_completion_user_data(doca_dpa_dev_completion_element_t comp_element) {
    return comp_element == 0
               ? 0
               : reinterpret_cast<const doca_dpa_completion::Element*>(comp_element)->user_data;
}

uint32_t doca_dpa_dev_get_completion_immediate(doca_dpa_dev_completion_element_t) {
    return 0;
}

void doca_dpa_dev_completion_ack(doca_dpa_dev_completion_t dpa_comp_handle, uint64_t num_comp) {
    if (dpa_comp_handle != 0) {
        reinterpret_cast<doca_dpa_completion*>(dpa_comp_handle)->acknowledge(num_comp);
    }
}

void doca_dpa_dev_completion_request_notification(doca_dpa_dev_completion_t dpa_comp_handle) {
    if (dpa_comp_handle != 0) {
        reinterpret_cast<doca_dpa_completion*>(dpa_comp_handle)->request_notification();
    }
}

// ---- notification completions -------------------------------------------------------------------

doca_error_t
doca_dpa_notification_completion_create(doca_dpa* dpa, doca_dpa_thread* dpa_thread,
                                        doca_dpa_notification_completion** notify_comp) {
    if (dpa == nullptr || dpa_thread == nullptr || notify_comp == nullptr ||
        &dpa_thread->dpa() != dpa) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        *notify_comp = new doca_dpa_notification_completion{.dpa = *dpa, .thread = *dpa_thread};
        ++dpa->users;
        ++dpa_thread->users;
        return DOCA_SUCCESS;
    });
}

doca_error_t
doca_dpa_notification_completion_destroy(doca_dpa_notification_completion* notify_comp) {
    if (notify_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    --notify_comp->dpa.users;
    --notify_comp->thread.users;
    delete notify_comp;
    return DOCA_SUCCESS;
}

doca_error_t doca_dpa_notification_completion_start(doca_dpa_notification_completion* notify_comp) {
    if (notify_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return notify_comp->started.exchange(true) ? DOCA_ERROR_BAD_STATE : DOCA_SUCCESS;
}

doca_error_t doca_dpa_notification_completion_stop(doca_dpa_notification_completion* notify_comp) {
    if (notify_comp == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return notify_comp->started.exchange(false) ? DOCA_SUCCESS : DOCA_ERROR_BAD_STATE;
}

doca_error_t
doca_dpa_notification_completion_get_dpa_handle(doca_dpa_notification_completion* notify_comp,
                                                doca_dpa_dev_notification_completion_t* handle) {
    if (notify_comp == nullptr || handle == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!notify_comp->started) {
        return DOCA_ERROR_BAD_STATE;
    }
    *handle = reinterpret_cast<std::uintptr_t>(notify_comp);
    return DOCA_SUCCESS;
}

void doca_dpa_dev_thread_notify(doca_dpa_dev_notification_completion_t comp_handle) {
    auto* const notify_comp = reinterpret_cast<doca_dpa_notification_completion*>(comp_handle);
    if (notify_comp != nullptr && notify_comp->started) {
        notify_comp->thread.activate();
    }
}

// ---- memory -------------------------------------------------------------------------------------

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
