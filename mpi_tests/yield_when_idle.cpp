// Preloaded into MPICH's ranks when there are more of them than CPUs.
//
// MPICH's ch4 device polls without ever giving up the CPU (OpenMPI has mpi_yield_when_idle), so
// with several ranks per CPU every message waits for whole time slices of ranks that only wait
// themselves. This stands before UCX's progress call and yields when there was nothing to do.
// Only timing changes: what is sent, and over which transport, does not.
#include <atomic>

#include <dlfcn.h>
#include <sched.h>

// Declared here: UCX's headers are no requirement of the MPI tests.
extern "C" unsigned ucp_worker_progress(void* worker);

extern "C" __attribute__((visibility("default"))) unsigned ucp_worker_progress(void* worker) {
    using Progress = unsigned (*)(void*);
    // Found at the first call; threads that race find the same. Relaxed: the value is the address
    // of code, nothing else is published with it.
    static std::atomic<Progress> real{nullptr};
    Progress progress = real.load(std::memory_order_relaxed);
    if (progress == nullptr) {
        progress = reinterpret_cast<Progress>(::dlsym(RTLD_NEXT, "ucp_worker_progress"));
        real.store(progress, std::memory_order_relaxed);
    }
    const unsigned events = progress(worker);
    if (events == 0) {
        ::sched_yield();
    }
    return events;
}
