// The program's flags, and what becomes of them when it starts.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <comch/error.hpp>
#include <doca_argp.h>
#include <nlohmann/json_fwd.hpp>

#include "doca_comch/argp/param.hpp"
#include "doca_comch/argp/value.hpp"

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace comch::doca {

class Parser {
public:
    Parser(std::string program_name, void* config)
        : program_name_(std::move(program_name)), config_(config) {}

    [[nodiscard]] doca_argp_param* create();
    [[nodiscard]] doca_error_t destroy(doca_argp_param* param);
    [[nodiscard]] doca_error_t add(doca_argp_param* param);
    /// Null if there is none such that can still be changed.
    [[nodiscard]] doca_argp_param* open(doca_argp_param* param);

    [[nodiscard]] doca_error_t start(int argc, char** argv);
    [[nodiscard]] std::string usage() const;

    doca_argp_param_cb_t version = nullptr;
    doca_argp_validation_cb_t validation = nullptr;
    doca_argp_dpdk_cb_t dpdk = nullptr;
    bool pedantic = true;
    std::optional<int> log_level;
    std::optional<int> sdk_log_level;

private:
    /// A registered flag, and whether this command line has it.
    struct Found {
        doca_argp_param* param = nullptr;
        CLI::Option* option = nullptr;
        std::size_t taken = 0; ///< how many of the option's values the callback has had
    };

    [[nodiscard]] bool is_taken(const std::string& name) const;
    [[nodiscard]] std::unique_ptr<CLI::App> build(std::vector<Found>& flags,
                                                  std::string& json_file) const;
    [[nodiscard]] std::vector<std::string> own_arguments(std::vector<std::string> all,
                                                         doca_error_t& result);
    doca_error_t take_command_line(CLI::App& app, std::vector<Found>& flags);
    doca_error_t take_json(const std::string& file, std::vector<Found>& flags);
    doca_error_t take_json_flag(const std::string& key, const nlohmann::json& json,
                                std::vector<Found>& flags);
    doca_error_t take_json_level(const std::string& key, const nlohmann::json& json);
    doca_error_t apply_levels() const;
    doca_error_t call(Found& flag, Value value);
    [[noreturn]] void show_version();
    /// Says so, with the usage, on stderr.
    doca_error_t complain(doca_error_t code, const std::string& sentence) const;

    std::string program_name_;
    void* config_;
    std::list<doca_argp_param> params_; ///< every one that was created; pointers stay valid
    std::vector<doca_argp_param*> registered_;
};

} // namespace comch::doca
