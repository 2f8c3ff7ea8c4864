// The loggers of a process: named sources of messages, and the names above them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <doca_error.h>
#include <doca_log.h>

#include "doca_comch/common/never_destroyed.hpp"

struct doca_logger {
    std::string name;
    std::atomic<int> level{DOCA_LOG_LEVEL_TRACE};
};

namespace comch::doca {

class Sources {
public:
    /// One per process, never destroyed.
    [[nodiscard]] static Sources& instance();

    /// The source's number. Names above it ("A" above "A::B") become loggers, too.
    [[nodiscard]] int add(std::string_view name);
    /// Whether there is a source of that number; costs one load.
    [[nodiscard]] bool has(int source) const noexcept {
        return source >= 0 && source < count_.load(std::memory_order_relaxed);
    }
    /// Null if there is none of that number.
    [[nodiscard]] doca_logger* at(int source);

    [[nodiscard]] bool has(const doca_logger* logger);
    /// Those below `logger`, or all; `depth` 0 is any depth.
    [[nodiscard]] std::vector<doca_logger*> below(const doca_logger* logger, unsigned depth);

private:
    friend Sources& never_destroyed<Sources>();
    Sources() = default;
    [[nodiscard]] int find_or_add(std::string_view name); // under the lock

    std::mutex mutex_;
    std::vector<std::unique_ptr<doca_logger>> loggers_; ///< a source's number is its place here
    std::atomic<int> count_{0};                         ///< of them; only grows
};

} // namespace comch::doca
