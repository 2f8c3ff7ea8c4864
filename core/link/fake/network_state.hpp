// What all ports of a fake network share, under one mutex.
#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "core/link/fake/fake_link.hpp"

namespace comch::link::fake::detail {

struct NetworkState {
    std::mutex mutex;
    Settings settings;
    std::uint64_t clock = 0; ///< stamps of send_ordered()
    std::uint64_t next_port = 1;
    std::map<std::uint64_t, Port*> ports;
    std::map<std::pair<FunctionId, std::string>, Port*> services;
    std::vector<std::weak_ptr<Wire>> wires;

    // scripted faults
    std::optional<Reason> refuse_next;
    std::map<std::uint64_t, unsigned> kill_after; ///< port number: steps left
    unsigned kills = 0;
    unsigned withdrawals = 0;
    bool slow_devices = false;
    unsigned again_in = 0;   ///< 0: never
    unsigned corrupt_in = 0; ///< 0: never
    std::size_t corrupt_offset = 0;
    std::byte corrupt_mask{};
    std::function<void(Transit&)> hook;

    [[nodiscard]] Port* port(std::uint64_t number) const {
        const auto found = ports.find(number);
        return found == ports.end() ? nullptr : found->second;
    }
    [[nodiscard]] bool killed(std::uint64_t number) const {
        const Port* const p = port(number);
        return p != nullptr && p->killed_;
    }
    /// The port did one thing more; may be its last.
    void step(std::uint64_t number);
    void kill(Port& port);
    [[nodiscard]] std::shared_ptr<Wire> make_wire();
};

[[nodiscard]] PortAddress address_of(std::uint64_t number) noexcept;
[[nodiscard]] std::uint64_t number_of(const PortAddress& address) noexcept;
void ring(const std::shared_ptr<Bell>& bell) noexcept;
/// A message was taken out of `wire` by the other end than `sender`.
void taken_out(Wire& wire, unsigned sender) noexcept;
/// Something about the wire changed that both ends, and its channels' ends, must look at.
void ring_all(Wire& wire) noexcept;

} // namespace comch::link::fake::detail
