// Devices and representors: picked from a domain's description by name or PCI address.
#include <comch/device.hpp>

#include <fmt/format.h>

#include "environment.hpp"
#include "function.hpp"
#include "rdma_sysfs.hpp"
#include "settings.hpp"

namespace comch {
namespace {

/// Names, kinds and addresses, for a message that says what would have been right.
std::string list_for_people(const std::vector<const Function*>& functions) {
    std::string text;
    for (const auto* function : functions)
        text += fmt::format("{}{} ({}, {} side)", text.empty() ? "" : ", ", function->name,
                            function->pci_address, to_string(function->side));
    return text;
}

std::vector<const Function*> functions_of(const Domain& domain, std::optional<Side> side) {
    const auto& description = domain.description();
    std::vector<const Function*> functions;
    if (side != Side::dpu)
        for (const auto& function : description.host)
            functions.push_back(&function);
    if (side != Side::host)
        functions.push_back(&description.dpu);
    return functions;
}

/// Those that a name or an address means. An SF is not meant by the address of its PF.
std::vector<const Function*> matches(const std::vector<const Function*>& functions,
                                     std::string_view name_or_pci) {
    const auto pci = normalize_pci_address(name_or_pci);
    std::vector<const Function*> found;
    for (const auto* function : functions) {
        const bool by_address =
            pci && function->pci_address == *pci && function->kind != FunctionKind::sf;
        if (by_address || function->name == name_or_pci)
            found.push_back(function);
    }
    return found;
}

tl::unexpected<Error> refuse_representors_on_host(const Function& function) {
    return fail(Errc::not_permitted,
                fmt::format("device '{}' is on the host, which has no representors; open the DPU's "
                            "device (COMCH_SIDE=dpu)",
                            function.name));
}

} // namespace

std::vector<Device> devices(const std::shared_ptr<Domain>& domain, Side side) {
    std::vector<Device> result;
    for (const auto* function : functions_of(*domain, side))
        result.push_back(Device(domain, *function));
    return result;
}

Result<Device> open_device(const std::shared_ptr<Domain>& domain, std::string_view name_or_pci,
                           std::optional<Side> side) {
    const auto candidates = functions_of(*domain, side);
    const auto found = matches(candidates, name_or_pci);
    if (found.empty())
        return fail(
            Errc::not_found,
            fmt::format("there is no device '{}'{} in domain '{}', which is described by "
                        "'{}'; there are {}",
                        name_or_pci, side ? fmt::format(" on the {} side", to_string(*side)) : "",
                        domain->path(), domain->description().source, list_for_people(candidates)));
    if (found.size() > 1)
        return fail(Errc::invalid_argument,
                    fmt::format("'{}' means several devices: {}; give the name, or the side with "
                                "COMCH_SIDE",
                                name_or_pci, list_for_people(found)));
    return Device(domain, *found.front());
}

Result<Device> default_device(const std::shared_ptr<Domain>& domain, const DeviceChoice& choice) {
    const bool side_from_choice = !choice.side.empty();
    const bool device_from_choice = !choice.device.empty();
    const auto side_text = side_from_choice ? choice.side : environment("COMCH_SIDE");
    const auto device_text = device_from_choice ? choice.device : environment("COMCH_DEVICE");

    std::optional<Side> side;
    if (!side_text.empty()) {
        const auto parsed = parse_side(side_text);
        if (!parsed)
            return fail(parsed.error().code,
                        fmt::format("{}: {}",
                                    side_from_choice ? setting_names().side : "COMCH_SIDE",
                                    parsed.error().message));
        side = *parsed;
    }
    if (device_text.empty()) {
        if (!side && domain->over_rdma())
            side = side_of(read_rdma_devices(), domain->description());
        return devices(domain, side.value_or(Side::host)).front();
    }

    auto device = open_device(domain, device_text, side);
    if (!device)
        return fail(device.error().code,
                    fmt::format("{}: {}",
                                device_from_choice ? setting_names().device : "COMCH_DEVICE",
                                device.error().message));
    return device;
}

Result<std::vector<Representor>> Device::representors() const {
    if (side() != Side::dpu)
        return refuse_representors_on_host(*function_);
    std::vector<Representor> result;
    for (const auto* function : functions_of(*domain_, Side::host))
        result.push_back(Representor(domain_, *function));
    return result;
}

Result<Representor> Device::representor(std::string_view name_or_pci) const {
    if (side() != Side::dpu)
        return refuse_representors_on_host(*function_);
    const auto candidates = functions_of(*domain_, Side::host);
    const auto found = matches(candidates, name_or_pci);
    if (found.empty())
        return fail(Errc::not_found,
                    fmt::format("device '{}' has no representor '{}'; it has {}", function_->name,
                                name_or_pci, list_for_people(candidates)));
    return Representor(domain_, *found.front());
}

} // namespace comch
