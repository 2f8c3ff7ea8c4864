// A soft port: listeners, connections, and the loop that polls them. Contract: core/link/link.hpp.
//
// progress() is the hot path: one pass over the rings that carry traffic. Everything that costs a
// system call (new connections, descriptors, deaths) happens in slow_poll(), every now and then.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <comch/device.hpp>

#include "core/counters/process_counters.hpp"
#include "core/link/bell.hpp"
#include "core/link/link.hpp"
#include "core/link/slow_poll.hpp"
#include "core/link/soft/channel.hpp"
#include "core/link/soft/connection.hpp"
#include "core/link/soft/names.hpp"
#include "core/link/soft/socket.hpp"
#include "core/link/soft/wire.hpp"

namespace comch::link::soft {

class Port {
public:
    [[nodiscard]] static Result<std::unique_ptr<Port>> open(const Device& device,
                                                            PortOptions options);
    ~Port();
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    [[nodiscard]] PortAddress address() const noexcept { return address_; }
    [[nodiscard]] static bool may_be_of(const PortAddress& address, const PeerInfo& peer) noexcept {
        return process_of(address) == peer.process_id;
    }
    [[nodiscard]] static constexpr bool lost() noexcept { return false; }
    [[nodiscard]] Limits limits() const noexcept {
        return {tuning::max_inline, tuning::max_message, tuning::max_one_sided};
    }

    [[nodiscard]] static constexpr Speed speed() noexcept {
        return {tuning::latency, tuning::overhead, tuning::bandwidth, 0};
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
        if (options_.arrival_order) [[unlikely]] {
            count = poll_in_order(sink);
        } else {
            // By index: a callback may open connections.
            for (std::size_t i = 0; i < hot_.size(); ++i) {
                count += poll(*hot_[i], sink);
            }
        }
        if (!working_.empty()) [[unlikely]] {
            count += advance(sink);
        }
        if (slow_poll_.count()) [[unlikely]] {
            count += slow_poll(sink);
        }
        if (count != 0) {
            ++turns_.arrivals;
        }
        return count;
    }

    [[nodiscard]] int event_fd() const noexcept { return epoll_.get(); }
    [[nodiscard]] Errc arm(bool for_credit = false);
    void wake() noexcept { sleep_.wake(); }

    /// Inbound rings that are not polled, because nothing came through them for a while.
    [[nodiscard]] std::size_t resting() const noexcept { return resting_; }

private:
    friend class Connection;

    /// An accepted socket whose hello has not come yet.
    struct Stranger {
        UniqueFd socket;
        std::uint64_t since_ns = 0;
        Watch watch{Watch::Kind::stranger, this};
        bool done = false;
    };

    struct Listener {
        UniqueFd socket;
        std::string entry;      ///< the socket
        std::string name_entry; ///< a service's link to it
        ServiceName service;    ///< name empty: the port itself
        Watch watch{Watch::Kind::listener, this};
    };

    /// A checked hello and what came with it.
    struct Introduction {
        wire::Hello hello{};
        UniqueFd memfd;
        UniqueFd process;
        std::uint64_t pid = 0;
        Listener* listener = nullptr;
    };

    enum class SocketResult : std::uint8_t { fine, ended, broken };

    explicit Port(const Device& device, PortOptions options);

    // ---- hot -----------------------------------------------------------------------------------

    template <class S> unsigned poll(Connection& c, S& sink) {
        unsigned count = 0;
        RingReader& rx = c.pipe_.rx();
        for (unsigned budget = tuning::poll_budget; budget != 0; --budget) {
            RingReader::Record record;
            const RingReader::Peek peek = rx.peek(record);
            if (peek == RingReader::Peek::empty) [[likely]] {
                c.pipe_.idle();
                return count;
            }
            if (peek == RingReader::Peek::corrupt || c.state_ >= Connection::State::ended ||
                c.paused_) [[unlikely]] {
                break;
            }
            ++count;
            if (record.header.kind == static_cast<std::uint8_t>(Kind::data)) [[likely]] {
                c.pipe_.count_received(record.header.length);
                sink.on_message(c, record.header.id, record.payload,
                                std::uint32_t{record.header.length});
            } else if (!handle(c, RingReader::Record(record), sink)) {
                // (A copy, or the record could not stay in registers.)
                protocol_error(c, sink);
                return count;
            }
            c.pipe_.pop(record);
        }
        if (c.state_ >= Connection::State::ended) {
            return count;
        }
        RingReader::Record record;
        if (rx.peek(record) == RingReader::Peek::corrupt) [[unlikely]] {
            protocol_error(c, sink);
        }
        return count;
    }

    /// Every record but an inline message. False: the peer broke the protocol.
    template <class S>
    [[nodiscard]] bool handle(Connection& c, const RingReader::Record& record, S& sink) {
        const std::byte* payload = record.payload;
        std::uint32_t length = record.header.length;
        std::uint8_t raw = record.header.kind;
        if ((raw & kind_stamped) != 0) {
            if (length < sizeof(std::uint64_t)) {
                return false;
            }
            payload += sizeof(std::uint64_t);
            length -= static_cast<std::uint32_t>(sizeof(std::uint64_t));
            raw &= static_cast<std::uint8_t>(~kind_stamped);
            if (raw != static_cast<std::uint8_t>(Kind::data) &&
                raw != static_cast<std::uint8_t>(Kind::data_bulk)) {
                return false;
            }
        }
        switch (static_cast<Kind>(raw)) {
        case Kind::data:
            break;
        case Kind::data_bulk:
            if (length != sizeof(BulkRef)) {
                return false;
            }
            payload = c.pipe_.bulk_payload(payload, length);
            if (payload == nullptr) {
                return false;
            }
            if (std::exchange(turns_.awaits_answer, false)) {
                // It comes while we find out what to do with it. (Only what is waited for: who takes a stream
                // may look at little of it, and lines that are here are dearer for the writer.)
                prefetch_for_read(payload, std::min(length, tuning::bulk_asked_for));
            }
            break;
        case Kind::pad:
            return true;
        case Kind::bulk_attach:
            // The descriptor was sent before the record; before that may lie a channel's, or a
            // doorbell.
            sleep_.wake_others();
            return read_socket(c, sink) != SocketResult::broken && c.pipe_.has_bulk();
        default: {
            bool fine = false;
            try {
                fine = c.one_sided_.handle(
                    static_cast<Kind>(raw), payload, length,
                    [&](void* token, Errc status) { sink.on_complete(c, token, status); });
                // One at a time: the peer decides how many there are.
                if (RemoteRegion* const wanted = c.one_sided_.wanted_mapping();
                    wanted != nullptr && c.asked_.empty()) [[unlikely]] {
                    c.request_mapping(*wanted);
                }
            } catch (const std::bad_alloc&) { // a part of it may be done: it must not be done again
                c.error_text_ = "out of memory";
                return false;
            }
            if (c.one_sided_.busy()) {
                c.needs_work();
                // Where we only answer, gets are answered before what the peer sent after them is
                // executed: software relies on a read not seeing a later write of the same side. (Writes behind a get
                // that both ends copy its requester holds back.)
                // (Where both ends send, waiting for each other's rings could block for ever.)
                c.paused_ = c.peer_one_way_ && c.one_sided_.owes();
            }
            return fine;
        }
        }
        c.pipe_.count_received(length);
        sink.on_message(c, record.header.id, payload, length);
        return true;
    }

    /// One pass that hands stamped messages out by their time of sending.
    ///
    /// A message's stamp is taken before it is published, and `now` before the rings are looked at:
    /// if B was sent after A had been (B's sender knew), then A's stamp is smaller, and when B,
    /// being older than `now`, is seen, so is A. What is younger waits for the next pass. A stamp
    /// that says less than the ring knows (no_older_than()) is not believed: who gives too old
    /// ones, and keeps his ring full, would be the oldest for ever.
    template <class S> unsigned poll_in_order(S& sink) {
        const std::uint64_t now = monotonic_ns();
        // The rings are read after the clock.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        const auto later = [](const Stamped& a, const Stamped& b) { return a.stamp > b.stamp; };
        unsigned count = 0;
        arrivals_.clear();
        for (std::size_t i = 0; i < hot_.size(); ++i) {
            count += poll_to_stamp(*hot_[i], sink, now);
        }
        if (!arrivals_.empty()) {
            // Who connected before `now` may have sent before it, too; so may have those whose rings
            // are at rest: then their doorbell is in the socket.
            const std::size_t known = hot_.size();
            const int events = wait_events();
            for (int i = 0; i < events; ++i) {
                Watch& watch = *event(i);
                if (watch.kind == Watch::Kind::listener || watch.kind == Watch::Kind::stranger) {
                    count += handle_event(watch, sink);
                } else if (watch.kind == Watch::Kind::socket) {
                    wake_ring(*static_cast<Connection*>(watch.object));
                }
            }
            if (events == event_batch) {
                wake_all_rings(); // there may be more doorbells than we have seen
            }
            for (std::size_t i = known; i < hot_.size(); ++i) {
                count += poll_to_stamp(*hot_[i], sink, now);
            }
        }
        std::make_heap(arrivals_.begin(), arrivals_.end(), later);
        for (unsigned budget = 64; budget != 0 && !arrivals_.empty(); --budget) {
            std::pop_heap(arrivals_.begin(), arrivals_.end(), later);
            Connection& c = *arrivals_.back().connection;
            arrivals_.pop_back();
            RingReader::Record record;
            if (c.state_ >= Connection::State::ended ||
                c.pipe_.rx().peek(record) != RingReader::Peek::record) {
                continue;
            }
            if (!handle(c, record, sink)) {
                protocol_error(c, sink);
                continue;
            }
            c.pipe_.pop(record);
            ++count;
            const std::size_t before = arrivals_.size();
            count += poll_to_stamp(c, sink, now);
            if (arrivals_.size() != before) {
                std::push_heap(arrivals_.begin(), arrivals_.end(), later);
            }
        }
        return count;
    }

    /// Handles what carries no stamp; leaves a stamped message at the ring's head, noted in
    /// arrivals_ if it is older than `now`.
    template <class S> unsigned poll_to_stamp(Connection& c, S& sink, std::uint64_t now) {
        unsigned count = 0;
        RingReader& rx = c.pipe_.rx();
        // Up to a whole ring: stopping short would let others' younger messages pass this one's.
        for (unsigned budget = tuning::ring_cells; budget != 0; --budget) {
            if (c.state_ >= Connection::State::ended) {
                return count;
            }
            RingReader::Record record;
            const RingReader::Peek peek = rx.peek(record);
            if (peek == RingReader::Peek::empty) {
                c.pipe_.idle();
                return count;
            }
            if (peek == RingReader::Peek::record && (record.header.kind & kind_stamped) != 0 &&
                record.header.length >= sizeof(std::uint64_t)) {
                std::uint64_t stamp = 0;
                std::memcpy(&stamp, record.payload, sizeof(stamp));
                stamp = std::max(stamp, c.no_older_than(now));
                // A stamp from the future is a lie or another time namespace: it gives up its place.
                constexpr std::uint64_t tolerance_ns = 10'000'000;
                if (stamp < now || stamp > now + tolerance_ns) {
                    arrivals_.push_back({std::min(stamp, now), &c});
                }
                return count;
            }
            if (peek == RingReader::Peek::corrupt || !handle(c, record, sink)) {
                protocol_error(c, sink);
                return count;
            }
            c.pipe_.pop(record);
            ++count;
        }
        return count;
    }

    /// Moves on what waits for room or for confirmation.
    template <class S> unsigned advance(S& sink) {
        unsigned count = 0;
        for (std::size_t i = 0; i < working_.size();) {
            Connection& c = *working_[i];
            if (c.state_ < Connection::State::ended) {
                if (c.state_ == Connection::State::connecting) {
                    count += keep_connecting(c, sink);
                }
                count += c.one_sided_.advance(
                    [&](void* token, Errc status) { sink.on_complete(c, token, status); });
                c.paused_ = c.paused_ && c.one_sided_.owes();
                send_waiting_packets(c);
                if (c.pipe_.corrupt()) {
                    protocol_error(c, sink);
                }
            }
            if (!has_work(c)) {
                c.working_ = false;
                if (c.one_way_) {
                    make_cold(c);
                }
                working_[i] = working_.back();
                working_.pop_back();
            } else {
                ++i;
            }
        }
        if (count != 0) {
            sleep_.wake_others(); // what is done without the peer is not rung for
        }
        return count;
    }

    // ---- slow ----------------------------------------------------------------------------------

    /// Sockets and process descriptors, rings that are not hot, connections to free.
    template <class S> unsigned slow_poll(S& sink) {
        // What has come through a ring at rest, and what a connection in the making waits for, is in
        // a socket.
        if (!slow_poll_.due([this] {
                return resting_ != 0 || unanswered_ != 0 || !strangers_.empty()
                           ? tuning::slow_poll_interval_busy_ns
                           : tuning::slow_poll_interval_ns;
            })) {
            return 0;
        }
        unsigned count = 0;
        for (unsigned batches = 64; batches != 0; --batches) {
            const std::size_t met = strangers_.size();
            const int events = wait_events();
            for (int i = 0; i < events; ++i) {
                count += handle_event(*event(i), sink);
            }
            // Who has just been accepted has mostly said hello already.
            if (events < event_batch && strangers_.size() <= met) {
                break;
            }
        }
        drop_old_strangers();
        look_for_dead_listeners();
        if (slow_poll_.take_all()) {
            count += look_at_all(sink);
        }
        if (hot_.size() > tuning::always_hot) {
            rest_quiet_rings();
        }
        free_closed();
        return count;
    }

    /// Every connection: with a thousand of them this takes time, and what it finds is either
    /// announced otherwise or in no hurry.
    template <class S> unsigned look_at_all(S& sink) {
        unsigned count = 0;
        for (std::size_t i = 0; i < connections_.size(); ++i) {
            Connection& c = *connections_[i];
            c.pipe_.look_at_bulk(slow_poll_.now_ns());
            if (c.peer_gone_) [[unlikely]] {
                report_if_drained(c, sink);
            } else if (c.pipe_.corrupt() && c.state_ < Connection::State::ended) [[unlikely]] {
                protocol_error(c, sink);
            } else if (!c.hot_ && c.state_ == Connection::State::established &&
                       c.pipe_.rx().ready()) {
                wake_ring(c); // its doorbell was lost: the socket was full
                count += poll(c, sink);
            }
        }
        if (count != 0) {
            sleep_.wake_others();
        }
        return count;
    }

    template <class S> unsigned handle_event(Watch& watch, S& sink) {
        if (watch.kind != Watch::Kind::bell) {
            sleep_.wake_others();
        }
        switch (watch.kind) {
        case Watch::Kind::listener:
            accept_strangers(*static_cast<Listener*>(watch.object));
            return 1;
        case Watch::Kind::stranger:
            meet(*static_cast<Stranger*>(watch.object), sink);
            return 1;
        case Watch::Kind::socket: {
            Connection& c = *static_cast<Connection*>(watch.object);
            if (c.state_ < Connection::State::ended) {
                switch (read_socket(c, sink)) {
                case SocketResult::fine:
                    break;
                case SocketResult::ended:
                    finish(c, sink);
                    break;
                case SocketResult::broken:
                    protocol_error(c, sink);
                    break;
                }
            }
            return 1;
        }
        case Watch::Kind::process: {
            Connection& c = *static_cast<Connection*>(watch.object);
            if (c.state_ < Connection::State::ended) {
                (void)read_socket(c, sink);
                finish(c, sink);
            }
            return 1;
        }
        case Watch::Kind::bell: // who sleeps has yet to hear it
            return 0;
        case Watch::Kind::timer: // look_for_dead_listeners() comes next
            drain(timer_.get());
            return 0;
        }
        return 0;
    }

    /// A stranger's hello is here: check it, ask the sink, answer.
    template <class S> void meet(Stranger& stranger, S& sink) {
        Introduction intro;
        if (!read_hello(stranger, intro)) {
            return;
        }
        const wire::Hello& hello = intro.hello;
        // All that can fail comes before the sink is asked: what it accepts is established.
        Connection* const prepared = prepare(stranger, intro);
        if (prepared == nullptr) {
            return;
        }
        Connection& c = *prepared;
        ConnectRequest request;
        request.peer = c.peer_;
        request.service = {hello.service, hello.service_length};
        request.service_function = hello.service_function;
        request.private_data = {reinterpret_cast<const std::byte*>(hello.private_data),
                                hello.private_length};
        const ConnectDecision decision = sink.on_connect_request(c, request);
        if (c.state_ >= Connection::State::ended) {
            return; // the sink closed it
        }
        if (decision.code != Errc::ok) {
            refuse(c.socket_.get(), decision.code, decision.reply);
            discard(c);
            return;
        }
        c.user_ = decision.user;
        admit(c, decision.reply);
    }

    /// Reads everything that is on a connection's socket.
    template <class S> [[nodiscard]] SocketResult read_socket(Connection& c, S& sink) {
        // More than a socket holds; a peer that never stops does not keep us here.
        for (unsigned budget = 1024; budget != 0; --budget) {
            wire::Answer buffer{};
            Received received;
            const SocketResult result = next_packet(c, buffer, received);
            if (result != SocketResult::fine || received.length == 0) {
                return result;
            }
            if (received.misses_descriptor && !does_without_descriptor(c, buffer, received)) {
                end(c, Reason::device_error, {}, sink);
                return SocketResult::fine;
            }
            if (c.state_ == Connection::State::waiting) {
                std::optional<Reason> failed;
                try {
                    failed = take_answer(c, buffer, received.length, received.fd);
                } catch (const std::bad_alloc&) { // the answer cannot be read again
                    failed = Reason::device_error;
                    c.error_text_ = "out of memory";
                }
                const std::span<const std::byte> reply{
                    reinterpret_cast<const std::byte*>(buffer.private_data),
                    std::min<std::size_t>(buffer.private_length, max_private_data)};
                if (!failed) {
                    sink.on_connected(c, reply);
                    continue;
                }
                end(c, *failed, reply, sink);
                return SocketResult::fine;
            }
            wire::Packet packet{};
            if (received.length != sizeof(packet)) {
                return SocketResult::broken;
            }
            std::memcpy(&packet, &buffer, sizeof(packet));
            if (packet.type == static_cast<std::uint32_t>(wire::Type::channel)) {
                if (received.misses_descriptor) {
                    continue;
                }
                Channel channel;
                if (!accept_channel(c, received.fd, channel)) {
                    return SocketResult::broken;
                }
                sink.on_channel(c, packet.value, std::move(channel));
            } else {
                bool fine = false;
                try {
                    fine = take_packet(c, packet, received.fd);
                } catch (const std::bad_alloc&) { // nor can this be read again
                    c.error_text_ = "out of memory";
                }
                if (!fine) {
                    return SocketResult::broken;
                }
            }
            if (c.state_ >= Connection::State::ended) {
                return SocketResult::fine;
            }
        }
        return SocketResult::fine;
    }

    /// The peer is gone: hands out what it left behind, then reports.
    template <class S> void finish(Connection& c, S& sink) {
        // A process that has called exec is there still, but its memory is another's.
        c.pipe_.peer_memory().forget();
        c.peer_one_way_ = false; // nobody waits for answers any more
        c.paused_ = false;
        if (options_.arrival_order) {
            // What it left takes its place among the others' messages; reported when it is out.
            unwatch(c.socket_.get());
            if (c.process_) {
                unwatch(c.process_.get());
            }
            c.peer_gone_ = true;
            slow_poll_.want_all();
            if (c.state_ == Connection::State::established) {
                make_hot(c);
            }
            report_if_drained(c, sink);
            return;
        }
        // It can write no more, but a hostile one might only have closed its socket: one lap is all
        // that an honest one can have left.
        if (c.state_ == Connection::State::established) {
            for (std::uint32_t lap = 0; lap < 65536 / tuning::poll_budget; ++lap) {
                if (c.state_ >= Connection::State::ended || poll(c, sink) == 0) {
                    break;
                }
            }
        }
        report_gone(c, sink);
    }

    template <class S> void report_if_drained(Connection& c, S& sink) {
        if (c.state_ == Connection::State::established && c.pipe_.rx().ready()) {
            slow_poll_.want();
            return;
        }
        report_gone(c, sink);
    }

    template <class S> void report_gone(Connection& c, S& sink) {
        if (c.state_ >= Connection::State::ended) {
            return;
        }
        const bool refused = c.state_ < Connection::State::established;
        if (!refused && c.pipe_.peer_refused_something()) {
            c.error_text_ = "the peer refused an operation on its memory";
            protocol_error(c, sink);
            return;
        }
        const bool orderly = !refused && c.pipe_.peer_said_goodbye();
        if (refused && c.error_text_.empty()) {
            c.error_text_ = "the peer closed the connection without an answer";
        }
        end(c, orderly ? Reason::closed : Reason::peer_died, {}, sink);
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
        c.state_ = Connection::State::ended;
        const Errc code = status_after(reason);
        shut_down(c, code, reason);
        c.untold_ = c.one_sided_.fail_all(code);
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

    template <class S> unsigned keep_connecting(Connection& c, S& sink) {
        if (const auto failed = try_connect(c)) {
            end(c, *failed, {}, sink);
            return 1;
        }
        return 0;
    }

    // ---- cold: port.cpp ------------------------------------------------------------------------

    static constexpr int event_batch = 64;

    [[nodiscard]] Result<Listener*> add_listener(std::string entry);
    [[nodiscard]] Result<void> take_name(Listener& listener, const ServiceName& service);
    [[nodiscard]] Connection* new_connection();
    void discard(Connection& c);
    void free_closed();
    void shut_down(Connection& c, Errc code, Reason reason);

    void make_hot(Connection& c);
    void make_cold(Connection& c);
    /// Takes rings that have been quiet for a while off the list of those that every progress call
    /// looks at; their writers are asked for a doorbell.
    void rest_quiet_rings();
    void take_back_doorbell(Connection& c) noexcept;
    void wake_ring(Connection& c);
    void wake_all_rings();
    [[nodiscard]] static bool has_work(const Connection& c) noexcept;

    [[nodiscard]] bool watch(int fd, Watch& watch) noexcept;
    void unwatch(int fd) noexcept;
    [[nodiscard]] int wait_events();
    [[nodiscard]] Watch* event(int i) noexcept;
    void no_longer_unanswered(Connection& c) noexcept;
    void look_for_dead_listeners();
    /// Before a sleep: it ends when that is to be done. False: nothing would end it.
    [[nodiscard]] bool set_timer();

    // ---- cold: port_accepting.cpp --------------------------------------------------------------

    void keep_spare() noexcept;
    [[nodiscard]] bool refuse_without_descriptor(Listener& listener);
    void accept_strangers(Listener& listener);
    void accept_all_strangers(Listener& listener) noexcept;
    void close_stranger(Stranger& stranger);
    /// The port closes: who is on the way here finds an orderly end, not a socket that closed
    /// without a word.
    void meet_latecomers() noexcept;
    void drop_old_strangers();
    [[nodiscard]] bool read_hello(Stranger& stranger, Introduction& intro);
    [[nodiscard]] wire::Answer make_answer(Errc code,
                                           std::span<const std::byte> reply) const noexcept;
    void refuse(int socket, Errc code, std::span<const std::byte> reply);
    /// The connection that was asked for, or null: it has been refused.
    [[nodiscard]] Connection* prepare(Stranger& stranger, Introduction& intro);
    [[nodiscard]] bool prepare(Connection& c, Introduction& intro);
    void admit(Connection& c, std::span<const std::byte> reply);
    /// False: the socket does not take it now.
    [[nodiscard]] bool send_answer(Connection& c);

    // ---- cold: port_initiating.cpp -------------------------------------------------------------

    [[nodiscard]] Result<Connection*> start_connect(const std::string& entry,
                                                    const ServiceName* service,
                                                    std::span<const std::byte> private_data,
                                                    void* user);
    [[nodiscard]] Result<Connection*> begin_connect(Connection& c, const std::string& entry,
                                                    const ServiceName* service,
                                                    const wire::Hello& hello, Pipe::Created created,
                                                    UniqueFd socket, void* user);
    /// Why the connection ends; nothing: it is connected, or to be tried again.
    [[nodiscard]] std::optional<Reason> try_connect(Connection& c);
    /// Hears of the listener's death before it has answered; false if it is dead.
    [[nodiscard]] bool watch_listener(Connection& c);
    [[nodiscard]] std::optional<Reason> take_answer(Connection& c, const wire::Answer& answer,
                                                    std::size_t length,
                                                    std::array<UniqueFd, 2>& descriptors);

    // ---- cold: port_packets.cpp ----------------------------------------------------------------

    [[nodiscard]] SocketResult next_packet(Connection& c, wire::Answer& buffer, Received& packet);
    /// The packet's descriptor could not be received. False: the connection ends, and says why.
    [[nodiscard]] static bool does_without_descriptor(Connection& c, const wire::Answer& buffer,
                                                      const Received& packet);
    [[nodiscard]] bool take_packet(Connection& c, const wire::Packet& packet,
                                   std::array<UniqueFd, 2>& descriptors);
    [[nodiscard]] bool accept_channel(Connection& c, std::array<UniqueFd, 2>& descriptors,
                                      Channel& channel);
    void send_waiting_packets(Connection& c);
    [[nodiscard]] bool answer_map_request(Connection& c, std::uint64_t region);

    // Touched by every progress call.
    PortOptions options_;
    std::vector<Connection*> hot_;
    std::vector<Connection*> working_;
    SlowPoll slow_poll_{tuning::slow_poll};
    Turns turns_;
    PortWays ways_;
    SleepBell sleep_;
    Watch bell_watch_{Watch::Kind::bell, this};

    struct Stamped {
        std::uint64_t stamp;
        Connection* connection;
    };
    std::vector<Stamped> arrivals_;

    ProcessId owner_ = process_id();
    Device device_;
    std::shared_ptr<ProcessCounters> counters_;
    PortAddress address_{};
    UniqueFd spare_; ///< lent to those who are refused because there is no other
    UniqueFd epoll_;
    UniqueFd timer_; ///< made when it is first needed
    Watch timer_watch_{Watch::Kind::timer, this};
    UniqueFd process_; ///< our own, for peers for whom there is no further descriptor
    bool membarrier_ = false;
    std::size_t resting_ = 0; ///< rings
    std::uint64_t last_rest_ns_ = 0;
    std::uint64_t last_owner_check_ns_ = 0;
    unsigned unanswered_ = 0; ///< connections that wait for their answer
    std::vector<std::unique_ptr<Connection>> connections_;
    std::vector<std::unique_ptr<Connection>> closed_;
    std::vector<std::unique_ptr<Stranger>> strangers_; ///< in the order they came
    unsigned strangers_waiting_ = 0;                   ///< not done
    std::vector<std::unique_ptr<Listener>> listeners_;
    std::vector<std::unique_ptr<Listener>> closed_listeners_;
    std::vector<std::byte> events_; ///< epoll_event[event_batch]
};

/// The soft link, as a template argument for the layers above.
struct Link {
    using Port = soft::Port;
    using Connection = soft::Connection;
    using Channel = soft::Channel;
    static constexpr std::size_t max_message = tuning::max_message;
    static constexpr std::size_t max_inline = tuning::max_inline;
    static constexpr std::uint16_t version = protocol_version;
    static constexpr bool has_devices = false;
    static constexpr std::size_t mappable_from = tuning::joint_of_mapped;
    static std::uint64_t link_data_of(const Device&, std::uint64_t) { return 0; }
};

} // namespace comch::link::soft
