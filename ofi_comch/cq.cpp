#include "cq.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "core/base/make_room.hpp"
#include "domain.hpp"
#include "endpoint.hpp"
#include "guarded.hpp"
#include "status.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {
namespace {

// Each format is the beginning of the next longer one, so a completion is copied up to its length.
static_assert(offsetof(fi_cq_tagged_entry, len) == offsetof(fi_cq_msg_entry, len) &&
              offsetof(fi_cq_tagged_entry, buf) == offsetof(fi_cq_data_entry, buf) &&
              offsetof(fi_cq_tagged_entry, data) == offsetof(fi_cq_data_entry, data) &&
              offsetof(fi_cq_tagged_entry, flags) == offsetof(fi_cq_msg_entry, flags));

/// How much of an error entry a program has that was written for this version of libfabric.
std::size_t error_size(std::uint32_t version) {
    if (FI_VERSION_GE(version, FI_VERSION(1, 20))) {
        return sizeof(fi_cq_err_entry); // that of the version this is built for: none is newer
    }
    constexpr std::size_t first = offsetof(fi_cq_err_entry, err_data_size);
    return FI_VERSION_GE(version, FI_VERSION(1, 5)) ? first + sizeof(std::size_t) : first;
}

ssize_t read_from(fid_cq* fid, void* to, std::size_t count, fi_addr_t* sources) {
    Cq& cq = *object_of<Cq>(fid);
    return read_or_yield(cq.waiter, [&] {
        if (cq.size() < count || count == 0) {
            (void)cq.waiter.progress();
        }
        return cq.is_idle() ? -FI_EAGAIN : cq.take(to, count, sources);
    });
}

ssize_t read(fid_cq* fid, void* to, std::size_t count) {
    Cq& cq = *object_of<Cq>(fid);
    if (cq.format != FI_CQ_FORMAT_TAGGED) {
        return read_from(fid, to, count, nullptr);
    }
    return read_or_yield(cq.waiter,
                         [&] { return cq.read(static_cast<fi_cq_tagged_entry*>(to), count); });
}

ssize_t read_error(fid_cq* fid, fi_cq_err_entry* entry, std::uint64_t) {
    Cq& cq = *object_of<Cq>(fid);
    const Guard guard(cq.waiter.lock());
    return cq.take_failure(entry);
}

ssize_t sleep_and_read_from(fid_cq* fid, void* to, std::size_t count, fi_addr_t* sources,
                            const void* condition, int timeout) {
    Cq& cq = *object_of<Cq>(fid);
    if (cq.wait_object == FI_WAIT_NONE) {
        return -FI_ENOSYS;
    }
    std::size_t threshold = 1;
    if (cq.wait_condition == FI_CQ_COND_THRESHOLD && condition != nullptr) {
        threshold = std::clamp<std::size_t>(reinterpret_cast<std::size_t>(condition), 1,
                                            std::max<std::size_t>(count, 1));
    }
    ssize_t result = -FI_EAGAIN;
    (void)wait_until(cq.waiter, timeout, [&] {
        if (cq.size() < threshold && !cq.has_failure()) {
            return false;
        }
        result = cq.take(to, count, sources);
        return result != -FI_EAGAIN;
    });
    if (result == -FI_EAGAIN && threshold > 1) {
        const Guard guard(cq.waiter.lock());
        result = cq.take(to, count, sources);
    }
    return result;
}

ssize_t sleep_and_read(fid_cq* fid, void* to, std::size_t count, const void* condition,
                       int timeout) {
    return sleep_and_read_from(fid, to, count, nullptr, condition, timeout);
}

int signal(fid_cq* fid) {
    Cq& cq = *object_of<Cq>(fid);
    const Guard guard(cq.waiter.lock());
    cq.waiter.signal();
    return 0;
}

const char* describe(fid_cq*, int provider_errno, const void*, char* to, std::size_t length) {
    return error_text(provider_errno, to, length);
}

fi_ops fid_ops = operations_of_fid(close_waiting<Cq, &Cq::domain>, control_waiting<Cq>);
fi_ops_cq cq_ops = {sizeof(fi_ops_cq),
                    guarded<read>,
                    guarded<read_from>,
                    read_error,
                    guarded<sleep_and_read>,
                    guarded<sleep_and_read_from>,
                    signal,
                    describe};

} // namespace

Cq::Cq(std::shared_ptr<Lock> lock) : waiter(std::move(lock)) {}

Cq::~Cq() = default;

void Cq::make_room_to_keep() {
    make_room(kept_);
}

void Cq::keep(std::unique_ptr<Endpoint> closed) {
    kept_.push_back({taken_ + count_, std::move(closed)});
}

void Cq::drop_kept() {
    std::erase_if(kept_, [&](const Kept& kept) { return kept.until <= taken_; });
}

bool Cq::grow() {
    if (overrun_) {
        return false;
    }
    try {
        reserve(ring_.size() * 2);
    } catch (const std::bad_alloc&) {
        overrun();
        return false;
    }
    return true;
}

void Cq::overrun() {
    if (!std::exchange(overrun_, true)) {
        last_ = taken_ + count_;
    }
    waiter.notify();
}

void Cq::reserve(std::size_t size) {
    std::vector<Entry> larger(std::bit_ceil(std::max<std::size_t>(size, ring_.size())));
    for (std::size_t i = 0; i < count_; ++i) {
        larger[i] = ring_[(head_ + i) & mask_];
    }
    ring_ = std::move(larger);
    mask_ = ring_.size() - 1;
    head_ = 0;
}

void Cq::add_failure(const Failure& failure) {
    reader_room_ = 0; // what comes after it waits behind it
    if (count_ > mask_ && !grow()) {
        return;
    }
    try {
        failures_.push_back(failure);
    } catch (const std::bad_alloc&) {
        overrun();
        return;
    }
    add({}, failure.source);
    ring_[(head_ + count_ - 1) & mask_].failed = true;
}

ssize_t Cq::read_more(fi_cq_tagged_entry* to, std::size_t count) {
    if (count == 0 || has_failure()) { // without entries, it is a program's way to progress
        (void)waiter.progress();
        return is_idle() ? -FI_EAGAIN : take(to, count, nullptr);
    }
    const ssize_t taken = std::max<ssize_t>(take(to, count, nullptr), 0);
    const std::size_t room = count - static_cast<std::size_t>(taken);
    if (room == 0) {
        return taken;
    }
    ssize_t more = -FI_EAGAIN;
    try {
        more = collect(to + taken, room);
    } catch (const std::bad_alloc&) {
        if (taken == 0) {
            throw;
        } // else what was taken is told first
    }
    if (more > 0) {
        return taken + more;
    }
    if (taken == 0) {
        return more;
    }
    drained_ = more == -FI_EAGAIN;
    return taken;
}

ssize_t Cq::take(void* to, std::size_t count, fi_addr_t* sources) {
    if (!kept_.empty()) [[unlikely]] {
        drop_kept();
    }
    if (is_over()) [[unlikely]] {
        return -FI_EAVAIL;
    }
    if (count_ == 0) {
        return -FI_EAGAIN;
    }
    if (ring_[head_].failed) {
        return -FI_EAVAIL;
    }
    if (overrun_) [[unlikely]] { // what has come since is not reported
        count = std::min<std::size_t>(count, last_ - taken_);
    }
    std::size_t taken = 0;
    switch (format) {
    case FI_CQ_FORMAT_TAGGED:
        taken = copy_out<sizeof(fi_cq_tagged_entry)>(to, count, sources);
        break;
    case FI_CQ_FORMAT_DATA:
        taken = copy_out<sizeof(fi_cq_data_entry)>(to, count, sources);
        break;
    case FI_CQ_FORMAT_MSG:
        taken = copy_out<sizeof(fi_cq_msg_entry)>(to, count, sources);
        break;
    default:
        taken = copy_out<sizeof(fi_cq_entry)>(to, count, sources);
    }
    taken_ += taken;
    return static_cast<ssize_t>(taken);
}

template <std::size_t Size>
std::size_t Cq::copy_out(void* to, std::size_t count, fi_addr_t* sources) {
    auto* out = static_cast<std::byte*>(to);
    std::size_t taken = 0;
    for (; taken < count && count_ != 0 && !ring_[head_].failed; ++taken) {
        const Entry& entry = ring_[head_];
        std::memcpy(out, &entry.completion, Size);
        out += Size;
        if (sources != nullptr) {
            sources[taken] = entry.source;
        }
        head_ = (head_ + 1) & mask_;
        --count_;
    }
    return taken;
}

ssize_t Cq::take_failure(fi_cq_err_entry* to) {
    const bool is_end = is_over();
    if (!is_end && (count_ == 0 || !ring_[head_].failed)) {
        return -FI_EAGAIN;
    }
    fi_cq_err_entry entry = is_end ? fi_cq_err_entry{} : failures_.front().entry;
    if (is_end) {
        entry.err = FI_EOVERRUN;
        entry.prov_errno = FI_ENOMEM;
    }
    entry.err_data = to->err_data; // the program's room for error data: there is none
    std::memcpy(to, &entry, error_size(domain->fabric->fid.api_version));
    if (is_end) { // and so for ever
        return 1;
    }
    failures_.pop_front();
    head_ = (head_ + 1) & mask_;
    --count_;
    ++taken_;
    return 1;
}

int open_cq(fid_domain* fid, fi_cq_attr* attr, fid_cq** out, void* context) {
    Domain& domain = *object_of<Domain>(fid);
    const fi_cq_attr given = attr != nullptr ? *attr : fi_cq_attr{};
    if (const int error = check_wait_object(given.wait_obj); error != 0) {
        return error;
    }
    if (given.format > FI_CQ_FORMAT_TAGGED) {
        return -FI_ENOSYS;
    }
    if ((given.flags & ~FI_AFFINITY) != 0) {
        return -FI_EINVAL;
    }
    auto cq = std::make_unique<Cq>(domain.lock);
    cq->fid.fid = {FI_CLASS_CQ, context, &fid_ops};
    cq->fid.ops = &cq_ops;
    cq->domain = &domain;
    cq->format = given.format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_TAGGED : given.format;
    cq->wait_object = given.wait_obj;
    cq->wait_condition = given.wait_cond;
    cq->reserve(std::min<std::size_t>(given.size, 65536));
    ++domain.references;
    if (attr != nullptr) {
        attr->format = cq->format;
    }
    *out = &cq.release()->fid;
    return 0;
}

} // namespace comch::ofi::inline COMCH_OFI_LINK
