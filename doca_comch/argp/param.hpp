// A flag and a command, as the program described them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <doca_argp.h>

struct doca_argp_param {
    enum class State : std::uint8_t { created, registered, refused };

    std::string short_name;
    std::string long_name;
    std::string arguments;
    std::string description;
    doca_argp_param_cb_t callback = nullptr;
    doca_argp_type type = DOCA_ARGP_TYPE_UNKNOWN;
    bool mandatory = false;
    bool cli_only = false;
    bool many = false;
    bool hidden = false;
    bool singular = false;
    bool inherited = false;
    State state = State::created;

    /// For people: "--pci-addr", or "-p" if that is all it has.
    [[nodiscard]] std::string shown_name() const {
        return long_name.empty() ? "-" + short_name : "--" + long_name;
    }
    [[nodiscard]] bool takes_value() const { return type != DOCA_ARGP_TYPE_BOOLEAN; }
};

/// The program itself is one, too: the one without a name that all others are below.
struct doca_argp_cmd {
    using State = doca_argp_param::State;

    std::string name;
    std::string description;
    doca_argp_cmd_cb_t callback = nullptr;
    bool hidden = false;
    State state = State::created;
    std::vector<doca_argp_param*> params;
    std::vector<doca_argp_cmd*> commands;
};
