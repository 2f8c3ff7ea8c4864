#include <comch/capabilities.hpp>

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace comch {
namespace {

TEST(Capabilities, ServersAreTheDpusAndClientsTheHosts) {
    const auto host = capabilities_of(Side::host);
    const auto dpu = capabilities_of(Side::dpu);
    EXPECT_FALSE(host.server_supported);
    EXPECT_TRUE(host.client_supported);
    EXPECT_TRUE(dpu.server_supported);
    EXPECT_FALSE(dpu.client_supported);
    for (const auto& caps : {host, dpu}) {
        EXPECT_TRUE(caps.producer_supported);
        EXPECT_TRUE(caps.consumer_supported);
    }
}

TEST(Capabilities, LimitsAreWhatProgramsAreBuiltFor) {
    const auto caps = capabilities_of(Side::host);
    EXPECT_EQ(caps.max_server_name_size, 120u);
    EXPECT_EQ(caps.max_message_size, 4080u);
    EXPECT_EQ(caps.max_clients_per_server, 512u);
    // The published getters answer with 32 bits, and 1 GiB must work.
    EXPECT_GE(caps.max_fast_path_buffer_size, std::uint64_t{1} << 30);
    EXPECT_LE(caps.max_fast_path_buffer_size, std::numeric_limits<std::uint32_t>::max());
    // The setters of the first generation take 16 bits.
    EXPECT_LE(caps.max_message_size, std::numeric_limits<std::uint16_t>::max());
    EXPECT_LE(caps.max_send_queue_depth, std::numeric_limits<std::uint16_t>::max());
    EXPECT_LE(caps.max_recv_queue_depth, std::numeric_limits<std::uint16_t>::max());
    for (const auto value :
         {caps.max_send_queue_depth, caps.max_recv_queue_depth, caps.max_producer_tasks,
          caps.max_consumer_tasks, caps.max_producers_per_connection,
          caps.max_consumers_per_connection, caps.max_immediate_data_size})
        EXPECT_GT(value, 0u);
}

} // namespace
} // namespace comch
