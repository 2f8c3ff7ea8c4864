// What client and server say to each other besides the messages that are measured.
//
//   client                          server
//     Hello    what is measured  ─►
//                                ◄─  Welcome
//     then for each size
//     Round    size, consumers   ─►
//                                ◄─  Ready     consumers
//     ... the measured messages, both ways ...
//     End      what was sent     ─►
//                                ◄─  Outcome   what was sent and received
//   and instead of any of these, either way
//     Failure  why, for people
//
// They travel as control messages on the connection whose control messages may be measured too. The
// first byte tells them apart: `data_mark` begins every measured one, 'C' each of these. The other
// end may be anything that connected: every field is checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <comch/error.hpp>

#include "perftest/plan.hpp"

namespace comch::perftest::protocol {

inline constexpr std::byte data_mark{0};
inline constexpr std::uint16_t version = 1;
inline constexpr std::uint32_t max_cpus = 256;
inline constexpr std::size_t max_text = 1000;

struct Hello {
    Plan plan;
    std::uint32_t timeout_ms = 0;
    std::vector<std::uint32_t> cpus{}; ///< of the server's threads
};
struct Welcome {
    std::uint64_t pid = 0;
};
struct Round {
    Load load;
    std::vector<std::uint32_t> consumers{}; ///< one for each thread; none on the control path
};
struct Ready {
    std::vector<std::uint32_t> consumers;
};
struct End {
    std::vector<std::uint64_t> sent; ///< by each thread
};
struct Outcome {
    std::uint64_t received = 0;
    std::uint64_t wrong = 0; ///< messages whose content or length was not right
    std::vector<std::uint64_t> sent;
    std::string first_wrong{}; ///< in words
};
struct Failure {
    std::string text;
};

using Message = std::variant<Hello, Welcome, Round, Ready, End, Outcome, Failure>;

/// Texts are cut at max_text.
[[nodiscard]] std::vector<std::byte> encode(const Message& message);

/// version_mismatch: another version's (a Failure is understood whatever its version);
/// invalid_argument: not of this protocol, with what is wrong.
[[nodiscard]] Result<Message> decode(std::span<const std::byte> bytes);

} // namespace comch::perftest::protocol
