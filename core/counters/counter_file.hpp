// One counter file, of this or of another process, open for reading.
//
// It is read, not mapped: touching a hole of a mapped tmpfs file would allocate it, and a file that
// is cut under its reader would kill it. The kernel copies each aligned word whole.
#pragma once

#include <optional>
#include <string>

#include <comch/device.hpp>

#include "core/base/unique_fd.hpp"
#include "core/counters/samples.hpp"

namespace comch::counters {

class CounterFile {
public:
    /// Nothing if the entry is no counter file of our version (it may be being made), or if its
    /// process is dead.
    [[nodiscard]] static std::optional<CounterFile> open(const Domain& domain,
                                                         const std::string& entry);

    /// Everything in it but what is in flight; nothing if it turns out to be broken.
    [[nodiscard]] std::optional<ProcessSample> read() const;
    /// One slot again; nothing if it cannot be read.
    [[nodiscard]] std::optional<ConnectionSample> read_slot(std::uint32_t index) const;

private:
    explicit CounterFile(UniqueFd fd, std::uint64_t process_id)
        : fd_(std::move(fd)), process_id_(process_id) {}

    UniqueFd fd_;
    std::uint64_t process_id_;
};

} // namespace comch::counters
