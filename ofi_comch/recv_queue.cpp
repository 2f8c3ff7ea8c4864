#include "recv_queue.hpp"

#include <bit>
#include <cstring>
#include <utility>

namespace comch::ofi::inline COMCH_OFI_LINK {

Buffers::Buffer Buffers::take(std::size_t size) {
    if (size == 0) {
        return {};
    }
    const auto width = static_cast<unsigned>(std::bit_width(size - 1));
    const unsigned size_class = width <= smallest_shift ? 0 : width - smallest_shift;
    if (size_class < classes && !kept_[size_class].empty()) {
        Buffer buffer{std::move(kept_[size_class].back()), size_class};
        kept_[size_class].pop_back();
        return buffer;
    }
    if (size_class < classes) {
        kept_[size_class].reserve(max_kept);
    }
    const std::size_t room =
        size_class < classes ? std::size_t{1} << (size_class + smallest_shift) : size;
    return {std::unique_ptr<std::byte[]>(new std::byte[room]), size_class};
}

void Buffers::give_back(Buffer buffer) {
    if (!buffer.bytes || buffer.size_class >= classes) {
        return;
    }
    auto& kept = kept_[buffer.size_class];
    if (kept.size() < kept.capacity()) { // (take() has made room for max_kept)
        kept.push_back(std::move(buffer.bytes));
    }
}

Unexpected& RecvQueue::keep(Endpoint& endpoint, const Arrival& arrival) {
    const bool has_payload = !arrival.is_long && arrival.length != 0;
    Buffers::Buffer buffer = has_payload ? buffers.take(arrival.length) : Buffers::Buffer{};
    Unexpected& message = messages.take();
    message.endpoint = &endpoint;
    message.arrival = arrival;
    message.claimed = nullptr;
    message.buffer = std::move(buffer);
    if (has_payload) {
        if (!arrival.is_coming) {
            std::memcpy(message.buffer.bytes.get(), arrival.payload, arrival.length);
        }
        message.arrival.payload = message.buffer.bytes.get();
    }
    unexpected[arrival.tagged()].append(message);
    return message;
}

void RecvQueue::free(Unexpected& message) {
    buffers.give_back(std::move(message.buffer));
    message.buffer = {};
    messages.give_back(message);
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
