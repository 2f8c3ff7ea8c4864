// What servers and clients have in common: a port, its connections, and the events on them.
//
// Derived (CRTP, so that the port's progress stays inlined) adds how connections come about and
// end. Everything that is not the arrival of a message is done in housekeeping(), outside the
// port's progress, where it may call any handler and drop anything.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <comch/channel.hpp>
#include <comch/connection.hpp>
#include <comch/progress.hpp>

#include "core/channel/connection_core.hpp"
#include "core/channel/link_kind.hpp"
#include "core/channel/notifier.hpp"
#include "core/channel/wire.hpp"
#include "core/link/link.hpp"

namespace comch::channel {

/// The errors that operations on an ended connection answer.
[[nodiscard]] constexpr Errc status_of(EndReason reason) noexcept {
    return reason == EndReason::local || reason == EndReason::closed ? Errc::not_connected
                                                                     : Errc::connection_reset;
}

[[nodiscard]] constexpr EndReason end_reason_of(link::Reason reason) noexcept {
    switch (reason) {
    case link::Reason::peer_died:
        return EndReason::peer_died;
    case link::Reason::protocol_error:
        return EndReason::protocol_error;
    case link::Reason::device_error:
        return EndReason::device_error;
    default:
        return EndReason::closed;
    }
}

template <class Derived, class Link> class Owner : public ProgressSource {
public:
    using Port = typename Link::Port;
    using LinkConnection = typename Link::Connection;
    using LinkChannel = typename Link::Channel;
    using Core = ConnectionCore<Link>;

    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;

    [[nodiscard]] State state() const noexcept { return state_; }
    void wake_on_confirmation(bool on) noexcept { wake_on_confirmation_ = on; }

    // ---- the port's sink ------------------------------------------------------------------------

    void on_message(LinkConnection& from, std::uint8_t id, const std::byte* data,
                    std::uint32_t length) {
        Core* const core = core_of(from);
        if (core == nullptr) [[unlikely]] {
            return;
        }
        const std::span<const std::byte> bytes(data, length);
        if (id == static_cast<std::uint8_t>(wire::Control::message)) [[likely]] {
            if (core->phase() != Core::Phase::established || length > core->max_message_size())
                [[unlikely]] {
                end_connection(*core, EndReason::protocol_error);
                return;
            }
            if (!ready_for_events(*core)) [[unlikely]] {
                return;
            }
            core->count_received(length);
            derived().report_message(*core, bytes);
            return;
        }
        if (!on_note(*core, static_cast<wire::Control>(id), bytes)) {
            end_connection(*core, EndReason::protocol_error);
        }
    }
    void on_channel(LinkConnection& from, std::uint64_t tag, LinkChannel&& channel) {
        Core* const core = core_of(from);
        if (core != nullptr && (core->phase() != Core::Phase::established ||
                                !core->deliver(tag, std::move(channel)))) {
            end_connection(*core, EndReason::protocol_error);
        }
    }
    void on_complete(LinkConnection&, void*, Errc) {} // no one-sided operations here

protected:
    Owner(ProgressEngine& engine, LinkKind kind, Side side, std::unique_ptr<Port> port)
        : ProgressSource{
              .progress = [](ProgressSource& self) { return static_cast<Owner&>(self).progress(); },
              .arm = [](ProgressSource& self) { return static_cast<Owner&>(self).arm(); }},
          engine_(engine), kind_(kind), side_(side), port_(std::move(port)),
          notifier_(std::make_shared<Notifier>(engine)) {}

    /// Who does not stop before, lets the peers hear of the end alone.
    ~Owner() {
        for (const std::shared_ptr<Core>& core : connections_) {
            if (core->phase() != Core::Phase::ended) {
                // The port closes the link's connection.
                (void)core->end(Errc::not_connected);
            }
        }
        close_port();
        engine_.remove(*this);
        notifier_->detach();
    }

    [[nodiscard]] Result<void> join_engine() {
        Result<void> watched = engine_.watch(port_->event_fd());
        if (watched) {
            engine_.add(*this);
        }
        return watched;
    }

    [[nodiscard]] std::shared_ptr<Core> make_connection() {
        connections_.push_back(std::make_shared<Core>(kind_, side_, port_->limits(), notifier_));
        return connections_.back();
    }

    /// From any handler: the link's part ends now, what there is to report is reported later.
    void end_connection(Core& core, EndReason reason) {
        if (reason == EndReason::local) {
            say_last_notes(core);
        }
        core.end_reason = reason;
        if (LinkConnection* const link = core.end(status_of(reason))) {
            link->set_user(nullptr);
            port_->close(link);
        }
        work_ = true;
    }

    [[nodiscard]] static Core* core_of(LinkConnection& connection) noexcept {
        return static_cast<Core*>(connection.user());
    }

    [[nodiscard]] bool any_attachments() const {
        for (const std::shared_ptr<Core>& core : connections_) {
            if (core->has_attachments()) {
                return true;
            }
        }
        return false;
    }

    void close_port() {
        if (port_) {
            engine_.unwatch(port_->event_fd());
            port_.reset();
        }
    }

    void enter(State state) {
        state_ = state;
        derived().report_state(state);
    }

    ProgressEngine& engine_;
    const LinkKind kind_;
    const Side side_;
    std::unique_ptr<Port> port_; ///< null once idle
    std::shared_ptr<Notifier> notifier_;
    std::vector<std::shared_ptr<Core>> connections_;
    State state_ = State::idle;
    bool work_ = false;    ///< housekeeping() has something to do
    bool blocked_ = false; ///< it has, when the link has room

private:
    [[nodiscard]] Derived& derived() noexcept { return static_cast<Derived&>(*this); }

    unsigned progress() {
        unsigned handled = 0;
        if (notifier_->take()) [[unlikely]] {
            take_mail();
            work_ = true;
        }
        if (port_ != nullptr) [[likely]] {
            handled += port_->progress(derived());
            work_ = work_ || port_->lost();
        }
        if (work_ || blocked_) [[unlikely]] {
            work_ = false;
            blocked_ = false;
            handled += derived().housekeeping();
        }
        return handled;
    }

    Errc arm() {
        if (notifier_->pending()) {
            return Errc::again;
        }
        if (work_) {
            return Errc::again;
        }
        // Notes that found the link full need no work: room on the link ends the sleep.
        if (port_ == nullptr) {
            return Errc::ok;
        }
        bool for_confirmation = wake_on_confirmation_;
        for (const std::shared_ptr<Core>& core : connections_) {
            // (The link tells of news only, and somebody may have seen them already.)
            if (core->take_room_in_window()) {
                return Errc::again;
            }
            for_confirmation = for_confirmation || core->waits_for_confirmation();
        }
        return port_->arm(for_confirmation);
    }

    /// The peer hears that consumers are gone before it hears that the connection is; if the link
    /// is full, it hears only that.
    static void say_last_notes(Core& core) {
        if (!core.reported) {
            return; // not even the program has heard of it
        }
        (void)core.take_mail();
        (void)core.send_notes();
    }

    void take_mail() {
        // By index: ending a connection does not change the list, but handlers might some day.
        for (std::size_t i = 0; i < connections_.size(); ++i) {
            const std::shared_ptr<Core> core = connections_[i];
            if (core->take_mail() && core->phase() != Core::Phase::ended) {
                end_connection(*core, EndReason::protocol_error);
            }
        }
    }

    /// The program hears of a connection before it hears from it. False: it has ended it then.
    [[nodiscard]] bool ready_for_events(Core& core) {
        if (!core.reported) [[unlikely]] {
            derived().report_connected(core);
        }
        return core.phase() == Core::Phase::established;
    }

    /// False: no correct peer says that.
    [[nodiscard]] bool on_note(Core& core, wire::Control id, std::span<const std::byte> bytes) {
        if (id == wire::Control::welcome) {
            return derived().on_welcome(core, bytes);
        }
        const auto note = wire::read<wire::ConsumerNote>(bytes);
        if (!note || core.phase() != Core::Phase::established) {
            return false;
        }
        switch (id) {
        case wire::Control::consumer_added:
            if (!core.add_remote(*note)) {
                return false;
            }
            if (ready_for_events(core)) {
                derived().report_consumer(core, note->consumer, true);
            }
            return true;
        case wire::Control::consumer_posted:
            return core.remote_posted(*note);
        case wire::Control::consumer_removed:
            if (!core.remove_remote(*note)) {
                return false;
            }
            if (ready_for_events(core)) {
                derived().report_consumer(core, note->consumer, false);
            }
            return true;
        default:
            return false;
        }
    }

    bool wake_on_confirmation_ = false;
};

} // namespace comch::channel
