#include "doca_comch/argp/command_line.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace comch::doca {
namespace {

constexpr const char* doca_flags = "DOCA Flags";
constexpr const char* program_flags = "Program Flags";

constexpr std::size_t width = 34; ///< of the column of flags and commands

enum class Kind : std::uint8_t {
    unknown,
    bare,
    valued,
    last, ///< bare, and what follows does not matter
};

/// What every program has.
struct GeneralFlag {
    std::string_view short_name;
    std::string_view long_name;
    Kind kind;
};
constexpr GeneralFlag general_flags[] = {
    {"h", "help", Kind::last},        {"v", "version", Kind::last},
    {"l", "log-level", Kind::valued}, {"", "sdk-log-level", Kind::valued},
    {"j", "json", Kind::valued},
};

} // namespace

class CommandLine::UsageFormatter final : public CLI::Formatter {
public:
    explicit UsageFormatter(bool dpdk) : dpdk_(dpdk) { column_width(width); }

    /// The flags whose one or first long name, to CLI11, is a short one to people.
    std::set<const CLI::Option*> with_long_short_name;

    std::string make_help(const CLI::App* app, std::string name,
                          CLI::AppFormatMode) const override {
        const std::vector<const CLI::App*> commands =
            app->get_subcommands([](const CLI::App* below) { return !below->get_group().empty(); });
        std::string text =
            fmt::format("Usage: {}{} [DOCA Flags] [Program Flags]{}\n", name,
                        dpdk_ ? " [DPDK Flags] --" : "", commands.empty() ? "" : " [Command]");
        if (!app->get_description().empty()) {
            text += "\n" + app->get_description() + "\n";
        }
        for (const char* const group : {doca_flags, program_flags}) {
            const std::vector<const CLI::Option*> options = app->get_options(
                [&](const CLI::Option* option) { return option->get_group() == group; });
            text += options.empty() ? "" : make_group(group, false, options);
        }
        text += commands.empty() ? "" : "\nCommands:\n";
        for (const CLI::App* const command : commands) {
            text += fmt::format("  {:<{}}{}\n", command->get_name(), width - 2,
                                command->get_description());
        }
        return text + "\n";
    }
    std::string make_option_name(const CLI::Option* option, bool) const override {
        std::string names;
        for (const std::string& name : option->get_snames()) {
            names += (names.empty() ? "-" : ", -") + name;
        }
        for (const std::string& name : option->get_lnames()) {
            const bool is_short = names.empty() && with_long_short_name.count(option) != 0;
            names += std::string(names.empty() ? "" : ", ") + (is_short ? "-" : "--") + name;
        }
        return names;
    }
    std::string make_option_opts(const CLI::Option* option) const override {
        return option->get_type_name().empty() ? "" : " " + option->get_type_name();
    }

private:
    bool dpdk_;
};

namespace {

/// "p,pci-addr" as CLI11 wants it. A short name of several letters is a long one to CLI11, the
/// first of two.
std::string cli_names(const doca_argp_param& param) {
    std::string names;
    if (!param.short_name.empty()) {
        names = (param.short_name.size() == 1 ? "-" : "--") + param.short_name;
    }
    if (!param.long_name.empty() && names != "--" + param.long_name) {
        names += (names.empty() ? "--" : ",--") + param.long_name;
    }
    return names;
}

/// What the usage shows behind a flag that does not say itself what it takes.
const char* placeholder(doca_argp_type type) {
    switch (type) {
    case DOCA_ARGP_TYPE_INT:
        return "<integer>";
    case DOCA_ARGP_TYPE_DOUBLE:
        return "<number>";
    case DOCA_ARGP_TYPE_DEVICE:
        return "<device>";
    case DOCA_ARGP_TYPE_DEVICE_REP:
        return "<device>,<representor>";
    default:
        return "<string>";
    }
}

std::vector<const doca_argp_param*> flags_of(const doca_argp_cmd& command,
                                             const std::vector<const doca_argp_param*>& inherited) {
    std::vector<const doca_argp_param*> flags(command.params.begin(), command.params.end());
    flags.insert(flags.end(), inherited.begin(), inherited.end());
    return flags;
}

std::vector<const doca_argp_param*>
inherited_by_those_below(const doca_argp_cmd& command,
                         std::vector<const doca_argp_param*> inherited) {
    for (const doca_argp_param* const param : command.params) {
        if (param->inherited) {
            inherited.push_back(param);
        }
    }
    return inherited;
}

} // namespace

/// A command, the program included, with its flags and those that it inherits.
struct CommandLine::Level {
    const doca_argp_cmd* command = nullptr;
    CLI::App* app = nullptr;
    std::map<const CLI::Option*, const doca_argp_param*> flags;
};

CommandLine::CommandLine(std::string program_name, const doca_argp_cmd& program, bool dpdk)
    : program_(program), app_(std::make_unique<CLI::App>("", std::move(program_name))) {
    formatter_ = std::make_shared<UsageFormatter>(dpdk);
    app_->formatter(formatter_); // those below inherit it
    describe(*app_, program, {});
    commands_.push_back(&program);
}

CommandLine::~CommandLine() = default;

void CommandLine::describe(CLI::App& app, const doca_argp_cmd& command,
                           std::vector<const doca_argp_param*> inherited) {
    Level level{.command = &command, .app = &app, .flags = {}};
    app.set_help_flag("-h,--help", "Print a help synopsis")->group(doca_flags);
    app.set_version_flag("-v,--version", "", "Print program version information")
        ->group(doca_flags);
    const auto add = [&](const char* names, const char* type, const std::string& description,
                         auto take) {
        app.add_option_function<std::string>(names, take, description)
            ->allow_extra_args(false)
            ->type_name(type)
            ->group(doca_flags);
    };
    const std::string levels = "<DISABLE=10, CRITICAL=20, ERROR=30, WARNING=40, INFO=50, DEBUG=60, "
                               "TRACE=70>";
    add("-l,--log-level", "<integer>", "Set the log level for the program " + levels,
        [this](const std::string& text) { log_level = text; });
    add("--sdk-log-level", "<integer>", "Set the log level for the SDK " + levels,
        [this](const std::string& text) { sdk_log_level = text; });
    add("-j,--json", "<path>", "Take flags from a JSON file",
        [this](const std::string& text) { json_file = text; });

    for (const doca_argp_param* const param : flags_of(command, inherited)) {
        const std::string& text = param->description;
        const std::string type =
            param->arguments.empty() ? placeholder(param->type) : param->arguments;
        CLI::Option* const option = !param->takes_value() ? app.add_flag(cli_names(*param), text)
                                                          : app.add_option(cli_names(*param), text)
                                                                ->expected(1)
                                                                ->type_name(type)
                                                                ->allow_extra_args(false);
        if (param->short_name.size() > 1) {
            formatter_->with_long_short_name.insert(option);
        }
        option->group(param->hidden ? "" : program_flags)
            ->multi_option_policy(param->many ? CLI::MultiOptionPolicy::TakeAll
                                              : CLI::MultiOptionPolicy::Throw);
        level.flags.emplace(option, param);
    }
    levels_.push_back(std::move(level));

    app.require_subcommand(0, 1);
    inherited = inherited_by_those_below(command, std::move(inherited));
    for (const doca_argp_cmd* const below : command.commands) {
        CLI::App* const sub = app.add_subcommand(below->name, below->description);
        sub->group(below->hidden ? "" : "Commands");
        describe(*sub, *below, inherited);
    }
}

std::string CommandLine::usage() const {
    std::string above;
    for (std::size_t i = 0; i + 1 < commands_.size(); ++i) {
        above += (i == 0 ? "" : " ") + level_of(*commands_[i]).app->get_name();
    }
    return level_of(*commands_.back()).app->help(above);
}

const CommandLine::Level& CommandLine::level_of(const doca_argp_cmd& command) const {
    return *std::find_if(levels_.begin(), levels_.end(),
                         [&](const Level& each) { return each.command == &command; });
}

/// Spells the words so that CLI11 cannot misread them: every flag by itself, its value behind it.
/// CLI11 has no short names of several letters ("-rt"), gives "--name=" the next word as its value,
/// and takes "--flag=no" for a flag that has none.
Result<std::vector<std::string>> CommandLine::spell(std::vector<std::string> words) {
    const doca_argp_cmd* command = &program_;
    std::vector<const doca_argp_param*> inherited;
    std::vector<const doca_argp_param*> known = flags_of(*command, inherited);
    const auto kind_of = [&](const std::string& name, bool is_long) {
        for (const GeneralFlag& flag : general_flags) {
            if (name == (is_long ? flag.long_name : flag.short_name)) {
                return flag.kind;
            }
        }
        for (const doca_argp_param* const param : known) {
            if (!name.empty() && name == (is_long ? param->long_name : param->short_name)) {
                return param->takes_value() ? Kind::valued : Kind::bare;
            }
        }
        return Kind::unknown;
    };

    std::vector<std::string> spelt;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string& word = words[i];
        const auto take_next = [&]() -> Result<void> {
            if (i + 1 == words.size()) {
                return fail(Errc::invalid_argument, fmt::format("{} needs a value", word));
            }
            spelt.push_back(std::move(words[++i]));
            return {};
        };
        if (word == "--") {
            spelt.insert(spelt.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
            break;
        }
        if (word.size() < 2 || word.front() != '-') {
            for (const doca_argp_cmd* const below : command->commands) {
                if (below->name == word) {
                    inherited = inherited_by_those_below(*command, std::move(inherited));
                    command = below;
                    commands_.push_back(below);
                    known = flags_of(*command, inherited);
                    break;
                }
            }
            spelt.push_back(std::move(word));
            continue;
        }
        const bool is_long = word[1] == '-';
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(is_long ? 2 : 1, equals - (is_long ? 2 : 1));
        if (is_long || name.size() > 1) {
            const Kind kind = kind_of(name, is_long);
            if ((kind == Kind::bare || kind == Kind::last) && equals != std::string::npos) {
                return fail(Errc::invalid_argument,
                            fmt::format("{} takes no value", word.substr(0, equals)));
            }
            if (kind != Kind::unknown) {
                spelt.push_back("--" + name);
                if (kind == Kind::last) {
                    return spelt;
                }
                if (equals != std::string::npos) {
                    spelt.push_back(word.substr(equals + 1));
                } else if (kind == Kind::valued) {
                    if (const auto taken = take_next(); !taken) {
                        return tl::unexpected(taken.error());
                    }
                }
                continue;
            }
            if (is_long) {
                return fail(Errc::unsupported, fmt::format("there is no flag --{}", name));
            }
        }
        // "-f", "-n5", "-fq", "-fqn5": flags without a value, and one with it at the end.
        for (std::size_t at = 1; at < word.size(); ++at) {
            const Kind kind = kind_of(word.substr(at, 1), false);
            if (at > 1 && word[at] == '=') {
                return fail(Errc::invalid_argument,
                            fmt::format("{} takes no value", word.substr(0, at)));
            }
            if (kind == Kind::unknown) {
                return fail(Errc::unsupported, word.size() == 2
                                                   ? fmt::format("there is no flag {}", word)
                                                   : fmt::format("there is no flag {}, nor -{}",
                                                                 word, word.substr(at, 1)));
            }
            spelt.push_back("-" + word.substr(at, 1));
            if (kind == Kind::last) {
                return spelt;
            }
            if (kind == Kind::valued) {
                if (at + 1 < word.size()) {
                    spelt.push_back(word.substr(at + 1));
                } else if (const auto taken = take_next(); !taken) {
                    return tl::unexpected(taken.error());
                }
                break;
            }
        }
    }
    return spelt;
}

Result<CommandLine::Wish> CommandLine::parse(std::vector<std::string> words) {
    auto spelt = spell(std::move(words));
    if (!spelt) {
        return tl::unexpected(spelt.error());
    }
    try {
        std::reverse(spelt->begin(), spelt->end()); // CLI11 takes them from the end
        app_->parse(*spelt);
    } catch (const CLI::CallForHelp&) {
        return Wish::help;
    } catch (const CLI::CallForVersion&) {
        return Wish::version;
    } catch (const CLI::ExtrasError&) {
        const std::vector<std::string> unknown = app_->remaining(true);
        return fail(Errc::unsupported, fmt::format("there is no flag or command '{}'",
                                                   unknown.empty() ? "" : unknown.front()));
    } catch (const CLI::ParseError& error) {
        return fail(Errc::invalid_argument, error.what());
    }
    collect();
    return Wish::run;
}

void CommandLine::collect() {
    for (const doca_argp_cmd* const command : commands_) {
        const Level& level = level_of(*command);
        if (command != &program_) {
            steps_.push_back({.flag = nullptr, .command = command, .text = {}});
        }
        // In the order of the command line: a later flag may depend on what an earlier one set.
        std::map<const CLI::Option*, std::size_t> taken;
        for (const CLI::Option* const option : level.app->parse_order()) {
            const auto flag = level.flags.find(option);
            std::size_t& at = taken[option];
            if (flag != level.flags.end() && at < option->results().size()) {
                steps_.push_back(
                    {.flag = flag->second, .command = nullptr, .text = option->results()[at++]});
            }
        }
    }
}

} // namespace comch::doca
