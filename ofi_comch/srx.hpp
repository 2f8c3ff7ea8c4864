// Shared receive contexts: one receive queue for several endpoints.
#pragma once

#include <cstdint>
#include <vector>

#include "libfabric.hpp"
#include "over_link.hpp"
#include "recv_queue.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

struct Domain;
class Endpoint;

struct Srx {
    fid_ep fid{};
    Domain* domain = nullptr;
    RecvQueue queue;
    std::uint64_t op_flags = 0;
    std::size_t min_multi_recv = 64;
    bool is_directed = false;         ///< receives may be for one source only
    std::vector<Endpoint*> endpoints; ///< that use it
    std::size_t lost = 0;             ///< of these, whose device is gone
};

[[nodiscard]] int open_srx(fid_domain* domain, fi_rx_attr* attr, fid_ep** srx, void* context);

} // namespace comch::ofi::inline COMCH_OFI_LINK
