// One end of a test: an endpoint of the provider with everything it needs, by way of the libfabric
// library, as any program has it. COMCH_BUILD_DIR says where the provider is.
#pragma once

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "libfabric.hpp"

namespace comch::ofi::test {

using Clock = std::chrono::steady_clock;

/// A domain directory for this test, and the provider's place. Before libfabric's first use.
class Environment {
public:
    Environment() {
        char path[] = "/dev/shm/comch-ofi-test-XXXXXX";
        if (::mkdtemp(path) == nullptr) {
            throw std::runtime_error("no directory for the test");
        }
        directory_ = path;
        const char* const build = std::getenv("COMCH_BUILD_DIR");
        ::setenv("COMCH_DOMAIN", path, 1);
        ::setenv("FI_PROVIDER_PATH",
                 (std::string(build != nullptr ? build : ".") + "/lib/libfabric").c_str(), 1);
        ::setenv("FI_PROVIDER", "comch", 1);
    }
    ~Environment() {
        if (owner_ == ::getpid()) {
            std::error_code ignored;
            std::filesystem::remove_all(directory_, ignored);
        }
    }

private:
    std::string directory_;
    pid_t owner_ = ::getpid();
};

inline Environment& environment() {
    static Environment instance;
    return instance;
}

#define COMCH_FI(call)                                                                             \
    do {                                                                                           \
        const auto comch_result = (call);                                                          \
        if (comch_result != 0) {                                                                   \
            throw std::runtime_error(std::string(#call) + ": " +                                   \
                                     fi_strerror(static_cast<int>(-comch_result)));                \
        }                                                                                          \
    } while (false)

struct NodeOptions {
    fi_ep_type type = FI_EP_RDM;
    std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE | FI_DIRECTED_RECV;
    std::uint64_t bind_flags = 0; ///< FI_SELECTIVE_COMPLETION
    std::uint64_t tx_flags = 0;
    fi_wait_obj wait_object = FI_WAIT_NONE;
    fi_threading threading = FI_THREAD_SAFE;
    fi_progress progress = FI_PROGRESS_UNSPEC;
    const char* node = nullptr; ///< the host function that the service is under
    const char* service = nullptr;
    bool counters = false;
    int mr_mode = 0;
    std::uint64_t order = 0;
    bool shared_receives = false;
};

struct InfoHints {
    fi_info* value = fi_allocinfo();
    InfoHints() = default;
    InfoHints(const InfoHints&) = delete;
    InfoHints& operator=(const InfoHints&) = delete;
    ~InfoHints() { fi_freeinfo(value); }
    fi_info* operator->() const { return value; }
};

/// What libfabric answers to the hints; null if nobody can.
inline fi_info* query(const fi_info* hints, const char* service = nullptr, std::uint64_t flags = 0,
                      const char* node = nullptr) {
    (void)environment();
    fi_info* info = nullptr;
    const int result = fi_getinfo(FI_VERSION(1, 17), node, service, flags, hints, &info);
    return result == 0 ? info : nullptr;
}

class Node {
public:
    explicit Node(const NodeOptions& options = {}, fi_info* given = nullptr,
                  fid_fabric* shared_fabric = nullptr)
        : Node(Empty{}, options) { // complete from here: what throws below closes what is open

        if (given != nullptr) {
            info = fi_dupinfo(given);
            if (options.progress != FI_PROGRESS_UNSPEC) {
                info->domain_attr->data_progress = options.progress;
            }
        } else {
            InfoHints hints;
            hints->caps = options.caps;
            hints->ep_attr->type = options.type;
            hints->domain_attr->threading = options.threading;
            hints->domain_attr->data_progress = options.progress;
            hints->domain_attr->mr_mode = options.mr_mode;
            hints->tx_attr->op_flags = options.tx_flags;
            hints->tx_attr->msg_order = hints->rx_attr->msg_order = options.order;
            info = query(hints.value, options.service, options.service != nullptr ? FI_SOURCE : 0,
                         options.node);
        }
        if (info == nullptr) {
            throw std::runtime_error("libfabric offers nothing of comch");
        }
        if (shared_fabric != nullptr) {
            fabric = shared_fabric;
        } else {
            COMCH_FI(fi_fabric(info->fabric_attr, &fabric, nullptr));
            owns_fabric_ = true;
        }
        COMCH_FI(fi_domain(fabric, info, &domain, nullptr));
        fi_cq_attr cq{};
        cq.format = FI_CQ_FORMAT_TAGGED;
        cq.wait_obj = options.wait_object;
        COMCH_FI(fi_cq_open(domain, &cq, &tx, nullptr));
        COMCH_FI(fi_cq_open(domain, &cq, &rx, nullptr));
        COMCH_FI(fi_endpoint(domain, info, &ep, nullptr));
        COMCH_FI(fi_ep_bind(ep, &tx->fid, FI_TRANSMIT | options.bind_flags));
        COMCH_FI(fi_ep_bind(ep, &rx->fid, FI_RECV | options.bind_flags));
        if (options.type == FI_EP_RDM) {
            fi_av_attr attr{};
            attr.type = FI_AV_TABLE;
            COMCH_FI(fi_av_open(domain, &attr, &av, nullptr));
            COMCH_FI(fi_ep_bind(ep, &av->fid, 0));
        } else {
            fi_eq_attr attr{};
            attr.wait_obj = FI_WAIT_FD;
            COMCH_FI(fi_eq_open(fabric, &attr, &eq, nullptr));
            COMCH_FI(fi_ep_bind(ep, &eq->fid, 0));
        }
        if (options.counters) {
            constexpr std::uint64_t events[] = {FI_SEND,  FI_RECV,        FI_READ,
                                                FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE};
            for (const std::uint64_t event : events) {
                fi_cntr_attr attr{};
                attr.wait_obj = options.wait_object;
                fid_cntr* cntr = nullptr;
                COMCH_FI(fi_cntr_open(domain, &attr, &cntr, nullptr));
                counters.push_back(cntr);
                COMCH_FI(fi_ep_bind(ep, &cntr->fid, event));
            }
        }
        if (options.shared_receives) {
            fi_rx_attr attr{};
            COMCH_FI(fi_srx_context(domain, &attr, &srx, nullptr));
            COMCH_FI(fi_ep_bind(ep, &srx->fid, 0));
        }
        COMCH_FI(fi_enable(ep));
    }
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;
    ~Node() {
        close(ep);
        close(srx);
        for (fid_mr* mr : regions) {
            close(mr);
        }
        for (fid_cntr* cntr : counters) {
            close(cntr);
        }
        close(tx);
        close(rx);
        close(av);
        close(eq);
        close(domain);
        if (owns_fabric_) {
            close(fabric);
        }
        fi_freeinfo(info);
    }

    [[nodiscard]] std::vector<char> name() const {
        std::size_t length = 0;
        (void)fi_getname(&ep->fid, nullptr, &length);
        std::vector<char> bytes(length);
        COMCH_FI(fi_getname(&ep->fid, bytes.data(), &length));
        return bytes;
    }
    fi_addr_t add(const std::vector<char>& peer) {
        fi_addr_t address = FI_ADDR_NOTAVAIL;
        if (fi_av_insert(av, peer.data(), 1, &address, 0, nullptr) != 1) {
            throw std::runtime_error("fi_av_insert refuses a peer's name");
        }
        return address;
    }
    fi_addr_t look_up(const char* service) {
        fi_addr_t address = FI_ADDR_NOTAVAIL;
        if (fi_av_insertsvc(av, nullptr, service, &address, 0, nullptr) != 1) {
            throw std::runtime_error("fi_av_insertsvc refuses a name");
        }
        return address;
    }
    fid_mr* expose(void* base, std::size_t length, std::uint64_t key,
                   std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE) {
        fid_mr* mr = nullptr;
        COMCH_FI(fi_mr_reg(domain, base, length, access, 0, key, 0, &mr, nullptr));
        regions.push_back(mr);
        return mr;
    }

    fi_info* info = nullptr;
    fid_fabric* fabric = nullptr;
    fid_domain* domain = nullptr;
    fid_ep* ep = nullptr;
    fid_ep* srx = nullptr;
    fid_cq* tx = nullptr;
    fid_cq* rx = nullptr;
    fid_av* av = nullptr;
    fid_eq* eq = nullptr;
    std::vector<fid_cntr*> counters;
    std::vector<fid_mr*> regions;

private:
    struct Empty {};
    Node(Empty, const NodeOptions& options) : options_(options) {}

    template <class T> static void close(T* object) {
        if (object != nullptr) {
            EXPECT_EQ(fi_close(&object->fid), 0);
        }
    }
    NodeOptions options_;
    bool owns_fabric_ = false;
};

/// A completion, or an error completion.
struct Event {
    fi_cq_tagged_entry entry{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    int error = 0;
    fi_cq_err_entry failure{};
};

/// One completion of `cq`, while the queues of `others` are progressed as well.
inline Event await(fid_cq* cq, const std::vector<fid_cq*>& others = {}, int seconds = 60) {
    const auto end = Clock::now() + std::chrono::seconds(seconds);
    Event event;
    while (Clock::now() < end) {
        const ssize_t result = fi_cq_readfrom(cq, &event.entry, 1, &event.source);
        if (result == 1) {
            return event;
        }
        if (result == -FI_EAVAIL) {
            if (fi_cq_readerr(cq, &event.failure, 0) != 1) {
                throw std::runtime_error("no error where one was announced");
            }
            event.error = event.failure.err;
            return event;
        }
        if (result != -FI_EAGAIN) {
            throw std::runtime_error(std::string("fi_cq_readfrom: ") +
                                     fi_strerror(static_cast<int>(-result)));
        }
        for (fid_cq* other : others) {
            (void)fi_cq_read(other, nullptr, 0);
        }
    }
    throw std::runtime_error("no completion came");
}

/// Calls `post` until it is not told to try again, progressing `cqs`.
template <class Post> void post(Post&& call, const std::vector<fid_cq*>& cqs) {
    const auto end = Clock::now() + std::chrono::seconds(60);
    ssize_t result = -FI_EAGAIN;
    while ((result = call()) == -FI_EAGAIN && Clock::now() < end) {
        for (fid_cq* cq : cqs) {
            (void)fi_cq_read(cq, nullptr, 0);
        }
    }
    COMCH_FI(result);
}

/// All of the buffer is for many messages; it is the context, too.
inline void post_multi_receive(fid_ep* ep, std::vector<char>& buffer,
                               fi_addr_t from = FI_ADDR_UNSPEC) {
    const iovec iov{buffer.data(), buffer.size()};
    fi_msg message{};
    message.msg_iov = &iov;
    message.iov_count = 1;
    message.addr = from;
    message.context = &buffer;
    COMCH_FI(fi_recvmsg(ep, &message, FI_MULTI_RECV));
}

inline std::vector<char> pattern(std::size_t length, unsigned seed) {
    std::vector<char> bytes(length);
    for (std::size_t i = 0; i < length; ++i) {
        bytes[i] = static_cast<char>((i * 31 + seed * 7 + (i >> 8)) & 0xff);
    }
    return bytes;
}

/// Two endpoints of one process that know each other.
struct Pair {
    explicit Pair(const NodeOptions& options = {})
        : a(options), b(options), to_b(a.add(b.name())),
          to_a(b.add(a.name())), cqs{a.tx, a.rx, b.tx, b.rx} {}
    Node a;
    Node b;
    fi_addr_t to_b;
    fi_addr_t to_a;
    std::vector<fid_cq*> cqs;
};

} // namespace comch::ofi::test
