// Every number of the verbs link that trades speed for memory or fairness, with its reason.
#pragma once

#include <cstdint>

#include "core/link/slow_poll.hpp"

namespace comch::link::verbs::tuning {

/// Longest message and longest chunk of a one-sided operation that travels as a message: two pages,
/// so that the copies on both sides and the wire overlap and per-message costs are small beside it.
inline constexpr std::uint32_t max_message = 8192;
inline constexpr std::uint32_t max_inline = max_message;

/// A buffer: the head of a one-sided operation (32), and the payload; a multiple of a cache line.
inline constexpr std::uint32_t slot_size = max_message + 64;

/// Connections that a port's shared receive queue has places for from the beginning: many devices
/// cannot make one larger. A place without a buffer costs a few bytes.
inline constexpr std::uint32_t port_pipes = 256;

/// Records that a peer may have on its way to one connection. Together with the slots below it is
/// what a connection costs: 0.9 MB of pinned memory, beside the device's queues.
inline constexpr std::uint32_t window = 64;
/// Receive buffers beyond the window, for what is sent without credit: a request for credit, the
/// bell that answers one, a goodbye. At most one of each is on its way.
inline constexpr std::uint32_t uncredited = 3;
/// Receive buffers given back to the device with one doorbell.
inline constexpr std::uint32_t repost_batch = 8;
/// Receive buffers of one connection. A message that tells the peer that a buffer is free again
/// need not wait for the device to have it: as many as are not yet given back there are besides.
inline constexpr std::uint32_t receive_buffers = window + uncredited + repost_batch;
/// The receiver returns credit at once when it has taken out this part of the window: its peer
/// still has the other part to go on with. More than half of it, for what a consumer reports of half
/// of it takes the credit along.
inline constexpr std::uint32_t credit_at_once = window * 5 / 8;
/// This much it returns when it next looks for something to do and finds nothing: where messages
/// are answered that is when the answer has gone out, and is not in its way.
inline constexpr std::uint32_t credit_batch = window / 2;
/// A port looks at the credit that it owes once in so many calls. What the peer sleeps for goes out
/// if it was owed at the last look already, so that one bell tells of what comes together.
inline constexpr unsigned credit_look_calls = 64;
/// The rest goes back some time (look_at_all_ns): something may go the other way and take it along,
/// or more come, and else it costs a work request of its own, which is in the way of others. Nobody
/// is short of it meanwhile (credit_batch), and who waits for it asks.
inline constexpr std::uint64_t look_at_all_ns = 20'000'000;
/// A channel returns credit after so many polls that found nothing, for the same reason.
inline constexpr unsigned credit_after_polls = 4096;

/// Send buffers of one connection: messages too long to be sent inline that the peer's device has
/// not acknowledged. A power of two.
inline constexpr std::uint32_t send_slots = 32;
/// Work requests of one queue pair under way. At the least what the window, the credits and the
/// one-sided operations need; more only costs device memory.
inline constexpr std::uint32_t send_queue = 256;
/// Work requests that may go by without a completion: one completion tells of all before it.
inline constexpr std::uint32_t signal_every = 16;
/// The same for those that hold a send buffer.
inline constexpr std::uint32_t signal_every_slots = send_slots / 4;
/// Messages that go out with one doorbell, at most, if the caller says that more follow: it is a
/// write across PCIe, or a system call, of which a sixteenth is little beside a message.
inline constexpr std::uint32_t doorbell_batch = 16;
/// Inline data asked of a device; it may grant less. What is copied into the work request need not be
/// copied into a send buffer, nor fetched from there; but each of the queue's requests has room for as
/// much, which is some 256 KiB in all where a device rounds it up.
inline constexpr std::uint32_t wanted_inline = 512;

/// What a message takes, roughly, for those who choose between transports: two crossings of PCIe
/// and the device between them; a work request and its doorbell. How fast data goes, the port says.
inline constexpr double latency = 1.5e-6;
inline constexpr double overhead = 75e-9;
/// Messages are copied into a send buffer and out of a receive buffer, and long ones are many of
/// them, one after the other. Beside the round trip that it takes to ask for a read instead, that
/// is much from some 20 KiB on.
inline constexpr double copying = 2 / 7e9;

/// Completions taken from the device at once.
inline constexpr unsigned poll_batch = 32;
/// Records handed out by one progress call.
inline constexpr unsigned poll_budget = 64;

/// One-sided operations a requester may have in flight on one connection.
inline constexpr std::uint32_t max_one_sided = 128;
/// A put or get up to this length is copied through a send buffer; a longer one goes from and to
/// the caller's memory, which the device must know (registering costs microseconds).
inline constexpr std::uint32_t bounce_up_to = max_message;
/// Memory that the device could not be given (for want of memory that may be locked, say) is tried
/// again after so many messages from it, which is too seldom to be noticed.
inline constexpr unsigned ask_for_keys_every = 256;
/// One RDMA read or write: a device may allow less. Cutting at 1 MiB costs nothing and lets
/// messages of other connections in between.
inline constexpr std::uint32_t rdma_chunk = 1u << 20;
/// Reads that the device may have under way at once; negotiated down to what both can.
inline constexpr std::uint8_t reads_in_flight = 16;

/// A spinning caller looks at its descriptors (system calls) this often: seldom, as making a
/// connection takes milliseconds anyhow.
inline constexpr unsigned clock_check_calls = 16;
inline constexpr std::uint64_t slow_poll_interval_ns = 1'000'000;
/// A caller that has not looked for so long does so with every call.
inline constexpr std::uint64_t slow_caller_ns = 4'000'000;
/// While connections are being made or ended, more often.
inline constexpr std::uint64_t slow_poll_interval_busy_ns = 10'000;

inline constexpr SlowPoll::Pace slow_poll{
    .calls = clock_check_calls,
    .slow_caller_ns = slow_caller_ns,
    .look_at_all_ns = look_at_all_ns,
};

/// Resolving the peer's address and the way to it.
inline constexpr int resolve_timeout_ms = 2'000;
/// A call that connects waits so long for that, before it leaves the rest to progress calls.
inline constexpr int resolve_at_once_ms = 50;
/// Queue pairs tried where the peer's kernel takes one for another that it still knows.
inline constexpr unsigned stale_attempts = 4;
/// A peer that asked to be connected and has yet to hear that it is: it may be computing.
inline constexpr std::uint64_t accepted_timeout_ns = 600'000'000'000;
/// A peer that has connected and then says nothing.
inline constexpr std::uint64_t hello_timeout_ns = 10'000'000'000;
/// What was sent before a close is acknowledged within microseconds, or the peer is gone.
inline constexpr std::uint64_t close_timeout_ns = 2'000'000'000;
/// Where the peer has yet to accept: it may be computing. Nobody waits for this, but the memory
/// does.
inline constexpr std::uint64_t unmade_close_timeout_ns = 30'000'000'000;
/// Whoever closes a whole port does wait.
inline constexpr std::uint64_t unmade_last_words_ns = 500'000'000;
/// A close waits so long for the device to have read what the caller asked for: into memory that is
/// the caller's again afterwards. What is not there by then costs the connection its orderly end.
/// And so long an end by the peer waits for the report of what was written before it.
inline constexpr std::uint64_t wait_at_end_ns = 20'000'000;
/// A queue pair that is not needed any more is destroyed when the device has given back what it
/// took of the shared receive queue. A device that never says so has this long.
inline constexpr std::uint64_t drain_timeout_ns = 50'000'000;
/// For a device to drop what a queue pair is doing.
inline constexpr std::uint64_t stop_timeout_ns = 10'000'000;
/// How long a sender waits that met a receiver without buffers: 0.64 ms, in the device's code.
/// Credit keeps it from happening; rdma_cm's own choice is 655 ms.
inline constexpr std::uint8_t rnr_timer = 12;
/// A request for a channel that was made before its connection was closed may come this much later.
inline constexpr unsigned latecomers_us = 8'000;
/// A device tries this long, for each of its attempts, before it gives a peer up: 4.096 us * 2^16 =
/// 268 ms, times 7: about as long as a port may be down (port_grace_ns).
inline constexpr std::uint8_t ack_timeout = 16;
/// Attempts after the first. Not 7, the most there is: soft-RoCE takes that for "for ever".
inline constexpr std::uint8_t retries = 6;
/// Nothing was heard of a peer for so long: ask its device whether it is there.
inline constexpr std::uint64_t keepalive_ns = 1'000'000'000;
/// A device that asks for ever (the peer chose how often, or has no buffers for what it gave credit
/// for) is not waited for: nothing at all has come back for so long, many times what any device of a
/// correct peer takes.
inline constexpr std::uint64_t silence_ns = 30'000'000'000;
/// A port of the device that stays down longer than this takes its connections with it: long enough
/// for a link to be retrained.
inline constexpr std::uint64_t port_grace_ns = 2'000'000'000;

/// Channels under one connection: one for each producer and consumer that the layer above allows.
/// Each costs 0.9 MB of pinned memory, and the peer decides when one is made.
inline constexpr std::size_t max_channels = 2048;

/// Memory windows of a connection that are open at a time: so many long messages of this process may
/// be on their way before the next one's memory is registered by itself. A device has them by the
/// hundred thousand, and each is made when it is first needed.
inline constexpr std::size_t windows = 16;
/// mlx5 opens none that is larger than twice this.
inline constexpr std::uint64_t largest_window = std::uint64_t{1} << 30;

/// Ports that a server's name may lie at: its own by hash, or the next ones.
inline constexpr unsigned name_probes = 4;

} // namespace comch::link::verbs::tuning
