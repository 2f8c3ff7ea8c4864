// Every number of the channel layer that trades latency, packets, memory or fairness, with its reason.
// (What the protocol fixes is in wire.hpp, what a program may ask for in comch/capabilities.hpp.)
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace comch::channel::tuning {

// ---- progress -----------------------------------------------------------------------------------

/// Records taken from a lane or a route in one progress call: other lanes and sources of the engine
/// wait for no more than that.
inline constexpr unsigned poll_budget = 16;
inline constexpr unsigned feedback_budget = 16;
/// Pieces of a long message put on the link in one progress call: enough to fill it, not so many
/// that other routes and contexts starve while the consumer drains at our speed.
inline constexpr unsigned parts_at_once = 16;
/// A message that is one record goes straight from its memory, where the device knows that, from
/// so many bytes on: what it takes instead, a look at the region and at what the device has done,
/// is nothing beside such a copy. From here on, too, a memory map is looked at, and the data read,
/// after send() has returned.
inline constexpr std::size_t shortest_direct = 2048;
/// The device is asked so many times to tell of the messages under way: often enough that none is
/// kept waiting by it, and seldom enough, as each time costs a completion.
inline constexpr std::uint64_t told_under_way = 4;
/// From so many channels on, those that have ended are looked for when another one comes: as often
/// as their number has doubled, since each of them must be asked.
inline constexpr std::size_t inbox_to_sift = 16;
/// So often in a row somebody looks for a confirmation in vain before the peer is asked: if it
/// answers anyhow, the answer brings it.
inline constexpr unsigned patient_looks = 16;
/// Idle progress calls between looks at the clock, which takes some nanoseconds, and the time
/// between questions to a channel whether its peer lives, which may be system calls. Far inside the
/// 100 ms after which a death must be known.
inline constexpr unsigned clock_check_calls = 16;
inline constexpr std::uint64_t idle_check_interval_ns = 5'000'000;

// ---- what there is if the program asks for nothing ----------------------------------------------

/// Buffers of a consumer and sends of a producer: as many as small messages fill the soft link's
/// ring.
inline constexpr std::uint32_t default_posted = 256;
inline constexpr std::uint32_t default_in_flight = 256;

// ---- feedback -----------------------------------------------------------------------------------

/// Records that a producer has not read, before a consumer says no more: the last word must find
/// room on the link.
inline constexpr std::uint64_t feedback_window = 128;
/// Messages without feedback, where it is no packet of its own.
inline constexpr std::uint64_t acknowledge_at_most = 16;
/// Buffers up to which each post is announced on the connection while no producer has a lane.
inline constexpr std::uint32_t announce_up_to = 64;

/// Where feedback is a packet of its own: feedback_pace.hpp.
namespace pace {

/// Messages after which it is said at once, before it is withheld again: at first, and at most.
inline constexpr std::uint32_t few = 16;
inline constexpr std::uint32_t seldom = 1024;
struct Doubt {
    /// Whose messages came so often although it was withheld, one that does not come is an
    /// exception.
    std::uint32_t many;
    /// That it is no accident: what each time in vain counts. A message that came takes one away, so
    /// those who stop after up to so many are recognized.
    std::uint32_t each;
    [[nodiscard]] constexpr std::uint32_t enough() const noexcept { return 2 * each; }
    [[nodiscard]] constexpr std::uint32_t most() const noexcept { return 4 * each; }
};
/// Of messages that are a packet or two, a packet saved is a good part.
inline constexpr Doubt of_records{.many = 32, .each = 8};
/// Of long ones it is little beside what a producer waits in vain: with bursts of 9 to 31 messages
/// these took five times as long by the other one.
inline constexpr Doubt of_writes{.many = 64, .each = 64};
/// Or it stops after as many messages as before, so many times in a row.
inline constexpr std::uint32_t proof = 2;
/// What is enough: while it is not known that the producer has more under way, and then: half of
/// the verbs link's window, before it returns credit in a packet of its own, for this takes it
/// along; the producer has the other half to go on with. Not so many at first that a producer with
/// sixteen under way stops.
inline constexpr std::uint64_t small_batch = 8;
inline constexpr std::uint64_t large_batch = 32;
/// Arrivals for which the small one is enough, after the large one was in vain: first, and at
/// most.
inline constexpr std::uint32_t least_small = 64;
inline constexpr std::uint32_t longest_small = 1u << 16;
/// It is withheld for so many times as many polls as messages are waited for; those are not all
/// alike. And at least so many, which is a microsecond or a few.
inline constexpr std::uint32_t gaps_of_patience = 8;
inline constexpr std::uint32_t least_patience = 64;
inline constexpr std::uint32_t longest_gap = 10'000;
/// However seldom the program polls: since the last message, and however slowly they come.
inline constexpr std::uint64_t longest_ns = 1'000'000;
inline constexpr std::uint64_t longest_while_more_come_ns = 10 * longest_ns;
/// Polls between looks at the clock, where nothing but that limit is waited for.
inline constexpr std::uint32_t looks_apart = 1024;

} // namespace pace

// ---- ends ---------------------------------------------------------------------------------------

/// How long a device may go on with messages that are given up, and a producer that was told
/// goodbye with what it is writing: a device needs microseconds, unless its network is gone.
inline constexpr std::chrono::milliseconds patience{500};
/// The same where a producer or consumer is destroyed, and somebody waits.
inline constexpr std::chrono::milliseconds patience_at_end{20};

} // namespace comch::channel::tuning
