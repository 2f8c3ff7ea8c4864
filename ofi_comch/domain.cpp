#include "domain.hpp"

#include <algorithm>
#include <memory>
#include <system_error>

#include "atomic_ops.hpp"
#include "av.hpp"
#include "cntr.hpp"
#include "core/base/make_room.hpp"
#include "cq.hpp"
#include "endpoint.hpp"
#include "eq.hpp"
#include "guarded.hpp"
#include "poll_set.hpp"
#include "progress_thread.hpp"
#include "provider.hpp"
#include "srx.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

int close(fid* fid) {
    Domain* const domain = object_of<Domain>(fid);
    if (domain->references != 0) {
        return -FI_EBUSY;
    }
    if (domain->eq != nullptr) {
        --domain->eq->references;
    }
    --domain->fabric->references;
    delete domain;
    return 0;
}

/// An event queue for endpoints that are bound to none. Registrations are done when the call
/// returns.
int bind(fid* fid, struct fid* other, std::uint64_t flags) {
    Domain& domain = *object_of<Domain>(fid);
    if (flags != 0) {
        return -FI_EBADFLAGS;
    }
    if (other->fclass != FI_CLASS_EQ || domain.eq != nullptr) {
        return -FI_EINVAL;
    }
    domain.eq = object_of<Eq>(other);
    ++domain.eq->references;
    return 0;
}

/// A raw key is the key itself.
int control(fid* fid, int command, void* argument) {
    if (fid->fclass != FI_CLASS_DOMAIN) {
        return -FI_EINVAL;
    }
    switch (command) {
    case FI_MAP_RAW_MR: {
        auto& raw = *static_cast<struct fi_mr_map_raw*>(argument);
        if (raw.key_size != sizeof(*raw.key)) {
            return -FI_EINVAL;
        }
        std::copy_n(raw.raw_key, sizeof(*raw.key), reinterpret_cast<std::uint8_t*>(raw.key));
        return 0;
    }
    case FI_UNMAP_KEY:
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

int open_endpoint_with_flags(fid_domain* domain, fi_info* info, fid_ep** endpoint,
                             std::uint64_t flags, void* context) {
    return flags == 0 ? open_endpoint(domain, info, endpoint, context) : -FI_EBADFLAGS;
}

int query_atomic(fid_domain*, fi_datatype datatype, fi_op op, fi_atomic_attr* attr,
                 std::uint64_t flags) {
    const AtomicCall call = (flags & FI_FETCH_ATOMIC) != 0     ? AtomicCall::fetch
                            : (flags & FI_COMPARE_ATOMIC) != 0 ? AtomicCall::compare
                                                               : AtomicCall::plain;
    if ((flags & FI_FETCH_ATOMIC) != 0 && (flags & FI_COMPARE_ATOMIC) != 0) {
        return -FI_EINVAL;
    }
    if ((flags & FI_TAGGED) != 0) {
        return -FI_EOPNOTSUPP;
    }
    if (!atomic_is_valid(datatype, op, call)) {
        return -FI_EOPNOTSUPP;
    }
    attr->size = datatype_size(datatype);
    attr->count = max_atomic_bytes / attr->size;
    return 0;
}

fi_ops fid_ops = operations_of_fid(close, control, guarded<bind>);

fi_ops_domain domain_ops = {sizeof(fi_ops_domain),
                            guarded<open_av>,
                            guarded<open_cq>,
                            guarded<open_endpoint>,
                            unsupported<decltype(fi_ops_domain::scalable_ep)>,
                            guarded<open_cntr>,
                            guarded<open_poll_set>,
                            unsupported<decltype(fi_ops_domain::stx_ctx)>,
                            guarded<open_srx>,
                            query_atomic,
                            unsupported<decltype(fi_ops_domain::query_collective)>,
                            guarded<open_endpoint_with_flags>};

bool wants_progress_thread(const fi_domain_attr& attr) {
    return attr.data_progress == FI_PROGRESS_AUTO || attr.control_progress == FI_PROGRESS_AUTO;
}

/// All that shares a lock shares the thread.
bool start_progress_thread(Domain& domain, fi_ep_type type) {
    const bool datagrams = type == FI_EP_RDM;
    // (Domains of one fabric may be opened by several threads.)
    const Guard guard(*domain.fabric->lock);
    if (!datagrams) {
        domain.progress_thread = domain.fabric->progress_thread.lock();
    }
    if (domain.progress_thread != nullptr) {
        return true;
    }
    try {
        domain.progress_thread = std::make_shared<ProgressThread>(domain.lock);
    } catch (const std::system_error& error) {
        FI_WARN(&provider, FI_LOG_DOMAIN, "cannot start a thread for automatic progress: %s\n",
                error.what());
        return false;
    }
    if (!datagrams) {
        domain.fabric->progress_thread = domain.progress_thread;
    }
    return true;
}

/// As FI_COMCH_KEEP_REGISTRATIONS asks for. What cannot be had is no error, and said if it was asked
/// for: messages go all the same.
void keep_registrations(Domain& domain, Keep what) {
    auto kept = std::make_unique<KeptRegistrations>();
    const char* const missing =
        !KeptRegistrations::may_pin_much() ? "it takes an unlimited RLIMIT_MEMLOCK (ulimit -l)"
        : kept->watch_by_kernel()          ? nullptr
        : what == Keep::own || !kept->watch_by_hooks()
            ? "the kernel does not tell of memory that is unmapped (userfaultfd with write "
              "protection, x86-64 from 5.18 on, aarch64 from 6.10 on, not forbidden by the "
              "container), and UCX's memory hooks (libucs.so.0, libucm.so.0) were not asked for, "
              "are "
              "not installed, or do not work"
            : nullptr;
    if (missing == nullptr) {
        domain.kept = std::move(kept);
    } else if (what != Keep::own) {
        FI_WARN(&provider, FI_LOG_DOMAIN,
                "FI_COMCH_KEEP_REGISTRATIONS: registrations are not kept, %s\n", missing);
    } else {
        FI_INFO(&provider, FI_LOG_DOMAIN, "registrations are not kept, %s\n", missing);
    }
}

} // namespace

void Domain::add_memory_counter(Cntr& cntr) {
    make_room(memory_counters);
    cntr.waiter.make_room(enabled_endpoints.size());
    memory_counters.push_back(&cntr);
    ++cntr.references;
    for (Endpoint* const endpoint : enabled_endpoints) {
        cntr.waiter.add(endpoint->station);
    }
}

void Domain::remove_memory_counter(Cntr& cntr) {
    memory_counters.erase(std::find(memory_counters.begin(), memory_counters.end(), &cntr));
    --cntr.references;
    for (Endpoint* const endpoint : enabled_endpoints) {
        cntr.waiter.remove(*endpoint->station);
    }
}

void Domain::add_enabled(Endpoint& endpoint) {
    make_room(enabled_endpoints);
    for (Cntr* const cntr : memory_counters) {
        cntr->waiter.make_room(1);
    }
    enabled_endpoints.push_back(&endpoint);
    for (Cntr* const cntr : memory_counters) {
        cntr->waiter.add(endpoint.station);
    }
}

void Domain::remove_enabled(Endpoint& endpoint) {
    std::erase(enabled_endpoints, &endpoint);
    for (Cntr* const cntr : memory_counters) {
        cntr->waiter.remove(*endpoint.station);
    }
}

int open_domain(fid_fabric* fabric_fid, fi_info* info, fid_domain** out, void* context) {
    Fabric& fabric = *object_of<Fabric>(fabric_fid);
    if (info == nullptr || info->domain_attr == nullptr || info->ep_attr == nullptr) {
        return -FI_EINVAL;
    }
    auto domain = std::make_unique<Domain>();
    domain->fid.fid = {FI_CLASS_DOMAIN, context, &fid_ops};
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &mr_ops;
    domain->fabric = &fabric;
    const int mode = info->domain_attr->mr_mode;
    domain->virtual_addresses = mode == mr_basic || (mode & FI_MR_VIRT_ADDR) != 0;
    domain->own_keys = mode == mr_basic || (mode & FI_MR_PROV_KEY) != 0;
    domain->pages_stay = mode == mr_basic || (mode & FI_MR_ALLOCATED) != 0;
    // Connections are made, and accepted ones progressed, on the fabric's objects as well, so
    // connected endpoints share its lock.
    domain->lock = fabric.lock;
    const bool automatic = wants_progress_thread(*info->domain_attr);
    if (info->ep_attr->type == FI_EP_RDM) {
        domain->lock = std::make_shared<Lock>();
        if (info->domain_attr->threading == FI_THREAD_DOMAIN && !automatic) {
            domain->lock->leave_out();
        }
    }
    // (Connected endpoints are closed before their last writes have gone out, and a registration
    // may end right after.)
    if (const Keep what = settings().keep_registrations;
        Link::has_devices && what != Keep::none && info->ep_attr->type == FI_EP_RDM) {
        keep_registrations(*domain, what);
    }
    if (automatic && !start_progress_thread(*domain, info->ep_attr->type)) {
        return -FI_EAGAIN;
    }
    ++fabric.references;
    *out = &domain.release()->fid;
    return 0;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
