#include "eq.hpp"

#include <algorithm>
#include <cstring>

#include "guarded.hpp"
#include "status.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

ssize_t read(fid_eq* fid, std::uint32_t* event, void* to, std::size_t length, std::uint64_t flags) {
    Eq& eq = *object_of<Eq>(fid);
    const Guard guard(eq.waiter.lock());
    (void)eq.waiter.progress();
    return eq.take(event, to, length, (flags & FI_PEEK) != 0);
}

ssize_t read_error(fid_eq* fid, fi_eq_err_entry* entry, std::uint64_t flags) {
    Eq& eq = *object_of<Eq>(fid);
    const Guard guard(eq.waiter.lock());
    return eq.take_failure(entry, (flags & FI_PEEK) != 0);
}

ssize_t write(fid_eq* fid, std::uint32_t event, const void* entry, std::size_t length,
              std::uint64_t) {
    Eq& eq = *object_of<Eq>(fid);
    const Guard guard(eq.waiter.lock());
    if (eq.is_overrun()) {
        return -FI_EOVERRUN;
    }
    eq.add_bytes(event, {static_cast<const std::byte*>(entry), length}, {});
    return static_cast<ssize_t>(length);
}

ssize_t sleep_and_read(fid_eq* fid, std::uint32_t* event, void* to, std::size_t length, int timeout,
                       std::uint64_t flags) {
    Eq& eq = *object_of<Eq>(fid);
    if (eq.wait_object == FI_WAIT_NONE) {
        return -FI_ENOSYS;
    }
    ssize_t result = -FI_EAGAIN;
    (void)wait_until(eq.waiter, timeout, [&] {
        result = eq.take(event, to, length, (flags & FI_PEEK) != 0);
        return result != -FI_EAGAIN;
    });
    return result;
}

const char* describe(fid_eq*, int provider_errno, const void*, char* to, std::size_t length) {
    return error_text(provider_errno, to, length);
}

fi_ops fid_ops = operations_of_fid(close_waiting<Eq, &Eq::fabric>, control_waiting<Eq>);
fi_ops_eq eq_ops = {sizeof(fi_ops_eq), guarded<read>,           guarded<read_error>,
                    guarded<write>,    guarded<sleep_and_read>, describe};

} // namespace

void Eq::add_bytes(std::uint32_t event, std::span<const std::byte> entry,
                   std::span<const std::byte> data) {
    Event added;
    added.event = event;
    added.bytes.assign(entry.begin(), entry.end());
    added.bytes.insert(added.bytes.end(), data.begin(), data.end());
    events_.push_back(std::move(added));
    waiter.notify();
}

void Eq::add_failure(const fi_eq_err_entry& failure, std::span<const std::byte> data) {
    or_overrun([&] {
        Event added;
        added.failed = true;
        added.failure = failure;
        added.bytes.assign(data.begin(), data.end());
        events_.push_back(std::move(added));
        waiter.notify();
    });
}

bool Eq::has_request(const struct fid& handle) const {
    return std::any_of(events_.begin(), events_.end(), [&](const Event& event) {
        if (event.failed || event.event != FI_CONNREQ) {
            return false;
        }
        fi_eq_cm_entry entry{};
        std::memcpy(&entry, event.bytes.data(), sizeof(entry));
        return entry.info->handle == &handle;
    });
}

void Eq::forget(const struct fid* about) {
    std::erase_if(events_, [&](const Event& event) {
        // Every entry begins with the fid that it is about.
        struct fid* subject = event.failure.fid;
        if (!event.failed && event.bytes.size() >= sizeof(subject)) {
            std::memcpy(&subject, event.bytes.data(), sizeof(subject));
        }
        if (subject != about) {
            return false;
        }
        if (event.event == FI_CONNREQ && !event.failed) { // nobody will free what it offers
            fi_eq_cm_entry entry{};
            std::memcpy(&entry, event.bytes.data(), sizeof(entry));
            fi_freeinfo(entry.info);
        }
        return true;
    });
}

ssize_t Eq::take(std::uint32_t* event, void* to, std::size_t length, bool peek) {
    if (events_.empty()) {
        return overrun_ ? -FI_EAVAIL : -FI_EAGAIN;
    }
    const Event& first = events_.front();
    if (first.failed) {
        return -FI_EAVAIL;
    }
    const std::size_t needed =
        first.event == FI_CONNREQ || first.event == FI_CONNECTED || first.event == FI_SHUTDOWN
            ? sizeof(fi_eq_cm_entry)
            : first.bytes.size();
    if (length < needed) {
        return -FI_ETOOSMALL;
    }
    const std::size_t size = std::min(length, first.bytes.size());
    std::memcpy(to, first.bytes.data(), size);
    *event = first.event;
    if (!peek) {
        events_.pop_front();
    }
    return static_cast<ssize_t>(size);
}

ssize_t Eq::take_failure(fi_eq_err_entry* to, bool peek) {
    if (events_.empty() && overrun_) {
        *to = fi_eq_err_entry{};
        to->fid = &fid.fid;
        to->context = fid.fid.context;
        to->err = FI_EOVERRUN;
        to->prov_errno = FI_ENOMEM;
        return sizeof(fi_eq_err_entry);
    }
    if (events_.empty() || !events_.front().failed) {
        return -FI_EAGAIN;
    }
    Event& first = events_.front();
    void* const room = to->err_data;
    const std::size_t room_size = to->err_data_size;
    error_data_ = first.bytes;
    *to = first.failure;
    // A program that gives room wants a copy; any other gets ours, valid until its next read.
    to->err_data = error_data_.empty() ? nullptr : error_data_.data();
    to->err_data_size = error_data_.size();
    // (Older programs do not know that they could, and set neither.)
    if (FI_VERSION_GE(fabric->fid.api_version, FI_VERSION(1, 5)) && room != nullptr &&
        room_size != 0) {
        to->err_data_size = std::min(room_size, error_data_.size());
        std::memcpy(room, error_data_.data(), to->err_data_size);
        to->err_data = room;
    }
    if (!peek) {
        events_.pop_front();
    }
    return sizeof(fi_eq_err_entry);
}

int open_eq(fid_fabric* fid, fi_eq_attr* attr, fid_eq** out, void* context) {
    Fabric& fabric = *object_of<Fabric>(fid);
    const fi_eq_attr given = attr != nullptr ? *attr : fi_eq_attr{};
    if ((given.flags & ~(FI_WRITE | FI_AFFINITY)) != 0) {
        return -FI_EINVAL;
    }
    if (const int error = check_wait_object(given.wait_obj); error != 0) {
        return error;
    }
    auto eq = std::make_unique<Eq>(fabric.lock);
    eq->fid.fid = {FI_CLASS_EQ, context, &fid_ops};
    eq->fid.ops = &eq_ops;
    eq->fabric = &fabric;
    eq->wait_object = given.wait_obj;
    ++fabric.references;
    *out = &eq.release()->fid;
    return 0;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
