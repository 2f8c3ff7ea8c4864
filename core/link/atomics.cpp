#include <atomic>

#include "core/link/one_sided/engine.hpp"

namespace comch::link {
namespace {

template <class Word>
Word apply(std::byte* at, AtomicOp op, std::uint64_t operand64, std::uint64_t compare64) {
    // Sequentially consistent: the other side's direct accesses and the owner's own use it too.
    std::atomic_ref<Word> word(*reinterpret_cast<Word*>(at));
    const auto operand = static_cast<Word>(operand64);
    switch (op) {
    case AtomicOp::add:
        return word.fetch_add(operand);
    case AtomicOp::bit_and:
        return word.fetch_and(operand);
    case AtomicOp::bit_or:
        return word.fetch_or(operand);
    case AtomicOp::bit_xor:
        return word.fetch_xor(operand);
    case AtomicOp::swap:
        return word.exchange(operand);
    case AtomicOp::compare_swap: {
        auto expected = static_cast<Word>(compare64);
        (void)word.compare_exchange_strong(expected, operand);
        return expected;
    }
    }
    return 0;
}

} // namespace

std::uint64_t execute_atomic(std::byte* at, const AtomicRequest& request) noexcept {
    return request.size == 4
               ? apply<std::uint32_t>(at, request.op, request.operand, request.compare)
               : apply<std::uint64_t>(at, request.op, request.operand, request.compare);
}

} // namespace comch::link
