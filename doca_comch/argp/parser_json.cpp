// Flags from a JSON file.
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "doca_comch/argp/parser.hpp"

namespace comch::doca {

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
