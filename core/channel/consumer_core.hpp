// A consumer, over any link.
//
// One lane (a link channel) per producer that sends to it. Lanes are polled in turn; a message
// lands in the next posted buffer whichever lane it comes from, and stays in its lane while there
// is none. Feedback (what was handled, how many buffers are free) goes back on the lane, as seldom
// as possible: when the lane is drained (or later, where that costs a packet and the producer does
// not wait for it: feedback_pace.hpp), or the producer could run dry.
//
// A message that is offered is promised the next buffer. If that is from a memory map and the link
// can (Channel::writes_directly), the producer is told its place and writes into it; until it has
// said so, or its channel is cut, the buffer is not given back to the program.
//
// Offers and answers are packets, and a message that comes alone waits for both. So a producer
// without others beside it is told ahead where its next messages may go, one buffer each. These are
// withdrawn (link.hpp) when they are wanted for something else, whatever the producer does meanwhile.
// (A message that such a buffer is too short for leaves it to the first one behind all these places;
// only there buffers are not used in the order in which they were posted.)
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <comch/consumer.hpp>

#include "core/base/stream_copy.hpp"
#include "core/channel/connection_core.hpp"
#include "core/channel/feedback_pace.hpp"
#include "core/channel/idle_check.hpp"
#include "core/channel/notifier.hpp"
#include "core/channel/places_ahead.hpp"
#include "core/channel/posted_buffers.hpp"
#include "core/channel/promised_buffers.hpp"
#include "core/channel/tuning.hpp"
#include "core/channel/wire.hpp"

namespace comch::channel {

template <class Link> class ConsumerCore final : public ProgressSource {
public:
    using Connection = ConnectionCore<Link>;

    [[nodiscard]] static Result<std::unique_ptr<ConsumerCore>>
    open(ProgressEngine& engine, std::shared_ptr<Connection> connection,
         const ConsumerOptions& options, const ConsumerHandlers& handlers) {
        if (options.max_posted > limits::consumer_tasks) {
            return fail(Errc::invalid_argument,
                        "cannot open a consumer: more posted buffers are asked for than the device "
                        "allows; see Capabilities::max_consumer_tasks");
        }
        std::unique_ptr<ConsumerCore> core(
            new ConsumerCore(engine, std::move(connection), options, handlers));
        auto attachment = core->connection_->attach(true, core->notifier_, options.id);
        if (!attachment) {
            return tl::unexpected(std::move(attachment.error()));
        }
        core->attachment_ = *attachment;
        core->id_ = (*attachment)->id;
        core->state_ = State::starting;
        engine.add(*core);
        return core;
    }

    ~ConsumerCore() {
        engine_.remove(*this);
        if (attachment_ != nullptr) {
            if (!engine_.inherited()) { // else they are the parent's
                close_lanes();
            }
            connection_->detach(attachment_);
        }
        notifier_->detach();
    }
    ConsumerCore(const ConsumerCore&) = delete;
    ConsumerCore& operator=(const ConsumerCore&) = delete;

    [[nodiscard]] std::uint32_t id() const noexcept { return id_; }
    [[nodiscard]] State state() const noexcept { return state_; }
    [[nodiscard]] Connection& connection() const noexcept { return *connection_; }

    [[nodiscard]] Errc post(const ReceiveBuffer& buffer, void* cookie) {
        if (state_ != State::running) [[unlikely]] {
            return Errc::bad_state;
        }
        if (buffer.length > buffer.capacity || buffer.capacity > limits::fast_path_buffer_size ||
            (buffer.address == nullptr && buffer.capacity != 0)) [[unlikely]] {
            return Errc::invalid_argument;
        }
        if (buffer.memory != nullptr) {
            const Errc allowed =
                buffer.memory->imported() // it is another process's
                    ? Errc::not_permitted
                    : buffer.memory->check(buffer.address, buffer.capacity, peer_write);
            if (allowed != Errc::ok) [[unlikely]] {
                return allowed;
            }
        }
        if (outstanding_ == max_posted_) {
            return Errc::again;
        }
        ++outstanding_;
        posted_.push_back({.tail = buffer.address + buffer.length,
                           .room = static_cast<std::uint32_t>(buffer.capacity - buffer.length),
                           .offset = static_cast<std::uint32_t>(buffer.length),
                           .cookie = cookie,
                           .memory = buffer.memory});
        if (writes_directly && landing_ != nullptr) {
            tell_next_place(*landing_);
        }
        if (!announced_) [[unlikely]] {
            // Until a producer has a lane, this is how it learns that it may send. Said again with
            // each buffer until the connection's thread has passed it on.
            connection_->say_posted(attachment_, posted_.size(), posted_.front().room);
            announced_ = posted_.size() >= tuning::announce_up_to || !lanes_.empty();
        }
        return Errc::ok;
    }

    [[nodiscard]] Result<void> stop() {
        if (state_ != State::starting && state_ != State::running) {
            return fail(Errc::bad_state, "cannot stop the consumer: it is stopped already");
        }
        state_ = State::stopping;
        end_status_ = Errc::canceled;
        return {};
    }

private:
    static constexpr bool writes_directly = Link::Channel::writes_directly;
    static constexpr bool sends_packets = Link::Channel::sends_packets;

    /// From one producer.
    struct Lane {
        typename Link::Channel channel;
        std::uint32_t producer = 0;
        std::uint64_t handled = 0;         ///< messages
        wire::Credit told;                 ///< the last feedback
        std::uint64_t known_confirmed = 0; ///< records to the producer that it has read
        bool feedback_due = true;          ///< the first, or one that found no room
        static constexpr std::uint32_t not_silent = ~std::uint32_t{0};
        /// The last poll found nothing, and with so many buffers posted there was nothing to be told.
        std::uint32_t silent_with = not_silent;
        FeedbackPace pace;
        std::uint64_t paced = 0; ///< of what was handled, what the pace knows of
        bool stalled = false;    ///< its next message waits for a buffer
        bool watched = false;    ///< the engine sleeps on its descriptor
        bool ended = false;      ///< to be closed
        // a message that comes in parts
        bool in_parts = false;
        bool skipping = false; ///< refused: its parts are thrown away
        PostedBuffer buffer;
        std::uint64_t length = 0;
        std::uint64_t received = 0;
        wire::Immediate immediate;
        // messages that were offered
        PromisedBuffers promised;
        // the next ones, which its producer knows where to write
        PlacesAhead places;
        bool wants_places = false; ///< the last one was of those that can be written directly
        /// So far no message has a place any more, but for those that were claimed.
        std::uint64_t withdrawn = 0;
        bool left = false;         ///< the producer said goodbye: it writes nothing any more
        bool told_goodbye = false; ///< stopping: only what was promised is waited for

        [[nodiscard]] bool filling() const noexcept { return in_parts && !skipping; }
        /// Of the message that nothing has come of yet.
        [[nodiscard]] std::uint64_t next_number() const noexcept {
            return handled + (in_parts ? 1 : 0) + promised.size() + 1;
        }
    };

    ConsumerCore(ProgressEngine& engine, std::shared_ptr<Connection> connection,
                 const ConsumerOptions& options, const ConsumerHandlers& handlers)
        : ProgressSource{
              .progress =
                  [](ProgressSource& self) { return static_cast<ConsumerCore&>(self).progress(); },
              .arm = [](ProgressSource& self) { return static_cast<ConsumerCore&>(self).arm(); }},
          engine_(engine), connection_(std::move(connection)),
          notifier_(std::make_shared<Notifier>(engine)), handlers_(handlers),
          max_posted_(options.max_posted != 0 ? options.max_posted : tuning::default_posted),
          grants_at_once_(wire::at_once<wire::Grant>(connection_->limits().max_inline)),
          places_at_once_(
              wire::at_once<wire::Place>(connection_->limits().max_inline - sizeof(wire::Ahead))),
          prompt_(options.prompt), posted_(max_posted_) {}

    // ---- data path ------------------------------------------------------------------------------

    unsigned progress() {
        unsigned handled = 0;
        if (notifier_->take()) [[unlikely]] {
            handled += attend();
        }
        const std::size_t count = lanes_.size();
        if (count == 1) [[likely]] {
            handled += state_ == State::running ? poll(*lanes_.front()) : 0;
        } else {
            handled += poll_in_turn();
        }
        // (Also while one lane keeps this busy: another's producer may be dead.)
        if ((handled == 0 || count > 1) && idle_check_.due()) [[unlikely]] {
            check_lanes();
        }
        if (has_ended_lanes_) [[unlikely]] {
            sweep();
        }
        if (state_ == State::stopping) [[unlikely]] {
            handled += finish();
        }
        return handled;
    }

    /// The next lane in turn goes first, so that none eats all the buffers.
    unsigned poll_in_turn() {
        unsigned handled = 0;
        const std::size_t count = lanes_.size();
        first_lane_ = first_lane_ + 1 < count ? first_lane_ + 1 : 0;
        for (std::size_t i = 0; i < count && state_ == State::running; ++i) {
            const std::size_t lane = first_lane_ + i;
            handled += poll(*lanes_[lane < count ? lane : lane - count]);
        }
        return handled;
    }

    unsigned poll(Lane& lane) {
        if (lane.stalled && posted_.empty()) {
            if (lane.feedback_due) [[unlikely]] { // there was no room to say it
                send_feedback(lane, free_for(lane));
            }
            return 0;
        }
        lane.stalled = false;
        if (lane.promised.waiting() != 0) [[unlikely]] {
            answer_offers(lane);
        }
        if (has_places(lane) && lanes_.size() > 1) [[unlikely]] {
            (void)withdraw(lane); // the others may need them
        }
        const unsigned taken = lane.channel.poll(
            [&](std::uint8_t id, const std::byte* data, std::uint32_t length) {
                const std::span<const std::byte> record(data, length);
                return id == static_cast<std::uint8_t>(wire::FastPath::plain) && takes_short(lane)
                           ? land(lane, {}, record)
                           : on_record(lane, id, record);
            },
            tuning::poll_budget);
        give_feedback(lane, taken < tuning::poll_budget, taken == 0);
        return taken;
    }

    /// A message that is one record may come now, and nothing else has to be seen to.
    [[nodiscard]] bool takes_short(const Lane& lane) const noexcept {
        return state_ == State::running && !lane.ended && !lane.in_parts && !has_places(lane) &&
               (!writes_directly || lane.promised.empty());
    }

    /// False: the record stays where it is.
    bool on_record(Lane& lane, std::uint8_t id, std::span<const std::byte> record) {
        if ((state_ != State::running && !lane.told_goodbye) || lane.ended) {
            return false;
        }
        // (Not twice of one that had to wait.)
        if (has_places(lane) && lane.places.first() == lane.next_number()) {
            take_back_places(lane, static_cast<wire::FastPath>(id), record);
        }
        switch (static_cast<wire::FastPath>(id)) {
        case wire::FastPath::plain:
            if (lane.in_parts || !lane.promised.empty()) {
                break;
            }
            return land(lane, {}, record);
        case wire::FastPath::with_immediate: {
            const auto immediate = wire::read<wire::Immediate>(record);
            if (lane.in_parts || !lane.promised.empty() || !immediate ||
                immediate->length > limits::immediate_data_size) {
                break;
            }
            return land(lane, {immediate->bytes, immediate->length},
                        record.subspan(sizeof(wire::Immediate)));
        }
        case wire::FastPath::start: {
            const auto start = wire::read<wire::Start>(record);
            if (lane.in_parts || !lane.promised.empty() || !start || start->length == 0 ||
                start->immediate.length > limits::immediate_data_size) {
                break;
            }
            return begin(lane, *start);
        }
        case wire::FastPath::offer:
            if constexpr (writes_directly) {
                lane.promised.reserve(max_posted_);
                lane.places.reserve(max_posted_);
                lane.wants_places = true;
                if (lane.in_parts || !take_offers(lane, record)) {
                    break;
                }
                answer_offers(lane);
                return true;
            }
            break;
        case wire::FastPath::placed:
            if constexpr (writes_directly) {
                const std::uint32_t length = lane.channel.written_length();
                if (!lane.promised.empty() || !may_be_placed(lane, length)) {
                    break;
                }
                ++lane.handled;
                lane.wants_places = true;
                deliver_written(lane, lane.places.pop_front(), length, {});
                return true;
            }
            break;
        case wire::FastPath::placing: {
            const auto start = wire::read<wire::Start>(record);
            if (!start || !may_be_placed(lane, start->length) || !lane.promised.has_room_for(1) ||
                lane.promised.waiting() != 0 ||
                start->immediate.length > limits::immediate_data_size) {
                break;
            }
            lane.promised.push_back({.buffer = lane.places.pop_front(),
                                     .length = start->length,
                                     .immediate = start->immediate});
            lane.promised.first_waiting().how = PromisedBuffer::How::written;
            lane.promised.answered();
            lane.wants_places = true;
            return true;
        }
        case wire::FastPath::filled:
            if (lane.in_parts || lane.promised.empty() ||
                lane.promised.front().how != PromisedBuffer::How::written) {
                break;
            }
            land_promised(lane);
            return true;
        case wire::FastPath::part:
            if (!lane.in_parts) {
                take_promise_for_parts(lane);
            }
            if (!lane.in_parts || record.size() > lane.length - lane.received) {
                break;
            }
            append(lane, record);
            return true;
        case wire::FastPath::cancel:
            if (!lane.in_parts) {
                break;
            }
            drop_parts(lane);
            ++lane.handled;
            count_refused(lane);
            return true;
        case wire::FastPath::goodbye:
            lane.left = true;
            end_lane(lane);
            return true;
        }
        end_lane(lane);
        connection_->say_broken();
        return false;
    }

    // ---- places told ahead ----------------------------------------------------------------------

    /// Its next messages may be written into buffers by then.
    [[nodiscard]] static bool has_places(const Lane& lane) noexcept {
        return writes_directly && !lane.places.empty();
    }
    /// For all that does not take long to find out.
    [[nodiscard]] bool could_tell_places(const Lane& lane) const noexcept {
        return writes_directly && lane.wants_places && lanes_.size() == 1 && !lane.in_parts &&
               !lane.stalled && !posted_.empty() && posted_.front().memory != nullptr &&
               lane.promised.waiting() == 0 && lane.withdrawn < lane.next_number() &&
               state_ == State::running && !lane.ended;
    }
    /// How many, at most. Buffers of different sizes are told of one by one: a message that is too
    /// long for its own would leave it behind others.
    [[nodiscard]] std::uint32_t places_to_tell(const Lane& lane) const noexcept {
        if (posted_.uniform() && all_have(lane, posted_.front().room)) [[likely]] {
            return most_places_to_tell(lane);
        }
        return lane.places.empty() && lane.promised.empty() ? 1 : 0;
    }
    [[nodiscard]] std::uint32_t most_places_to_tell(const Lane& lane) const noexcept {
        return std::min({posted_.size(), lane.places.room(), places_at_once_});
    }
    /// When they fill a record, or there are no more than that: so a message that finds one does not
    /// wait for it, and many share what telling costs.
    [[nodiscard]] bool wants_more_places(const Lane& lane) const noexcept {
        if (!could_tell_places(lane)) {
            return false;
        }
        const std::uint32_t most = most_places_to_tell(lane);
        return (most == places_at_once_ || lane.places.size() <= most) && places_to_tell(lane) != 0;
    }

    /// Its next message comes otherwise, or its next messages.
    void take_back_places(Lane& lane, wire::FastPath id, std::span<const std::byte> record) {
        switch (id) {
        case wire::FastPath::plain:
        case wire::FastPath::with_immediate:
        case wire::FastPath::start:
            lane.wants_places = false;
            lane.pace.is_of_records();
            posted_.push_front(lane.places.pop_front());
            break;
        case wire::FastPath::offer:
            release_first_places(lane, wire::count_of<wire::Start>(record, wire::most_at_once));
            break;
        default:
            break;
        }
    }
    /// In their order, in front of those that have not been told.
    void release_first_places(Lane& lane, std::size_t count) {
        std::array<PostedBuffer, wire::most_at_once> first;
        count = std::min<std::size_t>(count, lane.places.size());
        for (std::size_t i = 0; i < count; ++i) {
            first[i] = lane.places.pop_front();
        }
        while (count != 0) {
            posted_.push_front(first[--count]);
        }
    }
    /// All behind message `number`.
    void release_places_behind(Lane& lane, std::uint64_t number) {
        while (has_places(lane) && lane.places.last() > number) {
            posted_.push_front(lane.places.pop_back());
        }
    }

    [[nodiscard]] static bool may_be_placed(const Lane& lane, std::uint64_t length) noexcept {
        return has_places(lane) && !lane.in_parts && length != 0 &&
               length <= lane.places.front().room;
    }

    /// Of a message that was written directly. If the program answers at once, its peer does, too:
    /// then the place of its next message has to be there before the answer is. So it is told now,
    /// or when the program posts the buffer.
    void deliver_written(Lane& lane, const PostedBuffer& buffer, std::uint64_t length,
                         std::span<const std::byte> immediate) {
        lane.pace.is_of_writes(now_ns());
        tell_next_place(lane);
        landing_ = &lane;
        deliver(lane, buffer, length, immediate);
        landing_ = nullptr;
    }
    void tell_next_place(Lane& lane) {
        if (!has_places(lane) && lane.promised.empty() && could_tell_places(lane)) {
            send_feedback(lane, free_for(lane));
        }
    }

    /// False: it takes another moment.
    bool withdraw(Lane& lane) {
        if constexpr (writes_directly) {
            if (has_places(lane) && lane.withdrawn < lane.places.last()) {
                const auto claimed = lane.channel.withdraw(lane.places.last());
                if (!claimed) {
                    return false;
                }
                lane.withdrawn = lane.places.last();
                // The messages of the others come, in this way or another.
                release_places_behind(lane, *claimed);
            }
        }
        return true;
    }
    /// Of all lanes.
    void withdraw_before(std::chrono::steady_clock::time_point deadline) {
        for (const std::unique_ptr<Lane>& lane : lanes_) {
            while (!lane->ended && !withdraw(*lane) && lane->channel.check() == Errc::ok &&
                   std::chrono::steady_clock::now() < deadline) {
            }
        }
    }

    // ---- messages ------------------------------------------------------------------------------

    /// A message that is here whole.
    [[gnu::always_inline]] bool land(Lane& lane, std::span<const std::byte> immediate,
                                     std::span<const std::byte> data) {
        if (posted_.empty()) {
            lane.stalled = true;
            return false;
        }
        if (data.size() > posted_.front().room) [[unlikely]] {
            if (!refuse(lane, lane.handled + 1)) {
                return false;
            }
            ++lane.handled;
            return true;
        }
        const PostedBuffer buffer = posted_.pop_front();
        if (!data.empty()) {
            std::memcpy(buffer.tail, data.data(), data.size());
        }
        ++lane.handled;
        deliver(lane, buffer, data.size(), immediate);
        return true;
    }

    bool begin(Lane& lane, const wire::Start& start) {
        if (posted_.empty()) {
            lane.stalled = true;
            return false;
        }
        lane.skipping = start.length > posted_.front().room;
        if (lane.skipping) {
            if (!refuse(lane, lane.handled + 1)) {
                return false;
            }
        } else {
            lane.buffer = posted_.pop_front();
        }
        lane.in_parts = true;
        lane.length = start.length;
        lane.received = 0;
        lane.immediate = start.immediate;
        return true;
    }

    void append(Lane& lane, std::span<const std::byte> data) {
        if (!lane.skipping && !data.empty()) {
            copy_part(lane.buffer.tail + lane.received, data.data(), data.size(), lane.length);
        }
        lane.received += data.size();
        if (lane.received == lane.length) {
            ++lane.handled;
            lane.in_parts = false;
            count_refused(lane);
            if (!lane.skipping) {
                deliver(lane, lane.buffer, lane.length,
                        {lane.immediate.bytes, lane.immediate.length});
            }
        }
    }

    /// False: no correct peer offers that.
    [[nodiscard]] static bool take_offers(Lane& lane, std::span<const std::byte> record) {
        const std::size_t count = wire::count_of<wire::Start>(record, wire::most_at_once);
        if (count == 0 || !lane.promised.has_room_for(count)) {
            return false;
        }
        for (std::size_t i = 0; i < count; ++i) {
            const auto offer = wire::read_one<wire::Start>(record, i);
            if (offer.length == 0 || offer.immediate.length > limits::immediate_data_size) {
                return false;
            }
            lane.promised.push_back(
                {.buffer = {}, .length = offer.length, .immediate = offer.immediate});
        }
        return true;
    }

    /// Answers as many offers as there are buffers for. Those that wait do not keep what comes
    /// behind them from being taken: it may be the message that fills the buffer they wait for.
    void answer_offers(Lane& lane) {
        while (lane.promised.waiting() != 0 && !posted_.empty()) {
            PromisedBuffer& promised = lane.promised.first_waiting();
            if (promised.length <= posted_.front().room) {
                if (!grant(lane)) {
                    break;
                }
                continue;
            }
            if (!refuse(lane, number_of_first_waiting(lane))) {
                break;
            }
            promised.how = PromisedBuffer::How::refused;
            lane.promised.answered();
        }
        count_refused(lane);
    }
    [[nodiscard]] static std::uint64_t number_of_first_waiting(const Lane& lane) noexcept {
        const std::uint64_t coming_in_parts = lane.in_parts ? 1 : 0; // promised no more
        return lane.handled + coming_in_parts + lane.promised.answered_to() + 1;
    }

    /// Promises the next buffers to those that wait, by one record: up to one that does not fit.
    /// False: no room to say it; later.
    bool grant(Lane& lane) {
        std::array<wire::Grant, wire::most_at_once> grants;
        const std::uint32_t most =
            std::min({lane.promised.waiting(), posted_.size(), grants_at_once_});
        std::uint32_t count = 0;
        for (; count < most; ++count) {
            const PostedBuffer& buffer = posted_.at(count);
            if (lane.promised.waiting_at(count).length > buffer.room) {
                break;
            }
            wire::Grant& grant = grants[count];
            grant.number = number_of_first_waiting(lane) + count;
            if constexpr (writes_directly) {
                if (buffer.memory != nullptr &&
                    lane.channel.remote_key(buffer.memory->region(), grant.key)) {
                    grant.address = reinterpret_cast<std::uint64_t>(buffer.tail);
                }
            }
        }
        if (lane.channel.send(static_cast<std::uint8_t>(wire::Feedback::grant),
                              std::as_bytes(std::span(grants).first(count))) == Errc::again) {
            return false;
        }
        for (const wire::Grant& grant : std::span(grants).first(count)) {
            PromisedBuffer& promised = lane.promised.first_waiting();
            promised.how =
                grant.address != 0 ? PromisedBuffer::How::written : PromisedBuffer::How::parts;
            promised.buffer = posted_.pop_front();
            lane.promised.answered();
        }
        return true;
    }

    void land_promised(Lane& lane) {
        const PromisedBuffer promised = lane.promised.pop_front();
        ++lane.handled;
        count_refused(lane);
        deliver_written(lane, promised.buffer, promised.length,
                        {promised.immediate.bytes, promised.immediate.length});
    }

    /// Those whose turn it is.
    void count_refused(Lane& lane) {
        while (!lane.in_parts && !lane.promised.empty() &&
               lane.promised.front().how == PromisedBuffer::How::refused) {
            (void)lane.promised.pop_front();
            ++lane.handled;
        }
    }

    /// The oldest promised message comes in parts, if it was promised so.
    void take_promise_for_parts(Lane& lane) {
        if (!lane.promised.empty() && lane.promised.front().how == PromisedBuffer::How::parts) {
            const PromisedBuffer promised = lane.promised.pop_front();
            lane.in_parts = true;
            lane.skipping = false;
            lane.buffer = promised.buffer;
            lane.length = promised.length;
            lane.received = 0;
            lane.immediate = promised.immediate;
        }
    }

    void deliver(const Lane& lane, const PostedBuffer& buffer, std::size_t length,
                 std::span<const std::byte> immediate) {
        --outstanding_;
        if (handlers_.received != nullptr) {
            handlers_.received(handlers_.user, {.cookie = buffer.cookie,
                                                .status = Errc::ok,
                                                .offset = buffer.offset,
                                                .length = length,
                                                .immediate = immediate,
                                                .connection = connection_.get(),
                                                .producer = lane.producer});
        }
    }

    /// Tells the producer that its next message is too long. False: no room to say it; the message
    /// has to wait until there is.
    bool refuse(Lane& lane, std::uint64_t number) {
        const wire::Refused refused{.number = number};
        return lane.channel.send(static_cast<std::uint8_t>(wire::Feedback::refused),
                                 wire::as_bytes(refused)) != Errc::again;
    }

    [[nodiscard]] std::uint32_t free_for(const Lane& lane) const noexcept {
        // (What waits for a buffer is counted, and so is the buffer that it is going to get.)
        return std::min(max_posted_, posted_.size() + lane.promised.size() +
                                         (lane.filling() ? 1u : 0u) + lane.places.size());
    }

    void give_feedback(Lane& lane, bool drained, bool idle) {
        const auto unacknowledged = lane.handled - lane.told.handled;
        const bool is_time = it_is_time(lane, drained, unacknowledged) && unacknowledged != 0;
        if (idle && !is_time && !lane.feedback_due && lane.silent_with == posted_.size()) {
            return;
        }
        const std::int64_t free = free_for(lane);
        // What the producer believes to have for messages that are not here yet.
        const std::int64_t believed =
            std::int64_t{lane.told.free} - static_cast<std::int64_t>(unacknowledged);
        const bool acknowledge =
            is_time || (unacknowledged != 0 && is_enough(lane, unacknowledged));
        const bool runs_dry = free > believed && believed <= free / 2;
        // Others took the buffers that it counts on; nothing else is going on, so say so.
        const bool wrong = idle && free == 0 && believed > 0;
        // (Not if there is more to be taken out: the next one may be there already.)
        const bool places = drained && wants_more_places(lane);
        if (acknowledge || runs_dry || wrong || places || lane.feedback_due) {
            lane.silent_with = Lane::not_silent;
            send_feedback(lane, static_cast<std::uint32_t>(free));
        } else {
            lane.silent_with = idle && depends_on_posted(lane) ? posted_.size() : Lane::not_silent;
        }
    }
    /// How many buffers are posted is all, but for time, that what is told of them depends on while no
    /// record comes.
    [[nodiscard]] static bool depends_on_posted(const Lane& lane) noexcept {
        return !writes_directly ||
               (!lane.wants_places && !has_places(lane) && lane.promised.empty());
    }

    /// To say what was handled.
    [[nodiscard]] bool it_is_time(Lane& lane, bool drained, std::uint64_t unacknowledged) noexcept {
        if (!sends_packets || prompt_) {
            return drained || prompt_;
        }
        // Its producer has as much under way as it would hear of: it does not wait for that.
        const bool goes_on = unacknowledged < lane.promised.answered_to();
        // (A lane that is stalled is not polled again before a buffer is posted.)
        if (lane.handled != lane.paced) {
            lane.paced = lane.handled;
            return (lane.pace.arrived() && drained && !goes_on) || lane.stalled;
        }
        if (goes_on) {
            return lane.pace.passed(unacknowledged != 0, now_ns);
        }
        return lane.pace.idle(now_ns) || lane.stalled;
    }
    [[nodiscard]] static bool is_enough(Lane& lane, std::uint64_t unacknowledged) noexcept {
        if constexpr (sends_packets) {
            return lane.pace.is_enough(unacknowledged);
        } else {
            return unacknowledged >= tuning::acknowledge_at_most;
        }
    }
    [[nodiscard]] static std::uint64_t now_ns() noexcept {
        return static_cast<std::uint64_t>(
            std::chrono::steady_clock::now().time_since_epoch().count());
    }

    /// Not if the producer reads none of it: the last word must find room. `last`: this is it, or
    /// the last for a while.
    void send_feedback(Lane& lane, std::uint32_t free, bool last = false) {
        if (lane.channel.sent() - lane.known_confirmed >= tuning::feedback_window && !last)
            [[unlikely]] {
            lane.known_confirmed = lane.channel.confirmed();
            if (lane.channel.sent() - lane.known_confirmed >= tuning::feedback_window) {
                lane.feedback_due = true;
                return;
            }
        }
        const std::uint32_t room = next_room(lane);
        const wire::Credit credit{.handled = lane.handled,
                                  .room = room,
                                  .free = free,
                                  .uniform = all_have(lane, room) ? 1u : 0u};
        const Errc result =
            could_tell_places(lane) && places_to_tell(lane) != 0 && !last
                ? send_with_places(lane, credit)
                : lane.channel.send(static_cast<std::uint8_t>(wire::Feedback::credit),
                                    wire::as_bytes(credit));
        lane.feedback_due = result == Errc::again;
        if (result == Errc::ok) {
            lane.told = credit;
            lane.pace.told();
        }
    }

    /// With the next buffers as the places of the next messages that have none.
    Errc send_with_places(Lane& lane, const wire::Credit& credit) {
        struct {
            wire::Ahead head;
            std::array<wire::Place, wire::most_at_once> places;
        } record;
        static_assert(sizeof(record) == sizeof(record.head) + sizeof(record.places));
        const std::uint64_t first = has_places(lane) ? lane.places.last() + 1 : lane.next_number();
        record.head = {.credit = credit, .first = first};
        const std::uint32_t most = places_to_tell(lane);
        std::uint32_t count = 0;
        if constexpr (writes_directly) {
            for (; count < most; ++count) {
                const PostedBuffer& buffer = posted_.at(count);
                wire::Place& place = record.places[count];
                if (buffer.memory == nullptr ||
                    !lane.channel.remote_key(buffer.memory->region(), place.key)) {
                    break;
                }
                place.address = reinterpret_cast<std::uint64_t>(buffer.tail);
                place.room = buffer.room;
            }
        }
        lane.wants_places = count != 0;
        if (count == 0) {
            return lane.channel.send(static_cast<std::uint8_t>(wire::Feedback::credit),
                                     wire::as_bytes(credit));
        }
        const Errc result =
            lane.channel.send(static_cast<std::uint8_t>(wire::Feedback::ahead),
                              std::as_bytes(std::span(&record, 1))
                                  .first(sizeof(record.head) + count * sizeof(wire::Place)));
        if (result == Errc::ok) {
            for (std::uint32_t i = 0; i < count; ++i) {
                lane.places.push_back(posted_.pop_front(), first + i);
            }
        }
        return result;
    }

    /// Of the next buffer for a lane's messages: the one that is being filled, those that are
    /// promised, those that are free.
    [[nodiscard]] std::uint32_t next_room(const Lane& lane) const noexcept {
        if (lanes_.size() > 1) { // nobody knows which of them will be its own
            return static_cast<std::uint32_t>(limits::fast_path_buffer_size);
        }
        if (lane.filling()) {
            return lane.buffer.room;
        }
        if (!lane.promised.empty() && lane.promised.front().has_buffer()) {
            return lane.promised.front().buffer.room;
        }
        if (has_places(lane)) {
            return lane.places.front().room;
        }
        return posted_.empty() ? 0 : posted_.front().room;
    }
    [[nodiscard]] bool all_have(const Lane& lane, std::uint32_t room) const noexcept {
        return posted_.uniform() && (posted_.empty() || posted_.front().room == room) &&
               lane.promised.all_have(room) && lane.places.all_have(room);
    }

    // ---- everything else ------------------------------------------------------------------------

    unsigned attend() {
        if (attachment_ == nullptr) {
            return 0;
        }
        auto news = connection_->news(attachment_);
        unsigned handled = 0;
        if (state_ == State::starting && news.registered && news.status == Errc::ok) {
            state_ = State::running;
            report();
            ++handled;
        }
        for (auto& inbound : news.channels) {
            if (lanes_.size() >= limits::producers_per_connection) {
                make_way();
            }
            if (lanes_.size() >= limits::producers_per_connection) {
                connection_->say_broken();
                break;
            }
            auto lane = std::make_unique<Lane>();
            lane->channel = std::move(inbound.channel);
            lane->producer = inbound.producer;
            lanes_.push_back(std::move(lane));
            if (lanes_.size() == 2) {
                lanes_.front()->feedback_due = true; // it shares the buffers from now on
            }
            announced_ = true;
            ++handled;
        }
        if (news.status != Errc::ok && (state_ == State::starting || state_ == State::running)) {
            state_ = State::stopping;
            end_status_ = news.status;
            report();
            ++handled;
        }
        return handled;
    }

    /// Of producers that are gone, nobody can be told any more whether the messages arrived for which
    /// no buffer has been posted: they give way to others.
    void make_way() {
        for (const std::unique_ptr<Lane>& lane : lanes_) {
            (void)poll(*lane); // to their goodbyes
            (void)lane->channel.check();
            if (lane->stalled && !lane->ended && lane->channel.peer_gone()) {
                end_lane(*lane);
            }
        }
        sweep();
    }

    void check_lanes() {
        for (const std::unique_ptr<Lane>& lane : lanes_) {
            if (lane->channel.check() != Errc::ok && !lane->stalled && !lane->ended &&
                poll(*lane) == 0) {
                // Its producer is gone, and everything it has sent is here.
                end_lane(*lane);
            }
        }
    }

    void end_lane(Lane& lane) noexcept {
        lane.ended = true;
        has_ended_lanes_ = true;
    }

    /// The buffer of a message that will not become whole is the next free one again.
    void drop_parts(Lane& lane) {
        if (lane.filling()) {
            posted_.push_front(lane.buffer);
        }
        lane.in_parts = false;
    }

    /// All buffers of a lane that has ended are free again, in their order.
    void give_back(Lane& lane) {
        if constexpr (writes_directly) {
            // What was written before a goodbye is there.
            if (!lane.left && (lane.promised.any_written() || has_places(lane))) {
                lane.channel.cut(); // nobody writes into them any more
            }
        }
        release_places_behind(lane, 0);
        while (!lane.promised.empty()) {
            const PromisedBuffer promised = lane.promised.pop_back();
            if (promised.has_buffer()) {
                posted_.push_front(promised.buffer);
            }
        }
        drop_parts(lane);
    }

    void sweep() {
        for (const std::unique_ptr<Lane>& lane : lanes_) {
            if (lane->ended) {
                give_back(*lane);
                unwatch(*lane);
            }
        }
        std::erase_if(lanes_, [](const auto& lane) { return lane->ended; });
        has_ended_lanes_ = false;
    }

    void unwatch(Lane& lane) {
        if (lane.watched) {
            engine_.unwatch(lane.channel.event_fd());
            lane.watched = false;
        }
    }

    void close_lanes() {
        withdraw_before(std::chrono::steady_clock::now() + tuning::patience_at_end);
        for (const std::unique_ptr<Lane>& lane : lanes_) {
            give_back(*lane);
            unwatch(*lane);
            // So that its producer knows at once; if there is no room, it sees the channel end.
            (void)say_goodbye(*lane);
        }
        lanes_.clear();
    }

    /// And before it what was received. False: there is no room to say it.
    bool say_goodbye(Lane& lane) {
        if (lane.told_goodbye) {
            return true;
        }
        if (lane.told.handled != lane.handled) {
            send_feedback(lane, 0, true);
            if (lane.feedback_due) {
                return false;
            }
        }
        lane.told_goodbye = lane.channel.send(static_cast<std::uint8_t>(wire::Feedback::goodbye),
                                              {}) != Errc::again;
        return lane.told_goodbye;
    }

    /// Stopping takes some time at most, for all lanes together and however often this is called.
    bool has_time() {
        const auto now = std::chrono::steady_clock::now();
        if (!settle_until_) {
            settle_until_ = now + tuning::patience;
        }
        return now < *settle_until_;
    }

    /// Lets producers read so much that they can be told the rest. True: they know all.
    bool take_leave() {
        bool told = true;
        for (const std::unique_ptr<Lane>& lane : lanes_) {
            if (!lane->ended && !say_goodbye(*lane) && lane->channel.check() == Errc::ok &&
                has_time()) {
                told = false;
            }
        }
        return told;
    }

    /// Lets producers that are writing into our buffers end that in order. True: there are none.
    bool settle_lanes() {
        bool settled = true;
        if constexpr (writes_directly) {
            for (const std::unique_ptr<Lane>& lane : lanes_) {
                if (lane->ended) {
                    continue;
                }
                const bool withdrawn = withdraw(*lane) && !has_places(*lane);
                if (withdrawn && !lane->promised.any_written()) {
                    continue;
                }
                (void)say_goodbye(*lane);
                const unsigned taken = lane->channel.poll(
                    [&](std::uint8_t id, const std::byte* data, std::uint32_t length) {
                        const auto kind = static_cast<wire::FastPath>(id);
                        if (ends_a_write(kind) || goes_on(*lane, kind)) {
                            return on_record(*lane, id, {data, length});
                        }
                        if (has_places(*lane)) {
                            take_back_places(*lane, kind, {data, length});
                        }
                        return true;
                    },
                    tuning::poll_budget);
                if ((taken != 0 || lane->channel.check() == Errc::ok) && has_time()) {
                    settled = false;
                }
            }
        }
        return settled;
    }

    /// With a message that comes in parts, and in front of those that are written.
    [[nodiscard]] static bool goes_on(const Lane& lane, wire::FastPath id) noexcept {
        return (id == wire::FastPath::part || id == wire::FastPath::cancel) &&
               (lane.in_parts || (!lane.promised.empty() &&
                                  lane.promised.front().how == PromisedBuffer::How::parts));
    }
    [[nodiscard]] static bool ends_a_write(wire::FastPath id) noexcept {
        return id == wire::FastPath::filled || id == wire::FastPath::placed ||
               id == wire::FastPath::placing || id == wire::FastPath::goodbye;
    }

    unsigned finish() {
        if (!settle_lanes() || !take_leave()) {
            return 0;
        }
        close_lanes();
        unsigned handled = 1;
        while (!posted_.empty()) {
            const PostedBuffer buffer = posted_.pop_front();
            --outstanding_;
            ++handled;
            if (handlers_.received != nullptr) {
                handlers_.received(handlers_.user, {.cookie = buffer.cookie,
                                                    .status = end_status_,
                                                    .offset = buffer.offset,
                                                    .length = 0,
                                                    .immediate = {},
                                                    .connection = connection_.get(),
                                                    .producer = 0});
            }
        }
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
        if (notifier_->pending() || state_ == State::stopping || has_ended_lanes_) {
            return Errc::again;
        }
        idle_check_.force();
        for (const std::unique_ptr<Lane>& lane : lanes_) {
            if (lane->promised.waiting() != 0) {
                answer_offers(*lane);
                if (lane->promised.waiting() != 0 && !posted_.empty()) {
                    return Errc::again; // no room to answer
                }
            }
            lane->feedback_due |= lane->told.handled != lane->handled; // nobody polls from now on
            give_feedback(*lane, true, true);
            if (lane->feedback_due) {
                send_feedback(*lane, free_for(*lane), true);
            }
            if (has_places(*lane) && lanes_.size() > 1 && !withdraw(*lane)) {
                return Errc::again;
            }
            if (lane->stalled) {
                if (!posted_.empty()) {
                    return Errc::again;
                }
                // What waits there cannot be taken: it must not end the sleep. Whoever posts a
                // buffer is awake.
                unwatch(*lane);
                continue;
            }
            if (!lane->watched) {
                if (!engine_.watch(lane->channel.event_fd())) {
                    return Errc::again; // cannot be slept on: stay awake
                }
                lane->watched = true;
            }
            if (lane->channel.arm() != Errc::ok) {
                return Errc::again;
            }
        }
        return Errc::ok;
    }

    ProgressEngine& engine_;
    std::shared_ptr<Connection> connection_;
    std::shared_ptr<Notifier> notifier_;
    ConsumerHandlers handlers_;
    const std::uint32_t max_posted_;
    const std::uint32_t grants_at_once_;
    const std::uint32_t places_at_once_;
    const bool prompt_;
    std::uint32_t outstanding_ = 0; ///< posted, and being filled
    PostedBuffers posted_;
    std::vector<std::unique_ptr<Lane>> lanes_;
    std::size_t first_lane_ = 0;
    Lane* landing_ = nullptr; ///< whose message, directly written, the program is being told of
    IdleCheck idle_check_;
    State state_ = State::idle;
    Errc end_status_ = Errc::ok;
    bool announced_ = false;
    bool has_ended_lanes_ = false;
    std::optional<std::chrono::steady_clock::time_point> settle_until_; ///< stopping
    std::uint32_t id_ = 0;
    Attachment<Link>* attachment_ = nullptr;
};

} // namespace comch::channel
