// One connection: what its owner (a server or client) does with it on its own thread, and what
// producers and consumers on other threads share with it, under a mutex that no data path takes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <comch/capabilities.hpp>
#include <comch/connection.hpp>
#include <comch/error.hpp>
#include <fmt/format.h>

#include "core/channel/notifier.hpp"
#include "core/channel/tuning.hpp"
#include "core/channel/used_ids.hpp"
#include "core/channel/wire.hpp"
#include "core/link/link.hpp"

namespace comch::channel {

/// What the connection knows of a producer or consumer of this side. Guarded by its mutex.
template <class Link> struct Attachment {
    /// A channel that a producer of the other side opened, on its way to the consumer's thread.
    struct Inbound {
        typename Link::Channel channel;
        std::uint32_t producer = 0;

        /// Its producer is gone; `even`: though it has sent something, which nobody can tell it of.
        [[nodiscard]] bool is_over(bool even) {
            bool said_goodbye = false;
            (void)channel.poll(
                [&](std::uint8_t kind, const std::byte*, std::uint32_t) {
                    said_goodbye = kind == static_cast<std::uint8_t>(wire::FastPath::goodbye);
                    return false;
                },
                1);
            return said_goodbye || channel.check() != Errc::ok || (even && channel.peer_gone());
        }
    };

    std::shared_ptr<Notifier> notifier;
    std::uint32_t id = 0;
    bool is_consumer = false;
    bool registered = false;  ///< consumer: the other side has been told
    std::uint32_t posted = 0; ///< consumer: buffers posted when it first posted
    std::uint64_t room = 0;
    std::vector<Inbound> inbox;
    std::size_t sift_at = tuning::inbox_to_sift; ///< channels in it
};

/// A consumer of the other side.
struct RemoteConsumer {
    std::uint32_t id = 0;
    std::uint32_t posted = 0; ///< buffers it had posted when it said so; 0: none yet
    std::uint64_t room = 0;
    bool claimed = false; ///< by a producer of ours
};

template <class Link>
class ConnectionCore final : public Connection,
                             public std::enable_shared_from_this<ConnectionCore<Link>> {
public:
    using LinkConnection = typename Link::Connection;
    using LinkChannel = typename Link::Channel;
    using Attachment = channel::Attachment<Link>;

    /// Where an owner's connection is in its life.
    enum class Phase : std::uint8_t {
        connecting, ///< client: no answer yet; server: the program has not accepted
        established,
        ended, ///< nothing moves any more; kept while producers and consumers are attached
    };

    ConnectionCore(LinkKind kind, Side local_side, const link::Limits& limits,
                   std::shared_ptr<Notifier> owner)
        : Connection(kind), local_side_(local_side), limits_(limits), owner_(std::move(owner)),
          next_consumer_(local_side == Side::host ? 1 : 2) {}

    // ---- the owner's thread ---------------------------------------------------------------------

    [[nodiscard]] Phase phase() const noexcept { return phase_; }
    [[nodiscard]] LinkConnection* link() const noexcept { return link_; }
    void set_link(LinkConnection* link) noexcept {
        const std::lock_guard lock(mutex_);
        link_ = link;
    }

    void set_peer(const link::PeerInfo& peer) noexcept {
        peer_ = {.side = peer.side,
                 .function = peer.function,
                 .process_id = peer.process_id,
                 .pid = peer.pid};
    }
    void set_peer_data(std::span<const std::byte> data) {
        peer_data_.assign(data.begin(), data.end());
    }
    void establish(std::uint32_t message_size, std::uint32_t send_window) {
        const std::lock_guard lock(mutex_);
        max_message_size_ = message_size;
        send_window_ = send_window;
        status_ = Errc::ok;
        phase_ = Phase::established;
    }

    [[nodiscard]] Errc send(std::span<const std::byte> message) {
        if (phase_ != Phase::established) [[unlikely]] {
            return phase_ == Phase::connecting ? Errc::again : status_;
        }
        if (message.size() > max_message_size_) {
            return Errc::invalid_argument;
        }
        // Notes about consumers go first: they may be what the message is about.
        if (!notes_.empty() && !send_notes()) {
            return Errc::again;
        }
        refused_by_window_ = in_flight_bound() >= send_window_;
        if (refused_by_window_) {
            return Errc::again;
        }
        // Who receives an answer finds its own message confirmed.
        link_->confirm_received();
        const auto id = static_cast<std::uint8_t>(wire::Control::message);
        // To a server stamped, because it hands out in the order of arrival over all clients.
        const Errc result =
            local_side_ == Side::host ? link_->send_ordered(id, message) : send_plain(id, message);
        if (result == Errc::ok) {
            ++statistics_.sent_messages;
            statistics_.sent_bytes += message.size();
        }
        return result;
    }

    /// The last message was not sent because so many are under way: a confirmation makes room.
    [[nodiscard]] bool waits_for_confirmation() const noexcept {
        return refused_by_window_ && phase_ == Phase::established;
    }
    /// What was refused for that would be sent now. Said once.
    [[nodiscard]] bool take_room_in_window() noexcept {
        if (!waits_for_confirmation() || link_->sent() - link_->confirmed() >= send_window_) {
            return false;
        }
        refused_by_window_ = false;
        return true;
    }

    [[nodiscard]] ConnectionStatistics statistics() const {
        ConnectionStatistics result = statistics_;
        if (link_ != nullptr) {
            result.in_flight_messages = messages_in_flight();
        } else {
            result.in_flight_messages = in_flight_at_end_;
        }
        return result;
    }

    /// Sends the notes that wait; false while some still do.
    bool send_notes() {
        while (!notes_.empty() && link_ != nullptr) {
            const Note& note = notes_.front();
            const Errc result = send_plain(static_cast<std::uint8_t>(note.id), note.bytes);
            if (result == Errc::again) {
                return false;
            }
            if (result == Errc::ok) {
                note_marks_.push_back(link_->sent());
            }
            if (note.registers != 0) {
                set_registered(note.registers);
            }
            notes_.pop_front();
        }
        return true;
    }
    [[nodiscard]] bool has_notes() const noexcept { return !notes_.empty(); }

    /// The answer to a client that waits for the program's decision.
    void add_welcome(const wire::Welcome& welcome, std::span<const std::byte> data) {
        const std::span<const std::byte> head = wire::as_bytes(welcome);
        Note note{.id = wire::Control::welcome, .bytes = {head.begin(), head.end()}};
        note.bytes.insert(note.bytes.end(), data.begin(), data.end());
        notes_.push_back(std::move(note));
    }

    /// What producers and consumers of this side asked for since the last time. True if one of them
    /// found the peer breaking the protocol.
    [[nodiscard]] bool take_mail() {
        std::vector<Mail> mail;
        {
            const std::lock_guard lock(mutex_);
            mail.swap(mail_);
        }
        bool broken = false;
        for (const Mail& item : mail) {
            if (item.kind == Mail::Kind::broken) {
                broken = true;
                continue;
            }
            if (phase_ != Phase::established) {
                continue;
            }
            wire::ConsumerNote body{.consumer = item.consumer};
            Note note{.bytes = {}};
            switch (item.kind) {
            case Mail::Kind::added:
                note.id = wire::Control::consumer_added;
                note.registers = item.consumer;
                break;
            case Mail::Kind::posted:
                note.id = wire::Control::consumer_posted;
                if (!first_posted(item.consumer, body)) {
                    continue;
                }
                break;
            default:
                note.id = wire::Control::consumer_removed;
                break;
            }
            const std::span<const std::byte> bytes = wire::as_bytes(body);
            note.bytes.assign(bytes.begin(), bytes.end());
            notes_.push_back(std::move(note));
        }
        return broken;
    }

    /// The connection is over: everything attached is told and finds `status`. The link's
    /// connection, which the caller closes; null if there is none any more.
    [[nodiscard]] LinkConnection* end(Errc status) {
        in_flight_at_end_ = link_ != nullptr ? messages_in_flight() : in_flight_at_end_;
        LinkConnection* link = nullptr;
        const std::lock_guard lock(mutex_);
        link = std::exchange(link_, nullptr);
        phase_ = Phase::ended;
        status_ = status;
        notes_.clear();
        for (const std::unique_ptr<Attachment>& attachment : attachments_) {
            attachment->inbox.clear();
            attachment->notifier->notify();
        }
        return link;
    }

    void count_received(std::size_t bytes) noexcept {
        ++statistics_.received_messages;
        statistics_.received_bytes += bytes;
    }

    /// Consumers of the other side come and go. False: no correct peer says that.
    [[nodiscard]] bool add_remote(const wire::ConsumerNote& note) {
        // The peer's ids have the other parity, and are never used again.
        const bool peers =
            note.consumer != 0 && note.consumer % 2 == (local_side_ == Side::host ? 0u : 1u);
        const std::lock_guard lock(mutex_);
        if (!peers || remotes_.size() >= limits::consumers_per_connection ||
            !remote_ids_.use(note.consumer)) {
            return false;
        }
        remotes_.push_back({.id = note.consumer});
        return true;
    }
    [[nodiscard]] bool remote_posted(const wire::ConsumerNote& note) {
        const std::lock_guard lock(mutex_);
        RemoteConsumer* const remote = find_remote(note.consumer);
        if (remote == nullptr || remote->posted != 0 || note.posted == 0) {
            return false;
        }
        remote->posted = note.posted;
        remote->room = note.room;
        return true;
    }
    [[nodiscard]] bool remove_remote(const wire::ConsumerNote& note) {
        const std::lock_guard lock(mutex_);
        const bool known = std::erase_if(remotes_, [&](const RemoteConsumer& remote) {
                               return remote.id == note.consumer;
                           }) == 1;
        notify_producers();
        return known;
    }

    /// The other side's producer opened a channel to a consumer of ours. One that is gone by now is
    /// no error: the channel is closed. False: more than a correct peer opens.
    [[nodiscard]] bool deliver(std::uint64_t tag, LinkChannel&& channel) {
        std::vector<typename Attachment::Inbound> over; // closed outside the lock
        const std::lock_guard lock(mutex_);
        for (const std::unique_ptr<Attachment>& attachment : attachments_) {
            if (!attachment->is_consumer || attachment->id != wire::consumer_of(tag)) {
                continue;
            }
            // While the consumer's engine rests, producers may come, try and go.
            if (attachment->inbox.size() >=
                std::min<std::size_t>(attachment->sift_at, limits::producers_per_connection)) {
                sift(attachment->inbox, over, false);
                attachment->sift_at = std::max(tuning::inbox_to_sift, 2 * attachment->inbox.size());
            }
            if (attachment->inbox.size() >= limits::producers_per_connection) {
                sift(attachment->inbox, over, true);
            }
            if (attachment->inbox.size() >= limits::producers_per_connection) {
                return false;
            }
            attachment->inbox.push_back({std::move(channel), wire::producer_of(tag)});
            attachment->notifier->notify();
            break;
        }
        return true;
    }

    [[nodiscard]] bool has_attachments() const {
        const std::lock_guard lock(mutex_);
        return !attachments_.empty();
    }

    // ---- any thread -----------------------------------------------------------------------------

    [[nodiscard]] const link::Limits& limits() const noexcept { return limits_; }

    [[nodiscard]] std::vector<std::uint32_t> remote_consumers() const {
        const std::lock_guard lock(mutex_);
        if (phase_ == Phase::ended) {
            return {};
        }
        std::vector<std::uint32_t> ids;
        for (const RemoteConsumer& remote : remotes_) {
            ids.push_back(remote.id);
        }
        return ids;
    }

    /// For a consumer that will be opened, perhaps.
    [[nodiscard]] std::uint32_t reserve_consumer_id() {
        const std::lock_guard lock(mutex_);
        return std::exchange(next_consumer_, next_consumer_ + 2);
    }

    /// `reserved`: the consumer's id; 0: the next one.
    [[nodiscard]] Result<Attachment*> attach(bool is_consumer, std::shared_ptr<Notifier> notifier,
                                             std::uint32_t reserved = 0) {
        const std::lock_guard lock(mutex_);
        if (phase_ != Phase::established) {
            return fail(Errc::not_connected,
                        is_consumer ? "cannot open a consumer: the connection is not established"
                                    : "cannot open a producer: the connection is not established");
        }
        const auto same =
            std::count_if(attachments_.begin(), attachments_.end(), [&](const auto& attachment) {
                return attachment->is_consumer == is_consumer;
            });
        if (same >=
            (is_consumer ? limits::consumers_per_connection : limits::producers_per_connection)) {
            return fail(Errc::no_memory,
                        is_consumer ? "cannot open a consumer: the connection has as many as the "
                                      "device allows; stop one first"
                                    : "cannot open a producer: the connection has as many as the "
                                      "device allows; stop one first");
        }
        auto attachment = std::make_unique<Attachment>();
        attachments_.reserve(attachments_.size() + 1);
        if (reserved != 0 && (reserved % 2 != next_consumer_ % 2 || reserved >= next_consumer_ ||
                              !own_ids_.use(reserved))) {
            return fail(
                Errc::invalid_argument,
                fmt::format("cannot open a consumer with the id {}: it was not reserved here, "
                            "or was used already, or {} others have been used since; reserve "
                            "another",
                            reserved, UsedIds::window));
        }
        attachment->notifier = std::move(notifier);
        attachment->is_consumer = is_consumer;
        if (is_consumer) {
            attachment->id = reserved;
            if (reserved == 0) {
                attachment->id = std::exchange(next_consumer_, next_consumer_ + 2);
                (void)own_ids_.use(attachment->id);
            }
            post_mail({Mail::Kind::added, attachment->id});
        } else {
            attachment->id = next_producer_++;
        }
        attachments_.push_back(std::move(attachment));
        return attachments_.back().get();
    }

    /// A producer or consumer is done with the connection.
    void detach(Attachment* attachment) {
        std::unique_ptr<Attachment> gone; // its channels are closed outside the lock
        const std::lock_guard lock(mutex_);
        const auto found = std::find_if(attachments_.begin(), attachments_.end(),
                                        [&](const auto& a) { return a.get() == attachment; });
        gone = std::move(*found);
        attachments_.erase(found);
        if (gone->is_consumer) {
            post_mail({Mail::Kind::removed, gone->id});
        } else {
            owner_->notify(); // a client may be waiting for the last one
        }
    }

    /// A consumer has posted its first buffer.
    void say_posted(Attachment* attachment, std::uint32_t posted, std::uint64_t room) {
        const std::lock_guard lock(mutex_);
        const bool first = attachment->posted == 0;
        attachment->posted = posted;
        attachment->room = room;
        if (first) {
            post_mail({Mail::Kind::posted, attachment->id});
        }
    }

    /// The peer broke the protocol on a channel: the owner disconnects it.
    void say_broken() {
        const std::lock_guard lock(mutex_);
        post_mail({Mail::Kind::broken, 0});
    }

    /// What an attached producer or consumer needs to know when it was notified.
    struct News {
        Errc status = Errc::ok; ///< of the connection
        bool registered = false;
        std::vector<typename Attachment::Inbound> channels;
    };
    [[nodiscard]] News news(Attachment* attachment) {
        const std::lock_guard lock(mutex_);
        News result{.status = status_, .registered = attachment->registered, .channels = {}};
        result.channels.swap(attachment->inbox);
        return result;
    }

    /// What is known of a consumer of the other side.
    [[nodiscard]] std::optional<RemoteConsumer> remote(std::uint32_t id) {
        const std::lock_guard lock(mutex_);
        const RemoteConsumer* const found = find_remote(id);
        return found == nullptr ? std::nullopt : std::optional(*found);
    }

    /// The buffers that a producer with a new channel to the consumer may count on before that says
    /// what it has: those it first posted, for the first producer; for another they may be used.
    [[nodiscard]] std::uint32_t claim_posted(std::uint32_t id) {
        const std::lock_guard lock(mutex_);
        RemoteConsumer* const found = find_remote(id);
        return found == nullptr || std::exchange(found->claimed, true) ? 0 : found->posted;
    }

    /// A channel to a consumer of the other side.
    [[nodiscard]] Result<LinkChannel> open_channel(std::uint32_t producer, std::uint32_t consumer) {
        // The lock keeps the owner from closing the connection meanwhile.
        const std::lock_guard lock(mutex_);
        if (link_ == nullptr) {
            return fail(status_, "cannot open a channel: the connection has ended");
        }
        return link_->open_channel(wire::tag(producer, consumer));
    }

    // ---- the owner's own notes ------------------------------------------------------------------

    bool reported = false;     ///< the program has been told `connected`
    bool end_reported = false; ///< and, or instead, that it is over
    EndReason end_reason = EndReason::local;
    // server
    bool awaits_decision = false;  ///< `pending` was answered
    bool request_reported = false; ///< the program has been told `requested`
    bool close_when_told = false;  ///< refused, to be closed when the note is out
    wire::Hello hello;             ///< the client's, checked

private:
    /// From producers and consumers to the owner.
    struct Mail {
        enum class Kind : std::uint8_t { added, posted, removed, broken };
        Kind kind{};
        std::uint32_t consumer = 0;
    };
    /// To the peer, when the link has room.
    struct Note {
        wire::Control id{};
        std::uint32_t registers = 0; ///< the consumer that runs once this is sent
        std::vector<std::byte> bytes;
    };

    /// Those that were told `again`, and may be asleep, get another answer now.
    void notify_producers() { // under the lock
        for (const std::unique_ptr<Attachment>& attachment : attachments_) {
            if (!attachment->is_consumer) {
                attachment->notifier->notify();
            }
        }
    }
    void post_mail(Mail mail) { // under the lock
        mail_.push_back(mail);
        owner_->notify();
    }

    /// Takes channels out whose producers are gone (Inbound::is_over).
    static void sift(std::vector<typename Attachment::Inbound>& inbox,
                     std::vector<typename Attachment::Inbound>& over, bool even) {
        const auto gone = std::stable_partition(
            inbox.begin(), inbox.end(), [&](auto& inbound) { return !inbound.is_over(even); });
        over.insert(over.end(), std::move_iterator(gone), std::move_iterator(inbox.end()));
        inbox.erase(gone, inbox.end());
    }

    [[nodiscard]] RemoteConsumer* find_remote(std::uint32_t id) { // under the lock
        const auto found = std::find_if(remotes_.begin(), remotes_.end(),
                                        [&](const auto& remote) { return remote.id == id; });
        return found == remotes_.end() ? nullptr : &*found;
    }

    [[nodiscard]] bool first_posted(std::uint32_t consumer, wire::ConsumerNote& note) {
        const std::lock_guard lock(mutex_);
        for (const std::unique_ptr<Attachment>& attachment : attachments_) {
            if (attachment->is_consumer && attachment->id == consumer) {
                note.posted = attachment->posted;
                note.room = attachment->room;
                return true;
            }
        }
        return false;
    }

    void set_registered(std::uint32_t consumer) {
        const std::lock_guard lock(mutex_);
        for (const std::unique_ptr<Attachment>& attachment : attachments_) {
            if (attachment->is_consumer && attachment->id == consumer) {
                attachment->registered = true;
                attachment->notifier->notify();
            }
        }
    }

    [[nodiscard]] Errc send_plain(std::uint8_t id, std::span<const std::byte> bytes) {
        const Errc result = link_->send(id, bytes);
        if (result != Errc::too_big) [[likely]] {
            return result;
        }
        const auto length = static_cast<std::uint32_t>(bytes.size());
        const std::int64_t packed = link_->send_packed(id, length, [&](std::byte* to) {
            std::memcpy(to, bytes.data(), bytes.size());
            return length;
        });
        return packed >= 0 ? Errc::ok : static_cast<Errc>(-packed);
    }

    /// Messages in flight at most: exact only when that matters, since asking the link for what was
    /// confirmed takes a line that the peer writes.
    [[nodiscard]] std::uint64_t in_flight_bound() {
        if (link_->sent() - known_confirmed_ >= send_window_) {
            known_confirmed_ = link_->confirmed();
            if (link_->sent() - known_confirmed_ >= send_window_) {
                link_->hurry_confirmation();
            }
        }
        return link_->sent() - known_confirmed_;
    }

    [[nodiscard]] std::uint64_t messages_in_flight() const {
        const std::uint64_t confirmed = link_->confirmed();
        if (confirmed != looked_at_confirmed_ || confirmed == link_->sent()) {
            looked_at_confirmed_ = confirmed;
            looks_ = 0;
        } else if (++looks_ >= tuning::patient_looks) {
            looks_ = 0;
            link_->hurry_confirmation(); // the caller waits for it
        }
        // Notes travel among the messages and are not the program's.
        while (!note_marks_.empty() && note_marks_.front() <= confirmed) {
            note_marks_.pop_front();
        }
        return link_->sent() - confirmed - note_marks_.size();
    }

    const Side local_side_;
    const link::Limits limits_;
    LinkConnection* link_ = nullptr; ///< written by the owner, under the lock
    Phase phase_ = Phase::connecting;
    std::uint32_t send_window_ = 0;
    std::uint64_t known_confirmed_ = 0;
    bool refused_by_window_ = false;
    std::uint64_t in_flight_at_end_ = 0;
    std::deque<Note> notes_;
    mutable std::deque<std::uint64_t> note_marks_; ///< link positions of unconfirmed notes
    mutable std::uint64_t looked_at_confirmed_ = 0;
    mutable unsigned looks_ = 0; ///< at messages in flight, that found the same as before

    mutable std::mutex mutex_; ///< guards what follows, and writing link_, phase_ and status_
    std::shared_ptr<Notifier> owner_;
    std::vector<Mail> mail_;
    std::vector<std::unique_ptr<Attachment>> attachments_;
    std::vector<RemoteConsumer> remotes_;
    UsedIds remote_ids_; ///< of the other side's consumers
    UsedIds own_ids_;    ///< of ours, as the other side sees it
    std::uint32_t next_consumer_;
    std::uint32_t next_producer_ = 1;
};

} // namespace comch::channel
