// What the verbs link says to its peer: private data of rdma_cm, first records, record headers.
// Plain structs, little-endian and fixed-width; each is copied out, checked, and the copy is used.
//
//   initiator                                   acceptor
//   rdma_connect      Request (56 bytes)  ->    magic, version, domain, target, address: or Refusal
//                 <-  Accept                    the acceptor's credit for the initiator
//   first record      Hello               ->    full names compared, the sink asked
//                 <-  Welcome                   its answer; established, or refused
//
// A channel's queue pair is made the same way: Request of kind `channel`, then Attach.
//
// rdma_cm pads private data, so every struct carries its own size. The first 8 bytes of each stay as
// they are for ever, so that any two versions can tell each other that they do not match.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "core/link/link.hpp"
#include "core/link/records.hpp"

namespace comch::link::verbs::wire {

static_assert(std::endian::native == std::endian::little,
              "the layout is little-endian; a big-endian port needs conversions here");

inline constexpr std::uint32_t magic = 0x31564d43; // "CMV1"
inline constexpr std::uint16_t version = 4;        ///< of everything in this file and records.hpp
inline constexpr std::size_t max_request = 56;     ///< rdma_cm takes no more in a request

enum class Target : std::uint8_t {
    port = 1,    ///< the port itself
    service = 2, ///< a name that it listens under
    channel = 3, ///< an established connection, for a channel under it
};

struct Request {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint8_t size;
    std::uint8_t target;  ///< Target
    std::uint64_t domain; ///< first 8 bytes of the domain's id
    std::uint64_t name;   ///< port: its number; service: service_hash(); channel: its token
    std::uint64_t process_id;
    std::uint64_t tag;      ///< channel
    std::uint32_t function; ///< that the initiator opened; held against its address
    std::uint8_t side;
    std::uint8_t one_way; ///< the acceptor's records are replies only
    std::uint8_t reserved[10];
};

/// Where the sender of this takes credit (Page), and how many records may be sent to it at first.
struct Credential {
    std::uint64_t address;
    std::uint32_t key;
    std::uint32_t limit;
};

struct Accept {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint8_t size;
    std::uint8_t reserved;
    Credential credit;
};

enum class Why : std::uint8_t {
    none = 0, ///< it is not refused; never sent
    version_mismatch = 1,
    other_name = 2,     ///< another server is at this port: try the next
    nobody = 3,         ///< another port is at this address by now, or the server is gone
    wrong_function = 4, ///< the address is not that of the claimed function
    closing = 5,        ///< the connection that a channel was for has been closed in an orderly way
    no_resources = 6,
    malformed = 7,
};

struct Refusal {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint8_t size;
    std::uint8_t why; ///< Why
};

/// With every record, as its immediate data: so the payload is all that is in the packet, and what
/// fits one packet of the device is one. The credit in it is of the other direction, the low bits
/// of each number: what is under way are far fewer than these count (max_limit). So they say what
/// they mean to who has seen all before them (Pipe::look_at_credit()), and to nobody later.
struct Header {
    std::uint8_t kind = 0; ///< link::Kind, or Control; 6 bits
    std::uint8_t id = 0;   ///< the user's
    /// One of the records below is being handled: its buffer is not free yet. All others' are.
    bool at_hand = false;
    std::uint16_t records = 0; ///< of the receiver's that have come, ever; 9 bits
    std::uint8_t messages = 0; ///< of these, messages

    /// As immediate data, whose bytes the device leaves in their order: from the lowest, id, messages,
    /// records, and kind with at_hand and the ninth bit of records.
    [[nodiscard]] constexpr std::uint32_t pack() const noexcept {
        return id | std::uint32_t{messages} << 8 | (records & 0xffu) << 16 |
               std::uint32_t{kind} << 24 | (at_hand ? 1u << 30 : 0) | (records & 0x100u) << 23;
    }
    [[nodiscard]] static constexpr Header unpack(std::uint32_t word) noexcept {
        return {.kind = kind_of(word),
                .id = static_cast<std::uint8_t>(word),
                .at_hand = (word & 1u << 30) != 0,
                .records = static_cast<std::uint16_t>((word >> 16 & 0xff) | (word >> 23 & 0x100)),
                .messages = static_cast<std::uint8_t>(word >> 8)};
    }
    [[nodiscard]] static constexpr std::uint8_t kind_of(std::uint32_t word) noexcept {
        return word >> 24 & 0x3f;
    }
    /// The credit in it: all but kind and id.
    [[nodiscard]] static constexpr std::uint32_t credit_of(std::uint32_t word) noexcept {
        return word & 0xc0ffff00;
    }
};
inline constexpr unsigned records_bits = 9;
inline constexpr unsigned messages_bits = 8;
/// Of records under way: less than half of what the bits count.
inline constexpr std::uint32_t max_limit = 127;

/// Records beside link::Kind's.
enum class Control : std::uint8_t {
    hello = 32,
    welcome = 33,
    attach = 34,
    ask = 47,              ///< nothing, credited: return credit now, somebody waits for it
    first_uncredited = 48, ///< from here on: sent without credit
    want_credit = 48,      ///< WantCredit: ring the bell when there is more than that
    bell = 49,             ///< nothing; the header says it
    goodbye = 50,          ///< nothing; no record follows
};
[[nodiscard]] constexpr bool is_credited(std::uint8_t kind) noexcept {
    return kind < static_cast<std::uint8_t>(Control::first_uncredited);
}

/// What a receiver writes by RDMA into its sender's memory.
struct Credit {
    std::uint64_t records;
    std::uint64_t messages;
    std::uint64_t limit;
};

/// The page of a pipe that its peer may write to, and read.
struct Page {
    alignas(64) Credit credit; ///< the peer writes it
    /// Places of the peer's memory that its device was told to write to (link.hpp, claim()): up to
    /// which the peer has withdrawn them, which it writes, and up to which they have been claimed,
    /// which it reads. Each is on a line of its own.
    alignas(64) std::uint64_t withdrawn;
    alignas(64) std::uint64_t claimed;
    // The owner's own, for its device to read from and write to.
    alignas(64) Credit credit_to_write;
    alignas(64) std::uint64_t withdrawn_to_write;
    alignas(64) std::uint64_t claimed_that_was_read;
};

struct WantCredit {
    std::uint64_t records; ///< what the asker knows of
};

struct Hello {
    std::uint64_t process_id;
    std::uint64_t pid;
    std::uint64_t token;  ///< names the connection in requests for channels to the sender of this
    std::uint64_t number; ///< both ends', for the counters
    Credential credit;
    std::uint32_t service_function;
    std::uint16_t port; ///< of the sender's own listener
    std::uint16_t service_length;
    std::uint16_t private_length;
    std::uint8_t reserved[6];
    char service[max_service_name];
    std::uint8_t private_data[max_private_data];
};

struct Welcome {
    std::uint64_t process_id;
    std::uint64_t pid;
    std::uint64_t token;
    std::uint32_t function;
    std::uint16_t port;
    std::uint16_t private_length;
    std::uint8_t side;
    std::int8_t code; ///< Errc; ok: accepted
    std::uint8_t reserved[6];
    std::uint8_t private_data[max_private_data];
};

struct Attach {
    Credential credit;
    std::uint64_t number;
};

static_assert(sizeof(Request) == max_request && offsetof(Request, tag) == 32);
static_assert(sizeof(Credential) == 16 && sizeof(Accept) == 24 && sizeof(Refusal) == 8);
static_assert(sizeof(Credit) == 24 && sizeof(WantCredit) == 8);
static_assert(offsetof(Page, credit) == 0 && offsetof(Page, withdrawn) == 64 &&
              offsetof(Page, claimed) == 128);
static_assert(static_cast<std::uint8_t>(Control::goodbye) < 0x40, "a kind has 6 bits");
static_assert(sizeof(Hello) == 64 + max_service_name + max_private_data &&
              offsetof(Hello, service) == 64);
static_assert(sizeof(Welcome) == 40 + max_private_data && sizeof(Attach) == 24);
static_assert(std::is_trivially_copyable_v<Hello> && std::is_trivially_copyable_v<Welcome>);

/// Names a service in a request; the full name follows in Hello.
[[nodiscard]] std::uint64_t service_hash(FunctionId function, std::string_view name) noexcept;

/// The port at which a service is looked for at the `probe`-th attempt.
[[nodiscard]] std::uint16_t service_port(FunctionId function, std::string_view name, unsigned probe,
                                         std::uint16_t first, std::uint16_t count) noexcept;

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

/// Of private data: is it a T of ours and of this version? (A wrong version is told apart, so that it
/// can be reported as such.)
enum class Check : std::uint8_t { ok, other_version, foreign };
template <class T>
[[nodiscard]] Check read_private(const void* data, std::size_t length, T& out) noexcept {
    constexpr std::size_t stable = 8;
    static_assert(sizeof(T) >= stable);
    if (data == nullptr || length < stable) {
        return Check::foreign;
    }
    std::memset(&out, 0, sizeof(out));
    std::memcpy(&out, data, length < sizeof(T) ? length : sizeof(T));
    if (out.magic != magic) {
        return Check::foreign;
    }
    if (out.version != version) {
        return Check::other_version;
    }
    return length >= sizeof(T) && out.size == sizeof(T) ? Check::ok : Check::foreign;
}

/// The number of which `low` are the low `bits`, the nearest to `known`. May be smaller than it: of
/// a header that was overtaken by a credit.
[[nodiscard]] constexpr std::uint64_t widen(std::uint32_t low, unsigned bits,
                                            std::uint64_t known) noexcept {
    const std::uint64_t count = std::uint64_t{1} << bits;
    const std::uint64_t ahead = (low - known) & (count - 1);
    return ahead < count / 2 ? known + ahead : known + ahead - count;
}

} // namespace comch::link::verbs::wire
