// A process that has as many descriptors open as it may have is told that, and not that it has no
// memory.
#include <cstdio>
#include <filesystem>

#include "core/base/test_descriptors.hpp"
#include "test_connection.hpp"

namespace comch::ofi::test {
namespace {

using comch::test::NoDescriptorLeft;

constexpr const char* limit_by_name = "ulimit -n";

TEST(Descriptors, ThatAreUsedUpAreAnErrorOfTheirOwn) {
    NodeOptions options;
    options.wait_object = FI_WAIT_FD;
    Node node(options);
    const fi_addr_t itself = node.add(node.name());
    Listener listener("descriptors");
    Node client(connected());
    fi_info* const there = query(listener.info, "descriptors");
    ASSERT_NE(there, nullptr);
    Event sent; // what a send lacks is told by its completion
    {
        const NoDescriptorLeft none;
        fid_fabric* fabric = nullptr;
        EXPECT_EQ(fi_fabric(node.info->fabric_attr, &fabric, nullptr), -FI_EMFILE);
        fid_ep* ep = nullptr;
        EXPECT_EQ(fi_endpoint(node.domain, node.info, &ep, nullptr), -FI_EMFILE);
        fid_pep* pep = nullptr;
        EXPECT_EQ(fi_passive_ep(listener.fabric, listener.info, &pep, nullptr), -FI_EMFILE);
        EXPECT_EQ(fi_connect(client.ep, there->dest_addr, nullptr, 0), -FI_EMFILE);
        EXPECT_EQ(fi_send(node.ep, "m", 1, nullptr, itself, nullptr), 0);
        sent = await(node.tx);
        int fd = -1;
        EXPECT_EQ(fi_control(&node.rx->fid, FI_GETWAIT, &fd), -FI_EMFILE);
    }
    fi_freeinfo(there);
    EXPECT_EQ(sent.error, FI_EMFILE);
    char text[200] = {};
    (void)fi_cq_strerror(node.tx, sent.failure.prov_errno, nullptr, text, sizeof(text));
    EXPECT_NE(std::string(text).find(limit_by_name), std::string::npos) << text;
    EXPECT_STREQ(fi_eq_strerror(listener.eq, FI_EMFILE, nullptr, nullptr, 0), text);
    // With some there again everything goes on.
    char got = 0;
    COMCH_FI(fi_recv(node.ep, &got, 1, nullptr, FI_ADDR_UNSPEC, nullptr));
    post([&] { return fi_send(node.ep, "m", 1, nullptr, itself, nullptr); }, {node.rx, node.tx});
    EXPECT_EQ(await(node.rx, {node.tx}).error, 0);
    EXPECT_EQ(got, 'm');
}

TEST(Descriptors, TheLogNamesTheirLimitEachTime) {
    (void)environment();
    const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    const std::string command =
        "FI_LOG_LEVEL=warn '" + program + "' --gtest_filter=Descriptors.ThatAreUsedUp* 2>&1";
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    int lines = 0;
    for (char line[1000]; std::fgets(line, sizeof(line), pipe) != nullptr;) {
        lines +=
            std::strstr(line, "libfabric:") == line && std::strstr(line, limit_by_name) ? 1 : 0;
    }
    EXPECT_EQ(::pclose(pipe), 0);
    EXPECT_EQ(lines, 6);
}

} // namespace
} // namespace comch::ofi::test
