#include "core/link/verbs/connection_life.hpp"

#include <algorithm>

#include "core/link/bell.hpp"

namespace comch::link::verbs {

void ConnectionLife::end(Errc state) noexcept {
    std::optional<Way> way; // let go of without the lock
    const std::lock_guard lock(mutex_);
    way.swap(way_);
    state_.store(state, std::memory_order_release);
    std::for_each(bells_.begin(), bells_.end(), ring);
}

void ConnectionLife::open(const Way& way) {
    const std::lock_guard lock(mutex_);
    way_ = way;
}

std::optional<ConnectionLife::Way> ConnectionLife::way() {
    const std::lock_guard lock(mutex_);
    return way_;
}

void ConnectionLife::add_bell(int fd) {
    const std::lock_guard lock(mutex_);
    bells_.push_back(fd);
    if (state_.load(std::memory_order_relaxed) != Errc::ok) {
        ring(fd);
    }
}

std::size_t ConnectionLife::bells() {
    const std::lock_guard lock(mutex_);
    return bells_.size();
}

void ConnectionLife::remove_bell(int fd) {
    const std::lock_guard lock(mutex_);
    std::erase(bells_, fd);
}

} // namespace comch::link::verbs
