// FI_PROGRESS_AUTO: a thread that progresses while the program does not call into libfabric.
//
// There is one for all that shares a lock (a datagram domain, or a fabric with its connected
// endpoints), and only where a program asks for it. It sleeps as the reader of a queue does. While
// the program progresses by itself, the thread keeps out of its way: it looks once in a millisecond
// whether the program still does, and begins its own work when not.
#pragma once

#include <memory>
#include <thread>

#include "libfabric.hpp"
#include "over_link.hpp"
#include "waiter.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

class ProgressThread {
public:
    /// Throws std::system_error if there can be no thread.
    explicit ProgressThread(const std::shared_ptr<Lock>& lock);
    /// Without the lock, and not on this thread.
    ~ProgressThread();
    ProgressThread(const ProgressThread&) = delete;
    ProgressThread& operator=(const ProgressThread&) = delete;

    // With the lock held. As often as something on the station wants it.
    void add(const std::shared_ptr<Station>& station);
    /// ... without memory that would have to be found then.
    void make_room() { waiter_.make_room(1); }
    void remove(Station& station);

    /// Somebody progresses a station of ours, with the lock held.
    void note_progress() {
        if (working_) {
            return;
        }
        ++program_calls_;
        if (armed_) [[unlikely]] {
            armed_ = false; // once for each sleep: waking costs a system call
            waiter_.wake();
        }
    }

private:
    void run();

    Waiter waiter_;
    unsigned long program_calls_ = 0;
    bool working_ = false; ///< it is this thread that progresses
    bool armed_ = false;   ///< this thread sleeps until something comes
    bool stop_ = false;
    std::thread thread_; ///< last: it uses the others
};

} // namespace comch::ofi::inline COMCH_OFI_LINK
