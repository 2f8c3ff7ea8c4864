// Every number of the soft link that trades speed for memory or fairness, with its reason. (One more
// is for all links: from which size on data is copied past the caches, core/base/stream_copy.hpp.)
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/link/slow_poll.hpp"

namespace comch::link::soft::tuning {

/// Cells per ring: 16 KiB, so that both rings of a connection and its control page stay below the
/// 64 KiB that a quiet connection may hold, and a streaming ring stays in L1/L2 on both CPUs.
inline constexpr std::uint32_t ring_cells = 512;

/// Longest inline record: a quarter of the ring, so that four can be under way.
inline constexpr std::uint32_t max_inline = ring_cells / 4 * 32 - 8;

/// Bulk ring: so large that by the time a line is written again it has left the reader's private
/// cache, where the writer would have to take it back from: on one machine 16 KiB messages take 0.6
/// of the time that they take with 512 KiB. Where it is the other way round the writer uses less of
/// it.
inline constexpr std::uint32_t bulk_size = 4 * 1024 * 1024;

/// Only so many rings of a process are that large; further ones have what both CPUs need for copying
/// at the same time. A process with a thousand peers then writes to half a gigabyte, not four.
inline constexpr unsigned large_bulk_rings = 8;
inline constexpr std::uint32_t bulk_size_of_many = 512 * 1024;

/// A writer finds out how much of a large ring is best used (bulk_span.hpp): the time for each is
/// the median of so many stretches of so many bytes, several messages each.
inline constexpr unsigned span_samples = 9;
inline constexpr std::uint64_t span_stretch = 128 * 1024;
/// It must be better by one part in so many.
inline constexpr std::uint64_t span_gain = 16;
/// Not before twice so many bytes have gone through the beginning, the latter as fast as said: all of a ring
/// is a thousand pages, whose first use takes 20 ms, both ends together, where a hypervisor keeps the page
/// tables. (A stream whose receiver answers every 64th message waited for those of the answers.)
inline constexpr std::uint64_t span_warm_up = 8 * bulk_size;
inline constexpr std::uint64_t span_bytes_per_ns = 1;
/// Again after so many bytes (and later, period_after()): the trials are 19 MiB then, so at
/// first 7 % at most go a worse way.
inline constexpr std::uint64_t span_period = 256 * 1024 * 1024;

/// Few lines: payloads begin at multiples of this, as long as the longest of them with a line to begin in.
/// (Where room is asked for, only the most that a payload may have is known: so much has to be free behind
/// its beginning, and there nothing else may lie.) No power of two, or the beginnings of all would be in the
/// same set of a cache.
inline constexpr std::uint32_t slot_size = 33 * 1024;
/// They begin at the first again when the others hold so many bytes, so that all of them and what they are
/// copied from are in the writer's first cache: streams of 8 KiB that are only counted have 1.8 times the rate.
inline constexpr std::uint32_t few_lines_bytes = 32 * 1024;
/// A reader that keeps up is waited for by so many looks, a moment each, before other lines are used: without, it
/// is 1.5 times.
inline constexpr unsigned looks_for_slot = 8;

/// Whether the lines of the next answer are asked for is tried (asking_ahead.hpp) by the median of so many stretches of
/// so many answers each way. First after so many stretches, when new pages are behind them, again after once or twice
/// so many more (and later, period_after()): 3 % at most go a worse way, which takes 1.3 times as long.
inline constexpr unsigned asking_samples = 8;
inline constexpr std::uint32_t asking_stretch = 32;
inline constexpr std::uint64_t asking_first_trial = 8;
inline constexpr std::uint64_t asking_period = 256;
/// A change must gain one part in so many.
inline constexpr std::uint64_t asking_gain = 32;
/// A stretch that took longer was no ping-pong (20 us for an answer), or was held up.
inline constexpr std::uint64_t asking_slowest_stretch_ns = asking_stretch * 20'000;

/// A bulk ring that nothing has gone through for so long gives its pages back: getting new ones
/// costs a third of a microsecond per KiB, once.
inline constexpr std::uint64_t bulk_keep_ns = 1'000'000'000;

/// Longest message (and bulk chunk): 1/16 of the smallest bulk ring.
inline constexpr std::uint32_t max_message = 32 * 1024;

/// The first part of an answer to a get, when the requester waits for nothing else: it begins to copy out while the
/// rest is copied in. The next is twice as long, and so on: 32 to 48 KiB take 0.96 of the time that they take in two
/// parts, and in parts of half the length no less. (A multiple of a page would do as well, but a stream of answers has
/// 0.97 to 0.99 of the bandwidth then.)
inline constexpr std::uint32_t first_chunk = 129 * 64;

/// A message packed in place that turns out this short travels inline after all: one record instead
/// of a record and a trip to the bulk ring.
inline constexpr std::uint32_t inline_after_pack = 248;

/// Longer messages than this go by the bulk ring when half of the ring is under way: fifteen of 1
/// KiB fill it, and a stream of them then stalls at every lap. Streaming 1 KiB takes 0.6 of the
/// time, 512 bytes 0.75. Where the reader keeps up they stay in the ring, which is the faster for
/// one.
inline constexpr std::uint32_t inline_when_crowded = 504;

/// Records of so many cells at most are asked for as a whole when their header is seen: a message
/// of 128 bytes takes 0.85 of the time, one of 256 0.93, and streams of them are no slower. Longer
/// ones, which travel by the bulk ring when there are many, lose a fifth of their rate by it.
inline constexpr std::uint32_t cells_asked_for = (inline_when_crowded + 8) / 32;

/// Of a payload in the bulk ring that an answer may be, so much is asked for as soon as its record is seen, not
/// when it is copied: 2 KiB take 0.92 of the time, 4 KiB 0.87, 8 KiB 0.88. More gains nothing, and in a stream, which
/// is no answer, it costs a twelfth.
inline constexpr std::uint32_t bulk_asked_for = 4096 + 8; // with a header

/// Behind a payload of up to this length, the first line of the next is asked for: the reader has looked at it the
/// last time, at whatever else it has not. Streams of 1 KiB that are only counted have 1.4 times the rate, of 2 KiB
/// 1.6, of 4 KiB (without a header) no more.
inline constexpr std::uint32_t first_line_asked_for = 4096 + 8;

/// Messages of the ring up to this length that are no answers (Pipe::answering()) leave the second half
/// of a line to the next one, if they end in the first. Streams: 8 bytes far 1.2 times as many, 64 to 320
/// bytes 1.1 to 1.2; for longer ones a line is not moved once instead of twice, but to and fro.
inline constexpr std::uint32_t most_to_share = 336;

/// How lines are used is tried (line_use.hpp) by the median of so many laps of the ring each way, and as
/// many to settle: 48 laps, of 0.8 MiB together. First after so many laps; again after so many more (and
/// later, period_after()): 3 % at most go a worse way, which takes up to 1.4 times as long.
inline constexpr unsigned line_use_samples = 8;
inline constexpr std::uint64_t line_use_first_trial = 16;
inline constexpr std::uint64_t line_use_period = 1024;
/// A change must gain one part in so many.
inline constexpr std::uint64_t line_use_gain = 16;
/// A lap that took longer was no stream (200 ns for a message of a cell), or was held up.
inline constexpr std::uint64_t line_use_slowest_lap_ns = ring_cells * 200;
/// Nor does a lap count of fewer messages than one in so many cells: those of most_to_share.
inline constexpr std::uint32_t line_use_most_cells = (most_to_share + 8) / 32 + 1;

/// The reader returns credit when it has taken out this part of a ring, or when it finds the ring
/// empty: the credit line moves once per quarter lap, not once per message.
inline constexpr std::uint32_t credit_batch_cells = ring_cells / 4;

/// The same for a bulk ring, in bytes, what was left out included: an eighth of its beginning, so that the
/// writer fills one part while the reader empties another, and two slots of few lines.
inline constexpr std::uint32_t credit_batch_bulk = bulk_size_of_many / 8;

/// What it is like, roughly, for those who choose between transports: a hand-over of a cache line
/// between near CPUs, the stores of a record, and a copy into a ring and out of it.
inline constexpr double latency = 65e-9;
inline constexpr double overhead = 8e-9;
inline constexpr double bandwidth = 24e9;

/// Records handled on one ring before the next ring gets its turn.
inline constexpr unsigned poll_budget = 16;

/// One-sided operations a requester may have in flight on one connection; the target disconnects a
/// peer that exceeds it, which bounds the memory that a peer can make it hold.
inline constexpr std::uint32_t max_one_sided = 128;

/// A peer that does nothing for so long while it is waited for is computing, or has no CPU: what it
/// was asked for is then copied by the kernel, where that is permitted. Many times what a peer that
/// looks takes to begin, and about what copying 256 KiB takes.
inline constexpr std::uint64_t attention_ns = 20'000;
/// Longer while it writes to a ring for the first time: where memory is virtualised by software, a new page
/// takes many microseconds, and a part of a message several of them.
inline constexpr std::uint64_t attention_to_cold_ring_ns = 10 * attention_ns;
/// Longer for much that is to be copied: about a tenth of what the kernel takes for it. So the wait in
/// vain costs little, and a peer that lost its CPU for a moment, or gets new pages while it copies, is not
/// taken to be computing.
struct Patience {
    std::uint64_t ns;
    std::uint64_t worth_ns; ///< of it, what is little beside the copy
};
[[nodiscard]] constexpr Patience patience(std::uint64_t bytes, bool warm) noexcept {
    constexpr std::uint64_t bytes_per_ns = 64;
    const std::uint64_t for_copy =
        bytes / bytes_per_ns > attention_ns ? bytes / bytes_per_ns : attention_ns;
    const bool longer = !warm && for_copy < attention_to_cold_ring_ns;
    return {longer ? attention_to_cold_ring_ns : for_copy, for_copy - attention_ns};
}
/// The clock is looked at with one look in so many at whether the peer has answered.
inline constexpr unsigned looks_for_attention = 16;
/// Attempts to sleep that fail while what is waited for may be done without the peer: many times
/// what it takes to know that it is missing.
inline constexpr unsigned looks_before_sleep = 1000;
/// A peer that was missing is not waited for again before it has done so many things: one that
/// progresses once in a while would make every wait a long one.
inline constexpr unsigned signs_of_attention = 64;
/// Or one thing, when its gets have taken the kernel so many times as long as the wait in vain did:
/// another is short beside that. (Of long gets, few make many milliseconds.)
inline constexpr std::uint64_t waits_to_try_again = 50;

/// Ways of copying are compared by so many gets each (the better half of them, so that one that was
/// interrupted does not decide), not counting the first after a change, again after
/// so many: where one takes three times as long as another, that is two to four percent of the time.
struct WayPace {
    std::uint32_t samples;
    std::uint32_t skipped;
    std::uint32_t skipped_jointly; ///< more, where the parts have yet to become equally long
    std::uint32_t period;
    [[nodiscard]] constexpr std::uint32_t turn() const noexcept {
        return samples + std::max(skipped, skipped_jointly);
    }
};
inline constexpr WayPace pace_of_short{16, 4, 16, 2048};
/// A long one is a sample of many parts, and more than the other CPU's cache holds.
inline constexpr WayPace pace_of_long{2, 1, 1, 512};
inline constexpr std::uint64_t long_get = 4 * 1024 * 1024;
/// Who waits for the trial of another connection of its port asks again after so many gets, and so many times: a
/// trial takes half as many (96 at most), if all have as much to get.
inline constexpr std::uint64_t gets_to_wait = 16;
inline constexpr unsigned most_waits = 12;
/// A way that gets slower while it is taken is left when it has seemed slower than another so many times in a
/// row, of eight gets each: the delay of one tick, or of a CPU that was taken away, has been forgotten by then.
inline constexpr unsigned doubts_to_leave = 4;
/// Who has found the same so many times in a row looks again after a longer time: one percent at
/// most goes the worse way then.
inline constexpr unsigned settled_after = 4;
inline constexpr std::uint64_t longer_period = 4;
[[nodiscard]] constexpr std::uint64_t period_after(unsigned same_results,
                                                   std::uint64_t first) noexcept {
    return same_results < settled_after ? first : longer_period * first;
}
[[nodiscard]] constexpr const WayPace& way_pace(std::uint64_t length) noexcept {
    return length < long_get ? pace_of_short : pace_of_long;
}

/// A get counts with the time since the one before it (get_cost.hpp), up to so many times what it took itself: in a
/// ping-pong, where every second is the peer's, it is a bit more than twice, and six times where the messages are
/// written and read. (With 4, a way that leaves a message in the other CPU's cache seemed the faster one and took
/// a fifth more.)
inline constexpr std::uint64_t most_between_gets = 16;

/// Of a long get only so much goes the way that is tried, the rest as usual: a way whose pages the CPU does
/// not have yet, or a slow one, costs little then (of 64 MiB, up to twenty times what the best way takes).
inline constexpr std::uint64_t tried_part = long_get;

/// A bulk ring is not used for gets, if it was not for anything else, before so much has been copied without it. Its
/// first lap is 128 new pages on both sides, 0.1 to 1.5 ms (the first ten messages of 64 KiB took 190 us each where
/// page tables are a hypervisor's, and take 8), and its trial is 80 gets of 256 KiB, 2 ms where it is the slower way:
/// a quarter of what so much takes without it.
inline constexpr std::uint64_t before_ring = 128 * 1024 * 1024;
/// Or would be by so many like the next one: of the longest only a part goes the way that is tried, which costs little.
inline constexpr std::uint64_t alike_before_ring = 4;

/// A ring that has not been used for a while has left the caches, and its pages may be new: four
/// laps of it, or so many gets, are not counted either, or it would never be taken again once
/// something else has been.
inline constexpr std::uint32_t most_until_warm = 128;
[[nodiscard]] constexpr std::uint32_t gets_until_warm(std::uint64_t length) noexcept {
    const std::uint64_t gets = 4 * std::uint64_t{bulk_size} / length;
    return gets < most_until_warm ? static_cast<std::uint32_t>(gets) : most_until_warm;
}

/// A get that waits for what is under way, to be copied by both ends or to be a trial, goes by the ring when so
/// many others have been begun meanwhile: not every caller holds those back.
inline constexpr std::uint64_t most_begun_before_kernel = 64;
/// Where the owner does not help, the trial of that is over after so many that it could not help with.
inline constexpr std::uint32_t most_stand_ins = 128;

/// Parts of a get that both ends copy, in units of 4 KiB. A call to the kernel takes 0.5 to 3 us of its own
/// between far CPUs (the peer's task, its memory map and their locks are in the other cache), as long as
/// copying some 16 units: 256 KiB take 0.71 of one CPU's time in one call of each end, 0.97 in two. (But parts of
/// half that share out 64 and 96 KiB better than none does.) The longest is about what a progress call may
/// take to copy for the peer, and up to twice that each end copies one part.
inline constexpr std::uint32_t joint_min_units = 8;
inline constexpr std::uint32_t joint_max_units = 128;
/// The same where an end has mapped what it copies, and needs no call.
inline constexpr std::uint32_t joint_mapped_min_units = 4;
inline constexpr std::uint32_t joint_mapped_max_units = 64;
/// With two calls to pay for, both ends together may be faster from here on: 64 KiB take 0.94 of the time at best, 96
/// KiB 0.82, and a stream of 64 KiB from and into ever other buffers has 1.4 times the bandwidth of one CPU.
inline constexpr std::uint64_t shortest_joint = 64 * 1024;
/// Gets of memory that is mapped here, from which on the owner may be asked to copy a part: streams of 64 KiB take 0.8 of
/// the time, of 128 KiB 0.7; with 32 and 48 KiB the other CPU's cache costs what its help brings.
inline constexpr std::uint64_t joint_of_mapped = 64 * 1024;
/// Who must not leave the peer writing (its buffers are given back) waits for it so long at most: what
/// was claimed is copied at once, unless the peer is stopped just then.
inline constexpr std::uint64_t joint_patience_ns = 1'000'000'000;
/// What is copied between two looks at whether it is too late: little, and many times what a look takes.
inline constexpr std::uint64_t joint_step = 32 * 1024;
/// The peer says what to map for that: so many mappings at once, each so large at most. (A program uses
/// a few allocations for its messages; others are written by the kernel.)
inline constexpr std::size_t helped_regions = 4;
inline constexpr std::uint64_t most_helped_bytes = std::uint64_t{16} << 30;
/// So old a claim is not copied any more: whoever was stopped that long finds nobody waiting.
inline constexpr std::uint64_t joint_claim_ns = joint_patience_ns / 10;
/// Who has copied one part, and has no next get, leaves the rest to the owner for as long again, but not for longer: what
/// took more was interrupted, most likely.
inline constexpr std::uint64_t most_joint_part_ns = 100'000;
/// Who has looked for the peer's part more often than this in vain, and had nothing else to do, has waited: the peer gets less
/// of the next.
inline constexpr std::uint32_t joint_waits = 1;

/// Before a bulk ring's position is here its pages are new, or the writer tries how much of it to
/// use (bulk_span.hpp): that is not what it is like later. (The warm-up and two trials of its beginning
/// are some 137 laps, each of which counts as the whole ring; two trials of all of it are three, two of few
/// lines 136 if all payloads are the longest.)
inline constexpr std::uint64_t ring_is_warm = 280 * std::uint64_t{bulk_size};

/// Fetching atomics on mapped memory that are answered at once without a progress call in between.
inline constexpr unsigned fetches_without_progress = 64;
/// Operations on memory whose mapping is asked for that may be left to the kernel without one.
inline constexpr unsigned copies_without_progress = 64;

/// A spinning caller looks at the CPU's counter every so many calls, and at sockets and process
/// descriptors (a system call, about 130 ns) when the interval is over: 0.3 % of its time. A caller
/// that turns out to be slow is given the look at every call.
inline constexpr unsigned clock_check_calls = 16;
inline constexpr std::uint64_t slow_poll_interval_ns = 50'000;

/// Rings that are polled at every call even when nothing comes: looking at one costs a nanosecond.
/// With more of them, those that nothing comes through are taken off the list, and their writers
/// ring a doorbell (a system call) with the next message.
inline constexpr std::size_t always_hot = 4;
/// Who is quiet is looked at this often: many times what a doorbell costs both sides.
inline constexpr std::uint64_t rest_check_ns = 1'000'000;
/// A ring that is woken soon after each rest must be quiet for up to so many looks.
inline constexpr unsigned max_rest_after = 256;
/// With rings at rest or connections in the making, sockets are looked at more often: 1 % of the
/// time, and what comes through them waits for that long at most.
inline constexpr std::uint64_t slow_poll_interval_busy_ns = 20'000;

/// How often every connection is looked at, for what nobody announces: records on rings that should
/// carry none, credits that no correct peer returns. Below the 100 ms in which a death is told.
inline constexpr std::uint64_t look_at_all_ns = 20'000'000;

inline constexpr SlowPoll::Pace slow_poll{
    .calls = clock_check_calls,
    .slow_caller_ns = 20 * slow_poll_interval_ns,
    .look_at_all_ns = look_at_all_ns,
};

/// How often unanswered connections make sure that the listener's process lives.
inline constexpr std::uint64_t owner_check_ns = 20'000'000;

/// Accepted sockets that have not said hello yet (an honest peer says it at once): few enough to
/// leave a process with the usual 1024 descriptors most of them; the oldest makes room.
inline constexpr unsigned max_strangers = 256;
inline constexpr std::uint64_t stranger_timeout_ns = 5'000'000'000;

} // namespace comch::link::soft::tuning
