// The soft device's DPA: threads of this process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include <doca_dpa.h>

struct doca_dpa {
    std::atomic<std::uint32_t> users = 0; ///< threads, completions and message queues
    bool started = false;
};

/// Sleeps until it is activated, calls its function, sleeps again.
struct doca_dpa_thread {
public:
    explicit doca_dpa_thread(doca_dpa& dpa) : dpa_(dpa) { ++dpa_.users; }
    ~doca_dpa_thread() {
        stop();
        --dpa_.users;
    }
    doca_dpa_thread(const doca_dpa_thread&) = delete;
    doca_dpa_thread& operator=(const doca_dpa_thread&) = delete;

    /// Any thread. Several activations before it gets to run are one.
    void activate();

    void start();
    void stop();
    void run();

    [[nodiscard]] bool started() const noexcept { return thread_.joinable(); }

    doca_dpa_func_t* function = nullptr;
    std::uint64_t argument = 0;
    doca_dpa_dev_uintptr_t local_storage = 0;
    std::atomic<std::uint32_t> users = 0; ///< completions that activate it

private:
    void work();

    doca_dpa& dpa_;
    std::thread thread_;
    std::mutex mutex_; ///< guards what follows
    std::condition_variable changed_;
    bool runs_ = false;
    bool activated_ = false;
    bool ends_ = false;
};

struct doca_dpa_completion {
    doca_dpa& dpa;
    unsigned queue_size;
    doca_dpa_thread* thread = nullptr;
    std::uint32_t users = 0; ///< producers that are attached
    bool started = false;
};
