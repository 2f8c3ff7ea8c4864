// A verbs port: listeners, connections, and the loop that polls them. Contract: core/link/link.hpp.
//
// progress() is the hot path: one look at the completion queue, and what has arrived. Everything
// that costs a system call (connecting, deaths, the device's state) happens in slow_poll(), now and
// then.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <comch/device.hpp>

#include "core/counters/process_counters.hpp"
#include "core/link/bell.hpp"
#include "core/link/link.hpp"
#include "core/link/slow_poll.hpp"
#include "core/link/verbs/channel.hpp"
#include "core/link/verbs/conn_param.hpp"
#include "core/link/verbs/connection.hpp"
#include "core/link/verbs/queues.hpp"

namespace comch::link::verbs {

class Port {
public:
    [[nodiscard]] static Result<std::unique_ptr<Port>> open(const Device& device,
                                                            PortOptions options);
    ~Port();
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    [[nodiscard]] PortAddress address() const noexcept { return address_; }
    [[nodiscard]] static bool may_be_of(const PortAddress& address, const PeerInfo& peer) noexcept;
    [[nodiscard]] bool lost() const noexcept { return rdma_ == nullptr; }
    [[nodiscard]] Limits limits() const noexcept {
        return {tuning::max_inline, tuning::max_message, tuning::max_one_sided};
    }

    /// Of a port that is not lost.
    [[nodiscard]] Speed speed() const noexcept {
        return {tuning::latency, tuning::overhead, rdma_->limits().bandwidth, tuning::copying};
    }

    [[nodiscard]] Result<void> listen(const ServiceName& service);
    void unlisten(const ServiceName& service);
    [[nodiscard]] Result<Connection*> connect(const PortAddress& to,
                                              std::span<const std::byte> private_data, void* user);
    [[nodiscard]] Result<Connection*> connect(const ServiceName& to,
                                              std::span<const std::byte> private_data, void* user);
    void close(Connection* connection);

    template <class S> unsigned progress(S& sink) {
        unsigned count = 0;
        for (unsigned budget = tuning::poll_budget; budget != 0; --budget) {
            // Not again once something was handed out: a look in vain is in the way of the answer.
            if (queues_->front() == nullptr && (count != 0 || !queues_->fetch())) {
                break;
            }
            if (queues_->front() != nullptr) {
                count += handle_arrival(sink);
            }
        }
        if (!owing_.empty() && ++calls_since_look_ >= tuning::credit_look_calls) [[unlikely]] {
            return_credit(false);
        }
        if (!working_.empty()) [[unlikely]] {
            count += advance(sink);
        }
        if (!gone_.empty() || queues_->take_trouble()) [[unlikely]] {
            count += look_for_ends(sink);
        }
        if (slow_poll_.count()) [[unlikely]] {
            count += slow_poll(sink);
        }
        return count;
    }

    [[nodiscard]] int event_fd() const noexcept { return epoll_.get(); }
    [[nodiscard]] Errc arm(bool for_credit = false);
    void wake() noexcept { sleep_.wake(); }

    /// What this port's connections asked of the device, for tests.
    [[nodiscard]] const Tally& tally() const noexcept { return queues_->tally(); }
    /// The device as this process knows it; null once it is gone.
    [[nodiscard]] const std::shared_ptr<RdmaDevice>& rdma() const noexcept { return rdma_; }

private:
    friend class Connection;
    friend struct Inside; // tests

    struct Listener {
        CmId id;
        ServiceName service;    ///< name empty: the port itself
        std::string name_entry; ///< in the domain's directory, for services
        Watch watch{Watch::Kind::listener, this};
    };

    explicit Port(const Device& device, PortOptions options)
        : options_(std::move(options)), device_(device) {}

    // ---- hot -----------------------------------------------------------------------------------

    template <class S> unsigned handle_arrival(S& sink) {
        const Queues::Arrival arrival = *queues_->front(); // the queue may grow meanwhile
        if (arrival.pipe == nullptr) [[unlikely]] {
            queues_->pop();
            return 0;
        }
        Connection& c = *static_cast<Connection*>(arrival.pipe->owner());
        if ((c.paused_ || !c.deferred_.empty()) && c.pipe_->keeps_order(arrival)) [[unlikely]] {
            c.deferred_.push_back(queues_->take());
            return 1;
        }
        const bool fine = handle(c, arrival, sink);
        queues_->pop();
        after(c, fine, sink);
        return 1;
    }

    /// One record. False: the peer broke the protocol.
    template <class S>
    [[nodiscard]] bool handle(Connection& c, const Queues::Arrival& arrival, S& sink) {
        const std::byte* payload = nullptr;
        std::uint32_t length = 0;
        if (!c.pipe_->open(arrival, header_, payload, length)) [[unlikely]] {
            return c.state_ >= Connection::State::ended;
        }
        if (header_.kind == static_cast<std::uint8_t>(Kind::data) &&
            c.state_ == Connection::State::established) [[likely]] {
            c.pipe_->count_received(length);
            sink.on_message(c, header_.id, payload, length);
            return true;
        }
        return handle_rare(c, payload, length, sink);
    }

    /// The record has been popped.
    template <class S> void after(Connection& c, bool fine, S& sink) {
        if (!fine) [[unlikely]] {
            protocol_error(c, sink);
            return;
        }
        if (c.state_ >= Connection::State::ended) [[unlikely]] {
            return;
        }
        c.pipe_->taken(header_);
        if (!c.owing_ && c.pipe_->owes_credit()) {
            c.owing_ = true;
            c.owed_at_look_ = false;
            owing_.push_back(&c);
        }
        if (c.pipe_->peer_said_goodbye()) [[unlikely]] {
            end(c, Reason::closed, {}, sink);
        }
    }

    template <class S>
    [[nodiscard]] bool handle_rare(Connection& c, const std::byte* payload, std::uint32_t length,
                                   S& sink) {
        const std::uint8_t kind = header_.kind;
        if (c.state_ >= Connection::State::ended) {
            return true; // of no interest any more
        }
        if (!wire::is_credited(kind)) {
            return c.pipe_->handle_control(header_, payload, length);
        }
        const std::span<const std::byte> record(payload, length);
        switch (c.state_) {
        case Connection::State::meeting:
            return kind == static_cast<std::uint8_t>(wire::Control::hello) && meet(c, record, sink);
        case Connection::State::waiting:
            return kind == static_cast<std::uint8_t>(wire::Control::welcome) &&
                   take_welcome(c, record, sink);
        case Connection::State::established: {
            if (kind == static_cast<std::uint8_t>(wire::Control::ask)) {
                c.pipe_->note_ask();
                c.needs_work(); // later in this call: when it has been taken out
                return length == 0;
            }
            const bool fine = c.one_sided_.handle(
                static_cast<Kind>(kind), payload, length,
                [&](void* token, Errc status) { sink.on_complete(c, token, status); });
            if (c.one_sided_.busy()) {
                c.needs_work();
                // As on the soft link: where we only answer, gets are answered before what the peer
                // sent after them is executed.
                c.paused_ = c.peer_one_way_ && c.one_sided_.owes();
            }
            return fine;
        }
        default:
            return false;
        }
    }

    // ---- warm ----------------------------------------------------------------------------------

    template <class S> unsigned advance(S& sink) {
        unsigned count = 0;
        for (std::size_t i = 0; i < working_.size();) {
            Connection& c = *working_[i];
            if (c.state_ < Connection::State::ended) {
                count += c.advance([&](void* token, Errc status) {
                    if (c.state_ < Connection::State::ended) {
                        sink.on_complete(c, token, status);
                    }
                });
                c.paused_ = c.paused_ && c.one_sided_.owes();
                while (!c.paused_ && !c.deferred_.empty() && c.state_ < Connection::State::ended) {
                    const Queues::Arrival arrival = c.deferred_.front();
                    c.deferred_.pop_front();
                    const bool fine = handle(c, arrival, sink);
                    queues_->give_back(arrival.slot);
                    after(c, fine, sink);
                    ++count;
                }
                if (c.state_ < Connection::State::ended && c.pipe_->owes_answer()) {
                    c.pipe_->idle();
                }
            }
            if (c.state_ >= Connection::State::ended || !c.has_work()) {
                c.working_ = false;
                working_[i] = working_.back();
                working_.pop_back();
            } else {
                ++i;
            }
        }
        if (count != 0) {
            sleep_.wake_others(); // credit that it was done with comes without an event
        }
        return count;
    }

    /// The connections of now, for a loop whose calls of the sink may close some and open others.
    /// (A closed one lives until the end of slow_poll().)
    [[nodiscard]] const std::vector<Connection*>& look_at_these() {
        these_.resize(connections_.size());
        std::transform(connections_.begin(), connections_.end(), these_.begin(),
                       [](const auto& c) { return c.get(); });
        return these_;
    }

    /// Connections whose peer is gone, or whose queue pair failed: they end when all is handed out
    /// that has come from them. (Not when nothing is left of anybody: others may send all the
    /// time.)
    template <class S> unsigned look_for_ends(S& sink) {
        unsigned count = 0;
        queues_->fetch_all();
        gone_.clear();
        for (Connection* const each : look_at_these()) {
            Connection& c = *each;
            if (c.state_ >= Connection::State::ended ||
                !(c.peer_gone_ || c.pipe_->failed() || c.pipe_->corrupt())) {
                continue;
            }
            ++count;
            c.paused_ = false; // nobody waits for answers any more
            if (!c.deferred_.empty()) {
                c.needs_work();
                gone_.push_back(&c);
                continue;
            }
            if (c.pipe_->corrupt()) {
                protocol_error(c, sink);
                continue;
            }
            if (c.pipe_->has_unhandled()) {
                gone_.push_back(&c);
                continue;
            }
            end(c, reason_of_end(c), {}, sink);
        }
        if (count != 0) {
            sleep_.wake_others();
        }
        return count;
    }

    // ---- slow ----------------------------------------------------------------------------------

    template <class S> unsigned slow_poll(S& sink) {
        if (!slow_poll_.due([this] {
                return makes_or_ends_connections() ? tuning::slow_poll_interval_busy_ns
                                                   : tuning::slow_poll_interval_ns;
            })) {
            return 0;
        }
        unsigned count = 0;
        CmEvent event;
        for (unsigned budget = 256; budget != 0 && cm_ && next_event(cm_, event); --budget) {
            sleep_.wake_others();
            on_event(event, sink);
            ++count;
        }
        if (slow_poll_.take_all()) {
            return_credit(true);
            count += look_at_all(sink);
        }
        if (count != 0) {
            sleep_.wake_others();
        }
        tend_closing();
        tend_channels();
        free_closed();
        return count;
    }

    /// Something of it is here, behind what others have sent.
    [[nodiscard]] bool has_come(const Connection& c) {
        queues_->fetch_all();
        return c.pipe_->has_unhandled();
    }

    /// Also in what a caller that was away has yet to take.
    [[nodiscard]] bool is_silent(Connection& c) {
        queues_->fetch_all();
        return !c.pipe_->take_life_sign() && !c.pipe_->has_unhandled();
    }

    /// The device's state, and peers that nothing was heard of.
    template <class S> unsigned look_at_all(S& sink) {
        if (rdma_ == nullptr) {
            return 0;
        }
        rdma_->look_at_events();
        const std::uint64_t now = slow_poll_.now_ns();
        const std::uint64_t down = rdma_->down_since_ns(device_port_);
        const bool lost = rdma_->gone() || queues_->broken();
        if (lost || (down != 0 && now > down + tuning::port_grace_ns)) {
            return lose_device(lost, sink);
        }
        unsigned count = 0;
        for (Connection* const each : look_at_these()) {
            Connection& c = *each;
            if (c.state_ >= Connection::State::ended) {
                continue;
            }
            if (c.pipe_->device_gave_up()) {
                continue; // ends when all that has arrived is handed out
            }
            if (c.state_ == Connection::State::meeting && now > c.deadline_ns_ && !has_come(c)) {
                c.error_text_ = "the peer connected and then said nothing of use";
                end(c, Reason::protocol_error, {}, sink);
                ++count;
            } else if (c.pipe_->take_life_sign() || c.heard_ns_ == 0) {
                c.heard_ns_ = now;
                c.asked_ns_ = 0;
            } else if (now > c.heard_ns_ + tuning::keepalive_ns && c.pipe_->started()) {
                if (c.asked_ns_ != 0 && now > c.asked_ns_ + tuning::silence_ns) {
                    if (is_silent(c)) {
                        c.error_text_ =
                            "the peer's RDMA device has not acknowledged anything for too long";
                        end(c, Reason::peer_died, {}, sink);
                        ++count;
                        continue;
                    }
                    c.asked_ns_ = 0;
                }
                c.heard_ns_ = now;
                c.asked_ns_ = c.asked_ns_ == 0 ? now : c.asked_ns_;
                c.pipe_->probe();
            }
        }
        return count;
    }

    /// Everything on the device ends. `release`: and nothing of it may be held any longer.
    template <class S> unsigned lose_device(bool release, S& sink) {
        unsigned count = 0;
        for (Connection* const each : look_at_these()) {
            Connection& c = *each;
            if (c.state_ < Connection::State::ended) {
                c.error_text_ = !release ? "the RDMA device's port has been down for too long"
                                : queues_->broken() ? queues_->why_broken()
                                                    : "the RDMA device was removed or has failed";
                end(c, Reason::device_error, {}, sink);
                ++count;
            }
        }
        if (release) {
            abandon_device();
        }
        return count;
    }

    template <class S> void on_event(const CmEvent& event, S& sink) {
        if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            if (rdma_ != nullptr) {
                rdma_->set_gone();
                (void)lose_device(true, sink);
            }
            return;
        }
        if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            on_request(event, sink);
            return;
        }
        if (event.id == nullptr || event.id->context == nullptr ||
            static_cast<Watch*>(event.id->context)->kind == Watch::Kind::listener) {
            return;
        }
        Connection& c = *static_cast<Connection*>(static_cast<Watch*>(event.id->context)->object);
        const auto failed = take_event(c, event);
        if (!failed) {
            return;
        }
        if (c.state_ < Connection::State::ended) {
            end(c, *failed, {}, sink);
        } else {
            c.deadline_ns_ = 0; // its last words reach nobody
        }
    }

    template <class S> void on_request(const CmEvent& event, S& sink) {
        CmId id(event.id);
        id->context = nullptr;
        wire::Request request{};
        Connection* parent = nullptr;
        const wire::Why why =
            rdma_ == nullptr ? wire::Why::no_resources : judge(event, request, parent);
        if (why != wire::Why::none) {
            refuse(id.get(), why);
            return;
        }
        if (parent == nullptr) {
            admit(std::move(id), event, request);
        } else if (parent->early_channels_.size() + parent->life_->bells() >=
                   tuning::max_channels) {
            refuse(id.get(), wire::Why::no_resources);
        } else if (parent->state_ == Connection::State::established) {
            accept_channel(*parent, std::move(id), event, sink);
        } else {
            parent->early_channels_.emplace_back(std::move(id), event);
        }
    }

    template <class S> void accept_channel(Connection& c, CmId id, const CmEvent& event, S& sink) {
        wire::Request request{};
        if (wire::read_private(event.private_data, event.private_length, request) !=
                wire::Check::ok ||
            request.process_id != c.peer_.process_id) {
            refuse(id.get(), wire::Why::nobody);
            return;
        }
        auto channel =
            Channel::accept(rdma_, c.life_, counters_, c.slot_info(counters::SlotState::connected),
                            std::move(id), event);
        if (channel) {
            sink.on_channel(c, request.tag, std::move(*channel));
        }
    }

    /// The initiator's Hello: check it, ask the sink, answer.
    template <class S>
    [[nodiscard]] bool meet(Connection& c, std::span<const std::byte> record, S& sink) {
        const auto hello = wire::read<wire::Hello>(record);
        if (!hello || !take_hello(c, *hello)) {
            return false;
        }
        ConnectRequest request;
        request.peer = c.peer_;
        request.service = c.expected_service_;
        request.service_function = c.service_function_;
        request.private_data = {reinterpret_cast<const std::byte*>(hello->private_data),
                                hello->private_length};
        const ConnectDecision decision = sink.on_connect_request(c, request);
        if (c.state_ >= Connection::State::ended) {
            return true; // the sink closed it
        }
        welcome(c, decision);
        return true;
    }

    template <class S>
    [[nodiscard]] bool take_welcome(Connection& c, std::span<const std::byte> record, S& sink) {
        const auto welcome = wire::read<wire::Welcome>(record);
        if (!welcome || !take_welcome(c, *welcome)) {
            return false;
        }
        const std::span<const std::byte> reply{
            reinterpret_cast<const std::byte*>(welcome->private_data), welcome->private_length};
        if (c.state_ == Connection::State::established) {
            sink.on_connected(c, reply);
            while (c.state_ == Connection::State::established && !c.early_channels_.empty()) {
                auto early = std::move(c.early_channels_.front());
                c.early_channels_.erase(c.early_channels_.begin());
                accept_channel(c, std::move(early.first), early.second, sink);
            }
        } else {
            end(c,
                static_cast<Errc>(welcome->code) == Errc::version_mismatch
                    ? Reason::version_mismatch
                    : Reason::rejected,
                reply, sink);
        }
        return true;
    }

    template <class S> void protocol_error(Connection& c, S& sink) {
        if (c.error_text_.empty()) {
            c.error_text_ = "the peer sent what no correct peer sends";
        }
        end(c, Reason::protocol_error, {}, sink);
    }

    /// The one place where connections end.
    template <class S>
    void end(Connection& c, Reason reason, std::span<const std::byte> reply, S& sink) {
        if (c.state_ >= Connection::State::ended) {
            return;
        }
        const bool unmet = c.state_ == Connection::State::meeting;
        c.state_ = Connection::State::ended;
        const Errc code = status_after(reason);
        if (reason == Reason::closed && c.has_unfinished_writes()) {
            c.wait_at_end(c.last_write_); // what has arrived is done, though its report may be late
        }
        c.fail_all(code, [&](void* token, Errc status) { c.untold_.emplace_back(token, status); });
        shut_down(c, code, reason);
        if (unmet) {
            discard(c); // the sink never heard of it
            return;
        }
        // One by one: the sink may cancel or close.
        std::reverse(c.untold_.begin(), c.untold_.end());
        while (c.state_ == Connection::State::ended && !c.untold_.empty()) {
            const auto [token, status] = c.untold_.back();
            c.untold_.pop_back();
            sink.on_complete(c, token, status);
        }
        if (c.state_ == Connection::State::ended) {
            sink.on_disconnected(c, reason, reply);
        }
    }

    // ---- cold: port.cpp ------------------------------------------------------------------------

    [[nodiscard]] Result<void> start();
    [[nodiscard]] Result<Listener*> add_listener(std::uint16_t port);
    [[nodiscard]] Result<Connection*> new_connection();

    void shut_down(Connection& c, Errc code, Reason reason);
    void tear_down(Connection& c) noexcept;
    void discard(Connection& c);
    void retire(Connection& c, std::vector<std::unique_ptr<Connection>>& to);
    void tend_closing();
    /// The queue pair is destroyed, if it is there.
    void let_go(Connection& c) noexcept;
    void free_closed();
    void release_names();
    void abandon_device();
    void refuse_latecomers();

    /// `all`: also where what was sent meanwhile has told the peer nearly all.
    void return_credit(bool all) noexcept;
    [[nodiscard]] bool makes_or_ends_connections() const noexcept;

    // ---- cold: port_initiating.cpp -------------------------------------------------------------

    [[nodiscard]] Result<Connection*> start_connect(Address remote, const wire::Request& request,
                                                    const ServiceName* service,
                                                    std::span<const std::byte> private_data,
                                                    void* user);
    [[nodiscard]] Result<void> try_address(Connection& c);
    /// This and the next two: why the connection ends; nothing: it does not.
    [[nodiscard]] std::optional<Reason> start_handshake(Connection& c);
    [[nodiscard]] std::optional<Reason> take_event(Connection& c, const CmEvent& event);
    [[nodiscard]] std::optional<Reason> take_refusal(Connection& c, const CmEvent& event);
    [[nodiscard]] Reason reason_of_end(Connection& c) const;

    // ---- cold: port_accepting.cpp --------------------------------------------------------------

    /// Why::none: fine; then `parent` is the connection for which a channel is asked, or null.
    [[nodiscard]] wire::Why judge(const CmEvent& event, wire::Request& request,
                                  Connection*& parent);
    void admit(CmId id, const CmEvent& event, const wire::Request& request);
    [[nodiscard]] bool take_hello(Connection& c, const wire::Hello& hello);
    [[nodiscard]] bool take_welcome(Connection& c, const wire::Welcome& welcome);
    void welcome(Connection& c, const ConnectDecision& decision);
    void let_channels_open(Connection& c, std::uint64_t token, std::uint16_t port);

    // Touched by every progress call.
    std::unique_ptr<Queues> queues_;
    std::vector<Connection*> owing_;
    unsigned calls_since_look_ = 0; ///< of progress(), while something is owed
    std::vector<Connection*> working_;
    std::vector<Connection*> gone_;
    SlowPoll slow_poll_{tuning::slow_poll};
    wire::Header header_{}; ///< of the record at hand

    PortOptions options_;
    ProcessId owner_ = process_id();
    TendsChannels tends_channels_;
    Device device_;
    std::shared_ptr<ProcessCounters> counters_;
    std::shared_ptr<RdmaDevice> rdma_;
    PortAddress address_{};
    std::uint64_t number_ = 0; ///< random: nobody takes another port at this address for this one
    std::uint16_t tcp_port_ = 0;
    std::uint8_t device_port_ = 1; ///< of the RDMA device, behind the function's address
    UniqueFd epoll_;
    SleepBell sleep_; ///< rung for the loss of the device, too
    UniqueFd timer_;  ///< ends sleeps when it is time for look_at_all()
    CmChannel cm_;
    std::vector<std::unique_ptr<Connection>> connections_;
    std::vector<Connection*> these_;                   ///< look_at_these()'s
    std::vector<std::unique_ptr<Connection>> closing_; ///< their last words are on the way
    std::vector<std::unique_ptr<Connection>> closed_;
    std::vector<std::unique_ptr<Listener>> listeners_;
};

/// The verbs link, as a template argument for the layers above.
struct Link {
    using Port = verbs::Port;
    using Connection = verbs::Connection;
    using Channel = verbs::Channel;
    static constexpr std::size_t max_message = tuning::max_message;
    static constexpr std::size_t max_inline = tuning::max_inline;
    static constexpr std::uint16_t version = wire::version;
    static constexpr bool has_devices = true;
    static constexpr std::size_t mappable_from = std::numeric_limits<std::size_t>::max();
    static std::uint64_t link_data_of(const Device& device, std::uint64_t region) {
        return verbs::link_data_of(device, region);
    }
};

} // namespace comch::link::verbs
