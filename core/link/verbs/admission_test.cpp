#include "core/link/verbs/admission.hpp"

#include <cstring>

#include <gtest/gtest.h>

#include "core/device/test_support.hpp"

namespace comch::link::verbs {
namespace {

class Admission : public ::testing::Test {
protected:
    comch::test::TempDir folder;
    std::shared_ptr<Domain> domain;
    wire::Request request{};

    void SetUp() override {
        comch::test::write_file(folder / "domain.toml", R"(
[domain]
name = "lab"
transport = "rdma"
[dpu]
name = "dpu0"
pci = "03:00.0"
address = "10.0.0.2"
[[host]]
name = "pf0"
kind = "PF"
pci = "3b:00.0"
address = "10.0.0.1"
[[host]]
name = "vf0"
kind = "VF"
pci = "3b:00.2"
address = "10.0.0.3"
)");
        const comch::test::CleanEnvironment clean;
        domain = *Domain::open(
            {.directory = folder / "domain", .description_file = folder / "domain.toml"});
        std::memcpy(&request.domain, domain->id().bytes.data(), sizeof(request.domain));
        request.side = static_cast<std::uint8_t>(Side::host);
        request.function = domain->description().host[0].id;
    }
};

TEST_F(Admission, AFunctionAtItsAddressMayConnect) {
    EXPECT_EQ(check_claim(*domain, request, "10.0.0.1"), wire::Why::none);
    request.function = domain->description().host[1].id;
    EXPECT_EQ(check_claim(*domain, request, "10.0.0.3"), wire::Why::none);
    request.side = static_cast<std::uint8_t>(Side::dpu);
    request.function = dpu_function_id;
    EXPECT_EQ(check_claim(*domain, request, "10.0.0.2"), wire::Why::none);
}

TEST_F(Admission, WhoClaimsToBeAnotherIsRefused) {
    request.function = domain->description().host[1].id;
    EXPECT_EQ(check_claim(*domain, request, "10.0.0.1"), wire::Why::wrong_function);
    request.side = static_cast<std::uint8_t>(Side::dpu);
    request.function = dpu_function_id;
    EXPECT_EQ(check_claim(*domain, request, "10.0.0.1"), wire::Why::wrong_function);
}

TEST_F(Admission, WhoIsNotDescribedIsRefused) {
    EXPECT_EQ(check_claim(*domain, request, "10.0.0.9"), wire::Why::wrong_function);
    EXPECT_EQ(check_claim(*domain, request, ""), wire::Why::wrong_function);
    request.function ^= 1;
    EXPECT_EQ(check_claim(*domain, request, "10.0.0.1"), wire::Why::wrong_function);
    request.side = 2;
    EXPECT_EQ(check_claim(*domain, request, "10.0.0.1"), wire::Why::wrong_function);
}

TEST_F(Admission, AnotherDomainIsNobody) {
    request.domain ^= 1;
    EXPECT_EQ(check_claim(*domain, request, "10.0.0.1"), wire::Why::nobody);
}

TEST_F(Admission, TheIdIsMadeOfTheName) {
    const comch::test::CleanEnvironment clean;
    const auto elsewhere =
        *Domain::open({.directory = folder / "other", .description_file = folder / "domain.toml"});
    EXPECT_EQ(elsewhere->id(), domain->id()) << "two machines share no directory";
}

} // namespace
} // namespace comch::link::verbs
