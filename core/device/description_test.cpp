#include "description.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/base/unique_fd.hpp"
#include "function.hpp"
#include "test_support.hpp"

namespace comch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// The smallest description there is, with room for more host functions behind it.
const std::string smallest = R"(
[dpu]
name = "dpu0"
pci = "03:00.0"
[[host]]
name = "pf0"
kind = "PF"
pci = "3B:00.0"
)";

std::string message_for(const std::string& text) {
    const auto description = parse_description(text, "/etc/lab.toml");
    if (description)
        return "(was accepted)";
    EXPECT_EQ(description.error().code, Errc::invalid_argument);
    EXPECT_THAT(description.error().message, HasSubstr("/etc/lab.toml"));
    return description.error().message;
}

TEST(Description, BuiltInDefaultSaysTheSameAsTheSampleFile) {
    const auto path = std::filesystem::path(__FILE__).parent_path() / "../../config/domain.toml";
    std::ifstream file(path);
    ASSERT_TRUE(file) << path;
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto sample = parse_description(text, path.string());
    const auto builtin = parse_description(default_description_text(), "built-in default");
    ASSERT_TRUE(sample) << sample.error().message;
    ASSERT_TRUE(builtin) << builtin.error().message;
    EXPECT_EQ(sample->dpu, builtin->dpu);
    EXPECT_EQ(sample->host, builtin->host);

    EXPECT_EQ(builtin->dpu.id, dpu_function_id);
    EXPECT_EQ(builtin->dpu.side, Side::dpu);
    ASSERT_EQ(builtin->host.size(), 3u);
    EXPECT_EQ(builtin->host[0].kind, FunctionKind::pf);
    EXPECT_EQ(builtin->host[1].kind, FunctionKind::vf);
    EXPECT_EQ(builtin->host[2].kind, FunctionKind::vf);
}

TEST(Description, OptionalKeysHaveDefaults) {
    const auto description = parse_description(smallest, "s");
    ASSERT_TRUE(description) << description.error().message;
    const auto& pf = description->host.at(0);
    EXPECT_EQ(pf.pci_address, "0000:3b:00.0");
    EXPECT_EQ(pf.index, 0u);
    EXPECT_EQ(pf.vuid, "pf0");
    EXPECT_EQ(pf.iface, "");
    EXPECT_EQ(pf.mac, std::nullopt);
}

TEST(Description, EveryKeyIsRead) {
    const auto description = parse_description(smallest + R"(
[[host]]
name = "sf4"
kind = "sf"
index = 4
pci = "0000:3b:00.0"
iface = "enp1s4"
representor_iface = "en3f0pf0sf4"
vuid = "some text"
mac = "02:c0:3C:00:01:ff"
)",
                                               "s");
    ASSERT_TRUE(description) << description.error().message;
    const auto& sf = description->host.at(1);
    EXPECT_EQ(sf.side, Side::host);
    EXPECT_EQ(sf.kind, FunctionKind::sf);
    EXPECT_EQ(sf.index, 4u);
    EXPECT_EQ(sf.pci_address, "0000:3b:00.0");
    EXPECT_EQ(sf.iface, "enp1s4");
    EXPECT_EQ(sf.representor_iface, "en3f0pf0sf4");
    EXPECT_EQ(sf.vuid, "some text");
    EXPECT_EQ(sf.mac, (MacAddress{0x02, 0xc0, 0x3c, 0x00, 0x01, 0xff}));
}

TEST(Description, AFunctionsIdDependsOnNothingElseInTheFile) {
    const std::string vf = "[[host]]\nname='vf'\nkind='VF'\npci='3b:00.2'\n";
    const std::string other = "[[host]]\nname='other'\nkind='VF'\npci='3b:00.7'\n";
    const auto alone = parse_description(smallest + vf, "s");
    const auto behind = parse_description(smallest + other + vf, "s");
    ASSERT_TRUE(alone && behind);
    EXPECT_EQ(alone->host.at(1).id, behind->host.at(2).id);
    EXPECT_NE(behind->host.at(1).id, behind->host.at(2).id);
    EXPECT_NE(alone->host.at(1).id, dpu_function_id);
}

TEST(Description, AFunctionsIdNeverChangesBecauseItIsOnTheWire) {
    EXPECT_EQ(host_function_id("0000:3b:00.0", FunctionKind::pf, 0), 0x7fae8cd8u);
    EXPECT_EQ(host_function_id("0000:3b:00.0", FunctionKind::sf, 4), 0x1da83e5eu);
}

TEST(Description, BadTomlIsRefusedWithItsLine) {
    EXPECT_THAT(message_for("[dpu]\nname = \"dpu0\"\npci = 03:00.0\n"),
                AllOf(HasSubstr("line 3"), HasSubstr("not valid TOML")));
    EXPECT_THAT(message_for("[dpu"), HasSubstr("not valid TOML"));
    EXPECT_THAT(message_for(smallest + "index = 99999999999999999999999\n"),
                AllOf(HasSubstr("line 9"), HasSubstr("out of range")));
}

TEST(Description, WhatIsMissingIsNamed) {
    EXPECT_THAT(message_for(""), HasSubstr("[dpu]"));
    EXPECT_THAT(message_for("[dpu]\nname='d'\npci='03:00.0'\n"), HasSubstr("[[host]]"));
    EXPECT_THAT(message_for("host=[]\n[dpu]\nname='d'\npci='03:00.0'\n"),
                HasSubstr("at least one"));
    EXPECT_THAT(message_for(smallest + "[[host]]\nkind='VF'\npci='3b:00.2'\n"),
                AllOf(HasSubstr("'name'"), HasSubstr("missing")));
    EXPECT_THAT(message_for(smallest + "[[host]]\nname='vf0'\npci='3b:00.2'\n"),
                AllOf(HasSubstr("'vf0'"), HasSubstr("'kind'"), HasSubstr("missing")));
    EXPECT_THAT(message_for(smallest + "[[host]]\nname='vf0'\nkind='VF'\n"),
                AllOf(HasSubstr("'vf0'"), HasSubstr("'pci'"), HasSubstr("missing")));
}

TEST(Description, BadValuesAreNamedWithTheirKeyAndLine) {
    const auto with = [](const std::string& line) {
        return message_for(smallest + "[[host]]\nname='vf0'\nkind='VF'\npci='3b:00.2'\n" + line);
    };
    EXPECT_THAT(with("index = -1"), AllOf(HasSubstr("'index'"), HasSubstr("-1")));
    EXPECT_THAT(with("index = 70000"), HasSubstr("70000"));
    EXPECT_THAT(with("index = 'x'"), HasSubstr("'index'"));
    EXPECT_THAT(with("vuid = 7"), AllOf(HasSubstr("'vuid'"), HasSubstr("line 13")));
    EXPECT_THAT(with("mac = '02:c0'"), AllOf(HasSubstr("'mac'"), HasSubstr("02:c0")));
    EXPECT_THAT(with("mac = '02:c0:3c:00:01:0g'"), HasSubstr("'mac'"));
    EXPECT_THAT(with("mac = '02-c0-3c-00-01-00'"), HasSubstr("'mac'"));
    EXPECT_THAT(with("iface = 'longer_than_linux_allows'"), HasSubstr("'iface'"));
    EXPECT_THAT(with("iface = \"a\\nb\""), HasSubstr("control character"));
    EXPECT_THAT(with("ifcae = 'p0'"), AllOf(HasSubstr("'ifcae'"), HasSubstr("iface")));
    EXPECT_THAT(message_for(smallest + "[[host]]\nname='vf0'\nkind='XF'\npci='3b:00.2'\n"),
                AllOf(HasSubstr("'kind'"), HasSubstr("xf")));
    EXPECT_THAT(message_for(smallest + "[[host]]\nname='vf0'\nkind='VF'\npci='3b:00.9'\n"),
                AllOf(HasSubstr("'pci'"), HasSubstr("3b:00.9")));
    for (const std::string name :
         {"a/b", "a,b", "a:1", "-a", ".a", "a b", "3b:00.2", "a_name_that_is_longer_than_31_ch"})
        EXPECT_THAT(
            message_for(smallest + "[[host]]\nname='" + name + "'\nkind='VF'\npci='3b:00.2'\n"),
            HasSubstr("'name'"))
            << name;
    EXPECT_THAT(message_for(smallest + "[link]\nkind='soft'\n"), HasSubstr("'link'"));
    EXPECT_THAT(message_for("host = 3\n[dpu]\nname='d'\npci='03:00.0'\n"), HasSubstr("[[host]]"));
    EXPECT_THAT(message_for("dpu = 3\n[[host]]\nname='p'\nkind='PF'\npci='03:00.0'\n"),
                HasSubstr("[dpu]"));
}

TEST(Description, MoreThanOneDpuIsRefusedWithTheWayOut) {
    EXPECT_THAT(message_for("[[dpu]]\nname='a'\npci='03:00.0'\n[[dpu]]\nname='b'\npci='04:00.0'\n"
                            "[[host]]\nname='p'\nkind='PF'\npci='3b:00.0'\n"),
                AllOf(HasSubstr("2 DPUs"), HasSubstr("COMCH_DOMAIN")));
}

TEST(Description, WhatMustBeUniqueIs) {
    const auto second = [](const std::string& keys) {
        return message_for(smallest + "[[host]]\n" + keys);
    };
    EXPECT_THAT(second("name='pf1'\nkind='PF'\npci='0000:3b:00.0'\n"),
                AllOf(HasSubstr("'pf0'"), HasSubstr("'pf1'"), HasSubstr("0000:3b:00.0")));
    EXPECT_THAT(second("name='pf0'\nkind='VF'\npci='3b:00.2'\n"), HasSubstr("name 'pf0'"));
    EXPECT_THAT(second("name='dpu0'\nkind='VF'\npci='3b:00.2'\n"), HasSubstr("name 'dpu0'"));
    EXPECT_THAT(second("name='vf'\nkind='VF'\npci='3b:00.2'\nvuid='pf0'\n"),
                HasSubstr("vuid 'pf0'"));
    EXPECT_THAT(second("name='s1'\nkind='SF'\nindex=1\npci='3b:00.0'\n"
                       "[[host]]\nname='s2'\nkind='SF'\nindex=1\npci='3b:00.0'\n"),
                AllOf(HasSubstr("'s1'"), HasSubstr("'s2'")));
    EXPECT_THAT(second("name='s1'\nkind='SF'\npci='3b:00.1'\n"),
                AllOf(HasSubstr("'s1'"), HasSubstr("PF")));
}

TEST(Description, TheTwoSidesCountPciAddressesApart) {
    const auto description =
        parse_description(smallest + "[[host]]\nname='vf'\nkind='VF'\npci='03:00.0'\n", "s");
    EXPECT_TRUE(description) << description.error().message;
}

class DescriptionFile : public testing::Test {
protected:
    test::TempDir temp_;
    UniqueFd directory_{open((temp_ / "").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};

    Result<DomainDescription> load(const std::string& explicit_file = {}) {
        return load_description(directory_.get(), temp_ / "", explicit_file);
    }
};

TEST_F(DescriptionFile, TheNamedFileComesBeforeTheDirectorysAndThatBeforeTheDefault) {
    ASSERT_TRUE(load());
    EXPECT_EQ(load()->source, "built-in default");

    test::write_file(temp_ / "domain.toml", smallest);
    ASSERT_TRUE(load());
    EXPECT_EQ(load()->host.at(0).name, "pf0");
    EXPECT_THAT(load()->source, HasSubstr("domain.toml"));

    test::write_file(
        temp_ / "other.toml",
        "[dpu]\nname='d'\npci='03:00.0'\n[[host]]\nname='x'\nkind='PF'\npci='1:0.0'\n");
    ASSERT_TRUE(load(temp_ / "other.toml"));
    EXPECT_EQ(load(temp_ / "other.toml")->host.at(0).name, "x");
}

TEST_F(DescriptionFile, OneThatWasNamedAndIsNotThereIsAnError) {
    const auto description = load(temp_ / "absent.toml");
    ASSERT_FALSE(description);
    EXPECT_EQ(description.error().code, Errc::not_found);
    EXPECT_THAT(description.error().message,
                AllOf(HasSubstr("cannot open"), HasSubstr("absent.toml")));
}

TEST_F(DescriptionFile, WhatIsNoFileIsRefusedAtOnce) {
    ASSERT_EQ(mkfifo((temp_ / "fifo").c_str(), 0600), 0); // opening it could wait for a writer
    for (const auto& path : {temp_ / "fifo", temp_ / ""}) {
        const auto description = load(path);
        ASSERT_FALSE(description) << path;
        EXPECT_THAT(description.error().message, HasSubstr("not a regular file"));
    }
    ASSERT_EQ(symlink("/etc/passwd", (temp_ / "domain.toml").c_str()), 0);
    EXPECT_FALSE(load());
}

TEST_F(DescriptionFile, AnEndlessOneIsRefused) {
    test::write_file(temp_ / "huge.toml", std::string(2 * 1024 * 1024, '\n'));
    const auto description = load(temp_ / "huge.toml");
    ASSERT_FALSE(description);
    EXPECT_EQ(description.error().code, Errc::too_big);
}

/// `smallest` over RDMA, with room for more keys of [domain].
std::string over_rdma(const std::string& domain, const std::string& host_address = "10.0.0.1") {
    return "[domain]\ntransport = \"rdma\"\n" + domain + R"(
[dpu]
name = "dpu0"
pci = "03:00.0"
address = "10.0.0.2"
[[host]]
name = "pf0"
kind = "PF"
pci = "3b:00.0"
)" + (host_address.empty() ? "" : "address = \"" + host_address + "\"\n");
}

TEST(Description, WithoutADomainTableItIsTheSoftDevice) {
    const auto description = parse_description(smallest, "test");
    ASSERT_TRUE(description);
    EXPECT_EQ(description->transport, Transport::memory);
    EXPECT_EQ(description->name, "");
    EXPECT_EQ(description->dpu.address, "");
}

TEST(Description, OverRdmaItHasANameAddressesAndPorts) {
    const auto description = parse_description(
        over_rdma("name = \"lab\"\nfirst_port = 5000\nport_count = 10", "FD00::1"), "test");
    ASSERT_TRUE(description) << description.error().message;
    EXPECT_EQ(description->transport, Transport::rdma);
    EXPECT_EQ(description->name, "lab");
    EXPECT_EQ(description->first_port, 5000);
    EXPECT_EQ(description->port_count, 10);
    EXPECT_EQ(description->dpu.address, "10.0.0.2");
    EXPECT_EQ(description->host[0].address, "fd00::1");
}

TEST(Description, AnIpv4AddressIsTheSameInIpv6sForm) {
    const auto description =
        parse_description(over_rdma("name = \"lab\"", "::ffff:192.168.100.2"), "test");
    ASSERT_TRUE(description) << description.error().message;
    EXPECT_EQ(description->host[0].address, "192.168.100.2");
    EXPECT_THAT(message_for(over_rdma("name = \"lab\"", "::ffff:a00:2")),
                HasSubstr("'dpu0' and 'pf0' both have the address 10.0.0.2"));
}

TEST(Description, WhatRdmaCannotDoWithoutIsAskedFor) {
    EXPECT_THAT(message_for(over_rdma("")), HasSubstr("key 'name': is missing"));
    EXPECT_THAT(message_for(over_rdma("name = \"lab\"", "")), HasSubstr("'pf0' has no address"));
    EXPECT_THAT(message_for(over_rdma("name = \"lab\"", "10.0.0.2")),
                HasSubstr("'dpu0' and 'pf0' both have the address 10.0.0.2"));
    EXPECT_THAT(message_for(over_rdma("name = \"lab\"", "10.0.0")),
                HasSubstr("'10.0.0' is not an IP address"));
    EXPECT_THAT(message_for(over_rdma("name = \"a b\"")), HasSubstr("'a b' must be letters"));
    EXPECT_THAT(message_for(over_rdma("name = \"lab\"\nfirst_port = 80")),
                HasSubstr("80 is out of range; 1024 to 65535 are allowed"));
    for (const char* ports : {"first_port = 0", "first_port = 70000", "port_count = 0",
                              "port_count = 70000", "port_count = -1"})
        EXPECT_THAT(message_for(over_rdma(std::string("name = \"lab\"\n") + ports)),
                    HasSubstr("is out of range"))
            << ports;
    EXPECT_THAT(message_for(over_rdma("name = \"lab\"\nfirst_port = 65000\nport_count = 1000")),
                HasSubstr("more than there are"));
    EXPECT_THAT(message_for("[domain]\ntransport = \"tcp\"\n" + smallest),
                HasSubstr("'tcp' is not one of memory, rdma"));
}

} // namespace
} // namespace comch
