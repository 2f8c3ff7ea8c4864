// One RDMA device as this process uses it: protection domain, limits, asynchronous events, and the
// process's registered regions as the device knows them. Shared by all ports and channels on it.
//
// librdmacm opens each device once per process; that context is used here, too. When the device is
// removed, everybody lets go of what he holds; the last one gives the protection domain back.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <infiniband/verbs.h>
#include <unistd.h>

#include <comch/device.hpp>
#include <comch/error.hpp>

#include "core/memory/region_table.hpp"

namespace comch::link::verbs {

/// A registration with the device, ended with its owner: in the process that made it. A child that
/// it forked has the same device open, and would end the registration of its parent.
class Mr {
public:
    Mr() = default;
    explicit Mr(ibv_mr* mr) noexcept : mr_(mr), process_(::getpid()) {}
    Mr(Mr&& other) noexcept : mr_(std::exchange(other.mr_, nullptr)), process_(other.process_) {}
    Mr& operator=(Mr&& other) noexcept {
        if (this != &other) {
            end();
            mr_ = std::exchange(other.mr_, nullptr);
            process_ = other.process_;
        }
        return *this;
    }
    ~Mr() { end(); }
    /// For work requests and windows that are about it.
    [[nodiscard]] ibv_mr* get() const noexcept { return mr_; }
    [[nodiscard]] std::uint32_t lkey() const noexcept { return mr_->lkey; }
    [[nodiscard]] std::uint32_t rkey() const noexcept { return mr_->rkey; }
    explicit operator bool() const noexcept { return mr_ != nullptr; }

private:
    void end() noexcept {
        if (mr_ != nullptr && process_ == ::getpid()) {
            (void)::ibv_dereg_mr(mr_);
        }
    }

    ibv_mr* mr_ = nullptr;
    pid_t process_ = 0;
};

class RdmaDevice {
public:
    /// What the device can do, as far as this link uses it.
    struct Limits {
        std::uint32_t queue_depth = 0;  ///< work requests of a queue pair
        std::uint32_t shared_depth = 0; ///< of a shared receive queue
        bool shared_resize = false;     ///< and one can be made larger
        std::uint32_t completions = 0;
        std::uint32_t rdma_length = 0; ///< of one RDMA read or write
        double bandwidth = 0;          ///< bytes per second, of the port by which it was opened
        std::uint8_t reads = 0;        ///< RDMA reads under way, as requester and as responder
        bool windows = false;          ///< memory windows that belong to one queue pair (type 2)
    };

    /// The one of this process for `context`, whose port is behind the IP address.
    [[nodiscard]] static Result<std::shared_ptr<RdmaDevice>>
    of(ibv_context* context, std::uint8_t port, const std::string& address);
    /// The one behind the address, if a port is open on it; else null.
    [[nodiscard]] static std::shared_ptr<RdmaDevice> behind(const std::string& address);
    ~RdmaDevice();
    RdmaDevice(const RdmaDevice&) = delete;
    RdmaDevice& operator=(const RdmaDevice&) = delete;

    [[nodiscard]] ibv_context* context() const noexcept { return context_; }
    [[nodiscard]] ibv_pd* pd() const noexcept { return pd_; }
    [[nodiscard]] const Limits& limits() const noexcept { return limits_; }
    [[nodiscard]] std::string name() const { return ::ibv_get_device_name(context_->device); }

    [[nodiscard]] Result<Mr> register_memory(const void* address, std::size_t length, int access);

    // ---- regions of the process's table ---------------------------------------------------------

    /// What the device calls a region of RegionTable; registered at first use (or the region that
    /// it names for this), until the region is removed.
    struct RegionKeys {
        std::uint32_t lkey = 0;
        std::uint32_t rkey = 0;
        bool valid = false;
    };
    [[nodiscard]] RegionKeys keys_of(std::uint64_t region);
    /// The registration itself, which stays for as long as somebody holds it; null: there is none.
    [[nodiscard]] std::shared_ptr<const Mr> memory_of(std::uint64_t region);
    /// How many regions it knows.
    [[nodiscard]] std::size_t known_regions();
    /// How often anything was registered with it, ever.
    [[nodiscard]] std::uint64_t registrations() const noexcept { return registrations_; }

    // ---- trouble --------------------------------------------------------------------------------

    /// The device is being removed or has failed: nothing works any more, everybody lets go.
    [[nodiscard]] bool gone() const noexcept { return gone_.load(std::memory_order_acquire); }
    void set_gone() noexcept;
    /// Since when the port is down; 0: it is up.
    [[nodiscard]] std::uint64_t down_since_ns(std::uint8_t port) const noexcept {
        // Not under the mutex: somebody may be registering gigabytes meanwhile. Relaxed: the time
        // is the whole message.
        return down_since_ns_[port].load(std::memory_order_relaxed);
    }
    [[nodiscard]] int event_fd() const noexcept { return context_->async_fd; }
    /// Reads what the device has to say; any thread.
    void look_at_events();
    /// What it does with each; apart, for tests.
    void take(const ibv_async_event& event);
    /// What the device says of one queue pair, completion queue or shared receive queue, from now
    /// until unwatch(). Written by whoever reads the device's events.
    struct Said {
        std::atomic<int> error{-1};            ///< an ibv_event_type: it works no more
        std::atomic<bool> last_receive{false}; ///< it takes no further receive buffer
    };
    void watch(const void* object, Said& said);
    void unwatch(const void* object);
    /// An eventfd that is rung when something of the above changes.
    void add_bell(int fd);
    void remove_bell(int fd);

private:
    explicit RdmaDevice(ibv_context* context) : context_(context) {}
    [[nodiscard]] Result<void> open(std::uint8_t port);
    void ring_bells();
    /// Under the mutex; null: there is none.
    [[nodiscard]] std::shared_ptr<const Mr> find_or_register(std::uint64_t region);
    /// The same, with the region pinned.
    [[nodiscard]] std::shared_ptr<const Mr> add_region(std::uint64_t id,
                                                       const RegionTable::Region& region);
    static void region_removed(void* self, std::uint64_t region);

    ibv_context* context_;
    ibv_pd* pd_ = nullptr;
    Limits limits_;
    std::atomic<bool> gone_{false};
    std::atomic<std::uint64_t> registrations_{0};
    std::array<std::atomic<std::uint64_t>, 256> down_since_ns_{}; ///< by port
    std::mutex mutex_;                                            ///< guards what follows
    std::vector<int> bells_;
    std::unordered_map<std::uint64_t, std::shared_ptr<const Mr>> regions_;
    std::unordered_map<const void*, Said*> watched_;
};

/// What a device calls Access of peers.
[[nodiscard]] unsigned remote_access_flags(std::uint32_t access) noexcept;

/// RegionKey::link_data of memory that a device knows: its remote key, and that there is one.
inline constexpr std::uint64_t has_remote_key = std::uint64_t{1} << 32;

/// The link_data of a region of this process for peers that reach it through `device`; 0 if no port
/// is open there.
[[nodiscard]] std::uint64_t link_data_of(const Device& device, std::uint64_t region);

/// Whether a port is open there.
[[nodiscard]] bool is_open(const Device& device);

/// Whether the device knows the region now; not if no port is open there.
[[nodiscard]] bool make_known(const Device& device, std::uint64_t region);

} // namespace comch::link::verbs
