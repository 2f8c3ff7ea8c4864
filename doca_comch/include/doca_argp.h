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
 * Short names follow one dash, long ones two; a value is the next word, or "--count=7", or "-n7".
 * Boolean flags have no value, and short ones of one letter can be written together: "-fq". Numbers
 * are decimal.
 *
 * A program may have commands, which have flags and commands of their own: "my_program --verbose
 * set --limit 7". The flags of a command follow it.
 *
 * The JSON file's keys are long names, of the program and of the commands that the command line
 * names; what the command line gives as well, the command line decides. Comments are allowed.
 *
 *     { "doca_general_flags": { "log-level": 60, "sdk-log-level": 40 },
 *       "doca_program_flags": { "pci-addr": "03:00.0", "count": 7, "many": [1, 2], "yes": true } }
 *
 * and for programs that hand arguments to DPDK, unless the command line has such:
 *
 *       "doca_dpdk_flags": { "devices": [{ "device": "pf", "id": "03:00.0", "hws": true }],
 *                            "core-list": "0-3", "core-mask": 15, "flags": "--file-prefix x" }
 */
#ifndef DOCA_ARGP_H_
#define DOCA_ARGP_H_

#include <stdarg.h>

#include <doca_compat.h>
#include <doca_dev.h>
#include <doca_error.h>
#include <doca_log.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Callbacks, all of which doca_argp_start() calls. An error ends it with that error, and no other
 * callback is called. doca_argp_destroy() is legal in them: start ends with BAD_STATE then. What
 * registers something, and doca_argp_start() itself, answers BAD_STATE in them.
 */

/* The value, whose type the flag has (char *, int *, bool *, double *, struct doca_argp_device_ctx *,
 * struct doca_argp_device_rep_ctx *) and which is valid inside the call only; and the program's
 * configuration. */
typedef doca_error_t (*doca_argp_param_cb_t)(void *, void *);
/* The program's configuration, when all flags were taken. */
typedef doca_error_t (*doca_argp_validation_cb_t)(void *);
/* The program's configuration, when the command line names the command, in front of the command's
 * flags. */
typedef doca_error_t (*doca_argp_cmd_cb_t)(void *);
/* The arguments in front of "--", behind the program's name: the program's until
 * doca_argp_destroy(). */
typedef doca_error_t (*doca_argp_dpdk_cb_t)(int argc, char **argv);
/* Opens a device that a flag names, as doca_dev_open() would. */
typedef doca_error_t (*doca_argp_dev_open_cb_t)(struct doca_devinfo *devinfo, void *usr_ctx,
                                                struct doca_dev **dev);
/* What the user is told; takes the arguments of vprintf(). What it answers does not matter. */
typedef doca_error_t (*doca_argp_logger_cb_t)(enum doca_log_level level, const char *format,
                                              va_list args);

enum doca_argp_type {
    DOCA_ARGP_TYPE_UNKNOWN = 0,
    DOCA_ARGP_TYPE_STRING,
    DOCA_ARGP_TYPE_INT,
    DOCA_ARGP_TYPE_BOOLEAN,    /* takes no argument on the command line */
    DOCA_ARGP_TYPE_DEVICE,     /* "pci/03:00.0", "03:00.0", or a name of it; ",arguments" */
    DOCA_ARGP_TYPE_DEVICE_REP, /* "pci/03:00.0,pf0vf0" or another name of it; ",arguments" */
    DOCA_ARGP_TYPE_DOUBLE
};

struct doca_argp_param;
struct doca_argp_cmd;

/* A device that was opened for the flag, and that the program closes. */
struct doca_argp_device_ctx {
    struct doca_dev *dev;
    const char *devargs; /* until doca_argp_destroy(); null if there are none */
};

/* A representor that was opened for the flag, and that the program closes. Its device is the same
 * for all its representors, and stays open. */
struct doca_argp_device_rep_ctx {
    struct doca_argp_device_ctx dev_ctx;
    struct doca_dev_rep *dev_rep;
};

/* ---- the program ------------------------------------------------------------------------------ */

/* Without a name the program is called what argv[0] says. BAD_STATE: done already. */
DOCA_STABLE doca_error_t doca_argp_init(const char *program_name, void *program_config);
/* Everything but doca_argp_init() answers BAD_STATE from then on; flags and commands are gone. */
DOCA_STABLE doca_error_t doca_argp_destroy(void);

/* BAD_STATE: not initialized, destroyed in a callback, or called in one. NOT_SUPPORTED: an unknown
 * flag, command or key. INVALID_VALUE: a value of the wrong type or out of range, no such device, a
 * mandatory flag missing, a flag twice that may come once. IO_FAILED: the JSON file cannot be read.
 * Whatever a callback answered. */
DOCA_STABLE doca_error_t doca_argp_start(int argc, char **argv);

/* Prints how the program is used, or the command that was named. */
DOCA_STABLE void doca_argp_usage(void);

/* Called for -v/--version instead of printing the library's versions. */
DOCA_STABLE doca_error_t doca_argp_register_version_callback(doca_argp_param_cb_t callback);
DOCA_STABLE doca_error_t doca_argp_register_validation_callback(doca_argp_validation_cb_t callback);
/* The command line has two parts, "theirs -- ours": what stands in front of "--" is handed to
 * `callback`, after all the others. Without "--" all of it is ours, and none theirs. */
DOCA_STABLE void doca_argp_set_dpdk_program(doca_argp_dpdk_cb_t callback);
/* Called for each device that a flag names, once for a device whose representors are named. */
DOCA_EXPERIMENTAL doca_error_t
doca_argp_register_dev_open_callback(doca_argp_dev_open_cb_t callback, void *usr_ctx);
/* Called with what is wrong with the command line, which else is printed on stderr.
 * ALREADY_EXIST: there is one. */
DOCA_EXPERIMENTAL doca_error_t doca_argp_register_logger_callback(doca_argp_logger_cb_t callback);
/* BAD_STATE: there is none. */
DOCA_EXPERIMENTAL doca_error_t doca_argp_disable_logger_callback(void);
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
/* No other flag of the program may come with it; mandatory ones need not. */
DOCA_EXPERIMENTAL void doca_argp_param_set_singular(struct doca_argp_param *param);
/* It may follow any command below the one that it is registered for. */
DOCA_EXPERIMENTAL void doca_argp_param_set_inherited(struct doca_argp_param *param);

/* Takes the parameter, whatever it answers. BAD_STATE: it is registered already, or nothing is
 * initialized. INITIALIZATION: a name, the description, the callback or the type is missing.
 * INVALID_VALUE: a name is taken, or malformed. */
DOCA_STABLE doca_error_t doca_argp_register_param(struct doca_argp_param *input_param);

/* ---- commands --------------------------------------------------------------------------------- */

DOCA_EXPERIMENTAL doca_error_t doca_argp_cmd_create(struct doca_argp_cmd **cmd);
/* BAD_STATE: it is registered. INVALID_VALUE: there is no such command. */
DOCA_EXPERIMENTAL doca_error_t doca_argp_cmd_destroy(struct doca_argp_cmd *cmd);

/* The setters copy what they are given. A command has a name and a description. */
DOCA_EXPERIMENTAL void doca_argp_cmd_set_name(struct doca_argp_cmd *cmd, const char *name);
DOCA_EXPERIMENTAL void doca_argp_cmd_set_description(struct doca_argp_cmd *cmd,
                                                     const char *description);
/* Need not be there. */
DOCA_EXPERIMENTAL void doca_argp_cmd_set_callback(struct doca_argp_cmd *cmd,
                                                  doca_argp_cmd_cb_t callback);
/* The usage does not show it. */
DOCA_EXPERIMENTAL void doca_argp_cmd_set_hidden(struct doca_argp_cmd *cmd);

/* Flags and commands of a command that is not registered yet. They take the flag or command and
 * answer as doca_argp_register_param(). */
DOCA_EXPERIMENTAL doca_error_t doca_argp_cmd_register_param(struct doca_argp_cmd *cmd,
                                                            struct doca_argp_param *input_param);
DOCA_EXPERIMENTAL doca_error_t doca_argp_cmd_register_cmd(struct doca_argp_cmd *cmd,
                                                          struct doca_argp_cmd *input_cmd);
/* The same, for the program. That none of its commands is named is no error. */
DOCA_EXPERIMENTAL doca_error_t doca_argp_register_cmd(struct doca_argp_cmd *input_cmd);

#ifdef __cplusplus
}
#endif

#endif
