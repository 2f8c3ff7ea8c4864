// Devices and representors, as programs look for them.
#include <algorithm>
#include <set>
#include <string>

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
              DOCA_ERROR_NOT_PERMITTED);
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
}

} // namespace
