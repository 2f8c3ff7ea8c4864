// One side of a connection of Comch: the device, a server or client, and its progress engine.
#pragma once

#include <cstdint>

#include <doca_comch.h>
#include <doca_dev.h>
#include <doca_pe.h>

namespace comch::perftest {

class DocaEnd {
public:
    /// The server's device is the first that can be one; the same for the client.
    explicit DocaEnd(bool client);
    ~DocaEnd();
    DocaEnd(const DocaEnd&) = delete;
    DocaEnd& operator=(const DocaEnd&) = delete;

    /// The server listens from here on; the client connects to one that does.
    void start();
    void wait_until_connected();
    void progress();
    /// The client's leaves; the server waits for that.
    void disconnect();

    [[nodiscard]] doca_comch_connection* connection() const noexcept { return connection_; }
    [[nodiscard]] doca_dev* device() const noexcept { return device_; }
    /// The peer's consumer; 0 until it is known.
    [[nodiscard]] std::uint32_t peer_consumer() const noexcept { return peer_consumer_; }

private:
    void create_server();
    void create_client();
    [[nodiscard]] doca_ctx* ctx() const;

    const bool is_client_;
    doca_dev* device_ = nullptr;
    doca_dev_rep* representor_ = nullptr;
    doca_pe* pe_ = nullptr;
    doca_comch_server* server_ = nullptr;
    doca_comch_client* client_ = nullptr;
    doca_comch_connection* connection_ = nullptr;
    std::uint32_t peer_consumer_ = 0;
    bool ended_ = false;
};

} // namespace comch::perftest
