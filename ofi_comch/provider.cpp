#include "provider.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "core/device/settings.hpp"
#include "guarded.hpp"
#include "info.hpp"
#include "status.hpp"
#include "wire.hpp"

namespace comch::ofi {

// fabric.hpp, of either copy of what hangs on a connection (over_link.hpp).
namespace over_soft {
int open_fabric(Device device, std::uint32_t version, fid_fabric** fabric, void* context);
}
namespace over_verbs {
int open_fabric(Device device, std::uint32_t version, fid_fabric** fabric, void* context);
}

namespace {

Settings the_settings;

constexpr std::size_t max_eager_size = wire::max_payload_in_parts;

std::string text_setting(const char* name) {
    char* value = nullptr;
    return fi_param_get_str(&provider, name, &value) == 0 && value != nullptr ? value : "";
}

bool flag_setting(const char* name, const char* variable) {
    int flag = 0;
    const int result = fi_param_get_bool(&provider, name, &flag);
    if (result == -FI_EINVAL) {
        const char* const text = std::getenv(variable);
        FI_WARN(&provider, FI_LOG_CORE, "%s=%s: it is yes or no; no is taken\n", variable,
                text != nullptr ? text : "");
    }
    return result == 0 && flag != 0;
}

/// (libfabric takes what is no number, and any number, without a word.)
std::optional<std::size_t> eager_size_setting() {
    const char* const text = std::getenv("FI_COMCH_EAGER_SIZE");
    if (text == nullptr) {
        return std::nullopt;
    }
    std::size_t size = 0;
    const char* const end = text + std::strlen(text);
    const auto [rest, error] = std::from_chars(text, end, size);
    if (error != std::errc() || rest != end || size > max_eager_size) {
        FI_WARN(&provider, FI_LOG_CORE,
                "FI_COMCH_EAGER_SIZE=%s: it is a number of bytes from 0 to %zu; the default is "
                "taken\n",
                text, max_eager_size);
        return std::nullopt;
    }
    return size;
}

Keep keep_setting() {
    const std::string text = text_setting("keep_registrations");
    const auto is_one_of = [&](auto... words) { return ((text == words) || ...); };
    if (is_one_of("", "own")) {
        return Keep::own;
    }
    if (is_one_of("windows")) {
        return Keep::windows;
    }
    if (is_one_of("all", "yes", "true", "on", "1")) {
        return Keep::all;
    }
    if (!is_one_of("no", "false", "off", "0")) {
        FI_WARN(&provider, FI_LOG_CORE,
                "FI_COMCH_KEEP_REGISTRATIONS=%s: it is own, windows, all or no; no is taken\n",
                text.c_str());
    }
    return Keep::none;
}

void define_settings() {
    fi_param_define(&provider, "domain", FI_PARAM_STRING,
                    "Domain in which processes of the host and of the DPU find each other: the "
                    "absolute path of its directory, or a name N for /dev/shm/comch-<uid>-N "
                    "(default: COMCH_DOMAIN, else /dev/shm/comch-<uid>)");
    fi_param_define(&provider, "side", FI_PARAM_STRING,
                    "Side of the PCIe link that this process plays: host or dpu (default: "
                    "COMCH_SIDE, else that of the device, else, over RDMA, the one whose "
                    "addresses are this machine's, else host)");
    fi_param_define(&provider, "device", FI_PARAM_STRING,
                    "Device to open, by name or PCI address; comch_info lists them (default: "
                    "COMCH_DEVICE, else the first device of the side)");
    fi_param_define(&provider, "host_dpu_only", FI_PARAM_BOOL,
                    "Refuse connections from peers of the same side. By default processes of one "
                    "side reach each other through their device as well (default: no)");
    fi_param_define(
        &provider, "layering", FI_PARAM_BOOL,
        "Let libfabric put its utility providers on top of the connected endpoints, for "
        "comch;ofi_rxm. It lists them before comch's own endpoints then (default: no)");
    fi_param_define(
        &provider, "eager_size", FI_PARAM_SIZE_T,
        "Send messages up to this many bytes at once, in parts if need be; what is longer "
        "waits until the receiver reads it out of its memory. At most 65536 (default: "
        "65535, over RDMA devices 65536). What the core can send whole (32 KiB, over RDMA devices "
        "8) is sent at once in any case");
    fi_param_define(
        &provider, "keep_registrations", FI_PARAM_STRING,
        "Over RDMA devices, keep the registrations of long messages' buffers until their memory is "
        "unmapped: own, of those that only this end's device is at; windows, also of those that "
        "peers are at, through memory windows that end with the message (not with soft-RoCE); all, "
        "also of those that peers read, who may go on to do so until then; no. Takes an unlimited "
        "RLIMIT_MEMLOCK and a kernel that tells of unmapping; windows and all take UCX's memory "
        "hooks if it does not (default: own)");
    the_settings.host_dpu_only = flag_setting("host_dpu_only", "FI_COMCH_HOST_DPU_ONLY");
    the_settings.layering = flag_setting("layering", "FI_COMCH_LAYERING");
    the_settings.eager_size = eager_size_setting();
    the_settings.keep_registrations = keep_setting();
}

int open_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
    auto device = open_device();
    if (!device) {
        FI_WARN(&provider, FI_LOG_FABRIC, "%s\n", device.error().message.c_str());
        return -to_fi(device.error());
    }
    if (attr != nullptr && attr->name != nullptr && fabric_name(*device) != attr->name) {
        return -FI_ENODATA;
    }
    const auto open =
        device->domain()->over_rdma() ? over_verbs::open_fabric : over_soft::open_fabric;
    return open(std::move(*device), attr != nullptr ? attr->api_version : 0, fabric, context);
}

} // namespace

void log_no_connection(const Error& error) {
    if (error.code == Errc::no_memory || error.out_of_descriptors) {
        FI_WARN(&provider, FI_LOG_EP_CTRL, "%s\n", error.message.c_str());
    } else {
        FI_INFO(&provider, FI_LOG_EP_CTRL, "%s\n", error.message.c_str());
    }
}

fi_provider provider = [] {
    fi_provider made{};
    made.version = FI_VERSION(0, 1);
    made.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    made.name = "comch";
    made.getinfo = guarded<get_info>;
    made.fabric = guarded<open_fabric>;
    made.cleanup = [] {};
    return made;
}();

const Settings& settings() noexcept {
    return the_settings;
}

Result<Device> open_device() {
    const NamedSettings names(
        {.domain = "FI_COMCH_DOMAIN", .side = "FI_COMCH_SIDE", .device = "FI_COMCH_DEVICE"});
    DomainOptions options;
    options.directory = text_setting("domain");
    auto domain = comch::Domain::open(options);
    if (!domain) {
        return tl::unexpected(domain.error());
    }
    return default_device(*domain, {text_setting("side"), text_setting("device")});
}

} // namespace comch::ofi

extern "C" FI_EXT_INI {
    comch::ofi::define_settings();
    return &comch::ofi::provider;
}
