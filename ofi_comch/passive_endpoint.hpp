// Passive endpoints: they listen under a service name, for connected endpoints.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "address.hpp"
#include "fabric.hpp"
#include "libfabric.hpp"
#include "over_link.hpp"
#include "station.hpp"
#include "wire.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

struct Eq;

/// A request that waits for the program's answer; fi_info::handle of its event points here.
struct ConnectionRequest {
    ::fid fid{};
    Fabric* fabric = nullptr;
    PassiveEndpoint* passive = nullptr; ///< null: it is closed
    std::shared_ptr<Station> station;   ///< null: the passive endpoint is closed
    Conn* conn = nullptr;               ///< null: the peer has gone, or the passive endpoint

    /// Of one that has been answered, or is an endpoint's.
    static constexpr std::size_t used_class = FI_CLASS_UNSPEC;

    /// It is nobody else's from now on.
    [[nodiscard]] std::shared_ptr<ConnectionRequest> use_up();
};

class PassiveEndpoint {
public:
    ~PassiveEndpoint();

    [[nodiscard]] link::ConnectDecision on_connect_request(Connection& link,
                                                           const link::ConnectRequest& request);
    /// Nobody can connect any more: its event queue says so.
    void lose_device();

    fid_pep fid{};
    Fabric* fabric = nullptr;
    std::shared_ptr<Station> station;
    Eq* eq = nullptr;
    std::optional<Address> address; ///< that it listens under, or will
    bool socket_addresses = false;  ///< the program wants addresses in that form
    bool listening = false;
    fi_info* info = nullptr; ///< a copy
    std::vector<std::shared_ptr<ConnectionRequest>> requests;

private:
    [[nodiscard]] link::ConnectDecision offer_to_program(Connection& link, const wire::Hello& hello,
                                                         std::span<const std::byte> data);
};

/// What the program wants to tell the other end; what is too long for it is cut off, as fi_cm(3)
/// says.
[[nodiscard]] inline std::span<const std::byte> connection_data(const void* data,
                                                                std::size_t length) {
    return {static_cast<const std::byte*>(data),
            std::min<std::size_t>(length, wire::max_connection_data)};
}

[[nodiscard]] int open_passive_endpoint(fid_fabric* fabric, fi_info* info, fid_pep** endpoint,
                                        void* context);

} // namespace comch::ofi::inline COMCH_OFI_LINK
