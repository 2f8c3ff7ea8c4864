// What two endpoints say to each other, as messages of one connection of the core.
//
// A message's id says what it is (the low five bits: Kind) and which optional words follow the
// kind's header: the tag, the remote CQ data, and the name of the sender's operation if the sender
// wants to hear of its delivery - in this order, eight bytes each. The payload is the rest. So a
// message of up to 56 bytes, or a tagged one of up to 48, is one line of the ring.
//
// A message that is longer than one of the core's may come in parts: what it would be if it were
// one message is cut, behind those words, and the parts follow each other, with nothing of the
// program's between them. Who gives it up while it is coming says `done` when all of it has come.
//
// Longer messages, writes and reads name a registered range of the requester's memory (region,
// address); the other end moves the data with the core's one-sided get or put when it is ready for
// it, and says `done`.
//
// An operation's name is index + 1 | generation << 32 in the requester's table, so 0 names none and
// a late answer finds nobody. What comes from a peer is copied out, checked, and the copy is used.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace comch::ofi::wire {

static_assert(std::endian::native == std::endian::little,
              "the layout is little-endian; a big-endian port needs conversions here");

inline constexpr std::uint32_t version = 5;

enum class Kind : std::uint8_t {
    message = 1,      ///< payload
    long_message = 2, ///< LongMessage
    done = 3,         ///< Done: of any operation that had a name
    write = 4,        ///< Remote, payload
    long_write = 5,   ///< Remote, Source
    read = 6,         ///< Remote, Length: answered by read_reply or done
    long_read = 7,    ///< Remote, Source: where to put the data
    read_reply = 8,   ///< Reply, payload: also of atomics
    atomic = 9,       ///< Remote, Atomic, operands, compare operands
    accept = 10,      ///< connection data: a connected endpoint's program accepted
    reject = 11,      ///< connection data
    parts = 12,  ///< Length of a message, from its tag on, then as much of it as there is room for
    part = 13,   ///< the next bytes of that message
    region = 14, ///< Region: an answer to wants_region
    name = 15,   ///< Name, its characters: before all else by a datagram endpoint that connected
};

inline constexpr std::uint8_t kind_mask = 0x1f;
inline constexpr std::uint8_t has_tag = 0x20;
inline constexpr std::uint8_t has_data = 0x40;
inline constexpr std::uint8_t wants_done = 0x80;
/// Of reads and writes: the requester's device could do this by itself if it knew of the memory.
inline constexpr std::uint8_t wants_region = has_tag;

/// Memory of this end's program, registered for this operation.
struct Source {
    std::uint64_t length;
    std::uint64_t region;
    std::uint64_t address;
    std::uint64_t link_data; ///< RegionKey's
};

struct LongMessage {
    std::uint64_t operation;
    Source source;
};

struct Done {
    std::uint64_t operation;
    std::uint32_t status;    ///< Errc
    std::uint32_t of_atomic; ///< 1: it was one, which the sender of an injected one cannot know
};

/// Memory of the other end's program.
struct Remote {
    std::uint64_t key;
    std::uint64_t address; ///< virtual, or an offset: as the owner's domain has it
    std::uint64_t operation;
};

/// Memory of this end's program that the other end's device may read or write by itself, as long as
/// the program keeps it registered; its key is not used again.
struct Region {
    std::uint64_t key;
    std::uint64_t address; ///< of its first byte, as in Remote
    std::uint64_t base;    ///< RegionKey's, as what follows
    std::uint64_t length;
    std::uint64_t region;
    std::uint64_t link_data;
    std::uint32_t access;
    std::uint32_t reserved;
};

struct Length {
    std::uint64_t length;
};

/// What the sender listens under. It is not part of the Hello, for that stays as long as it always
/// was: endpoints of other versions look at its length first, and then say which version they are.
struct Name {
    std::uint32_t function; ///< the host function that the name lies under
};
inline constexpr std::uint32_t max_name = 119;

/// The longest message that may come in parts; and with tag, remote CQ data and operation.
inline constexpr std::uint64_t max_payload_in_parts = 65536;
inline constexpr std::uint64_t max_in_parts = max_payload_in_parts + 3 * 8;

struct Reply {
    std::uint64_t operation;
};

struct Atomic {
    std::uint32_t count;
    std::uint8_t op;       ///< fi_op
    std::uint8_t datatype; ///< fi_datatype
    std::uint8_t fetches;  ///< 1: the old values are wanted
    std::uint8_t compares; ///< 1: compare operands follow the operands
};

static_assert(sizeof(LongMessage) == 40 && sizeof(Done) == 16 && sizeof(Remote) == 24 &&
              sizeof(Source) == 32 && sizeof(Length) == 8 && sizeof(Reply) == 8 &&
              sizeof(Atomic) == 8 && sizeof(Region) == 56 && sizeof(Name) == 4);
static_assert(std::is_trivially_copyable_v<LongMessage> && std::is_trivially_copyable_v<Remote> &&
              std::is_trivially_copyable_v<Atomic>);

/// Private data of a connection's request; a program's connection data follows.
struct Hello {
    std::uint32_t magic;
    std::uint32_t version;
    std::uint32_t endpoint_type; ///< fi_ep_type
    std::uint32_t data_length;   ///< of the program's connection data
    std::uint8_t port[16];       ///< where the sender's endpoint can be reached
    std::uint32_t function;      ///< the host function that the sender's names lie under
    std::uint32_t reserved;
};
/// And of its answer.
struct HelloReply {
    std::uint32_t magic;
    std::uint32_t version;
    std::uint8_t port[16];
};
inline constexpr std::uint32_t hello_magic = 0x49464f43; // "COFI"
inline constexpr std::uint32_t max_connection_data = 192;

/// Answers lie at the end that owes them until the other takes them. What a program may ask for
/// before that by reads, writes and atomics: bytes of answers, each with so many more for its
/// header and what keeps it. And what is owed at most: far more, for answers to messages, which are
/// not asked for so, lie there as well.
inline constexpr std::uint64_t max_unanswered = std::uint64_t{4} << 20;
inline constexpr std::uint64_t answer_overhead = 128;
inline constexpr std::uint64_t max_owed = 16 * max_unanswered;
/// Messages whose answers may lie there, from one sender: a seventh of that.
inline constexpr std::uint64_t max_unconfirmed = 65536;
static_assert(sizeof(Hello) == 40 && sizeof(HelloReply) == 24);

} // namespace comch::ofi::wire
