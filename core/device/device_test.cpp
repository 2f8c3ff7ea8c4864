#include <comch/device.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "settings.hpp"
#include "test_support.hpp"

namespace comch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(PciAddress, ShortAndFullFormsInAnyCaseMeanTheSame) {
    for (const char* const address :
         {"3b:00.2", "3B:00.2", "0000:3b:00.2", "0000:3B:00.2", "3b:0.2"})
        EXPECT_EQ(normalize_pci_address(address).value(), "0000:3b:00.2") << address;
    EXPECT_EQ(normalize_pci_address("10af:ff:1f.7").value(), "10af:ff:1f.7");
}

TEST(PciAddress, AnythingElseIsRefused) {
    for (const char* const address : {"",
                                      ":",
                                      "3b",
                                      "3b:00",
                                      "3b.00:0",
                                      "3b:20.0",
                                      "3b:00.8",
                                      "3b:00.",
                                      ":00.0",
                                      "3b:.0",
                                      "103b:00.0",
                                      "10000:3b:00.0",
                                      "0:0:3b:00.0",
                                      " 3b:00.0",
                                      "3b:00.0 ",
                                      "0x3b:00.0",
                                      "-1:00.0",
                                      "+1:00.0",
                                      "3b:00.0.0",
                                      "host_pf0"}) {
        const auto result = normalize_pci_address(address);
        EXPECT_FALSE(result) << address;
        if (!result) {
            EXPECT_EQ(result.error().code, Errc::invalid_argument);
        }
    }
}

TEST(SideText, IsHostOrDpu) {
    EXPECT_EQ(parse_side("host").value(), Side::host);
    EXPECT_EQ(parse_side("DPU").value(), Side::dpu);
    EXPECT_EQ(parse_side("arm").error().code, Errc::invalid_argument);
    EXPECT_FALSE(parse_side(""));
}

class DeviceTest : public testing::Test {
protected:
    DeviceTest() {
        test::write_file(temp_ / "shape.toml", R"(
            [dpu]
            name = "dpu0"
            pci = "03:00.0"
            [[host]]
            name = "pf0"
            kind = "PF"
            pci = "3b:00.0"
            [[host]]
            name = "sf4"
            kind = "SF"
            index = 4
            pci = "3b:00.0"
            [[host]]
            name = "vf0"
            kind = "VF"
            pci = "3b:00.2"
            [[host]]
            name = "twin"
            kind = "VF"
            index = 1
            pci = "03:00.0"
        )");
        auto domain = Domain::open({temp_ / "dom", temp_ / "shape.toml"});
        if (!domain)
            throw std::runtime_error(domain.error().message);
        domain_ = *domain;
    }

    static std::string name(const Result<Device>& device) {
        return device ? device->function().name : "error: " + device.error().message;
    }

    test::CleanEnvironment environment_;
    test::TempDir temp_;
    std::shared_ptr<Domain> domain_;
};

TEST_F(DeviceTest, DevicesOfASideAreListedInTheFilesOrder) {
    std::vector<std::string> names;
    for (const auto& device : devices(domain_, Side::host)) {
        EXPECT_EQ(device.side(), Side::host);
        names.push_back(device.function().name);
    }
    EXPECT_THAT(names, testing::ElementsAre("pf0", "sf4", "vf0", "twin"));
    ASSERT_EQ(devices(domain_, Side::dpu).size(), 1u);
    EXPECT_EQ(devices(domain_, Side::dpu)[0].function().name, "dpu0");
    EXPECT_EQ(domain_->functions(Side::host).size(), 4u);
    EXPECT_EQ(domain_->functions(Side::dpu).size(), 1u);
}

TEST_F(DeviceTest, OpensByNameAndByAddress) {
    EXPECT_EQ(name(open_device(domain_, "vf0")), "vf0");
    EXPECT_EQ(name(open_device(domain_, "3b:00.2")), "vf0");
    EXPECT_EQ(name(open_device(domain_, "0000:3B:00.2")), "vf0");
    EXPECT_EQ(name(open_device(domain_, "dpu0")), "dpu0");
    EXPECT_EQ(open_device(domain_, "dpu0")->side(), Side::dpu);
    EXPECT_EQ(name(open_device(domain_, "sf4")), "sf4");
    EXPECT_EQ(name(open_device(domain_, "3b:00.0")), "pf0"); // not the SF that shares it
}

TEST_F(DeviceTest, AnAddressOnBothSidesNeedsTheSide) {
    const auto unclear = open_device(domain_, "03:00.0");
    ASSERT_FALSE(unclear);
    EXPECT_EQ(unclear.error().code, Errc::invalid_argument);
    EXPECT_THAT(unclear.error().message,
                AllOf(HasSubstr("dpu0"), HasSubstr("twin"), HasSubstr("COMCH_SIDE")));
    EXPECT_EQ(name(open_device(domain_, "03:00.0", Side::host)), "twin");
    EXPECT_EQ(name(open_device(domain_, "03:00.0", Side::dpu)), "dpu0");
}

TEST_F(DeviceTest, AnUnknownDeviceIsRefusedWithWhatThereIs) {
    for (const char* const wanted : {"mlx5_0", "VF0", "3b:00.7", ""}) {
        const auto device = open_device(domain_, wanted);
        ASSERT_FALSE(device) << wanted;
        EXPECT_EQ(device.error().code, Errc::not_found);
        EXPECT_THAT(device.error().message, AllOf(HasSubstr(wanted), HasSubstr("vf0"),
                                                  HasSubstr("0000:3b:00.2"), HasSubstr("dpu0")));
    }
    const auto other_side = open_device(domain_, "dpu0", Side::host);
    ASSERT_FALSE(other_side);
    EXPECT_THAT(other_side.error().message, HasSubstr("on the host side"));
}

TEST_F(DeviceTest, ADeviceKeepsItsDomain) {
    auto device = open_device(domain_, "vf0");
    std::weak_ptr<Domain> watch = domain_;
    domain_.reset();
    ASSERT_TRUE(device);
    EXPECT_EQ(device->function().pci_address, "0000:3b:00.2");
    device = open_device(device->domain(), "pf0");
    EXPECT_FALSE(watch.expired());
    device = tl::unexpected<Error>(Error{});
    EXPECT_TRUE(watch.expired());
}

TEST_F(DeviceTest, TheDpuHasARepresentorForEachHostFunction) {
    const auto dpu = open_device(domain_, "dpu0");
    ASSERT_TRUE(dpu);
    const auto all = dpu->representors();
    ASSERT_TRUE(all);
    ASSERT_EQ(all->size(), 4u);
    EXPECT_EQ((*all)[2].function().name, "vf0");
    EXPECT_EQ(dpu->representor("vf0")->function().name, "vf0");
    EXPECT_EQ(dpu->representor("3B:00.2")->function().name, "vf0");
    EXPECT_EQ(dpu->representor("03:00.0")->function().name, "twin"); // never the DPU itself
    const auto unknown = dpu->representor("dpu0");
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, Errc::not_found);
    EXPECT_THAT(unknown.error().message, AllOf(HasSubstr("'dpu0'"), HasSubstr("vf0")));
}

TEST_F(DeviceTest, TheHostHasNoRepresentors) {
    const auto pf = open_device(domain_, "pf0");
    ASSERT_TRUE(pf);
    EXPECT_EQ(pf->representors().error().code, Errc::not_permitted);
    EXPECT_EQ(pf->representor("vf0").error().code, Errc::not_permitted);
    EXPECT_THAT(pf->representor("vf0").error().message, HasSubstr("pf0"));
}

TEST_F(DeviceTest, CapabilitiesAreThoseOfItsSide) {
    EXPECT_EQ(open_device(domain_, "pf0")->capabilities(), capabilities_of(Side::host));
    EXPECT_EQ(open_device(domain_, "dpu0")->capabilities(), capabilities_of(Side::dpu));
}

TEST_F(DeviceTest, FunctionsAreFoundByTheirId) {
    for (const auto side : {Side::host, Side::dpu})
        for (const auto& function : domain_->functions(side)) {
            const auto* const found = domain_->find_function(function.id);
            ASSERT_NE(found, nullptr);
            EXPECT_EQ(*found, function);
        }
    EXPECT_EQ(domain_->find_function(dpu_function_id)->name, "dpu0");
    EXPECT_EQ(domain_->find_function(12345), nullptr);
}

TEST_F(DeviceTest, TheDefaultIsTheFirstHostFunction) {
    EXPECT_EQ(name(default_device(domain_)), "pf0");
}

TEST_F(DeviceTest, TheEnvironmentChoosesTheDefault) {
    {
        test::ScopedEnvironment set({{"COMCH_SIDE", "dpu"}});
        EXPECT_EQ(name(default_device(domain_)), "dpu0");
    }
    {
        test::ScopedEnvironment set({{"COMCH_DEVICE", "3b:00.2"}});
        EXPECT_EQ(name(default_device(domain_)), "vf0");
    }
    {
        test::ScopedEnvironment set({{"COMCH_DEVICE", "dpu0"}}); // brings its side along
        EXPECT_EQ(name(default_device(domain_)), "dpu0");
    }
    {
        test::ScopedEnvironment set({{"COMCH_DEVICE", "03:00.0"}, {"COMCH_SIDE", "host"}});
        EXPECT_EQ(name(default_device(domain_)), "twin");
    }
    {
        test::ScopedEnvironment set({{"COMCH_DEVICE", ""}, {"COMCH_SIDE", ""}}); // as if unset
        EXPECT_EQ(name(default_device(domain_)), "pf0");
    }
}

TEST_F(DeviceTest, AProgramsChoiceComesBeforeTheEnvironment) {
    test::ScopedEnvironment set({{"COMCH_SIDE", "host"}, {"COMCH_DEVICE", "vf0"}});
    EXPECT_EQ(name(default_device(domain_, {.side = {}, .device = "pf0"})), "pf0");
    EXPECT_EQ(name(default_device(domain_, {.side = "dpu", .device = "dpu0"})), "dpu0");
}

TEST_F(DeviceTest, ABadChoiceIsRefusedUnderTheNameOfItsSetting) {
    {
        test::ScopedEnvironment set({{"COMCH_SIDE", "arm"}});
        const auto device = default_device(domain_);
        ASSERT_FALSE(device);
        EXPECT_EQ(device.error().code, Errc::invalid_argument);
        EXPECT_THAT(device.error().message, AllOf(HasSubstr("COMCH_SIDE"), HasSubstr("'arm'")));
    }
    {
        test::ScopedEnvironment set({{"COMCH_DEVICE", "nope"}});
        const auto device = default_device(domain_);
        ASSERT_FALSE(device);
        EXPECT_EQ(device.error().code, Errc::not_found);
        EXPECT_THAT(device.error().message, AllOf(HasSubstr("COMCH_DEVICE"), HasSubstr("'nope'")));
    }
    const NamedSettings names({.side = "--side", .device = "--device"});
    EXPECT_THAT(default_device(domain_, {.side = "arm", .device = {}}).error().message,
                AllOf(testing::StartsWith("--side: "), HasSubstr("'arm'")));
    EXPECT_THAT(default_device(domain_, {.side = {}, .device = "nope"}).error().message,
                AllOf(testing::StartsWith("--device: "), HasSubstr("'nope'")));
    const auto contradiction = default_device(domain_, {.side = "dpu", .device = "pf0"});
    ASSERT_FALSE(contradiction);
    EXPECT_EQ(contradiction.error().code, Errc::not_found);
}

} // namespace
} // namespace comch
