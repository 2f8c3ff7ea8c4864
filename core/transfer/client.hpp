// Reads and writes memory that other processes exported, through their memory services.
//
// Belongs to the thread of its engine.
#pragma once

#include <cstddef>
#include <memory>

#include <comch/device.hpp>
#include <comch/error.hpp>
#include <comch/memory.hpp>
#include <comch/progress.hpp>

#include "core/link/link.hpp"

namespace comch::channel {
enum class LinkKind : std::uint8_t;
}

namespace comch::transfer {

/// Somewhere in imported memory, by its owner's addresses.
struct RemotePlace {
    const MemoryMap& map;
    const link::PortAddress& service;
    const void* address;
};

class Client {
public:
    /// An operation that was answered in_progress is done. connection_reset, not_found: its owner
    /// is gone, or refused a write; not_permitted: it refused a read.
    using Done = void (*)(void* cookie, Errc status);

    [[nodiscard]] static Result<std::unique_ptr<Client>> open(ProgressEngine& engine,
                                                              const Device& device, Done done);

    /// What is under way is given up; no handler is called.
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    /// Copies from, or to, a place. ok: done already; in_progress: `done` is called later, until
    /// when the local memory stays as it is; again: no room, retry after progress; others: it
    /// failed at once. A write is done when its bytes are there. Cookies are even addresses.
    [[nodiscard]] Errc read(const RemotePlace& from, void* to, std::size_t size, void* cookie);
    [[nodiscard]] Errc write(const RemotePlace& to, const void* from, std::size_t size,
                             void* cookie);

private:
    Client(channel::LinkKind kind, void* core) noexcept : kind_(kind), core_(core) {}

    channel::LinkKind kind_;
    void* core_; ///< ClientCore<Link>
};

} // namespace comch::transfer
