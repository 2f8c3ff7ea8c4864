#include "doca_comch/argp/parser.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <doca_log.h>
#include <doca_version.h>

#include "doca_comch/common/status.hpp"

namespace comch::doca {
namespace {

constexpr const char* doca_flags = "DOCA Flags";
constexpr const char* program_flags = "Program Flags";

constexpr const char* reserved_names[] = {
    "h", "v", "l", "j", "help", "version", "log-level", "sdk-log-level", "json"};

class UsageFormatter final : public CLI::Formatter {
public:
    std::string make_usage(const CLI::App*, std::string name) const override {
        return "Usage: " + name + " [DOCA Flags] [Program Flags]\n";
    }
    std::string make_option_name(const CLI::Option* option, bool) const override {
        std::string names;
        for (const std::string& name : option->get_snames()) {
            names += (names.empty() ? "-" : ", -") + name;
        }
        for (const std::string& name : option->get_lnames()) {
            names += (names.empty() ? "--" : ", --") + name;
        }
        return names;
    }
    std::string make_option_opts(const CLI::Option* option) const override {
        return option->get_type_name().empty() ? "" : " " + option->get_type_name();
    }
};

/// "p,pci-addr" as CLI11 wants it. A short name of several letters is a long one to CLI11: the
/// command line is rewritten accordingly.
std::string cli_names(const doca_argp_param& param) {
    std::string names;
    if (!param.short_name.empty()) {
        names = (param.short_name.size() == 1 ? "-" : "--") + param.short_name;
    }
    if (!param.long_name.empty()) {
        names += (names.empty() ? "--" : ",--") + param.long_name;
    }
    return names;
}

bool is_name(const std::string& name) {
    return CLI::detail::valid_name_string(name);
}

doca_error_t check_level(int level) {
    return level >= DOCA_LOG_LEVEL_DISABLE && level <= DOCA_LOG_LEVEL_TRACE && level % 10 == 0
               ? DOCA_SUCCESS
               : DOCA_ERROR_INVALID_VALUE;
}

} // namespace

// ---- the flags ---------------------------------------------------------------------------------

doca_argp_param* Parser::create() {
    return &params_.emplace_back();
}

doca_argp_param* Parser::open(doca_argp_param* param) {
    const auto found = std::find_if(params_.begin(), params_.end(),
                                    [&](const doca_argp_param& each) { return &each == param; });
    return found != params_.end() && found->state == doca_argp_param::State::created ? &*found
                                                                                     : nullptr;
}

doca_error_t Parser::destroy(doca_argp_param* param) {
    const auto found = std::find_if(params_.begin(), params_.end(),
                                    [&](const doca_argp_param& each) { return &each == param; });
    if (found == params_.end() || found->state == doca_argp_param::State::refused) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (found->state == doca_argp_param::State::registered) {
        return DOCA_ERROR_BAD_STATE;
    }
    params_.erase(found);
    return DOCA_SUCCESS;
}

bool Parser::is_taken(const std::string& name) const {
    return std::any_of(std::begin(reserved_names), std::end(reserved_names),
                       [&](const char* reserved) { return name == reserved; }) ||
           std::any_of(registered_.begin(), registered_.end(), [&](const doca_argp_param* param) {
               return param->short_name == name || param->long_name == name;
           });
}

doca_error_t Parser::add(doca_argp_param* param) {
    const auto known = std::find_if(params_.begin(), params_.end(),
                                    [&](const doca_argp_param& each) { return &each == param; });
    if (known == params_.end() || param->state == doca_argp_param::State::refused) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    if (param->state == doca_argp_param::State::registered) {
        return refuse(DOCA_ERROR_BAD_STATE, fmt::format("cannot register flag {}: it is registered",
                                                        param->shown_name()));
    }
    param->state = doca_argp_param::State::refused; // it is ours, whatever comes now
    if ((param->short_name.empty() && param->long_name.empty()) || param->description.empty() ||
        param->callback == nullptr || param->type == DOCA_ARGP_TYPE_UNKNOWN) {
        return refuse(DOCA_ERROR_INITIALIZATION,
                      fmt::format("cannot register flag '{}': it needs a name, a description, a "
                                  "callback and a type",
                                  param->shown_name()));
    }
    if (param->type != DOCA_ARGP_TYPE_STRING && param->type != DOCA_ARGP_TYPE_INT &&
        param->type != DOCA_ARGP_TYPE_BOOLEAN && param->type != DOCA_ARGP_TYPE_DOUBLE) {
        return refuse(DOCA_ERROR_NOT_SUPPORTED,
                      fmt::format("cannot register flag {}: values of type {} are not supported; "
                                  "take a string",
                                  param->shown_name(), static_cast<int>(param->type)));
    }
    for (const std::string* const name : {&param->short_name, &param->long_name}) {
        if (!name->empty() && (!is_name(*name) || is_taken(*name))) {
            return refuse(
                DOCA_ERROR_INVALID_VALUE,
                fmt::format("cannot register flag {}: the name '{}' is taken or malformed",
                            param->shown_name(), *name));
        }
    }
    param->state = doca_argp_param::State::registered;
    registered_.push_back(param);
    return DOCA_SUCCESS;
}

// ---- the command line --------------------------------------------------------------------------

std::unique_ptr<CLI::App> Parser::build(std::vector<Found>& flags, std::string& json_file) const {
    auto app = std::make_unique<CLI::App>("", program_name_);
    app->formatter(std::make_shared<UsageFormatter>());
    app->set_help_flag("-h,--help", "Print a help synopsis")->group(doca_flags);
    app->set_version_flag("-v,--version", "", "Print program version information")
        ->group(doca_flags);
    const std::string levels = "<DISABLE=10, CRITICAL=20, ERROR=30, WARNING=40, INFO=50, DEBUG=60, "
                               "TRACE=70>";
    const std::string of_program = "Set the log level for the program " + levels;
    const std::string of_library = "Set the log level for the SDK " + levels;
    app->add_option("-l,--log-level", of_program)->type_name("")->group(doca_flags);
    app->add_option("--sdk-log-level", of_library)->type_name("")->group(doca_flags);
    app->add_option("-j,--json", json_file, "Take flags from a JSON file")
        ->type_name("<path>")
        ->group(doca_flags);
    for (doca_argp_param* const param : registered_) {
        const std::string& description = param->description;
        CLI::Option* const option = param->type == DOCA_ARGP_TYPE_BOOLEAN
                                        ? app->add_flag(cli_names(*param), description)
                                        : app->add_option(cli_names(*param), description)
                                              ->expected(1)
                                              ->type_name(param->arguments)
                                              ->allow_extra_args(false);
        option->group(param->hidden ? "" : program_flags)
            ->multi_option_policy(param->many ? CLI::MultiOptionPolicy::TakeAll
                                              : CLI::MultiOptionPolicy::Throw);
        if (!param->many && param->type == DOCA_ARGP_TYPE_BOOLEAN) {
            option->expected(0, 1);
        }
        flags.push_back({.param = param, .option = option});
    }
    return app;
}

std::string Parser::usage() const {
    std::vector<Found> flags;
    std::string json_file;
    return build(flags, json_file)->help();
}

doca_error_t Parser::complain(doca_error_t code, const std::string& sentence) const {
    std::fputs(fmt::format("{}: {}\n{}", program_name_, sentence, usage()).c_str(), stderr);
    return code;
}

void Parser::show_version() {
    if (version != nullptr) {
        std::exit(version(nullptr, config_) == DOCA_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    std::fputs(fmt::format("DOCA version (of the headers): {}\nDOCA version (of the library): {}\n",
                           doca_version(), doca_version_runtime())
                   .c_str(),
               stdout);
    std::exit(EXIT_SUCCESS);
}

std::vector<std::string> Parser::own_arguments(std::vector<std::string> all, doca_error_t& result) {
    if (dpdk != nullptr) {
        const auto middle = std::find(all.begin(), all.end(), "--");
        if (middle != all.end()) {
            std::vector<std::string> theirs{program_name_};
            theirs.insert(theirs.end(), all.begin(), middle);
            std::vector<char*> pointers;
            for (std::string& each : theirs) {
                pointers.push_back(each.data());
            }
            pointers.push_back(nullptr);
            result = dpdk(static_cast<int>(theirs.size()), pointers.data());
            all.erase(all.begin(), middle + 1);
        }
    }
    for (std::string& each : all) {
        for (const doca_argp_param* const param : registered_) {
            if (param->short_name.size() > 1 && each == "-" + param->short_name) {
                each.insert(each.begin(), '-');
            }
        }
    }
    return all;
}

doca_error_t Parser::start(int argc, char** argv) {
    if (program_name_.empty() && argc > 0) {
        const std::string path = argv[0];
        program_name_ = path.substr(path.find_last_of('/') + 1);
    }
    doca_error_t result = DOCA_SUCCESS;
    std::vector<std::string> arguments =
        own_arguments(std::vector<std::string>(argv + std::min(argc, 1), argv + argc), result);
    if (result != DOCA_SUCCESS) {
        return complain(result, "the arguments in front of -- were refused");
    }
    std::vector<Found> flags;
    std::string json_file;
    const std::unique_ptr<CLI::App> app = build(flags, json_file);
    try {
        std::reverse(arguments.begin(), arguments.end()); // CLI11 takes them from the end
        app->parse(arguments);
    } catch (const CLI::CallForHelp&) {
        std::fputs(app->help().c_str(), stdout);
        std::exit(EXIT_SUCCESS);
    } catch (const CLI::CallForVersion&) {
        show_version();
    } catch (const CLI::ExtrasError& error) {
        return complain(DOCA_ERROR_NOT_SUPPORTED, error.what());
    } catch (const CLI::ParseError& error) {
        return complain(DOCA_ERROR_INVALID_VALUE, error.what());
    }
    result = take_command_line(*app, flags);
    if (result == DOCA_SUCCESS && !json_file.empty()) {
        result = take_json(json_file, flags);
    }
    if (result != DOCA_SUCCESS) {
        return result;
    }
    for (const Found& flag : flags) {
        if (flag.param->mandatory && flag.taken == 0) {
            return complain(DOCA_ERROR_INVALID_VALUE,
                            fmt::format("{} is missing", flag.param->shown_name()));
        }
    }
    result = apply_levels();
    if (result == DOCA_SUCCESS && validation != nullptr) {
        result = validation(config_);
    }
    return result;
}

doca_error_t Parser::call(Found& flag, Value value) {
    ++flag.taken;
    const doca_error_t result = std::visit(
        [&](auto& held) {
            if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::string>) {
                return flag.param->callback(held.data(), config_);
            } else {
                return flag.param->callback(&held, config_);
            }
        },
        value);
    return result == DOCA_SUCCESS ? result
                                  : complain(result, fmt::format("the value of {} was refused: {}",
                                                                 flag.param->shown_name(),
                                                                 doca_error_get_descr(result)));
}

doca_error_t Parser::take_command_line(CLI::App& app, std::vector<Found>& flags) {
    // In the order of the command line: a later flag may depend on what an earlier one set.
    for (const CLI::Option* const option : app.parse_order()) {
        const auto flag = std::find_if(flags.begin(), flags.end(),
                                       [&](const Found& each) { return each.option == option; });
        if (flag != flags.end() && flag->taken < option->results().size()) {
            auto value = parse_value(flag->param->type, option->results()[flag->taken]);
            if (!value) {
                return complain(
                    DOCA_ERROR_INVALID_VALUE,
                    fmt::format("{}: {}", flag->param->shown_name(), value.error().message));
            }
            if (const doca_error_t result = call(*flag, std::move(*value));
                result != DOCA_SUCCESS) {
                return result;
            }
        }
    }
    const auto level_of = [&](const char* name, std::optional<int>& level) {
        const CLI::Option* const option = app.get_option(name);
        if (option->count() != 0) {
            const auto value = parse_value(DOCA_ARGP_TYPE_INT, option->results().back());
            if (!value || check_level(std::get<int>(*value)) != DOCA_SUCCESS) {
                return complain(
                    DOCA_ERROR_INVALID_VALUE,
                    fmt::format("{}: '{}' is not a level", name, option->results().back()));
            }
            level = std::get<int>(*value);
        }
        return DOCA_SUCCESS;
    };
    const doca_error_t result = level_of("--log-level", log_level);
    return result == DOCA_SUCCESS ? level_of("--sdk-log-level", sdk_log_level) : result;
}

doca_error_t Parser::apply_levels() const {
    doca_error_t result = DOCA_SUCCESS;
    if (log_level) {
        result = doca_log_level_set_global_lower_limit(static_cast<uint32_t>(*log_level));
    }
    if (sdk_log_level) {
        DOCA_ERROR_PROPAGATE(
            result, doca_log_level_set_global_sdk_limit(static_cast<uint32_t>(*sdk_log_level)));
    }
    return result;
}

// ---- the JSON file -----------------------------------------------------------------------------

doca_error_t Parser::take_json(const std::string& file, std::vector<Found>& flags) {
    std::ifstream stream(file);
    nlohmann::json all;
    try {
        // No exceptions of the parser: what does not parse is `discarded`. Comments are skipped.
        all = nlohmann::json::parse(stream, nullptr, false, true);
    } catch (const std::ios_base::failure&) { // of a directory, say, in spite of its settings
        stream.setstate(std::ios_base::failbit);
    }
    if (!stream || !all.is_object()) {
        return complain(DOCA_ERROR_IO_FAILED,
                        fmt::format("'{}' cannot be read, or does not hold a JSON object", file));
    }
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
                general ? take_json_level(key, json) : take_json_flag(key, json, flags);
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
        return pedantic ? complain(DOCA_ERROR_INVALID_VALUE,
                                   fmt::format("there is no general flag '{}'", key))
                        : DOCA_SUCCESS;
    }
    const auto value = parse_value(DOCA_ARGP_TYPE_INT, json);
    if (!value || check_level(std::get<int>(*value)) != DOCA_SUCCESS) {
        return complain(DOCA_ERROR_INVALID_VALUE,
                        fmt::format("{}: {} is not a level", key, json.dump()));
    }
    if (!level->has_value()) {
        *level = std::get<int>(*value);
    }
    return DOCA_SUCCESS;
}

doca_error_t Parser::take_json_flag(const std::string& key, const nlohmann::json& json,
                                    std::vector<Found>& flags) {
    const auto flag = std::find_if(flags.begin(), flags.end(), [&](const Found& each) {
        return each.param->long_name == key && !each.param->cli_only;
    });
    if (flag == flags.end()) {
        return pedantic ? complain(DOCA_ERROR_INVALID_VALUE,
                                   fmt::format("there is no program flag '{}'", key))
                        : DOCA_SUCCESS;
    }
    if (flag->taken != 0) {
        return DOCA_SUCCESS; // the command line has it
    }
    const bool list = flag->param->many && json.is_array();
    for (const nlohmann::json& each : list ? json : nlohmann::json::array({json})) {
        auto value = parse_value(flag->param->type, each);
        if (!value) {
            return complain(DOCA_ERROR_INVALID_VALUE,
                            fmt::format("{}: {}", key, value.error().message));
        }
        if (const doca_error_t result = call(*flag, std::move(*value)); result != DOCA_SUCCESS) {
            return result;
        }
    }
    return DOCA_SUCCESS;
}

} // namespace comch::doca
