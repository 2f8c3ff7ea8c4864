// comch_info: what comch sees here - the domain, its devices and what they can do.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <comch/device.hpp>

#include "core/device/rdma_sysfs.hpp"
#include "core/device/settings.hpp"
#include "core/link/verbs/device_limits.hpp"
#include "core/tools/checks.hpp"
#include "core/tools/output.hpp"

namespace {

// Ordered, so that the output reads in the order of the text form and diffs well.
using Json = nlohmann::ordered_json;

constexpr const char* about =
    R"(Show the domain, the devices on its two sides, and what they can do.

A domain is one DPU with the host functions that it serves. Two processes can talk
only inside one domain: when they do not find each other, run comch_info as each of
them and compare the domain's directory and id. (The id alone tells, unless the
description names the domain: then it is that name's.))";

constexpr const char* footer = R"(
Environment:
  COMCH_DOMAIN       the domain's directory: an absolute path, or a bare name N for
                     /dev/shm/comch-<user id>-N (default: /dev/shm/comch-<user id>)
  COMCH_DOMAIN_FILE  a description of the devices (default: domain.toml in that
                     directory if it is there, else one DPU with a PF and two VFs)
  COMCH_SIDE         the side whose first device a program opens: host or dpu
                     (default: that of COMCH_DEVICE, else, over RDMA, the one whose
                     addresses are this machine's, else host)
  COMCH_DEVICE       the device that a program opens, by name or PCI address

Examples:
  comch_info                        what a program started here would use
  COMCH_SIDE=dpu comch_info         the same for a program on the DPU's side
  COMCH_DOMAIN=lab comch_info       another domain, created if it is not there
  comch_info --domain-file my.toml  try a description before using it
  comch_info --json | jq .id        for scripts

Exit status: 0; 1 when the domain or a setting is not usable, or when the device that
a program would open is not on this machine, with the reason on standard error; above
100 when the command line is wrong.)";

std::string mac_text(const comch::MacAddress& mac) {
    return fmt::format("{:02x}", fmt::join(mac, ":"));
}

Json to_json(const comch::Capabilities& caps) {
    return {
        {"server_supported", caps.server_supported},
        {"client_supported", caps.client_supported},
        {"producer_supported", caps.producer_supported},
        {"consumer_supported", caps.consumer_supported},
        {"max_server_name_size", caps.max_server_name_size},
        {"max_message_size", caps.max_message_size},
        {"max_send_queue_depth", caps.max_send_queue_depth},
        {"max_recv_queue_depth", caps.max_recv_queue_depth},
        {"max_clients_per_server", caps.max_clients_per_server},
        {"max_fast_path_buffer_size", caps.max_fast_path_buffer_size},
        {"max_producer_tasks", caps.max_producer_tasks},
        {"max_consumer_tasks", caps.max_consumer_tasks},
        {"max_producers_per_connection", caps.max_producers_per_connection},
        {"max_consumers_per_connection", caps.max_consumers_per_connection},
        {"max_immediate_data_size", caps.max_immediate_data_size},
    };
}

Json to_json(const comch::Device& device) {
    const auto& function = device.function();
    Json json = {
        {"name", function.name},
        {"id", function.id},
        {"kind", comch::to_string(function.kind)},
        {"index", function.index},
        {"pci_address", function.pci_address},
        {"iface", function.iface},
        {"vuid", function.vuid},
        {"address", function.address},
        {"mac", function.mac ? Json(mac_text(*function.mac)) : Json(nullptr)},
    };
    if (const auto representors = device.representors()) {
        json["representors"] = Json::array();
        for (const auto& representor : *representors)
            json["representors"].push_back({
                {"function", representor.function().name},
                {"pci_address", representor.function().pci_address},
                {"kind", comch::to_string(representor.function().kind)},
                {"iface", representor.function().representor_iface},
            });
    }
    return json;
}

/// The side of an RDMA device: as described, else as its hardware says.
std::string side_of(const comch::RdmaDeviceInfo& device,
                    const comch::DomainDescription& description) {
    if (const auto* function = comch::function_of(device, description))
        return std::string(comch::to_string(function->side));
    return device.side ? std::string(comch::to_string(*device.side)) : "unknown";
}

Json to_json(const comch::RdmaPortInfo& port, const std::string& device) {
    Json json = {{"number", port.number},
                 {"state", port.state},
                 {"interfaces", port.interfaces},
                 {"addresses", port.addresses}};
    if (const auto limits = comch::link::verbs::query_limits(device, port.number)) {
        json["unusable"] = limits->unusable.empty() ? Json(nullptr) : Json(limits->unusable);
        json["capabilities"] = {
            {"queue_depth", limits->queue_depth},
            {"memory_pieces", limits->pieces},
            {"shared_queue_depth", limits->shared_depth},
            {"completions", limits->completions},
            {"max_message", limits->max_message},
            {"reads_in_flight", limits->reads},
            {"atomics", limits->atomics},
        };
    }
    return json;
}

Json to_json(const comch::RdmaDeviceInfo& device, const comch::DomainDescription& description) {
    const auto* const function = comch::function_of(device, description);
    Json json = {
        {"name", device.name},
        {"pci_address", device.pci_address},
        {"side", side_of(device, description)},
        {"function", function != nullptr ? Json(function->name) : Json(nullptr)},
        {"representors", device.representors},
    };
    json["ports"] = Json::array();
    for (const auto& port : device.ports)
        json["ports"].push_back(to_json(port, device.name));
    return json;
}

using RdmaDevices = std::vector<comch::RdmaDeviceInfo>;

/// The description's devices that this machine does not have. Those of the other side may be on
/// another machine.
std::vector<comch::Function> absent(const comch::Domain& domain, const RdmaDevices& rdma) {
    std::vector<comch::Function> functions;
    if (!domain.over_rdma())
        return functions;
    for (const auto side : {comch::Side::host, comch::Side::dpu})
        for (const auto& function : domain.functions(side))
            if (!comch::is_here(function, rdma))
                functions.push_back(function);
    return functions;
}

Json to_json(const std::shared_ptr<comch::Domain>& domain, const comch::Device& chosen,
             const RdmaDevices& rdma) {
    Json json = {
        {"version", comch::version},
        {"directory", domain->path()},
        {"id", domain->id().to_string()},
        {"description", domain->description().source},
        {"default_device",
         {{"name", chosen.function().name}, {"side", comch::to_string(chosen.side())}}},
    };
    for (const auto side : {comch::Side::host, comch::Side::dpu}) {
        auto& section = json["sides"][std::string(comch::to_string(side))];
        for (const auto& device : comch::devices(domain, side))
            section["devices"].push_back(to_json(device));
        section["capabilities"] = to_json(comch::capabilities_of(side));
    }
    json["transport"] = domain->over_rdma() ? "rdma" : "memory";
    json["rdma_devices"] = Json::array();
    for (const auto& device : rdma)
        json["rdma_devices"].push_back(to_json(device, domain->description()));
    json["absent_devices"] = Json::array(); // over RDMA: described, and not on this machine
    for (const auto& function : absent(*domain, rdma))
        json["absent_devices"].push_back(function.name);
    return json;
}

void print_side(const std::shared_ptr<comch::Domain>& domain, comch::Side side,
                const comch::Device& chosen) {
    fmt::print("\nDevices of the {} side\n", comch::to_string(side));
    fmt::print("    {:<20} {:<4} {:<13} {:<16} {}\n", "NAME", "KIND", "PCI ADDRESS", "INTERFACE",
               "VUID");
    for (const auto& device : comch::devices(domain, side)) {
        const auto& function = device.function();
        fmt::print("  {} {:<20} {:<4} {:<13} {:<16} {}\n",
                   function == chosen.function() ? '*' : ' ', function.name,
                   comch::to_string(function.kind), function.pci_address,
                   function.iface.empty() ? "-" : function.iface, function.vuid);
        if (const auto representors = device.representors())
            for (const auto& representor : *representors)
                fmt::print("      representor of {} ({}){}\n", representor.function().name,
                           representor.function().pci_address,
                           representor.function().representor_iface.empty()
                               ? ""
                               : " at " + representor.function().representor_iface);
    }
}

void print_capabilities() {
    const auto host = comch::capabilities_of(comch::Side::host);
    const auto dpu = comch::capabilities_of(comch::Side::dpu);
    const auto row = [](const char* name, const auto& on_host, const auto& on_dpu,
                        const char* unit) {
        fmt::print("    {:<34} {:>10} {:>10}{}{}\n", name, on_host, on_dpu,
                   *unit == '\0' ? "" : "  ", unit);
    };
    const auto yes_no = [&](const char* name, bool on_host, bool on_dpu) {
        row(name, on_host ? "yes" : "no", on_dpu ? "yes" : "no", "");
    };
    fmt::print("\nCapabilities\n");
    row("", "host", "dpu", "");
    yes_no("servers", host.server_supported, dpu.server_supported);
    yes_no("clients", host.client_supported, dpu.client_supported);
    yes_no("producers", host.producer_supported, dpu.producer_supported);
    yes_no("consumers", host.consumer_supported, dpu.consumer_supported);
#define COMCH_ROW(field, name, unit) row(name, host.field, dpu.field, unit)
    COMCH_ROW(max_server_name_size, "longest server name", "bytes, with its NUL");
    COMCH_ROW(max_message_size, "largest control message", "bytes");
    COMCH_ROW(max_send_queue_depth, "deepest send queue", "messages");
    COMCH_ROW(max_recv_queue_depth, "deepest receive queue", "messages");
    COMCH_ROW(max_clients_per_server, "most clients of a server", "");
    COMCH_ROW(max_fast_path_buffer_size, "longest fast-path buffer", "bytes");
    COMCH_ROW(max_producer_tasks, "most sends on a producer", "");
    COMCH_ROW(max_consumer_tasks, "most buffers on a consumer", "");
    COMCH_ROW(max_producers_per_connection, "most producers of a connection", "");
    COMCH_ROW(max_consumers_per_connection, "most consumers of a connection", "");
    COMCH_ROW(max_immediate_data_size, "longest immediate data", "bytes");
#undef COMCH_ROW
}

void print_port(const comch::RdmaPortInfo& port, const std::string& device) {
    const auto list = [](const std::vector<std::string>& names) {
        return names.empty() ? "-" : fmt::format("{}", fmt::join(names, ", "));
    };
    fmt::print("        port {}  {}  at {}  addresses {}\n", port.number, port.state,
               list(port.interfaces), list(port.addresses));
    const auto limits = comch::link::verbs::query_limits(device, port.number);
    if (!limits)
        return;
    fmt::print("            work requests {}  pieces of memory {}  shared receive queue {}  "
               "completions {}\n"
               "            message {} bytes  reads in flight {}  atomics {}\n",
               limits->queue_depth, limits->pieces, limits->shared_depth, limits->completions,
               limits->max_message, limits->reads, limits->atomics ? "yes" : "no");
    if (!limits->unusable.empty())
        fmt::print("            not usable: {}\n", limits->unusable);
}

void print_rdma(const comch::DomainDescription& description, const RdmaDevices& devices) {
    if (devices.empty())
        return;
    fmt::print("\nRDMA devices of this machine\n");
    for (const auto& device : devices) {
        const auto* const function = comch::function_of(device, description);
        fmt::print("    {}  PCI {}  side {}{}\n", device.name,
                   device.pci_address.empty() ? "-" : device.pci_address,
                   side_of(device, description),
                   function != nullptr ? ", function " + function->name : "");
        for (const auto& port : device.ports)
            print_port(port, device.name);
        if (!device.representors.empty())
            fmt::print("        representors {}\n", fmt::join(device.representors, ", "));
    }
}

void print_absent(const std::vector<comch::Function>& functions) {
    if (functions.empty())
        return;
    fmt::print("\nDescribed, but not on this machine\n");
    for (const auto& function : functions)
        fmt::print("    {:<20} {:<4} address {}\n", function.name, comch::to_string(function.side),
                   function.address);
}

void print_text(const std::shared_ptr<comch::Domain>& domain, const comch::Device& chosen,
                const RdmaDevices& rdma) {
    fmt::print("Domain\n");
    fmt::print("    directory    {}\n", domain->path());
    fmt::print("    id           {}\n", domain->id().to_string());
    fmt::print("    description  {}\n", domain->description().source);
    fmt::print("    transport    {}\n", domain->over_rdma() ? "rdma" : "memory");
    print_side(domain, comch::Side::host, chosen);
    print_side(domain, comch::Side::dpu, chosen);
    fmt::print("\n  * is the device of a program that is started here and names none; see "
               "COMCH_SIDE and\n    COMCH_DEVICE in comch_info --help\n");
    print_capabilities();
    print_rdma(domain->description(), rdma);
    print_absent(absent(*domain, rdma));
}

/// Why a program that opens this device would fail.
std::string why_absent(const comch::Device& device, const RdmaDevices& rdma) {
    const auto& function = device.function();
    return fmt::format(
        "device '{}' of domain description '{}' is not on this machine: {} its address {}; {}, "
        "correct the address, or choose a device that is here with COMCH_SIDE or COMCH_DEVICE",
        function.name, device.domain()->description().source,
        rdma.empty() ? "there is no RDMA device, so none has" : "no RDMA device's port has",
        function.address,
        rdma.empty() ? "load the device's driver ('rdma link' must list it)"
                     : "give its interface that address ('ip addr' shows those there are)");
}

int report(const comch::Error& error) {
    fmt::print(stderr, "comch_info: {}\n", error.message);
    return 1;
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app(about, "comch_info");
    comch::tools::add_version(app);
    app.footer(footer);
    bool json = false;
    comch::DomainOptions options;
    app.add_flag("--json", json, "Print one JSON object instead of text");
    app.add_option("--domain", options.directory, "Domain to show, instead of COMCH_DOMAIN's")
        ->type_name("PATH|NAME");
    app.add_option("--domain-file", options.description_file,
                   "Description to use, instead of COMCH_DOMAIN_FILE's")
        ->type_name("FILE");
    CLI11_PARSE(app, argc, argv);

    const comch::NamedSettings names({.domain = "--domain", .domain_file = "--domain-file"});
    const auto domain = comch::Domain::open(options);
    if (!domain)
        return report(domain.error());
    const auto chosen = comch::default_device(*domain);
    if (!chosen)
        return report(chosen.error());
    const RdmaDevices rdma = comch::read_rdma_devices();
    if (json)
        // Folders and devices may have names that are no UTF-8.
        fmt::print(
            "{}\n",
            to_json(*domain, *chosen, rdma).dump(2, ' ', false, Json::error_handler_t::replace));
    else
        print_text(*domain, *chosen, rdma);
    if (comch::tools::output_status("comch_info") != 0)
        return 1;
    if ((*domain)->over_rdma() && !comch::is_here(chosen->function(), rdma))
        return report({comch::Errc::not_found, why_absent(*chosen, rdma)});
    return 0;
}
