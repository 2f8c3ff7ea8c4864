// Settings: their effect, and what is said about bad ones.
#include "core/link/soft/tuning.hpp"
#include "test_uct.hpp"

namespace comch::uct::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Configuration : testing::Test {
    Lab lab;
    Log log;
};

struct Refused {
    const char* name;
    std::string value;
    ucs_status_t status;
    std::vector<const char*> said;
};

TEST_F(Configuration, OfTheMemoryDomainThatAreWrongAreNamed) {
    const std::string file = lab.path() + "-file";
    comch::test::write_file(file, "");
    for (const Refused& bad : std::vector<Refused>{
             {"SIDE", "left", UCS_ERR_INVALID_PARAM, {"left", "host", "dpu"}},
             {"DEVICE", "nosuch", UCS_ERR_UNREACHABLE, {"nosuch"}},
             {"DEVICE", "99:99.9", UCS_ERR_UNREACHABLE, {"99:99.9"}},
             {"DOMAIN", "not/absolute", UCS_ERR_INVALID_PARAM, {"not/absolute"}},
             {"DOMAIN", "/nonexistent-folder/x", UCS_ERR_UNREACHABLE, {"/nonexistent-folder"}},
             {"DOMAIN", file, UCS_ERR_REJECTED, {file.c_str(), "not a directory"}},
         }) {
        Log::lines().clear();
        const auto [md, status] = try_open_md({{bad.name, bad.value}});
        EXPECT_EQ(md, nullptr);
        EXPECT_EQ(status, bad.status) << bad.name << "=" << bad.value;
        EXPECT_EQ(log.count(UCS_LOG_LEVEL_ERROR), 1u) << log.text();
        for (const char* said : bad.said) {
            EXPECT_THAT(log.text(), HasSubstr(said));
        }
        EXPECT_THAT(log.text(), HasSubstr(std::string("comch: UCX_COMCH_") + bad.name));
    }
}

TEST_F(Configuration, OfTheInterfaceThatAreWrongAreNamed) {
    for (const char* value : {"0", "63", "100000", "4294967295"}) {
        Log::lines().clear();
        try {
            const Interface interface("host", {{"SHORT_MAX", value}});
            ADD_FAILURE() << value << " was accepted";
        } catch (const std::runtime_error&) {
        }
        EXPECT_THAT(log.text(), AllOf(HasSubstr("UCX_COMCH_SHORT_MAX"), HasSubstr(value)));
    }
    uct_iface_config_t* config = nullptr;
    const auto [md, status] = try_open_md({});
    ASSERT_EQ(status, UCS_OK);
    ASSERT_EQ(uct_md_iface_config_read(md, "comch", nullptr, nullptr, &config), UCS_OK);
    for (const auto& [name, value] : Settings{{"SHORT_MAX", "many"},
                                              {"BW", "fast"},
                                              {"LAT", "soon"},
                                              {"HOST_DPU_ONLY", "perhaps"}}) {
        EXPECT_LT(uct_config_modify(config, name.c_str(), value.c_str()), UCS_OK) << name;
    }
    uct_config_release(config);
    uct_md_close(md);
}

TEST_F(Configuration, AnAlignmentThatIsNoneIsRefused) {
    for (const auto& [wishes, said] : {std::pair{Wishes{.am_alignment = 0}, "aligned to 0"},
                                       std::pair{Wishes{.am_alignment = 3}, "aligned to 3"},
                                       std::pair{Wishes{.am_align_offset = 11}, "is 11"}}) {
        Log::lines().clear();
        EXPECT_THROW(Interface("host", {}, true, wishes), std::runtime_error) << said;
        EXPECT_THAT(log.text(), HasSubstr(said));
    }
    const Interface as_ucp("host", {}, true, {.am_alignment = 2, .am_align_offset = 8});
    EXPECT_NE(as_ucp.iface, nullptr);
}

TEST_F(Configuration, SayWhatTheInterfaceReports) {
    const Interface interface("host", {{"SHORT_MAX", "500"}, {"BW", "2000MBs"}, {"LAT", "3us"}});
    EXPECT_EQ(interface.attr.cap.am.max_short, 500u);
    EXPECT_NEAR(interface.attr.bandwidth.dedicated, 2000e6, 100e6);
    EXPECT_NEAR(interface.attr.latency.c, 3e-6, 1e-9);
}

TEST_F(Configuration, AnAutomaticBandwidthIsTheLinks) {
    const Interface usual("host");
    const Interface interface("host", {{"BW", "auto"}});
    EXPECT_EQ(interface.attr.bandwidth.dedicated, usual.attr.bandwidth.dedicated);
}

TEST_F(Configuration, OfTheEnvironmentAreRead) {
    uct_md_config_t* config = nullptr;
    const comch::test::ScopedEnvironment side({{"UCX_COMCH_SIDE", "dpu"}, {"COMCH_SIDE", "host"}});
    ASSERT_EQ(uct_md_config_read(comch_component(), nullptr, nullptr, &config), UCS_OK);
    char value[256];
    ASSERT_EQ(uct_config_get(config, "SIDE", value, sizeof(value)), UCS_OK);
    EXPECT_STREQ(value, "dpu");
    uct_config_release(config);
}

TEST_F(Configuration, HostDpuOnlyKeepsPeersOfTheSameSideApart) {
    Interface host("host", {{"HOST_DPU_ONLY", "y"}});
    Interface same("host");
    Interface other("dpu");
    const auto reachable = [&](const Interface& from, const Interface& to) {
        const Address address = address_of(to);
        return uct_iface_is_reachable(
                   from.iface, reinterpret_cast<const uct_device_addr_t*>(address.device),
                   reinterpret_cast<const uct_iface_addr_t*>(address.iface)) != 0;
    };
    EXPECT_FALSE(reachable(host, same));
    EXPECT_FALSE(reachable(host, host));
    EXPECT_TRUE(reachable(host, other));
    EXPECT_TRUE(reachable(other, host));
    EXPECT_FALSE(reachable(same, host)); // whose setting is part of its address
    // Who comes all the same is refused.
    Endpoint unwanted(same, host);
    (void)uct_ep_am_short(unwanted, 0, 0, nullptr, 0);
    EXPECT_TRUE(until([&] { return same.failures.size() == 1; }, same, host));
    EXPECT_EQ(same.failures[0].status, UCS_ERR_REJECTED);
    EXPECT_TRUE(host.messages.empty());
    Endpoint wanted(other, host);
    ASSERT_EQ(uct_ep_am_short(wanted, 0, 0, nullptr, 0), UCS_OK);
    EXPECT_TRUE(until([&] { return host.messages.size() == 1; }, other, host));
}

TEST_F(Configuration, TheInterfaceDescribesItselfHonestly) {
    const Interface host("host");
    const uct_iface_attr_t& attr = host.attr;
    for (const std::uint64_t flag :
         {UCT_IFACE_FLAG_AM_SHORT, UCT_IFACE_FLAG_AM_BCOPY, UCT_IFACE_FLAG_AM_ZCOPY,
          UCT_IFACE_FLAG_PUT_SHORT, UCT_IFACE_FLAG_PUT_BCOPY, UCT_IFACE_FLAG_PUT_ZCOPY,
          UCT_IFACE_FLAG_GET_SHORT, UCT_IFACE_FLAG_GET_BCOPY, UCT_IFACE_FLAG_GET_ZCOPY,
          UCT_IFACE_FLAG_ATOMIC_CPU, UCT_IFACE_FLAG_PENDING, UCT_IFACE_FLAG_CONNECT_TO_IFACE,
          UCT_IFACE_FLAG_CB_SYNC, UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE, UCT_IFACE_FLAG_EP_CHECK}) {
        EXPECT_NE(attr.cap.flags & flag, 0u) << std::hex << flag;
    }
    EXPECT_EQ(attr.cap.flags & UCT_IFACE_FLAG_CONNECT_TO_EP, 0u);
    EXPECT_LE(attr.cap.am.max_iov, 29u) << "UCP keeps vectors on its stack";
    EXPECT_EQ(attr.bandwidth.dedicated, link::soft::tuning::bandwidth);
    EXPECT_EQ(attr.latency.c, link::soft::tuning::latency);
}

} // namespace
} // namespace comch::uct::test
