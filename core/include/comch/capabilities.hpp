// What a device can do, known before anything is created on it.
#pragma once

#include <cstddef>
#include <cstdint>

#include <comch/side.hpp>

namespace comch {

/// The limits of the core, in one place. Every queue depth is a power of two, because the rings
/// that implement them mask their positions and because one face states them as logarithms.
namespace limits {

/// A server's name with its terminating NUL, in bytes. (Files are named after a hash of it, and the
/// links carry names of up to 256 bytes: neither sets this limit.)
inline constexpr std::uint32_t server_name_size = 120;

/// A control message, in bytes: a page less the 16-byte header that it travels behind.
inline constexpr std::uint32_t message_size = 4096 - 16;

/// Control messages of one connection not yet confirmed (send) or not yet taken (receive). Deep
/// enough that a program which posts everything before it progresses is not refused; at the
/// largest message size this bounds what one peer can make us hold to 32 MiB each way.
inline constexpr std::uint32_t send_queue_depth = 8192;
inline constexpr std::uint32_t recv_queue_depth = 8192;

/// Clients of one server. At two descriptors a connection, this many take 1024 descriptors, the
/// usual limit of a process, which a program that wants them all must raise a little. (0 would
/// say "unlimited" to a program; the core always has a limit.)
inline constexpr std::uint32_t clients_per_server = 512;

/// One buffer of the fast path, in bytes. 2 GiB: more than the 1 GiB that must work, and still a
/// 32-bit number in the completion.
inline constexpr std::uint64_t fast_path_buffer_size = std::uint64_t{1} << 31;

/// Sends submitted on one producer, or buffers posted on one consumer, at a time.
inline constexpr std::uint32_t producer_tasks = 8192;
inline constexpr std::uint32_t consumer_tasks = 8192;

/// Producers, and consumers, of one connection on one side. Consumers are announced to the peer,
/// so without an end a peer could fill our memory with announcements.
inline constexpr std::uint32_t producers_per_connection = 1024;
inline constexpr std::uint32_t consumers_per_connection = 1024;

/// Immediate data beside (or instead of) a fast-path message, in bytes.
inline constexpr std::uint32_t immediate_data_size = 32;

static_assert((send_queue_depth & (send_queue_depth - 1)) == 0);
static_assert((recv_queue_depth & (recv_queue_depth - 1)) == 0);
static_assert((producer_tasks & (producer_tasks - 1)) == 0);
static_assert((consumer_tasks & (consumer_tasks - 1)) == 0);

} // namespace limits

/// What the device that was asked can do. Lengths are bytes.
struct Capabilities {
    std::uint32_t max_server_name_size = 0; ///< its NUL included
    std::uint32_t max_message_size = 0;     ///< one control message
    std::uint32_t max_send_queue_depth = 0; ///< control messages sent and not yet confirmed
    std::uint32_t max_recv_queue_depth = 0; ///< control messages arrived and not yet taken
    std::uint32_t max_clients_per_server = 0;
    std::uint64_t max_fast_path_buffer_size = 0;
    std::uint32_t max_producer_tasks = 0; ///< per producer
    std::uint32_t max_consumer_tasks = 0; ///< per consumer
    std::uint32_t max_producers_per_connection = 0;
    std::uint32_t max_consumers_per_connection = 0;
    std::uint32_t max_immediate_data_size = 0;
    bool server_supported = false; ///< on the DPU only
    bool client_supported = false; ///< on the host only
    bool producer_supported = false;
    bool consumer_supported = false;

    friend bool operator==(const Capabilities&, const Capabilities&) = default;
};

/// The capabilities of every device of a side: the soft device makes no difference between the
/// functions of one side. Ask Device::capabilities() when there is a device to ask.
[[nodiscard]] Capabilities capabilities_of(Side side) noexcept;

} // namespace comch
