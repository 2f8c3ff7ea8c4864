// The program's flags and commands, and what becomes of them when it starts.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <comch/error.hpp>
#include <doca_argp.h>
#include <nlohmann/json_fwd.hpp>

#include "doca_comch/argp/command_line.hpp"
#include "doca_comch/argp/device_value.hpp"
#include "doca_comch/argp/registry.hpp"
#include "doca_comch/argp/value.hpp"

namespace comch::doca {

class Parser {
public:
    Parser(std::string program_name, void* config)
        : program_name_(std::move(program_name)), config_(config) {}

    [[nodiscard]] doca_error_t start(int argc, char** argv);
    /// Of the command that was named, when it has started; else of the program.
    [[nodiscard]] std::string usage() const;

    /// Between the begin and the end of start(): in a callback.
    [[nodiscard]] bool is_running() const { return running_; }
    /// The program destroyed it. What runs ends, without another callback.
    void abandon() { abandoned_ = true; }
    /// What is registered changes: the last command line is none of its.
    void forget_line() { line_.reset(); }

    Registry registry;
    DeviceValues devices;
    doca_argp_param_cb_t version = nullptr;
    doca_argp_validation_cb_t validation = nullptr;
    doca_argp_dpdk_cb_t dpdk = nullptr;
    doca_argp_logger_cb_t logger = nullptr;
    bool pedantic = true;
    std::optional<int> log_level;
    std::optional<int> sdk_log_level;

private:
    /// Arguments that the program may keep, and change.
    struct Arguments {
        std::vector<std::string> words;
        std::vector<char*> pointers;
    };

    doca_error_t run(std::vector<std::string> words);
    doca_error_t take_level(const char* name, const std::optional<std::string>& text,
                            std::optional<int>& level);
    [[nodiscard]] doca_error_t check_singular(const std::vector<std::string>& json_keys);
    [[nodiscard]] doca_error_t check_mandatory();
    doca_error_t take_step(const CommandLine::Step& step);
    [[nodiscard]] Result<nlohmann::json> read_json(const std::string& file) const;
    [[nodiscard]] const doca_argp_param* find_json_flag(const std::string& key) const;
    doca_error_t take_json(const nlohmann::json& all, const std::string& file);
    doca_error_t take_json_flag(const std::string& key, const nlohmann::json& json);
    doca_error_t take_json_level(const std::string& key, const nlohmann::json& json);
    doca_error_t apply_levels() const;
    doca_error_t call(const doca_argp_param& param, Value value);
    doca_error_t hand_over();
    [[noreturn]] void show_version();

    /// What a callback answered, unless it was its last word.
    [[nodiscard]] doca_error_t after_callback(doca_error_t result) const {
        return result == DOCA_SUCCESS && abandoned_ ? DOCA_ERROR_BAD_STATE : result;
    }
    /// Says so, with the usage.
    doca_error_t complain(doca_error_t code, const std::string& sentence) const;

    std::string program_name_;
    void* config_;
    bool running_ = false;
    bool abandoned_ = false;
    std::unique_ptr<CommandLine> line_;                   ///< of the last start
    std::map<const doca_argp_param*, std::size_t> taken_; ///< how often its callback was called
    std::vector<std::string> theirs_;                     ///< of this start
    std::list<Arguments> handed_over_;
};

} // namespace comch::doca
