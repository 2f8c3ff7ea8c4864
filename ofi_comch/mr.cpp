#include <algorithm>
#include <memory>
#include <utility>

#include "cntr.hpp"
#include "domain.hpp"
#include "guarded.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

int close(fid* fid) {
    Mr* const mr = object_of<Mr>(fid);
    Domain& domain = *mr->domain;
    {
        const Guard guard(*domain.lock);
        if (mr->users != 0) {
            return -FI_EBUSY;
        }
        domain.regions.erase(mr->fid.key);
        const auto [first, last] = domain.regions_by_base.equal_range(mr->base);
        domain.regions_by_base.erase(
            std::find_if(first, last, [&](const auto& entry) { return entry.second == mr; }));
        if (mr->region != 0) {
            RegionTable::instance().remove(mr->region);
        }
        for (Cntr* const cntr : {mr->remote_write, mr->remote_read}) {
            if (cntr != nullptr) {
                domain.remove_memory_counter(*cntr);
            }
        }
    }
    --domain.references;
    delete mr;
    return 0;
}

int bind(fid* fid, struct fid* other, std::uint64_t flags) {
    Mr& mr = *object_of<Mr>(fid);
    if (other->fclass == FI_CLASS_EP) {
        return 0; // every endpoint of the domain reaches it
    }
    if (other->fclass != FI_CLASS_CNTR ||
        (flags & ~(std::uint64_t{FI_REMOTE_WRITE} | FI_REMOTE_READ)) != 0) {
        return -FI_EINVAL;
    }
    Cntr* const cntr = object_of<Cntr>(other);
    const Guard guard(*mr.domain->lock);
    if (mr.told) {
        return -FI_EOPNOTSUPP; // peers' devices do not count: it is registered without FI_RMA_EVENT
    }
    const std::pair<std::uint64_t, Cntr**> places[] = {{FI_REMOTE_WRITE, &mr.remote_write},
                                                       {FI_REMOTE_READ, &mr.remote_read}};
    for (const auto& [flag, place] : places) {
        if ((flags & flag) != 0 && *place != nullptr) {
            return -FI_EINVAL; // it has one
        }
    }
    for (const auto& [flag, place] : places) {
        if ((flags & flag) != 0) {
            mr.domain->add_memory_counter(*cntr);
            *place = cntr;
        }
    }
    return 0;
}

int control(fid* fid, int command, void* argument) {
    Mr& mr = *object_of<Mr>(fid);
    switch (command) {
    case FI_ENABLE:
        return 0;
    case FI_GET_RAW_MR: {
        auto& raw = *static_cast<struct fi_mr_raw_attr*>(argument);
        const std::size_t room = raw.key_size != nullptr ? *raw.key_size : 0;
        if (raw.key_size != nullptr) {
            *raw.key_size = sizeof(mr.fid.key);
        }
        if (room < sizeof(mr.fid.key) || raw.raw_key == nullptr) {
            return -FI_ETOOSMALL;
        }
        std::copy_n(reinterpret_cast<const std::uint8_t*>(&mr.fid.key), sizeof(mr.fid.key),
                    raw.raw_key);
        if (raw.base_addr != nullptr) {
            *raw.base_addr =
                mr.domain->virtual_addresses ? reinterpret_cast<std::uint64_t>(mr.base) : 0;
        }
        return 0;
    }
    default:
        return -FI_ENOSYS;
    }
}

fi_ops fid_ops = operations_of_fid(close, control, guarded<bind>);

int register_attr(fid* fid, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** out) {
    if (fid->fclass != FI_CLASS_DOMAIN || attr == nullptr || attr->iov_count != 1 ||
        attr->mr_iov == nullptr) {
        return -FI_EINVAL;
    }
    if (attr->offset != 0 || (flags & ~std::uint64_t{FI_RMA_EVENT}) != 0) {
        return attr->offset != 0 ? -FI_EINVAL : -FI_EBADFLAGS;
    }
    Domain& domain = *object_of<Domain>(fid);
    auto mr = std::make_unique<Mr>();
    mr->fid.fid = {FI_CLASS_MR, attr->context, &fid_ops};
    mr->domain = &domain;
    mr->base = static_cast<std::byte*>(attr->mr_iov->iov_base);
    mr->length = attr->mr_iov->iov_len;
    mr->access = attr->access;
    mr->flags = flags;
    const Guard guard(*domain.lock);
    mr->fid.key = attr->requested_key;
    if (domain.own_keys) {
        mr->fid.key = domain.next_key++;
    }
    mr->fid.mem_desc = nullptr;
    const auto by_base = domain.regions_by_base.emplace(mr->base, mr.get());
    try {
        if (!domain.regions.emplace(mr->fid.key, mr.get()).second) {
            domain.regions_by_base.erase(by_base);
            return -FI_ENOKEY;
        }
    } catch (...) {
        domain.regions_by_base.erase(by_base);
        throw;
    }
    ++domain.references;
    *out = &mr.release()->fid;
    return 0;
}

int register_vector(fid* fid, const iovec* iov, std::size_t count, std::uint64_t access,
                    std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr** mr,
                    void* context) {
    fi_mr_attr attr{};
    attr.mr_iov = iov;
    attr.iov_count = count;
    attr.access = access;
    attr.offset = offset;
    attr.requested_key = key;
    attr.context = context;
    return register_attr(fid, &attr, flags, mr);
}

int register_range(fid* fid, const void* base, std::size_t length, std::uint64_t access,
                   std::uint64_t offset, std::uint64_t key, std::uint64_t flags, fid_mr** mr,
                   void* context) {
    const iovec range{const_cast<void*>(base), length};
    return register_vector(fid, &range, 1, access, offset, key, flags, mr, context);
}

} // namespace

fi_ops_mr mr_ops = {sizeof(fi_ops_mr), guarded<register_range>, guarded<register_vector>,
                    guarded<register_attr>};

} // namespace comch::ofi::inline COMCH_OFI_LINK
