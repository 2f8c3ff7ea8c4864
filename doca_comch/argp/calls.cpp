// doca_argp.h, on the process's one parser.
#include <cstdio>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <doca_argp.h>

#include "doca_comch/argp/parser.hpp"

using comch::doca::Parser;

namespace {

std::unique_ptr<Parser>& parser() {
    static std::unique_ptr<Parser> one;
    return one;
}

/// BAD_STATE without a parser; an allocation that failed is NO_MEMORY.
template <class F> doca_error_t with_parser(F f) {
    if (parser() == nullptr) {
        return DOCA_ERROR_BAD_STATE;
    }
    try {
        return f(*parser());
    } catch (const std::bad_alloc&) {
        return DOCA_ERROR_NO_MEMORY;
    }
}

template <class F> void with_param(doca_argp_param* param, F f) {
    (void)with_parser([&](Parser& it) {
        if (doca_argp_param* const open = it.open(param)) {
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
    try {
        parser() =
            std::make_unique<Parser>(program_name != nullptr ? program_name : "", program_config);
        return DOCA_SUCCESS;
    } catch (const std::bad_alloc&) {
        return DOCA_ERROR_NO_MEMORY;
    }
}

doca_error_t doca_argp_destroy() {
    return with_parser([](Parser&) {
        parser().reset();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_argp_start(int argc, char** argv) {
    if (argc < 0 || (argc > 0 && argv == nullptr)) {
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
    return with_parser([&](Parser& it) {
        it.version = callback;
        return callback != nullptr ? DOCA_SUCCESS : DOCA_ERROR_INVALID_VALUE;
    });
}

doca_error_t doca_argp_register_validation_callback(doca_argp_validation_cb_t callback) {
    return with_parser([&](Parser& it) {
        it.validation = callback;
        return callback != nullptr ? DOCA_SUCCESS : DOCA_ERROR_INVALID_VALUE;
    });
}

void doca_argp_set_dpdk_program(doca_argp_dpdk_cb_t callback) {
    (void)with_parser([&](Parser& it) {
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
        *param = it.create();
        return DOCA_SUCCESS;
    });
}

doca_error_t doca_argp_param_destroy(doca_argp_param* param) {
    return with_parser([&](Parser& it) { return it.destroy(param); });
}

doca_error_t doca_argp_register_param(doca_argp_param* input_param) {
    return with_parser([&](Parser& it) { return it.add(input_param); });
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
