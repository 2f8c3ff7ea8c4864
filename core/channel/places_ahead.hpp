// Buffers whose places a producer has been told before it had anything to write there: of its next
// messages, one each, in their order. One lane's. No allocation after the first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/channel/posted_buffers.hpp"
#include "core/channel/wire.hpp"

namespace comch::channel {

class PlacesAhead {
public:
    [[nodiscard]] std::uint32_t size() const noexcept { return buffers_ ? buffers_->size() : 0; }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    /// For how many more.
    [[nodiscard]] std::uint32_t room() const noexcept { return most_ - size(); }
    /// The numbers of the messages that the first and the last one are for.
    [[nodiscard]] std::uint64_t first() const noexcept { return last_ - size() + 1; }
    [[nodiscard]] std::uint64_t last() const noexcept { return last_; }
    [[nodiscard]] const PostedBuffer& front() const noexcept { return buffers_->front(); }
    /// All that there are have this room.
    [[nodiscard]] bool all_have(std::uint32_t room) const noexcept {
        return empty() || (buffers_->uniform() && front().room == room);
    }

    void reserve(std::uint32_t posted) {
        if (!buffers_) {
            most_ = std::min(posted, wire::most_ahead);
            buffers_.emplace(most_);
        }
    }
    /// For message `number`: the one behind the last, if there are any.
    void push_back(const PostedBuffer& buffer, std::uint64_t number) noexcept {
        buffers_->push_back(buffer);
        last_ = number;
    }
    PostedBuffer pop_front() noexcept { return buffers_->pop_front(); }
    PostedBuffer pop_back() noexcept {
        --last_;
        return buffers_->pop_back();
    }

private:
    std::optional<PostedBuffers> buffers_;
    std::uint32_t most_ = 0;
    std::uint64_t last_ = 0;
};

} // namespace comch::channel
