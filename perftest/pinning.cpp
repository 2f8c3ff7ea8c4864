#include "perftest/pinning.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <stdexcept>

#include <sched.h>

#include <fmt/format.h>

#include "perftest/values.hpp"

namespace comch::perftest {
namespace {

/// A CPU set for any CPU number that the command line takes.
class CpuSet {
public:
    CpuSet() : set_(CPU_ALLOC(max_cpu + 1)) { CPU_ZERO_S(size(), set_.get()); }
    [[nodiscard]] static std::size_t size() { return CPU_ALLOC_SIZE(max_cpu + 1); }
    [[nodiscard]] cpu_set_t* get() const { return set_.get(); }
    void add(std::uint32_t cpu) { CPU_SET_S(cpu, size(), set_.get()); }
    [[nodiscard]] std::vector<std::uint32_t> all() const {
        std::vector<std::uint32_t> cpus;
        for (std::uint32_t cpu = 0; cpu <= max_cpu; ++cpu) {
            if (CPU_ISSET_S(cpu, size(), set_.get()) != 0) {
                cpus.push_back(cpu);
            }
        }
        return cpus;
    }

private:
    struct Free {
        void operator()(cpu_set_t* set) const { CPU_FREE(set); }
    };
    std::unique_ptr<cpu_set_t, Free> set_;
};

std::vector<std::uint32_t> allowed() {
    const CpuSet set;
    if (::sched_getaffinity(0, CpuSet::size(), set.get()) != 0) {
        return {};
    }
    return set.all();
}

} // namespace

Result<void> pin_to(std::uint32_t cpu) {
    CpuSet set;
    set.add(cpu);
    if (::sched_setaffinity(0, CpuSet::size(), set.get()) != 0) {
        return fail_errno(Errc::invalid_argument,
                          fmt::format("cannot run on CPU {} (see nproc, taskset)", cpu), errno);
    }
    return {};
}

void pin_or_throw(int cpu) {
    if (cpu < 0) {
        return;
    }
    if (const auto pinned = pin_to(static_cast<std::uint32_t>(cpu)); !pinned) {
        throw std::runtime_error(pinned.error().message);
    }
}

Result<void> check_cpus(const std::vector<std::uint32_t>& cpus) {
    const auto may = allowed();
    for (const std::uint32_t cpu : cpus) {
        if (!may.empty() && std::find(may.begin(), may.end(), cpu) == may.end()) {
            return fail(Errc::invalid_argument,
                        fmt::format("cannot run on CPU {}: this process may use CPUs {}", cpu,
                                    format_cpus(may)));
        }
    }
    return {};
}

Result<void> ScopedPin::pin(const std::vector<std::uint32_t>& cpus, std::uint32_t number) {
    if (cpus.empty()) {
        return {};
    }
    before_ = allowed();
    return pin_to(cpus[number % cpus.size()]);
}

ScopedPin::~ScopedPin() {
    if (!before_.empty()) {
        CpuSet set;
        for (const std::uint32_t cpu : before_) {
            set.add(cpu);
        }
        (void)::sched_setaffinity(0, CpuSet::size(), set.get());
    }
}

} // namespace comch::perftest
