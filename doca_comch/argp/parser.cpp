#include "doca_comch/argp/parser.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <doca_log.h>
#include <doca_version.h>

#include "doca_comch/common/status.hpp"

namespace comch::doca {
namespace {

bool is_level(int level) {
    return level >= DOCA_LOG_LEVEL_DISABLE && level <= DOCA_LOG_LEVEL_TRACE && level % 10 == 0;
}

/// The program's logger takes arguments as printf() does.
__attribute__((format(printf, 2, 3))) void tell(doca_argp_logger_cb_t logger, const char* format,
                                                ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)logger(DOCA_LOG_LEVEL_ERROR, format, arguments);
    va_end(arguments);
}

} // namespace

std::string Parser::usage() const {
    return line_ != nullptr
               ? line_->usage()
               : CommandLine(program_name_, registry.program(), dpdk != nullptr).usage();
}

doca_error_t Parser::complain(doca_error_t code, const std::string& sentence) const {
    if (abandoned_) {
        return code;
    }
    const std::string text = usage(); // the logger may destroy us
    if (logger != nullptr) {
        tell(logger, "%s", sentence.c_str());
        std::fputs(text.c_str(), stderr);
    } else {
        std::fputs(fmt::format("{}: {}\n{}", program_name_, sentence, text).c_str(), stderr);
    }
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

doca_error_t Parser::start(int argc, char** argv) {
    if (running_) {
        return refuse(DOCA_ERROR_BAD_STATE, "cannot start the parser inside a callback of its own");
    }
    if (program_name_.empty() && argc > 0) {
        const std::string path = argv[0];
        program_name_ = path.substr(path.find_last_of('/') + 1);
    }
    struct Running {
        explicit Running(bool& flag) : flag_(flag) { flag_ = true; }
        ~Running() { flag_ = false; }
        Running(const Running&) = delete;
        Running& operator=(const Running&) = delete;

    private:
        bool& flag_;
    } const running(running_);
    return run(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
}

doca_error_t Parser::run(std::vector<std::string> words) {
    theirs_.clear();
    if (dpdk != nullptr) {
        const auto middle = std::find(words.begin(), words.end(), "--");
        if (middle != words.end()) {
            theirs_.assign(words.begin(), middle);
            words.erase(words.begin(), middle + 1);
        }
    }
    taken_.clear();
    line_ = std::make_unique<CommandLine>(program_name_, registry.program(), dpdk != nullptr);
    const auto wish = line_->parse(std::move(words));
    if (!wish) {
        return complain(to_doca(wish.error().code), wish.error().message);
    }
    if (*wish == CommandLine::Wish::help) {
        std::fputs(usage().c_str(), stdout);
        std::exit(EXIT_SUCCESS);
    }
    if (*wish == CommandLine::Wish::version) {
        show_version();
    }

    doca_error_t result = take_level("--log-level", line_->log_level, log_level);
    DOCA_ERROR_PROPAGATE(result,
                         take_level("--sdk-log-level", line_->sdk_log_level, sdk_log_level));
    nlohmann::json json;
    std::vector<std::string> keys;
    if (result == DOCA_SUCCESS && !line_->json_file.empty()) {
        auto read = read_json(line_->json_file);
        if (!read) {
            return complain(DOCA_ERROR_IO_FAILED, read.error().message);
        }
        json = std::move(*read);
        const auto section = json.find("doca_program_flags");
        if (section != json.end() && section->is_object()) {
            for (const auto& [key, value] : section->items()) {
                keys.push_back(key);
            }
        }
    }
    if (result == DOCA_SUCCESS) {
        result = check_singular(keys);
    }
    for (const CommandLine::Step& step : line_->steps()) {
        if (result != DOCA_SUCCESS) {
            return result;
        }
        result = take_step(step);
    }
    if (result == DOCA_SUCCESS && !line_->json_file.empty()) {
        result = take_json(json, line_->json_file);
    }
    if (result == DOCA_SUCCESS) {
        result = check_mandatory();
    }
    if (result == DOCA_SUCCESS) {
        result = apply_levels();
    }
    if (result == DOCA_SUCCESS && validation != nullptr) {
        result = after_callback(validation(config_));
    }
    return result == DOCA_SUCCESS && dpdk != nullptr ? hand_over() : result;
}

doca_error_t Parser::hand_over() {
    Arguments& arguments = handed_over_.emplace_back();
    arguments.words = std::move(theirs_);
    arguments.words.insert(arguments.words.begin(), program_name_);
    for (std::string& word : arguments.words) {
        arguments.pointers.push_back(word.data());
    }
    arguments.pointers.push_back(nullptr);
    const doca_error_t result =
        after_callback(dpdk(static_cast<int>(arguments.words.size()), arguments.pointers.data()));
    return result == DOCA_SUCCESS ? result
                                  : complain(result, "the arguments in front of -- were refused");
}

doca_error_t Parser::take_level(const char* name, const std::optional<std::string>& text,
                                std::optional<int>& level) {
    if (!text) {
        return DOCA_SUCCESS;
    }
    const auto value = parse_value(DOCA_ARGP_TYPE_INT, *text);
    if (!value || !is_level(std::get<int>(*value))) {
        return complain(DOCA_ERROR_INVALID_VALUE,
                        fmt::format("{}: '{}' is not a level", name, *text));
    }
    level = std::get<int>(*value);
    return DOCA_SUCCESS;
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

// ---- flags and commands ------------------------------------------------------------------------

doca_error_t Parser::check_singular(const std::vector<std::string>& json_keys) {
    const doca_argp_param* singular = nullptr;
    const doca_argp_param* other = nullptr;
    const auto see = [&](const doca_argp_param* param) {
        if (param == nullptr) {
            return;
        }
        if (param->singular && singular == nullptr) {
            singular = param;
        } else if (param != singular) {
            other = param;
        }
    };
    for (const CommandLine::Step& step : line_->steps()) {
        see(step.flag);
    }
    for (const std::string& key : json_keys) {
        see(find_json_flag(key));
    }
    return singular == nullptr || other == nullptr
               ? DOCA_SUCCESS
               : complain(DOCA_ERROR_INVALID_VALUE,
                          fmt::format("{} must not come with another flag, but {} is there",
                                      singular->shown_name(), other->shown_name()));
}

doca_error_t Parser::check_mandatory() {
    // A singular flag comes alone: there is nothing else that could be missing.
    for (const auto& [param, count] : taken_) {
        if (param->singular) {
            return DOCA_SUCCESS;
        }
    }
    for (const doca_argp_cmd* const command : line_->commands()) {
        for (const doca_argp_param* const param : command->params) {
            if (param->mandatory && taken_.count(param) == 0) {
                return complain(DOCA_ERROR_INVALID_VALUE,
                                fmt::format("{} is missing", param->shown_name()));
            }
        }
    }
    return DOCA_SUCCESS;
}

doca_error_t Parser::take_step(const CommandLine::Step& step) {
    if (step.command != nullptr) {
        const doca_error_t result = step.command->callback == nullptr
                                        ? DOCA_SUCCESS
                                        : after_callback(step.command->callback(config_));
        return result == DOCA_SUCCESS
                   ? result
                   : complain(result,
                              fmt::format("the command '{}' was refused: {}", step.command->name,
                                          doca_error_get_descr(result)));
    }
    if (taken_.count(step.flag) != 0 && !step.flag->many) {
        // An inherited one, once in front of the command and once behind it.
        return complain(DOCA_ERROR_INVALID_VALUE,
                        fmt::format("{} may come once", step.flag->shown_name()));
    }
    auto value = parse_value(step.flag->type, step.text);
    return value ? call(*step.flag, std::move(*value))
                 : complain(DOCA_ERROR_INVALID_VALUE,
                            fmt::format("{}: {}", step.flag->shown_name(), value.error().message));
}

doca_error_t Parser::call(const doca_argp_param& param, Value value) {
    ++taken_[&param];
    void* what = nullptr;
    doca_argp_device_ctx device = {};
    doca_argp_device_rep_ctx representor = {};
    if (param.type == DOCA_ARGP_TYPE_DEVICE || param.type == DOCA_ARGP_TYPE_DEVICE_REP) {
        const bool is_device = param.type == DOCA_ARGP_TYPE_DEVICE;
        const std::string& text = std::get<std::string>(value);
        what = is_device ? static_cast<void*>(&device) : &representor;
        const doca_error_t result = after_callback(is_device ? devices.open(text, device)
                                                             : devices.open(text, representor));
        if (result != DOCA_SUCCESS) {
            return complain(result,
                            fmt::format("{} {}: {}", param.shown_name(), text, devices.why));
        }
    } else if (std::string* const text = std::get_if<std::string>(&value)) {
        what = text->data();
    } else {
        std::visit([&](auto& held) { what = &held; }, value);
    }
    const doca_error_t result = after_callback(param.callback(what, config_));
    return result == DOCA_SUCCESS
               ? result
               : complain(result, fmt::format("the value of {} was refused: {}", param.shown_name(),
                                              doca_error_get_descr(result)));
}

} // namespace comch::doca
