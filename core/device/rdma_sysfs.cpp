#include "rdma_sysfs.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <regex>

#include <arpa/inet.h>

#include "function.hpp"

namespace comch {
namespace {

namespace fs = std::filesystem;

/// The first line of a small file; empty if it cannot be read.
std::string line_of(const fs::path& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\n'))
        line.pop_back();
    return line;
}

std::vector<fs::path> entries(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::path> found;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
        found.push_back(it->path());
    std::sort(found.begin(), found.end());
    return found;
}

/// The IP address that a RoCE GID is made of; nothing for link-local ones and empty entries.
std::optional<std::string> address_of_gid(const std::string& gid) {
    in6_addr bytes{};
    if (inet_pton(AF_INET6, gid.c_str(), &bytes) != 1 || IN6_IS_ADDR_UNSPECIFIED(&bytes) ||
        IN6_IS_ADDR_LINKLOCAL(&bytes))
        return std::nullopt;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const bool v4 = IN6_IS_ADDR_V4MAPPED(&bytes);
    const void* const from = v4 ? static_cast<const void*>(bytes.s6_addr + 12) : &bytes;
    if (inet_ntop(v4 ? AF_INET : AF_INET6, from, text.data(), text.size()) == nullptr)
        return std::nullopt;
    return std::string(text.data());
}

void add_once(std::vector<std::string>& list, const std::string& value) {
    if (!value.empty() && std::find(list.begin(), list.end(), value) == list.end())
        list.push_back(value);
}

RdmaPortInfo read_port(const fs::path& folder) {
    RdmaPortInfo port;
    const std::string number = folder.filename().string();
    std::from_chars(number.data(), number.data() + number.size(), port.number);
    const std::string state = line_of(folder / "state"); // "4: ACTIVE"
    const auto colon = state.find(": ");
    port.state = colon == std::string::npos ? state : state.substr(colon + 2);
    for (const auto& gid : entries(folder / "gids"))
        if (const auto address = address_of_gid(line_of(gid)))
            add_once(port.addresses, *address);
    for (const auto& name : entries(folder / "gid_attrs" / "ndevs"))
        add_once(port.interfaces, line_of(name));
    return port;
}

/// phys_port_name of interfaces of an embedded switch that stand for another function. The kernel's own
/// drivers say "c1pf0", "c1pf0vf3", "pf0sf12" ("c1": of another controller, which is a host's), the
/// vendor's "pf0hpf" for a host's physical function. "p0" is the uplink.
bool names_a_representor(const std::string& port_name) {
    static const std::regex pattern("(c[0-9]+)?pf[0-9]+(hpf|[vs]f[0-9]+)?");
    return std::regex_match(port_name, pattern);
}
bool names_a_hosts_pf(const std::string& port_name) {
    static const std::regex pattern("(c[0-9]+)?pf[0-9]+(hpf)?");
    return std::regex_match(port_name, pattern);
}

/// Function ids of the network controllers of BlueField-1, -2 and -3, as both sides see them.
bool is_bluefield(const fs::path& device) {
    const std::string id = line_of(device / "device");
    return line_of(device / "vendor") == "0x15b3" &&
           (id == "0xa2d2" || id == "0xa2d6" || id == "0xa2dc");
}

/// The folder of the PCI function that the device is, or (a scalable function) is a part of; empty if
/// there is none.
fs::path pci_function_of(fs::path device) {
    while (device.has_relative_path() && !normalize_pci_address(device.filename().string()))
        device = device.parent_path();
    return device.has_relative_path() ? device : fs::path();
}

void find_side(const fs::path& root, const fs::path& device, RdmaDeviceInfo& info) {
    // The interfaces of one embedded switch have one switch id.
    std::string switch_id;
    for (const auto& interface : entries(device / "net"))
        if (const auto id = line_of(root / "class/net" / interface.filename() / "phys_switch_id");
            !id.empty())
            switch_id = id;
    if (!switch_id.empty())
        for (const auto& interface : entries(root / "class/net")) {
            const std::string name = line_of(interface / "phys_port_name");
            if (line_of(interface / "phys_switch_id") == switch_id && names_a_representor(name))
                add_once(info.representors, name);
        }
    if (!is_bluefield(device))
        return;
    // On a host, virtual functions of its own can have representors, but its own PF has not.
    const bool has_host_pf =
        std::any_of(info.representors.begin(), info.representors.end(), names_a_hosts_pf);
    info.side = has_host_pf ? Side::dpu : Side::host;
}

bool has_address_of(const RdmaDeviceInfo& device, const Function& function) {
    return !function.address.empty() &&
           std::any_of(device.ports.begin(), device.ports.end(), [&](const auto& port) {
               return std::find(port.addresses.begin(), port.addresses.end(), function.address) !=
                      port.addresses.end();
           });
}

} // namespace

std::vector<RdmaDeviceInfo> read_rdma_devices(const std::string& root) {
    std::vector<RdmaDeviceInfo> devices;
    for (const auto& folder : entries(fs::path(root) / "class/infiniband")) {
        RdmaDeviceInfo info;
        info.name = folder.filename().string();
        for (const auto& port : entries(folder / "ports"))
            info.ports.push_back(read_port(port));
        std::error_code error;
        const fs::path device = fs::canonical(folder / "device", error);
        if (!error) {
            if (const fs::path function = pci_function_of(device); !function.empty()) {
                info.pci_address = *normalize_pci_address(function.filename().string());
                find_side(root, function, info);
            }
        }
        devices.push_back(std::move(info));
    }
    return devices;
}

const Function* function_of(const RdmaDeviceInfo& device, const DomainDescription& description) {
    const auto is_it = [&](const Function& function) { return has_address_of(device, function); };
    if (is_it(description.dpu))
        return &description.dpu;
    const auto found = std::find_if(description.host.begin(), description.host.end(), is_it);
    return found == description.host.end() ? nullptr : &*found;
}

bool is_here(const Function& function, const std::vector<RdmaDeviceInfo>& devices) {
    return std::any_of(devices.begin(), devices.end(), [&](const RdmaDeviceInfo& device) {
        return has_address_of(device, function);
    });
}

std::optional<Side> side_of(const std::vector<RdmaDeviceInfo>& devices,
                            const DomainDescription& description) {
    const bool is_dpu = is_here(description.dpu, devices);
    const bool is_host =
        std::any_of(description.host.begin(), description.host.end(),
                    [&](const Function& function) { return is_here(function, devices); });
    if (is_dpu == is_host)
        return std::nullopt;
    return is_dpu ? Side::dpu : Side::host;
}

} // namespace comch
