/*
 * Command lines: a program registers its flags, and each one found on the command line, or in the
 * JSON file that the command line names, calls the flag's callback.
 *
 *     doca_argp_init("my_program", &config);
 *     doca_argp_param_create(&param);
 *     doca_argp_param_set_short_name(param, "p");     ... long name, description, callback, type
 *     doca_argp_register_param(param);
 *     doca_argp_start(argc, argv);
 *     doca_argp_destroy();
 *
 * Every program has -h/--help, -v/--version, -l/--log-level, --sdk-log-level and -j/--json. Help
 * and version end the process with status 0. Other errors are printed with the usage, and returned.
 *
 * The JSON file's keys are long names; what the command line gives as well, the command line
 * decides. Comments are allowed.
 *
 *     { "doca_general_flags": { "log-level": 60, "sdk-log-level": 40 },
 *       "doca_program_flags": { "pci-addr": "03:00.0", "count": 7, "many": [1, 2], "yes": true } }
 */
#ifndef DOCA_ARGP_H_
#define DOCA_ARGP_H_

#include <doca_compat.h>
#include <doca_error.h>
#include <doca_log.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The value, whose type the flag has (char *, int *, bool *, double *) and which is valid inside
 * the call only; and the program's configuration. An error ends doca_argp_start() with it. */
typedef doca_error_t (*doca_argp_param_cb_t)(void *, void *);
/* The program's configuration, when all flags were taken. */
typedef doca_error_t (*doca_argp_validation_cb_t)(void *);
/* The arguments in front of "--", behind the program's name. */
typedef doca_error_t (*doca_argp_dpdk_cb_t)(int argc, char **argv);

enum doca_argp_type {
    DOCA_ARGP_TYPE_UNKNOWN = 0,
    DOCA_ARGP_TYPE_STRING,
    DOCA_ARGP_TYPE_INT,
    DOCA_ARGP_TYPE_BOOLEAN,    /* takes no argument on the command line */
    DOCA_ARGP_TYPE_DEVICE,     /* not supported: take a string */
    DOCA_ARGP_TYPE_DEVICE_REP, /* not supported: take a string */
    DOCA_ARGP_TYPE_DOUBLE
};

struct doca_argp_param;

/* ---- the program ------------------------------------------------------------------------------ */

/* Without a name the program is called what argv[0] says. BAD_STATE: done already. */
DOCA_STABLE doca_error_t doca_argp_init(const char *program_name, void *program_config);
/* Everything but doca_argp_init() answers BAD_STATE from then on; parameters are gone. */
DOCA_STABLE doca_error_t doca_argp_destroy(void);

/* BAD_STATE: not initialized. NOT_SUPPORTED: an unknown flag. INVALID_VALUE: a value of the wrong
 * type, a mandatory flag missing, a flag twice that may come once. IO_FAILED: the JSON file cannot
 * be read. Whatever a callback answered. */
DOCA_STABLE doca_error_t doca_argp_start(int argc, char **argv);

/* Prints how the program is used. */
DOCA_STABLE void doca_argp_usage(void);

/* Called for -v/--version instead of printing the library's versions. */
DOCA_STABLE doca_error_t doca_argp_register_version_callback(doca_argp_param_cb_t callback);
DOCA_STABLE doca_error_t doca_argp_register_validation_callback(doca_argp_validation_cb_t callback);
/* The program's command line has two parts, "ours -- theirs" turned around: what stands in front
 * of "--" is handed to `callback`. */
DOCA_STABLE void doca_argp_set_dpdk_program(doca_argp_dpdk_cb_t callback);
/* Keys of the JSON file that nobody registered are no error. */
DOCA_STABLE doca_error_t doca_argp_disable_pedantic_config_parsing(void);

/* What the user asked for; else the level that holds. */
DOCA_STABLE doca_error_t doca_argp_get_log_level(int *log_level);
DOCA_STABLE doca_error_t doca_argp_get_sdk_log_level(int *log_level);

/* ---- flags ------------------------------------------------------------------------------------ */

DOCA_STABLE doca_error_t doca_argp_param_create(struct doca_argp_param **param);
/* BAD_STATE: it is registered. INVALID_VALUE: there is no such parameter. */
DOCA_STABLE doca_error_t doca_argp_param_destroy(struct doca_argp_param *param);

/* The setters copy what they are given. A flag has a short or a long name, or both. */
DOCA_STABLE void doca_argp_param_set_short_name(struct doca_argp_param *param, const char *name);
DOCA_STABLE void doca_argp_param_set_long_name(struct doca_argp_param *param, const char *name);
/* What the usage shows behind the flag: "<count>". */
DOCA_STABLE void doca_argp_param_set_arguments(struct doca_argp_param *param,
                                               const char *arguments);
DOCA_STABLE void doca_argp_param_set_description(struct doca_argp_param *param,
                                                 const char *description);
DOCA_STABLE void doca_argp_param_set_callback(struct doca_argp_param *param,
                                              doca_argp_param_cb_t callback);
DOCA_STABLE void doca_argp_param_set_type(struct doca_argp_param *param,
                                          enum doca_argp_type type);
DOCA_STABLE void doca_argp_param_set_mandatory(struct doca_argp_param *param);
/* Not to be had from the JSON file. A flag without a long name is so anyway. */
DOCA_STABLE void doca_argp_param_set_cli_only(struct doca_argp_param *param);
/* May come many times, in JSON as an array; the callback is called for each value. */
DOCA_STABLE void doca_argp_param_set_multiplicity(struct doca_argp_param *param);
/* The usage does not show it. */
DOCA_STABLE void doca_argp_param_set_hidden(struct doca_argp_param *param);

/* Takes the parameter, whatever it answers. BAD_STATE: it is registered already, or nothing is
 * initialized. INITIALIZATION: a name, the description, the callback or the type is missing.
 * INVALID_VALUE: a name is taken, or malformed. */
DOCA_STABLE doca_error_t doca_argp_register_param(struct doca_argp_param *input_param);

#ifdef __cplusplus
}
#endif

#endif
