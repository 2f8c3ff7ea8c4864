// A server context.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <comch/server.hpp>

#include "doca_comch/comch/control.hpp"

namespace comch::doca {

class ServerContext final : public ControlContext {
public:
    [[nodiscard]] static doca_error_t create(doca_dev* device, doca_dev_rep* representor,
                                             const char* name, const ControlCalls& calls,
                                             ServerContext*& server);
    ~ServerContext() override;

    [[nodiscard]] doca_dev_rep& representor() const noexcept { return *representor_; }
    [[nodiscard]] doca_error_t disconnect(ConnectionHandle* handle);

private:
    ServerContext(doca_dev& device, doca_dev_rep& representor, std::string name,
                  const ControlCalls& calls);

    doca_error_t begin_start() override;
    doca_error_t begin_stop() override;
    bool drained() const noexcept override;
    unsigned drain() override;
    void drain_now() override;
    void closed() override;
    void set_wake_on_confirmation(bool on) override;
    void disconnect_now(ConnectionHandle& handle) override;

    [[nodiscard]] doca_error_t open_core();
    [[nodiscard]] bool has_attached() const;
    void connected(Connection& connection);
    void disconnected(Connection& connection, EndReason reason);
    void finish(ConnectionHandle& handle, bool orderly, bool delivered);
    void refused();

    doca_dev_rep* const representor_;
    std::unique_ptr<Server> core_; ///< null: what it says on its way out is not listened to
    std::vector<ConnectionHandle*> live_;
    bool draining_now_ = false;
    std::optional<Clock::time_point> stop_since_; ///< until the core has been stopped
};

} // namespace comch::doca
