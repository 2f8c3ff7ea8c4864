#include "fabric.hpp"

#include <string_view>

#include "cntr.hpp"
#include "cq.hpp"
#include "domain.hpp"
#include "eq.hpp"
#include "guarded.hpp"
#include "info.hpp"
#include "passive_endpoint.hpp"
#include "provider.hpp"
#include "status.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

/// The waiter of anything that can be waited for.
Waiter* waiter_of(fid* fid) {
    switch (fid->fclass) {
    case FI_CLASS_CQ:
        return &object_of<Cq>(fid)->waiter;
    case FI_CLASS_CNTR:
        return &object_of<Cntr>(fid)->waiter;
    case FI_CLASS_EQ:
        return &object_of<Eq>(fid)->waiter;
    default:
        return nullptr;
    }
}

/// Has it something already?
bool is_ready(fid* fid) {
    switch (fid->fclass) {
    case FI_CLASS_CQ:
        return object_of<Cq>(fid)->size() != 0 || object_of<Cq>(fid)->has_failure();
    case FI_CLASS_CNTR:
        return object_of<Cntr>(fid)->take_news();
    default:
        return !object_of<Eq>(fid)->empty();
    }
}

int try_wait(fid_fabric*, fid** fids, int count) {
    for (int i = 0; i < count; ++i) {
        Waiter* const waiter = waiter_of(fids[i]);
        if (waiter == nullptr) {
            return -FI_EINVAL;
        }
        const Guard guard(waiter->lock());
        const bool moved = waiter->progress() != 0;
        // A completion or event is for the one who reads it, what was counted for all who look.
        const bool for_all = fids[i]->fclass == FI_CLASS_CNTR;
        if (is_ready(fids[i]) || moved || !waiter->arm_for_poll(for_all)) {
            return -FI_EAGAIN;
        }
    }
    return 0;
}

int close(fid* fid) {
    Fabric* const fabric = object_of<Fabric>(fid);
    if (fabric->references != 0) {
        return -FI_EBUSY;
    }
    delete fabric;
    return 0;
}

fi_ops fid_ops = operations_of_fid(close);

int open_domain_with_flags(fid_fabric* fabric, fi_info* info, fid_domain** domain,
                           std::uint64_t flags, void* context) {
    return flags == 0 ? open_domain(fabric, info, domain, context) : -FI_EBADFLAGS;
}

fi_ops_fabric fabric_ops = {sizeof(fi_ops_fabric),
                            guarded<open_domain>,
                            guarded<open_passive_endpoint>,
                            guarded<open_eq>,
                            unsupported<decltype(fi_ops_fabric::wait_open)>,
                            guarded<try_wait>,
                            guarded<open_domain_with_flags>};

} // namespace

int open_fabric(Device device, std::uint32_t version, fid_fabric** out, void* context) {
    auto fabric = std::make_unique<Fabric>(std::move(device));
    fabric->fid.fid = {FI_CLASS_FABRIC, context, &fid_ops};
    fabric->fid.ops = &fabric_ops;
    fabric->fid.api_version = version;
    *out = &fabric.release()->fid;
    return 0;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
