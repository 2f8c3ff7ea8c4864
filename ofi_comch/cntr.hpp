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
};

[[nodiscard]] int open_cntr(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** cntr, void* context);

} // namespace comch::ofi::inline COMCH_OFI_LINK
