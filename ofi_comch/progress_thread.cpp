#include "progress_thread.hpp"

#include <cerrno>
#include <chrono>
#include <mutex>
#include <new>
#include <system_error>

#include "core/base/quiet_thread.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

/// How long a program that progressed by itself is left alone: so long may a peer wait for it when
/// it begins to compute, and a thousand wake-ups a second are less than a hundredth of a CPU's
/// time.
constexpr std::chrono::milliseconds patience{1};

} // namespace

ProgressThread::ProgressThread(const std::shared_ptr<Lock>& lock) : waiter_(lock) {
    if (!waiter_.can_sleep()) {
        throw std::system_error(errno, std::generic_category(), "a descriptor to sleep on");
    }
    thread_ = quiet_thread("comch-progress", [this] { run(); });
}

ProgressThread::~ProgressThread() {
    {
        const Guard guard(waiter_.lock());
        stop_ = true;
        waiter_.wake();
    }
    thread_.join();
}

void ProgressThread::add(const std::shared_ptr<Station>& station) {
    waiter_.add(station);
    station->progress_thread = this;
}

void ProgressThread::remove(Station& station) {
    if (waiter_.remove(station)) {
        station.progress_thread = nullptr;
    }
}

void ProgressThread::run() {
    std::unique_lock guard(waiter_.lock());
    unsigned long seen = program_calls_;
    while (!stop_) {
        if (seen != program_calls_) {
            seen = program_calls_;
            guard.unlock();
            std::this_thread::sleep_for(patience);
            guard.lock();
            continue;
        }
        working_ = true;
        bool may_sleep = false;
        try {
            const unsigned moved = waiter_.progress();
            working_ = false;
            may_sleep = moved == 0 && waiter_.arm();
        } catch (const std::bad_alloc&) { // it goes on when there is memory again
            working_ = false;
        }
        armed_ = may_sleep;
        guard.unlock();
        if (may_sleep) {
            (void)waiter_.sleep(-1);
        } else {
            std::this_thread::yield(); // the program may want in
        }
        guard.lock();
        armed_ = false;
        if (may_sleep) {
            waiter_.disarm();
        }
    }
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
