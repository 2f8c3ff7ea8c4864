// Numbers that look random and are the same in every run with the same seed.
#pragma once

#include <cstdint>
#include <random>

namespace comch::link::soft::test {

class Random {
public:
    explicit Random(std::uint32_t seed) : engine_(seed) {}
    std::uint32_t operator()() { return static_cast<std::uint32_t>(engine_()); }
    /// 0 to `limit` - 1.
    std::uint32_t below(std::uint32_t limit) { return (*this)() % limit; }
    std::uint64_t wide() { return std::uint64_t{(*this)()} << 32 | (*this)(); }

private:
    std::mt19937 engine_;
};

} // namespace comch::link::soft::test
