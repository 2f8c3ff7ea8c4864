// What both real link kinds say to their peer about messages and one-sided operations: plain structs
// and the kinds of records that carry them. How records travel is each link's own.
#pragma once

#include <cstdint>
#include <type_traits>

namespace comch::link {

/// What a record is. The values are on the wire.
enum class Kind : std::uint8_t {
    data = 1,           ///< message, payload inline
    data_bulk = 2,      ///< message, payload in the bulk ring: BulkRef
    pad = 3,            ///< nothing; fills the ring up to its end
    bulk_attach = 4,    ///< the bulk ring's memfd is waiting on the socket
    put = 5,            ///< OneSided, then data
    put_bulk = 6,       ///< OneSided, BulkRef
    get = 7,            ///< OneSided
    get_reply = 8,      ///< Reply, then data
    get_reply_bulk = 9, ///< Reply, BulkRef
    atomic = 10,        ///< OneSided, Atomic
    atomic_reply = 11,  ///< Reply, old value (8 bytes)
    error_reply = 12,   ///< Reply: operation `op` was refused with `offset` = Errc
    joint_get = 13,     ///< OneSided, Joint: soft link only; needs no reply
};

/// A one-sided request.
struct OneSided {
    std::uint64_t region;
    std::uint64_t address; ///< the target's virtual address
    std::uint64_t length;
    std::uint64_t op; ///< the requester's name for it; comes back in the reply. A put has none
};

struct Atomic {
    std::uint64_t operand;
    std::uint64_t compare;
    std::uint8_t op;   ///< AtomicOp
    std::uint8_t size; ///< 4 or 8
    std::uint8_t reserved[6];
};

struct Reply {
    std::uint64_t op;
    std::uint64_t offset; ///< into the requester's buffer
};

/// Goes with a get that both ends copy.
struct Joint {
    std::uint64_t to;         ///< the requester's virtual address
    std::uint64_t generation; ///< JointName
    std::uint64_t region;     ///< the requester's that the owner may map to write there; 0: none
    std::uint64_t base;       ///< its address
    std::uint64_t length;     ///< and length
};

/// So many gets of each end are copied by both at a time.
inline constexpr std::uint32_t joint_gets = 2;

/// Which of them it is, by what words it is said who copies what.
struct JointName {
    std::uint16_t generation = 0; ///< of those words
    bool by_kernel = false;       ///< the requester reads so, not what it has mapped
    std::uint32_t index = 0;      ///< of the words, below joint_gets

    [[nodiscard]] constexpr std::uint64_t pack() const noexcept {
        return generation | std::uint64_t{by_kernel} << 16 | std::uint64_t{index} << 17;
    }
    [[nodiscard]] static constexpr JointName unpack(std::uint64_t word) noexcept {
        return {static_cast<std::uint16_t>(word), (word >> 16 & 1) != 0,
                static_cast<std::uint32_t>(word >> 17)};
    }
    /// What pack() makes for no correct peer is none.
    [[nodiscard]] static constexpr bool is_one(std::uint64_t word) noexcept {
        return word >> 17 < joint_gets;
    }
};

static_assert(sizeof(Joint) == 40);
static_assert(sizeof(OneSided) == 32 && sizeof(Atomic) == 24 && sizeof(Reply) == 16);
static_assert(std::is_trivially_copyable_v<OneSided> && std::is_trivially_copyable_v<Atomic> &&
              std::is_trivially_copyable_v<Reply>);

} // namespace comch::link
