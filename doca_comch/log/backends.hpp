// The backends of a process: who shows which messages.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include <doca_error.h>
#include <doca_log.h>

#include "doca_comch/common/never_destroyed.hpp"
#include "doca_comch/log/sinks.hpp"

namespace comch::doca {

[[nodiscard]] constexpr bool is_level(std::uint32_t level) noexcept {
    return level >= DOCA_LOG_LEVEL_DISABLE && level <= DOCA_LOG_LEVEL_TRACE && level % 10 == 0;
}

/// Whose messages a backend shows.
enum class Speaker : std::uint8_t { program, library };

/// One message, on its way to the backends.
struct Record {
    std::uint32_t level = DOCA_LOG_LEVEL_INFO;
    std::string_view source;
    const char* file = "";
    int line = 0;
    const char* function = "";
    std::string_view text;
};

/// Numbers are levels; a message is shown if upper <= level <= lower.
class Backends {
public:
    static constexpr std::uint32_t max_backends = 64; ///< of each speaker

    /// One per process, never destroyed: destructors of others log, too.
    [[nodiscard]] static Backends& instance();

    [[nodiscard]] doca_error_t add(Speaker speaker, Sink sink, doca_log_backend** backend);
    [[nodiscard]] doca_error_t add_standard();

    [[nodiscard]] doca_error_t set_lower(doca_log_backend& backend, std::uint32_t level);
    [[nodiscard]] doca_error_t set_upper(doca_log_backend& backend, std::uint32_t level);
    [[nodiscard]] doca_error_t set_library_level(doca_log_backend& backend, std::uint32_t level);
    void make_strict(doca_log_backend& backend, bool lower);

    [[nodiscard]] doca_error_t set_global_lower(std::uint32_t level);
    [[nodiscard]] doca_error_t set_global_upper(std::uint32_t level);
    [[nodiscard]] doca_error_t set_global_library(std::uint32_t level);
    [[nodiscard]] std::uint32_t global_lower() const;
    [[nodiscard]] std::uint32_t global_upper() const;
    [[nodiscard]] std::uint32_t global_library() const;

    /// False if no backend would show a message of that level; costs one load.
    [[nodiscard]] bool wants(Speaker speaker, std::uint32_t level) const noexcept {
        return level <= most_verbose_[static_cast<std::size_t>(speaker)].load(
                            std::memory_order_relaxed); // only a hint: show() looks again
    }
    /// A handler of a buffer backend that logs is not heard: it would be called without end.
    void show(Speaker speaker, const Record& record);

private:
    friend Backends& never_destroyed<Backends>();
    Backends() = default;
    [[nodiscard]] bool full(Speaker speaker, std::size_t more) const;
    [[nodiscard]] std::unique_ptr<doca_log_backend> make(Speaker speaker, Sink sink) const;
    void update_most_verbose();
    [[nodiscard]] std::vector<spdlog::sinks::sink*> listeners(Speaker speaker,
                                                              std::uint32_t level) const;

    /// Held while a message is shown: a program's handlers and buffers see one at a time. Never
    /// taken inside mutex_.
    std::mutex showing_mutex_;
    /// Of all below. Not held while a handler runs, which may ask for levels or add a backend.
    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<doca_log_backend>> backends_;
    std::uint32_t global_lower_ = DOCA_LOG_LEVEL_INFO;
    std::uint32_t global_upper_ = DOCA_LOG_LEVEL_CRIT;
    std::uint32_t global_library_ = DOCA_LOG_LEVEL_INFO;
    bool has_standard_ = false;
    std::array<std::atomic<std::uint32_t>, 2> most_verbose_{};
};

} // namespace comch::doca
