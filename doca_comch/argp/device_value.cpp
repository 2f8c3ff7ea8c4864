#include "doca_comch/argp/device_value.hpp"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "doca_comch/common/device.hpp"

namespace comch::doca {
namespace {

constexpr std::string_view pci_prefix = "pci/";

/// What is in front of the first comma; it and the comma are taken off.
std::string take_part(std::string& text) {
    const std::size_t comma = text.find(',');
    std::string part = text.substr(0, comma);
    text = comma == std::string::npos ? "" : text.substr(comma + 1);
    return part;
}

bool is_called(const Function& function, std::string_view name) {
    const bool address_only = name.substr(0, pci_prefix.size()) == pci_prefix;
    if (address_only) {
        name.remove_prefix(pci_prefix.size());
    }
    const auto address = normalize_pci_address(name);
    if (address) {
        return *address == function.pci_address;
    }
    return !address_only && (name == function.name || name == function.iface);
}

bool is_called(const Representor& representor, std::string_view name) {
    const Function& function = representor.function();
    return name == function.representor_iface || name == function.vuid || is_called(function, name);
}

} // namespace

doca_error_t DeviceValues::refuse(std::string sentence) {
    why = std::move(sentence);
    return DOCA_ERROR_INVALID_VALUE;
}

const char* DeviceValues::keep(const std::string& arguments) {
    return arguments.empty() ? nullptr : arguments_.emplace_back(arguments).c_str();
}

doca_error_t DeviceValues::open_device(doca_devinfo* found, doca_dev*& device) {
    device = nullptr;
    doca_error_t result = callback != nullptr ? callback(found, callback_context, &device)
                                              : doca_dev_open(found, &device);
    if (result == DOCA_SUCCESS && !is_open(device)) {
        result = DOCA_ERROR_INVALID_VALUE; // the callback left it at that
    }
    if (result != DOCA_SUCCESS) {
        why = fmt::format("the device cannot be opened: {}", doca_error_get_descr(result));
    }
    return result;
}

doca_error_t DeviceValues::find_and_open(const std::string& name, bool of_representor,
                                         doca_dev*& device) {
    doca_devinfo** list = nullptr;
    std::uint32_t count = 0;
    if (const doca_error_t result = doca_devinfo_create_list(&list, &count);
        result != DOCA_SUCCESS) {
        why = fmt::format("devices cannot be listed: {}", doca_error_get_descr(result));
        return result;
    }
    const std::unique_ptr<doca_devinfo*, decltype(&doca_devinfo_destroy_list)> owner(
        list, &doca_devinfo_destroy_list);
    doca_devinfo** const end = list + count;
    doca_devinfo** const found = std::find_if(list, end, [&](const doca_devinfo* info) {
        return is_called(info->device.function(), name) &&
               (!of_representor || info->device.side() == Side::dpu);
    });
    if (found == end) {
        return refuse(fmt::format("there is no device '{}'{}", name,
                                  of_representor ? " that has representors" : ""));
    }
    if (of_representor) {
        const auto open =
            std::find_if(with_representors_.begin(), with_representors_.end(), [&](doca_dev* each) {
                return is_open(each) && is_same(each->info.device, (*found)->device);
            });
        if (open != with_representors_.end()) {
            device = *open;
            return DOCA_SUCCESS;
        }
    }
    const doca_error_t result = open_device(*found, device);
    if (result == DOCA_SUCCESS && of_representor) {
        with_representors_.push_back(device);
    }
    return result;
}

doca_error_t DeviceValues::open(const std::string& text, doca_argp_device_ctx& opened) {
    std::string rest = text;
    const std::string name = take_part(rest);
    const doca_error_t result = find_and_open(name, false, opened.dev);
    opened.devargs = result == DOCA_SUCCESS ? keep(rest) : nullptr;
    return result;
}

doca_error_t DeviceValues::open(const std::string& text, doca_argp_device_rep_ctx& opened) {
    std::string rest = text;
    const std::string device = take_part(rest);
    const std::string name = take_part(rest);
    if (name.empty()) {
        return refuse(fmt::format("'{}' names no representor behind the device", text));
    }
    if (const doca_error_t result = find_and_open(device, true, opened.dev_ctx.dev);
        result != DOCA_SUCCESS) {
        return result;
    }
    doca_devinfo_rep** list = nullptr;
    std::uint32_t count = 0;
    if (const doca_error_t result = doca_devinfo_rep_create_list(
            opened.dev_ctx.dev, DOCA_DEVINFO_REP_FILTER_ALL, &list, &count);
        result != DOCA_SUCCESS) {
        why = fmt::format("representors cannot be listed: {}", doca_error_get_descr(result));
        return result;
    }
    const std::unique_ptr<doca_devinfo_rep*, decltype(&doca_devinfo_rep_destroy_list)> owner(
        list, &doca_devinfo_rep_destroy_list);
    doca_devinfo_rep** const end = list + count;
    doca_devinfo_rep** const found = std::find_if(list, end, [&](const doca_devinfo_rep* info) {
        return is_called(info->representor, name);
    });
    if (found == end) {
        return refuse(fmt::format("device '{}' has no representor '{}'", device, name));
    }
    const doca_error_t result = doca_dev_rep_open(*found, &opened.dev_rep);
    opened.dev_ctx.devargs = result == DOCA_SUCCESS ? keep(rest) : nullptr;
    return result;
}

} // namespace comch::doca
