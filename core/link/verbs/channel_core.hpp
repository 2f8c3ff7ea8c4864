// What a verbs channel consists of, apart from its owner's handle (channel.hpp).
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "core/base/unique_fd.hpp"
#include "core/counters/process_counters.hpp"
#include "core/link/verbs/connection_life.hpp"
#include "core/link/verbs/pipe.hpp"

namespace comch::link::verbs {

/// Everything of a channel; it may outlive the channel for the moment that its last words take.
struct ChannelCore {
    ChannelCore() = default;
    ChannelCore(const ChannelCore&) = delete;
    ChannelCore& operator=(const ChannelCore&) = delete;

    std::mutex mutex; ///< guards everything until `ready`
    /// Connected, or never to be. Release: what was done under the lock is seen without it.
    std::atomic<bool> ready{false};
    std::shared_ptr<RdmaDevice> device;
    std::shared_ptr<ConnectionLife> life;
    std::shared_ptr<ProcessCounters> counters;
    UniqueFd epoll;
    UniqueFd bell; ///< an eventfd: the connection has ended, or another thread found it `ready`
    CmChannel cm;
    std::unique_ptr<Queues> queues;
    std::unique_ptr<Pipe> pipe;
    CmId id;
    ConnectionLife::Way way{}; ///< opener
    unsigned stale_attempts = 0;
    std::uint64_t deadline_ns = 0; ///< once it is only there to end

    /// Of regions whose keys were asked for before, by the low bits of their numbers: the device's
    /// lock, under which others register memory, is not needed for these. No number is used again,
    /// so what is known of one stays true; only that it has none is asked again now and then. Its
    /// owner's alone, always.
    struct KnownKeys {
        std::uint64_t region = 0;
        RdmaDevice::RegionKeys keys;
        unsigned uses = 0; ///< while it has none
    };
    std::array<KnownKeys, 8> known_keys{};
    [[nodiscard]] KnownKeys& known(std::uint64_t region) noexcept {
        return known_keys[region % known_keys.size()];
    }

    bool opened = false; ///< the message at the head was looked at before
    bool is_opener = false;
    bool peer_gone = false;
    bool no_room = false; ///< the peer refused because it has no memory or descriptor left
    bool refused = false; ///< the peer refused because the connection is over there
    bool failed = false;
    wire::Header header{};
    const std::byte* data = nullptr;
    std::uint32_t length = 0;
    std::uint32_t written = 0; ///< by the write that came with it

    ~ChannelCore();
    /// Until a channel is connected two threads may have to do with it, its owner's and the port's;
    /// after that only one, and there is no lock.
    [[nodiscard]] std::unique_lock<std::mutex> lock_until_ready() noexcept {
        if (ready.load(std::memory_order_acquire)) [[likely]] {
            return {};
        }
        return std::unique_lock(mutex);
    }
    /// Under the lock, until it is ready: moves it on.
    void connect_on();
    [[nodiscard]] Result<void> prepare(const SlotInfo& parent);
    [[nodiscard]] Result<void> make_for_acceptance(const SlotInfo& parent);
    void look_at_cm();
    void on_event(const CmEvent& event);
    [[nodiscard]] Result<void> try_to_connect();
    void start_handshake();
    /// Finds the next message; handles what comes before it. False: there is none.
    [[nodiscard]] bool peek() {
        while (!failed) {
            const Queues::Arrival* const arrival = queues->front();
            if (arrival == nullptr) {
                if (!queues->fetch()) {
                    return false;
                }
                continue;
            }
            if (opened) {
                return true;
            }
            if (arrival->pipe == nullptr) [[unlikely]] {
                queues->pop();
                continue;
            }
            if (!pipe->open(*arrival, header, data, length)) [[unlikely]] {
                fail();
                return false;
            }
            if (header.kind == static_cast<std::uint8_t>(Kind::data) && pipe->started())
                [[likely]] {
                opened = true;
                written = arrival->written;
                return true;
            }
            if (!handle_rare()) {
                fail();
                return false;
            }
            pop();
        }
        return false;
    }
    void pop() noexcept {
        opened = false;
        queues->pop();
        pipe->taken(header);
    }
    /// The record at hand, which is no message. False: no correct peer sends it.
    [[nodiscard]] bool handle_rare() noexcept;
    void fail() noexcept;
    /// Nothing of it is needed any more.
    [[nodiscard]] bool over();
    void let_go() noexcept;
    /// The device goes away.
    void abandon() noexcept;
};

/// Whoever calls tend_channels() again and again has one of these meanwhile.
class TendsChannels {
public:
    TendsChannels();
    ~TendsChannels();
    TendsChannels(const TendsChannels&) = delete;
    TendsChannels& operator=(const TendsChannels&) = delete;

private:
    ProcessId owner_;
};
/// Moves on what no owner does: channels that connect (their opener need not call anything after its
/// first send), and last words of channels that are gone. Ports call it; any thread.
void tend_channels();
/// The same, until no last words are left or `deadline_ns` has come.
void finish_channels(std::uint64_t deadline_ns);

} // namespace comch::link::verbs
