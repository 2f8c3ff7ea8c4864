// What every byte of every message must be: a function of who sent it, to whom, under which tag,
// and of its position. Two messages that get mixed up, a byte that is moved, doubled, lost or left
// over from an earlier message all show.
#pragma once

#include "report.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace mpi_tests {

/// The identity of one message.
struct Key {
    int source = 0;
    int dest = 0;
    int tag = 0;
};

class Pattern {
public:
    explicit Pattern(Key key)
        : seed_(mix((std::uint64_t{static_cast<std::uint32_t>(key.source)} << 40) ^
                    (std::uint64_t{static_cast<std::uint32_t>(key.dest)} << 20) ^
                    mix(static_cast<std::uint32_t>(key.tag)))) {}

    [[nodiscard]] std::byte at(std::uint64_t offset) const {
        return static_cast<std::byte>(word(offset / 8) >> (8 * (offset % 8)));
    }

    /// Fills `bytes`, whose first byte is at `offset` in the message.
    void fill(std::span<std::byte> bytes, std::uint64_t offset = 0) const {
        std::size_t i = 0;
        for (; i < bytes.size() && (offset + i) % 8 != 0; ++i) {
            bytes[i] = at(offset + i);
        }
        for (; i + 8 <= bytes.size(); i += 8) {
            const std::uint64_t value = little_endian(word((offset + i) / 8));
            std::memcpy(bytes.data() + i, &value, 8);
        }
        for (; i < bytes.size(); ++i) {
            bytes[i] = at(offset + i);
        }
    }

    struct Mismatch {
        std::uint64_t first = 0; ///< offset in the message
        std::uint64_t count = 0;
        std::byte actual{};
        std::byte expected{};
    };

    /// Compares every byte; `count` is 0 if all are right.
    [[nodiscard]] Mismatch compare(std::span<const std::byte> bytes,
                                   std::uint64_t offset = 0) const {
        Mismatch result;
        std::size_t i = 0;
        const auto one = [&](std::size_t at_index) {
            const std::byte expected = at(offset + at_index);
            if (bytes[at_index] != expected) [[unlikely]] {
                if (result.count++ == 0) {
                    result.first = offset + at_index;
                    result.actual = bytes[at_index];
                    result.expected = expected;
                }
            }
        };
        for (; i < bytes.size() && (offset + i) % 8 != 0; ++i) {
            one(i);
        }
        for (; i + 8 <= bytes.size(); i += 8) {
            std::uint64_t value = 0;
            std::memcpy(&value, bytes.data() + i, 8);
            if (value != little_endian(word((offset + i) / 8))) [[unlikely]] {
                for (std::size_t j = 0; j < 8; ++j) {
                    one(i + j);
                }
            }
        }
        for (; i < bytes.size(); ++i) {
            one(i);
        }
        return result;
    }

private:
    /// A well-mixed 64-bit function: neighbours in any argument give unrelated words.
    static constexpr std::uint64_t mix(std::uint64_t x) {
        x += 0x9e3779b97f4a7c15;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
        return x ^ (x >> 31);
    }

    [[nodiscard]] std::uint64_t word(std::uint64_t index) const {
        std::uint64_t x = seed_ + index * 0x9e3779b97f4a7c15;
        x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
        return x ^ (x >> 32);
    }

    static constexpr std::uint64_t little_endian(std::uint64_t value) {
        return std::endian::native == std::endian::little ? value : __builtin_bswap64(value);
    }

    std::uint64_t seed_;
};

/// Ends the job if a byte of `bytes` is not what `key` says.
inline void verify(std::string_view what, Key key, std::span<const std::byte> bytes,
                   std::uint64_t offset = 0) {
    const auto wrong = Pattern(key).compare(bytes, offset);
    require(wrong.count == 0,
            "{}: {} bytes from rank {} to rank {}, tag {}: byte {} is {:#04x}, expected {:#04x}; "
            "{} of {} bytes are wrong",
            what, bytes.size(), key.source, key.dest, key.tag, wrong.first,
            static_cast<unsigned>(wrong.actual), static_cast<unsigned>(wrong.expected), wrong.count,
            bytes.size());
}

/// Memory for messages up to a capacity, with a guard before and behind the message: what a
/// receive writes outside the message shows.
class Buffer {
public:
    explicit Buffer(std::size_t capacity, std::size_t misalignment = 0)
        : start_(guard_size + misalignment), memory_(start_ + capacity + guard_size) {}

    [[nodiscard]] std::byte* data() { return memory_.data() + start_; }
    [[nodiscard]] std::size_t capacity() const { return memory_.size() - start_ - guard_size; }
    [[nodiscard]] std::span<std::byte> first(std::size_t size) { return {data(), size}; }

    /// Fills in the message to be sent.
    std::byte* fill(Key key, std::size_t size) {
        Pattern(key).fill(first(size));
        return data();
    }

    /// Prepares for receiving a message of `size` bytes.
    std::byte* arm(std::size_t size) {
        std::memset(data() - guard_size, guard_value, guard_size);
        std::memset(data() + size, guard_value, guard_size);
        return data();
    }

    /// After the receive: all bytes, and the guards.
    void verify(std::string_view what, Key key, std::size_t size) {
        mpi_tests::verify(what, key, first(size));
        check_guard(what, key, size, data() - guard_size, "before");
        check_guard(what, key, size, data() + size, "behind");
    }

    /// Prepares for receiving messages whose lengths are not known before; once is enough.
    std::byte* arm_all() {
        arm(capacity());
        std::memset(data(), guard_value, capacity());
        return data();
    }

    /// After such a receive: all bytes of the message, and that nothing was written behind it.
    /// Then the buffer is ready for the next one.
    void verify_part(std::string_view what, Key key, std::size_t size) {
        verify(what, key, size);
        std::memset(data(), guard_value, size);
    }

    static constexpr std::size_t guard_size = 64;

private:
    static constexpr unsigned char guard_value = 0xa5;

    static void check_guard(std::string_view what, Key key, std::size_t size,
                            const std::byte* guard, std::string_view where) {
        for (std::size_t i = 0; i < guard_size; ++i) {
            require(guard[i] == std::byte{guard_value},
                    "{}: {} bytes from rank {} to rank {}, tag {}: the memory {} the buffer was "
                    "overwritten (guard byte {} is {:#04x})",
                    what, size, key.source, key.dest, key.tag, where, i,
                    static_cast<unsigned>(guard[i]));
        }
    }

    std::size_t start_;
    std::vector<std::byte> memory_;
};

} // namespace mpi_tests
