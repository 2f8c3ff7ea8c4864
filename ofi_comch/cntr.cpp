#include "cntr.hpp"

#include <algorithm>

#include "domain.hpp"
#include "guarded.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

/// These calls have no error to answer: without memory, the next one goes on.
void progress(Cntr& cntr) try { (void)cntr.waiter.progress(); } catch (const std::bad_alloc&) {
}

std::uint64_t read(fid_cntr* fid) {
    Cntr& cntr = *object_of<Cntr>(fid);
    return read_or_yield(cntr.waiter, [&] {
        progress(cntr);
        cntr.known_value.read(cntr.value);
        return cntr.value;
    });
}

std::uint64_t read_errors(fid_cntr* fid) {
    Cntr& cntr = *object_of<Cntr>(fid);
    const Guard guard(cntr.waiter.lock());
    progress(cntr);
    cntr.tell_errors();
    return cntr.errors;
}

template <class Change> int change(fid_cntr* fid, Change&& apply) {
    Cntr& cntr = *object_of<Cntr>(fid);
    const Guard guard(cntr.waiter.lock());
    apply(cntr);
    cntr.waiter.notify();
    return 0;
}

int add(fid_cntr* fid, std::uint64_t value) {
    return change(fid, [&](Cntr& cntr) { cntr.value += value; });
}
int set(fid_cntr* fid, std::uint64_t value) {
    return change(fid, [&](Cntr& cntr) { cntr.value = value; });
}
int add_errors(fid_cntr* fid, std::uint64_t value) {
    return change(fid, [&](Cntr& cntr) { cntr.errors += value; });
}
int set_errors(fid_cntr* fid, std::uint64_t value) {
    return change(fid, [&](Cntr& cntr) { cntr.errors = cntr.told_errors = value; });
}

int wait(fid_cntr* fid, std::uint64_t threshold, int timeout) {
    Cntr& cntr = *object_of<Cntr>(fid);
    std::uint64_t told = 0; // once: what ends one thread's wait ends all that wait
    {
        const Guard guard(cntr.waiter.lock());
        told = cntr.told_errors;
    }
    int result = -FI_ETIMEDOUT;
    const int ended = wait_until(cntr.waiter, timeout, [&] {
        if (cntr.value >= threshold) {
            result = 0;
            cntr.known_value.read(cntr.value);
        } else if (cntr.errors != told) {
            result = -FI_EAVAIL;
            cntr.tell_errors();
        }
        return result != -FI_ETIMEDOUT;
    });
    return ended == -FI_EINTR ? ended : result;
}

fi_ops fid_ops = operations_of_fid(close_waiting<Cntr, &Cntr::domain>, control_waiting<Cntr>);
fi_ops_cntr cntr_ops = {sizeof(fi_ops_cntr), read,       read_errors, add, set,
                        guarded<wait>,       add_errors, set_errors};

} // namespace

bool Cntr::Known::is_news(std::uint64_t now) {
    const std::thread::id self = std::this_thread::get_id();
    if (now != count) {
        read(now);
        return true;
    }
    if (first == std::thread::id() || first == self ||
        std::find(others.begin(), others.end(), self) != others.end()) {
        return false;
    }
    others.push_back(self);
    return true;
}

int open_cntr(fid_domain* fid, fi_cntr_attr* attr, fid_cntr** out, void* context) {
    Domain& domain = *object_of<Domain>(fid);
    const fi_cntr_attr given = attr != nullptr ? *attr : fi_cntr_attr{};
    if (given.events != FI_CNTR_EVENTS_COMP) {
        return -FI_ENOSYS;
    }
    if (given.flags != 0) {
        return -FI_EINVAL; // none is defined
    }
    if (const int error = check_wait_object(given.wait_obj); error != 0) {
        return error;
    }
    auto cntr = std::make_unique<Cntr>(domain.lock);
    cntr->fid.fid = {FI_CLASS_CNTR, context, &fid_ops};
    cntr->fid.ops = &cntr_ops;
    cntr->domain = &domain;
    cntr->wait_object = given.wait_obj;
    ++domain.references;
    *out = &cntr.release()->fid;
    return 0;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
