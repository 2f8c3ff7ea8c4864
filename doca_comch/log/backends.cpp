#include "doca_comch/log/backends.hpp"

#include <algorithm>
#include <utility>

#include <spdlog/details/log_msg.h>

using comch::doca::Speaker;

struct doca_log_backend {
    Speaker speaker;
    comch::doca::Sink sink;
    std::uint32_t lower;
    std::uint32_t upper;
    /// The halves of the standard backend never leave their range.
    std::uint32_t lower_at_most = DOCA_LOG_LEVEL_TRACE;
    std::uint32_t upper_at_least = DOCA_LOG_LEVEL_CRIT;
    bool strict_lower = false;
    bool strict_upper = false;
};

namespace comch::doca {
namespace {

spdlog::level::level_enum to_spdlog(std::uint32_t level) noexcept {
    switch (level) {
    case DOCA_LOG_LEVEL_CRIT:
        return spdlog::level::critical;
    case DOCA_LOG_LEVEL_ERROR:
        return spdlog::level::err;
    case DOCA_LOG_LEVEL_WARNING:
        return spdlog::level::warn;
    case DOCA_LOG_LEVEL_INFO:
        return spdlog::level::info;
    case DOCA_LOG_LEVEL_DEBUG:
        return spdlog::level::debug;
    default:
        return spdlog::level::trace;
    }
}

void apply_lower(doca_log_backend& backend, std::uint32_t level) {
    if (!backend.strict_lower || level <= backend.lower) {
        backend.lower = std::min(level, backend.lower_at_most);
    }
}

void apply_upper(doca_log_backend& backend, std::uint32_t level) {
    if (!backend.strict_upper || level >= backend.upper) {
        backend.upper = std::max(level, backend.upper_at_least);
    }
}

} // namespace

Backends& Backends::instance() {
    return never_destroyed<Backends>();
}

bool Backends::full(Speaker speaker, std::size_t more) const {
    const auto count = std::count_if(backends_.begin(), backends_.end(), [&](const auto& backend) {
        return backend->speaker == speaker;
    });
    return static_cast<std::size_t>(count) + more > max_backends;
}

std::unique_ptr<doca_log_backend> Backends::make(Speaker speaker, Sink sink) const {
    const bool program = speaker == Speaker::program;
    return std::make_unique<doca_log_backend>(
        doca_log_backend{.speaker = speaker,
                         .sink = std::move(sink),
                         .lower = program ? global_lower_ : global_library_,
                         .upper = program ? global_upper_ : std::uint32_t{DOCA_LOG_LEVEL_CRIT}});
}

doca_error_t Backends::add(Speaker speaker, Sink sink, doca_log_backend** backend) {
    set_format(sink, speaker == Speaker::program); // the library says where and what itself
    const std::lock_guard lock(mutex_);
    if (full(speaker, 1)) {
        return DOCA_ERROR_NO_MEMORY;
    }
    *backend = backends_.emplace_back(make(speaker, std::move(sink))).get();
    update_most_verbose();
    return DOCA_SUCCESS;
}

doca_error_t Backends::add_standard() {
    Sink to_out = make_file_sink(stdout);
    Sink to_err = make_file_sink(stderr);
    set_format(to_out, true);
    set_format(to_err, true);
    const std::lock_guard lock(mutex_);
    if (has_standard_) {
        return DOCA_SUCCESS;
    }
    if (full(Speaker::program, 2)) {
        return DOCA_ERROR_NO_MEMORY;
    }
    auto out = make(Speaker::program, std::move(to_out));
    out->upper_at_least = DOCA_LOG_LEVEL_INFO;
    apply_upper(*out, global_upper_);
    auto err = make(Speaker::program, std::move(to_err));
    err->lower_at_most = DOCA_LOG_LEVEL_WARNING;
    apply_lower(*err, global_lower_);
    backends_.reserve(backends_.size() + 2); // both of them, or none
    backends_.push_back(std::move(out));
    backends_.push_back(std::move(err));
    has_standard_ = true;
    update_most_verbose();
    return DOCA_SUCCESS;
}

doca_error_t Backends::set_lower(doca_log_backend& backend, std::uint32_t level) {
    const std::lock_guard lock(mutex_);
    if (!is_level(level)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (backend.speaker != Speaker::program || (backend.strict_lower && level > backend.lower)) {
        return DOCA_ERROR_NOT_PERMITTED;
    }
    apply_lower(backend, level);
    update_most_verbose();
    return DOCA_SUCCESS;
}

doca_error_t Backends::set_upper(doca_log_backend& backend, std::uint32_t level) {
    const std::lock_guard lock(mutex_);
    if (!is_level(level)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (backend.speaker != Speaker::program || (backend.strict_upper && level < backend.upper)) {
        return DOCA_ERROR_NOT_PERMITTED;
    }
    apply_upper(backend, level);
    return DOCA_SUCCESS;
}

doca_error_t Backends::set_library_level(doca_log_backend& backend, std::uint32_t level) {
    const std::lock_guard lock(mutex_);
    if (!is_level(level)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (backend.speaker != Speaker::library) {
        return DOCA_ERROR_NOT_PERMITTED;
    }
    backend.lower = level;
    update_most_verbose();
    return DOCA_SUCCESS;
}

void Backends::make_strict(doca_log_backend& backend, bool lower) {
    const std::lock_guard lock(mutex_);
    (lower ? backend.strict_lower : backend.strict_upper) = true;
}

doca_error_t Backends::set_global_lower(std::uint32_t level) {
    if (!is_level(level)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const std::lock_guard lock(mutex_);
    global_lower_ = level;
    for (const auto& backend : backends_) {
        if (backend->speaker == Speaker::program) {
            apply_lower(*backend, level);
        }
    }
    update_most_verbose();
    return DOCA_SUCCESS;
}

doca_error_t Backends::set_global_upper(std::uint32_t level) {
    if (!is_level(level)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const std::lock_guard lock(mutex_);
    global_upper_ = level;
    for (const auto& backend : backends_) {
        if (backend->speaker == Speaker::program) {
            apply_upper(*backend, level);
        }
    }
    return DOCA_SUCCESS;
}

doca_error_t Backends::set_global_library(std::uint32_t level) {
    if (!is_level(level)) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    const std::lock_guard lock(mutex_);
    global_library_ = level;
    for (const auto& backend : backends_) {
        if (backend->speaker == Speaker::library) {
            backend->lower = level;
        }
    }
    update_most_verbose();
    return DOCA_SUCCESS;
}

std::uint32_t Backends::global_lower() const {
    const std::lock_guard lock(mutex_);
    return global_lower_;
}

std::uint32_t Backends::global_upper() const {
    const std::lock_guard lock(mutex_);
    return global_upper_;
}

std::uint32_t Backends::global_library() const {
    const std::lock_guard lock(mutex_);
    return global_library_;
}

void Backends::update_most_verbose() {
    for (const Speaker speaker : {Speaker::program, Speaker::library}) {
        std::uint32_t most = 0;
        for (const auto& backend : backends_) {
            if (backend->speaker == speaker) {
                most = std::max(most, backend->lower);
            }
        }
        most_verbose_[static_cast<std::size_t>(speaker)].store(most, std::memory_order_relaxed);
    }
}

void Backends::show(Speaker speaker, const Record& record) {
    static thread_local bool showing = false;
    if (showing) {
        return;
    }
    showing = true;
    const std::unique_ptr<bool, void (*)(bool*)> end(&showing, [](bool* flag) { *flag = false; });
    const spdlog::details::log_msg message(
        {record.file, record.line, record.function}, {record.source.data(), record.source.size()},
        to_spdlog(record.level), {record.text.data(), record.text.size()});
    const std::lock_guard one_at_a_time(showing_mutex_);
    for (spdlog::sinks::sink* const sink : listeners(speaker, record.level)) {
        sink->log(message);
    }
}

std::vector<spdlog::sinks::sink*> Backends::listeners(Speaker speaker, std::uint32_t level) const {
    const std::lock_guard lock(mutex_);
    std::vector<spdlog::sinks::sink*> result;
    for (const auto& backend : backends_) {
        if (backend->speaker == speaker && level >= backend->upper && level <= backend->lower) {
            result.push_back(backend->sink.get()); // backends stay for good
        }
    }
    return result;
}

} // namespace comch::doca
