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
                if (JointGet* const joint = free_joint(length); joint != nullptr) {
                    const Errc result =
                        get_jointly(*joint, to, from, length, length, region, address, token, into);
                    if (result != Errc::again) {
                        return result;
                    }
                } else if (joints_active_ != 0) { // it is worth a retry when one is complete
                    pipe_.mapped_ways().put_off(length);
                    pipe_.note_refusal(Pipe::Short::neither);
                    return Errc::again;
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
        // While it helps with all that may be begun they are waited for. To copy this one alone meanwhile would take
        // our CPU from those under way, whose end only progress finds, and the next would be done alone, too, and so
        // on.
        bool helps = false;
        for (const JointGet& joint : joints_) {
            const auto& copy = pipe_.joint_copy(index_of(joint));
            if (copy.active() && !may_arrive(joint)) {
                return false; // it is not at any
            }
            helps = helps || copy.active() || (joint.operation == 0 && copy.may_begin(length));
        }
        return helps;
    }
    return false;
}

template <class Pipe> bool OneSidedEngine<Pipe>::may_arrive(const JointGet& joint) noexcept {
    if constexpr (Pipe::kernel_copies) {
        return pipe_.joint_copy(index_of(joint)).active() &&
               pipe_.now_ns() - joint.began_ns < Pipe::joint_claim_ns;
    }
    return false;
}

template <class Pipe>
typename OneSidedEngine<Pipe>::JointGet* OneSidedEngine<Pipe>::free_joint(std::size_t length) {
    if constexpr (Pipe::kernel_copies) {
        // (Not more than progress has to report at other times.)
        if (joints_active_ == joints_.size() && deferred_.size() < Pipe::max_operations) {
            make_room_to_end(joints_.size());
            for (JointGet& joint : joints_) {
                if (joint_arrived(joint)) {
                    defer(std::exchange(joint.token, nullptr), joint.sequence);
                }
            }
        }
        const auto free = std::ranges::find_if(joints_, [&](const JointGet& joint) {
            return joint.operation == 0 && pipe_.joint_copy(index_of(joint)).may_begin(length);
        });
        return free == joints_.end() ? nullptr : &*free;
    }
    return nullptr;
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
bool OneSidedEngine<Pipe>::copy_part_of(const JointGet& joint, const Operation& operation,
                                        const Part& part) noexcept {
    if (joint.from != nullptr) {
        copy_part(operation.local + part.offset, joint.from + part.offset, part.length,
                  operation.length);
        return true;
    }
    return read_peer(operation.local + part.offset, operation.address + part.offset, part.length);
}

template <class Pipe>
Errc OneSidedEngine<Pipe>::get_jointly(JointGet& joint, std::byte* to, const std::byte* from,
                                       std::size_t length, std::size_t part_of_it,
                                       std::uint64_t region, std::uint64_t address, void* token,
                                       const RegionKey* into) {
    if constexpr (Pipe::kernel_copies) {
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
        if (into == nullptr) { // else the owner writes to what it has mapped, soon
            pipe_.tell_thread();
        }
        operation->joint = true;
        operation->address = address;
        operation->began = ticks();
        const RegionKey mappable = into != nullptr ? *into : RegionKey{};
        const bool by_kernel = from == nullptr;
        auto& copy = pipe_.joint_copy(index_of(joint));
        const JointName joint_name{
            copy.begin(part_of_it, by_kernel, pipe_.joint_balance(by_kernel)), by_kernel,
            static_cast<std::uint32_t>(index_of(joint))};
        const Joint details{reinterpret_cast<std::uint64_t>(to), joint_name.pack(), mappable.region,
                            mappable.base, mappable.length};
        (void)pipe_.put_record(Kind::joint_get, 0, sizeof(request) + sizeof(details),
                               [&](std::byte* at) {
                                   std::memcpy(at, &request, sizeof(request));
                                   std::memcpy(at + sizeof(request), &details, sizeof(details));
                               });
        note_unflushed(begin);
        joint = {name, operation->sequence, pipe_.now_ns(), token, region, part_of_it, from};
        ++joints_active_;
        copy_parts_of(joint, *operation, copy.leaves_rest() ? 1 : all_parts);
        joint.ready_ns = pipe_.now_ns();
        joint.patience_ns = std::min(joint.ready_ns - joint.began_ns, Pipe::most_joint_part_ns);
        // (The peer's part may take longer. Our CPU is for the next one meanwhile.)
        return joint_arrived(joint) ? Errc::ok : Errc::in_progress;
    }
    return Errc::again;
}

template <class Pipe>
void OneSidedEngine<Pipe>::copy_parts_of(JointGet& joint, const Operation& operation,
                                         unsigned most) noexcept {
    if constexpr (Pipe::kernel_copies) {
        auto& copy = pipe_.joint_copy(index_of(joint));
        for (; most != 0; --most) {
            const auto part = copy.take();
            if (part.length == 0) {
                return;
            }
            if (!copy_part_of(joint, operation, part)) {
                joint.refused = true; // what the owner does of it may fail as well
                copy.give_up();
                return;
            }
        }
    }
}

template <class Pipe> void OneSidedEngine<Pipe>::note_wait(const JointGet& joint) noexcept {
    if constexpr (Pipe::kernel_copies) {
        if (joint.operation != 0 && std::ranges::none_of(joints_, [&](const JointGet& other) {
                return other.operation != 0 && other.sequence > joint.sequence;
            })) {
            pipe_.joint_copy(index_of(joint)).wait();
        }
    }
}

template <class Pipe> bool OneSidedEngine<Pipe>::joint_arrived(JointGet& joint) noexcept {
    if constexpr (Pipe::kernel_copies) {
        auto& copy = pipe_.joint_copy(index_of(joint));
        using Rest = typename std::remove_cvref_t<decltype(copy)>::Rest;
        Operation& operation = *find(joint.operation);
        if (copy.active()) {
            if (copy.leaves_rest() && copy.has_more()) {
                // The owner is at the one before, or about to begin; or it computes.
                if (std::ranges::any_of(joints_, [&](const JointGet& other) {
                        return other.sequence < joint.sequence && may_arrive(other);
                    })) {
                    joint.ready_ns = pipe_.now_ns();
                    return false;
                }
                if (pipe_.now_ns() - joint.ready_ns < joint.patience_ns) {
                    return false;
                }
                copy_parts_of(joint, operation, all_parts);
            }
            auto part = copy.take(); // nothing, unless the peer has spoilt the words
            const Rest rest = part.length != 0 ? Rest::ours : copy.rest(part);
            if (rest == Rest::coming) {
                return false;
            }
            copy.end(pipe_.joint_balance(joint.from == nullptr));
            answers_ += copy.helped() ? 1 : 0;
            if (rest == Rest::ours && !joint.refused) {
                joint.refused = !copy_part_of(joint, operation, part);
            }
            auto& sent = pipe_.slot()->tx;
            if (!joint.refused) {
                const std::uint64_t claimed = copy.claimed_by_peer();
                const std::uint64_t by_peer = claimed - std::min(claimed, part.length);
                (joint.from != nullptr ? sent.mapped_bytes : sent.process_vm_bytes)
                    .add(joint.length - by_peer);
            }
            const std::uint64_t cost =
                pipe_.get_cost().of(operation.began, ticks(),
                                    joint.from == nullptr && operation.length > Pipe::tried_part);
            (joint.from != nullptr ? pipe_.mapped_ways() : pipe_.ways())
                .took(Pipe::Ways::Way::joint, operation.length,
                      joint.refused ? Pipe::Ways::in_vain : cost, joint.length);
            if (!joint.refused) {
                operation.local += joint.length;
                operation.address += joint.length;
                operation.length -= joint.length;
            }
        }
        if (operation.length != 0) {
            ask_owner(joint, operation);
            return false;
        }
        let_go(joint);
        operation.active = false;
        --active_;
        pipe_.encourage();
        release_if_out();
        return true;
    }
    return false;
}

template <class Pipe>
void OneSidedEngine<Pipe>::ask_owner(JointGet& joint, Operation& operation) noexcept {
    const OneSided request{joint.region, operation.address, operation.length, joint.operation};
    const std::uint64_t begin = pipe_.tx().head();
    const typename Pipe::Bypass bypass(pipe_);
    if (pipe_.put_record(Kind::get, 0, sizeof(request), [&](std::byte* at) {
            std::memcpy(at, &request, sizeof(request));
        }) == Errc::ok) { // else at the next progress
        note_unflushed(begin);
        operation.joint = false;
        operation.by_kernel = !joint.refused;
        operation.end = gets_end_;
        operation.after = direct_after_;
        operation.began = 0; // a part of it tells nothing
        let_go(joint);
        if constexpr (Pipe::kernel_copies) {
            pipe_.attention().asked();
        }
        pipe_.encourage();
    }
}

template <class Pipe>
bool OneSidedEngine<Pipe>::serve_joint_get(const OneSided& request, const Joint& joint) {
    if constexpr (Pipe::kernel_copies) {
        if (!JointName::is_one(joint.generation)) {
            return false;
        }
        const auto name = JointName::unpack(joint.generation);
        if (name.by_kernel) {
            pipe_.tell_thread();
        }
        RemoteRegion* const into = helped_region(joint);
        Help& one = helps_[name.index];
        helping_ += one.began == 0 ? 1 : 0;
        one = {++helps_begun_, request, joint.to, into};
        pipe_.joint_help(name.index).begin(name.generation, request.length, name.by_kernel);
        help();
    }
    return true;
}

template <class Pipe> RemoteRegion* OneSidedEngine<Pipe>::helped_region(const Joint& joint) {
    if constexpr (Pipe::kernel_copies) {
        wanted_ = nullptr;
        // (A region that does not begin with a page is not handed out.)
        if (joint.region == 0 || joint.base % mapping_alignment != 0 ||
            joint.length > Pipe::most_helped_bytes) {
            return nullptr;
        }
        for (const auto& known : helped_regions_) {
            const RegionKey& key = known->key();
            if (key.region == joint.region && key.base == joint.base &&
                key.length == joint.length) {
                return known.get();
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
        RemoteRegion* const region = made.get();
        if (helped_regions_.size() < Pipe::helped_regions) {
            helped_regions_.push_back(std::move(made));
            return region;
        }
        // In place of the oldest that no other help is with: there are more than those.
        static_assert(Pipe::helped_regions > joint_gets);
        const auto in_use = [this](const RemoteRegion* one) {
            return std::ranges::any_of(helps_,
                                       [one](const Help& help) { return help.into == one; });
        };
        while (in_use(helped_regions_[next_helped_region_ % Pipe::helped_regions].get())) {
            ++next_helped_region_;
        }
        helped_regions_[next_helped_region_++ % Pipe::helped_regions] = std::move(made);
        return region;
    }
    return nullptr;
}

template <class Pipe>
std::byte* OneSidedEngine<Pipe>::mapped_to_write(const Help& help, std::uint64_t address,
                                                 std::uint64_t length) noexcept {
    if (help.into == nullptr || help.into->mapped() == nullptr) {
        return nullptr;
    }
    // The key is the peer's word, and so is the address; what was mapped is not. (An address before the
    // base makes an offset that no mapping has.)
    const std::uint64_t offset = address - help.into->key().base;
    return help.into->import()->covers(offset, length, true) ? help.into->mapped() + offset
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
        while (helping_ != 0) {
            const auto age = [](const Help& help) {
                return help.began - 1;
            }; // none is the youngest
            Help& oldest = *std::ranges::min_element(helps_, {}, age);
            if (help_with(oldest)) {
                return;
            }
            end_help(oldest); // the requester has done all that was left
        }
    }
}

template <class Pipe> bool OneSidedEngine<Pipe>::help_with(Help& help) noexcept {
    if constexpr (Pipe::kernel_copies) {
        auto& job = pipe_.joint_help(static_cast<std::size_t>(&help - helps_.data()));
        const std::uint64_t not_after = pipe_.now_ns() + Pipe::joint_claim_ns;
        const bool by_kernel = help.into == nullptr || help.into->mapped() == nullptr;
        const auto part = job.take(by_kernel);
        if (part.length == 0) {
            return false;
        }
        // Looked up again for every part: the registration may have ended in between.
        const RegionTable::Pin pin = RegionTable::instance().pin(help.request.region);
        const std::byte* const from =
            pin ? pin.range(help.request.address + part.offset, part.length, access_remote_read)
                : nullptr;
        wanted_ = from != nullptr ? help.into : nullptr; // else it has no key of ours
        auto& sent = pipe_.slot()->tx;
        if (std::byte* const to = mapped_to_write(help, help.to + part.offset, part.length);
            from != nullptr && to != nullptr &&
            copy_until(to, from, part.length, help.request.length, not_after)) {
            job.copied();
            sent.mapped_bytes.add(part.length);
            pipe_.slot()->rx.one_sided_served.add(1);
        } else if (from != nullptr && pipe_.peer_memory().usable() &&
                   pipe_.peer_memory().write(help.to + part.offset, from, part.length, not_after)) {
            job.copied();
            sent.process_vm_bytes.add(part.length);
            pipe_.slot()->rx.one_sided_served.add(1);
        } else {
            job.failed(); // the requester knows what to do about it
        }
        if (!job.active()) {
            end_help(help);
        }
        return true;
    }
    return false;
}

template <class Pipe> void OneSidedEngine<Pipe>::give_up_joint() noexcept {
    if constexpr (Pipe::kernel_copies) {
        using Copy = std::remove_cvref_t<decltype(pipe_.joint_copy(0))>;
        const std::uint64_t began = pipe_.now_ns();
        for (JointGet& joint : joints_) {
            if (joint.operation == 0) {
                continue;
            }
            if (Copy& copy = pipe_.joint_copy(index_of(joint)); copy.active()) {
                copy.give_up();
                auto part = copy.take();
                while (copy.rest(part) == Copy::Rest::coming && pipe_.peer_memory().lives() &&
                       pipe_.now_ns() - began <= Pipe::joint_patience_ns) {
                }
                copy.end(pipe_.joint_balance(joint.from == nullptr));
            }
            let_go(joint);
        }
    }
}

template <class Pipe> void OneSidedEngine<Pipe>::stop_copying() {
    if constexpr (Pipe::kernel_copies) {
        helps_ = {};
        helping_ = 0;
        wanted_ = nullptr;
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
