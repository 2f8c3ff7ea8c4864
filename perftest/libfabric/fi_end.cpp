#include "fi_end.hpp"

#include <cstring>
#include <memory>

#include <fmt/format.h>

namespace comch::perftest {
namespace {

void check(long result, const char* what) {
    if (result < 0) {
        throw std::runtime_error(
            fmt::format("libfabric: {}: {}", what, fi_strerror(static_cast<int>(-result))));
    }
}

/// Small messages are handed over with the inject calls up to here, as MPI libraries do.
constexpr std::size_t max_injected = 64;

} // namespace

FiEnd::FiEnd(const std::string& provider, const std::string& domain, bool rma, double timeout,
             const volatile std::sig_atomic_t& other_has_ended)
    : timeout_(timeout), other_has_ended_(other_has_ended), rma_(rma) {
    const std::unique_ptr<fi_info, void (*)(fi_info*)> hints(fi_allocinfo(), fi_freeinfo);
    hints->caps = rma ? FI_TAGGED | FI_RMA : FI_TAGGED;
    hints->mode = FI_CONTEXT;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = ::strdup(provider.c_str());
    if (!domain.empty()) {
        hints->domain_attr->name = ::strdup(domain.c_str());
    }
    if (const int result = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &info_);
        result != 0) {
        throw std::runtime_error(fmt::format(
            "libfabric has no provider '{}' with tagged reliable datagrams{}{} here: {} (for "
            "comch, FI_PROVIDER_PATH names the folder of libcomch-fi.so, and FI_COMCH_DOMAIN, "
            "FI_COMCH_SIDE and FI_COMCH_DEVICE, if set, what it opens; FI_LOG_LEVEL=warn and "
            "FI_LOG_PROV=comch tell why it refuses)",
            provider, domain.empty() ? "" : " on ", domain, fi_strerror(-result)));
    }
    if ((info_->mode & FI_CONTEXT) != 0) {
        throw std::runtime_error(
            fmt::format("provider '{}' wants a context for each operation", provider));
    }
    check(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    check(fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
    check(fi_endpoint(domain_, info_, &ep_, nullptr), "fi_endpoint");
    fi_cq_attr cq{};
    cq.format = FI_CQ_FORMAT_TAGGED;
    cq.wait_obj = FI_WAIT_NONE;
    check(fi_cq_open(domain_, &cq, &tx_.cq, nullptr), "fi_cq_open");
    check(fi_cq_open(domain_, &cq, &rx_.cq, nullptr), "fi_cq_open");
    fi_av_attr av{};
    av.type = FI_AV_TABLE;
    check(fi_av_open(domain_, &av, &av_, nullptr), "fi_av_open");
    check(fi_ep_bind(ep_, &tx_.cq->fid, FI_TRANSMIT), "fi_ep_bind");
    check(fi_ep_bind(ep_, &rx_.cq->fid, FI_RECV), "fi_ep_bind");
    check(fi_ep_bind(ep_, &av_->fid, 0), "fi_ep_bind");
    check(fi_enable(ep_), "fi_enable");
    inject_size_ = std::min(max_injected, info_->tx_attr->inject_size);
}

FiEnd::~FiEnd() {
    for (fid* const object :
         {ep_ != nullptr ? &ep_->fid : nullptr, mr_ != nullptr ? &mr_->fid : nullptr,
          tx_.cq != nullptr ? &tx_.cq->fid : nullptr, rx_.cq != nullptr ? &rx_.cq->fid : nullptr,
          av_ != nullptr ? &av_->fid : nullptr, domain_ != nullptr ? &domain_->fid : nullptr,
          fabric_ != nullptr ? &fabric_->fid : nullptr}) {
        if (object != nullptr) {
            (void)fi_close(object);
        }
    }
    fi_freeinfo(info_);
}

std::vector<std::byte> FiEnd::name() const {
    std::vector<std::byte> bytes(256);
    std::size_t length = bytes.size();
    check(fi_getname(&ep_->fid, bytes.data(), &length), "fi_getname");
    bytes.resize(length);
    return bytes;
}

void FiEnd::meet(std::span<const std::byte> peer_name) {
    if (fi_av_insert(av_, peer_name.data(), 1, &peer_, 0, nullptr) != 1) {
        throw std::runtime_error("libfabric: fi_av_insert refused the other end's address");
    }
}

void FiEnd::use(std::span<std::byte> memory) {
    const auto mode = static_cast<std::uint64_t>(info_->domain_attr->mr_mode);
    const bool local = (mode & FI_MR_LOCAL) != 0;
    if (!local && !rma_) {
        return;
    }
    const std::uint64_t access =
        FI_SEND | FI_RECV | (rma_ ? FI_WRITE | FI_READ | FI_REMOTE_WRITE | FI_REMOTE_READ : 0);
    check(fi_mr_reg(domain_, memory.data(), memory.size(), access, 0, 1, 0, &mr_, nullptr),
          "fi_mr_reg");
    // (As programs do that register only what they must.)
    desc_ = local ? fi_mr_desc(mr_) : nullptr;
    target_ = {.address = (mode & FI_MR_VIRT_ADDR) != 0
                              ? reinterpret_cast<std::uint64_t>(memory.data())
                              : 0,
               .key = fi_mr_key(mr_)};
}

void FiEnd::fail(Queue& queue, ssize_t error) {
    if (error != -FI_EAVAIL) {
        check(error, "fi_cq_read");
    }
    fi_cq_err_entry entry{};
    (void)fi_cq_readerr(queue.cq, &entry, 0);
    throw std::runtime_error(
        fmt::format("libfabric: a message failed: {}: {}", fi_strerror(entry.err),
                    fi_cq_strerror(queue.cq, entry.prov_errno, entry.err_data, nullptr, 0)));
}

} // namespace comch::perftest
