// What the tests of sync events share.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include <doca_sync_event.h>

#include "doca_comch/comch/test_support.hpp"

namespace comch::doca::test {

inline constexpr std::uint64_t all = ~std::uint64_t{0};

/// An event of this process, not started.
struct Event {
    doca_sync_event* event = nullptr;

    Event() { EXPECT_OK(doca_sync_event_create(&event)); }
    explicit Event(doca_sync_event* imported) : event(imported) {}
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    ~Event() {
        if (state_of(doca_sync_event_as_ctx(event)) != DOCA_CTX_STATE_IDLE) {
            EXPECT_OK(doca_sync_event_stop(event));
        }
        EXPECT_OK(doca_sync_event_destroy(event));
    }
    [[nodiscard]] std::uint64_t value() const {
        std::uint64_t value = 0;
        EXPECT_OK(doca_sync_event_get(event, &value));
        return value;
    }
    /// While there is another process to wait for, which may fail.
    [[nodiscard]] bool reaches(std::uint64_t wanted) const {
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (value() != wanted && std::chrono::steady_clock::now() < deadline) {
            std::this_thread::yield();
        }
        return value() == wanted;
    }
};

} // namespace comch::doca::test
