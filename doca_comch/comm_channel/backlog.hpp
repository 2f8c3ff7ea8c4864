// What arrived and waits for the program, in the order of its arrival over all connections. Once it
// has grown to what the program needs, it allocates no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace comch::doca {

struct Peer;

class Backlog {
public:
    enum class Kind : std::uint8_t {
        message,
        failed_peer,   ///< the connection has failed
        failed_client, ///< one that could not be accepted
        dropped,       ///< of a connection that the program has given up
    };
    struct Entry {
        Kind kind;
        Peer* peer;
        std::span<const std::byte> bytes;
    };

    [[nodiscard]] std::size_t size() const noexcept { return count_; } ///< dropped ones aside
    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

    void push(Kind kind, Peer* peer, std::span<const std::byte> bytes = {});
    /// The oldest; there must be one. Its bytes are valid until the next call.
    [[nodiscard]] Entry front();
    void pop();
    /// What is there of a peer is dropped.
    void drop(const Peer* peer);
    /// Whether the youngest is of that kind.
    [[nodiscard]] bool ends_with(Kind kind) const noexcept {
        return count_ != 0 && last_kind_ == kind;
    }

private:
    struct Header {
        Peer* peer;
        std::uint32_t length;
        Kind kind;
    };
    [[nodiscard]] Header header_at(std::size_t at) const;
    [[nodiscard]] static std::size_t size_of(const Header& header) noexcept {
        return sizeof(Header) + header.length;
    }
    void skip_dropped();
    void reclaim();

    std::vector<std::byte> bytes_;
    std::size_t head_ = 0;
    std::size_t count_ = 0;
    Kind last_kind_ = Kind::dropped;
};

} // namespace comch::doca
