// A server, over any link.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <comch/server.hpp>

#include "core/channel/limits.hpp"
#include "core/channel/owner.hpp"

namespace comch::channel {

template <class Link> class ServerCore final : public Owner<ServerCore<Link>, Link> {
    using Base = Owner<ServerCore<Link>, Link>;
    friend Base;

public:
    using typename Base::Core;
    using typename Base::LinkConnection;
    using typename Base::Port;
    using Phase = typename Core::Phase;

    [[nodiscard]] static Result<std::unique_ptr<ServerCore>>
    open(ProgressEngine& engine, LinkKind kind, const Device& device, FunctionId function,
         std::string_view name, const ServerOptions& options, const ServerHandlers& handlers) {
        auto port = Port::open(device, {.face = "channel", .arrival_order = true});
        if (!port) {
            return tl::unexpected(std::move(port.error()));
        }
        const link::ServiceName service{function, std::string(name)};
        if (auto listening = (*port)->listen(service); !listening) {
            return tl::unexpected(std::move(listening.error()));
        }
        std::unique_ptr<ServerCore> core(
            new ServerCore(engine, kind, std::move(*port), service, options, handlers));
        if (auto joined = core->join_engine(); !joined) {
            return tl::unexpected(std::move(joined.error()));
        }
        core->state_ = State::running;
        return core;
    }

    [[nodiscard]] Result<void> stop() {
        if (this->state_ != State::running) {
            return fail(
                Errc::bad_state,
                fmt::format("cannot stop server '{}': it is stopped already", service_.name));
        }
        if (this->any_attachments()) {
            return fail(Errc::in_use,
                        fmt::format("cannot stop server '{}': producers or consumers are open on "
                                    "its connections; stop them first",
                                    service_.name));
        }
        this->port_->unlisten(service_);
        for (const std::shared_ptr<Core>& core : this->connections_) {
            if (core->phase() != Phase::ended) {
                this->end_connection(*core, EndReason::local);
            }
        }
        this->state_ = State::stopping;
        this->work_ = true;
        return {};
    }

    /// Only `core`'s place in memory is looked at before it is known to be alive.
    [[nodiscard]] bool has(const Core& core) const noexcept {
        return std::any_of(this->connections_.begin(), this->connections_.end(),
                           [&](const auto& known) { return known.get() == &core; });
    }

    [[nodiscard]] Result<void> disconnect(Core& core) {
        if (!has(core) || core.phase() == Phase::ended) {
            return fail(Errc::not_connected, "cannot disconnect: the connection has ended already");
        }
        if (core.has_attachments()) {
            return fail(Errc::in_use, "cannot disconnect: producers or consumers are open on the "
                                      "connection; stop them first");
        }
        this->end_connection(core, EndReason::local);
        return {};
    }

    [[nodiscard]] std::uint32_t pending_connections() const noexcept {
        return static_cast<std::uint32_t>(
            std::count_if(this->connections_.begin(), this->connections_.end(),
                          [](const auto& core) { return waits(*core); }));
    }
    [[nodiscard]] Core* next_pending() const noexcept {
        for (const std::shared_ptr<Core>& core : this->connections_) {
            if (waits(*core)) {
                return core.get();
            }
        }
        return nullptr;
    }

    [[nodiscard]] Result<void> decide(Core& core, bool accept, std::span<const std::byte> data) {
        if (!has(core) || !waits(core)) {
            return fail(Errc::bad_state, "cannot accept or refuse the connection: it does not wait "
                                         "for an answer");
        }
        if (data.size() > max_connect_data) {
            return fail(Errc::too_big,
                        fmt::format("cannot answer the client with {} bytes of data; at most {} "
                                    "are possible",
                                    data.size(), max_connect_data));
        }
        core.awaits_decision = false;
        core.request_reported = true;
        wire::Welcome welcome = welcome_for(core.hello);
        welcome.data_length = static_cast<std::uint16_t>(data.size());
        if (accept) {
            welcome.answer = static_cast<std::uint8_t>(wire::Answer::accepted);
            core.establish(welcome.message_size, window_to(core.hello));
        } else {
            welcome.answer = static_cast<std::uint8_t>(wire::Answer::refused);
            welcome.refusal = static_cast<std::uint8_t>(Refusal::by_program);
            core.close_when_told = true;
        }
        core.add_welcome(welcome, data);
        this->work_ = true;
        return {};
    }

    [[nodiscard]] std::vector<Connection*> connections() const {
        std::vector<Connection*> list;
        for (const std::shared_ptr<Core>& core : this->connections_) {
            if (core->phase() == Phase::established) {
                list.push_back(core.get());
            }
        }
        return list;
    }

    // ---- the port's sink ------------------------------------------------------------------------

    link::ConnectDecision on_connect_request(LinkConnection& from,
                                             const link::ConnectRequest& request) {
        const auto hello = wire::read<wire::Hello>(request.private_data);
        const Refusal refusal = judge(request, hello);
        if (refusal != Refusal::none) {
            if (handlers_.refused != nullptr) {
                handlers_.refused(handlers_.user,
                                  {.side = request.peer.side,
                                   .function = request.peer.function,
                                   .process_id = request.peer.process_id,
                                   .pid = request.peer.pid},
                                  refusal);
            }
            reply_ = {};
            reply_.answer = static_cast<std::uint8_t>(wire::Answer::refused);
            reply_.refusal = static_cast<std::uint8_t>(refusal);
            const bool other_version =
                hello && hello->magic == wire::magic && hello->version != wire::version;
            return {.code = other_version ? Errc::version_mismatch : Errc::rejected,
                    .reply = wire::as_bytes(reply_)};
        }
        const std::shared_ptr<Core> core = this->make_connection();
        core->set_link(&from);
        core->set_peer(request.peer);
        core->set_peer_data(request.private_data.subspan(sizeof(wire::Hello)));
        core->hello = *hello;
        reply_ = welcome_for(*hello);
        if (options_.deferred_accept) {
            core->awaits_decision = true;
            reply_.answer = static_cast<std::uint8_t>(wire::Answer::pending);
        } else {
            reply_.answer = static_cast<std::uint8_t>(wire::Answer::accepted);
            core->establish(reply_.message_size, window_to(*hello));
        }
        // The program is told later: it may want to send at once, which the link cannot yet.
        this->work_ = true;
        return {.code = Errc::ok, .user = core.get(), .reply = wire::as_bytes(reply_)};
    }

    void on_connected(LinkConnection&, std::span<const std::byte>) {} // we never connect

    void on_disconnected(LinkConnection& from, link::Reason reason, std::span<const std::byte>) {
        if (Core* const core = this->core_of(from)) {
            this->end_connection(*core, end_reason_of(reason));
        }
    }

private:
    ServerCore(ProgressEngine& engine, LinkKind kind, std::unique_ptr<Port> port,
               link::ServiceName service, const ServerOptions& options,
               const ServerHandlers& handlers)
        : Base(engine, kind, Side::dpu, std::move(port)), service_(std::move(service)),
          options_(options), handlers_(handlers) {
        options_.limits = with_defaults(options.limits);
        sets_message_size_ = options.limits.message_size != 0;
        if (options_.max_clients == 0) {
            options_.max_clients = limits::clients_per_server;
        }
    }

    [[nodiscard]] static bool waits(const Core& core) noexcept {
        return core.awaits_decision && core.phase() == Phase::connecting;
    }

    [[nodiscard]] Refusal judge(const link::ConnectRequest& request,
                                const std::optional<wire::Hello>& hello) const {
        if (this->state_ != State::running) {
            return Refusal::stopping;
        }
        if (request.peer.side != Side::host || request.peer.function != service_.function) {
            return Refusal::wrong_function;
        }
        if (!hello || hello->magic != wire::magic || hello->version != wire::version ||
            request.service != service_.name ||
            hello->data_length != request.private_data.size() - sizeof(wire::Hello) ||
            hello->data_length > max_connect_data || hello->recv_queue == 0) {
            return Refusal::malformed;
        }
        if (hello->message_size > limits::message_size ||
            (hello->message_size != 0 && sets_message_size_ &&
             hello->message_size != options_.limits.message_size)) {
            return Refusal::message_size;
        }
        const auto clients =
            std::count_if(this->connections_.begin(), this->connections_.end(),
                          [](const auto& core) { return core->phase() != Phase::ended; });
        return clients >= options_.max_clients ? Refusal::too_many_clients : Refusal::none;
    }

    [[nodiscard]] wire::Welcome welcome_for(const wire::Hello& hello) const noexcept {
        wire::Welcome welcome;
        welcome.message_size = hello.message_size != 0 && !sets_message_size_
                                   ? hello.message_size
                                   : options_.limits.message_size;
        welcome.recv_queue = options_.limits.recv_queue;
        return welcome;
    }
    [[nodiscard]] std::uint32_t window_to(const wire::Hello& hello) const noexcept {
        return std::min(options_.limits.send_queue, hello.recv_queue);
    }

    [[nodiscard]] bool on_welcome(Core&, std::span<const std::byte>) { return false; }

    unsigned housekeeping() {
        unsigned handled = 0;
        // By index: handlers may end connections (which stay in the list until swept below).
        for (std::size_t i = 0; i < this->connections_.size(); ++i) {
            handled += keep(*this->connections_[i]);
        }
        std::erase_if(this->connections_, [](const auto& core) {
            return core->phase() == Phase::ended && core->end_reported && !core->has_attachments();
        });
        if (this->state_ == State::running && this->port_->lost()) {
            this->enter(State::stopping); // the link has ended the connections, or will
        }
        if (this->state_ == State::stopping && this->connections_.empty()) {
            this->close_port();
            this->enter(State::idle);
            ++handled;
        }
        return handled;
    }

    unsigned keep(Core& core) {
        unsigned handled = 0;
        if (core.has_notes() && !core.send_notes()) {
            this->blocked_ = true;
        }
        if (waits(core) && !core.request_reported) {
            core.request_reported = true;
            ++handled;
            if (handlers_.requested != nullptr) {
                handlers_.requested(handlers_.user, core);
            }
        }
        if (core.phase() == Phase::established && !core.reported) {
            report_connected(core);
            ++handled;
        }
        if (core.close_when_told && !core.has_notes() && core.phase() != Phase::ended) {
            this->end_connection(core, EndReason::local);
        }
        if (core.phase() == Phase::ended && !core.end_reported) {
            core.end_reported = true;
            ++handled;
            report_end(core);
        }
        return handled;
    }

    void report_connected(Core& core) {
        core.reported = true;
        if (handlers_.connected != nullptr) {
            handlers_.connected(handlers_.user, core);
        }
    }
    void report_end(Core& core) {
        if (core.reported) {
            if (handlers_.disconnected != nullptr) {
                handlers_.disconnected(handlers_.user, core, core.end_reason);
            }
        } else if (handlers_.refused != nullptr) {
            handlers_.refused(handlers_.user, core.peer(),
                              core.close_when_told ? Refusal::by_program : Refusal::none);
        }
    }
    void report_message(Core& core, std::span<const std::byte> message) {
        if (handlers_.message != nullptr) [[likely]] {
            handlers_.message(handlers_.user, core, message);
        }
    }
    void report_consumer(Core& core, std::uint32_t consumer, bool added) {
        const auto handler = added ? handlers_.consumer_added : handlers_.consumer_removed;
        if (handler != nullptr) {
            handler(handlers_.user, core, consumer);
        }
    }
    void report_state(State state) {
        if (handlers_.state_changed != nullptr) {
            handlers_.state_changed(handlers_.user, state);
        }
    }

    const link::ServiceName service_;
    ServerOptions options_;
    bool sets_message_size_ = false;
    ServerHandlers handlers_;
    wire::Welcome reply_; ///< outlives the decision that points to it
};

} // namespace comch::channel
