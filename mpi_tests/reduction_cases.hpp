// Reductions: what each rank contributes, and what must come out, computed without MPI.
#pragma once

#include "collective_cases.hpp"
#include "common.hpp"

#include <array>
#include <complex>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace mpi_tests {

/// MPI_MAXLOC and MPI_MINLOC work on a value and an index.
template <typename T> struct ValueAndIndex {
    T value;
    int index;
    bool operator==(const ValueAndIndex&) const = default;
};

enum class ReduceKind { reduce, allreduce, reduce_scatter, reduce_scatter_block, scan, exscan };

inline const char* name_of(ReduceKind kind) {
    const char* names[] = {"reduce", "allreduce", "reduce_scatter", "reduce_scatter_block",
                           "scan",   "exscan"};
    return names[int(kind)];
}

/// An MPI type and operation, and the same in C++.
template <typename T> struct Reduction {
    std::string name;
    MPI_Datatype type;
    MPI_Op op;
    std::function<T(int rank, std::size_t i)> value;
    std::function<T(T, T)> combine;
};

namespace detail {

/// A small number in any of the types.
template <typename T> [[nodiscard]] T number(std::size_t small) {
    if constexpr (std::is_arithmetic_v<T>) {
        return static_cast<T>(small);
    } else {
        return T(static_cast<typename T::value_type>(small));
    }
}

template <typename T> [[nodiscard]] T contribution_sum(int rank, std::size_t i) {
    // At most 3 from each rank: no overflow in 8 bits with 40 ranks, exact in floating point.
    return number<T>((i * 7 + std::size_t(rank) * 3) % 4);
}
template <typename T> [[nodiscard]] T contribution_product(int rank, std::size_t i) {
    return number<T>(std::size_t(rank) == i % 5 ? 1 + i % 3 : 1);
}
template <typename T> [[nodiscard]] T contribution_any(int rank, std::size_t i) {
    return number<T>((i * 31 + std::size_t(rank) * 17) % 101);
}
template <typename T> [[nodiscard]] T contribution_bit(int rank, std::size_t i) {
    return number<T>((i + std::size_t(rank) * 3) % 4 == 0 ? 1 : 0);
}

} // namespace detail

/// The operations that MPI defines for any number.
template <typename T>
std::vector<Reduction<T>> arithmetic(const std::string& type_name, MPI_Datatype type) {
    std::vector<Reduction<T>> all = {
        {"sum of " + type_name, type, MPI_SUM, detail::contribution_sum<T>,
         [](T a, T b) { return T(a + b); }},
        {"product of " + type_name, type, MPI_PROD, detail::contribution_product<T>,
         [](T a, T b) { return T(a * b); }},
    };
    if constexpr (std::is_arithmetic_v<T>) {
        all.push_back({"maximum of " + type_name, type, MPI_MAX, detail::contribution_any<T>,
                       [](T a, T b) { return a < b ? b : a; }});
        all.push_back({"minimum of " + type_name, type, MPI_MIN, detail::contribution_any<T>,
                       [](T a, T b) { return b < a ? b : a; }});
    }
    if constexpr (std::is_integral_v<T>) {
        const auto any = detail::contribution_any<T>;
        const auto bit = detail::contribution_bit<T>;
        all.push_back(
            {"band of " + type_name, type, MPI_BAND, any, [](T a, T b) { return T(a & b); }});
        all.push_back(
            {"bor of " + type_name, type, MPI_BOR, any, [](T a, T b) { return T(a | b); }});
        all.push_back(
            {"bxor of " + type_name, type, MPI_BXOR, any, [](T a, T b) { return T(a ^ b); }});
        all.push_back({"land of " + type_name, type, MPI_LAND, bit,
                       [](T a, T b) { return T(a != 0 && b != 0); }});
        all.push_back({"lor of " + type_name, type, MPI_LOR, bit,
                       [](T a, T b) { return T(a != 0 || b != 0); }});
        all.push_back({"lxor of " + type_name, type, MPI_LXOR, bit,
                       [](T a, T b) { return T((a != 0) != (b != 0)); }});
    }
    return all;
}

template <typename T>
std::vector<Reduction<ValueAndIndex<T>>> with_index(const std::string& type_name,
                                                    MPI_Datatype type) {
    using Pair = ValueAndIndex<T>;
    const auto value = [](int rank, std::size_t i) {
        Pair pair;
        std::memset(static_cast<void*>(&pair), 0, sizeof pair); // padding too
        // Few values, so that equal ones are frequent: then the lowest index counts.
        pair.value = detail::number<T>((i * 5 + std::size_t(rank) * 7) % 3);
        pair.index = int((std::size_t(rank) * 13 + i) % 29);
        return pair;
    };
    const auto lower = [](const Pair& a, const Pair& b) { return a.index < b.index ? a : b; };
    return {{"maxloc of " + type_name, type, MPI_MAXLOC, value,
             [=](Pair a, Pair b) {
                 return a.value == b.value ? lower(a, b) : a.value > b.value ? a : b;
             }},
            {"minloc of " + type_name, type, MPI_MINLOC, value, [=](Pair a, Pair b) {
                 return a.value == b.value ? lower(a, b) : a.value < b.value ? a : b;
             }}};
}

/// A 2 x 2 matrix of 64-bit words: multiplication is associative and not commutative.
struct Matrix {
    std::uint64_t m[4];
    bool operator==(const Matrix&) const = default;
    friend Matrix operator*(const Matrix& a, const Matrix& b) {
        return {{a.m[0] * b.m[0] + a.m[1] * b.m[2], a.m[0] * b.m[1] + a.m[1] * b.m[3],
                 a.m[2] * b.m[0] + a.m[3] * b.m[2], a.m[2] * b.m[1] + a.m[3] * b.m[3]}};
    }
};

/// MPI's user function: inout = in * inout, where `in` comes from the lower ranks.
extern "C" inline void multiply_matrices(void* in, void* inout, int* length, MPI_Datatype*) {
    const auto* left = static_cast<const Matrix*>(in);
    auto* right = static_cast<Matrix*>(inout);
    for (int i = 0; i < *length; ++i) {
        right[i] = left[i] * right[i];
    }
}

/// A commutative one: addition modulo a prime, on 64-bit numbers.
inline constexpr std::uint64_t modulus = 0xffffffffffffffc5;
inline std::uint64_t add_modulo(std::uint64_t a, std::uint64_t b) {
    return a >= modulus - b ? a - (modulus - b) : a + b;
}
extern "C" inline void add_modulo_all(void* in, void* inout, int* length, MPI_Datatype*) {
    const auto* from = static_cast<const std::uint64_t*>(in);
    auto* to = static_cast<std::uint64_t*>(inout);
    for (int i = 0; i < *length; ++i) {
        to[i] = add_modulo(from[i], to[i]);
    }
}

/// The user-defined operations, freed at the end.
class UserReductions {
public:
    UserReductions() {
        MPI_Type_contiguous(4, MPI_UINT64_T, &matrix_type_);
        MPI_Type_commit(&matrix_type_);
        MPI_Op_create(multiply_matrices, 0, &multiply_);
        MPI_Op_create(add_modulo_all, 1, &add_);
    }
    ~UserReductions() {
        MPI_Op_free(&add_);
        MPI_Op_free(&multiply_);
        MPI_Type_free(&matrix_type_);
    }
    UserReductions(const UserReductions&) = delete;
    UserReductions& operator=(const UserReductions&) = delete;

    [[nodiscard]] Reduction<Matrix> matrices() const {
        return {"product of matrices", matrix_type_, multiply_,
                [](int rank, std::size_t i) {
                    const auto r = std::uint64_t(rank);
                    return Matrix{{r + 1, i, 2 * i + r, 3 + r * i}};
                },
                [](Matrix a, Matrix b) { return a * b; }};
    }
    [[nodiscard]] Reduction<std::uint64_t> modular() const {
        return {
            "sum modulo a prime", MPI_UINT64_T, add_,
            [](int rank, std::size_t i) { return (modulus - 1 - std::uint64_t(rank)) ^ (i << 20); },
            add_modulo};
    }

private:
    MPI_Datatype matrix_type_ = MPI_DATATYPE_NULL;
    MPI_Op multiply_ = MPI_OP_NULL;
    MPI_Op add_ = MPI_OP_NULL;
};

/// How many elements rank `i` gets of a reduce_scatter over about `length` elements per rank. The
/// first gets the most: MPICH 4.0 in place moves a rank's block to the front with memcpy, and
/// aborts if the block is longer than all those before it.
inline int scattered_count(std::size_t length, int i) {
    return int(length) + (i == 0 ? 2 : i % 3);
}

template <typename T>
Operation reduction_case(Session& session, MPI_Comm comm, ReduceKind kind, const Reduction<T>& r,
                         std::size_t length, bool in_place, int root = 0) {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);

    // How many elements go in, and which of the result this rank gets.
    auto counts = std::make_shared<std::vector<int>>(std::size_t(size), int(length));
    std::size_t in_count = length;
    std::size_t first = 0;
    std::size_t out_count = length;
    if (kind == ReduceKind::reduce_scatter || kind == ReduceKind::reduce_scatter_block) {
        in_count = 0;
        for (int i = 0; i < size; ++i) {
            if (kind == ReduceKind::reduce_scatter) {
                (*counts)[std::size_t(i)] = scattered_count(length, i);
            }
            if (i == rank) {
                first = in_count;
                out_count = std::size_t((*counts)[std::size_t(i)]);
            }
            in_count += std::size_t((*counts)[std::size_t(i)]);
        }
    }

    // In place, the contribution is in the output buffer, which then is as long as the input.
    const bool own_in_place = in_place && (kind != ReduceKind::reduce || rank == root);
    auto in = std::make_shared<std::vector<T>>(in_count + 1);
    auto out = std::make_shared<std::vector<T>>(std::max(in_count, out_count) + 1);
    std::memset(static_cast<void*>(in->data()), 0, in->size() * sizeof(T));
    std::memset(static_cast<void*>(out->data()), 0x55, out->size() * sizeof(T));
    for (std::size_t i = 0; i < in_count; ++i) {
        (own_in_place ? *out : *in)[i] = r.value(rank, i);
    }
    // The bytes of the element behind the result, padding included.
    std::array<std::byte, sizeof(T)> guard;
    std::memcpy(guard.data(), &(*out)[own_in_place ? in_count : out_count], sizeof(T));
    const void* source = own_in_place ? MPI_IN_PLACE : static_cast<const void*>(in->data());

    // Lower bounds for any algorithm: a contribution must leave its rank, a result must reach its.
    if (size > 1 && length > 0) {
        switch (kind) {
        case ReduceKind::reduce:
            session.moved_by_collective(rank == root ? 0 : length * sizeof(T));
            break;
        case ReduceKind::allreduce:
            session.moved_by_collective(length * sizeof(T));
            break;
        case ReduceKind::reduce_scatter:
        case ReduceKind::reduce_scatter_block:
            session.moved_by_collective((in_count - out_count) * sizeof(T));
            break;
        case ReduceKind::scan:
        case ReduceKind::exscan:
            session.moved_by_collective(rank == size - 1 ? 0 : length * sizeof(T));
            break;
        }
    }

    const std::string what = fmt::format(
        "{}, {} of {} elements{}{}", name_of(kind), r.name, length, in_place ? ", in place" : "",
        kind == ReduceKind::reduce ? fmt::format(", root {}", root) : "");
    const int count = int(length);
    return {what,
            [=] {
                void* to = out->data();
                switch (kind) {
                case ReduceKind::reduce:
                    MPI_Reduce(source, to, count, r.type, r.op, root, comm);
                    break;
                case ReduceKind::allreduce:
                    MPI_Allreduce(source, to, count, r.type, r.op, comm);
                    break;
                case ReduceKind::reduce_scatter:
                    MPI_Reduce_scatter(source, to, counts->data(), r.type, r.op, comm);
                    break;
                case ReduceKind::reduce_scatter_block:
                    MPI_Reduce_scatter_block(source, to, count, r.type, r.op, comm);
                    break;
                case ReduceKind::scan:
                    MPI_Scan(source, to, count, r.type, r.op, comm);
                    break;
                case ReduceKind::exscan:
                    MPI_Exscan(source, to, count, r.type, r.op, comm);
                    break;
                }
            },
            [=](MPI_Request* request) {
                void* to = out->data();
                switch (kind) {
                case ReduceKind::reduce:
                    MPI_Ireduce(source, to, count, r.type, r.op, root, comm, request);
                    break;
                case ReduceKind::allreduce:
                    MPI_Iallreduce(source, to, count, r.type, r.op, comm, request);
                    break;
                case ReduceKind::reduce_scatter:
                    MPI_Ireduce_scatter(source, to, counts->data(), r.type, r.op, comm, request);
                    break;
                case ReduceKind::reduce_scatter_block:
                    MPI_Ireduce_scatter_block(source, to, count, r.type, r.op, comm, request);
                    break;
                case ReduceKind::scan:
                    MPI_Iscan(source, to, count, r.type, r.op, comm, request);
                    break;
                case ReduceKind::exscan:
                    MPI_Iexscan(source, to, count, r.type, r.op, comm, request);
                    break;
                }
            },
            [=] {
                const bool has_result = (kind != ReduceKind::reduce || rank == root) &&
                                        (kind != ReduceKind::exscan || rank > 0);
                const int last = kind == ReduceKind::scan     ? rank
                                 : kind == ReduceKind::exscan ? rank - 1
                                                              : size - 1;
                for (std::size_t i = 0; has_result && i < out_count; ++i) {
                    T expected = r.value(0, first + i);
                    for (int other = 1; other <= last; ++other) {
                        expected = r.combine(expected, r.value(other, first + i));
                    }
                    require((*out)[i] == expected, "{}: element {} is wrong", what, i);
                }
                require(std::memcmp(guard.data(), &(*out)[own_in_place ? in_count : out_count],
                                    sizeof(T)) == 0,
                        "{}: the memory behind the result was overwritten", what);
                // What is only read must be as it was.
                for (std::size_t i = 0; !own_in_place && i < in_count; ++i) {
                    require((*in)[i] == r.value(rank, i), "{}: input element {} was changed", what,
                            i);
                }
            }};
}

} // namespace mpi_tests
