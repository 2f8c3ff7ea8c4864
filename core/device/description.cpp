#include "description.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include <fcntl.h>
#include <net/if.h>
#include <sys/stat.h>

#include <fmt/format.h>
#include <toml.hpp>

#include "core/base/unique_fd.hpp"
#include "function.hpp"

namespace comch {
namespace {

constexpr const char* file_in_directory = "domain.toml";

/// A description is some hundred bytes a function. Anything larger was named by mistake.
constexpr std::size_t max_file_size = 1024 * 1024;

/// Programs hold a vuid in 128 bytes, its NUL included.
constexpr std::size_t max_vuid_length = 127;

/// What is wrong, where: "domain description '/x.toml', line 7, [[host]] 'vf0', key 'pci': ...".
tl::unexpected<Error> complain(const std::string& source, const toml::value& at,
                               std::string_view table, std::string_view key,
                               std::string_view problem) {
    std::string message = fmt::format("domain description '{}'", source);
    if (const auto line = at.location().line(); line != 0)
        message += fmt::format(", line {}", line);
    if (!table.empty())
        message += fmt::format(", {}", table);
    if (!key.empty())
        message += fmt::format(", key '{}'", key);
    return fail(Errc::invalid_argument, fmt::format("{}: {}", message, problem));
}

/// One table of the file, whose keys are read one by one; the first fault is kept.
class TableReader {
public:
    TableReader(const std::string& source, const toml::value& table, std::string title)
        : source_(source), table_(table), title_(std::move(title)) {
        if (table.is_table() && table.contains("name") && table.at("name").is_string())
            title_ += fmt::format(" '{}'", table.at("name").as_string().str);
    }

    [[nodiscard]] const std::optional<Error>& error() const noexcept { return error_; }

    void fault(std::string_view key, std::string_view problem) {
        if (!error_) {
            const auto& at =
                table_.contains(std::string(key)) ? table_.at(std::string(key)) : table_;
            error_ = complain(source_, at, title_, key, problem).value();
        }
    }

    std::string text(const char* key, std::size_t max_length) {
        known_.insert(key);
        if (!table_.contains(key))
            return {};
        const auto& value = table_.at(key);
        if (!value.is_string()) {
            fault(key, "is not a text in quotes");
            return {};
        }
        const std::string& text = value.as_string().str;
        if (text.size() > max_length)
            fault(key, fmt::format("'{}' has {} bytes; at most {} are allowed", text, text.size(),
                                   max_length));
        for (const char c : text)
            if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
                fault(key, "contains a control character");
        return text;
    }

    std::string required_text(const char* key, std::size_t max_length) {
        auto result = text(key, max_length);
        if (result.empty())
            fault(key, "is missing or empty");
        return result;
    }

    /// `fallback` when it is not there.
    std::uint32_t number(const char* key, std::uint32_t max, std::uint32_t min = 0,
                         std::uint32_t fallback = 0) {
        known_.insert(key);
        if (!table_.contains(key))
            return fallback;
        const auto& value = table_.at(key);
        if (!value.is_integer()) {
            fault(key, "is not a whole number");
            return fallback;
        }
        const auto number = value.as_integer();
        if (number < static_cast<std::int64_t>(min) || number > static_cast<std::int64_t>(max)) {
            fault(key, fmt::format("{} is out of range; {} to {} are allowed", number, min, max));
            return fallback;
        }
        return static_cast<std::uint32_t>(number);
    }

    /// A misspelt optional key would otherwise be ignored without a word.
    void refuse_unknown_keys() {
        for (const auto& [key, value] : table_.as_table())
            if (!known_.contains(key))
                fault(key, fmt::format("is not known here; known are {}", fmt::join(known_, ", ")));
    }

private:
    const std::string& source_;
    const toml::value& table_;
    std::string title_;
    std::set<std::string> known_;
    std::optional<Error> error_;
};

std::optional<MacAddress> parse_mac(std::string_view text) {
    MacAddress mac{};
    if (text.size() != mac.size() * 3 - 1)
        return std::nullopt;
    for (std::size_t i = 0; i < mac.size(); ++i) {
        const char* begin = text.data() + i * 3;
        const auto [end, error] = std::from_chars(begin, begin + 2, mac[i], 16);
        if (error != std::errc{} || end != begin + 2 || (i + 1 < mac.size() && *end != ':'))
            return std::nullopt;
    }
    return mac;
}

FunctionKind read_kind(TableReader& reader) {
    const auto text = to_lower(reader.required_text("kind", 16));
    if (text == "vf")
        return FunctionKind::vf;
    if (text == "sf")
        return FunctionKind::sf;
    if (text != "pf")
        reader.fault("kind", fmt::format("'{}' is not one of PF, VF, SF", text));
    return FunctionKind::pf;
}

Result<Function> read_function(const std::string& source, const toml::value& table, Side side,
                               std::string title) {
    if (!table.is_table())
        return complain(source, table, title, {}, "is not a table");
    TableReader reader(source, table, std::move(title));
    Function function;
    function.side = side;
    function.name = reader.required_text("name", max_device_name_size - 1);
    if (!is_plain_name(function.name))
        reader.fault("name", fmt::format("'{}' must be letters, digits, '_', '-' and '.', and not "
                                         "begin with '-' or '.'",
                                         function.name));
    else if (normalize_pci_address(function.name))
        reader.fault("name", fmt::format("'{}' would be taken for a PCI address", function.name));
    if (side == Side::host)
        function.kind = read_kind(reader);
    function.index = reader.number("index", 0xffff);
    if (const auto pci = normalize_pci_address(reader.required_text("pci", 64)))
        function.pci_address = *pci;
    else
        reader.fault("pci", pci.error().message);
    function.iface = reader.text("iface", IFNAMSIZ - 1);
    if (side == Side::host)
        function.representor_iface = reader.text("representor_iface", IFNAMSIZ - 1);
    function.vuid = reader.text("vuid", max_vuid_length);
    if (function.vuid.empty())
        function.vuid = function.name;
    if (const auto mac = reader.text("mac", 64); !mac.empty()) {
        function.mac = parse_mac(mac);
        if (!function.mac)
            reader.fault("mac", fmt::format("'{}' is not a MAC address; write it as "
                                            "02:c0:3c:00:01:00",
                                            mac));
    }
    if (const auto address = reader.text("address", 64); !address.empty()) {
        if (const auto normal = normalize_ip_address(address))
            function.address = *normal;
        else
            reader.fault("address", normal.error().message);
    }
    reader.refuse_unknown_keys();
    if (reader.error())
        return tl::unexpected<Error>(*reader.error());

    if (side == Side::host)
        function.id = host_function_id(function.pci_address, function.kind, function.index);
    return function;
}

/// What one function alone cannot tell: names, addresses, vuids and ids that occur twice, and SFs
/// without their PF.
std::optional<std::string> find_conflict(const DomainDescription& description) {
    std::vector<const Function*> all{&description.dpu};
    for (const auto& function : description.host)
        all.push_back(&function);

    std::unordered_set<std::string_view> names;
    std::unordered_map<std::string_view, const Function*> vuids;
    std::unordered_map<FunctionId, const Function*> ids;
    std::unordered_map<std::string_view, const Function*> addresses; // of the host's PFs and VFs
    for (const auto* function : all) {
        if (!names.insert(function->name).second)
            return fmt::format("two functions have the name '{}'; names are unique",
                               function->name);
        if (const auto [at, fresh] = vuids.emplace(function->vuid, function); !fresh)
            return fmt::format("'{}' and '{}' both have the vuid '{}'; vuids are unique",
                               at->second->name, function->name, function->vuid);
        if (function->side == Side::host && function->kind != FunctionKind::sf) {
            if (const auto [at, fresh] = addresses.emplace(function->pci_address, function); !fresh)
                return fmt::format("'{}' and '{}' both have the PCI address {}; only an SF shares "
                                   "one, with its PF",
                                   at->second->name, function->name, function->pci_address);
        }
    }
    for (const auto& function : description.host) {
        if (function.kind != FunctionKind::sf)
            continue;
        const auto pf = addresses.find(function.pci_address);
        if (pf == addresses.end() || pf->second->kind != FunctionKind::pf)
            return fmt::format("the SF '{}' has the PCI address {}, which is that of no PF here; "
                               "an SF has the address of its PF",
                               function.name, function.pci_address);
    }
    for (const auto* function : all) {
        const auto [at, fresh] = ids.emplace(function->id, function);
        if (fresh)
            continue;
        const bool same_sf = at->second->kind == FunctionKind::sf &&
                             at->second->pci_address == function->pci_address &&
                             at->second->index == function->index;
        if (same_sf)
            return fmt::format("the SFs '{}' and '{}' have the same PF and the same index {}",
                               at->second->name, function->name, function->index);
        return fmt::format("'{}' and '{}' get the same internal id; change the PCI address of one",
                           at->second->name, function->name);
    }
    return std::nullopt;
}

/// The optional [domain] table.
Result<void> read_domain(const std::string& source, const toml::value& table,
                         DomainDescription& description) {
    if (!table.is_table())
        return complain(source, table, "[domain]", {}, "is not a table");
    TableReader reader(source, table, "[domain]");
    description.name = reader.text("name", 64);
    if (!description.name.empty() && !is_plain_name(description.name))
        reader.fault("name", fmt::format("'{}' must be letters, digits, '_', '-' and '.', and not "
                                         "begin with '-' or '.'",
                                         description.name));
    const auto transport = to_lower(reader.text("transport", 16));
    if (transport == "rdma")
        description.transport = Transport::rdma;
    else if (!transport.empty() && transport != "memory")
        reader.fault("transport", fmt::format("'{}' is not one of memory, rdma", transport));
    description.first_port = static_cast<std::uint16_t>(
        reader.number("first_port", 0xffff, 1024, description.first_port));
    description.port_count =
        static_cast<std::uint16_t>(reader.number("port_count", 0xffff, 1, description.port_count));
    if (description.first_port + description.port_count > 0x10000)
        reader.fault("port_count", fmt::format("{} ports from {} on are more than there are",
                                               description.port_count, description.first_port));
    if (description.transport == Transport::rdma && description.name.empty())
        reader.fault("name",
                     "is missing: over RDMA the two sides are two machines, and a name that "
                     "both descriptions give tells that they mean one domain");
    reader.refuse_unknown_keys();
    if (reader.error())
        return tl::unexpected<Error>(*reader.error());
    return {};
}

/// What RDMA needs to know of the functions.
std::optional<std::string> find_missing_address(const DomainDescription& description) {
    if (description.transport != Transport::rdma)
        return std::nullopt;
    std::unordered_map<std::string_view, const Function*> addresses;
    std::vector<const Function*> all{&description.dpu};
    for (const auto& function : description.host)
        all.push_back(&function);
    for (const auto* function : all) {
        if (function->address.empty())
            return fmt::format("'{}' has no address; with transport rdma each function needs the "
                               "IP address of its interface on the path between host and DPU",
                               function->name);
        if (const auto [at, fresh] = addresses.emplace(function->address, function); !fresh)
            return fmt::format("'{}' and '{}' both have the address {}; a peer's address tells "
                               "which function it is on, so they must differ",
                               at->second->name, function->name, function->address);
    }
    return std::nullopt;
}

Result<DomainDescription> read_document(const std::string& source, const toml::value& root) {
    for (const auto& [key, value] : root.as_table())
        if (key != "dpu" && key != "host" && key != "domain")
            return complain(source, value, {}, key,
                            "is not known; known are [domain], [dpu] and [[host]]");
    if (!root.contains("dpu"))
        return complain(source, root, {}, {}, "has no [dpu] table, which describes the DPU");
    const auto& dpu = root.at("dpu");
    if (dpu.is_array())
        return complain(source, dpu, {}, "dpu",
                        fmt::format("describes {} DPUs, but a domain is one DPU with its host "
                                    "functions; give each DPU a description and a directory "
                                    "(COMCH_DOMAIN_FILE, COMCH_DOMAIN) of its own",
                                    dpu.as_array().size()));
    if (!root.contains("host"))
        return complain(source, root, {}, {},
                        "has no [[host]] table; a domain has at least one host function");
    const auto& host = root.at("host");
    if (!host.is_array())
        return complain(source, host, {}, "host",
                        "is not a list of tables; write [[host]] with two brackets");
    if (host.as_array().empty())
        return complain(source, host, {}, "host", "is empty; a domain has at least one function");

    DomainDescription description;
    description.source = source;
    auto dpu_function = read_function(source, dpu, Side::dpu, "[dpu]");
    if (!dpu_function)
        return tl::unexpected<Error>(std::move(dpu_function.error()));
    description.dpu = std::move(*dpu_function);
    for (const auto& table : host.as_array()) {
        auto function = read_function(source, table, Side::host, "[[host]]");
        if (!function)
            return tl::unexpected<Error>(std::move(function.error()));
        description.host.push_back(std::move(*function));
    }
    if (root.contains("domain")) {
        if (auto domain = read_domain(source, root.at("domain"), description); !domain)
            return tl::unexpected<Error>(std::move(domain.error()));
    }
    auto conflict = find_conflict(description);
    if (!conflict)
        conflict = find_missing_address(description);
    if (conflict)
        return fail(Errc::invalid_argument,
                    fmt::format("domain description '{}': {}", source, *conflict));
    return description;
}

/// The whole of a regular file; `path` is for messages. The descriptor was opened non-blocking,
/// so that a FIFO in the file's place cannot hold us up.
Result<std::string> read_whole(const UniqueFd& file, const std::string& path) {
    struct stat status {};
    if (fstat(file.get(), &status) != 0)
        return fail_errno(Errc::io, fmt::format("cannot examine domain description '{}'", path),
                          errno);
    if (!S_ISREG(status.st_mode))
        return fail(Errc::invalid_argument,
                    fmt::format("domain description '{}' is not a regular file", path));
    std::string text;
    std::array<char, 4096> chunk;
    for (;;) {
        const auto got = read(file.get(), chunk.data(), chunk.size());
        if (got == 0)
            return text;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(Errc::io, fmt::format("cannot read domain description '{}'", path),
                              errno);
        text.append(chunk.data(), static_cast<std::size_t>(got));
        if (text.size() > max_file_size)
            return fail(Errc::too_big,
                        fmt::format("domain description '{}' is longer than {} bytes; is it the "
                                    "right file?",
                                    path, max_file_size));
    }
}

} // namespace

Result<DomainDescription> parse_description(std::string_view text, std::string source) {
    try {
        std::istringstream stream{std::string(text)};
        return read_document(source, toml::parse(stream, source));
    } catch (const toml::exception& error) {
        // The library's text is a drawing of several lines; its first says what is wrong.
        std::string_view what = error.what();
        what = what.substr(0, what.find('\n'));
        if (what.starts_with("[error] "))
            what.remove_prefix(8);
        return fail(Errc::invalid_argument,
                    fmt::format("domain description '{}', line {}: not valid TOML: {}", source,
                                error.location().line(), what));
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const std::exception& error) { // not every fault of the text is a toml::exception
        return fail(
            Errc::invalid_argument,
            fmt::format("domain description '{}': not valid TOML: {}", source, error.what()));
    }
}

Result<DomainDescription> load_description(int directory_fd, const std::string& directory,
                                           const std::string& explicit_file) {
    constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    std::string path = explicit_file;
    UniqueFd file;
    if (!explicit_file.empty()) {
        file.reset(open(explicit_file.c_str(), flags));
        if (!file)
            return fail_errno(errno == ENOENT ? Errc::not_found : Errc::io,
                              fmt::format("cannot open domain description '{}'", path), errno);
    } else {
        path = fmt::format("{}/{}", directory, file_in_directory);
        file.reset(openat(directory_fd, file_in_directory, flags | O_NOFOLLOW));
        if (!file && errno == ENOENT)
            return parse_description(default_description_text(), "built-in default");
        if (!file)
            return fail_errno(Errc::io, fmt::format("cannot open domain description '{}'", path),
                              errno);
    }
    const auto text = read_whole(file, path);
    if (!text)
        return tl::unexpected<Error>(text.error());
    return parse_description(*text, path);
}

} // namespace comch
