// This process's counter file in a domain (layout: comch/counters_layout.hpp), and the lock file by
// which others see that it lives.
//
// Files in the domain's directory carry their owner's process id in their names. A process (each
// copy of this library in it) holds a lock on `alive.<process id>`: it ends with the process,
// however that ends, and a forked child closes the file. Whoever opens the domain for use next
// collects the files of processes whose lock is gone.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <comch/counters_layout.hpp>
#include <comch/device.hpp>
#include <comch/side.hpp>

#include "core/base/unique_fd.hpp"
#include "core/device/process_id.hpp"
#include "core/memory/shared_memory.hpp"

namespace comch {

/// What a slot says besides the counters.
struct SlotInfo {
    counters::SlotKind kind = counters::SlotKind::connection;
    counters::SlotState state = counters::SlotState::connecting;
    std::string_view face{};
    std::string_view peer{}; ///< cut to what a slot holds
    Side local_side{};
    Side peer_side{};
    std::uint64_t peer_pid = 0;
    std::uint64_t connection = 0;
};

class ProcessCounters {
    struct Made {}; ///< what only open() has

public:
    /// The one of this process in this domain, made at first use, kept while anybody holds it.
    [[nodiscard]] static Result<std::shared_ptr<ProcessCounters>>
    open(const std::shared_ptr<Domain>& domain);

    ProcessCounters(Made, std::shared_ptr<Domain> domain, std::string name, std::string alive_name,
                    Mapping mapping, UniqueFd file, UniqueFd lock);
    ~ProcessCounters();
    ProcessCounters(const ProcessCounters&) = delete;
    ProcessCounters& operator=(const ProcessCounters&) = delete;

    /// A slot for a new connection; any thread. Never fails: beyond the last, or where the
    /// directory is full, it is the shared one.
    [[nodiscard]] counters::Slot* take_slot(const SlotInfo& info = {});
    /// Says more of the connection that a slot was taken for; the counters stay. (The shared one
    /// tells nothing of any connection.)
    void describe_slot(counters::Slot* slot, const SlotInfo& info);
    /// The connection is over; its numbers stay to be read until the slot is taken again.
    void release_slot(counters::Slot* slot, counters::SlotState state);

private:
    std::shared_ptr<Domain> domain_;
    ProcessId owner_ = process_id();
    std::string name_; ///< of the files
    std::string alive_name_;
    Mapping mapping_;
    UniqueFd file_;
    UniqueFd alive_;
    bool noted_ = false; ///< a forked child closes it
    std::mutex mutex_;
    std::vector<std::uint32_t> released_;
    std::uint32_t used_ = 0;
};

/// 16 lower-case hexadecimal digits, as in file names.
[[nodiscard]] std::string process_suffix(ProcessId id);

/// Does the process with this suffix hold its lock in the domain? (Our own always does.)
[[nodiscard]] bool process_lives(const Domain& domain, const std::string& suffix);

} // namespace comch
