#include "core/link/soft/names.hpp"

#include <set>

#include <comch/device.hpp>
#include <gtest/gtest.h>

#include "core/counters/process_counters.hpp"

namespace comch::link::soft {
namespace {

TEST(Names, AnAddressNamesItsSocket) {
    const PortAddress address = make_port_address(0x0123456789abcdef, 0x2a);
    EXPECT_EQ(port_entry(address), "port.0123456789abcdef.2a");
    EXPECT_EQ(make_port_address(0x0123456789abcdef, 0x2a), address);
    EXPECT_NE(port_entry(make_port_address(0x0123456789abcdef, 0x2b)), port_entry(address));
    EXPECT_NE(port_entry(make_port_address(0x1123456789abcdef, 0x2a)), port_entry(address));
}

TEST(Names, EveryFileOfAProcessCarriesItsSuffix) {
    constexpr ProcessId owner = 0x00000000deadbeef;
    const std::string suffix = "." + process_suffix(owner);
    EXPECT_NE(port_entry(make_port_address(owner, 1)).find(suffix), std::string::npos);
    EXPECT_NE(service_entry(owner, 1).find(suffix), std::string::npos);
}

TEST(Names, AnyAddressGivesANameThatASocketMayHave) {
    PortAddress worst{};
    worst.bytes.fill(std::byte{0xff});
    EXPECT_LE(port_entry(worst).size(), Domain::max_socket_name);
    EXPECT_EQ(port_entry(worst).find('/'), std::string::npos);
    EXPECT_LE(service_entry(~std::uint64_t{0}, ~std::uint64_t{0}).size(), Domain::max_socket_name);
    EXPECT_LE(name_entry(~FunctionId{0}, std::string(256, 'x')).size(), Domain::max_socket_name);
}

TEST(Names, ANameIsOfItsFunctionAndExact) {
    std::set<std::string> entries;
    const std::string long_name(256, 'n');
    for (const FunctionId function : {0u, 1u, 0x80000001u}) {
        for (const std::string_view name :
             {"a", "A", "a ", "aa", "../x", "a\0b", long_name.c_str()}) {
            entries.insert(name_entry(function, name));
        }
        entries.insert(name_entry(function, std::string_view("a\0b", 3)));
    }
    EXPECT_EQ(entries.size(), 3 * 7u) << "\"a\\0b\" as a C string is \"a\"";
    for (const std::string& entry : entries) {
        EXPECT_EQ(entry.find('/'), std::string::npos);
        EXPECT_EQ(entry.find('\0'), std::string::npos);
    }
}

} // namespace
} // namespace comch::link::soft
