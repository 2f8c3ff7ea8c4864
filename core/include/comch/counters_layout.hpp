// The layout of a process's counter file: <domain>/counters.<process id in hex>
//
// One file per process and domain, created when the process first opens a port there, unlinked at
// exit (and by the next opener if the process was killed). Plain structs, fixed-width
// little-endian integers, no pointers: a reader of another build or CPU checks `magic` and
// `version` and can then read everything. Every counter has exactly one writer, which updates it
// with a plain (relaxed atomic) add; readers may read() the file, or map it, at any time.
//
// Transmit and receive counters of a connection live on lines of their own because two threads
// may own the two directions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace comch::counters {

inline constexpr std::uint64_t magic = 0x31544e43484d4f43; // "COMHCNT1" as a little-endian word
inline constexpr std::uint32_t version = 2;

/// Relaxed single-writer counter: an add is a load, an add and a store, no locked instruction.
struct Counter {
    std::atomic<std::uint64_t> value;

    void add(std::uint64_t n) noexcept {
        value.store(value.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t get() const noexcept {
        return value.load(std::memory_order_relaxed);
    }
};

/// Written by the thread that sends on the connection.
struct alignas(64) TxCounters {
    Counter messages;         ///< two-sided messages handed to the link
    Counter bytes;            ///< that left by ring: messages, puts, atomics, answers to gets
    Counter bulk_ring_bytes;  ///< bytes that went through the bulk ring (two copies)
    Counter mapped_bytes;     ///< bytes copied in mapped memory, or moved by the device (also of
                              ///< messages that a producer wrote into the consumer's buffer)
    Counter process_vm_bytes; ///< bytes that we moved by process_vm_readv/writev
    Counter one_sided;        ///< put, get and atomic operations started
    Counter credit_stalls;    ///< attempts refused because a ring was full
    Counter buffer_stalls;    ///< sends refused because the receiver had posted no buffer
};

/// Written by the thread that polls the connection.
struct alignas(64) RxCounters {
    Counter messages;         ///< two-sided messages taken out of the link
    Counter bytes;            ///< that came by ring: messages, puts, atomics, answers to gets
    Counter bulk_ring_bytes;  ///< of these, what came through the bulk ring
    Counter one_sided_served; ///< the peer's one-sided operations executed by this CPU
    Counter wakeups;          ///< doorbells of the peer: each ended a sleep, or woke a ring at rest
    Counter reserved[3];
};

enum class SlotState : std::uint32_t {
    free = 0,
    connecting = 1,
    connected = 2,
    closed = 3, ///< an orderly end; the numbers stay until the slot is taken again
    failed = 4, ///< the peer died or broke the protocol
};

enum class SlotKind : std::uint32_t {
    connection = 0,
    channel = 1, ///< of one producer-consumer pair, under a connection
};

/// One connection, or one channel under a connection.
struct alignas(64) Slot {
    std::atomic<std::uint32_t> state; ///< SlotState; written last when a slot is taken
    std::uint32_t local_side;         ///< comch::Side
    std::uint32_t peer_side;
    std::uint32_t kind;       ///< SlotKind
    std::uint64_t peer_pid;   ///< as the kernel reported it; 0 across PID namespaces
    std::uint64_t connection; ///< the same at both ends and nowhere else; 0: unknown
    char face[8];             ///< "uct", "ofi", "channel", "memory"; NUL-padded
    char peer[24];            ///< peer's function or server name; NUL-padded, cut
    TxCounters tx;
    RxCounters rx;
};

inline constexpr std::uint32_t max_slots = 4096; ///< later connections share `overflow`

struct alignas(64) FileHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t slot_count;
    std::uint64_t pid;           ///< in the writer's PID namespace
    std::uint64_t process_id;    ///< random, unique per process; also in the file's name
    std::uint64_t start_time_ns; ///< CLOCK_REALTIME
    char program[32];            ///< /proc/self/comm, NUL-padded
    char reserved[56];
    TxCounters closed_tx; ///< sums over slots that were taken again
    RxCounters closed_rx;
    Slot overflow; ///< shared by connections beyond `slot_count`; may lose counts
};

/// The file is sparse: untouched slots cost no memory.
struct File {
    FileHeader header;
    Slot slots[max_slots];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(TxCounters) == 64 && sizeof(RxCounters) == 64);
static_assert(sizeof(Slot) == 192 && offsetof(Slot, tx) == 64 && offsetof(Slot, rx) == 128);
static_assert(offsetof(Slot, connection) == 24 && offsetof(Slot, peer) == 40);
static_assert(sizeof(FileHeader) == 128 + 128 + 192);
static_assert(std::is_standard_layout_v<File>);

} // namespace comch::counters
