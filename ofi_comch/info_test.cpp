// What fi_getinfo answers to which hints, and the objects that hang on no endpoint.
#include <cstdio>
#include <memory>

#include <arpa/inet.h>

#include "test_node.hpp"

namespace comch::ofi::test {
namespace {

template <class Change> std::vector<fi_ep_type> offered(Change&& change) {
    InfoHints hints;
    change(*hints.value);
    fi_info* const found = query(hints.value);
    std::vector<fi_ep_type> types;
    for (const fi_info* info = found; info != nullptr; info = info->next) {
        EXPECT_STREQ(info->fabric_attr->prov_name, "comch");
        types.push_back(info->ep_attr->type);
    }
    if (found != nullptr) {
        fi_freeinfo(found);
    }
    return types;
}

const std::vector<fi_ep_type> both = {FI_EP_RDM, FI_EP_MSG};
const std::vector<fi_ep_type> datagram = {FI_EP_RDM};
const std::vector<fi_ep_type> connecting = {FI_EP_MSG};
const std::vector<fi_ep_type> none = {};

TEST(Info, OffersWhatFits) {
    EXPECT_EQ(offered([](fi_info&) {}), both);
    EXPECT_EQ(offered([](fi_info& h) { h.caps = FI_MSG | FI_TAGGED | FI_ATOMIC | FI_RMA; }), both);
    EXPECT_EQ(offered([](fi_info& h) { h.caps = FI_TAGGED | FI_SOURCE; }), datagram);
    EXPECT_EQ(offered([](fi_info& h) { h.ep_attr->type = FI_EP_RDM; }), datagram);
    EXPECT_EQ(offered([](fi_info& h) { h.mode = FI_CONTEXT; }), both);
    EXPECT_EQ(offered([](fi_info& h) { h.mode = ~std::uint64_t{0}; }), both);
    EXPECT_EQ(offered([](fi_info& h) { h.domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR; }),
              both);
    EXPECT_EQ(offered([](fi_info& h) { h.tx_attr->inject_size = 64; }), both);
    EXPECT_EQ(offered([](fi_info& h) { h.tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_WAW; }),
              both);
    EXPECT_EQ(offered([](fi_info& h) { h.ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; }), both);
    EXPECT_EQ(offered([](fi_info& h) { h.addr_format = FI_SOCKADDR_IN; }), connecting);
}

TEST(Info, MemoryNeedsNoMode) {
    for (const int offered :
         {0, FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED}) {
        InfoHints hints;
        hints.value->domain_attr->mr_mode = offered;
        fi_info* const found = query(hints.value);
        ASSERT_NE(found, nullptr);
        EXPECT_EQ(found->domain_attr->mr_mode, 0);
        fi_freeinfo(found);
    }
}

TEST(Info, DoesNotOfferWhatDoesNot) {
    EXPECT_EQ(offered([](fi_info& h) { h.caps = FI_MULTICAST; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.caps = FI_MSG | FI_HMEM; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.ep_attr->type = FI_EP_DGRAM; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.addr_format = FI_SOCKADDR_IN6; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.tx_attr->inject_size = 1 << 20; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.tx_attr->msg_order = FI_ORDER_SAW; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.ep_attr->max_msg_size = SIZE_MAX; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.ep_attr->protocol = FI_PROTO_SHM; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.domain_attr->name = strdup("eth0"); }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.fabric_attr->prov_name = strdup("shm"); }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.caps = std::uint64_t{1} << 62; }), none);
    fi_info* info = nullptr;
    EXPECT_EQ(fi_getinfo(FI_VERSION(1, 17), "192.0.2.1", "7", 0, nullptr, &info), -FI_ENODATA);
    EXPECT_NE(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, FI_SOURCE, nullptr, &info), 0)
        << "a source, and none named";
}

TEST(Info, EachAttributeHasItsLimit) {
    EXPECT_EQ(offered([](fi_info& h) { h.tx_attr->iov_limit = 1000; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.rx_attr->iov_limit = 1000; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.tx_attr->rma_iov_limit = 2; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.tx_attr->size = SIZE_MAX; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.rx_attr->size = SIZE_MAX; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.tx_attr->comp_order = FI_ORDER_STRICT; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.rx_attr->msg_order = FI_ORDER_SAR; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.tx_attr->op_flags = FI_COMMIT_COMPLETE; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.rx_attr->caps = FI_MULTICAST; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.ep_attr->tx_ctx_cnt = 2; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.ep_attr->max_order_raw_size = SIZE_MAX; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.ep_attr->auth_key_size = 8; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.ep_attr->protocol_version = 99; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.domain_attr->cq_data_size = 16; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.domain_attr->mr_key_size = 16; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.domain_attr->mr_iov_limit = 2; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.domain_attr->max_ep_stx_ctx = 1; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.domain_attr->cq_cnt = 1 << 20; }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.fabric_attr->name = strdup("another"); }), none);
    EXPECT_EQ(offered([](fi_info& h) { h.fabric_attr->prov_version = FI_VERSION(99, 0); }), none);
}

struct FreeInfo {
    void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Found = std::unique_ptr<fi_info, FreeInfo>;

TEST(Info, AHostFunctionHasManyNames) {
    InfoHints hints;
    InfoHints of_sockets;
    of_sockets->addr_format = FI_SOCKADDR_IN;
    const Found socket(query(of_sockets.value, "7", 0, "host_pf0"));
    ASSERT_NE(socket, nullptr);
    sockaddr_in address{};
    std::memcpy(&address, socket->dest_addr, sizeof(address));
    char number[INET_ADDRSTRLEN] = "";
    ASSERT_NE(::inet_ntop(AF_INET, &address.sin_addr, number, sizeof(number)), nullptr);

    const Found wanted(query(hints.value, "7", 0, "host_pf0"));
    ASSERT_NE(wanted, nullptr);
    for (const char* const node :
         std::initializer_list<const char*>{nullptr, "localhost", "127.0.0.1", number}) {
        const Found info(query(hints.value, "7", 0, node));
        ASSERT_NE(info, nullptr) << (node != nullptr ? node : "no node");
        ASSERT_EQ(info->dest_addrlen, wanted->dest_addrlen);
        EXPECT_EQ(std::memcmp(info->dest_addr, wanted->dest_addr, info->dest_addrlen), 0);
    }
    EXPECT_EQ(query(hints.value, "7", 0, "127.9.9.9"), nullptr) << "no function's";

    const Found others_socket(query(of_sockets.value, "7", 0, "host_pf0vf0"));
    ASSERT_NE(others_socket, nullptr);
    std::memcpy(&address, others_socket->dest_addr, sizeof(address));
    ASSERT_NE(::inet_ntop(AF_INET, &address.sin_addr, number, sizeof(number)), nullptr);
    const Found other(query(hints.value, "7", 0, "host_pf0vf0"));
    const Found by_number(query(hints.value, "7", 0, number));
    ASSERT_NE(other, nullptr);
    ASSERT_NE(by_number, nullptr);
    EXPECT_EQ(std::memcmp(by_number->dest_addr, other->dest_addr, other->dest_addrlen), 0);
    EXPECT_NE(std::memcmp(by_number->dest_addr, wanted->dest_addr, wanted->dest_addrlen), 0);
}

TEST(Info, EveryOfferHasASource) {
    InfoHints hints;
    Found offers[] = {Found(query(nullptr)), Found(query(hints.value)),
                      Found(query(hints.value, "7", 0, "localhost")),
                      Found(query(hints.value, nullptr, FI_SOURCE, "localhost"))};
    for (const Found& offer : offers) {
        ASSERT_NE(offer, nullptr);
        for (const fi_info* at = offer.get(); at != nullptr; at = at->next) {
            EXPECT_NE(at->src_addr, nullptr);
            EXPECT_NE(at->src_addrlen, 0u);
        }
    }
}

TEST(Info, EndpointsOpenedFromOneOfferHaveAddressesOfTheirOwn) {
    Node first;
    Node second({}, first.info);
    Node third;
    for (Node* const to : {&first, &second}) {
        char received = 0;
        COMCH_FI(fi_recv(to->ep, &received, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
        const fi_addr_t peer = third.add(to->name());
        const char sent = to == &first ? '1' : '2';
        post([&] { return fi_inject(third.ep, &sent, 1, peer); }, {third.tx, first.rx, second.rx});
        EXPECT_EQ(await(to->rx, {third.tx}).error, 0);
        EXPECT_EQ(received, sent);
    }
    // What the offer has is a place for an address, and nobody's.
    InfoHints hints;
    hints->ep_attr->type = FI_EP_MSG;
    const Found offer(query(hints.value));
    NodeOptions options;
    options.type = FI_EP_MSG;
    Node here(options, offer.get());
    EXPECT_EQ(fi_connect(here.ep, offer->src_addr, nullptr, 0), -FI_EINVAL);
    fi_addr_t peer = 0;
    EXPECT_EQ(fi_av_insert(third.av, first.info->src_addr, 1, &peer, 0, nullptr), 0);
    EXPECT_EQ(peer, FI_ADDR_NOTAVAIL);
    const auto name = first.name();
    EXPECT_EQ(offered([&](fi_info& h) {
                  h.src_addrlen = name.size();
                  h.src_addr = std::memcpy(std::malloc(name.size()), name.data(), name.size());
              }),
              none)
        << "an endpoint's place can't be chosen";
}

TEST(Info, WhatIsNoAddressIsNobodys) {
    const auto garbage = [](void*& address, std::size_t& length) {
        length = 5; // shorter than any
        address = ::calloc(1, length);
    };
    EXPECT_EQ(offered([&](fi_info& h) { garbage(h.src_addr, h.src_addrlen); }), none);
    EXPECT_EQ(offered([&](fi_info& h) { garbage(h.dest_addr, h.dest_addrlen); }), none);
}

TEST(Info, GrantsThePrimaryCapabilitiesThatWereAskedForOnly) {
    InfoHints hints;
    hints->caps = FI_TAGGED | FI_SEND;
    fi_info* const info = query(hints.value);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->caps & (FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC), FI_TAGGED);
    EXPECT_EQ(info->caps & (FI_SEND | FI_RECV), FI_SEND);
    fi_freeinfo(info);
}

TEST(Info, EachAttributeHasItsOwnCapabilities) {
    InfoHints hints;
    hints->caps = FI_MSG | FI_RMA | FI_FENCE;
    fi_info* const info = query(hints.value);
    ASSERT_NE(info, nullptr);
    EXPECT_NE(info->tx_attr->caps & FI_FENCE, 0u);
    EXPECT_NE(info->domain_attr->caps & FI_REMOTE_COMM, 0u);
    constexpr std::uint64_t of_domain = FI_LOCAL_COMM | FI_REMOTE_COMM;
    EXPECT_EQ(info->tx_attr->caps & (of_domain | FI_MULTI_RECV | FI_RMA_EVENT | FI_RECV), 0u);
    EXPECT_EQ(info->rx_attr->caps & (of_domain | FI_FENCE | FI_SEND), 0u);
    fi_freeinfo(info);
}

/// What this program's test says with a setting, libfabric's warnings among it.
std::string output_with(const std::string& setting) {
    (void)environment();
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    const std::string command = "FI_LOG_LEVEL=warn " + setting + " '" + program +
                                "' --gtest_filter=Info.MemoryNeedsNoMode 2>&1";
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    std::string text;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
        text.push_back(static_cast<char>(c));
    }
    (void)::pclose(pipe);
    return text;
}

TEST(Settings, WrongOnesAreSaid) {
    const auto says = [](const std::string& setting, const char* what) {
        return output_with(setting).find(what) != std::string::npos;
    };
    for (const std::string size : {"abc", "-1", "65537", "5k", "''"}) {
        EXPECT_TRUE(says("FI_COMCH_EAGER_SIZE=" + size, "from 0 to 65536")) << size;
    }
    EXPECT_FALSE(says("FI_COMCH_EAGER_SIZE=65536", "EAGER_SIZE"));
    EXPECT_TRUE(says("FI_COMCH_HOST_DPU_ONLY=maybe", "FI_COMCH_HOST_DPU_ONLY=maybe: it is yes"));
    EXPECT_FALSE(says("FI_COMCH_HOST_DPU_ONLY=no", "HOST_DPU_ONLY"));
    EXPECT_TRUE(
        says("FI_COMCH_KEEP_REGISTRATIONS=some",
             "FI_COMCH_KEEP_REGISTRATIONS=some: it is own, windows, all or no; no is taken"));
    for (const char* const word : {"own", "windows", "all", "no", "yes", "off"}) {
        EXPECT_FALSE(
            says("FI_COMCH_KEEP_REGISTRATIONS=" + std::string(word), "KEEP_REGISTRATIONS"));
    }
    EXPECT_TRUE(says("FI_COMCH_SIDE=left", "left"));
    EXPECT_TRUE(says("FI_COMCH_SIDE=left", "FI_COMCH_SIDE"));
    EXPECT_TRUE(says("FI_COMCH_DEVICE=none", "FI_COMCH_DEVICE"));
}

TEST(Vector, NamesComeAndGo) {
    Node a;
    Node b;
    const auto name = b.name();
    const fi_addr_t first = a.add(name);
    EXPECT_EQ(a.add(name), first); // the same
    std::vector<char> back(name.size());
    std::size_t length = back.size();
    EXPECT_EQ(fi_av_lookup(a.av, first, back.data(), &length), 0);
    EXPECT_EQ(back, name);
    char text[128];
    length = sizeof(text);
    EXPECT_EQ(std::string(fi_av_straddr(a.av, name.data(), text, &length)).find("comch://"), 0u);
    fi_addr_t removed = first;
    EXPECT_EQ(fi_av_remove(a.av, &removed, 1, 0), 0);
    EXPECT_EQ(fi_av_lookup(a.av, first, back.data(), &length), 0); // inserted twice
    EXPECT_EQ(fi_av_remove(a.av, &removed, 1, 0), 0);
    EXPECT_NE(fi_av_lookup(a.av, first, back.data(), &length), 0);
    EXPECT_EQ(fi_av_remove(a.av, &removed, 1, 0), -FI_EINVAL);
    std::vector<char> wrong(name.size(), 'x');
    fi_addr_t address = 0;
    EXPECT_EQ(fi_av_insert(a.av, wrong.data(), 1, &address, 0, nullptr), 0);
    EXPECT_EQ(address, FI_ADDR_NOTAVAIL);
}

TEST(Vector, AnAddressOfAnotherDomainDoesNotDerailThoseBehindIt) {
    Node a;
    InfoHints hints;
    hints->ep_attr->type = FI_EP_RDM;
    fi_info* const named = query(hints.value, "kitchen");
    ASSERT_NE(named, nullptr);
    const auto* const bytes = static_cast<const char*>(named->dest_addr);
    const std::vector<char> own(bytes, bytes + named->dest_addrlen);
    fi_freeinfo(named);
    auto foreign = own;
    ASSERT_GT(own.size(), a.name().size());
    foreign[8] = static_cast<char>(~foreign[8]); // the domain's number
    std::vector<char> all = foreign;
    all.insert(all.end(), own.begin(), own.end());
    fi_addr_t addresses[2] = {};
    EXPECT_EQ(fi_av_insert(a.av, all.data(), 2, addresses, 0, nullptr), 1);
    EXPECT_EQ(addresses[0], FI_ADDR_NOTAVAIL);
    std::vector<char> back(own.size());
    std::size_t length = back.size();
    COMCH_FI(fi_av_lookup(a.av, addresses[1], back.data(), &length));
    EXPECT_EQ(back, own);
}

TEST(Vector, IsNotSharedBetweenProcesses) {
    Node node;
    fi_av_attr attr{};
    attr.name = "everybody's";
    fid_av* av = nullptr;
    EXPECT_EQ(fi_av_open(node.domain, &attr, &av, nullptr), -FI_ENOSYS);
    attr.name = nullptr;
    attr.map_addr = &attr; // where it would be shared: of no meaning without a name
    COMCH_FI(fi_av_open(node.domain, &attr, &av, nullptr));
    COMCH_FI(fi_close(&av->fid));
}

TEST(Vector, ReportsToAnEventQueue) {
    Node a;
    fi_eq_attr eq_attr{};
    fid_eq* eq = nullptr;
    COMCH_FI(fi_eq_open(a.fabric, &eq_attr, &eq, nullptr));
    fi_av_attr attr{};
    attr.flags = FI_EVENT;
    fid_av* av = nullptr;
    COMCH_FI(fi_av_open(a.domain, &attr, &av, nullptr));
    const auto name = a.name();
    EXPECT_EQ(fi_av_insert(av, name.data(), 1, nullptr, 0, &attr), -FI_ENOEQ);
    COMCH_FI(fi_av_bind(av, &eq->fid, 0));
    EXPECT_EQ(fi_av_insert(av, name.data(), 1, nullptr, 0, &attr), 0);
    std::uint32_t event = 0;
    fi_eq_entry entry{};
    EXPECT_EQ(fi_eq_read(eq, &event, &entry, sizeof(entry), 0),
              static_cast<ssize_t>(sizeof(entry)));
    EXPECT_EQ(event, static_cast<std::uint32_t>(FI_AV_COMPLETE));
    EXPECT_EQ(entry.context, &attr);
    EXPECT_EQ(entry.data, 1u);
    const char nonsense[256] = "no address";
    EXPECT_EQ(fi_av_insert(av, nonsense, 1, nullptr, 0, &attr), 0);
    EXPECT_EQ(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAVAIL);
    fi_eq_err_entry failure{};
    EXPECT_EQ(fi_eq_readerr(eq, &failure, 0), static_cast<ssize_t>(sizeof(failure)));
    EXPECT_EQ(failure.err, FI_EINVAL);
    EXPECT_EQ(failure.prov_errno, FI_EINVAL);
    EXPECT_EQ(fi_close(&eq->fid), -FI_EBUSY);
    EXPECT_EQ(fi_close(&av->fid), 0);
    EXPECT_EQ(fi_close(&eq->fid), 0);
}

TEST(PollSet, TellsWhoHasSomething) {
    NodeOptions options;
    options.counters = true;
    Pair pair(options);
    fi_poll_attr attr{};
    fid_poll* set = nullptr;
    COMCH_FI(fi_poll_open(pair.b.domain, &attr, &set));
    pair.b.rx->fid.context = &pair;
    COMCH_FI(fi_poll_add(set, &pair.b.rx->fid, 0));
    void* ready[4] = {};
    EXPECT_EQ(fi_poll(set, ready, 4), 0);
    char byte = 0;
    COMCH_FI(fi_recv(pair.b.ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
    post([&] { return fi_inject(pair.a.ep, "x", 1, pair.to_b); }, pair.cqs);
    while (fi_poll(set, ready, 4) == 0) {
    }
    EXPECT_EQ(ready[0], &pair);
    EXPECT_EQ(fi_close(&pair.b.rx->fid), -FI_EBUSY);
    EXPECT_EQ(fi_close(&set->fid), 0);
}

TEST(PollSet, WhatItHadNoRoomForComesFirstNextTime) {
    const Node node;
    fi_poll_attr nothing{};
    fid_poll* set = nullptr;
    COMCH_FI(fi_poll_open(node.domain, &nothing, &set));
    fid_cntr* counters[3] = {};
    for (fid_cntr*& cntr : counters) {
        fi_cntr_attr attr{};
        COMCH_FI(fi_cntr_open(node.domain, &attr, &cntr, &cntr));
        COMCH_FI(fi_poll_add(set, &cntr->fid, 0));
    }
    std::vector<void*> seen;
    for (int i = 0; i < 6; ++i) {
        for (fid_cntr* const cntr : counters) { // all have news all the time
            COMCH_FI(fi_cntr_add(cntr, 1));
        }
        void* ready = nullptr;
        ASSERT_EQ(fi_poll(set, &ready, 1), 1);
        seen.push_back(ready);
    }
    for (fid_cntr*& cntr : counters) {
        EXPECT_EQ(std::count(seen.begin(), seen.end(), &cntr), 2);
    }
    EXPECT_EQ(fi_close(&set->fid), 0);
    for (fid_cntr* const cntr : counters) {
        EXPECT_EQ(fi_close(&cntr->fid), 0);
    }
}

TEST(SharedReceives, ServeTheirEndpoints) {
    NodeOptions options;
    options.shared_receives = true;
    Node server(options);
    Node client;
    const fi_addr_t to = client.add(server.name());
    char byte = 0;
    EXPECT_NE(fi_recv(server.ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
    COMCH_FI(fi_recv(server.srx, &byte, 1, nullptr, FI_ADDR_UNSPEC, &byte));
    const std::vector<fid_cq*> cqs = {server.rx, client.rx, client.tx};
    post([&] { return fi_inject(client.ep, "x", 1, to); }, cqs);
    EXPECT_EQ(await(server.rx, cqs).entry.op_context, &byte);
    // Whom it is from does not matter where receives are not asked to be directed.
    COMCH_FI(fi_recv(server.srx, &byte, 1, nullptr, 0, &byte));
    post([&] { return fi_inject(client.ep, "x", 1, to); }, cqs);
    EXPECT_EQ(await(server.rx, cqs).entry.op_context, &byte);
    COMCH_FI(fi_trecv(server.srx, &byte, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, &byte));
    EXPECT_EQ(fi_cancel(&server.srx->fid, &byte), 0);
    EXPECT_EQ(await(server.rx, cqs).error, FI_ECANCELED);
}

} // namespace
} // namespace comch::ofi::test
