#include "atomic_ops.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>

namespace comch::ofi {
namespace {

template <class Function> bool with_type(int datatype, Function&& function) {
    switch (datatype) {
    case FI_INT8:
        return function(std::int8_t{});
    case FI_UINT8:
        return function(std::uint8_t{});
    case FI_INT16:
        return function(std::int16_t{});
    case FI_UINT16:
        return function(std::uint16_t{});
    case FI_INT32:
        return function(std::int32_t{});
    case FI_UINT32:
        return function(std::uint32_t{});
    case FI_INT64:
        return function(std::int64_t{});
    case FI_UINT64:
        return function(std::uint64_t{});
    case FI_FLOAT:
        return function(float{});
    case FI_DOUBLE:
        return function(double{});
    default:
        return false;
    }
}

template <std::size_t Size> struct WordOf;
template <> struct WordOf<1> { using Type = std::uint8_t; };
template <> struct WordOf<2> { using Type = std::uint16_t; };
template <> struct WordOf<4> { using Type = std::uint32_t; };
template <> struct WordOf<8> { using Type = std::uint64_t; };

/// Arithmetic in the unsigned type of at least int's width: overflow wraps around.
template <class T, class Operation> T wrapping(T a, T b, Operation operation) {
    if constexpr (std::is_floating_point_v<T>) {
        return operation(a, b);
    } else {
        using Wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
        return static_cast<T>(operation(static_cast<Wide>(a), static_cast<Wide>(b)));
    }
}

template <class T> T bitwise(int op, T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        switch (op) {
        case FI_BOR:
            return static_cast<T>(a | b);
        case FI_BAND:
            return static_cast<T>(a & b);
        default:
            return static_cast<T>(a ^ b);
        }
    } else {
        return a;
    }
}

template <class T> T masked_swap(T old, T operand, T mask) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>((operand & mask) | (old & static_cast<T>(~mask)));
    } else {
        return old;
    }
}

/// Is `a` zero? In words that say that an exact comparison is meant.
template <class T> bool truth(T a) {
    return !(a == T{});
}

template <class T> T result_of(int op, T old, T operand, T compare) {
    switch (op) {
    case FI_MIN:
        return std::min(old, operand);
    case FI_MAX:
        return std::max(old, operand);
    case FI_SUM:
        return wrapping(old, operand, [](auto a, auto b) { return a + b; });
    case FI_PROD:
        return wrapping(old, operand, [](auto a, auto b) { return a * b; });
    case FI_LOR:
        return static_cast<T>(truth(old) || truth(operand));
    case FI_LAND:
        return static_cast<T>(truth(old) && truth(operand));
    case FI_LXOR:
        return static_cast<T>(truth(old) != truth(operand));
    case FI_BOR:
    case FI_BAND:
    case FI_BXOR:
        return bitwise(op, old, operand);
    case FI_ATOMIC_WRITE:
        return operand;
    case FI_CSWAP:
        return compare == old ? operand : old;
    case FI_CSWAP_NE:
        return compare == old ? old : operand;
    case FI_CSWAP_LE:
        return compare <= old ? operand : old;
    case FI_CSWAP_LT:
        return compare < old ? operand : old;
    case FI_CSWAP_GE:
        return compare >= old ? operand : old;
    case FI_CSWAP_GT:
        return compare > old ? operand : old;
    case FI_MSWAP:
        return masked_swap(old, operand, compare);
    default: // FI_ATOMIC_READ
        return old;
    }
}

template <class T>
void perform_one(int op, std::byte* target, const std::byte* operand, const std::byte* compare,
                 std::byte* old_out) {
    using Word = typename WordOf<sizeof(T)>::Type;
    T value{};
    T compared{};
    if (operand != nullptr) {
        std::memcpy(&value, operand, sizeof(T));
    }
    if (compare != nullptr) {
        std::memcpy(&compared, compare, sizeof(T));
    }
    const std::atomic_ref<Word> word(*reinterpret_cast<Word*>(target));
    // Acquire and release on success: programs use them as locks around plain accesses.
    Word old = word.load(std::memory_order_acquire);
    if (op != FI_ATOMIC_READ) {
        while (!word.compare_exchange_weak(
            old, std::bit_cast<Word>(result_of(op, std::bit_cast<T>(old), value, compared)),
            std::memory_order_acq_rel, std::memory_order_acquire)) {
        }
    }
    if (old_out != nullptr) {
        std::memcpy(old_out, &old, sizeof(T));
    }
}

} // namespace

std::size_t datatype_size(int datatype) noexcept {
    std::size_t size = 0;
    (void)with_type(datatype, [&](auto value) {
        size = sizeof(value);
        return true;
    });
    return size;
}

bool atomic_is_valid(int datatype, int op, AtomicCall call) noexcept {
    const bool floating = datatype == FI_FLOAT || datatype == FI_DOUBLE;
    if (datatype_size(datatype) == 0) {
        return false;
    }
    if (op >= FI_CSWAP && op <= FI_MSWAP) {
        return call == AtomicCall::compare && !(floating && op == FI_MSWAP);
    }
    if (op < FI_MIN || op > FI_ATOMIC_WRITE || call == AtomicCall::compare) {
        return false;
    }
    if (floating && (op == FI_BOR || op == FI_BAND || op == FI_BXOR)) {
        return false;
    }
    return op != FI_ATOMIC_READ || call == AtomicCall::fetch;
}

void perform_atomic(int datatype, int op, std::byte* target, const std::byte* operand,
                    const std::byte* compare, std::byte* old, std::size_t count) noexcept {
    (void)with_type(datatype, [&](auto value) {
        using T = decltype(value);
        const auto at = [](auto* base, std::size_t i) {
            return base == nullptr ? base : base + i * sizeof(T);
        };
        for (std::size_t i = 0; i < count; ++i) {
            perform_one<T>(op, at(target, i), at(operand, i), at(compare, i), at(old, i));
        }
        return true;
    });
}

} // namespace comch::ofi
