// Address vectors. A fi_addr_t is an index, in both kinds of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "address.hpp"
#include "domain.hpp"
#include "libfabric.hpp"
#include "over_link.hpp"

namespace comch::ofi::inline COMCH_OFI_LINK {

struct Eq;

struct PortHash {
    std::size_t operator()(const link::PortAddress& port) const noexcept {
        // Its bytes are random or nearly so; any eight of them do.
        std::uint64_t words[2];
        std::memcpy(words, port.bytes.data(), sizeof(words));
        return words[0] * 0x9e3779b97f4a7c15u ^ words[1];
    }
};

struct Av {
    fid_av fid{};
    Domain* domain = nullptr;
    Eq* eq = nullptr; ///< bound: insertions are reported there
    bool asynchronous = false;
    std::atomic<unsigned> references{0};
    std::vector<Endpoint*> endpoints; ///< that use it

    struct Entry {
        Address address;
        unsigned uses = 0; ///< how often it was inserted; 0: free
    };

    [[nodiscard]] const Address* find(fi_addr_t at) const noexcept {
        return at < entries_.size() && entries_[at].uses != 0 ? &entries_[at].address : nullptr;
    }
    /// FI_ADDR_NOTAVAIL if nobody inserted it.
    [[nodiscard]] fi_addr_t lookup(const link::PortAddress& port) const noexcept {
        const auto found = by_port_.find(port);
        return found == by_port_.end() ? FI_ADDR_NOTAVAIL : found->second;
    }
    /// By the key that name_key() gives.
    [[nodiscard]] fi_addr_t lookup(const std::string& name) const {
        const auto found = by_name_.find(name);
        return found == by_name_.end() ? FI_ADDR_NOTAVAIL : found->second;
    }
    [[nodiscard]] static std::string name_key(FunctionId function, std::string_view name);
    [[nodiscard]] fi_addr_t insert(const Address& address);
    [[nodiscard]] bool remove(fi_addr_t at);
    /// Changes with every insertion and removal.
    [[nodiscard]] std::uint64_t version() const noexcept { return version_; }

private:
    std::vector<Entry> entries_;
    std::set<fi_addr_t> free_; ///< the lowest is taken first, as fi_av(3) says
    std::unordered_map<link::PortAddress, fi_addr_t, PortHash> by_port_;
    std::unordered_map<std::string, fi_addr_t> by_name_;
    std::uint64_t version_ = 1;
};

[[nodiscard]] int open_av(fid_domain* domain, fi_av_attr* attr, fid_av** av, void* context);

} // namespace comch::ofi::inline COMCH_OFI_LINK
