// Memory for the device: whole pages, registered, not inherited by forked children (a child's copy on
// write would move the parent's pages away from under the device).
#pragma once

#include <cstddef>

#include "core/link/verbs/rdma_device.hpp"
#include "core/memory/shared_memory.hpp"

namespace comch::link::verbs {

class Slab {
public:
    Slab() = default;
    [[nodiscard]] static Result<Slab> create(RdmaDevice& device, std::size_t size, int access);

    [[nodiscard]] std::byte* data() const noexcept { return mapping_.data(); }
    [[nodiscard]] std::uint32_t lkey() const noexcept { return mr_.lkey(); }
    [[nodiscard]] std::uint32_t rkey() const noexcept { return mr_.rkey(); }
    explicit operator bool() const noexcept { return static_cast<bool>(mapping_); }

    Slab(Slab&&) noexcept = default;
    Slab& operator=(Slab&& other) noexcept {
        mr_ = Mr(); // before its memory
        mapping_ = std::move(other.mapping_);
        mr_ = std::move(other.mr_);
        return *this;
    }

private:
    Mapping mapping_; ///< before the registration: outlives it
    Mr mr_;
};

} // namespace comch::link::verbs
