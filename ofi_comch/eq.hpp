// Event queues. Their lock is the fabric's; whoever adds to one holds it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "fabric.hpp"
#include "libfabric.hpp"
#include "over_link.hpp"
#include "waiter.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

struct Eq {
    fid_eq fid{};
    Fabric* fabric = nullptr;
    Waiter waiter;
    fi_wait_obj wait_object = FI_WAIT_NONE;
    std::atomic<unsigned> references{0};

    explicit Eq(std::shared_ptr<Lock> lock) : waiter(std::move(lock)) {}

    [[nodiscard]] bool empty() const noexcept { return events_.empty() && !overrun_; }
    [[nodiscard]] bool is_overrun() const noexcept { return overrun_; }
    /// What there is no memory for overruns the queue.
    template <class Entry>
    void add(std::uint32_t event, const Entry& entry, std::span<const std::byte> data = {}) {
        or_overrun([&] { try_add(event, entry, data); });
    }
    /// ... or throws. Not to a queue that is overrun.
    template <class Entry>
    void try_add(std::uint32_t event, const Entry& entry, std::span<const std::byte> data = {}) {
        add_bytes(event, std::as_bytes(std::span(&entry, 1)), data);
    }
    /// What was added last was too early. With the lock held since.
    void take_back() noexcept { events_.pop_back(); }
    /// `data` is handed out as the error's data.
    void add_failure(const fi_eq_err_entry& failure, std::span<const std::byte> data = {});
    /// Is a request for a connection still to be read?
    [[nodiscard]] bool has_request(const struct fid& handle) const;
    /// Forgets what was about an object that ends.
    void forget(const struct fid* fid);

    [[nodiscard]] ssize_t take(std::uint32_t* event, void* to, std::size_t length, bool peek);
    [[nodiscard]] ssize_t take_failure(fi_eq_err_entry* to, bool peek);
    void add_bytes(std::uint32_t event, std::span<const std::byte> entry,
                   std::span<const std::byte> data);

private:
    struct Event {
        std::uint32_t event = 0;
        bool failed = false;
        std::vector<std::byte> bytes;
        fi_eq_err_entry failure{};
    };
    template <class Add> void or_overrun(Add&& add) {
        if (overrun_) {
            return;
        }
        try {
            add();
        } catch (const std::bad_alloc&) {
            overrun_ = true;
            waiter.notify();
        }
    }

    std::deque<Event> events_;
    /// It reports what it holds, then that, and nothing any more.
    bool overrun_ = false;
    std::vector<std::byte> error_data_; ///< of the failure that was read last
};

[[nodiscard]] int open_eq(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** eq, void* context);

} // namespace comch::ofi::inline COMCH_OFI_LINK
