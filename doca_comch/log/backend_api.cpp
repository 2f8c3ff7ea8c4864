// doca_log.h: backends and their levels.
#include <fcntl.h>

#include <doca_log.h>

#include "doca_comch/common/status.hpp"
#include "doca_comch/log/backends.hpp"

using comch::doca::Backends;
using comch::doca::guarded;
using comch::doca::Speaker;

namespace {

template <class Make>
doca_error_t create(Speaker speaker, bool valid, doca_log_backend** backend, Make make) {
    if (!valid || backend == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] { return Backends::instance().add(speaker, make(), backend); });
}

doca_error_t create_with_file(Speaker speaker, FILE* file, doca_log_backend** backend) {
    return create(speaker, file != nullptr, backend,
                  [&] { return comch::doca::make_file_sink(file); });
}

doca_error_t create_with_fd(Speaker speaker, int fd, doca_log_backend** backend) {
    const bool is_open = ::fcntl(fd, F_GETFD) != -1;
    return create(speaker, is_open, backend, [&] { return comch::doca::make_fd_sink(fd); });
}

doca_error_t create_with_buf(Speaker speaker, char* buf, size_t capacity,
                             log_flush_callback handler, doca_log_backend** backend) {
    return create(speaker, buf != nullptr && capacity != 0 && handler != nullptr, backend,
                  [&] { return comch::doca::make_buffer_sink(buf, capacity, handler); });
}

doca_error_t create_with_syslog(Speaker speaker, const char* name, doca_log_backend** backend) {
    return create(speaker, name != nullptr, backend,
                  [&] { return comch::doca::make_syslog_sink(name); });
}

} // namespace

doca_error_t doca_log_backend_create_with_file(FILE* fptr, doca_log_backend** backend) {
    return create_with_file(Speaker::program, fptr, backend);
}
doca_error_t doca_log_backend_create_with_fd(int fd, doca_log_backend** backend) {
    return create_with_fd(Speaker::program, fd, backend);
}
doca_error_t doca_log_backend_create_with_buf(char* buf, size_t capacity,
                                              log_flush_callback handler,
                                              doca_log_backend** backend) {
    return create_with_buf(Speaker::program, buf, capacity, handler, backend);
}
doca_error_t doca_log_backend_create_with_syslog(const char* name, doca_log_backend** backend) {
    return create_with_syslog(Speaker::program, name, backend);
}

doca_error_t doca_log_backend_create_with_file_sdk(FILE* fptr, doca_log_backend** backend) {
    return create_with_file(Speaker::library, fptr, backend);
}
doca_error_t doca_log_backend_create_with_fd_sdk(int fd, doca_log_backend** backend) {
    return create_with_fd(Speaker::library, fd, backend);
}
doca_error_t doca_log_backend_create_with_buf_sdk(char* buf, size_t capacity,
                                                  log_flush_callback handler,
                                                  doca_log_backend** backend) {
    return create_with_buf(Speaker::library, buf, capacity, handler, backend);
}
doca_error_t doca_log_backend_create_with_syslog_sdk(const char* name, doca_log_backend** backend) {
    return create_with_syslog(Speaker::library, name, backend);
}

doca_error_t doca_log_backend_create_standard() {
    return guarded([] { return Backends::instance().add_standard(); });
}

uint32_t doca_log_get_max_num_backends() {
    return Backends::max_backends;
}
uint32_t doca_log_get_max_num_backends_sdk() {
    return Backends::max_backends;
}

doca_error_t doca_log_backend_set_level_lower_limit(doca_log_backend* backend, uint32_t level) {
    return backend == nullptr ? DOCA_ERROR_INVALID_VALUE
                              : Backends::instance().set_lower(*backend, level);
}
doca_error_t doca_log_backend_set_level_upper_limit(doca_log_backend* backend,
                                                    uint32_t upper_limit) {
    return backend == nullptr ? DOCA_ERROR_INVALID_VALUE
                              : Backends::instance().set_upper(*backend, upper_limit);
}
doca_error_t doca_log_backend_set_level_lower_limit_strict(doca_log_backend* backend) {
    if (backend == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    Backends::instance().make_strict(*backend, true);
    return DOCA_SUCCESS;
}
doca_error_t doca_log_backend_set_level_upper_limit_strict(doca_log_backend* backend) {
    if (backend == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    Backends::instance().make_strict(*backend, false);
    return DOCA_SUCCESS;
}
doca_error_t doca_log_backend_set_sdk_level(doca_log_backend* backend, uint32_t level) {
    return backend == nullptr ? DOCA_ERROR_INVALID_VALUE
                              : Backends::instance().set_library_level(*backend, level);
}

doca_error_t doca_log_level_set_global_lower_limit(uint32_t level) {
    return Backends::instance().set_global_lower(level);
}
doca_error_t doca_log_level_set_global_upper_limit(uint32_t upper_limit) {
    return Backends::instance().set_global_upper(upper_limit);
}
doca_error_t doca_log_level_set_global_sdk_limit(uint32_t level) {
    return Backends::instance().set_global_library(level);
}
uint32_t doca_log_level_get_global_lower_limit() {
    return Backends::instance().global_lower();
}
uint32_t doca_log_level_get_global_upper_limit() {
    return Backends::instance().global_upper();
}
uint32_t doca_log_level_get_global_sdk_limit() {
    return Backends::instance().global_library();
}
