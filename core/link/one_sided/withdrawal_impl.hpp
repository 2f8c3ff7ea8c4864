// Puts that the peer does not get round to are taken back, for the kernel to do: part of
// engine_impl.hpp.
#pragma once

#include <algorithm>
#include <deque>
#include <iterator>

#include "core/link/one_sided/engine.hpp"
#include "core/link/one_sided/heads.hpp"

namespace comch::link {

template <class Pipe> bool OneSidedEngine<Pipe>::may_pass_by() noexcept {
    if constexpr (Pipe::kernel_copies) {
        const Operation* const operation =
            active_ != canceled_ && pipe_.peer_memory().usable() ? oldest_get() : nullptr;
        if (operation != nullptr && may_be_fetched(*operation)) {
            return true;
        }
        if (!withdrawing_ && !(waits_for_puts() && may_withdraw())) {
            return false;
        }
        // Attention knows soon, and so does an owner that is at a put. Unless it is stopped there,
        // or lies: then it is the credit that wakes us, if it comes.
        if (const std::uint64_t now = direct_after_ + done_until(); awake_for_ != now) {
            awake_for_ = now;
            looks_awake_ = 0;
        }
        return ++looks_awake_ < Pipe::looks_before_sleep;
    }
    return false;
}

template <class Pipe> bool OneSidedEngine<Pipe>::may_withdraw() noexcept {
    if constexpr (Pipe::kernel_copies) {
        if ((done_until() >= direct_after_ && puts_waiting_ == 0) || // there is none
            refused_until_ == direct_after_) {
            return false;
        }
        const auto by_kernel = [](std::uint64_t op) { return op == one_sided::kernel_may_put; };
        return active_ == canceled_ && joints_active_ == 0 && pipe_.peer_memory().usable() &&
               std::all_of(jobs_.begin(), jobs_.end(),
                           [&](const Job& job) {
                               return job.kind != Job::Kind::put || by_kernel(job.op);
                           }) &&
               pipe_.visit_puts(done_until(), [&](std::uint64_t, const OneSided& head,
                                                  const std::byte*) { return by_kernel(head.op); });
    }
    return false;
}

template <class Pipe> bool OneSidedEngine<Pipe>::kernel_permits_puts() noexcept {
    if constexpr (Pipe::kernel_copies) {
        // It permits to write where it permits to read. What is not there is left to its owner to
        // refuse.
        std::byte any{};
        const auto may_reach = [&](std::uint64_t address, std::uint64_t length) {
            return length == 0 || read_peer(&any, address, sizeof(any));
        };
        return pipe_.visit_puts(done_until(), [&](std::uint64_t, const OneSided& head,
                                                  const std::byte*) {
            return may_reach(head.address, head.length);
        }) && std::all_of(jobs_.begin(), jobs_.end(), [&](const Job& job) {
                   return job.kind != Job::Kind::put || may_reach(job.address, job.remaining);
               });
    }
    return false;
}

template <class Pipe> bool OneSidedEngine<Pipe>::withdraw_puts() {
    if constexpr (Pipe::kernel_copies) {
        if (!withdrawing_) {
            if (!may_withdraw()) {
                return false;
            }
            if (!kernel_permits_puts() || !pipe_.can_withdraw()) {
                refused_until_ = direct_after_;
                return false;
            }
            withdrawn_from_ = done_until(); // the peer takes them out from now on as it likes
            withdrawing_ = true;
            pipe_.begin_withdrawal();
        }
        if (!pipe_.withdrawal_decided()) {
            return false;
        }
        const std::uint64_t executed = pipe_.puts_executed();
        const std::uint64_t end = pipe_.tx().head();
        std::uint64_t failed = end;
        bool done = pipe_.visit_puts(
            withdrawn_from_, [&](std::uint64_t at, const OneSided& head, const std::byte* data) {
                if (at < executed || write_peer(head.address, data, head.length)) {
                    return true;
                }
                failed = at;
                return false;
            });
        const bool changed = !done && failed == end; // since may_withdraw(), and not by us
        // There is at most one, whose first parts are those.
        const auto waiting = std::find_if(
            jobs_.begin(), jobs_.end(), [](const Job& job) { return job.kind == Job::Kind::put; });
        done = done && (waiting == jobs_.end() ||
                        write_peer(waiting->address, waiting->from, waiting->remaining));
        if (!done) {
            if (pipe_.peer_said_goodbye() || !pipe_.peer_memory().lives()) {
                return false; // the connection ends
            }
            if (changed || !give_back_puts(failed)) {
                pipe_.note_scribble(); // and so it does here
                withdrawing_ = false;
                asks_for_puts_ = false;
                pipe_.end_withdrawal();
                return false;
            }
        } else if (waiting != jobs_.end()) {
            if (waiting->data == nullptr) {
                defer(waiting->token);
            }
            jobs_.erase(waiting);
            --puts_waiting_;
        }
        passed_by_ = pipe_.tx().head();
        withdrawing_ = false;
        asks_for_puts_ = false;
        pipe_.end_withdrawal();
        pipe_.encourage();
        release_if_out();
        return done;
    }
    return false;
}

template <class Pipe> bool OneSidedEngine<Pipe>::give_back_puts(std::uint64_t from) {
    if constexpr (Pipe::kernel_copies) {
        // Copied, for the peer frees the place where they lie. In front of what waits.
        std::deque<Job> again;
        std::uint64_t room = pipe_.rings_size(); // the lengths are what the peer says by now
        const bool unchanged =
            pipe_.visit_puts(from, [&](std::uint64_t, const OneSided& head, const std::byte* data) {
                if (head.length > room) {
                    return false;
                }
                room -= head.length;
                Job job{.kind = Job::Kind::put};
                job.from = data;
                job.region = head.region;
                job.address = head.address;
                job.remaining = head.length;
                job.keep();
                again.push_back(std::move(job));
                return true;
            });
        if (!unchanged) {
            return false;
        }
        puts_waiting_ += static_cast<std::uint32_t>(again.size());
        jobs_.insert(jobs_.begin(), std::move_iterator(again.begin()),
                     std::move_iterator(again.end()));
        for (Flush& flush : flushes_) {
            flush.positioned = false; // those are before it
        }
        refused_until_ = direct_after_;
        if (puts_waiting_ != 0) { // messages that were sent behind them must stay behind
            hold_ = true;
            pipe_.hold(Pipe::hold_fence);
        }
    }
    return true;
}

} // namespace comch::link
