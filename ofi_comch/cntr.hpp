// Counters.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "libfabric.hpp"
#include "over_link.hpp"
#include "waiter.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

struct Domain;

struct Cntr {
    fid_cntr fid{};
    Domain* domain = nullptr;
    Waiter waiter;
    fi_wait_obj wait_object = FI_WAIT_NONE;
    std::uint64_t value = 0;
    std::uint64_t errors = 0;
    std::uint64_t known_value = 0; ///< what the program has read, or was told to read
    std::uint64_t known_errors = 0;
    unsigned references = 0;

    explicit Cntr(std::shared_ptr<Lock> lock) : waiter(std::move(lock)) {}

    void count() {
        ++value;
        waiter.notify();
    }
    void count_error() {
        ++errors;
        waiter.notify();
    }
    /// Has something been counted that the program does not know? Tells once, for a program that
    /// does not read errors is to sleep all the same.
    [[nodiscard]] bool take_news() noexcept {
        const bool news = value != known_value || errors != known_errors;
        known_value = value;
        known_errors = errors;
        return news;
    }
};

[[nodiscard]] int open_cntr(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** cntr, void* context);

} // namespace comch::ofi::inline COMCH_OFI_LINK
