// Devices and representors, as programs look for them.
#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include <net/if.h>

#include "doca_comch/comch/test_support.hpp"

namespace {

using namespace comch::doca::test;

std::string address_of(const doca_devinfo* info) {
    char address[DOCA_DEVINFO_PCI_ADDR_SIZE] = {};
    EXPECT_OK(doca_devinfo_get_pci_addr_str(info, address));
    return address;
}

TEST(DocaDevice, AreFoundByAddressCapabilityAndName) {
    const Lab lab;
    doca_devinfo** list = nullptr;
    std::uint32_t count = 0;
    ASSERT_OK(doca_devinfo_create_list(&list, &count));
    ASSERT_GE(count, 2u);
    EXPECT_EQ(list[count], nullptr);
    std::set<std::string> vuids;
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::string address = address_of(list[i]);
        std::uint8_t equal = 0;
        EXPECT_OK(doca_devinfo_is_equal_pci_addr(list[i], address.c_str(), &equal));
        EXPECT_EQ(equal, 1);
        EXPECT_OK(doca_devinfo_is_equal_pci_addr(list[i], "0000:7f:1f.7", &equal));
        EXPECT_EQ(equal, 0);
        EXPECT_EQ(doca_devinfo_is_equal_pci_addr(list[i], "no address", &equal),
                  DOCA_ERROR_INVALID_VALUE);
        char text[DOCA_DEVINFO_VUID_SIZE] = {};
        EXPECT_OK(doca_devinfo_get_vuid(list[i], text, sizeof(text)));
        EXPECT_TRUE(vuids.insert(text).second) << text;
        EXPECT_EQ(doca_devinfo_get_vuid(list[i], text, 2), DOCA_ERROR_INVALID_VALUE);
        char name[DOCA_DEVINFO_IFACE_NAME_SIZE] = {};
        EXPECT_OK(doca_devinfo_get_iface_name(list[i], name, sizeof(name)));
        EXPECT_STRNE(name, "");
        std::uint32_t number = 0;
        const unsigned known = ::if_nametoindex(name);
        EXPECT_EQ(doca_devinfo_get_iface_index(list[i], &number),
                  known != 0 ? DOCA_SUCCESS : DOCA_ERROR_NOT_FOUND);
        EXPECT_EQ(number, known);
        EXPECT_NE(doca_comch_cap_server_is_supported(list[i]) == DOCA_SUCCESS,
                  doca_comch_cap_client_is_supported(list[i]) == DOCA_SUCCESS);
        doca_pci_func_type type{};
        EXPECT_OK(doca_devinfo_get_pci_func_type(list[i], &type));
        std::uint32_t index = 0;
        EXPECT_EQ(doca_devinfo_get_sf_index(list[i], &index) == DOCA_SUCCESS,
                  type == DOCA_PCI_FUNC_TYPE_SF);
    }
    // An opened one outlives the list, and opening it again gives the same.
    doca_dev* device = nullptr;
    doca_dev* again = nullptr;
    ASSERT_OK(doca_dev_open(list[0], &device));
    const std::string address = address_of(list[0]);
    EXPECT_OK(doca_dev_open(list[0], &again));
    EXPECT_EQ(device, again);
    EXPECT_OK(doca_devinfo_destroy_list(list));
    EXPECT_EQ(address_of(doca_dev_as_devinfo(device)), address);
    EXPECT_OK(doca_dev_close(again));
    EXPECT_OK(doca_dev_close(device));
}

TEST(DocaDevice, ADpuListsRepresentorsOfTheHostsFunctions) {
    const Lab lab;
    std::uint8_t supported = 0;
    const doca_devinfo* const dpu = doca_dev_as_devinfo(lab.dpu);
    EXPECT_OK(doca_devinfo_rep_cap_is_filter_net_supported(dpu, &supported));
    EXPECT_EQ(supported, 1);
    EXPECT_OK(
        doca_devinfo_rep_cap_is_filter_net_supported(doca_dev_as_devinfo(lab.host), &supported));
    EXPECT_EQ(supported, 0);
    doca_devinfo_rep** list = nullptr;
    std::uint32_t all = 0;
    ASSERT_OK(doca_devinfo_rep_create_list(lab.dpu, DOCA_DEVINFO_REP_FILTER_ALL, &list, &all));
    ASSERT_GE(all, 1u);
    std::set<std::string> vuids;
    for (std::uint32_t i = 0; i < all; ++i) {
        char vuid[DOCA_DEVINFO_REP_VUID_SIZE] = {};
        EXPECT_OK(doca_devinfo_rep_get_vuid(list[i], vuid, sizeof(vuid)));
        EXPECT_TRUE(vuids.insert(vuid).second) << vuid;
        char address[DOCA_DEVINFO_REP_PCI_ADDR_SIZE] = {};
        EXPECT_OK(doca_devinfo_rep_get_pci_addr_str(list[i], address));
        std::uint8_t equal = 0;
        EXPECT_OK(doca_devinfo_rep_is_equal_pci_addr(list[i], address, &equal));
        EXPECT_EQ(equal, 1);
    }
    EXPECT_OK(doca_devinfo_rep_destroy_list(list));
    std::uint32_t count = 0;
    ASSERT_OK(doca_devinfo_rep_create_list(lab.dpu, DOCA_DEVINFO_REP_FILTER_NET, &list, &count));
    EXPECT_EQ(count, all);
    EXPECT_OK(doca_devinfo_rep_destroy_list(list));
    EXPECT_EQ(
        doca_devinfo_rep_create_list(lab.dpu, DOCA_DEVINFO_REP_FILTER_EMULATED, &list, &count),
        DOCA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(doca_devinfo_rep_create_list(lab.host, DOCA_DEVINFO_REP_FILTER_NET, &list, &count),
              DOCA_ERROR_NOT_SUPPORTED);
}

/// A domain with every kind of function on two PFs.
constexpr const char* two_pfs = R"(
[dpu]
name = "dpu0"
pci  = "03:00.0"
[[host]]
name = "pf0"
kind = "PF"
pci  = "3b:00.0"
[[host]]
name  = "pf1"
kind  = "PF"
index = 1
pci   = "5e:00.0"
[[host]]
name  = "vf"
kind  = "VF"
index = 4
pci   = "5e:00.6"
[[host]]
name  = "sf"
kind  = "SF"
index = 88
pci   = "3b:00.0"
)";

TEST(DocaDevice, RepresentorsTellWhichFunctionTheyStandFor) {
    const comch::test::TempDir directory;
    std::ofstream(directory / "two.toml") << two_pfs;
    const comch::test::ScopedEnvironment environment{{"COMCH_DOMAIN", directory / "domain"},
                                                     {"COMCH_SIDE", std::nullopt},
                                                     {"COMCH_DOMAIN_FILE", directory / "two.toml"}};
    doca_devinfo** devices = nullptr;
    std::uint32_t count = 0;
    ASSERT_OK(doca_devinfo_create_list(&devices, &count));
    ASSERT_EQ(count, 5u); // the DPU's first
    doca_dev* dpu = nullptr;
    ASSERT_OK(doca_dev_open(devices[0], &dpu));
    doca_devinfo_rep** list = nullptr;
    std::uint32_t found = 0;
    ASSERT_OK(doca_devinfo_rep_create_list(dpu, DOCA_DEVINFO_REP_FILTER_NET, &list, &found));
    ASSERT_EQ(found, 4u);
    constexpr std::uint32_t none = UINT32_MAX;
    struct Expected {
        std::uint32_t pf, vf, sf;
    };
    const Expected expected[] = {{0, none, none}, {1, none, none}, {1, 4, none}, {0, none, 88}};
    const auto index = [&](auto get, const doca_devinfo_rep* info) {
        std::uint32_t value = none;
        const doca_error_t result = get(info, &value);
        EXPECT_EQ(result, value == none ? DOCA_ERROR_NOT_SUPPORTED : DOCA_SUCCESS);
        return value;
    };
    std::set<std::uint16_t> ids;
    for (std::uint32_t i = 0; i < found; ++i) {
        EXPECT_EQ(index(doca_devinfo_rep_get_host_index, list[i]), 1u);
        EXPECT_EQ(index(doca_devinfo_rep_get_pf_index, list[i]), expected[i].pf) << i;
        EXPECT_EQ(index(doca_devinfo_rep_get_vf_index, list[i]), expected[i].vf) << i;
        EXPECT_EQ(index(doca_devinfo_rep_get_sf_index, list[i]), expected[i].sf) << i;
        std::uint8_t plugged = 1;
        EXPECT_OK(doca_devinfo_rep_get_is_hotplug(list[i], &plugged));
        EXPECT_EQ(plugged, 0);
        // Both sides find each other's objects by it.
        std::uint16_t of_representor = 0;
        std::uint16_t of_function = 0;
        EXPECT_OK(doca_devinfo_rep_get_vhca_id(list[i], &of_representor));
        EXPECT_OK(doca_devinfo_get_vhca_id(devices[i + 1], &of_function));
        EXPECT_EQ(of_representor, of_function) << i;
        EXPECT_TRUE(ids.insert(of_function).second) << i;
        EXPECT_EQ(doca_devinfo_rep_get_pf_index(list[i], nullptr), DOCA_ERROR_INVALID_VALUE);
    }
    std::uint16_t of_dpu = 0;
    EXPECT_OK(doca_devinfo_get_vhca_id(devices[0], &of_dpu));
    EXPECT_TRUE(ids.insert(of_dpu).second);
    EXPECT_OK(doca_devinfo_rep_destroy_list(list));
    EXPECT_OK(doca_dev_close(dpu));
    EXPECT_OK(doca_devinfo_destroy_list(devices));
}

TEST(DocaDevice, NullsAreRefused) {
    const Lab lab;
    std::uint32_t count = 0;
    EXPECT_EQ(doca_devinfo_create_list(nullptr, &count), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_devinfo_destroy_list(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dev_open(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dev_close(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dev_as_devinfo(nullptr), nullptr);
    EXPECT_EQ(doca_devinfo_get_pci_addr_str(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_devinfo_rep_create_list(nullptr, 0, nullptr, &count), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dev_rep_open(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dev_rep_close(nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_devinfo_get_vhca_id(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_devinfo_rep_get_host_index(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_devinfo_rep_get_pf_index(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_devinfo_rep_get_vf_index(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_devinfo_rep_get_sf_index(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_devinfo_rep_get_is_hotplug(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_devinfo_rep_get_vhca_id(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_devinfo_get_iface_index(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_devinfo_cap_is_accelerate_resource_reclaim_supported(nullptr, nullptr),
              DOCA_ERROR_INVALID_VALUE);
    EXPECT_EQ(doca_dev_accelerate_resource_reclaim(nullptr), DOCA_ERROR_INVALID_VALUE);
    std::uint8_t accelerated = 1;
    EXPECT_OK(doca_devinfo_cap_is_accelerate_resource_reclaim_supported(
        doca_dev_as_devinfo(lab.host), &accelerated));
    EXPECT_EQ(accelerated, 0);
    EXPECT_EQ(doca_dev_accelerate_resource_reclaim(lab.host), DOCA_ERROR_NOT_SUPPORTED);
    std::uint64_t rate = 0; // a whole number of bits per second
    EXPECT_EQ(doca_devinfo_get_active_rate(doca_dev_as_devinfo(lab.host), &rate),
              DOCA_ERROR_NOT_SUPPORTED);
}

} // namespace
