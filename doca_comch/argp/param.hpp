// A flag, as the program described it.
#pragma once

#include <cstdint>
#include <string>

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
    State state = State::created;

    /// For people: "--pci-addr", or "-p" if that is all it has.
    [[nodiscard]] std::string shown_name() const {
        return long_name.empty() ? "-" + short_name : "--" + long_name;
    }
};
