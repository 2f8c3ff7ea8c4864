/* A program with commands, devices and arguments of somebody else, in C. It says what it was told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <doca_argp.h>

struct config {
    const char *command;
    int limit;
    bool reset;
    struct doca_dev *dev;
    const char *devargs;
    struct doca_dev_rep *rep;
    int argc;
    char **argv;
    int opened;
};

static struct config conf = {.command = "none", .limit = -1};

static doca_error_t take_get(void *config)
{
    ((struct config *)config)->command = "get";
    return DOCA_SUCCESS;
}

static doca_error_t take_set(void *config)
{
    ((struct config *)config)->command = "set";
    return DOCA_SUCCESS;
}

static doca_error_t take_limit(void *value, void *config)
{
    ((struct config *)config)->limit = *(int *)value;
    return DOCA_SUCCESS;
}

static doca_error_t take_reset(void *value, void *config)
{
    ((struct config *)config)->reset = *(bool *)value;
    return DOCA_SUCCESS;
}

static doca_error_t take_device(void *value, void *config)
{
    const struct doca_argp_device_ctx *device = value;

    ((struct config *)config)->dev = device->dev;
    ((struct config *)config)->devargs = device->devargs;
    return DOCA_SUCCESS;
}

static doca_error_t take_rep(void *value, void *config)
{
    const struct doca_argp_device_rep_ctx *rep = value;

    ((struct config *)config)->rep = rep->dev_rep;
    return DOCA_SUCCESS;
}

static doca_error_t list_nothing(void *value, void *config)
{
    (void)value;
    (void)config;
    puts("nothing to list");
    return DOCA_SUCCESS;
}

static doca_error_t open_device(struct doca_devinfo *devinfo, void *usr_ctx, struct doca_dev **dev)
{
    ++*(int *)usr_ctx;
    return doca_dev_open(devinfo, dev);
}

static doca_error_t log_event(enum doca_log_level level, const char *format, va_list args)
{
    printf("told at %d: ", (int)level);
    vprintf(format, args);
    putchar('\n');
    return DOCA_SUCCESS;
}

static doca_error_t take_theirs(int argc, char **argv)
{
    conf.argc = argc;
    conf.argv = argv;
    return DOCA_SUCCESS;
}

static struct doca_argp_param *make(const char *short_name, const char *long_name,
                                    enum doca_argp_type type, doca_argp_param_cb_t callback)
{
    struct doca_argp_param *param;

    if (doca_argp_param_create(&param) != DOCA_SUCCESS)
        exit(EXIT_FAILURE);
    doca_argp_param_set_short_name(param, short_name);
    doca_argp_param_set_long_name(param, long_name);
    doca_argp_param_set_description(param, "A flag");
    doca_argp_param_set_type(param, type);
    doca_argp_param_set_callback(param, callback);
    return param;
}

static struct doca_argp_cmd *make_command(const char *name, doca_argp_cmd_cb_t callback)
{
    struct doca_argp_cmd *cmd;

    if (doca_argp_cmd_create(&cmd) != DOCA_SUCCESS)
        exit(EXIT_FAILURE);
    doca_argp_cmd_set_name(cmd, name);
    doca_argp_cmd_set_description(cmd, "A command");
    doca_argp_cmd_set_callback(cmd, callback);
    return cmd;
}

static doca_error_t add_commands(void)
{
    struct doca_argp_cmd *quota = make_command("quota", NULL);
    struct doca_argp_cmd *get = make_command("get", take_get);
    struct doca_argp_cmd *set = make_command("set", take_set);
    struct doca_argp_cmd *unused = make_command("unused", NULL);
    struct doca_argp_cmd *hidden = make_command("hidden", NULL);
    struct doca_argp_param *limit = make("n", "limit", DOCA_ARGP_TYPE_INT, take_limit);
    doca_error_t result;

    doca_argp_param_set_mandatory(limit);
    doca_argp_cmd_set_hidden(hidden);
    result = doca_argp_cmd_register_param(set, limit);
    DOCA_ERROR_PROPAGATE(result, doca_argp_cmd_register_param(
                                     set, make("r", "reset", DOCA_ARGP_TYPE_BOOLEAN, take_reset)));
    DOCA_ERROR_PROPAGATE(result, doca_argp_cmd_register_cmd(quota, get));
    DOCA_ERROR_PROPAGATE(result, doca_argp_cmd_register_cmd(quota, set));
    DOCA_ERROR_PROPAGATE(result, doca_argp_register_cmd(quota));
    DOCA_ERROR_PROPAGATE(result, doca_argp_register_cmd(hidden));
    DOCA_ERROR_PROPAGATE(result, doca_argp_cmd_destroy(unused));
    return result;
}

static doca_error_t add_flags(void)
{
    struct doca_argp_param *device = make("d", "device", DOCA_ARGP_TYPE_DEVICE, take_device);
    struct doca_argp_param *rep = make(NULL, "rep", DOCA_ARGP_TYPE_DEVICE_REP, take_rep);
    struct doca_argp_param *list = make(NULL, "list", DOCA_ARGP_TYPE_BOOLEAN, list_nothing);
    doca_error_t result;

    doca_argp_param_set_inherited(device);
    doca_argp_param_set_singular(list);
    result = doca_argp_register_param(device);
    DOCA_ERROR_PROPAGATE(result, doca_argp_register_param(rep));
    DOCA_ERROR_PROPAGATE(result, doca_argp_register_param(list));
    DOCA_ERROR_PROPAGATE(result, doca_argp_register_dev_open_callback(open_device, &conf.opened));
    if (getenv("QUOTA_LOGGER") != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_argp_register_logger_callback(log_event));
    else if (result == DOCA_SUCCESS && doca_argp_disable_logger_callback() != DOCA_ERROR_BAD_STATE)
        result = DOCA_ERROR_UNEXPECTED; /* there was none */
    doca_argp_set_dpdk_program(take_theirs);
    return result;
}

int main(int argc, char **argv)
{
    doca_error_t result = doca_argp_init(NULL, &conf);
    int i;

    DOCA_ERROR_PROPAGATE(result, add_flags());
    DOCA_ERROR_PROPAGATE(result, add_commands());
    if (result != DOCA_SUCCESS) {
        fprintf(stderr, "cannot register: %s\n", doca_error_get_descr(result));
        return EXIT_FAILURE;
    }
    result = doca_argp_start(argc, argv);
    if (result != DOCA_SUCCESS) {
        printf("%s\n", doca_error_get_name(result));
        doca_argp_destroy();
        return EXIT_FAILURE;
    }
    printf("command %s limit %d reset %d opened %d devargs %s rep %d theirs", conf.command,
           conf.limit, conf.reset, conf.opened, conf.devargs != NULL ? conf.devargs : "-",
           conf.rep != NULL);
    for (i = 1; i < conf.argc; ++i)
        printf(" %s", conf.argv[i]);
    putchar('\n');
    if (conf.rep != NULL)
        result = doca_dev_rep_close(conf.rep);
    if (conf.dev != NULL)
        DOCA_ERROR_PROPAGATE(result, doca_dev_close(conf.dev));
    DOCA_ERROR_PROPAGATE(result, doca_argp_destroy());
    return result == DOCA_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
