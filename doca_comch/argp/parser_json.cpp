// Flags from a JSON file.
#include <fstream>
#include <iterator>
#include <sstream>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "doca_comch/argp/parser.hpp"
#include "doca_comch/common/status.hpp"

namespace comch::doca {
namespace {

/// The text of a member; empty if there is none. A number is one if `numbers` are expected.
Result<std::string> text_of(const nlohmann::json& object, const char* key, bool numbers = false) {
    const auto found = object.find(key);
    if (found == object.end()) {
        return std::string();
    }
    if (numbers && found->is_number_unsigned()) {
        return fmt::format("{:#x}", found->get<std::uint64_t>());
    }
    if (!found->is_string()) {
        return fail(Errc::invalid_argument,
                    fmt::format("doca_dpdk_flags: {}: {} is not a string", key, found->dump()));
    }
    return found->get<std::string>();
}

/// What a device of the section is to DPDK: { "device": "sf", "id": "4", "hws": true }.
Result<std::string> dpdk_device(const nlohmann::json& device) {
    if (!device.is_object()) {
        return fail(Errc::invalid_argument,
                    fmt::format("doca_dpdk_flags: {} is not a device", device.dump()));
    }
    const auto kind = text_of(device, "device");
    const auto id = text_of(device, "id");
    if (!kind || !id || kind->empty() || id->empty()) {
        return fail(
            Errc::invalid_argument,
            fmt::format("doca_dpdk_flags: {} needs the texts 'device' and 'id'", device.dump()));
    }
    std::string text = (*kind == "sf" ? "auxiliary:mlx5_core.sf." : "") + *id +
                       (*kind == "regex" ? ",class=regex" : "");
    for (const auto& [key, on, off] :
         {std::tuple{"sft", ",sft_en=1", ",sft_en=0"}, std::tuple{"hws", ",dv_flow_en=2", ""}}) {
        const auto found = device.find(key);
        if (found != device.end()) {
            if (!found->is_boolean()) {
                return fail(Errc::invalid_argument,
                            fmt::format("doca_dpdk_flags: {}: {} is not true or false", key,
                                        found->dump()));
            }
            text += found->get<bool>() ? on : off;
        }
    }
    return text;
}

/// The arguments of DPDK's environment that the section stands for.
Result<std::vector<std::string>> dpdk_arguments(const nlohmann::json& section) {
    std::vector<std::string> words;
    for (const auto& [key, value] : section.items()) {
        if (key == "devices" && value.is_array()) {
            for (const nlohmann::json& each : value) {
                auto device = dpdk_device(each);
                if (!device) {
                    return tl::unexpected(device.error());
                }
                words.insert(words.end(), {"-a", std::move(*device)});
            }
        } else if (key == "core-mask" || key == "core-list" || key == "flags") {
            auto text = text_of(section, key.c_str(), key == "core-mask");
            if (!text) {
                return tl::unexpected(text.error());
            }
            std::istringstream flags(*text);
            if (key == "flags") {
                words.insert(words.end(), std::istream_iterator<std::string>(flags), {});
            } else {
                words.insert(words.end(), {key == "core-mask" ? "-c" : "-l", std::move(*text)});
            }
        } else {
            return fail(Errc::unsupported, fmt::format("doca_dpdk_flags: there is no '{}'", key));
        }
    }
    return words;
}

} // namespace

Result<nlohmann::json> Parser::read_json(const std::string& file) const {
    std::ifstream stream(file);
    nlohmann::json all;
    try {
        // No exceptions of the parser: what does not parse is `discarded`. Comments are skipped.
        all = nlohmann::json::parse(stream, nullptr, false, true);
    } catch (const std::ios_base::failure&) { // of a directory, say, in spite of its settings
        stream.setstate(std::ios_base::failbit);
    }
    if (!stream || !all.is_object()) {
        return fail(Errc::io,
                    fmt::format("'{}' cannot be read, or does not hold a JSON object", file));
    }
    return all;
}

const doca_argp_param* Parser::find_json_flag(const std::string& key) const {
    // The innermost command's first: it may have a flag of the same name as the program.
    const auto& commands = line_->commands();
    for (auto command = commands.rbegin(); command != commands.rend(); ++command) {
        for (const doca_argp_param* const param : (*command)->params) {
            if (param->long_name == key && !param->cli_only) {
                return param;
            }
        }
    }
    return nullptr;
}

doca_error_t Parser::take_json(const nlohmann::json& all, const std::string& file) {
    for (const auto& [section, keys] : all.items()) {
        const bool general = section == "doca_general_flags";
        if (section == "doca_dpdk_flags" && dpdk != nullptr && keys.is_object()) {
            auto arguments = dpdk_arguments(keys);
            if (!arguments) {
                return complain(to_doca(arguments.error().code), arguments.error().message);
            }
            if (theirs_.empty()) { // else the command line decides
                theirs_ = std::move(*arguments);
            }
            continue;
        }
        if ((!general && section != "doca_program_flags") || !keys.is_object()) {
            if (pedantic) {
                return complain(DOCA_ERROR_INVALID_VALUE,
                                fmt::format("'{}': there is no section '{}'", file, section));
            }
            continue;
        }
        for (const auto& [key, json] : keys.items()) {
            const doca_error_t result =
                general ? take_json_level(key, json) : take_json_flag(key, json);
            if (result != DOCA_SUCCESS) {
                return result;
            }
        }
    }
    return DOCA_SUCCESS;
}

doca_error_t Parser::take_json_level(const std::string& key, const nlohmann::json& json) {
    std::optional<int>* const level = key == "log-level"       ? &log_level
                                      : key == "sdk-log-level" ? &sdk_log_level
                                                               : nullptr;
    if (level == nullptr) {
        return pedantic ? complain(DOCA_ERROR_NOT_SUPPORTED,
                                   fmt::format("there is no general flag '{}'", key))
                        : DOCA_SUCCESS;
    }
    const std::optional<std::string>& on_line =
        level == &log_level ? line_->log_level : line_->sdk_log_level;
    std::optional<int> read;
    const doca_error_t result = take_level(key.c_str(), json.dump(), read);
    if (result == DOCA_SUCCESS && !on_line) {
        *level = read;
    }
    return result;
}

doca_error_t Parser::take_json_flag(const std::string& key, const nlohmann::json& json) {
    const doca_argp_param* const param = find_json_flag(key);
    if (param == nullptr) {
        return pedantic ? complain(DOCA_ERROR_NOT_SUPPORTED,
                                   fmt::format("there is no program flag '{}'", key))
                        : DOCA_SUCCESS;
    }
    if (taken_.count(param) != 0) {
        return DOCA_SUCCESS; // the command line has it
    }
    const bool list = param->many && json.is_array();
    for (const nlohmann::json& each : list ? json : nlohmann::json::array({json})) {
        auto value = parse_value(param->type, each);
        if (!value) {
            return complain(DOCA_ERROR_INVALID_VALUE,
                            fmt::format("{}: {}", param->shown_name(), value.error().message));
        }
        if (const doca_error_t result = call(*param, std::move(*value)); result != DOCA_SUCCESS) {
            return result;
        }
    }
    return DOCA_SUCCESS;
}

} // namespace comch::doca
