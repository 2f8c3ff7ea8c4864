#include "av.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/base/make_room.hpp"
#include "endpoint.hpp"
#include "eq.hpp"
#include "guarded.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

Av& av_of(fid_av* fid) {
    return *object_of<Av>(fid);
}

const comch::Device& core_device(const Av& av) {
    return av.domain->fabric->device;
}

const comch::Domain& core_domain(const Av& av) {
    return *core_device(av).domain();
}

/// An address that was not inserted, and why.
struct Failed {
    std::uint64_t index;
    int error;
};

/// Inserts what `address(i)` gives, and reports as the vector was asked to.
template <class AddressAt>
int insert_all(Av& av, std::size_t count, fi_addr_t* out, std::uint64_t flags, void* context,
               AddressAt&& address) {
    if ((flags & ~(std::uint64_t{FI_MORE} | FI_SYNC_ERR)) != 0) {
        return -FI_EBADFLAGS;
    }
    if (av.asynchronous && av.eq == nullptr) {
        return -FI_ENOEQ;
    }
    int inserted = 0;
    std::vector<Failed> failed;
    if (av.asynchronous) {
        failed.reserve(count);
    }
    {
        const Guard guard(*av.domain->lock);
        auto* const errors = (flags & FI_SYNC_ERR) != 0 ? static_cast<int*>(context) : nullptr;
        for (std::size_t i = 0; i < count; ++i) {
            fi_addr_t at = FI_ADDR_NOTAVAIL;
            int error = FI_EINVAL;
            try {
                if (const std::optional<Address> parsed = address(i)) {
                    at = av.insert(*parsed);
                    error = 0;
                }
            } catch (const std::bad_alloc&) {
                error = FI_ENOMEM;
            }
            if (out != nullptr) {
                out[i] = at;
            }
            if (errors != nullptr) {
                errors[i] = error;
            }
            if (error == 0) {
                ++inserted;
            } else if (av.asynchronous) {
                failed.push_back({i, error});
            }
        }
    }
    if (!av.asynchronous) {
        return inserted;
    }
    const Guard guard(av.eq->waiter.lock());
    for (const auto [index, error] : failed) {
        fi_eq_err_entry failure{};
        failure.fid = &av.fid.fid;
        failure.context = context;
        failure.data = index;
        failure.err = error;
        failure.prov_errno = error;
        av.eq->add_failure(failure);
    }
    av.eq->add(FI_AV_COMPLETE,
               fi_eq_entry{&av.fid.fid, context, static_cast<std::uint64_t>(inserted)});
    return 0;
}

/// How far it is to the next address of an array. What is no address here counts, too: one of another
/// domain is as long as it says.
std::size_t size_of_given(const std::byte* bytes) {
    std::uint16_t family = AF_INET;
    if (bytes != nullptr) {
        std::memcpy(&family, bytes, sizeof(family));
    }
    if (family == AF_INET) {
        return sizeof(sockaddr_in); // and there may be no more
    }
    Address head;
    std::memcpy(static_cast<void*>(&head), bytes, port_address_size);
    return head.magic == address_magic && head.version == 1 && head.named == 1 ? sizeof(Address)
                                                                               : port_address_size;
}

int insert(fid_av* fid, const void* addresses, std::size_t count, fi_addr_t* out,
           std::uint64_t flags, void* context) {
    Av& av = av_of(fid);
    const auto* bytes = static_cast<const std::byte*>(addresses);
    return insert_all(av, count, out, flags, context, [&](std::size_t) {
        const auto address = parse_address(core_device(av), bytes, sizeof(Address));
        bytes += size_of_given(bytes);
        return address && is_chosen(*address) ? address : std::nullopt;
    });
}

int insert_service(fid_av* fid, const char* node, const char* service, fi_addr_t* out,
                   std::uint64_t flags, void* context) {
    Av& av = av_of(fid);
    if (service == nullptr) {
        return -FI_EINVAL;
    }
    return insert_all(av, 1, out, flags, context, [&](std::size_t) -> std::optional<Address> {
        const auto function =
            function_of_node(av.domain->fabric->device, node != nullptr ? node : "");
        return function ? named_address(core_domain(av), *function, service) : std::nullopt;
    });
}

/// Services are numbered: `service` and what follows it, as many as were asked for. There is one
/// node, so nodecnt is 1.
int insert_symmetric(fid_av* fid, const char* node, std::size_t nodes, const char* service,
                     std::size_t services, fi_addr_t* out, std::uint64_t flags, void* context) {
    Av& av = av_of(fid);
    if (service == nullptr || nodes != 1) {
        return -FI_EINVAL;
    }
    char* end = nullptr;
    const unsigned long first = std::strtoul(service, &end, 10);
    if (end == service || *end != '\0') {
        return -FI_EINVAL;
    }
    const auto function = function_of_node(av.domain->fabric->device, node != nullptr ? node : "");
    return insert_all(
        av, services, out, flags, context, [&](std::size_t i) -> std::optional<Address> {
            return function
                       ? named_address(core_domain(av), *function, fmt::format("{}", first + i))
                       : std::nullopt;
        });
}

int remove(fid_av* fid, fi_addr_t* addresses, std::size_t count, std::uint64_t) {
    Av& av = av_of(fid);
    const Guard guard(*av.domain->lock);
    bool all = true;
    for (std::size_t i = 0; i < count; ++i) {
        all = av.remove(addresses[i]) && all;
    }
    return all ? 0 : -FI_EINVAL;
}

int lookup(fid_av* fid, fi_addr_t at, void* to, std::size_t* length) {
    Av& av = av_of(fid);
    const Guard guard(*av.domain->lock);
    const Address* const address = av.find(at);
    if (address == nullptr) {
        return -FI_EINVAL;
    }
    (void)copy_address(*address, to, length); // one that is too long is cut off, which is no error
    return 0;
}

const char* to_text(fid_av* fid, const void* bytes, char* to, std::size_t* length) {
    const auto address = parse_address(core_device(av_of(fid)), bytes, sizeof(Address));
    const std::string text = address ? to_string(*address) : "comch://?";
    if (to != nullptr && *length != 0) {
        const std::size_t size = std::min(text.size(), *length - 1);
        std::memcpy(to, text.data(), size);
        to[size] = '\0';
    }
    *length = text.size() + 1;
    return to;
}

int close(fid* fid) {
    Av* const av = object_of<Av>(fid);
    if (av->references != 0) {
        return -FI_EBUSY;
    }
    if (av->eq != nullptr) {
        --av->eq->references;
    }
    --av->domain->references;
    delete av;
    return 0;
}

int bind(fid* fid, struct fid* other, std::uint64_t) {
    Av& av = *object_of<Av>(fid);
    if (other->fclass != FI_CLASS_EQ || av.eq != nullptr) {
        return -FI_EINVAL;
    }
    av.eq = object_of<Eq>(other);
    ++av.eq->references;
    return 0;
}

fi_ops fid_ops = operations_of_fid(close, unsupported<decltype(fi_ops::control)>, guarded<bind>);
fi_ops_av av_ops = {sizeof(fi_ops_av),
                    guarded<insert>,
                    guarded<insert_service>,
                    guarded<insert_symmetric>,
                    guarded<remove>,
                    lookup,
                    to_text,
                    unsupported<decltype(fi_ops_av::av_set)>};

} // namespace

std::string Av::name_key(FunctionId function, std::string_view name) {
    return fmt::format("{}/{}", function, name);
}

fi_addr_t Av::insert(const Address& address) {
    const bool named = address.named != 0;
    const std::string name =
        named ? name_key(address.function, {address.name, address.name_length}) : std::string();
    const fi_addr_t known = named ? lookup(name) : lookup(port_of(address));
    if (known != FI_ADDR_NOTAVAIL) {
        ++entries_[known].uses;
        return known;
    }
    const bool is_used_again = !free_.empty();
    if (!is_used_again) {
        make_room(entries_);
    }
    const fi_addr_t at = is_used_again ? *free_.begin() : entries_.size();
    if (named) { // what may fail comes before what cannot be taken back
        by_name_.emplace(name, at);
    } else {
        by_port_.emplace(port_of(address), at);
    }
    if (is_used_again) {
        free_.erase(free_.begin());
        entries_[at] = {address, 1};
    } else {
        entries_.push_back({address, 1});
    }
    ++version_;
    return at;
}

bool Av::remove(fi_addr_t at) {
    if (find(at) == nullptr) {
        return false;
    }
    if (entries_[at].uses == 1) {
        free_.insert(at); // which may fail
    }
    if (--entries_[at].uses != 0) {
        return true;
    }
    ++version_;
    std::erase_if(by_port_, [&](const auto& entry) { return entry.second == at; });
    std::erase_if(by_name_, [&](const auto& entry) { return entry.second == at; });
    for (Endpoint* const endpoint : endpoints) {
        endpoint->forget_address(at);
    }
    return true;
}

int open_av(fid_domain* fid, fi_av_attr* attr, fid_av** out, void* context) {
    Domain& domain = *object_of<Domain>(fid);
    const fi_av_attr given = attr != nullptr ? *attr : fi_av_attr{};
    // (Without a name, map_addr means nothing.)
    if (given.name != nullptr || given.rx_ctx_bits != 0) {
        return -FI_ENOSYS;
    }
    if ((given.flags & ~(std::uint64_t{FI_EVENT} | FI_SYMMETRIC)) != 0) {
        return -FI_EBADFLAGS;
    }
    auto av = std::make_unique<Av>();
    av->fid.fid = {FI_CLASS_AV, context, &fid_ops};
    av->fid.ops = &av_ops;
    av->domain = &domain;
    av->asynchronous = (given.flags & FI_EVENT) != 0;
    ++domain.references;
    if (attr != nullptr && attr->type == FI_AV_UNSPEC) {
        attr->type = FI_AV_TABLE;
    }
    *out = &av.release()->fid;
    return 0;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
