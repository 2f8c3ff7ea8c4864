// What a queue or counter polls to make progress, and how its readers sleep.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/idle_rounds.hpp"
#include "core/base/unique_fd.hpp"
#include "libfabric.hpp"
#include "over_link.hpp"
#include "station.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

/// Of a completion queue, counter or event queue. With the lock held, but for fd() and sleep().
class Waiter {
public:
    explicit Waiter(std::shared_ptr<Lock> lock) : lock_(std::move(lock)) {}
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    [[nodiscard]] Lock& lock() noexcept { return *lock_; }

    /// So many further stations can be added without memory that would have to be found then.
    void make_room(std::size_t count) { sources_.reserve(sources_.size() + count); }
    /// Each station as often as somebody needs it; true when nobody does any more.
    void add(const std::shared_ptr<Station>& station);
    bool remove(const Station& station);

    unsigned progress() {
        if (may_leave_) [[unlikely]] {
            come_back();
            leave();
        }
        unsigned count = 0;
        for (const Source& source : sources_) {
            count += source.station->progress();
        }
        yields_ = is_time_to_yield(idle_rounds_, count);
        if (yields_) [[unlikely]] {
            tidy();
        }
        return count;
    }
    /// The last progress() was one in vain after many, so its caller is to yield. (Not with the lock held.)
    [[nodiscard]] bool take_yield() noexcept { return std::exchange(yields_, false); }

    /// Something that readers wait for is there: ends a sleep.
    void notify() {
        if (sleepers_ != 0 || polled_) [[unlikely]] {
            wake();
        }
    }
    /// Ends a sleep whether there is something or not.
    void wake();
    /// fi_cq_signal: the reader that sleeps, or the next that would, returns.
    void signal() {
        signalled_ = true;
        wake();
    }
    [[nodiscard]] bool take_signal() noexcept { return std::exchange(signalled_, false); }

    /// The program's descriptor: readable when it is worth looking, after arm_for_poll() answered
    /// true. -1: there can be none.
    [[nodiscard]] int fd();
    /// What sleep() needs is there.
    [[nodiscard]] bool can_sleep() { return make(own_); }
    /// False: progress first, there may be something, or others have been woken and must see that
    /// before it is taken back. True: disarm() after the sleep. Several threads may sleep at once.
    [[nodiscard]] bool arm();
    void disarm();
    /// For a program that sleeps by itself. Which of its threads does, and when it comes back, is
    /// not known here: armed until the descriptor has been made readable. `for_all`: what it has
    /// been made readable for is nobody's alone, so those who armed before must come back first.
    [[nodiscard]] bool arm_for_poll(bool for_all);
    /// Without the lock. Until there is something, or so many ms (-1: for ever). False: the thread
    /// was interrupted by a signal.
    [[nodiscard]] bool sleep(int timeout_ms);

private:
    using Clock = std::chrono::steady_clock;

    /// The stations' descriptors and one of ours. The program's is not the one that sleep() uses:
    /// whoever sleeps again at once, for there is not enough for him, takes nobody's waking back.
    struct Bell {
        UniqueFd epoll;
        UniqueFd event;

        void ring() const;
        void quiet() const;
    };
    /// A thread of the program that armed and has not called since.
    struct Poller {
        std::thread::id thread;
        bool woken = false;
    };

    void tidy();
    [[nodiscard]] bool make(Bell& bell) const;
    [[nodiscard]] bool arm_stations();
    /// The stations' list of sleepers is left when nobody sleeps any more.
    void leave();
    /// The calling thread is not asleep; nor, for all we know, is one that has had long enough.
    void come_back();

    struct Source {
        std::shared_ptr<Station> station;
        unsigned uses;
    };
    std::shared_ptr<Lock> lock_;
    std::vector<Source> sources_;
    std::uint32_t idle_rounds_ = 0;
    bool yields_ = false;
    Bell own_;
    Bell program_;
    std::vector<Poller> pollers_;
    Clock::time_point rung_at_{}; ///< the program's
    unsigned sleepers_ = 0;
    bool woken_ = false;     ///< all that sleep have been, and some have not come back
    bool polled_ = false;    ///< the program sleeps, or will
    bool told_ = false;      ///< it has been woken, and has not armed since
    bool may_leave_ = false; ///< the stations' list, with the next progress: pollers were woken
    bool signalled_ = false;
};

/// What `read` answers, which is called with the lock held and may progress.
template <class Read> auto read_or_yield(Waiter& waiter, Read&& read) {
    std::unique_lock guard(waiter.lock());
    const auto result = read();
    if (waiter.take_yield()) [[unlikely]] {
        guard.unlock();
        std::this_thread::yield();
    }
    return result;
}

/// fi_control's FI_GETWAIT and FI_GETWAITOBJ.
[[nodiscard]] int control_wait(Waiter& waiter, fi_wait_obj kind, int command, void* argument);

/// The close and control calls of what readers wait on; `owner` counts the objects on it.
template <class Object, auto owner> int close_waiting(fid* fid) {
    Object* const object = object_of<Object>(fid);
    auto* const on = object->*owner;
    {
        // Who has given up the last reference may not be done with the object.
        const Guard guard(object->waiter.lock());
        if (object->references != 0) {
            return -FI_EBUSY;
        }
    }
    delete object;
    --on->references;
    return 0;
}
template <class Object> int control_waiting(fid* fid, int command, void* argument) {
    Object& object = *object_of<Object>(fid);
    return control_wait(object.waiter, object.wait_object, command, argument);
}

/// 0 or a negative error: the kinds of wait object that there are.
[[nodiscard]] int check_wait_object(fi_wait_obj kind);

/// Calls `done`, with the lock held, until it answers true; progresses and sleeps in between. 0: it
/// did. -FI_EAGAIN: the time is over, or somebody called signal(). -FI_EINTR: the thread has
/// handled a signal meanwhile, after which the program may want to do something else.
template <class Done> int wait_until(Waiter& waiter, int timeout_ms, Done&& done) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(timeout_ms);
    std::unique_lock guard(waiter.lock());
    for (bool interrupted = false;;) {
        (void)waiter.progress();
        if (done()) {
            return 0;
        }
        if (waiter.take_signal()) {
            return -FI_EAGAIN;
        }
        if (interrupted) {
            return -FI_EINTR;
        }
        int rest = -1;
        if (timeout_ms >= 0) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
            if (left.count() <= 0) {
                return -FI_EAGAIN;
            }
            rest = static_cast<int>(left.count());
        }
        if (waiter.arm()) {
            struct Awake { // also a thread that is cancelled in its sleep
                std::unique_lock<Lock>& guard;
                Waiter& waiter;
                ~Awake() {
                    guard.lock();
                    waiter.disarm();
                }
            };
            guard.unlock();
            const Awake awake{guard, waiter};
            interrupted = !waiter.sleep(rest);
        } else { // others want in: to post, or because they have been woken
            guard.unlock();
            std::this_thread::yield();
            guard.lock();
        }
    }
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
