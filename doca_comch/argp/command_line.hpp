// The command line, taken apart: what it names, in its order; and the usage.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <comch/error.hpp>
#include <doca_argp.h>

#include "doca_comch/argp/param.hpp"

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace comch::doca {

class CommandLine {
public:
    /// A flag with its value, or a command.
    struct Step {
        const doca_argp_param* flag = nullptr;
        const doca_argp_cmd* command = nullptr;
        std::string text;
    };
    /// What is asked for instead of running.
    enum class Wish : std::uint8_t { run, help, version };

    CommandLine(std::string program_name, const doca_argp_cmd& program, bool dpdk);
    ~CommandLine();
    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;

    /// Once. `unsupported`: what nobody registered; `invalid_argument`: what is used wrongly.
    [[nodiscard]] Result<Wish> parse(std::vector<std::string> words);
    /// Of the program, or of the command that was named.
    [[nodiscard]] std::string usage() const;

    [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
    /// The program and the commands that were named, each below the one in front of it.
    [[nodiscard]] const std::vector<const doca_argp_cmd*>& commands() const { return commands_; }

    std::string json_file;
    std::optional<std::string> log_level;
    std::optional<std::string> sdk_log_level;

private:
    class UsageFormatter;
    struct Level;

    void describe(CLI::App& app, const doca_argp_cmd& command,
                  std::vector<const doca_argp_param*> inherited);
    [[nodiscard]] Result<std::vector<std::string>> spell(std::vector<std::string> words);
    [[nodiscard]] const Level& level_of(const doca_argp_cmd& command) const;
    void collect();

    const doca_argp_cmd& program_;
    std::shared_ptr<UsageFormatter> formatter_;
    std::unique_ptr<CLI::App> app_;
    std::vector<Level> levels_;
    std::vector<Step> steps_;
    std::vector<const doca_argp_cmd*> commands_;
};

} // namespace comch::doca
