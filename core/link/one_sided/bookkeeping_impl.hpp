// What is under way, and when a flush has been reached: part of engine_impl.hpp.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/link/one_sided/engine.hpp"

namespace comch::link {

template <class Pipe>
typename OneSidedEngine<Pipe>::Operation*
OneSidedEngine<Pipe>::start(void* token, std::byte* local, std::uint64_t length, bool is_atomic,
                            std::uint64_t& name) {
    if (active_ == operations_.size()) {
        if (active_ == Pipe::max_operations) {
            return nullptr;
        }
        make_room_to_end();
        operations_.emplace_back();
    }
    // Behind the last one that was taken: the next is free most likely.
    for (std::size_t left = operations_.size(); left != 0; --left) {
        const std::size_t index = next_operation_ < operations_.size() ? next_operation_ : 0;
        next_operation_ = index + 1;
        Operation& operation = operations_[index];
        if (operation.active) {
            continue;
        }
        const std::uint32_t generation = operation.generation + 1;
        operation = Operation{};
        operation.local = local;
        operation.length = length;
        operation.sequence = ++sequence_;
        operation.token = token;
        operation.generation = generation;
        operation.active = true;
        operation.is_atomic = is_atomic;
        ++active_;
        name = (index + 1) | std::uint64_t{generation} << 32;
        return &operation;
    }
    return nullptr;
}

template <class Pipe>
typename OneSidedEngine<Pipe>::Operation* OneSidedEngine<Pipe>::find(std::uint64_t name) {
    const std::uint64_t index = (name & 0xffffffffu) - 1;
    if (index >= operations_.size()) {
        return nullptr;
    }
    Operation& operation = operations_[index];
    return operation.active && operation.generation == name >> 32 ? &operation : nullptr;
}

template <class Pipe>
void OneSidedEngine<Pipe>::finish(Operation& operation, Errc status, Completion& completion) {
    if (operation.canceled) {
        --canceled_;
    } else {
        completion = {true, operation.token, status};
    }
    operation.active = false;
    --active_;
    pipe_.encourage();
    release_if_out();
}

template <class Pipe> void OneSidedEngine<Pipe>::forget(std::uint64_t name) {
    if (Operation* operation = find(name); operation != nullptr) {
        operation->active = false;
        --active_;
    }
}

template <class Pipe> bool OneSidedEngine<Pipe>::push_before_sleep() {
    const unsigned pushed = push_jobs([this](void* token, Errc) { defer(token); });
    const bool flushed = std::any_of(flushes_.begin(), flushes_.end(),
                                     [this](Flush& flush) { return flush_reached(flush); });
    // (Nobody wakes who waits for the peer's part of a copy: it comes at once. Who only wants room to ask
    // for the rest asks once more, as the room may have come before a refusal that knew of it.)
    bool copies = helping_ != 0;
    if constexpr (Pipe::kernel_copies) {
        for (JointGet& joint : joints_) {
            if (joint.operation != 0 && !pipe_.joint_copy(index_of(joint)).active()) {
                ask_owner(joint, *find(joint.operation));
            }
            copies = copies || (joint.operation != 0 && pipe_.joint_copy(index_of(joint)).active());
        }
    }
    return pushed != 0 || flushed || !deferred_.empty() || copies;
}

template <class Pipe> void OneSidedEngine<Pipe>::end_waiting(Errc status, Endings& ended) {
    for (const Job& job : jobs_) {
        if (job.kind == Job::Kind::put && job.data == nullptr) {
            ended.emplace_back(job.token, status);
        }
    }
    puts_waiting_ -= static_cast<std::uint32_t>(std::erase_if(
        jobs_, [](const Job& job) { return job.kind == Job::Kind::put && job.data == nullptr; }));
    for (const Deferred& one : deferred_) {
        ended.emplace_back(one.token, Errc::ok); // they are done, only not reported
    }
    deferred_.clear();
    for (const Flush& flush : flushes_) {
        ended.emplace_back(flush.token, status);
    }
    flushes_.clear();
}

template <class Pipe> bool OneSidedEngine<Pipe>::operations_before(std::uint64_t sequence) const {
    if (active_ == canceled_) {
        return false;
    }
    return std::any_of(operations_.begin(), operations_.end(), [&](const Operation& operation) {
        return operation.active && !operation.canceled && operation.sequence <= sequence;
    });
}

template <class Pipe> bool OneSidedEngine<Pipe>::flush_reached(Flush& flush) {
    if (!flush.positioned) {
        const bool waiting = std::any_of(jobs_.begin(), jobs_.end(), [&](const Job& job) {
            return job.kind == Job::Kind::put && job.sequence <= flush.sequence;
        });
        if (waiting) {
            return false;
        }
        flush.position = pipe_.tx().head() == gets_end_ ? gets_begin_ : pipe_.tx().head();
        flush.positioned = true;
    }
    if (done_until() < flush.position) {
        pipe_.hurry(flush.position);
        pipe_.note_refusal(Pipe::Short::ring);
        return false;
    }
    return heard_of_refusals(std::min(flush.position, last_write_)) &&
           !operations_before(flush.sequence);
}

template <class Pipe> void OneSidedEngine<Pipe>::take_reached_flushes(Endings& done) {
    std::erase_if(flushes_, [&](Flush& flush) {
        if (!flush_reached(flush)) {
            return false;
        }
        done.emplace_back(flush.token, Errc::ok);
        return true;
    });
}

template <class Pipe> bool OneSidedEngine<Pipe>::heard_of_refusals(std::uint64_t position) {
    while (position > heard_until_) {
        if (listens_until_ == heard_until_) {
            listens_until_ = done_until();
            listens_to_ = pipe_.arrived();
        }
        if (!pipe_.has_handled(listens_to_)) {
            return false;
        }
        heard_until_ = listens_until_;
    }
    return true;
}

} // namespace comch::link
