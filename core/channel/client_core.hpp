// A client, over any link.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <comch/client.hpp>

#include "core/channel/limits.hpp"
#include "core/channel/owner.hpp"

namespace comch::channel {

template <class Link> class ClientCore final : public Owner<ClientCore<Link>, Link> {
    using Base = Owner<ClientCore<Link>, Link>;
    friend Base;

public:
    using typename Base::Core;
    using typename Base::LinkConnection;
    using typename Base::Port;
    using Phase = typename Core::Phase;

    [[nodiscard]] static Result<std::unique_ptr<ClientCore>>
    open(ProgressEngine& engine, LinkKind kind, const Device& device, std::string_view name,
         const ClientOptions& options, const ClientHandlers& handlers) {
        auto port = Port::open(device, {.face = "channel"});
        if (!port) {
            return tl::unexpected(std::move(port.error()));
        }
        std::unique_ptr<ClientCore> core(
            new ClientCore(engine, kind, std::move(*port), name, options, handlers));
        if (auto joined = core->join_engine(); !joined) {
            return tl::unexpected(std::move(joined.error()));
        }
        core->state_ = State::starting;
        if (auto started = core->connect(device.function().id, options.data); !started) {
            return tl::unexpected(std::move(started.error()));
        }
        return core;
    }

    [[nodiscard]] Errc outcome() const noexcept { return outcome_; }
    [[nodiscard]] Refusal refusal() const noexcept { return refusal_; }
    [[nodiscard]] Core& connection() noexcept { return *core_; }
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    /// What the link says of the connection's end; may be empty.
    [[nodiscard]] const std::string& detail() const noexcept { return detail_; }

    [[nodiscard]] Result<void> stop() {
        if (this->state_ != State::starting && this->state_ != State::running) {
            return fail(
                Errc::bad_state,
                fmt::format("cannot stop the client of '{}': it is stopped already", name_));
        }
        if (core_->has_attachments()) {
            return fail(Errc::in_use,
                        fmt::format("cannot stop the client of '{}': producers or consumers are "
                                    "open on its connection; stop them first",
                                    name_));
        }
        if (core_->phase() != Phase::ended) {
            over(Errc::canceled, EndReason::local);
        }
        this->state_ = State::stopping;
        this->work_ = true;
        stopping_reported_ = true; // it was the caller's own doing
        return {};
    }

    // ---- the port's sink ------------------------------------------------------------------------

    link::ConnectDecision on_connect_request(LinkConnection&, const link::ConnectRequest&) {
        return {.code = Errc::rejected}; // nobody connects to a client
    }

    void on_connected(LinkConnection& link, std::span<const std::byte> answer) {
        core_->set_peer(link.peer());
        if (!on_answer(answer, true)) {
            over(Errc::connection_reset, EndReason::protocol_error);
        }
    }

    void on_disconnected(LinkConnection& link, link::Reason reason,
                         std::span<const std::byte> answer) {
        detail_ = link.error_text();
        if (core_->phase() != Phase::connecting) {
            const EndReason end = end_reason_of(reason);
            over(status_of(end), end);
            return;
        }
        switch (reason) {
        case link::Reason::not_found:
            over(Errc::not_found, EndReason::closed);
            break;
        case link::Reason::version_mismatch:
            over(Errc::version_mismatch, EndReason::closed);
            break;
        case link::Reason::closed:
            // It went away before it decided.
            refusal_ = Refusal::stopping;
            over(Errc::rejected, EndReason::closed);
            break;
        case link::Reason::rejected:
            on_refusal(answer);
            break;
        default:
            over(Errc::connection_reset, end_reason_of(reason));
            break;
        }
    }

private:
    ClientCore(ProgressEngine& engine, LinkKind kind, std::unique_ptr<Port> port,
               std::string_view name, const ClientOptions& options, const ClientHandlers& handlers)
        : Base(engine, kind, Side::host, std::move(port)), name_(name), wanted_(options.limits),
          handlers_(handlers), core_(this->make_connection()) {}

    [[nodiscard]] Result<void> connect(FunctionId function, std::span<const std::byte> data) {
        const ConnectionLimits limits = with_defaults(wanted_);
        wire::Hello hello;
        hello.message_size = wanted_.message_size;
        hello.recv_queue = limits.recv_queue;
        hello.data_length = static_cast<std::uint16_t>(data.size());
        std::vector<std::byte> bytes(sizeof(hello) + data.size());
        std::memcpy(bytes.data(), &hello, sizeof(hello));
        std::copy(data.begin(), data.end(), bytes.begin() + sizeof(hello));
        auto started = this->port_->connect(link::ServiceName{function, name_}, bytes, core_.get());
        if (started) {
            core_->set_link(*started);
        } else if (started.error().code == Errc::not_found) {
            over(Errc::not_found, EndReason::closed);
        } else {
            return tl::unexpected(std::move(started.error()));
        }
        return {};
    }

    [[nodiscard]] bool on_welcome(Core&, std::span<const std::byte> bytes) {
        return core_->phase() == Phase::connecting && answered_ && on_answer(bytes, false);
    }

    /// The server's answer, which may be that the answer comes later. False: it is malformed.
    [[nodiscard]] bool on_answer(std::span<const std::byte> bytes, bool may_be_pending) {
        const auto welcome = wire::read<wire::Welcome>(bytes);
        if (!welcome || welcome->magic != wire::magic || welcome->version != wire::version ||
            welcome->data_length != bytes.size() - sizeof(wire::Welcome) ||
            welcome->message_size == 0 || welcome->message_size > limits::message_size ||
            welcome->recv_queue == 0 ||
            (wanted_.message_size != 0 && welcome->message_size != wanted_.message_size)) {
            return false;
        }
        answered_ = true;
        switch (static_cast<wire::Answer>(welcome->answer)) {
        case wire::Answer::pending:
            return may_be_pending;
        case wire::Answer::accepted:
            core_->set_peer_data(bytes.subspan(sizeof(wire::Welcome)));
            core_->establish(welcome->message_size,
                             std::min(with_defaults(wanted_).send_queue, welcome->recv_queue));
            accepted_ = true;
            outcome_ = Errc::ok;
            // The connected handler may want to stop or send: not from inside the port's call.
            this->work_ = true;
            return true;
        case wire::Answer::refused:
            on_refusal(bytes);
            return true;
        }
        return false;
    }

    void on_refusal(std::span<const std::byte> bytes) {
        const auto welcome = wire::read<wire::Welcome>(bytes);
        if (welcome && welcome->magic == wire::magic && welcome->version != wire::version) {
            over(Errc::version_mismatch, EndReason::closed);
            return;
        }
        // Without an answer of the server's, the link there could not make the connection.
        refusal_ = bytes.empty() ? Refusal::none : Refusal::malformed;
        if (welcome && welcome->magic == wire::magic &&
            welcome->refusal <= static_cast<std::uint8_t>(Refusal::malformed)) {
            refusal_ = static_cast<Refusal>(welcome->refusal);
            core_->set_peer_data(bytes.subspan(sizeof(wire::Welcome)));
        }
        over(Errc::rejected, EndReason::closed);
    }

    void over(Errc outcome, EndReason reason) {
        outcome_ = outcome;
        this->end_connection(*core_, reason);
    }

    /// As Owner::end_connection, which protocol errors call.
    void ended_by_owner() {
        if (outcome_ == Errc::ok || outcome_ == Errc::in_progress) {
            outcome_ = status_of(core_->end_reason);
        }
    }

    unsigned housekeeping() {
        unsigned handled = 0;
        if (core_->has_notes() && !core_->send_notes()) {
            this->blocked_ = true;
        }
        // Also of a connection that the server has accepted, and ended at once.
        const bool accepted = core_->phase() == Phase::established ||
                              (accepted_ && core_->end_reason == EndReason::closed);
        if (accepted && !core_->reported && this->state_ == State::starting) {
            report_connected(*core_);
            ++handled;
        }
        if (core_->phase() != Phase::ended || this->state_ == State::idle) {
            return handled;
        }
        ended_by_owner();
        if (core_->has_attachments()) {
            // They are told, and notify us when they are done.
            if (!stopping_reported_) {
                stopping_reported_ = true;
                this->enter(State::stopping);
                ++handled;
            }
            return handled;
        }
        this->close_port();
        this->enter(State::idle);
        return handled + 1;
    }

    void report_connected(Core& core) {
        core.reported = true;
        this->enter(State::running);
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

    const std::string name_;
    const ConnectionLimits wanted_;
    ClientHandlers handlers_;
    const std::shared_ptr<Core> core_;
    Errc outcome_ = Errc::in_progress;
    Refusal refusal_ = Refusal::none;
    std::string detail_;
    bool answered_ = false;
    bool accepted_ = false; ///< by the server
    bool stopping_reported_ = false;
};

} // namespace comch::channel
