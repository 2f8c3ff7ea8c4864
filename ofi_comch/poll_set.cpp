#include "poll_set.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cntr.hpp"
#include "cq.hpp"
#include "domain.hpp"
#include "guarded.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

struct PollSet {
    fid_poll fid{};
    Domain* domain = nullptr;
    std::mutex mutex;
    struct Member {
        struct fid* fid;
        std::uint64_t value; ///< of a counter, when it was last reported
        std::uint64_t errors;
    };
    std::vector<Member> members;
    std::size_t next = 0; ///< the first that the last poll had no room for
};

void progress(const PollSet::Member& member) {
    if (member.fid->fclass == FI_CLASS_CQ) {
        Cq& cq = *object_of<Cq>(member.fid);
        const Guard guard(cq.waiter.lock());
        if (cq.size() == 0) {
            (void)cq.waiter.progress();
        }
        return;
    }
    Cntr& cntr = *object_of<Cntr>(member.fid);
    const Guard guard(cntr.waiter.lock());
    (void)cntr.waiter.progress();
}

/// Has the member something that its owner does not know yet?
bool has_news(PollSet::Member& member) {
    if (member.fid->fclass == FI_CLASS_CQ) {
        Cq& cq = *object_of<Cq>(member.fid);
        const Guard guard(cq.waiter.lock());
        return cq.size() != 0 || cq.has_failure();
    }
    Cntr& cntr = *object_of<Cntr>(member.fid);
    const Guard guard(cntr.waiter.lock());
    const bool news = cntr.value != member.value || cntr.errors != member.errors;
    member.value = cntr.value;
    member.errors = cntr.errors;
    return news;
}

int poll(fid_poll* fid, void** contexts, int count) {
    PollSet& set = *object_of<PollSet>(fid);
    const std::lock_guard guard(set.mutex);
    std::for_each(set.members.begin(), set.members.end(), progress);
    const std::size_t members = set.members.size();
    const std::size_t begin = set.next;
    set.next = 0;
    int found = 0;
    for (std::size_t i = 0; i < members; ++i) {
        const std::size_t place = (begin + i) % members;
        if (found == count) {
            set.next = place; // their turn comes first
            break;
        }
        if (has_news(set.members[place])) {
            contexts[found++] = set.members[place].fid->context;
        }
    }
    return found;
}

std::atomic<unsigned>& references(fid* fid) {
    return fid->fclass == FI_CLASS_CQ ? object_of<Cq>(fid)->references
                                      : object_of<Cntr>(fid)->references;
}

int add(fid_poll* fid, struct fid* member, std::uint64_t) {
    PollSet& set = *object_of<PollSet>(fid);
    if (member->fclass != FI_CLASS_CQ && member->fclass != FI_CLASS_CNTR) {
        return -FI_EINVAL;
    }
    const std::lock_guard guard(set.mutex);
    set.members.push_back({member, 0, 0});
    ++references(member);
    return 0;
}

int remove(fid_poll* fid, struct fid* member, std::uint64_t) {
    PollSet& set = *object_of<PollSet>(fid);
    const std::lock_guard guard(set.mutex);
    const auto found = std::find_if(set.members.begin(), set.members.end(),
                                    [&](const auto& other) { return other.fid == member; });
    if (found == set.members.end()) {
        return -FI_EINVAL;
    }
    set.members.erase(found);
    --references(member);
    return 0;
}

int close(fid* fid) {
    PollSet* const set = object_of<PollSet>(fid);
    for (const PollSet::Member& member : set->members) {
        --references(member.fid);
    }
    --set->domain->references;
    delete set;
    return 0;
}

fi_ops fid_ops = operations_of_fid(close);
fi_ops_poll poll_ops = {sizeof(fi_ops_poll), guarded<poll>, guarded<add>, remove};

} // namespace

int open_poll_set(fid_domain* fid, fi_poll_attr* attr, fid_poll** out) {
    Domain& domain = *object_of<Domain>(fid);
    if (attr != nullptr && attr->flags != 0) {
        return -FI_EBADFLAGS;
    }
    auto set = std::make_unique<PollSet>();
    set->fid.fid = {FI_CLASS_POLL, nullptr, &fid_ops};
    set->fid.ops = &poll_ops;
    set->domain = &domain;
    ++domain.references;
    *out = &set.release()->fid;
    return 0;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
