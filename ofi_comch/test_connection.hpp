// Two ends of a connection, for tests: who listens, who connects, and the events of both.
#pragma once

#include "test_node.hpp"

namespace comch::ofi::test {

struct CmEvent {
    int error = 0;
    std::uint32_t event = 0;
    fid* subject = nullptr;
    fi_info* info = nullptr;
    std::string data;
};

/// The next event of `eq`, while `others` are progressed.
inline CmEvent next_event(fid_eq* eq, const std::vector<fid_eq*>& others = {}) {
    const auto end = Clock::now() + std::chrono::seconds(60);
    alignas(fi_eq_cm_entry) char buffer[sizeof(fi_eq_cm_entry) + 256];
    CmEvent event;
    std::uint32_t ignored = 0;
    while (Clock::now() < end) {
        const ssize_t length = fi_eq_read(eq, &event.event, buffer, sizeof(buffer), 0);
        if (length > 0) {
            const auto* entry = reinterpret_cast<const fi_eq_cm_entry*>(buffer);
            event.subject = entry->fid;
            event.info = entry->info;
            event.data.assign(buffer + sizeof(fi_eq_cm_entry),
                              static_cast<std::size_t>(length) - sizeof(fi_eq_cm_entry));
            return event;
        }
        if (length == -FI_EAVAIL) {
            fi_eq_err_entry failure{};
            (void)fi_eq_readerr(eq, &failure, 0);
            event.error = failure.err;
            event.subject = failure.fid;
            event.data.assign(static_cast<const char*>(failure.err_data), failure.err_data_size);
            return event;
        }
        for (fid_eq* other : others) {
            char peeked[512];
            (void)fi_eq_read(other, &ignored, peeked, sizeof(peeked), FI_PEEK);
        }
    }
    throw std::runtime_error("no event came");
}

/// A passive endpoint under a name.
struct Listener {
    explicit Listener(const char* service, fi_info* given = nullptr) : info(given) {
        InfoHints hints;
        hints->ep_attr->type = FI_EP_MSG;
        hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
        if (info == nullptr) {
            info = query(hints.value, service, FI_SOURCE);
        }
        if (info == nullptr) {
            throw std::runtime_error("no connected endpoints are offered");
        }
        COMCH_FI(fi_fabric(info->fabric_attr, &fabric, nullptr));
        fi_eq_attr attr{};
        attr.wait_obj = FI_WAIT_FD;
        COMCH_FI(fi_eq_open(fabric, &attr, &eq, nullptr));
        COMCH_FI(fi_passive_ep(fabric, info, &pep, nullptr));
        COMCH_FI(fi_pep_bind(pep, &eq->fid, 0));
        COMCH_FI(fi_listen(pep));
    }
    ~Listener() {
        EXPECT_EQ(fi_close(&pep->fid), 0);
        EXPECT_EQ(fi_close(&eq->fid), 0);
        EXPECT_EQ(fi_close(&fabric->fid), 0);
        fi_freeinfo(info);
    }
    fi_info* info = nullptr;
    fid_fabric* fabric = nullptr;
    fid_eq* eq = nullptr;
    fid_pep* pep = nullptr;
};

inline NodeOptions connected() {
    NodeOptions options;
    options.type = FI_EP_MSG;
    options.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
    options.counters = true;
    return options;
}

struct Client {
    explicit Client(const char* service, const char* data = "") : node(connected()) {
        InfoHints hints;
        hints->ep_attr->type = FI_EP_MSG;
        fi_info* const found = query(hints.value, service);
        result = fi_connect(node.ep, found->dest_addr, data, std::strlen(data));
        fi_freeinfo(found);
    }
    Node node;
    int result = 0;
};

} // namespace comch::ofi::test
