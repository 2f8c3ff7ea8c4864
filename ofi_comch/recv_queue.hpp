// Posted receives, and messages that came before theirs was posted. Belongs to an endpoint, or is
// shared by several (a shared receive context).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <comch/error.hpp>

#include "core/base/make_room.hpp"
#include "info.hpp"
#include "libfabric.hpp"
#include "over_link.hpp"
#include "wire.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

class Endpoint;
struct Conn;
struct Peer;

/// A doubly linked list of objects that have `next` and `previous`.
template <class T> class List {
public:
    [[nodiscard]] T* first() const noexcept { return first_; }
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    void append(T& item) noexcept {
        item.next = nullptr;
        item.previous = last_;
        (last_ == nullptr ? first_ : last_->next) = &item;
        last_ = &item;
    }
    void remove(T& item) noexcept {
        (item.previous == nullptr ? first_ : item.previous->next) = item.next;
        (item.next == nullptr ? last_ : item.next->previous) = item.previous;
    }

private:
    T* first_ = nullptr;
    T* last_ = nullptr;
};

/// Objects that are taken and given back, and never freed meanwhile.
template <class T> class Pool {
public:
    /// take() needs no memory.
    [[nodiscard]] bool has_free() const noexcept { return !free_.empty(); }
    void make_room() {
        if (free_.empty()) {
            comch::make_room(all_);
            make_room_for_all(free_, all_); // giving back never allocates
            free_.push_back(all_.emplace_back(std::make_unique<T>()).get());
        }
    }
    [[nodiscard]] T& take() {
        make_room();
        T& item = *free_.back();
        free_.pop_back();
        return item;
    }
    void give_back(T& item) noexcept { free_.push_back(&item); }
    /// Every object, in use or not.
    [[nodiscard]] const std::vector<std::unique_ptr<T>>& all() const noexcept { return all_; }

private:
    std::vector<std::unique_ptr<T>> all_;
    std::vector<T*> free_;
};

/// Memory for messages that nobody has asked for yet, kept for the next.
class Buffers {
public:
    struct Buffer {
        std::unique_ptr<std::byte[]> bytes;
        unsigned size_class = 0;
    };
    [[nodiscard]] Buffer take(std::size_t size);
    void give_back(Buffer buffer);

private:
    static constexpr unsigned smallest_shift = 8;
    static constexpr unsigned classes = 9; ///< 256 bytes to 64 KiB
    static constexpr std::size_t max_kept = 256;
    std::vector<std::unique_ptr<std::byte[]>> kept_[classes];
};

/// A message that has arrived, or at least its announcement.
struct Arrival {
    Conn* conn = nullptr; ///< where an answer goes; null if none is wanted or it has ended
    Peer* peer = nullptr; ///< reliable datagrams
    std::uint64_t tag = 0;
    std::uint64_t data = 0;
    std::uint64_t flags = 0; ///< for its completion
    std::uint64_t length = 0;
    const std::byte* payload = nullptr;
    bool is_long = false;   ///< the payload is still with the sender, in `source`
    bool is_coming = false; ///< the payload is not all here: Conn::coming
    std::uint64_t operation = 0;
    wire::Source source{};

    [[nodiscard]] bool is_here() const noexcept { return !is_long && !is_coming; }
    [[nodiscard]] bool tagged() const noexcept { return (flags & FI_TAGGED) != 0; }
};

/// Without further parts of a vector it is two lines.
struct alignas(64) Receive {
    Receive* next = nullptr;
    Receive* previous = nullptr;
    std::uint64_t tag = 0;
    std::uint64_t ignore = 0;
    fi_addr_t from = FI_ADDR_UNSPEC;
    void* context = nullptr;
    std::uint64_t flags = 0; ///< FI_TAGGED or FI_MSG, FI_MULTI_RECV, FI_COMPLETION: asks to hear
    std::size_t length = 0;
    std::size_t used = 0;  ///< multi-receive: up to here
    std::size_t least = 0; ///< multi-receive: with less left than this it takes no more
    unsigned users = 0;    ///< multi-receive: messages that are on their way into it
    bool retired = false;  ///< multi-receive: takes no more
    Errc end = Errc::ok;   ///< and why, if not because it is full
    std::size_t count = 0;
    iovec iov[max_iov] = {};
};

struct Unexpected {
    Unexpected* next = nullptr;
    Unexpected* previous = nullptr;
    Endpoint* endpoint = nullptr;
    Arrival arrival;
    Buffers::Buffer buffer;
    void* claimed = nullptr; ///< the context that it was claimed with
};

class RecvQueue {
public:
    List<Receive> posted[2]; ///< [tagged]
    List<Unexpected> unexpected[2];
    List<Unexpected> claimed;
    Pool<Receive> receives;
    Pool<Unexpected> messages;
    Buffers buffers;

    [[nodiscard]] static bool matches(const Receive& receive, std::uint64_t tag) noexcept {
        return ((receive.tag ^ tag) & ~receive.ignore) == 0;
    }
    /// Keeps a message until somebody asks for it; of one that is coming, room for its payload.
    Unexpected& keep(Endpoint& endpoint, const Arrival& arrival);
    void free(Unexpected& message);
};

} // namespace comch::ofi::inline COMCH_OFI_LINK
