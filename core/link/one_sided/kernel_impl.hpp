// The kernel's copies, where they are faster or the peer does not answer: part of engine_impl.hpp.
#pragma once

#include <algorithm>
#include <atomic>

#include "core/base/ticks.hpp"
#include "core/link/one_sided/engine.hpp"

namespace comch::link {

template <class Pipe>
bool OneSidedEngine<Pipe>::read_peer(std::byte* to, std::uint64_t address,
                                     std::size_t length) noexcept {
    if constexpr (Pipe::kernel_copies) {
        // An owner that closes the connection may use its memory for something else from then on. It
        // says goodbye before: whoever has read something else will see that. (Pairs with the fence
        // in Pipe::say_goodbye().)
        const bool done = pipe_.peer_memory().read(to, address, length);
        std::atomic_thread_fence(std::memory_order_acquire);
        return done && !pipe_.peer_said_goodbye();
    }
    return false;
}

template <class Pipe>
bool OneSidedEngine<Pipe>::read_past_peer(std::byte* to, std::uint64_t address,
                                          std::size_t length) noexcept {
    if constexpr (Pipe::kernel_copies) {
        if (pipe_.attention().distrusted()) {
            const std::uint64_t began = pipe_.now_ns();
            const bool done = read_peer(to, address, length);
            pipe_.attention().passed_by(pipe_.now_ns() - began);
            return done;
        }
    }
    return read_peer(to, address, length);
}

template <class Pipe>
bool OneSidedEngine<Pipe>::write_peer(std::uint64_t to, const std::byte* from,
                                      std::uint64_t length) noexcept {
    if constexpr (Pipe::kernel_copies) {
        if (length == 0) {
            return true;
        }
        if (pipe_.peer_said_goodbye() || !pipe_.peer_memory().write(to, from, length)) {
            return false;
        }
        pipe_.slot()->tx.process_vm_bytes.add(length);
        // The kernel's stores are seen before the goodbye is looked for once more.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return !pipe_.peer_said_goodbye();
    }
    return false;
}

template <class Pipe> std::uint64_t OneSidedEngine<Pipe>::signs_of_peer() noexcept {
    std::uint64_t signs = pipe_.tx().consumed() + answers_;
    if constexpr (Pipe::kernel_copies) {
        signs += pipe_.puts_executed(); // it takes long ones out many at a time
    }
    return signs;
}

template <class Pipe> bool OneSidedEngine<Pipe>::peer_missing() noexcept {
    if constexpr (Pipe::kernel_copies) {
        // (Who copies for a get of ours takes nothing out meanwhile.)
        return joints_active_ == 0 && pipe_.peer_memory().usable() &&
               pipe_.attention().missing(
                   [this] { return signs_of_peer(); },
                   [this] {
                       // Of puts, each is short.
                       const auto* get = waits_for_puts() ? nullptr : oldest_get();
                       const std::uint64_t length = get == nullptr ? 0 : get->length;
                       // (A short one does not go by the bulk ring.)
                       const bool warm = length <= Pipe::inline_data || pipe_.peers_ring_is_warm();
                       return Pipe::patience(length, warm);
                   });
    }
    return false;
}

template <class Pipe> bool OneSidedEngine<Pipe>::peer_absent() noexcept {
    if constexpr (Pipe::kernel_copies) {
        if (pipe_.attention().distrusted() && pipe_.attention().absent(signs_of_peer())) {
            probe_attention();
            return true;
        }
    }
    return false;
}

template <class Pipe> void OneSidedEngine<Pipe>::probe_attention() noexcept {
    if constexpr (Pipe::kernel_copies) {
        const std::uint64_t begin = pipe_.tx().head();
        // One at a time, and only where there is room.
        if (pipe_.tx().consumed() >= gets_end_ && pipe_.tx().reserve(0) != nullptr &&
            pipe_.put_record(Kind::pad, 0, 0, [](std::byte*) {}) == Errc::ok) {
            note_unflushed(begin);
        }
    }
}

template <class Pipe>
bool OneSidedEngine<Pipe>::put_by_kernel(const std::byte* from, std::size_t length,
                                         std::uint64_t address) noexcept {
    if constexpr (Pipe::kernel_copies) {
        return pipe_.peer_memory().usable() && peer_absent() && direct_allowed() &&
               write_peer(address, from, length);
    }
    return false;
}

template <class Pipe>
std::optional<Errc>
OneSidedEngine<Pipe>::get_by_kernel(std::byte*& to, std::size_t& length, std::uint64_t region,
                                    std::uint64_t& address, void* token, const RegionKey* into) {
    if constexpr (Pipe::kernel_copies) {
        using Way = typename Pipe::Ways::Way;
        const bool timed = Pipe::Ways::has_choice(length);
        if ((!timed && !pipe_.attention().distrusted()) || !pipe_.peer_memory().usable() ||
            !writes_done()) {
            return {};
        }
        std::size_t part = length;
        if (timed && pipe_.peers_ring_is_used()) {
            pipe_.ways().ring_is_used();
        }
        if (!peer_absent()) {
            const bool may_help = owner_may_help(length);
            const Way way = timed ? pipe_.ways().choose(length, may_help) : Way::ring;
            if (way == Way::ring) {
                return {};
            }
            const bool trying = pipe_.ways().trying(length);
            // While an owner writes to the ring it does not help, and what is in the ring waits while we copy:
            // that would be slow, and tell nothing.
            JointGet* joint = nullptr;
            if (way == Way::joint || trying) {
                // (Others that both ends copy are no reason to wait, as long as there is room for one more.)
                const bool after_all = way != Way::joint || active_ != canceled_ + joints_active_;
                if (!after_all) {
                    joint = free_joint(length);
                }
                // (What waits is worth a retry when one of those is complete. If none is left, the owner has not seen
                // the last ones, and we copy this one alone.)
                if (after_all ? active_ != canceled_ : joint == nullptr && joints_active_ != 0) {
                    refused_at_ = refused_at_ == 0 ? sequence_ : refused_at_;
                    if (sequence_ - refused_at_ >= Pipe::most_begun_before_kernel) {
                        refused_at_ = 0;
                        return {};
                    }
                    pipe_.ways().put_off(length);
                    pipe_.note_refusal(Pipe::Short::neither);
                    return Errc::again;
                }
                refused_at_ = 0;
            }
            if (trying && pipe_.ways().may_use_ring()) { // for the rest
                part = std::min(part, Pipe::tried_part);
                // Not in vain, because there is no room to ask for the rest.
                if (part != length && pipe_.tx().reserve(sizeof(OneSided)) == nullptr) {
                    return {};
                }
            }
            if (joint != nullptr) {
                const Errc result =
                    get_jointly(*joint, to, nullptr, length, part, region, address, token, into);
                if (result != Errc::again) {
                    return result;
                }
            }
        }
        const std::uint64_t began = ticks();
        const bool done = read_past_peer(to, address, part);
        if (timed) {
            const std::uint64_t cost =
                pipe_.get_cost().of(began, ticks(), length > Pipe::tried_part);
            pipe_.ways().took(Way::alone, length, done ? cost : Pipe::Ways::in_vain, part);
        }
        if (!done) {
            return {};
        }
        pipe_.slot()->tx.process_vm_bytes.add(part);
        to += part;
        address += part;
        length -= part;
        return length == 0 ? std::optional(Errc::ok) : std::nullopt;
    }
    return {};
}

template <class Pipe>
typename OneSidedEngine<Pipe>::Operation* OneSidedEngine<Pipe>::oldest_get() noexcept {
    Operation* oldest = nullptr;
    for (Operation& operation : operations_) {
        if (operation.active && !operation.canceled && !operation.is_atomic &&
            (oldest == nullptr || operation.end < oldest->end)) {
            oldest = &operation;
        }
    }
    return oldest;
}

template <class Pipe> bool OneSidedEngine<Pipe>::fetch_missing() noexcept {
    if constexpr (Pipe::kernel_copies) {
        // The oldest first: withdrawing one withdraws those before it.
        Operation* const operation = oldest_get();
        if (operation == nullptr || !may_be_fetched(*operation)) {
            return false;
        }
        // What of it has come already is here. If the peer should begin to answer meanwhile, it
        // writes what we write.
        const std::uint64_t missing = operation->length - operation->received;
        if (!read_past_peer(operation->local + operation->received,
                            operation->address + operation->received, missing)) {
            operation->by_kernel = false; // left to the owner, who can say what is wrong with it
            return false;
        }
        note_time_of(*operation); // this is what asking the owner comes to
        pipe_.slot()->tx.process_vm_bytes.add(missing);
        pipe_.withdraw_gets(operation->end);
        fetched_ = operation->token;
        operation->canceled = true; // what still comes of it goes nowhere
        ++canceled_;
        pipe_.encourage();
        release_if_out();
        return true;
    }
    return false;
}

template <class Pipe> void OneSidedEngine<Pipe>::note_time_of(const Operation& operation) noexcept {
    if constexpr (Pipe::kernel_copies) {
        const std::uint64_t cost =
            pipe_.get_cost().of(operation.began, ticks(), operation.length > Pipe::tried_part);
        // (An owner that gets no memory for its ring answers by short records: that is a time, too.)
        if (operation.began != 0 && (pipe_.peers_ring_is_warm() || !pipe_.peers_ring_is_used())) {
            pipe_.ways().took(Pipe::Ways::Way::ring, operation.length, cost);
        }
    }
}

} // namespace comch::link
