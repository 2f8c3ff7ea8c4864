#include "doca_comch/comm_channel/backlog.hpp"

#include <algorithm>

namespace comch::doca {

Backlog::Header Backlog::header_at(std::size_t at) const {
    Header header;
    std::memcpy(&header, bytes_.data() + at, sizeof(header));
    return header;
}

void Backlog::push(Kind kind, Peer* peer, std::span<const std::byte> bytes) {
    const Header header{
        .peer = peer, .length = static_cast<std::uint32_t>(bytes.size()), .kind = kind};
    const std::size_t needed = bytes_.size() + size_of(header);
    if (needed > bytes_.capacity()) { // an entry is there as a whole, or not at all
        bytes_.reserve(std::max(needed, 2 * bytes_.capacity()));
    }
    const auto* const raw = reinterpret_cast<const std::byte*>(&header);
    bytes_.insert(bytes_.end(), raw, raw + sizeof(header));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    ++count_;
    last_kind_ = kind;
}

Backlog::Entry Backlog::front() {
    skip_dropped();
    const Header header = header_at(head_);
    return {.kind = header.kind,
            .peer = header.peer,
            .bytes = {bytes_.data() + head_ + sizeof(Header), header.length}};
}

void Backlog::pop() {
    skip_dropped();
    head_ += size_of(header_at(head_));
    --count_;
    reclaim();
}

void Backlog::drop(const Peer* peer) {
    for (std::size_t at = head_; at < bytes_.size();) {
        Header header = header_at(at);
        if (header.peer == peer && header.kind != Kind::dropped) {
            header.kind = Kind::dropped;
            header.peer = nullptr;
            std::memcpy(bytes_.data() + at, &header, sizeof(header));
            --count_;
        }
        at += size_of(header);
    }
    last_kind_ = Kind::dropped; // not known any more
    reclaim();
}

void Backlog::skip_dropped() {
    while (header_at(head_).kind == Kind::dropped) {
        head_ += size_of(header_at(head_));
    }
}

void Backlog::reclaim() {
    if (count_ == 0) {
        bytes_.clear(); // keeps the room
        head_ = 0;
    } else if (head_ > bytes_.size() / 2) {
        // Each byte is moved once at most for each byte that was read: cheap on the whole.
        bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(head_));
        head_ = 0;
    }
}

} // namespace comch::doca
