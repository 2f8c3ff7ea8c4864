// librdmacm's objects with owners, and addresses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <comch/error.hpp>

namespace comch::link::verbs {

/// An IPv4 or IPv6 address with a port.
struct Address {
    sockaddr_storage storage{};

    /// From the text form; nothing if it is none.
    [[nodiscard]] static std::optional<Address> parse(const std::string& text, std::uint16_t port);
    [[nodiscard]] static Address of(const sockaddr* address);
    /// The text form, without the port.
    [[nodiscard]] std::string text() const;
    [[nodiscard]] std::uint16_t port() const noexcept;
    void set_port(std::uint16_t port) noexcept;
    [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
};

/// An event channel whose descriptor does not block.
class CmChannel {
public:
    CmChannel() = default;
    CmChannel(CmChannel&& other) noexcept : channel_(std::exchange(other.channel_, nullptr)) {}
    CmChannel& operator=(CmChannel&& other) noexcept {
        std::swap(channel_, other.channel_);
        return *this;
    }
    ~CmChannel();

    [[nodiscard]] static Result<CmChannel> create();
    [[nodiscard]] int fd() const noexcept { return channel_->fd; }
    [[nodiscard]] rdma_event_channel* get() const noexcept { return channel_; }
    explicit operator bool() const noexcept { return channel_ != nullptr; }

private:
    rdma_event_channel* channel_ = nullptr;
};

/// An event, copied, so that it can be acknowledged at once: librdmacm waits for acknowledgements
/// when an id is destroyed, which a handler may want to do.
struct CmEvent {
    rdma_cm_event_type type{};
    rdma_cm_id* id = nullptr;
    rdma_cm_id* listener = nullptr;
    int status = 0;
    std::uint8_t private_data[256];
    std::size_t private_length = 0;
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
};
/// A refusal by the peer's kernel alone: it takes the queue pair for one that it had to do with
/// before, and whose end its program has not noticed. Another queue pair is another matter.
[[nodiscard]] bool takes_for_stale(const CmEvent& event) noexcept;
/// The same, because nobody listens there.
[[nodiscard]] bool finds_nobody(const CmEvent& event) noexcept;
/// False: there is none.
[[nodiscard]] bool next_event(const CmChannel& channel, CmEvent& event);

/// A connection identifier, with its queue pair if it has one.
class CmId {
public:
    CmId() = default;
    explicit CmId(rdma_cm_id* id) noexcept : id_(id) {}
    CmId(CmId&& other) noexcept : id_(std::exchange(other.id_, nullptr)) {}
    CmId& operator=(CmId&& other) noexcept {
        if (this != &other) {
            reset();
            id_ = std::exchange(other.id_, nullptr);
        }
        return *this;
    }
    ~CmId() { reset(); }

    /// Bound to `local`, which also decides about the device.
    [[nodiscard]] static Result<CmId> create(const CmChannel& channel, void* context,
                                             Address local);
    /// As create(), and already knowing the way to `remote`: that takes microseconds where the peer
    /// has been spoken to lately, and up to `patience_ms` where not. Not resolved by then, or not at
    /// all, is told by an event on `channel`; `resolved` says that none will come.
    [[nodiscard]] static Result<CmId> create_to(const CmChannel& channel, void* context,
                                                Address local, Address remote, int patience_ms,
                                                bool& resolved);
    void reset() noexcept;
    [[nodiscard]] rdma_cm_id* get() const noexcept { return id_; }
    rdma_cm_id* operator->() const noexcept { return id_; }
    explicit operator bool() const noexcept { return id_ != nullptr; }

private:
    rdma_cm_id* id_ = nullptr;
};

} // namespace comch::link::verbs
