// A client context.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <comch/client.hpp>

#include "doca_comch/comch/control.hpp"

namespace comch::doca {

class ClientContext final : public ControlContext {
public:
    [[nodiscard]] static doca_error_t create(doca_dev* device, const char* name,
                                             const ControlCalls& calls, ClientContext*& client);

    /// Null unless running.
    [[nodiscard]] ConnectionHandle* connection() const noexcept {
        return state() == DOCA_CTX_STATE_RUNNING ? handle_ : nullptr;
    }

private:
    using ControlContext::ControlContext;

    doca_error_t begin_start() override;
    doca_error_t begin_stop() override;
    bool drained() const noexcept override;
    unsigned drain() override;
    void drain_now() override;
    void closed() override;
    void set_wake_on_confirmation(bool on) override;
    void disconnect_now(ConnectionHandle&) override {}

    [[nodiscard]] doca_error_t open_core();
    void core_entered(State state);
    void connected();
    void core_ended();
    void bury_core();
    void end_connection();

    std::unique_ptr<Client> core_;
    /// What the core's handlers are given: null once this is idle. Inside a callback it may be
    /// started again, and what the core of before still has to say is not for the new one.
    std::unique_ptr<ClientContext*> self_;
    ConnectionHandle* handle_ = nullptr;
    std::optional<Clock::time_point> stop_since_; ///< until the core has been stopped
};

} // namespace comch::doca
