// Another process's memory, as the kernel lets us at it (process_vm_readv and process_vm_writev): one
// copy by our CPU, which the other process need not take part in. It takes the same user, one PID
// namespace, and that neither Yama nor seccomp object; whether it is so is found out by trying.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace comch::link::soft {

class PeerMemory {
public:
    /// `process`: a pidfd of the peer, valid until forget(); `pid`: its number as the kernel told us,
    /// 0 if it has none here.
    void open(int process, std::uint64_t pid) noexcept {
        process_ = process;
        pid_ = number_ = pid;
        state_ = pid == 0 ? State::closed : State::unknown;
        seen_alive_ns_ = number_since_ns_ = 0;
    }
    void forget() noexcept { state_ = State::closed; }
    /// Where the peer says which of its threads to name it by (parked_thread.hpp), or 0.
    void named_by(const std::atomic<std::uint32_t>* thread) noexcept { thread_ = thread; }

    /// Worth an attempt.
    [[nodiscard]] bool usable() const noexcept { return state_ != State::closed; }

    /// All of it, or false: then any part of it may have been copied. What was read is the peer's;
    /// what was not, because the peer is gone or the kernel says no, will not be tried again.
    [[nodiscard]] bool read(std::byte* to, std::uint64_t from, std::size_t length) noexcept;
    /// Nothing is written if it is later than `not_after_ns` (of monotonic_ns()).
    [[nodiscard]] bool write(std::uint64_t to, const std::byte* from, std::size_t length,
                             std::uint64_t not_after_ns = ~std::uint64_t{0}) noexcept;

    /// What the kernel is told to name it.
    [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
    /// It has not died yet.
    [[nodiscard]] bool lives() noexcept;

private:
    enum class State : std::uint8_t { unknown, open, closed };

    [[nodiscard]] bool copy(bool write, std::byte* local, std::uint64_t remote,
                            std::size_t length) noexcept;
    /// Do the descriptor and the number name the same process?
    [[nodiscard]] bool same_process() const noexcept;
    /// Is that one of its threads?
    [[nodiscard]] bool has_thread(std::uint64_t thread) const noexcept;
    /// That of the thread it names, if that was one of its own a few milliseconds ago; else its own.
    void renew_number() noexcept;
    /// Whoever the kernel would be told to write to is the peer.
    [[nodiscard]] bool is_there() noexcept;

    int process_ = -1;
    State state_ = State::closed;
    std::uint64_t pid_ = 0;
    std::uint64_t number_ = 0; ///< of the process, or of a thread of its
    const std::atomic<std::uint32_t>* thread_ = nullptr;
    std::uint64_t seen_alive_ns_ = 0;
    std::uint64_t number_since_ns_ = 0; ///< number_ was looked at
};

} // namespace comch::link::soft
