// Flags whose value is a device or a representor.
#include "doca_comch/argp/test_support.hpp"
#include "doca_comch/comch/test_support.hpp"

namespace {

using namespace comch::doca::test;
using testing::HasSubstr;

struct Devices {
    std::vector<doca_argp_device_ctx> devices;
    std::vector<doca_argp_device_rep_ctx> representors;
    doca_error_t answer = DOCA_SUCCESS;
};

class DocaArgpDevices : public DocaArgp {
protected:
    void SetUp() override {
        ASSERT_EQ(doca_argp_init("doca_test", &taken_), DOCA_SUCCESS);
        for (const Flag& flag :
             {Flag{"a", "device", "A device",
                   [](void*value, void*config) {
                       auto& taken = *static_cast<Devices*>(config);
                       taken.devices.push_back(*static_cast<doca_argp_device_ctx*>(value));
                       return taken.answer;
                   },
                   DOCA_ARGP_TYPE_DEVICE},
              Flag{"r", "rep", "A representor",
                   [](void*value, void*config) {
                       auto& taken = *static_cast<Devices*>(config);
                       taken.representors.push_back(*static_cast<doca_argp_device_rep_ctx*>(value));
                       return taken.answer;
                   },
                   DOCA_ARGP_TYPE_DEVICE_REP}}) {
            doca_argp_param* const param = make(flag);
            doca_argp_param_set_multiplicity(param);
            add(param);
        }
    }
    void TearDown() override {
        DocaArgp::TearDown();
        close_all();
    }
    /// As programs do: what they were given, but not the representors' devices.
    void close_all() {
        for (const doca_argp_device_rep_ctx& each : taken_.representors) {
            EXPECT_OK(doca_dev_rep_close(each.dev_rep));
        }
        for (const doca_argp_device_ctx& each : taken_.devices) {
            EXPECT_OK(doca_dev_close(each.dev));
        }
        taken_ = {};
    }
    static std::string address_of(const doca_dev* device) {
        char address[DOCA_DEVINFO_PCI_ADDR_SIZE] = {};
        EXPECT_OK(doca_devinfo_get_pci_addr_str(doca_dev_as_devinfo(device), address));
        return address;
    }
    static std::string interface_of(doca_dev_rep* representor) {
        char name[DOCA_DEVINFO_REP_IFACE_NAME_SIZE] = {};
        EXPECT_OK(doca_devinfo_rep_get_iface_name(doca_dev_rep_as_devinfo(representor), name,
                                                  sizeof(name)));
        return name;
    }

    const Lab lab_;
    Devices taken_;
};

TEST_F(DocaArgpDevices, AreFoundByAddressAndName) {
    for (const char* const name : {"pci/0000:3b:00.0", "pci/3b:00.0", "3b:00.0", "0000:3B:00.0",
                                   "host_pf0", "enp59s0f0np0"}) {
        ASSERT_EQ(start({"--device", name}), DOCA_SUCCESS) << name;
        ASSERT_EQ(taken_.devices.size(), 1u);
        EXPECT_EQ(address_of(taken_.devices[0].dev), "0000:3b:00.0");
        EXPECT_EQ(taken_.devices[0].devargs, nullptr);
        close_all();
    }
    ASSERT_EQ(start({"-j", json(R"({"doca_program_flags": {"device": ["pci/03:00.0", "p0"]}})")}),
              DOCA_SUCCESS);
    ASSERT_EQ(taken_.devices.size(), 2u);
    // Each is opened, so that each is closed; that it is the same is to be seen.
    EXPECT_EQ(taken_.devices[0].dev, taken_.devices[1].dev);
}

TEST_F(DocaArgpDevices, KeepTheirArguments) {
    ASSERT_EQ(start({"-a", "pci/3b:00.0,dv_flow_en=2,x=y", "-a", "3b:00.0,", "-r",
                     "pci/03:00.0,pf0vf0,dv_xmeta_en=4"}),
              DOCA_SUCCESS);
    // Programs keep the pointers and use them later.
    EXPECT_STREQ(taken_.devices[0].devargs, "dv_flow_en=2,x=y");
    EXPECT_EQ(taken_.devices[1].devargs, nullptr);
    EXPECT_STREQ(taken_.representors[0].dev_ctx.devargs, "dv_xmeta_en=4");
}

TEST_F(DocaArgpDevices, HaveRepresentorsByInterfaceNameAndAddress) {
    for (const char* const name :
         {"pf0vf1", "host_pf0vf1", "pci/3b:00.3", "0000:3b:00.3", "COMCH0000S0D0F0VF2"}) {
        ASSERT_EQ(start({"--rep", std::string("pci/03:00.0,") + name}), DOCA_SUCCESS) << name;
        EXPECT_EQ(interface_of(taken_.representors[0].dev_rep), "pf0vf1");
        EXPECT_EQ(address_of(taken_.representors[0].dev_ctx.dev), "0000:03:00.0");
        close_all();
    }
    ASSERT_EQ(start({"-r", "p0,pf0vf0", "-r", "dpu0,pf0vf1", "-a", "p0"}), DOCA_SUCCESS);
    EXPECT_EQ(taken_.representors[0].dev_ctx.dev, taken_.representors[1].dev_ctx.dev);
    doca_dev* const device = taken_.representors[0].dev_ctx.dev;
    close_all(); // the representors' device stays
    (void)doca_argp_destroy();
    EXPECT_EQ(address_of(device), "0000:03:00.0");
    EXPECT_OK(doca_dev_close(device));
}

TEST_F(DocaArgpDevices, ThatAreNotThereAreNamed) {
    const auto refused = [&](const std::string& flag, const std::string& value) {
        EXPECT_EQ(quiet_start({flag, value}), DOCA_ERROR_INVALID_VALUE) << value;
        return said_;
    };
    EXPECT_THAT(refused("-a", "pci/7f:1f.7"), HasSubstr("there is no device 'pci/7f:1f.7'"));
    EXPECT_THAT(refused("-a", "pci/host_pf0"), HasSubstr("no device"));
    EXPECT_THAT(refused("-a", ""), HasSubstr("no device"));
    EXPECT_THAT(refused("-r", "pci/03:00.0"), HasSubstr("names no representor"));
    EXPECT_THAT(refused("-r", "pci/03:00.0,pf7"), HasSubstr("has no representor 'pf7'"));
    EXPECT_THAT(refused("-r", "pci/3b:00.0,pf0vf0"), HasSubstr("that has representors")); // host's
    EXPECT_TRUE(taken_.devices.empty() && taken_.representors.empty());
    EXPECT_EQ(quiet_start({"-j", json(R"({"doca_program_flags": {"device": 3}})")}),
              DOCA_ERROR_INVALID_VALUE);
}

TEST_F(DocaArgpDevices, AreOpenedByTheProgramsCallback) {
    struct Opener {
        std::vector<std::string> opened;
        doca_error_t answer = DOCA_SUCCESS;
        bool forget = false;
    } opener;
    EXPECT_EQ(doca_argp_register_dev_open_callback(nullptr, nullptr), DOCA_ERROR_INVALID_VALUE);
    ASSERT_EQ(doca_argp_register_dev_open_callback(
                  [](doca_devinfo* info, void* context, doca_dev** device) {
                      auto& it = *static_cast<Opener*>(context);
                      char address[DOCA_DEVINFO_PCI_ADDR_SIZE] = {};
                      EXPECT_OK(doca_devinfo_get_pci_addr_str(info, address));
                      it.opened.emplace_back(address);
                      return it.answer != DOCA_SUCCESS || it.forget ? it.answer
                                                                    : doca_dev_open(info, device);
                  },
                  &opener),
              DOCA_SUCCESS);
    ASSERT_EQ(start({"-a", "3b:00.0", "-r", "p0,pf0vf0", "-r", "p0,pf0vf1"}), DOCA_SUCCESS);
    // Once for the device of both representors.
    EXPECT_THAT(opener.opened, testing::ElementsAre("0000:3b:00.0", "0000:03:00.0"));
    close_all();
    opener.answer = DOCA_ERROR_NOT_PERMITTED;
    EXPECT_EQ(quiet_start({"-a", "3b:00.0"}), DOCA_ERROR_NOT_PERMITTED);
    EXPECT_THAT(said_, HasSubstr("--device 3b:00.0: the device cannot be opened"));
    opener.answer = DOCA_SUCCESS;
    opener.forget = true; // says it did, and did not
    EXPECT_EQ(quiet_start({"-a", "3b:00.0"}), DOCA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(taken_.devices.empty());
}

TEST_F(DocaArgpDevices, RefusedByTheProgramEndTheStart) {
    taken_.answer = DOCA_ERROR_TOO_BIG;
    EXPECT_EQ(quiet_start({"-a", "3b:00.0", "-a", "3b:00.0"}), DOCA_ERROR_TOO_BIG);
    EXPECT_EQ(taken_.devices.size(), 1u); // it is open, and the program's to close
}

} // namespace
