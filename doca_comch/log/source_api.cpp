// doca_log.h: sources, loggers, and speaking.
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>

#include <doca_log.h>

#include "doca_comch/common/status.hpp"
#include "doca_comch/log/backends.hpp"
#include "doca_comch/log/sources.hpp"

using comch::doca::Backends;
using comch::doca::guarded;
using comch::doca::Sources;
using comch::doca::Speaker;

doca_error_t doca_log_register_source(const char* source_name, int* source) {
    if (source_name == nullptr || source == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        *source = Sources::instance().add(source_name);
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_log_unregister_source(int) {
    return DOCA_SUCCESS;
}

doca_error_t doca_logger_create_list(const doca_logger* logger, uint8_t depth,
                                     doca_logger*** logger_list, uint32_t* nb_loggers) {
    if (logger_list == nullptr || nb_loggers == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        if (logger != nullptr && !Sources::instance().has(logger)) {
            return DOCA_ERROR_NOT_FOUND;
        }
        const auto found = Sources::instance().below(logger, depth);
        auto** const list = new doca_logger* [found.size() + 1] {};
        std::copy(found.begin(), found.end(), list);
        *logger_list = list;
        *nb_loggers = static_cast<uint32_t>(found.size());
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_logger_destroy_list(doca_logger** logger_list) {
    if (logger_list == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    delete[] logger_list;
    return DOCA_SUCCESS;
}

doca_logger* doca_logger_find_by_name(doca_logger** logger_list, const char* name) {
    if (logger_list == nullptr || name == nullptr) {
        return nullptr;
    }
    for (; *logger_list != nullptr; ++logger_list) {
        if ((*logger_list)->name == name) {
            return *logger_list;
        }
    }
    return nullptr;
}

doca_error_t doca_logger_set_level(doca_logger* logger, int level, uint8_t propagate) {
    if (level < 0 || !comch::doca::is_level(static_cast<std::uint32_t>(level)) ||
        (logger == nullptr && propagate == 0)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return guarded([&] {
        if (logger != nullptr && !Sources::instance().has(logger)) {
            return DOCA_ERROR_NOT_FOUND;
        }
        if (propagate != 0) {
            for (doca_logger* const each : Sources::instance().below(logger, 0)) {
                each->level = level;
            }
        }
        if (logger != nullptr) {
            logger->level = level;
        }
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_logger_get_level(const doca_logger* logger, int* level) {
    if (logger == nullptr || level == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (!Sources::instance().has(logger)) {
        return DOCA_ERROR_NOT_FOUND;
    }
    *level = logger->level;
    return DOCA_SUCCESS;
}

doca_error_t doca_logger_get_name(const doca_logger* logger, char name[DOCA_LOGGER_NAME_SIZE]) {
    if (logger == nullptr || name == nullptr || !Sources::instance().has(logger)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    std::memcpy(name, logger->name.c_str(), logger->name.size() + 1);
    return DOCA_SUCCESS;
}

doca_error_t doca_log(uint32_t level, int source, const char* fname, int line, const char* func,
                      const char* format, ...) {
    if (!comch::doca::is_level(level) || level == DOCA_LOG_LEVEL_DISABLE || format == nullptr ||
        !Sources::instance().has(source)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    // Nobody shows it: the one case that must be cheap.
    if (!Backends::instance().wants(Speaker::program, level)) {
        return DOCA_SUCCESS;
    }
    const doca_logger* const logger = Sources::instance().at(source);
    if (level > static_cast<uint32_t>(logger->level.load())) {
        return DOCA_SUCCESS;
    }
    va_list arguments;
    va_start(arguments, format);
    const doca_error_t result = guarded([&] {
        va_list again;
        va_copy(again, arguments);
        const int length = std::vsnprintf(nullptr, 0, format, again);
        va_end(again);
        std::string text(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
        std::vsnprintf(text.data(), text.size() + 1, format, arguments);
        Backends::instance().show(Speaker::program, {.level = level,
                                                     .source = logger->name,
                                                     .file = fname != nullptr ? fname : "",
                                                     .line = line,
                                                     .function = func != nullptr ? func : "",
                                                     .text = text});
        return DOCA_SUCCESS;
    });
    va_end(arguments);
    return result;
}
