// Passive endpoints: they listen under a service name, for connected endpoints.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "address.hpp"
#include "fabric.hpp"
#include "libfabric.hpp"
#include "over_link.hpp"
#include "station.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

struct Eq;

/// A request that waits for the program's answer; fi_info::handle of its event points here.
struct ConnectionRequest {
    ::fid fid{};
    Fabric* fabric = nullptr;
    PassiveEndpoint* passive = nullptr; ///< null: it is closed
    std::shared_ptr<Station> station;
    Conn* conn = nullptr; ///< null: the peer has gone, or the passive endpoint

    /// It has been answered, or is the endpoint's: the last use of it.
    void use_up();
};

class PassiveEndpoint {
public:
    ~PassiveEndpoint();

    [[nodiscard]] link::ConnectDecision on_connect_request(Connection& link,
                                                           const link::ConnectRequest& request);

    fid_pep fid{};
    Fabric* fabric = nullptr;
    std::shared_ptr<Station> station;
    Eq* eq = nullptr;
    std::optional<Address> address; ///< that it listens under, or will
    bool socket_addresses = false;  ///< the program wants addresses in that form
    bool listening = false;
    fi_info* info = nullptr; ///< a copy
    std::vector<std::shared_ptr<ConnectionRequest>> requests;
};

[[nodiscard]] int open_passive_endpoint(fid_fabric* fabric, fi_info* info, fid_pep** endpoint,
                                        void* context);

} // namespace comch::ofi::inline COMCH_OFI_LINK
