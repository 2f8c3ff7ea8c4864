#include "rdma_sysfs.hpp"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "description.hpp"
#include "test_support.hpp"

namespace comch {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// A sysfs with what is put into it.
struct FakeSysfs {
    test::TempDir folder;
    fs::path root = folder / "sys";

    void put(const std::string& path, const std::string& text) {
        fs::create_directories((root / path).parent_path());
        test::write_file((root / path).string(), text + "\n");
    }
    void link(const std::string& path, const std::string& target) {
        fs::create_directories(root / target);
        fs::create_directories((root / path).parent_path());
        fs::create_directory_symlink(root / target, root / path);
    }
    void add_device(const std::string& name, const std::string& pci, const std::string& gid) {
        const std::string device = "devices/pci0000:00/" + pci;
        put(device + "/vendor", "0x15b3");
        put(device + "/device", "0xa2d6");
        link("class/infiniband/" + name + "/device", device);
        const std::string port = "class/infiniband/" + name + "/ports/1";
        put(port + "/state", "4: ACTIVE");
        put(port + "/gids/0", "fe80:0000:0000:0000:0e42:a1ff:fe12:3456");
        put(port + "/gids/1", gid);
        put(port + "/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000");
    }
    void add_interface(const std::string& name, const std::string& pci,
                       const std::string& switch_id, const std::string& port_name) {
        put("class/net/" + name + "/phys_switch_id", switch_id);
        put("class/net/" + name + "/phys_port_name", port_name);
        if (!pci.empty())
            fs::create_directories(root / ("devices/pci0000:00/" + pci + "/net/" + name));
    }
    std::vector<RdmaDeviceInfo> read() { return read_rdma_devices(root.string()); }
};

TEST(RdmaSysfs, AMachineWithoutDevicesHasNone) {
    FakeSysfs sysfs;
    EXPECT_THAT(sysfs.read(), IsEmpty());
}

TEST(RdmaSysfs, ADevicesAddressesAreThoseOfItsGids) {
    FakeSysfs sysfs;
    sysfs.add_device("mlx5_0", "0000:3b:00.0", "0000:0000:0000:0000:0000:ffff:0a4e:0001");
    sysfs.put("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "enp59s0f0");
    sysfs.put("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/1", "enp59s0f0");
    const auto devices = sysfs.read();
    ASSERT_EQ(devices.size(), 1u);
    EXPECT_EQ(devices[0].pci_address, "0000:3b:00.0");
    ASSERT_EQ(devices[0].ports.size(), 1u);
    EXPECT_EQ(devices[0].ports[0].state, "ACTIVE");
    EXPECT_THAT(devices[0].ports[0].addresses, ElementsAre("10.78.0.1"));
    EXPECT_THAT(devices[0].ports[0].interfaces, ElementsAre("enp59s0f0"));
}

TEST(RdmaSysfs, ABlueFieldWithTheHostsRepresentorsIsTheDpu) {
    FakeSysfs sysfs;
    sysfs.add_device("mlx5_0", "0000:03:00.0", "0000:0000:0000:0000:0000:ffff:0a4e:0002");
    sysfs.add_interface("p0", "0000:03:00.0", "abc", "p0");
    sysfs.add_interface("pf0hpf", "0000:03:00.0", "abc", "pf0hpf");
    sysfs.add_interface("pf0vf0", "0000:03:00.0", "abc", "pf0vf0");
    sysfs.add_interface("other", "", "def", "pf1hpf");
    const auto devices = sysfs.read();
    ASSERT_EQ(devices.size(), 1u);
    EXPECT_EQ(devices[0].side, Side::dpu);
    EXPECT_THAT(devices[0].representors, ElementsAre("pf0hpf", "pf0vf0"));
}

TEST(RdmaSysfs, TheKernelsOwnNamesOfThemAreKnownToo) {
    FakeSysfs sysfs;
    sysfs.add_device("mlx5_0", "0000:03:00.0", "0000:0000:0000:0000:0000:ffff:0a4e:0002");
    sysfs.add_interface("p0", "0000:03:00.0", "abc", "p0");
    sysfs.add_interface("pf0hpf", "0000:03:00.0", "abc", "c1pf0");
    sysfs.add_interface("pf0vf0", "0000:03:00.0", "abc", "c1pf0vf0");
    sysfs.add_interface("en3f0pf0sf0", "0000:03:00.0", "abc", "pf0sf0");
    sysfs.add_interface("odd", "0000:03:00.0", "abc", "pf");
    sysfs.add_interface("odder", "0000:03:00.0", "abc", "perf0");
    const auto devices = sysfs.read();
    ASSERT_EQ(devices.size(), 1u);
    EXPECT_EQ(devices[0].side, Side::dpu);
    EXPECT_THAT(devices[0].representors, UnorderedElementsAre("c1pf0", "c1pf0vf0", "pf0sf0"));
}

TEST(RdmaSysfs, AScalableFunctionIsWhereItsPfIs) {
    FakeSysfs sysfs;
    sysfs.add_device("mlx5_0", "0000:03:00.0", "0000:0000:0000:0000:0000:ffff:0a4e:0009");
    sysfs.add_interface("p0", "0000:03:00.0", "abc", "p0");
    sysfs.add_interface("pf0hpf", "0000:03:00.0", "abc", "c1pf0");
    sysfs.link("class/infiniband/mlx5_2/device", "devices/pci0000:00/0000:03:00.0/mlx5_core.sf.4");
    const auto devices = sysfs.read();
    ASSERT_EQ(devices.size(), 2u);
    EXPECT_EQ(devices[1].pci_address, "0000:03:00.0");
    EXPECT_EQ(devices[1].side, Side::dpu);
}

TEST(RdmaSysfs, ABlueFieldWithoutThemIsOnTheHost) {
    FakeSysfs sysfs;
    sysfs.add_device("mlx5_0", "0000:3b:00.0", "0000:0000:0000:0000:0000:ffff:0a4e:0001");
    sysfs.add_interface("enp59s0f0", "0000:3b:00.0", "abc", "p0");
    sysfs.add_interface("eth0", "", "abc", "pf0vf0"); // of a virtual function of its own
    EXPECT_EQ(sysfs.read().at(0).side, Side::host);
}

TEST(RdmaSysfs, AnyOtherDeviceIsOnNoSideByItself) {
    FakeSysfs sysfs;
    sysfs.add_device("rxe0", "0000:3b:00.0", "0000:0000:0000:0000:0000:ffff:0a4e:0001");
    sysfs.put("devices/pci0000:00/0000:3b:00.0/device", "0x1017");
    EXPECT_EQ(sysfs.read().at(0).side, std::nullopt);
}

TEST(RdmaSysfs, TheDescriptionSaysWhichFunctionAnAddressIs) {
    FakeSysfs sysfs;
    sysfs.add_device("rxe0", "0000:3b:00.0", "0000:0000:0000:0000:0000:ffff:0a4e:0001");
    const auto description = parse_description(R"(
[domain]
name = "vm"
transport = "rdma"
[dpu]
name = "dpu0"
pci = "03:00.0"
address = "10.78.0.2"
[[host]]
name = "pf0"
kind = "PF"
pci = "3b:00.0"
address = "10.78.0.1"
)",
                                               "test");
    ASSERT_TRUE(description) << description.error().message;
    const Function* const function = function_of(sysfs.read().at(0), *description);
    ASSERT_NE(function, nullptr);
    EXPECT_EQ(function->name, "pf0");
    EXPECT_TRUE(is_here(description->host.at(0), sysfs.read()));
    EXPECT_FALSE(is_here(description->dpu, sysfs.read()));
    EXPECT_FALSE(is_here(description->host.at(0), {}));
    EXPECT_EQ(side_of(sysfs.read(), *description), Side::host);
    EXPECT_EQ(side_of({}, *description), std::nullopt);
    sysfs.add_device("rxe1", "0000:03:00.0", "0000:0000:0000:0000:0000:ffff:0a4e:0002");
    EXPECT_EQ(side_of(sysfs.read(), *description), std::nullopt) << "both are here";
    EXPECT_EQ(side_of({sysfs.read().at(1)}, *description), Side::dpu);
}

} // namespace
} // namespace comch
