// Handles that have ended and rest before they mean something else: who uses one for too long is
// found out. Nothing here allocates, since what ends must not fail.
#pragma once

#include <cstddef>

namespace comch::doca {

/// Oldest first. H has a member `next_resting` for this. Not locked.
template <class H, std::size_t Rest> class RestingHandles {
public:
    void push(H& handle) noexcept {
        handle.next_resting = nullptr;
        (first_ != nullptr ? last_->next_resting : first_) = &handle;
        last_ = &handle;
        ++count_;
    }
    /// The oldest, if so many others have ended since; else null.
    [[nodiscard]] H* take() noexcept {
        if (count_ <= Rest) {
            return nullptr;
        }
        --count_;
        H* const oldest = first_;
        first_ = oldest->next_resting;
        return oldest;
    }

private:
    H* first_ = nullptr;
    H* last_ = nullptr; ///< if there is a first one
    std::size_t count_ = 0;
};

} // namespace comch::doca
