#include "options.h"

#include <stdio.h>
#include <string.h>

#include <doca_argp.h>
#include <doca_log.h>

DOCA_LOG_REGISTER(EXAMPLE::OPTIONS)

static doca_error_t copy(char *to, size_t size, const char *text, const char *what)
{
    if (strlen(text) >= size) {
        DOCA_LOG_ERR("The %s '%s' is too long: %zu characters are possible", what, text, size - 1);
        return DOCA_ERROR_INVALID_VALUE;
    }
    strcpy(to, text);
    return DOCA_SUCCESS;
}

static doca_error_t take_pci_addr(void *value, void *config)
{
    struct options *options = config;
    return copy(options->pci_addr, sizeof(options->pci_addr), value, "PCI address");
}

static doca_error_t take_rep_pci(void *value, void *config)
{
    struct options *options = config;
    return copy(options->rep_pci, sizeof(options->rep_pci), value, "PCI address");
}

static doca_error_t take_text(void *value, void *config)
{
    struct options *options = config;
    return copy(options->text, sizeof(options->text), value, "text");
}

static doca_error_t add_flag(const char *short_name, const char *long_name, const char *description,
                             doca_argp_param_cb_t callback)
{
    struct doca_argp_param *param;
    doca_error_t result = doca_argp_param_create(&param);

    if (result != DOCA_SUCCESS)
        return result;
    doca_argp_param_set_short_name(param, short_name);
    doca_argp_param_set_long_name(param, long_name);
    doca_argp_param_set_description(param, description);
    doca_argp_param_set_callback(param, callback);
    doca_argp_param_set_type(param, DOCA_ARGP_TYPE_STRING);
    return doca_argp_register_param(param);
}

doca_error_t options_read(const char *program, enum side side, struct options *options, int argc,
                          char **argv)
{
    struct doca_log_backend *library_log;
    doca_error_t result = doca_log_backend_create_standard();

    /* What the library has to say, where it is worth being warned of. */
    DOCA_ERROR_PROPAGATE(result, doca_log_backend_create_with_file_sdk(stderr, &library_log));
    if (result == DOCA_SUCCESS)
        result = doca_log_backend_set_sdk_level(library_log, DOCA_LOG_LEVEL_WARNING);
    if (result != DOCA_SUCCESS)
        return result;

    result = doca_argp_init(program, options);
    if (result != DOCA_SUCCESS)
        return result;
    result = add_flag("p", "pci-addr", "DOCA device PCI address", take_pci_addr);
    if (side == SIDE_DPU)
        DOCA_ERROR_PROPAGATE(
            result, add_flag("r", "rep-pci", "DOCA device representor PCI address", take_rep_pci));
    DOCA_ERROR_PROPAGATE(
        result, add_flag("t", "text", "Text to be sent to the other side of the channel", take_text));
    if (result == DOCA_SUCCESS)
        result = doca_argp_start(argc, argv);
    (void)doca_argp_destroy();
    return result;
}
