// The soft link's packets on the connection's Unix socket (SOCK_SEQPACKET): set-up, descriptors,
// doorbells. Plain structs; a packet is copied, its size and every field checked, before use.
//
// The first 16 bytes of Hello and Answer stay as they are for ever, so that any two versions can
// tell each other that they do not match.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/link/link.hpp"
#include "core/link/soft/layout.hpp"

namespace comch::link::soft::wire {

inline constexpr std::uint64_t hello_magic = 0x4f4c4c4548434d43; // "CMCHELLO"

/// Initiator -> acceptor, first packet. Carries two descriptors: the segment's memfd and one by
/// which the initiator's death is heard of (peer_process.hpp).
struct Hello {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t size; ///< of this packet
    std::uint64_t process_id;
    std::uint8_t domain[16];
    std::uint32_t function; ///< that the initiator opened
    std::uint8_t side;
    std::uint8_t has_membarrier; ///< the sender is registered for expedited membarriers
    std::uint8_t one_way;        ///< the reverse ring carries replies only
    std::uint8_t reserved0;
    std::uint32_t service_function;
    std::uint16_t service_length; ///< 0: the port itself is addressed
    std::uint16_t private_length;
    char service[max_service_name];
    std::uint8_t private_data[max_private_data];
};

/// Acceptor -> initiator, first packet. Carries such a descriptor of the acceptor when it accepts.
struct Answer {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t size;
    std::uint64_t process_id;
    std::uint32_t function;
    std::uint8_t side;
    std::uint8_t has_membarrier;
    std::int8_t code; ///< Errc; ok: accepted
    std::uint8_t reserved0;
    std::uint16_t private_length;
    std::uint8_t reserved[6];
    std::uint8_t private_data[max_private_data];
};

enum class Type : std::uint32_t {
    doorbell = 1,    ///< something is in your ring, or credit came back
    bulk = 2,        ///< descriptor: my bulk ring; value = bytes
    map_request = 3, ///< value = region
    map_answer = 4,  ///< descriptor unless refused; value = region, extra = bytes (0: refused),
                     ///< flags: map_read_only
    channel = 5,     ///< descriptors: segment, socket; value = tag
};

inline constexpr std::uint32_t map_read_only = 1; ///< flag of a map_answer

/// Everything after the first packets.
struct Packet {
    std::uint32_t type;
    std::uint32_t flags;
    std::uint64_t value;
    std::uint64_t extra;
};

static_assert(sizeof(Hello) == 16 + 8 + 16 + 8 + 8 + max_service_name + max_private_data);
static_assert(sizeof(Answer) == 16 + 8 + 8 + 8 + max_private_data);
static_assert(sizeof(Packet) == 24);
static_assert(std::is_trivially_copyable_v<Hello> && std::is_trivially_copyable_v<Answer> &&
              std::is_trivially_copyable_v<Packet>);

} // namespace comch::link::soft::wire
