// A producer, over any link.
//
// One route (a link channel) per consumer that it sends to, opened at the first send. A send is an
// operation from a pool, in a queue per route: it is put on the link at once if it can be, the rest
// of a long message on progress, and it is complete when the consumer says that it has handled it.
//
// What is one record is copied into the link's buffers; where the link's device can fetch it from a
// memory map, and it is worth that, it is not.
//
// Where the link can write into the consumer's memory (link.hpp, Channel::writes_directly) and a
// long message is from a memory map, it is offered, and written to the place that is granted: no
// CPU copies it. Offers are sent ahead, so that the answers of many are under way at a time. Who is
// told the places of its next messages in advance need not offer them.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <comch/producer.hpp>

#include "core/channel/connection_core.hpp"
#include "core/channel/idle_check.hpp"
#include "core/channel/notifier.hpp"
#include "core/channel/tuning.hpp"
#include "core/channel/wire.hpp"

namespace comch::channel {

template <class Link> class ProducerCore final : public ProgressSource {
public:
    using Connection = ConnectionCore<Link>;

    [[nodiscard]] static Result<std::unique_ptr<ProducerCore>>
    open(ProgressEngine& engine, std::shared_ptr<Connection> connection,
         const ProducerOptions& options, const ProducerHandlers& handlers) {
        if (options.max_in_flight > limits::producer_tasks) {
            return fail(
                Errc::invalid_argument,
                "cannot open a producer: more sends in flight are asked for than the device "
                "allows; see Capabilities::max_producer_tasks");
        }
        std::unique_ptr<ProducerCore> core(
            new ProducerCore(engine, std::move(connection), options, handlers));
        auto attachment = core->connection_->attach(false, core->notifier_);
        if (!attachment) {
            return tl::unexpected(std::move(attachment.error()));
        }
        core->attachment_ = *attachment;
        core->id_ = (*attachment)->id;
        core->state_ = State::running;
        engine.add(*core);
        return core;
    }

    ~ProducerCore() {
        engine_.remove(*this);
        if (attachment_ != nullptr) {
            const auto deadline = std::chrono::steady_clock::now() + tuning::patience_at_end;
            for (const std::unique_ptr<Route>& route : routes_) {
                if (engine_.inherited()) {
                    break; // the routes are the parent's
                }
                while (!lets_go(*route, deadline)) {
                }
                leave(*route);
            }
            routes_.clear();
            connection_->detach(attachment_);
        }
        notifier_->detach();
    }
    ProducerCore(const ProducerCore&) = delete;
    ProducerCore& operator=(const ProducerCore&) = delete;

    [[nodiscard]] std::uint32_t id() const noexcept { return id_; }
    [[nodiscard]] State state() const noexcept { return state_; }
    [[nodiscard]] Connection& connection() const noexcept { return *connection_; }
    [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }
    [[nodiscard]] std::uint32_t completed() {
        flush();
        std::uint32_t count = 0;
        for (const std::unique_ptr<Route>& route : routes_) {
            (void)read_feedback(*route);
            const Operation* op = route->head;
            for (; op != nullptr && is_complete(*route, *op); op = op->next) {
                ++count;
            }
            (void)waits_for_device(*route, op);
        }
        return count;
    }

    [[nodiscard]] Errc send(std::uint32_t consumer, const SendBuffer& buffer, void* cookie) {
        const Errc result = submit(consumer, buffer, cookie);
        if constexpr (writes_directly) {
            if (!buffer.more || result != Errc::ok) [[likely]] {
                flush(); // what waits on other routes, or if this was refused
            } else {
                waiting_for_more_ = true;
            }
        }
        return result;
    }

    /// What waits for more goes out.
    void flush() {
        if constexpr (writes_directly) {
            if (waiting_for_more_) [[unlikely]] {
                waiting_for_more_ = false;
                for (const std::unique_ptr<Route>& route : routes_) {
                    route->channel.ring();
                }
            }
        }
    }

    [[nodiscard]] Result<void> stop() {
        if (state_ != State::running) {
            return fail(Errc::bad_state, "cannot stop the producer: it is stopped already");
        }
        state_ = State::stopping;
        end_status_ = Errc::canceled;
        return {};
    }

private:
    [[nodiscard]] Errc submit(std::uint32_t consumer, const SendBuffer& buffer, void* cookie) {
        if (state_ != State::running) [[unlikely]] {
            return Errc::bad_state;
        }
        if (buffer.immediate.size() > limits::immediate_data_size) [[unlikely]] {
            return Errc::invalid_argument;
        }
        if (buffer.data.size() > limits::fast_path_buffer_size) [[unlikely]] {
            return Errc::too_big;
        }
        if (buffer.memory != nullptr) {
            const Errc allowed =
                buffer.memory->check(buffer.data.data(), buffer.data.size(), local_read);
            if (allowed != Errc::ok) [[unlikely]] {
                return allowed;
            }
        }
        Route* route = last_route_;
        if (route == nullptr || route->consumer != consumer) [[unlikely]] {
            if (const Errc found = find_route(consumer, route); found != Errc::ok) {
                return found;
            }
        }
        if (route->end != Errc::ok) [[unlikely]] {
            return route->end == Errc::canceled ? Errc::not_found : route->end;
        }
        if (route->available() <= 0) {
            (void)read_feedback(*route);
            if (route->available() <= 0 || route->end != Errc::ok) {
                route->starved = true;
                if (route->end == Errc::ok) {
                    route->channel.buffer_stalls().add(1);
                    // The program may be trying in a loop, without progress.
                    if (idle_check_.due()) [[unlikely]] {
                        look_for_end(*route);
                    }
                }
                return Errc::again;
            }
        }
        if (is_too_long(*route, buffer.data.size())) [[unlikely]] {
            (void)read_feedback(*route); // others may have taken the buffer that was known
            if (is_too_long(*route, buffer.data.size())) {
                if (route->heard) {
                    return Errc::invalid_argument;
                }
                route->starved =
                    true; // what the connection knows may be old: the consumer will say
                return Errc::again;
            }
        }
        if (free_ == nullptr) {
            return Errc::again;
        }
        Operation& op = *free_;
        op.cookie = cookie;
        op.status = Errc::ok;
        op.number = route->accepted + 1;
        if (buffer.data.size() <= short_limit_ && buffer.immediate.empty() &&
            route->unsent == nullptr) [[likely]] {
            // One record, as it is: nobody asks later what it was.
            if (const Errc result = route->channel.send(
                    static_cast<std::uint8_t>(wire::FastPath::plain), buffer.data, buffer.more);
                result != Errc::ok) [[unlikely]] {
                return turn_away(*route, result);
            }
            op.started = op.whole = true;
            if constexpr (writes_directly) {
                op.way = Way::parts;
            }
        } else if (const Errc result = send_any(*route, op, buffer); result != Errc::ok)
            [[unlikely]] {
            return turn_away(*route, result);
        }
        free_ = op.next;
        op.next = nullptr;
        (route->tail != nullptr ? route->tail->next : route->head) = &op;
        route->tail = &op;
        ++route->accepted;
        ++in_flight_;
        if (!op.whole) [[unlikely]] {
            if (route->unsent == nullptr) {
                route->unsent = &op;
            }
            if (!op.started) {
                // It waits; the caller's immediate data is only his for now.
                op.keep_immediate();
                route->more |= writes_directly; // to be offered
            }
        }
        return Errc::ok;
    }

    static constexpr bool writes_directly = Link::Channel::writes_directly;

    /// How a message goes.
    enum class Way : std::uint8_t {
        parts,   ///< through the link's own buffers
        direct,  ///< as one record that the device fetches from the message's memory
        offered, ///< the consumer has not answered yet
        granted, ///< straight into the consumer's memory
    };

    /// Where messages may go that are not sent yet, by the number of each. What has gone otherwise is
    /// written over.
    class Places {
    public:
        struct Entry {
            std::uint64_t number = 0; ///< of the message; 0: none
            wire::Place place;
        };
        /// Null: none.
        [[nodiscard]] Entry* find(std::uint64_t number) noexcept {
            if (entries_.empty()) {
                return nullptr;
            }
            Entry& entry = entries_[number % wire::most_ahead];
            return entry.number == number ? &entry : nullptr;
        }
        void put(std::uint64_t number, const wire::Place& place) {
            if (entries_.empty()) {
                entries_.resize(wire::most_ahead);
            }
            entries_[number % wire::most_ahead] = {.number = number, .place = place};
        }
        /// Those told later, too: who offers a message gives its place back.
        void forget() noexcept { std::fill(entries_.begin(), entries_.end(), Entry{}); }

    private:
        std::vector<Entry> entries_; ///< none before the first
    };

    struct Operation {
        Operation* next = nullptr;
        std::span<const std::byte> data;
        std::span<const std::byte> immediate;
        std::size_t sent = 0; ///< bytes of data on the link
        void* cookie = nullptr;
        std::uint64_t number = 0; ///< on its route, from 1
        Errc status = Errc::ok;
        bool started = false; ///< something of it is on the link
        bool whole = false;   ///< all of it is
        Way way = Way::parts;
        /// It has tried to claim a place, so it will be sent: the consumer may be waiting for it.
        bool has_tried = false;
        bool claimed = false;                    ///< and has got it
        std::uint32_t local_key = 0;             ///< by which the link knows its memory
        const MemoryMap* memory = nullptr;       ///< if any
        std::uint64_t place = 0;                 ///< granted: where it goes,
        std::uint64_t place_key = 0;             ///< in the peer's memory
        typename Link::Channel::Ticket ticket{}; ///< of the last write, or of the record
        std::byte kept[limits::immediate_data_size];

        void keep_immediate() noexcept {
            if (!immediate.empty()) {
                std::memcpy(kept, immediate.data(), immediate.size());
                immediate = {kept, immediate.size()};
            }
        }
    };

    /// To one consumer.
    struct Route {
        typename Link::Channel channel;
        std::uint32_t consumer = 0;
        wire::Credit credit;        ///< the last feedback
        Places places;              ///< that were told ahead
        std::uint64_t accepted = 0; ///< sends, ever
        Operation* head = nullptr;  ///< not complete, oldest first
        Operation* tail = nullptr;
        Operation* unsent = nullptr;  ///< the first that is not whole on the link
        Operation* offered = nullptr; ///< the last that was offered, while it is not complete
        std::uint64_t untold = 0;     ///< sent directly since the device was asked to tell of it
        bool starved = false;         ///< a send was told `again`: somebody waits for feedback
        bool heard = false;           ///< of the consumer itself
        bool more = false;            ///< more could be put on the link right now
        Errc end = Errc::ok;          ///< why nothing can be sent any more
        /// Until when the device may go on with what has been given up.
        std::optional<std::chrono::steady_clock::time_point> settle_until;

        [[nodiscard]] std::int64_t available() const noexcept {
            return std::int64_t{credit.free} - static_cast<std::int64_t>(accepted - credit.handled);
        }
    };

    ProducerCore(ProgressEngine& engine, std::shared_ptr<Connection> connection,
                 const ProducerOptions& options, const ProducerHandlers& handlers)
        : ProgressSource{
              .progress =
                  [](ProgressSource& self) { return static_cast<ProducerCore&>(self).progress(); },
              .arm = [](ProgressSource& self) { return static_cast<ProducerCore&>(self).arm(); }},
          engine_(engine), connection_(std::move(connection)),
          notifier_(std::make_shared<Notifier>(engine)), handlers_(handlers),
          link_limits_(connection_->limits()),
          short_limit_(std::min<std::size_t>(tuning::shortest_direct - 1, link_limits_.max_inline)),
          offers_at_once_(wire::at_once<wire::Start>(link_limits_.max_inline)),
          operations_(options.max_in_flight != 0 ? options.max_in_flight
                                                 : tuning::default_in_flight) {
        for (Operation& op : operations_) {
            op.next = free_;
            free_ = &op;
        }
    }

    // ---- data path ------------------------------------------------------------------------------

    unsigned progress() {
        flush();
        unsigned handled = 0;
        if (notifier_->take()) [[unlikely]] {
            handled += attend();
        }
        if (refused_a_route_ || room_untold_) [[unlikely]] {
            refused_a_route_ = room_untold_ = false;
            ++handled; // try again
        }
        // By index: a handler may send, and so open routes.
        for (std::size_t i = 0; i < routes_.size(); ++i) {
            Route& route = *routes_[i];
            if (route.head != nullptr || route.starved || look_at_all_) {
                handled += serve(route);
            }
        }
        look_at_all_ = false;
        if (handled == 0 && idle_check_.due()) [[unlikely]] {
            handled += check_routes();
        }
        if (has_ended_routes_) [[unlikely]] {
            handled += sweep();
        }
        if (state_ == State::stopping) [[unlikely]] {
            handled += finish();
        }
        return handled;
    }

    unsigned serve(Route& route) {
        unsigned handled = read_feedback(route);
        handled += complete(route);
        if (route.unsent != nullptr && route.end == Errc::ok && state_ == State::running)
            [[unlikely]] {
            handled += push(route);
        }
        return handled;
    }

    /// A message of any kind. ok: it is on its way, or waits its turn.
    Errc send_any(Route& route, Operation& op, const SendBuffer& buffer) {
        op.data = buffer.data;
        op.immediate = buffer.immediate;
        op.sent = 0;
        op.started = false;
        op.whole = false;
        if constexpr (writes_directly) {
            op.memory = buffer.memory;
            op.way = Way::parts;
            op.claimed = op.has_tried = false;
        }
        if (route.unsent != nullptr || waits_for_others(route, op)) {
            return Errc::ok;
        }
        const Errc result = transmit(route, op, buffer.more);
        return op.started || (op.has_tried && result == Errc::again) ? Errc::ok : result;
    }
    /// What a send is answered that found no way.
    Errc turn_away(Route& route, Errc why) noexcept {
        if (why == Errc::again) {
            route.starved = true;
        } else {
            end_route(route, why);
        }
        return why;
    }

    /// Puts as much of an operation on the link as it takes. ok: it is whole there, or there is
    /// more to do at once (not whole); again: the link is full.
    /// A message that is one record may wait for `more`.
    Errc transmit(Route& route, Operation& op, bool more = false) {
        if (!op.started) {
            const std::size_t head = op.immediate.empty() ? 0 : sizeof(wire::Immediate);
            if (head + op.data.size() > link_limits_.max_message) {
                return transmit_start(route, op);
            }
            const Errc result = transmit_whole(route, op, head, more);
            op.started = op.whole = result == Errc::ok;
            return result;
        }
        if constexpr (writes_directly) {
            if (op.way != Way::parts) {
                return write_directly(route, op);
            }
        }
        for (unsigned parts = 0; parts < tuning::parts_at_once; ++parts) {
            if (op.status != Errc::ok) {
                // The consumer has refused it already: spare it the rest.
                const Errc result = send_empty(route, wire::FastPath::cancel);
                op.whole = result == Errc::ok;
                return result;
            }
            const std::size_t left = op.data.size() - op.sent;
            const auto size = static_cast<std::uint32_t>(
                left < link_limits_.max_message ? left : link_limits_.max_message);
            const std::int64_t result = route.channel.send_packed(
                static_cast<std::uint8_t>(wire::FastPath::part), size, [&](std::byte* to) {
                    std::memcpy(to, op.data.data() + op.sent, size);
                    return size;
                });
            if (result < 0) {
                return static_cast<Errc>(-result);
            }
            op.sent += size;
            if (op.sent == op.data.size()) {
                op.whole = true;
                return Errc::ok;
            }
        }
        route.more = true;
        return Errc::ok;
    }

    Errc transmit_whole(Route& route, Operation& op, std::size_t head, bool more) {
        const auto id = static_cast<std::uint8_t>(head == 0 ? wire::FastPath::plain
                                                            : wire::FastPath::with_immediate);
        const auto length = static_cast<std::uint32_t>(head + op.data.size());
        if constexpr (writes_directly) {
            if (length >= tuning::shortest_direct && head == 0 && op.memory != nullptr &&
                route.channel.local_key(op.memory->region(), op.local_key)) {
                return transmit_directly(route, op, more);
            }
        }
        const auto fill = [head, &op](std::byte* to) {
            if (head != 0) {
                const wire::Immediate immediate = immediate_of(op);
                std::memcpy(to, &immediate, sizeof(immediate));
            }
            if (!op.data.empty()) {
                std::memcpy(to + head, op.data.data(), op.data.size());
            }
        };
        if (length <= link_limits_.max_inline) [[likely]] {
            return route.channel.send_inline(id, length, fill, more);
        }
        const auto pack = [&](std::byte* to) {
            fill(to);
            return length;
        };
        const std::int64_t result = route.channel.send_packed(id, length, pack, more);
        return result < 0 ? static_cast<Errc>(-result) : Errc::ok;
    }

    Errc transmit_directly(Route& route, Operation& op, bool more) {
        const std::uint64_t under_way = op.number - route.credit.handled;
        const bool tell = (route.untold + 1) * tuning::told_under_way >= under_way;
        const Errc result = route.channel.send_from(
            static_cast<std::uint8_t>(wire::FastPath::plain), op.data.data(),
            static_cast<std::uint32_t>(op.data.size()), op.local_key, tell, more, op.ticket);
        if (result == Errc::ok) {
            op.sent = op.data.size();
            op.way = op.ticket == typename Link::Channel::Ticket{} ? Way::parts : Way::direct;
            route.untold = tell ? 0 : route.untold + 1;
        }
        return result;
    }

    Errc transmit_start(Route& route, Operation& op) {
        const Errc result = say_start(route, op);
        return result != Errc::ok ? result : transmit(route, op);
    }

    /// Of a message that is too long for one record.
    Errc say_start(Route& route, Operation& op) {
        wire::FastPath id = wire::FastPath::start;
        if constexpr (writes_directly) {
            if (op.memory != nullptr &&
                route.channel.local_key(op.memory->region(), op.local_key)) {
                claim_place(route, op);
                id = op.claimed ? wire::FastPath::placing : wire::FastPath::offer;
                if (op.claimed && says_all_when_written(route, op)) {
                    op.started = true;
                    op.way = Way::granted;
                    return Errc::ok;
                }
            }
        }
        const Errc result =
            route.channel.send(static_cast<std::uint8_t>(id), wire::as_bytes(start_of(op)));
        if (result == Errc::ok) {
            op.started = true;
            op.way = id == wire::FastPath::offer     ? Way::offered
                     : id == wire::FastPath::placing ? Way::granted
                                                     : Way::parts;
        }
        return result;
    }

    /// Takes the place that was told ahead, if it is for this one.
    void claim_place(Route& route, Operation& op) {
        if constexpr (writes_directly) {
            auto* told = route.places.find(op.number);
            if (told == nullptr && route.unsent == nullptr) {
                (void)read_feedback(route); // it may be there, with what completes the last one
                told = route.places.find(op.number);
            }
            if (told == nullptr || op.data.size() > told->place.room) [[likely]] {
                return;
            }
            const wire::Place place = std::exchange(*told, {}).place;
            op.has_tried = true;
            op.claimed = route.channel.claim(op.number);
            if (!op.claimed) {
                route.places.forget(); // they were withdrawn together
            }
            op.place = place.address;
            op.place_key = place.key;
        }
    }

    /// Nothing has to be said of a claimed place before it is written to.
    [[nodiscard]] static bool says_all_when_written(const Route& route, const Operation& op) {
        return op.immediate.empty() && op.data.size() <= route.channel.max_write();
    }

    /// In a stream of long messages, what the program sends now is offered all at once by the next
    /// progress.
    [[nodiscard]] bool waits_for_others(Route& route, Operation& op) {
        if constexpr (writes_directly) {
            if (!is_long(op) || route.accepted == route.credit.handled ||
                route.places.find(op.number) != nullptr) [[likely]] {
                return false;
            }
            (void)read_feedback(route); // or it is alone, or a place is there
            return route.accepted != route.credit.handled && may_be_offered(route, op);
        }
        return false;
    }
    /// Offers the long messages that wait, as far as nothing else has to go out before them.
    void offer_ahead(Route& route) {
        if constexpr (writes_directly) {
            const Operation& first = *route.unsent;
            if (first.started && (first.way == Way::parts ||
                                  (first.claimed && says_all_when_written(route, first)))) {
                return; // the consumer does not know of it, or waits for its parts
            }
            Operation* op = route.offered != nullptr ? route.offered->next : route.unsent;
            for (; op != nullptr && op->started; op = op->next) {
                route.offered = op;
            }
            while (op != nullptr && may_be_offered(route, *op)) {
                std::array<wire::Start, wire::most_at_once> starts;
                std::size_t count = 0;
                Operation* next = op;
                do {
                    starts[count++] = start_of(*next);
                    next = next->next;
                } while (next != nullptr && count < offers_at_once_ &&
                         may_be_offered(route, *next));
                if (route.channel.send(static_cast<std::uint8_t>(wire::FastPath::offer),
                                       std::as_bytes(std::span(starts).first(count))) != Errc::ok) {
                    return;
                }
                for (; count != 0; --count, op = op->next) {
                    op->started = true;
                    op->way = Way::offered;
                    route.offered = op;
                }
            }
        }
    }
    /// Finds out on the way by which key its memory is known. (What has a place, or may get one when
    /// it is its turn, is not offered.)
    [[nodiscard]] bool may_be_offered(Route& route, Operation& op) {
        return op.memory != nullptr && is_long(op) && !op.claimed &&
               route.places.find(op.number) == nullptr &&
               route.channel.local_key(op.memory->region(), op.local_key);
    }
    [[nodiscard]] static wire::Start start_of(const Operation& op) noexcept {
        return {.length = op.data.size(), .immediate = immediate_of(op)};
    }

    [[nodiscard]] bool is_long(const Operation& op) const noexcept {
        const std::size_t head = op.immediate.empty() ? 0 : sizeof(wire::Immediate);
        return head + op.data.size() > link_limits_.max_message;
    }

    /// ok: it is whole; again: the consumer has not answered, or the link is full.
    Errc write_directly(Route& route, Operation& op) {
        if (op.status != Errc::ok) {
            op.whole = true; // refused: the consumer waits for nothing
            return Errc::ok;
        }
        if (op.way == Way::offered) {
            return Errc::again;
        }
        while (!op.whole) {
            const auto size = static_cast<std::uint32_t>(
                std::min<std::size_t>(op.data.size() - op.sent, route.channel.max_write()));
            const bool last = op.sent + size == op.data.size();
            const auto id = op.claimed && says_all_when_written(route, op) ? wire::FastPath::placed
                                                                           : wire::FastPath::filled;
            const std::byte* const from = op.data.data() + op.sent;
            const std::uint64_t to = op.place + op.sent;
            const Errc result =
                last ? route.channel.write_and_send(from, size, op.local_key, to, op.place_key,
                                                    static_cast<std::uint8_t>(id), op.ticket)
                     : route.channel.write(from, size, op.local_key, to, op.place_key);
            if (result != Errc::ok) {
                return result;
            }
            op.sent += size;
            op.whole = last;
        }
        return Errc::ok;
    }

    /// False: no correct peer says that.
    bool on_grants(Route& route, std::span<const std::byte> record) {
        const std::size_t count = wire::count_of<wire::Grant>(record, wire::most_at_once);
        Operation* op = route.unsent; // what is granted a place is not sent yet
        for (std::size_t i = 0; i < count; ++i) {
            const auto grant = wire::read_one<wire::Grant>(record, i);
            while (op != nullptr && op->number != grant.number) {
                op = op->next;
            }
            if (op == nullptr || !op->started || op->way != Way::offered ||
                op->status != Errc::ok) {
                return false;
            }
            op->way = grant.address == 0 ? Way::parts : Way::granted;
            op->place = grant.address;
            op->place_key = grant.key;
            route.more = true; // also if somebody else than progress has read this
        }
        return count != 0;
    }

    /// The consumer has it.
    [[nodiscard]] static bool is_handled(const Route& route, const Operation& op) noexcept {
        return op.whole && op.number <= route.credit.handled;
    }
    /// The device reads the program's memory for it.
    [[nodiscard]] static bool is_fetched(const Operation& op) noexcept {
        return (op.way == Way::direct || op.way == Way::granted) && op.sent != 0;
    }
    /// All that remains to be done is to tell the program.
    [[nodiscard]] static bool is_complete(const Route& route, const Operation& op) noexcept {
        if (!is_handled(route, op)) {
            return false;
        }
        if constexpr (writes_directly) {
            // The device may have to read the memory once more until it knows that it is there.
            return !is_fetched(op) || route.channel.written(op.ticket);
        }
        return true;
    }
    /// So it will be noticed when the device is done with an operation that is not complete. False:
    /// it has to be tried again.
    [[nodiscard]] static bool waits_for_device(Route& route, const Operation* op) noexcept {
        if constexpr (writes_directly) {
            if (op != nullptr && is_handled(route, *op)) [[unlikely]] {
                return route.channel.tell_of(op->ticket);
            }
        }
        return true;
    }

    [[nodiscard]] static wire::Immediate immediate_of(const Operation& op) noexcept {
        wire::Immediate immediate;
        immediate.length = static_cast<std::uint8_t>(op.immediate.size());
        if (!op.immediate.empty()) {
            std::memcpy(immediate.bytes, op.immediate.data(), op.immediate.size());
        }
        return immediate;
    }

    Errc send_empty(Route& route, wire::FastPath id) {
        return route.channel.send(static_cast<std::uint8_t>(id), {});
    }

    /// Goes on with what is not on the link yet.
    unsigned push(Route& route) {
        unsigned handled = 0;
        route.more = false;
        while (route.unsent != nullptr) {
            Operation& op = *route.unsent;
            const std::size_t before = op.sent;
            if (!op.started) {
                offer_ahead(route);
            }
            const Errc result = transmit(route, op);
            handled += op.whole || op.sent != before ? 1 : 0;
            if (result != Errc::ok && result != Errc::again) {
                end_route(route, result);
                break;
            }
            if (!op.whole) {
                break;
            }
            route.unsent = op.next;
        }
        if (route.unsent != nullptr) {
            offer_ahead(route);
        }
        return handled;
    }

    unsigned read_feedback(Route& route) {
        return route.channel.poll(
            [&](std::uint8_t id, const std::byte* data, std::uint32_t length) {
                if (!on_feedback(route, id, {data, length})) [[unlikely]] {
                    end_route(route, Errc::connection_reset);
                    connection_->say_broken();
                }
                return true;
            },
            tuning::feedback_budget);
    }

    /// What was handled is not lost: there is at most one word for each that is under way, and one for
    /// each buffer and place.
    void read_all_feedback(Route& route) {
        for (std::size_t left = 3 * operations_.size() + 3; left != 0; --left) {
            if (read_feedback(route) == 0) {
                return;
            }
        }
    }

    /// False: no correct peer says that.
    bool on_feedback(Route& route, std::uint8_t id, std::span<const std::byte> record) {
        if (route.end != Errc::ok) {
            return true;
        }
        switch (static_cast<wire::Feedback>(id)) {
        case wire::Feedback::credit: {
            const auto credit = wire::read<wire::Credit>(record);
            return credit && on_credit(route, *credit);
        }
        case wire::Feedback::refused: {
            const auto refused = wire::read<wire::Refused>(record);
            if (!refused) {
                return false;
            }
            for (Operation* op = route.head; op != nullptr; op = op->next) {
                if (op->number == refused->number) {
                    op->status = Errc::invalid_argument;
                    route.more = route.unsent != nullptr; // to be told of, or spared the rest
                    return op->started && op->way != Way::granted;
                }
            }
            return false;
        }
        case wire::Feedback::goodbye:
            end_route(route, Errc::canceled);
            return true;
        case wire::Feedback::ahead:
            return writes_directly && on_places(route, record);
        case wire::Feedback::grant:
            return writes_directly && on_grants(route, record);
        }
        return false;
    }

    /// False: no correct peer says that.
    bool on_credit(Route& route, const wire::Credit& credit) noexcept {
        if (credit.handled < route.credit.handled || credit.handled > route.accepted) {
            return false;
        }
        route.credit = credit;
        route.heard = true;
        if (route.starved && route.available() > 0) {
            route.starved = false;
            room_untold_ = true; // also if somebody else than progress has read this
        }
        return true;
    }

    /// False: no correct peer says that.
    bool on_places(Route& route, std::span<const std::byte> record) {
        const auto ahead = wire::read<wire::Ahead>(record);
        if (!ahead || ahead->first <= ahead->credit.handled) {
            return false;
        }
        const auto places = record.subspan(sizeof(wire::Ahead));
        const std::size_t count = wire::count_of<wire::Place>(places, wire::most_at_once);
        if (count == 0 || !on_credit(route, ahead->credit)) {
            return false;
        }
        for (std::size_t i = 0; i < count; ++i) {
            route.places.put(ahead->first + i, wire::read_one<wire::Place>(places, i));
        }
        return true;
    }

    /// The next buffer is known when nothing is on its way to it, or all are alike.
    [[nodiscard]] static bool is_too_long(const Route& route, std::size_t length) noexcept {
        return length > route.credit.room &&
               (route.credit.uniform != 0 || route.accepted == route.credit.handled);
    }

    unsigned complete(Route& route) {
        unsigned completed = 0;
        while (route.head != nullptr && is_complete(route, *route.head)) {
            finish_first(route, route.head->status);
            ++completed;
        }
        (void)waits_for_device(route, route.head);
        return completed;
    }

    void finish_first(Route& route, Errc status) {
        Operation& op = *route.head;
        route.head = op.next;
        if (route.head == nullptr) {
            route.tail = nullptr;
        }
        if (route.unsent == &op) {
            route.unsent = op.next;
        }
        if (route.offered == &op) {
            route.offered = nullptr;
        }
        void* const cookie = op.cookie;
        op.next = free_;
        free_ = &op;
        --in_flight_;
        if (handlers_.sent != nullptr) {
            handlers_.sent(handlers_.user, cookie, status);
        }
    }

    // ---- everything else ------------------------------------------------------------------------

    Errc find_route(std::uint32_t consumer, Route*& route) {
        const auto found = by_consumer_.find(consumer);
        if (found != by_consumer_.end()) {
            last_route_ = route = found->second;
            return Errc::ok;
        }
        if (over_ != Errc::ok) {
            return over_;
        }
        const auto remote = connection_->remote(consumer);
        if (!remote || gone_.contains(consumer)) {
            return Errc::not_found;
        }
        if (const auto untold = untold_.extract(consumer)) {
            return untold.mapped();
        }
        // Even if it has posted nothing yet, as far as this side's control connection knows: from
        // here on the consumer itself says what it has, and no other engine is needed for that.
        auto channel = connection_->open_channel(id_, consumer);
        if (!channel) {
            // Nothing would end a sleep when there is room on the connection's socket.
            refused_a_route_ = channel.error().code == Errc::again;
            return channel.error().code;
        }
        if (!engine_.watch(channel->event_fd())) {
            return Errc::no_memory;
        }
        auto made = std::make_unique<Route>();
        made->channel = std::move(*channel);
        made->consumer = consumer;
        // Until it does.
        made->credit.free = connection_->claim_posted(consumer);
        made->credit.room = remote->room;
        route = made.get();
        routes_.push_back(std::move(made));
        by_consumer_.emplace(consumer, route);
        last_route_ = route;
        return Errc::ok;
    }

    void end_route(Route& route, Errc why) noexcept {
        if (route.end == Errc::ok) {
            route.end = why;
        }
        has_ended_routes_ = true;
    }

    unsigned attend() {
        if (attachment_ == nullptr) {
            return 0;
        }
        const auto news = connection_->news(attachment_);
        if (news.status != Errc::ok && state_ == State::running) {
            state_ = State::stopping;
            end_status_ = news.status;
            report();
        }
        for (const std::unique_ptr<Route>& route : routes_) {
            // Gone before it has said anything: what it could say, it will not.
            if (route->head == nullptr && !connection_->remote(route->consumer)) {
                end_route(*route, Errc::canceled);
            }
        }
        // Those that the connection knows of by now need not be remembered.
        std::erase_if(gone_, [&](std::uint32_t id) { return !connection_->remote(id); });
        std::erase_if(untold_, [&](const auto& told) { return !connection_->remote(told.first); });
        // Something even if nothing has to be done: a consumer is gone, so a send that was told
        // `again` gets another answer now. Were it nothing, the program would go to sleep on news
        // that nobody will bring a second time.
        return 1;
    }

    /// Ends a route whose other end is gone, once everything is read that it has said.
    void look_for_end(Route& route) {
        const Errc state = route.channel.check();
        if (state == Errc::ok || read_feedback(route) != 0) {
            return;
        }
        // An orderly end is the consumer's going away, unless it is the connection's: of which the
        // peer may have told the channel alone, while the connection's engine rests.
        Errc connection = connection_->news(attachment_).status;
        if (connection == Errc::ok && route.channel.was_refused()) {
            connection = over_ = Errc::not_connected;
        }
        end_route(route, state != Errc::not_connected ? state
                         : connection == Errc::ok     ? Errc::canceled
                                                      : connection);
    }

    unsigned check_routes() {
        unsigned handled = 0;
        for (std::size_t i = 0; i < routes_.size(); ++i) {
            Route& route = *routes_[i];
            if (route.channel.check() == Errc::ok) {
                continue;
            }
            const unsigned served = serve(route);
            handled += served;
            if (served == 0) {
                look_for_end(route);
            }
        }
        return handled;
    }

    unsigned sweep() {
        has_ended_routes_ = false;
        unsigned handled = 0;
        for (std::size_t i = 0; i < routes_.size();) {
            Route& route = *routes_[i];
            if (route.end == Errc::ok) {
                ++i;
                continue;
            }
            if (!lets_go(route, time_to_settle(route))) {
                has_ended_routes_ = true;
                ++i;
                continue;
            }
            // One for the route itself: a send that was told `again` gets another answer now.
            handled += 1 + flush(route, route.end);
            if (route.end == Errc::canceled) {
                gone_.insert(route.consumer);
            } else if (route.starved) {
                untold_.emplace(route.consumer, route.end);
            }
            engine_.unwatch(route.channel.event_fd());
            by_consumer_.erase(route.consumer);
            if (last_route_ == &route) {
                last_route_ = nullptr;
            }
            routes_.erase(routes_.begin() + static_cast<std::ptrdiff_t>(i));
        }
        return handled;
    }

    unsigned flush(Route& route, Errc status) {
        unsigned flushed = complete(route); // what was handled is not lost
        while (route.head != nullptr) {
            // (Also if the device does not tell any more that it is done: it is stopped by now.)
            const bool own = route.head->status != Errc::ok || is_handled(route, *route.head);
            finish_first(route, own ? route.head->status : status);
            ++flushed;
        }
        return flushed;
    }

    /// So that the consumer knows at once; if there is no room, it sees the channel end.
    void leave(Route& route) {
        (void)send_empty(route, wire::FastPath::goodbye);
        engine_.unwatch(route.channel.event_fd());
    }

    // Sends that are given up: their memory is the program's again when it has been told. No device
    // may read it after that, as it would put what it finds there into the consumer's buffer.

    [[nodiscard]] std::chrono::steady_clock::time_point time_to_settle(Route& route) {
        if (!route.settle_until) {
            route.settle_until = std::chrono::steady_clock::now() + tuning::patience;
        }
        return *route.settle_until;
    }
    /// False: the device needs another moment. It is stopped where it cannot end in order.
    bool lets_go(Route& route, std::chrono::steady_clock::time_point deadline) {
        if constexpr (writes_directly) {
            for (const Operation* op = route.head; op != nullptr; op = op->next) {
                if (!is_fetched(*op) || (op->whole && route.channel.settled(op->ticket))) {
                    continue;
                }
                const Errc state = route.channel.check();
                // What was sent directly, and handled, it may never tell of once the peer's is gone,
                // and nothing is lost by stopping it.
                const bool told = op->way != Way::direct || !is_handled(route, *op);
                if (op->whole && (state == Errc::ok || (state == Errc::not_connected && told)) &&
                    std::chrono::steady_clock::now() < deadline) {
                    (void)route.channel.tell_of(op->ticket);
                    (void)read_feedback(route);
                    return false;
                }
                read_all_feedback(route);
                route.channel.cut();
                return true;
            }
        }
        return true;
    }

    unsigned finish() {
        bool settled = true;
        for (const std::unique_ptr<Route>& route : routes_) {
            settled = lets_go(*route, time_to_settle(*route)) && settled;
        }
        if (!settled) {
            return 0;
        }
        unsigned handled = 1;
        for (std::size_t i = 0; i < routes_.size(); ++i) {
            read_all_feedback(*routes_[i]);
            handled += flush(*routes_[i], end_status_);
        }
        for (const std::unique_ptr<Route>& route : routes_) {
            leave(*route);
        }
        routes_.clear();
        by_consumer_.clear();
        last_route_ = nullptr;
        connection_->detach(attachment_);
        attachment_ = nullptr;
        state_ = State::idle;
        report();
        return handled;
    }

    void report() {
        if (handlers_.state_changed != nullptr) {
            handlers_.state_changed(handlers_.user, state_);
        }
    }

    Errc arm() {
        flush();
        if (notifier_->pending() || state_ == State::stopping || has_ended_routes_ ||
            refused_a_route_ || room_untold_) {
            return Errc::again;
        }
        idle_check_.force();
        for (const std::unique_ptr<Route>& route : routes_) {
            const bool completable = route->head != nullptr && is_complete(*route, *route->head);
            if (completable || route->more || !waits_for_device(*route, route->head) ||
                route->channel.arm() != Errc::ok) {
                look_at_all_ = true;
                return Errc::again;
            }
        }
        return Errc::ok;
    }

    ProgressEngine& engine_;
    std::shared_ptr<Connection> connection_;
    std::shared_ptr<Notifier> notifier_;
    ProducerHandlers handlers_;
    const link::Limits link_limits_;
    /// A message up to this length is one record, whatever memory it is from.
    const std::size_t short_limit_;
    const std::uint32_t offers_at_once_;
    std::vector<Operation> operations_;
    Operation* free_ = nullptr;
    std::uint32_t in_flight_ = 0;
    std::vector<std::unique_ptr<Route>> routes_;
    std::unordered_map<std::uint32_t, Route*> by_consumer_;
    /// Consumers that are gone, though the connection may not know it yet: its engine rests.
    std::unordered_set<std::uint32_t> gone_;
    /// What the next send to a consumer is answered: its route has ended, and the last send was told
    /// `again`. It would make another, which ends as well, before anybody is told.
    std::unordered_map<std::uint32_t, Errc> untold_;
    Errc over_ = Errc::ok; ///< what a channel has found the connection to be, before its engine has
    Route* last_route_ = nullptr; ///< where the last send went: usually where the next goes
    IdleCheck idle_check_;
    State state_ = State::idle;
    Errc end_status_ = Errc::ok;
    bool look_at_all_ = false;
    bool waiting_for_more_ = false; ///< something may be, on some route
    bool has_ended_routes_ = false;
    bool refused_a_route_ = false; ///< a send was told `again`: there was no room to open its route
    bool room_untold_ = false;     ///< or for itself, and now there is
    std::uint32_t id_ = 0;
    Attachment<Link>* attachment_ = nullptr;
};

} // namespace comch::channel
