// What the channel layer says to its peer: plain structs on top of the link's messages.
//
// Everything is little-endian and fixed-width. A receiver copies a struct out with read(), checks
// every field, and uses only the copy; what does not check ends the connection.
//
//   connection set-up   Hello in the link's private data; Welcome in the answer's
//   connection          Control ids
//   channel             FastPath ids, producer -> consumer; Feedback ids, consumer -> producer
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include <comch/capabilities.hpp>
#include <comch/channel.hpp>

#include "core/link/link.hpp"

namespace comch::channel::wire {

static_assert(std::endian::native == std::endian::little,
              "the layout is little-endian; a big-endian port needs conversions here");

inline constexpr std::uint32_t magic = 0x314c4843; ///< "CHL1"
inline constexpr std::uint16_t version = 6;        ///< of everything in this file

/// A copy of the T at the front of `bytes`, if they are long enough.
template <class T> [[nodiscard]] std::optional<T> read(std::span<const std::byte> bytes) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    if (bytes.size() < sizeof(T)) {
        return std::nullopt;
    }
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
}

/// How many T there are, and nothing else: 1 to `most`. 0 if that is not so.
template <class T>
[[nodiscard]] std::size_t count_of(std::span<const std::byte> bytes, std::size_t most) noexcept {
    return bytes.size() % sizeof(T) == 0 && bytes.size() / sizeof(T) <= most
               ? bytes.size() / sizeof(T)
               : 0;
}
/// A copy of number `i` of them.
template <class T>
[[nodiscard]] T read_one(std::span<const std::byte> bytes, std::size_t i) noexcept {
    return *read<T>(bytes.subspan(i * sizeof(T)));
}

template <class T> [[nodiscard]] std::span<const std::byte> as_bytes(const T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T>);
    return std::as_bytes(std::span<const T, 1>(&value, 1));
}

// ---- connection set-up --------------------------------------------------------------------------

/// The client's request; then `data_length` bytes of the program's.
struct Hello {
    std::uint32_t magic = wire::magic;
    std::uint16_t version = wire::version;
    std::uint16_t data_length = 0;
    std::uint32_t message_size = 0; ///< the longest control message, 0: not set
    std::uint32_t recv_queue = 0;   ///< control messages that the server may have under way
};
static_assert(sizeof(Hello) == 16);
static_assert(sizeof(Hello) + max_connect_data <= link::max_private_data);

/// What became of the request.
enum class Answer : std::uint8_t {
    accepted = 1,
    pending = 2, ///< the program has not decided; another Welcome comes as Control::welcome
    refused = 3,
};

/// The server's answer; then `data_length` bytes of the program's.
struct Welcome {
    std::uint32_t magic = wire::magic;
    std::uint16_t version = wire::version;
    std::uint16_t data_length = 0;
    std::uint32_t message_size = 0; ///< what holds for the connection
    std::uint32_t recv_queue = 0;   ///< control messages that the client may have under way
    std::uint8_t answer = 0;        ///< Answer
    std::uint8_t refusal = 0;       ///< Refusal
    std::uint8_t reserved[6] = {};
};
static_assert(sizeof(Welcome) == 24 && offsetof(Welcome, answer) == 16);
static_assert(sizeof(Welcome) + max_connect_data <= link::max_private_data);

// ---- on the connection --------------------------------------------------------------------------

/// The link's message id.
enum class Control : std::uint8_t {
    message = 1,          ///< the program's
    welcome = 2,          ///< Welcome, when the first answer was `pending`
    consumer_added = 3,   ///< ConsumerNote
    consumer_posted = 4,  ///< ConsumerNote; once, when it has posted its first buffer
    consumer_removed = 5, ///< ConsumerNote
};

struct ConsumerNote {
    std::uint32_t consumer = 0; ///< odd ids are the client's, even ones the server's; never reused
    std::uint32_t posted = 0;   ///< consumer_posted: buffers posted by now
    std::uint64_t room = 0;     ///< consumer_posted: room in the first of them
};
static_assert(sizeof(ConsumerNote) == 16);

// ---- on a producer-consumer channel -------------------------------------------------------------

/// The channel's tag: who sends to whom.
[[nodiscard]] constexpr std::uint64_t tag(std::uint32_t producer, std::uint32_t consumer) noexcept {
    return std::uint64_t{producer} << 32 | consumer;
}
[[nodiscard]] constexpr std::uint32_t producer_of(std::uint64_t tag) noexcept {
    return static_cast<std::uint32_t>(tag >> 32);
}
[[nodiscard]] constexpr std::uint32_t consumer_of(std::uint64_t tag) noexcept {
    return static_cast<std::uint32_t>(tag);
}

/// Producer to consumer. A message is one record (plain or with_immediate); or a `start` followed
/// by `part`s until its length is reached or a `cancel` gives it up; or, on links where the
/// producer can write into the consumer's memory, it is offered: an `offer` is for one message or
/// several in a row. Each of them is answered by a Grant, of which a record has one or several, or
/// by a Refused. If a place was granted, the producer writes there and says `filled`; if not,
/// `part`s follow, or a `cancel`. The bytes of messages do not interleave: offers may be sent ahead,
/// but nothing else is while one of them is open, and what follows their answers is in their order.
/// Both ends number messages from 1.
///
/// The places of the next messages may be told before they are offered (Feedback::ahead). If the
/// producer claims one in time (link.hpp), it writes there and says `placed`; or `placing`, writes,
/// and `filled`. If it sends that message in any other way, the place is the consumer's again.
enum class FastPath : std::uint8_t {
    plain = 1,          ///< the message, nothing else: 8 bytes stay 8 bytes
    with_immediate = 2, ///< Immediate, then the message
    start = 3,          ///< Start
    part = 4,           ///< the next bytes
    cancel = 5,         ///< nothing
    goodbye = 6,        ///< nothing; the producer stopped
    offer = 7,          ///< Starts, up to most_at_once
    filled = 8,         ///< nothing; the oldest message with a granted place is there
    placed = 9,         ///< nothing; a message is in its place told ahead, as long as its one write
    placing = 10,       ///< Start; a message is going to be written there
};

/// Fixed size, so that the message behind it is aligned for copying.
struct Immediate {
    std::uint8_t length = 0; ///< <= 32
    std::uint8_t reserved[7] = {};
    std::byte bytes[limits::immediate_data_size] = {};
};
static_assert(sizeof(Immediate) == 40 && offsetof(Immediate, bytes) == 8);

struct Start {
    std::uint64_t length = 0; ///< of the whole message
    Immediate immediate;
};
static_assert(sizeof(Start) == 48);

/// Messages that are offered, or granted a place, by one record: where each record is a packet, so
/// many long messages share what they cost.
inline constexpr std::size_t most_at_once = 32;
/// As many T as fit a message of `length` bytes, if that is less; at least one does.
template <class T> [[nodiscard]] constexpr std::uint32_t at_once(std::size_t length) noexcept {
    const std::size_t fit = length / sizeof(T);
    return static_cast<std::uint32_t>(fit < most_at_once ? fit : most_at_once);
}

/// Consumer to producer.
enum class Feedback : std::uint8_t {
    credit = 33,  ///< Credit
    refused = 34, ///< Refused
    goodbye = 35, ///< nothing; the consumer stopped
    grant = 36,   ///< Grants, up to most_at_once
    ahead = 37,   ///< Ahead, then Places, up to most_at_once
};

/// Cumulative: a later record replaces an earlier one.
struct Credit {
    std::uint64_t handled = 0; ///< messages of this channel that landed, were refused or given up
    std::uint64_t room = 0;    ///< in the next free buffer; meaningless if there is none
    std::uint32_t free = 0;    ///< buffers for the messages after those, while no other producer
                               ///< of the consumer takes them
    std::uint32_t uniform = 0; ///< 1: all of them have this room
};
static_assert(sizeof(Credit) == 24);

/// Where an offered message may be written, until it is said to be filled.
struct Grant {
    std::uint64_t number = 0;  ///< the message
    std::uint64_t address = 0; ///< 0: nowhere; it has to come in parts
    std::uint64_t key = 0;     ///< what the link's write() wants
};
static_assert(sizeof(Grant) == 24);

/// Credit, and where some messages may be written that have not been sent yet: `first` and those
/// behind it, one place each, behind all places that were told before.
struct Ahead {
    Credit credit;
    std::uint64_t first = 0; ///< > credit.handled
};
static_assert(sizeof(Ahead) == 32);

/// For a message that fits, and if it is claimed in time.
struct Place {
    std::uint64_t address = 0;
    std::uint64_t key = 0; ///< what the link's write() wants
    std::uint64_t room = 0;
};
static_assert(sizeof(Place) == 24);
/// Places that a consumer keeps for one producer at a time, at most: the numbers of their messages
/// are less than that apart.
inline constexpr std::uint32_t most_ahead = 512;

/// The message was longer than the room in the next free buffer. Comes before the Credit that
/// counts it as handled.
struct Refused {
    std::uint64_t number = 0;
};
static_assert(sizeof(Refused) == 8);

} // namespace comch::channel::wire
