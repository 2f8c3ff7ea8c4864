// Counters.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "libfabric.hpp"
#include "over_link.hpp"
#include "waiter.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

struct Domain;

struct Cntr {
    /// What the program has read, or was told to read: by `first`, and by `others`.
    struct Known {
        std::uint64_t count = 0;
        std::thread::id first{}; ///< none: by everybody
        std::vector<std::thread::id> others{};

        void read(std::uint64_t now) {
            if (now != count) {
                count = now;
                first = std::this_thread::get_id();
                others.clear();
            }
        }
        /// For the calling thread, which is told.
        [[nodiscard]] bool is_news(std::uint64_t now);
    };

    fid_cntr fid{};
    Domain* domain = nullptr;
    Waiter waiter;
    fi_wait_obj wait_object = FI_WAIT_NONE;
    std::uint64_t value = 0;
    std::uint64_t errors = 0;
    Known known_value;
    Known known_errors;
    /// What fi_cntr_readerr or a wait has answered for. An operation may fail in the call that
    /// starts it, so a failure before a wait is as new to the program as one during it.
    std::uint64_t told_errors = 0;
    std::atomic<unsigned> references{0};

    explicit Cntr(std::shared_ptr<Lock> lock) : waiter(std::move(lock)) {}

    void count() {
        ++value;
        waiter.notify();
    }
    void count_error() {
        ++errors;
        waiter.notify();
    }
    void tell_errors() {
        known_errors.read(errors);
        told_errors = errors;
    }
    /// Has something been counted that the calling thread does not know? Tells once, for a program
    /// that does not read errors is to sleep all the same.
    [[nodiscard]] bool take_news() {
        const bool counted = known_value.is_news(value);
        return known_errors.is_news(errors) || counted;
    }
};

[[nodiscard]] int open_cntr(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** cntr, void* context);

} // namespace comch::ofi::inline COMCH_OFI_LINK
