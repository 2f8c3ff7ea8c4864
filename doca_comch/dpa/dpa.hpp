// The soft device's DPA: threads of this process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include <doca_dpa.h>
#include <doca_dpa_dev.h>

/// What programs on the DPA log.
class DpaLog {
public:
    ~DpaLog();
    /// False: the file cannot be written.
    [[nodiscard]] bool open(const char* path);
    void set_level(doca_dpa_dev_log_level_t level) noexcept { level_ = static_cast<int>(level); }
    [[nodiscard]] bool wants(doca_dpa_dev_log_level_t level) const noexcept {
        return static_cast<int>(level) <= level_;
    }
    void write(std::string_view text);

private:
    std::atomic<int> level_ = DOCA_DPA_DEV_LOG_LEVEL_INFO;
    std::mutex mutex_;
    std::FILE* file_ = nullptr; ///< null: standard output
};

struct doca_dpa {
    DpaLog log;
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

    /// Leaves the program's function, from inside: this activation is over.
    [[noreturn]] void leave() { std::longjmp(way_out_, 1); }

    [[nodiscard]] bool started() const noexcept { return thread_.joinable(); }

    doca_dpa_func_t* function = nullptr;
    std::uint64_t argument = 0;
    doca_dpa_dev_uintptr_t local_storage = 0;
    std::atomic<std::uint32_t> users = 0; ///< completions that activate it

    [[nodiscard]] doca_dpa& dpa() const noexcept { return dpa_; }
    /// Who waits inside the calling DPA thread must not any longer.
    [[nodiscard]] static bool is_to_stop();

private:
    void work();
    void call();

    doca_dpa& dpa_;
    std::jmp_buf way_out_{};
    std::thread thread_;
    std::mutex mutex_; ///< guards what follows
    std::condition_variable changed_;
    bool runs_ = false;
    bool activated_ = false;
    bool ends_ = false;
};

/// Completions of what the DPA submitted: any of its threads adds, one takes.
struct doca_dpa_completion {
public:
    struct Element {
        doca_dpa_dev_completion_type_t type = DOCA_DPA_DEV_COMP_SEND;
        std::uint32_t user_data = 0;
    };

    doca_dpa_completion(doca_dpa& dpa, unsigned queue_size) : dpa_(dpa), queue_size_(queue_size) {
        ++dpa_.users;
    }
    ~doca_dpa_completion() {
        --dpa_.users;
        if (thread != nullptr) {
            --thread->users;
        }
    }
    doca_dpa_completion(const doca_dpa_completion&) = delete;
    doca_dpa_completion& operator=(const doca_dpa_completion&) = delete;

    void start();
    void stop();
    [[nodiscard]] bool started() const noexcept { return started_; }

    /// So many, of which the last is of this type and those before are successes. What is not
    /// acknowledged keeps its place: where there is none left, a completion is lost.
    void add(std::uint32_t count, Element last);
    [[nodiscard]] const Element* get();
    void acknowledge(std::uint64_t count);
    void request_notification();

    doca_dpa_thread* thread = nullptr;
    std::uint32_t users = 0; ///< producers that are attached

private:
    doca_dpa& dpa_;
    const unsigned queue_size_;
    std::atomic<bool> started_ = false;
    std::mutex mutex_; ///< guards what follows
    std::unique_ptr<Element[]> elements_;
    std::uint64_t added_ = 0;
    std::uint64_t got_ = 0;
    std::uint64_t acknowledged_ = 0;
    bool requested_ = false;
};

/// Runs a thread by a call of the DPA's.
struct doca_dpa_notification_completion {
    doca_dpa& dpa;
    doca_dpa_thread& thread;
    std::atomic<bool> started = false;
};
