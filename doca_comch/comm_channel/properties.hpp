// What is set on an endpoint before it is used.
#pragma once

#include <cstdint>
#include <utility>

#include <comch/capabilities.hpp>
#include <doca_error.h>

#include "doca_comch/common/device.hpp"

namespace comch::doca {

/// Holds a device or representor, which then cannot be closed.
template <class T> class Use {
public:
    Use() = default;
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { give_up(); }

    /// False, and nothing changed: it is not open.
    [[nodiscard]] bool set(T* object) {
        if (!hold(object)) {
            return false;
        }
        give_up();
        object_ = object;
        return true;
    }
    [[nodiscard]] T* get() const noexcept { return object_; }

private:
    void give_up() noexcept {
        if (object_ != nullptr) {
            object_->users.fetch_sub(1, std::memory_order_release);
        }
    }

    T* object_ = nullptr;
};

struct Properties {
    /// A line's worth; queues have room for a few. Smaller wishes are raised to these.
    static constexpr std::uint16_t min_message = 32;
    static constexpr std::uint16_t min_queue = 4;
    static constexpr std::uint16_t default_queue = 1024;

    Use<doca_dev> device;
    Use<doca_dev_rep> representor;
    std::uint16_t max_message = limits::message_size;
    std::uint16_t send_queue = default_queue;
    std::uint16_t recv_queue = default_queue;

    [[nodiscard]] doca_error_t set_max_message(std::uint16_t wanted);
    [[nodiscard]] doca_error_t set_send_queue(std::uint16_t wanted);
    [[nodiscard]] doca_error_t set_recv_queue(std::uint16_t wanted);

private:
    [[nodiscard]] Capabilities capabilities() const noexcept;
};
static_assert(limits::message_size <= UINT16_MAX && limits::send_queue_depth <= UINT16_MAX &&
              limits::recv_queue_depth <= UINT16_MAX); // getters answer in 16 bits

} // namespace comch::doca
