#include "core/link/soft/parked_thread.hpp"

#include <atomic>
#include <exception>

#include <unistd.h>

#include "core/base/quiet_thread.hpp"
#include "core/device/per_process.hpp"

namespace comch::link::soft {
namespace {

class ParkedThread {
public:
    ParkedThread() noexcept {
        try {
            quiet_thread("comch-parked", [this] {
                number_.store(static_cast<std::uint32_t>(::gettid()), std::memory_order_relaxed);
                number_.notify_one();
                while (true) {
                    (void)::pause();
                }
            }).detach();
        } catch (const std::exception&) { // the process may have no more threads
            return;
        }
        number_.wait(0, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint32_t number() const noexcept {
        return number_.load(std::memory_order_relaxed);
    }

private:
    std::atomic<std::uint32_t> number_{0};
};

} // namespace

std::uint32_t parked_thread() noexcept try {
    static constinit PerProcess<ParkedThread> thread;
    return thread.get().number();
} catch (const std::exception&) { // no memory
    return 0;
}

} // namespace comch::link::soft
