// SIGINT and SIGTERM ask for an orderly end.
#pragma once

#include <comch/progress.hpp>

namespace comch::perftest::interrupt {

/// From now on the signals are remembered, and wake the engine, instead of ending the process. The
/// second one does end it.
void catch_signals(ProgressEngine& engine);
/// The engine is not woken any more.
void release() noexcept;
[[nodiscard]] bool requested() noexcept;

} // namespace comch::perftest::interrupt
