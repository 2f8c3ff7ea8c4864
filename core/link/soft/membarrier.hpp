// The sleeper's half of "publish, then look whether the other sleeps".
//
// Publishing and then loading a flag needs a full fence, which would cost every message dearly
// (measured: 8 times the rate). Instead the one who goes to sleep pays: it sets its flag and
// interrupts every CPU that runs a registered process (membarrier), which is a full fence on each of
// them; senders need a compiler barrier only.
#pragma once

namespace comch::link::soft {

/// Registers this process, once. False where the kernel (or a seccomp filter) does not allow it;
/// then connections use real fences.
[[nodiscard]] bool membarrier_register() noexcept;

/// A full fence on every CPU that runs a registered process, and here. False: here only. A sandbox
/// may forbid it after the connections were made that rely on it; nobody may sleep then.
[[nodiscard]] bool membarrier_all() noexcept;

} // namespace comch::link::soft
