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
inline constexpr std::uint16_t version = 2;        ///< of everything in this file and records.hpp
inline constexpr std::size_t max_request = 56;     ///< rdma_cm takes no more in a request
inline constexpr std::size_t max_name = 256;

enum class Target : std::uint8_t {
    port = 1,    ///< the port itself
    service = 2, ///< a name that it listens under
    channel = 3, ///< an established connection, for a channel under it
};

struct Request {
    std::uint32_t magic;
    std::uint16_t version;
    std::uint8_t size;
    std::uint8_t target; ///< Target
    std::uint64_t domain; ///< first 8 bytes of the domain's id
    std::uint64_t name;   ///< port: its number; service: service_hash(); channel: its token
    std::uint64_t process_id;
    std::uint64_t tag; ///< channel
    std::uint32_t function; ///< that the initiator opened; held against its address
    std::uint8_t side;
    std::uint8_t one_way; ///< the acceptor's records are replies only
    std::uint8_t reserved[10];
};

/// Where the sender of this takes credit, and how many records may be sent to it at first.
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

/// In front of every record. The credit in it is of the other direction, the low half of each number.
struct Header {
    std::uint8_t kind; ///< link::Kind, or Control
    std::uint8_t id;   ///< the user's
    std::uint16_t flags;
    std::uint32_t records;  ///< of the receiver's that the sender has taken out, ever
    std::uint32_t messages; ///< of these, messages
    std::uint32_t limit;    ///< records that the receiver may send, ever
};

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

struct WantCredit {
    std::uint64_t records; ///< what the asker knows of
};

struct Hello {
    std::uint64_t process_id;
    std::uint64_t pid;
    std::uint64_t token; ///< names the connection in requests for channels to the sender of this
    std::uint64_t number; ///< both ends', for the counters
    Credential credit;
    std::uint32_t service_function;
    std::uint16_t port; ///< of the sender's own listener
    std::uint16_t service_length;
    std::uint16_t private_length;
    std::uint8_t reserved[6];
    char service[max_name];
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
static_assert(sizeof(Header) == 16 && sizeof(Credit) == 24 && sizeof(WantCredit) == 8);
static_assert(sizeof(Hello) == 64 + max_name + max_private_data && offsetof(Hello, service) == 64);
static_assert(sizeof(Welcome) == 40 + max_private_data && sizeof(Attach) == 24);
static_assert(std::is_trivially_copyable_v<Hello> && std::is_trivially_copyable_v<Welcome>);

/// Names a service in a request; the full name follows in Hello.
[[nodiscard]] std::uint64_t service_hash(FunctionId function, std::string_view name) noexcept;

/// The port at which a service is looked for at the `probe`-th attempt.
[[nodiscard]] std::uint16_t service_port(FunctionId function, std::string_view name,
                                         unsigned probe, std::uint16_t first,
                                         std::uint16_t count) noexcept;

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

/// The 64-bit number of which `low` is the low half, the nearest to `known`. May be smaller than it:
/// a header that was overtaken by a credit.
[[nodiscard]] constexpr std::uint64_t widen(std::uint32_t low, std::uint64_t known) noexcept {
    return known + static_cast<std::uint64_t>(static_cast<std::int64_t>(
                       static_cast<std::int32_t>(low - static_cast<std::uint32_t>(known))));
}

} // namespace comch::link::verbs::wire
