// Gets that both ends copy: part of engine_impl.hpp.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/base/stream_copy.hpp"
#include "core/base/ticks.hpp"
#include "core/link/one_sided/engine.hpp"

namespace comch::link {

template <class Pipe>
Errc OneSidedEngine<Pipe>::get_mapped(std::byte* to, const std::byte* from, std::size_t length,
                                      std::uint64_t region, std::uint64_t address, void* token,
                                      const RegionKey* into) {
    if constexpr (Pipe::kernel_copies) {
        if (length >= Pipe::joint_of_mapped) {
            using Way = typename Pipe::Ways::Way;
            if (pipe_.mapped_ways().choose(length, owner_may_help(length)) == Way::joint) {
                if (joint_ != 0) {
                    pipe_.mapped_ways().put_off(length);
                    pipe_.note_refusal(Pipe::Short::neither);
                    return Errc::again;
                }
                const Errc result =
                    get_jointly(to, from, length, length, region, address, token, into);
                if (result != Errc::again) {
                    return result;
                }
            }
            const std::uint64_t began = ticks();
            copy_mapped(to, from, length);
            pipe_.mapped_ways().took(Way::alone, length, pipe_.get_cost().of(began, ticks()));
            return Errc::ok;
        }
    }
    copy_mapped(to, from, length);
    return Errc::ok;
}

template <class Pipe> bool OneSidedEngine<Pipe>::owner_may_help(std::size_t length) noexcept {
    if constexpr (Pipe::kernel_copies) {
        // While it helps with another that one is waited for. To copy this one alone meanwhile would take our CPU
        // from the one under way, whose end only progress finds, and the next would be done alone, too, and so on.
        // (An owner that is stopped is not at it any more.)
        return joint_ == 0 ? pipe_.joint_copy().may_begin(length)
                           : pipe_.now_ns() - joint_began_ns_ < Pipe::joint_claim_ns;
    }
    return false;
}

template <class Pipe>
void OneSidedEngine<Pipe>::copy_mapped(std::byte* to, const std::byte* from,
                                       std::size_t length) noexcept {
    if (length != 0) {
        copy_part(to, from, length, length);
    }
    pipe_.slot()->tx.mapped_bytes.add(length);
}

template <class Pipe>
template <class Part>
bool OneSidedEngine<Pipe>::copy_part_of(const Operation& operation, const Part& part) noexcept {
    if (joint_from_ != nullptr) {
        copy_part(operation.local + part.offset, joint_from_ + part.offset, part.length,
                  operation.length);
        return true;
    }
    return read_peer(operation.local + part.offset, operation.address + part.offset, part.length);
}

template <class Pipe>
Errc OneSidedEngine<Pipe>::get_jointly(std::byte* to, const std::byte* from, std::size_t length,
                                       std::size_t part_of_it, std::uint64_t region,
                                       std::uint64_t address, void* token, const RegionKey* into) {
    if constexpr (Pipe::kernel_copies) {
        auto& joint = pipe_.joint_copy();
        const OneSided request{region, address, part_of_it, 0};
        std::uint64_t name = 0;
        const std::uint64_t begin = pipe_.tx().head(); // before what a reservation may pad
        if (pipe_.tx().reserve(sizeof(request) + sizeof(Joint)) == nullptr) {
            return Errc::again;
        }
        Operation* const operation = start(token, to, length, false, name);
        if (operation == nullptr) {
            return Errc::again;
        }
        operation->joint = true;
        operation->address = address;
        operation->began = ticks();
        const RegionKey mappable = into != nullptr ? *into : RegionKey{};
        const bool by_kernel = from == nullptr;
        const Joint details{reinterpret_cast<std::uint64_t>(to),
                            joint.begin(part_of_it, by_kernel) | (by_kernel ? joint_by_kernel : 0),
                            mappable.region, mappable.base, mappable.length};
        (void)pipe_.put_record(Kind::joint_get, 0, sizeof(request) + sizeof(details),
                               [&](std::byte* at) {
                                   std::memcpy(at, &request, sizeof(request));
                                   std::memcpy(at + sizeof(request), &details, sizeof(details));
                               });
        note_unflushed(begin);
        joint_ = name;
        joint_began_ns_ = pipe_.now_ns();
        joint_token_ = token;
        joint_region_ = region;
        joint_length_ = part_of_it;
        joint_from_ = from;
        joint_refused_ = false;
        std::uint64_t part_ended = operation->began;
        std::uint64_t longest_part = 0;
        for (auto part = joint.take(); part.length != 0; part = joint.take()) {
            const std::uint64_t part_began = part_ended;
            if (!copy_part_of(*operation, part)) {
                joint_refused_ = true; // what the owner does of it may fail as well
                joint.give_up();
                break;
            }
            part_ended = ticks();
            longest_part = std::max(longest_part, part_ended - part_began);
        }
        // The peer's last part takes no longer than our longest did, or not much. (But the counter may have
        // jumped, and the peer may be gone, which only progress finds out.)
        const std::uint64_t patience = 2 * longest_part;
        for (unsigned looks = 0; looks == 0 || ticks() - part_ended < patience; ++looks) {
            if (joint_arrived()) {
                return Errc::ok;
            }
            if (joint_refused_ || !joint.active() || looks == Pipe::joint_looks) {
                break; // or the owner has been asked for the rest
            }
        }
        return Errc::in_progress;
    }
    return Errc::again;
}

template <class Pipe> bool OneSidedEngine<Pipe>::joint_arrived() noexcept {
    if constexpr (Pipe::kernel_copies) {
        auto& joint = pipe_.joint_copy();
        using Rest = typename std::remove_cvref_t<decltype(joint)>::Rest;
        Operation& operation = *find(joint_);
        if (joint.active()) {
            auto part = joint.take(); // nothing, unless the peer has spoilt the words
            const Rest rest = part.length != 0 ? Rest::ours : joint.rest(part);
            if (rest == Rest::coming) {
                return false;
            }
            joint.end();
            answers_ += joint.helped() ? 1 : 0;
            if (rest == Rest::ours && !joint_refused_) {
                joint_refused_ = !copy_part_of(operation, part);
            }
            auto& sent = pipe_.slot()->tx;
            if (!joint_refused_) {
                const std::uint64_t claimed = joint.claimed_by_peer();
                const std::uint64_t by_peer = claimed - std::min(claimed, part.length);
                (joint_from_ != nullptr ? sent.mapped_bytes : sent.process_vm_bytes)
                    .add(joint_length_ - by_peer);
            }
            const std::uint64_t cost =
                pipe_.get_cost().of(operation.began, ticks(),
                                    joint_from_ == nullptr && operation.length > Pipe::tried_part);
            (joint_from_ != nullptr ? pipe_.mapped_ways() : pipe_.ways())
                .took(Pipe::Ways::Way::joint, operation.length,
                      joint_refused_ ? Pipe::Ways::in_vain : cost, joint_length_);
            if (!joint_refused_) {
                operation.local += joint_length_;
                operation.address += joint_length_;
                operation.length -= joint_length_;
            }
        }
        if (operation.length != 0) {
            ask_owner(operation);
            return false;
        }
        joint_ = 0;
        operation.active = false;
        --active_;
        pipe_.encourage();
        release_if_out();
        return true;
    }
    return false;
}

template <class Pipe> void OneSidedEngine<Pipe>::ask_owner(Operation& operation) noexcept {
    const OneSided request{joint_region_, operation.address, operation.length, joint_};
    const std::uint64_t begin = pipe_.tx().head();
    const typename Pipe::Bypass bypass(pipe_);
    if (pipe_.put_record(Kind::get, 0, sizeof(request), [&](std::byte* at) {
            std::memcpy(at, &request, sizeof(request));
        }) == Errc::ok) { // else at the next progress
        note_unflushed(begin);
        operation.joint = false;
        operation.by_kernel = !joint_refused_;
        operation.end = gets_end_;
        operation.after = direct_after_;
        operation.began = 0; // a part of it tells nothing
        joint_ = 0;
        if constexpr (Pipe::kernel_copies) {
            pipe_.attention().asked();
        }
        pipe_.encourage();
    }
}

template <class Pipe>
bool OneSidedEngine<Pipe>::serve_joint_get(const OneSided& request, const Joint& joint) {
    if constexpr (Pipe::kernel_copies) {
        auto& job = pipe_.joint_help();
        if (joint.generation >= 2 * joint_by_kernel) {
            return false;
        }
        job.begin(static_cast<std::uint16_t>(joint.generation), request.length,
                  (joint.generation & joint_by_kernel) != 0);
        helped_ = request;
        helped_to_ = joint.to;
        note_helped_region(joint);
        helps_ = true;
        help();
    }
    return true;
}

template <class Pipe> void OneSidedEngine<Pipe>::note_helped_region(const Joint& joint) {
    if constexpr (Pipe::kernel_copies) {
        wants_mapping_ = false;
        helped_into_ = nullptr;
        // (A region that does not begin with a page is not handed out.)
        if (joint.region == 0 || joint.base % mapping_alignment != 0 ||
            joint.length > Pipe::most_helped_bytes) {
            return;
        }
        for (const auto& known : helped_regions_) {
            const RegionKey& key = known->key();
            if (key.region == joint.region && key.base == joint.base &&
                key.length == joint.length) {
                helped_into_ = known.get();
                return;
            }
        }
        // Not among the imports of the process: there the program decides what is mapped.
        const RegionKey key{.process_id = peer_process_,
                            .region = joint.region,
                            .base = joint.base,
                            .length = joint.length,
                            .access = access_remote_write,
                            .mappable = 1};
        auto made = std::make_unique<RemoteRegion>(key, std::make_shared<Import>());
        helped_into_ = made.get();
        if (helped_regions_.size() < Pipe::helped_regions) {
            helped_regions_.push_back(std::move(made));
        } else {
            helped_regions_[next_helped_region_++ % Pipe::helped_regions] = std::move(made);
        }
    }
}

template <class Pipe>
std::byte* OneSidedEngine<Pipe>::mapped_to_write(std::uint64_t address,
                                                 std::uint64_t length) noexcept {
    if (helped_into_ == nullptr || helped_into_->mapped() == nullptr) {
        return nullptr;
    }
    // The key is the peer's word, and so is the address; what was mapped is not. (An address before the
    // base makes an offset that no mapping has.)
    const std::uint64_t offset = address - helped_into_->key().base;
    return helped_into_->import()->covers(offset, length, true) ? helped_into_->mapped() + offset
                                                                : nullptr;
}

template <class Pipe>
bool OneSidedEngine<Pipe>::copy_until(std::byte* to, const std::byte* from, std::uint64_t size,
                                      std::uint64_t whole, std::uint64_t not_after) noexcept {
    if constexpr (Pipe::kernel_copies) {
        // Whoever is stopped in the middle, and goes on when nobody waits any more, must not write much.
        for (std::uint64_t done = 0; done < size; done += Pipe::joint_step) {
            if (pipe_.now_ns() > not_after) {
                return false;
            }
            copy_part(to + done, from + done, std::min(size - done, Pipe::joint_step), whole);
        }
    }
    return true;
}

template <class Pipe> void OneSidedEngine<Pipe>::help() noexcept {
    if constexpr (Pipe::kernel_copies) {
        auto& job = pipe_.joint_help();
        const std::uint64_t not_after = pipe_.now_ns() + Pipe::joint_claim_ns;
        const bool by_kernel = helped_into_ == nullptr || helped_into_->mapped() == nullptr;
        const auto part = job.take(by_kernel);
        helps_ = part.length != 0;
        if (!helps_) {
            return;
        }
        // Looked up again for every part: the registration may have ended in between.
        const RegionTable::Pin pin = RegionTable::instance().pin(helped_.region);
        const std::byte* const from =
            pin ? pin.range(helped_.address + part.offset, part.length, access_remote_read)
                : nullptr;
        wants_mapping_ = from != nullptr; // else it has no key of ours, and is not worth a mapping
        auto& sent = pipe_.slot()->tx;
        if (std::byte* const to = mapped_to_write(helped_to_ + part.offset, part.length);
            from != nullptr && to != nullptr &&
            copy_until(to, from, part.length, helped_.length, not_after)) {
            job.copied();
            sent.mapped_bytes.add(part.length);
            pipe_.slot()->rx.one_sided_served.add(1);
        } else if (from != nullptr && pipe_.peer_memory().usable() &&
                   pipe_.peer_memory().write(helped_to_ + part.offset, from, part.length,
                                             not_after)) {
            job.copied();
            sent.process_vm_bytes.add(part.length);
            pipe_.slot()->rx.one_sided_served.add(1);
        } else {
            job.failed(); // the requester knows what to do about it
            helps_ = false;
        }
    }
}

template <class Pipe> bool OneSidedEngine<Pipe>::end_joint(std::uint64_t patience_ns) noexcept {
    if constexpr (Pipe::kernel_copies) {
        auto& joint = pipe_.joint_copy();
        using Rest = typename std::remove_cvref_t<decltype(joint)>::Rest;
        if (joint_ != 0 && joint.active()) {
            joint.give_up();
            auto part = joint.take();
            const std::uint64_t began = pipe_.now_ns();
            while (joint.rest(part) == Rest::coming && pipe_.peer_memory().lives()) {
                if (pipe_.now_ns() - began > patience_ns) {
                    return false;
                }
            }
            joint.end();
        }
        joint_ = 0;
    }
    return true;
}

template <class Pipe> void OneSidedEngine<Pipe>::give_up_joint() noexcept {
    if constexpr (Pipe::kernel_copies) {
        if (!end_joint(Pipe::joint_patience_ns)) {
            pipe_.joint_copy().end();
            joint_ = 0;
        }
    }
}

template <class Pipe> void OneSidedEngine<Pipe>::stop_copying() {
    if constexpr (Pipe::kernel_copies) {
        helps_ = false;
        helped_into_ = nullptr;
        helped_regions_.clear();
        give_up_joint();
        // What is taken back is ours to do, also if nobody waits for it any more.
        const std::uint64_t began = pipe_.now_ns();
        while (withdrawing_ && !withdraw_puts() && pipe_.peer_memory().lives() &&
               !pipe_.peer_said_goodbye() && pipe_.now_ns() - began < Pipe::joint_patience_ns) {
        }
        if (withdrawing_) { // the peer has taken them out, executed or not
            const std::uint64_t executed = pipe_.puts_executed();
            lost_writes_ = !pipe_.visit_puts(
                withdrawn_from_, [executed](std::uint64_t at, const OneSided&, const std::byte*) {
                    return at < executed;
                });
            withdrawing_ = false;
        }
        while (!jobs_.empty() && jobs_.front().data != nullptr && pipe_.broken() == Errc::ok &&
               push_past_holds(jobs_.front())) {
            jobs_.pop_front();
            --puts_waiting_;
        }
    }
}

} // namespace comch::link
