#include "srx.hpp"

#include <memory>

#include "domain.hpp"
#include "endpoint.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

int close(fid* fid) {
    Srx* const srx = object_of<Srx>(fid);
    Domain& domain = *srx->domain;
    {
        const Guard guard(*domain.lock); // an endpoint that has left may not be done with it
        if (!srx->endpoints.empty()) {
            return -FI_EBUSY;
        }
    }
    delete srx;
    --domain.references;
    return 0;
}

int control(fid*, int command, void*) {
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

fi_ops fid_ops = operations_of_fid(close, control);

// What is in libfabric's endpoints, and not in a context that only receives.
fi_ops_cm cm_ops = all_unsupported<fi_ops_cm>;
fi_ops_rma rma_ops = all_unsupported<fi_ops_rma>;
fi_ops_atomic atomic_ops = all_unsupported<fi_ops_atomic>;

} // namespace

int open_srx(fid_domain* fid, fi_rx_attr* attr, fid_ep** out, void* context) {
    Domain& domain = *object_of<Domain>(fid);
    auto srx = std::make_unique<Srx>();
    srx->fid.fid = {FI_CLASS_SRX_CTX, context, &fid_ops};
    srx->fid.ops = &endpoint_ops;
    srx->fid.msg = &srx_msg_ops;
    srx->fid.tagged = &srx_tagged_ops;
    srx->fid.cm = &cm_ops;
    srx->fid.rma = &rma_ops;
    srx->fid.atomic = &atomic_ops;
    srx->fid.collective = &endpoint_collective_ops;
    srx->domain = &domain;
    srx->op_flags = attr != nullptr ? attr->op_flags : 0;
    srx->is_directed = attr != nullptr && (attr->caps & FI_DIRECTED_RECV) != 0;
    ++domain.references;
    *out = &srx.release()->fid;
    return 0;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
