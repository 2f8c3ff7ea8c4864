// doca_argp.h, on the process's one parser.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <type_traits>
#include <utility>

#include <doca_argp.h>

#include "doca_comch/argp/parser.hpp"
#include "doca_comch/common/status.hpp"

using comch::doca::guarded;
using comch::doca::Parser;

namespace {

std::shared_ptr<Parser>& parser() {
    static std::shared_ptr<Parser> one;
    return one;
}

/// BAD_STATE without a parser; an allocation that failed is NO_MEMORY.
template <class F> doca_error_t with_parser(F f) {
    const std::shared_ptr<Parser> held = parser(); // destroyed in a callback, it stays till we end
    if (held == nullptr) {
        return DOCA_ERROR_BAD_STATE;
    }
    return guarded([&] { return f(*held); });
}

/// The same for what cannot be changed any more when the callbacks are called.
template <class F> doca_error_t before_start(F f) {
    return with_parser([&](Parser& it) {
        if (it.is_running()) {
            return comch::doca::refuse(DOCA_ERROR_BAD_STATE,
                                       "the parser cannot be changed inside its callbacks");
        }
        it.forget_line();
        return f(it);
    });
}

template <class F> void with_param(doca_argp_param* param, F f) {
    (void)with_parser([&](Parser& it) {
        if (doca_argp_param* const open = it.registry.open(param)) {
            f(*open);
        }
        return DOCA_SUCCESS;
    });
}

template <class F> void with_command(doca_argp_cmd* command, F f) {
    (void)with_parser([&](Parser& it) {
        if (doca_argp_cmd* const open = it.registry.open(command)) {
            f(*open);
        }
        return DOCA_SUCCESS;
    });
}

void set_text(doca_argp_param* param, std::string doca_argp_param::*member, const char* text) {
    with_param(param, [&](doca_argp_param& it) { it.*member = text != nullptr ? text : ""; });
}

void set_flag(doca_argp_param* param, bool doca_argp_param::*member) {
    with_param(param, [&](doca_argp_param& it) { it.*member = true; });
}

} // namespace

doca_error_t doca_argp_init(const char* program_name, void* program_config) {
    if (parser() != nullptr) {
        return DOCA_ERROR_BAD_STATE;
    }
    return guarded([&] {
        parser() =
            std::make_shared<Parser>(program_name != nullptr ? program_name : "", program_config);
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_argp_destroy() {
    return with_parser([](Parser& it) {
        it.abandon();
        parser().reset();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_argp_start(int argc, char** argv) {
    if (argc < 0 ||
        (argc > 0 && (argv == nullptr || std::count(argv, argv + argc, nullptr) != 0))) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return with_parser([&](Parser& it) { return it.start(argc, argv); });
}

void doca_argp_usage() {
    (void)with_parser([](Parser& it) {
        std::fputs(it.usage().c_str(), stdout);
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_argp_register_version_callback(doca_argp_param_cb_t callback) {
    return before_start([&](Parser& it) {
        it.version = callback;
        return callback != nullptr ? DOCA_SUCCESS : DOCA_ERROR_INVALID_VALUE;
    });
}

doca_error_t doca_argp_register_validation_callback(doca_argp_validation_cb_t callback) {
    return before_start([&](Parser& it) {
        it.validation = callback;
        return callback != nullptr ? DOCA_SUCCESS : DOCA_ERROR_INVALID_VALUE;
    });
}

doca_error_t doca_argp_register_dev_open_callback(doca_argp_dev_open_cb_t callback, void* usr_ctx) {
    return before_start([&](Parser& it) {
        it.devices.callback = callback;
        it.devices.callback_context = usr_ctx;
        return callback != nullptr ? DOCA_SUCCESS : DOCA_ERROR_INVALID_VALUE;
    });
}

doca_error_t doca_argp_register_logger_callback(doca_argp_logger_cb_t callback) {
    return before_start([&](Parser& it) {
        if (callback == nullptr) {
            return DOCA_ERROR_INVALID_VALUE;
        }
        if (it.logger != nullptr) {
            return comch::doca::refuse(DOCA_ERROR_ALREADY_EXIST,
                                       "the parser has a logger callback already");
        }
        it.logger = callback;
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_argp_disable_logger_callback() {
    return with_parser([](Parser& it) {
        return std::exchange(it.logger, nullptr) != nullptr ? DOCA_SUCCESS : DOCA_ERROR_BAD_STATE;
    });
}

void doca_argp_set_dpdk_program(doca_argp_dpdk_cb_t callback) {
    (void)before_start([&](Parser& it) {
        it.dpdk = callback;
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_argp_disable_pedantic_config_parsing() {
    return with_parser([](Parser& it) {
        it.pedantic = false;
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_argp_get_log_level(int* log_level) {
    if (log_level == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return with_parser([&](Parser& it) {
        *log_level =
            it.log_level.value_or(static_cast<int>(doca_log_level_get_global_lower_limit()));
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_argp_get_sdk_log_level(int* log_level) {
    if (log_level == nullptr) {
        return DOCA_ERROR_INVALID_VALUE;
    }
    return with_parser([&](Parser& it) {
        *log_level =
            it.sdk_log_level.value_or(static_cast<int>(doca_log_level_get_global_sdk_limit()));
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_argp_param_create(doca_argp_param** param) {
    return with_parser([&](Parser& it) {
        if (param == nullptr) {
            return DOCA_ERROR_INVALID_VALUE;
        }
        *param = it.registry.create_param();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_argp_param_destroy(doca_argp_param* param) {
    return with_parser([&](Parser& it) { return it.registry.destroy(param); });
}

doca_error_t doca_argp_register_param(doca_argp_param* input_param) {
    return before_start([&](Parser& it) { return it.registry.add(input_param); });
}

void doca_argp_param_set_short_name(doca_argp_param* param, const char* name) {
    set_text(param, &doca_argp_param::short_name, name);
}
void doca_argp_param_set_long_name(doca_argp_param* param, const char* name) {
    set_text(param, &doca_argp_param::long_name, name);
}
void doca_argp_param_set_arguments(doca_argp_param* param, const char* arguments) {
    set_text(param, &doca_argp_param::arguments, arguments);
}
void doca_argp_param_set_description(doca_argp_param* param, const char* description) {
    set_text(param, &doca_argp_param::description, description);
}
void doca_argp_param_set_callback(doca_argp_param* param, doca_argp_param_cb_t callback) {
    with_param(param, [&](doca_argp_param& it) { it.callback = callback; });
}
void doca_argp_param_set_type(doca_argp_param* param, doca_argp_type type) {
    with_param(param, [&](doca_argp_param& it) { it.type = type; });
}
void doca_argp_param_set_mandatory(doca_argp_param* param) {
    set_flag(param, &doca_argp_param::mandatory);
}
void doca_argp_param_set_cli_only(doca_argp_param* param) {
    set_flag(param, &doca_argp_param::cli_only);
}
void doca_argp_param_set_multiplicity(doca_argp_param* param) {
    set_flag(param, &doca_argp_param::many);
}
void doca_argp_param_set_hidden(doca_argp_param* param) {
    set_flag(param, &doca_argp_param::hidden);
}
void doca_argp_param_set_singular(doca_argp_param* param) {
    set_flag(param, &doca_argp_param::singular);
}
void doca_argp_param_set_inherited(doca_argp_param* param) {
    set_flag(param, &doca_argp_param::inherited);
}

doca_error_t doca_argp_cmd_create(doca_argp_cmd** cmd) {
    return with_parser([&](Parser& it) {
        if (cmd == nullptr) {
            return DOCA_ERROR_INVALID_VALUE;
        }
        *cmd = it.registry.create_command();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_argp_cmd_destroy(doca_argp_cmd* cmd) {
    return with_parser([&](Parser& it) { return it.registry.destroy(cmd); });
}

void doca_argp_cmd_set_name(doca_argp_cmd* cmd, const char* name) {
    with_command(cmd, [&](doca_argp_cmd& it) { it.name = name != nullptr ? name : ""; });
}
void doca_argp_cmd_set_description(doca_argp_cmd* cmd, const char* description) {
    with_command(cmd, [&](doca_argp_cmd& it) {
        it.description = description != nullptr ? description : "";
    });
}
void doca_argp_cmd_set_callback(doca_argp_cmd* cmd, doca_argp_cmd_cb_t callback) {
    with_command(cmd, [&](doca_argp_cmd& it) { it.callback = callback; });
}
void doca_argp_cmd_set_hidden(doca_argp_cmd* cmd) {
    with_command(cmd, [](doca_argp_cmd& it) { it.hidden = true; });
}

doca_error_t doca_argp_cmd_register_param(doca_argp_cmd* cmd, doca_argp_param* input_param) {
    return before_start([&](Parser& it) { return it.registry.add(cmd, input_param); });
}

doca_error_t doca_argp_cmd_register_cmd(doca_argp_cmd* cmd, doca_argp_cmd* input_cmd) {
    return before_start([&](Parser& it) { return it.registry.add(cmd, input_cmd); });
}

doca_error_t doca_argp_register_cmd(doca_argp_cmd* input_cmd) {
    return before_start([&](Parser& it) { return it.registry.add(input_cmd); });
}
