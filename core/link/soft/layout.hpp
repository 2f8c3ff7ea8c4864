// The soft link's shared memory: plain structs, apart from the code that works on them
// (ring_writer.hpp, ring_reader.hpp).
//
// One segment (a sealed memfd) per channel, made by the initiator and handed over with its first
// packet. It holds both directions; direction 0 is initiator -> acceptor.
//
//   0     SegmentHeader
//   128   Direction[2]: the control lines of each
//   4096  ring of direction 0: `cells` cells of 32 bytes, two in a cache line
//         ring of direction 1
//
// A ring carries records. A record is one cell or several consecutive ones: an 8-byte header word,
// then the payload, contiguous; a record never wraps (a pad record fills the end of the ring). What
// moves from CPU to CPU is lines. A record of up to 56 payload bytes moves in one; up to 24, the next
// record may be in the same. Whether it is, the writer decides (`fills_line`).
//
// The header word says "I am new" by the lap number in it: the reader at absolute cell position p
// expects tag(p). For this to be sound no stale bytes at a position where the reader will look may
// equal the tag it expects. Cells that were last written as the *inside* of a longer record hold
// arbitrary bytes; so before the writer publishes a record it zeroes the word behind it if that cell
// was last used so, or may have been (which lines begin with such bytes RingWriter knows, in private
// memory). The zero is
// ordered before the record by the record's release store, and the reader looks there only after
// its acquire load has seen the record. Tags are never 0.
//
// All integers are little-endian.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/link/records.hpp"

namespace comch::link::soft {

static_assert(std::endian::native == std::endian::little,
              "the layout is little-endian; a big-endian port needs conversions here");
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::uint32_t protocol_version = 10; ///< of everything in this file and wire.hpp
inline constexpr std::uint32_t line_size = 64;       ///< of the CPUs' caches
inline constexpr std::uint32_t cell_size = 32;
inline constexpr std::uint32_t ring_offset = 4096;

/// Written once by the initiator before the segment is handed over; copied and checked once.
struct SegmentHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t cells; ///< per direction; a power of two
    std::uint8_t reserved[112];
};
inline constexpr std::uint64_t segment_magic = 0x3147455348434d43; // "CMCHSEG1"

/// How a ring's writer ends.
enum class Goodbye : std::uint32_t {
    none = 0,
    orderly = 1,
    refusal = 2, ///< it refused an operation, and there was no room to say so
};

/// Control lines of one direction. Each field has one writer, except the two requests for a doorbell
/// (`armed`, `wants_credit`), which whoever rings the bell takes back, and `claims`. 128 apart, because
/// adjacent-line prefetchers move lines in pairs.
struct Direction {
    /// Written by the ring's reader, read by its writer only when it runs out of credit.
    struct alignas(128) Consumer {
        std::atomic<std::uint64_t> cells;    ///< cells taken out, ever
        std::atomic<std::uint64_t> bulk;     ///< bulk-ring position taken out, ever
        std::atomic<std::uint64_t> messages; ///< data records taken out, ever
    } consumer;
    /// Written by the ring's writer.
    struct alignas(128) Producer {
        std::atomic<std::uint32_t> closed;       ///< Goodbye; unless 0, no record follows
        std::atomic<std::uint32_t> wants_credit; ///< 1: ring my doorbell when you return credit
        std::atomic<std::uint64_t> withdrawn;    ///< gets in cells before this one need no answer
        std::atomic<std::uint32_t> thread; ///< of the writer's, for the kernel to find its memory by; or 0
    } producer;
    /// Long gets that both ends copy (joint_copy.hpp): asked for by the ring's writer.
    struct alignas(128) Joint {
        std::atomic<std::uint64_t> claims;           ///< both ends'
        alignas(64) std::atomic<std::uint64_t> done; ///< the ring's reader's
    } joint[joint_gets];
    /// Who executes the puts in the ring (put_claims.hpp).
    struct alignas(128) Puts {
        std::atomic<std::uint64_t>
            withdrawn; ///< the writer's: those in cells before this one are its own
        alignas(64) std::atomic<std::uint64_t> begun; ///< the reader's: cell of the one at hand +
                                                      ///< 1; 0: none
        std::atomic<std::uint64_t> executed;          ///< the reader's: cell of the last one + 1
    } puts;
    /// Set by the ring's reader before it sleeps; taken back by the writer that rings the bell.
    struct alignas(128) Doorbell {
        std::atomic<std::uint32_t> armed;
    } doorbell;
};

struct SegmentControl {
    SegmentHeader header;
    Direction direction[2];
};

static_assert(sizeof(SegmentHeader) == 128);
static_assert(joint_gets == 2 && sizeof(Direction) == 768 && offsetof(Direction, producer) == 128 &&
              offsetof(Direction, joint) == 256 && offsetof(Direction::Joint, done) == 64 &&
              offsetof(Direction, puts) == 512 && offsetof(Direction::Puts, begun) == 64 &&
              offsetof(Direction, doorbell) == 640);
static_assert(sizeof(SegmentControl) == 128 + 2 * 768 && sizeof(SegmentControl) <= ring_offset);
static_assert(std::is_standard_layout_v<SegmentControl>);

/// Flag in the kind byte: the payload of a data record begins with an 8-byte time stamp
/// (CLOCK_MONOTONIC, ns, taken before publishing).
inline constexpr std::uint8_t kind_stamped = 0x80;

/// Flag in a header's length: the next record begins with the next line.
inline constexpr std::uint16_t fills_line = 0x8000;

/// The header word, in the order of its bits: tag 32, length 16, id 8, kind 8.
struct Header {
    std::uint32_t tag;
    std::uint16_t length; ///< payload bytes in the ring | flag
    std::uint8_t id;      ///< the user's
    std::uint8_t kind;    ///< Kind | flags
};

[[nodiscard]] constexpr std::uint64_t pack(Header h) noexcept {
    return std::uint64_t{h.tag} | std::uint64_t{h.length} << 32 | std::uint64_t{h.id} << 48 |
           std::uint64_t{h.kind} << 56;
}
[[nodiscard]] constexpr Header unpack(std::uint64_t word) noexcept {
    return {static_cast<std::uint32_t>(word), static_cast<std::uint16_t>(word >> 32),
            static_cast<std::uint8_t>(word >> 48), static_cast<std::uint8_t>(word >> 56)};
}

/// The tag expected at absolute cell position `position`; the top bit keeps it from being 0.
[[nodiscard]] constexpr std::uint32_t tag_at(std::uint64_t position, unsigned log2_cells) noexcept {
    return static_cast<std::uint32_t>(position >> log2_cells) | 0x80000000u;
}

/// The longest payload of a record of one cell, and of one line.
inline constexpr std::uint32_t cell_payload = cell_size - sizeof(std::uint64_t);
inline constexpr std::uint32_t line_payload = line_size - sizeof(std::uint64_t);
inline constexpr std::uint32_t line_cells = line_size / cell_size;

/// Cells for `length` payload bytes.
[[nodiscard]] constexpr std::uint32_t cells_for(std::uint32_t length) noexcept {
    return (length + 8 + cell_size - 1) / cell_size;
}

/// Of a header's length, what is the payload's.
[[nodiscard]] constexpr std::uint16_t payload_length(std::uint16_t length) noexcept {
    return length & static_cast<std::uint16_t>(~fills_line);
}

/// The position behind a record at `position`; `length` as in its header.
[[nodiscard]] constexpr std::uint64_t end_of(std::uint64_t position,
                                             std::uint16_t length) noexcept {
    const std::uint64_t end = position + cells_for(payload_length(length));
    return end + ((length & fills_line) != 0 ? end & 1 : 0);
}

/// A payload in the bulk ring. The reader checks that it is where the next one may be: in a line behind the
/// last one, what lies between being left out, or in the first of all. (It need not begin with the line: copying is faster if what
/// follows a header does.)
struct BulkRef {
    std::uint32_t offset;
    std::uint32_t length;
};

static_assert(sizeof(BulkRef) == 8);

/// Bytes of its lines.
[[nodiscard]] constexpr std::uint64_t bulk_room(const BulkRef& ref) noexcept {
    const std::uint64_t bytes = std::uint64_t{ref.offset % line_size} + ref.length;
    return (bytes + line_size - 1) & ~std::uint64_t{line_size - 1};
}
/// Where in its first line a payload is to begin.
[[nodiscard]] constexpr std::uint32_t lead_for(std::uint32_t data_at) noexcept {
    return (line_size - data_at % line_size) % line_size;
}

} // namespace comch::link::soft
