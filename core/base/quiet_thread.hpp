// Threads of ours in a program's process.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

#include <pthread.h>

namespace comch {

/// The calling thread takes no signals while this lives, but for those that it causes itself: a
/// fault is for the program's handler, which reports it.
class SignalsBlocked {
public:
    SignalsBlocked() noexcept {
        sigset_t others;
        (void)sigfillset(&others);
        for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
            (void)sigdelset(&others, own);
        }
        (void)::pthread_sigmask(SIG_SETMASK, &others, &before_);
    }
    ~SignalsBlocked() { (void)::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

private:
    sigset_t before_;
};

/// Starts a thread that takes no signals of others: they are for the program's threads, whose
/// handlers may expect to run there. Debuggers show the name, of 15 characters at most. Throws as
/// std::thread does.
template <class F> [[nodiscard]] std::thread quiet_thread(const char* name, F&& f) {
    const SignalsBlocked blocked; // a thread begins as the one that starts it is
    std::thread thread(std::forward<F>(f));
    (void)::pthread_setname_np(thread.native_handle(), name);
    return thread;
}

} // namespace comch
