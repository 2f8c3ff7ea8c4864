#include "core/transfer/client.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/channel/link_kind.hpp"
#include "core/memory/remote_region.hpp"

namespace comch::transfer {
namespace {

template <class Link> class ClientCore final : public ProgressSource {
public:
    using Port = typename Link::Port;
    using Connection = typename Link::Connection;

    ClientCore(ProgressEngine& engine, std::unique_ptr<Port> port, Client::Done done)
        : ProgressSource{
              .progress =
                  [](ProgressSource& self) {
                      return static_cast<ClientCore&>(self).progress_all();
                  },
              .arm =
                  [](ProgressSource& self) { return static_cast<ClientCore&>(self).port_->arm(); }},
          engine_(engine), port_(std::move(port)), done_(done) {}
    ~ClientCore() {
        engine_.remove(*this);
        engine_.unwatch(port_->event_fd());
    }
    ClientCore(const ClientCore&) = delete;
    ClientCore& operator=(const ClientCore&) = delete;

    [[nodiscard]] Result<void> join() {
        auto watched = engine_.watch(port_->event_fd());
        if (watched) {
            engine_.add(*this);
        }
        return watched;
    }

    [[nodiscard]] Errc read(const RemotePlace& from, void* to, std::size_t size, void* cookie) {
        const auto owner = connection_to(from.service);
        return owner ? (*owner)->get(to, size, *from.map.remote(), number_of(from.address), cookie)
                     : owner.error().code;
    }

    /// A put is done when its bytes are on their way; a write, when a flush says they are there.
    [[nodiscard]] Errc write(const RemotePlace& to, const void* from, std::size_t size,
                             void* cookie) {
        const auto owner = connection_to(to.service);
        if (!owner) {
            return owner.error().code;
        }
        const Errc put =
            (*owner)->put(from, size, *to.map.remote(), number_of(to.address), put_token(cookie));
        if (put != Errc::ok && put != Errc::in_progress) {
            return put;
        }
        const Errc flushed = (*owner)->flush(cookie);
        if (flushed != Errc::ok && flushed != Errc::in_progress) {
            // The put is under way, or done: the write must not be said not to have begun.
            unflushed_.emplace_back(*owner, cookie);
            return Errc::in_progress;
        }
        return flushed;
    }

    // ---- the port's sink

    link::ConnectDecision on_connect_request(Connection&, const link::ConnectRequest&) {
        return {.code = Errc::rejected};
    }
    void on_connected(Connection&, std::span<const std::byte>) {}
    void on_disconnected(Connection& connection, link::Reason, std::span<const std::byte>) {
        std::erase_if(owners_, [&](const auto& owner) { return owner.second == &connection; });
        // Of what was under way, only these have not been completed already.
        std::vector<void*> lost;
        std::erase_if(unflushed_, [&](const auto& waiting) {
            const bool ours = waiting.first == &connection;
            if (ours) {
                lost.push_back(waiting.second);
            }
            return ours;
        });
        port_->close(&connection);
        for (void* const cookie : lost) {
            finish(cookie, Errc::connection_reset);
        }
    }
    void on_message(Connection&, std::uint8_t, const std::byte*, std::uint32_t) {}
    void on_complete(Connection&, void* token, Errc status) {
        if (!is_put(token)) {
            finish(token, status);
        } else if (status != Errc::ok) {
            failed_puts_.insert_or_assign(cookie_of(token), status); // until its flush is done
        }
    }
    void on_channel(Connection&, std::uint64_t, typename Link::Channel&&) {}

private:
    [[nodiscard]] static std::uint64_t number_of(const void* address) noexcept {
        return reinterpret_cast<std::uintptr_t>(address);
    }
    // Cookies are addresses of objects, which are even.
    [[nodiscard]] static void* put_token(void* cookie) noexcept {
        return static_cast<std::byte*>(cookie) + 1;
    }
    [[nodiscard]] static bool is_put(void* token) noexcept {
        return (reinterpret_cast<std::uintptr_t>(token) & 1) != 0;
    }
    [[nodiscard]] static void* cookie_of(void* token) noexcept {
        return static_cast<std::byte*>(token) - 1;
    }

    [[nodiscard]] Result<Connection*> connection_to(const link::PortAddress& service) {
        const auto found = std::find_if(owners_.begin(), owners_.end(),
                                        [&](const auto& owner) { return owner.first == service; });
        if (found != owners_.end()) {
            return found->second;
        }
        auto started = port_->connect(service, {}, nullptr);
        if (started) {
            owners_.emplace_back(service, *started);
        }
        return started;
    }

    [[nodiscard]] unsigned progress_all() {
        unsigned handled = port_->progress(*this);
        if (!unflushed_.empty()) [[unlikely]] {
            handled += flush_again();
        }
        return handled;
    }
    [[nodiscard]] unsigned flush_again() {
        unsigned handled = 0;
        std::vector<std::pair<Connection*, void*>> waiting;
        waiting.swap(unflushed_);
        for (const auto& [connection, cookie] : waiting) {
            const Errc flushed = connection->flush(cookie);
            if (flushed == Errc::again) {
                unflushed_.emplace_back(connection, cookie);
            } else if (flushed != Errc::in_progress) {
                finish(cookie, flushed);
                ++handled;
            }
        }
        return handled;
    }
    void finish(void* cookie, Errc status) {
        if (!failed_puts_.empty()) [[unlikely]] {
            if (const auto failed = failed_puts_.extract(cookie)) {
                status = failed.mapped();
            }
        }
        done_(cookie, status);
    }

    ProgressEngine& engine_;
    std::unique_ptr<Port> port_;
    const Client::Done done_;
    std::vector<std::pair<link::PortAddress, Connection*>> owners_;
    std::unordered_map<void*, Errc> failed_puts_;          ///< by cookie
    std::vector<std::pair<Connection*, void*>> unflushed_; ///< for whose flush there was no room
};

} // namespace

Result<std::unique_ptr<Client>> Client::open(ProgressEngine& engine, const Device& device,
                                             Done done) {
    const channel::LinkKind kind = channel::link_kind_of(device);
    return channel::with_link(kind, [&](auto link) -> Result<std::unique_ptr<Client>> {
        auto port = decltype(link)::Port::open(device, {.face = "memory"});
        if (!port) {
            return tl::unexpected(std::move(port.error()));
        }
        auto core = std::make_unique<ClientCore<decltype(link)>>(engine, std::move(*port), done);
        if (auto joined = core->join(); !joined) {
            return tl::unexpected(std::move(joined.error()));
        }
        return std::unique_ptr<Client>(new Client(kind, core.release()));
    });
}

Client::~Client() {
    channel::visit<ClientCore>(kind_, core_, [](auto& core) { delete &core; });
}

Errc Client::read(const RemotePlace& from, void* to, std::size_t size, void* cookie) {
    return channel::visit<ClientCore>(
        kind_, core_, [&](auto& core) { return core.read(from, to, size, cookie); });
}

Errc Client::write(const RemotePlace& to, const void* from, std::size_t size, void* cookie) {
    return channel::visit<ClientCore>(
        kind_, core_, [&](auto& core) { return core.write(to, from, size, cookie); });
}

} // namespace comch::transfer
