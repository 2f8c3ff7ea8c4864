#include "core/transfer/service.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <comch/capabilities.hpp>

#include "core/base/quiet_thread.hpp"
#include "core/base/unique_fd.hpp"
#include "core/channel/link_kind.hpp"
#include "core/device/per_process.hpp"

namespace comch::transfer {
namespace {

/// Takes connections in; the link serves the one-sided operations by itself.
template <class Link> class Sink {
public:
    using Connection = typename Link::Connection;
    using Port = typename Link::Port;

    explicit Sink(Port& port) : port_(port) {}

    link::ConnectDecision on_connect_request(Connection&, const link::ConnectRequest&) {
        if (connections_ == limits::clients_per_server) {
            return {.code = Errc::rejected};
        }
        ++connections_;
        return {.code = Errc::ok};
    }
    void on_connected(Connection&, std::span<const std::byte>) {}
    void on_disconnected(Connection& connection, link::Reason, std::span<const std::byte>) {
        close(connection);
    }
    // Nobody who is correct sends messages, or opens channels, here.
    void on_message(Connection& connection, std::uint8_t, const std::byte*, std::uint32_t) {
        close(connection);
    }
    void on_channel(Connection& connection, std::uint64_t, typename Link::Channel&&) {
        close(connection);
    }
    void on_complete(Connection&, void*, Errc) {}

private:
    void close(Connection& connection) {
        --connections_;
        port_.close(&connection);
    }

    Port& port_;
    std::uint32_t connections_ = 0;
};

class Service {
public:
    template <class Link>
    [[nodiscard]] Result<void> start(std::unique_ptr<typename Link::Port> port, UniqueFd bell) {
        address_ = port->address();
        bell_ = std::move(bell);
        try {
            thread_ =
                quiet_thread("comch-memory", [this, port = std::move(port)] { run<Link>(*port); });
        } catch (const std::system_error& error) {
            return fail_errno(Errc::no_memory,
                              "cannot make the thread that serves exported memory (see ulimit -u)",
                              error.code().value());
        }
        return {};
    }
    ~Service() {
        ends_.store(true, std::memory_order_release);
        const std::uint64_t one = 1;
        (void)!::write(bell_.get(), &one, sizeof(one));
        if (thread_.joinable()) {
            thread_.join();
        }
    }

    [[nodiscard]] const link::PortAddress& address() const noexcept { return address_; }

private:
    template <class Link> void run(typename Link::Port& port) {
        Sink<Link> sink(port);
        while (!ends_.load(std::memory_order_acquire)) {
            if (port.progress(sink) != 0 || port.arm() != Errc::ok) {
                continue;
            }
            pollfd fds[] = {{.fd = port.event_fd(), .events = POLLIN, .revents = 0},
                            {.fd = bell_.get(), .events = POLLIN, .revents = 0}};
            (void)::poll(fds, 2, -1);
        }
    }

    link::PortAddress address_{};
    UniqueFd bell_;
    std::thread thread_;
    std::atomic<bool> ends_ = false;
};

struct Services {
    std::mutex mutex;
    std::map<std::string, std::unique_ptr<Service>> by_device;

    /// Not those of a parent: a forked child has none of its threads, and must not wait for them.
    static Services& instance() {
        static constinit PerProcess<Services> services;
        return services.get();
    }
};

void end_services() {
    Services& services = Services::instance();
    const std::lock_guard lock(services.mutex);
    services.by_device.clear();
}

} // namespace

Result<link::PortAddress> serve_memory(const Device& device) {
    Services& services = Services::instance();
    const std::lock_guard lock(services.mutex);
    // Of the directory, where the port is: two may be said to be one domain.
    const std::string name =
        fmt::format("{}/{}", device.domain()->directory_key(), device.function().name);
    if (const auto running = services.by_device.find(name); running != services.by_device.end()) {
        return running->second->address();
    }
    UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell) {
        return fail_errno(Errc::no_memory, "cannot create an eventfd for the memory service",
                          errno);
    }
    return channel::with_link(
        channel::link_kind_of(device), [&](auto link) -> Result<link::PortAddress> {
            using Link = decltype(link);
            auto port = Link::Port::open(device, {.face = "memory"});
            if (!port) {
                return tl::unexpected(std::move(port.error()));
            }
            // Now that everything exists that the thread uses: at exit it ends before that does.
            [[maybe_unused]] static const int registered = std::atexit(end_services);
            auto service = std::make_unique<Service>();
            if (auto started = service->template start<Link>(std::move(*port), std::move(bell));
                !started) {
                return tl::unexpected(std::move(started.error()));
            }
            const link::PortAddress address = service->address();
            services.by_device.emplace(name, std::move(service));
            return address;
        });
}

} // namespace comch::transfer
