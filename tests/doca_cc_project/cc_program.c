/*
 * A program of the DOCA CC generation: the server echoes a message, as it was built for the DPU; the
 * client sends one and waits for it, as it was built for the host. In either dialect.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <doca_build_config.h>
#include <doca_cc.h>
#include <doca_ctx.h>
#include <doca_dev.h>
#include <doca_error.h>
#include <doca_pe.h>

#ifdef DOCA_CC_LATER_DIALECT
typedef struct doca_cc_task_send send_task;
typedef uint32_t length_type;
typedef uint8_t flag_type;
#define as_task doca_cc_task_send_as_task
#define server_set_conf doca_cc_server_task_send_set_conf
#define client_set_conf doca_cc_client_task_send_set_conf
#define server_alloc doca_cc_server_task_send_alloc_init
#define client_alloc doca_cc_client_task_send_alloc_init
#else
typedef struct doca_cc_send_task send_task;
typedef size_t length_type;
typedef bool flag_type;
#define as_task doca_cc_send_task_as_task
#define server_set_conf doca_cc_server_send_task_set_conf
#define client_set_conf doca_cc_client_send_task_set_conf
#define server_alloc doca_cc_server_send_task_alloc_init
#define client_alloc doca_cc_client_send_task_alloc_init
#endif

static char text[64] = "over and back";
static int over; /* the message came, or its sender went */
static int sent_out;

static void must(doca_error_t result, const char *what)
{
    if (result != DOCA_SUCCESS && result != DOCA_ERROR_IN_PROGRESS) {
        fprintf(stderr, "%s: %s\n", what, doca_error_get_descr(result));
        exit(EXIT_FAILURE);
    }
}

static void sent(send_task *task, union doca_data task_data, union doca_data ctx_data)
{
    (void)task_data;
    (void)ctx_data;
    must(doca_task_get_status(as_task(task)), "send");
    sent_out = 1;
    doca_task_free(as_task(task));
}

static struct doca_dev *open_device(const char *address)
{
    struct doca_devinfo **list = NULL;
    struct doca_dev *dev = NULL;
    uint32_t count = 0;
    must(doca_devinfo_create_list(&list, &count), "devices");
    for (uint32_t i = 0; i < count && dev == NULL; ++i) {
        uint8_t equal = 0;
        if (doca_devinfo_is_equal_pci_addr(list[i], address, &equal) == DOCA_SUCCESS && equal)
            must(doca_dev_open(list[i], &dev), "open");
    }
    doca_devinfo_destroy_list(list);
    must(dev == NULL ? DOCA_ERROR_NOT_FOUND : DOCA_SUCCESS, address);
    return dev;
}

static enum doca_ctx_states state_of(struct doca_ctx *ctx)
{
    enum doca_ctx_states state = DOCA_CTX_STATE_IDLE;
    must(doca_ctx_get_state(ctx, &state), "state");
    return state;
}

#ifdef DOCA_ARCH_DPU

static struct doca_cc_server *server;

static void echo(struct doca_cc_event_msg_recv *event, uint8_t *bytes, length_type length,
                 struct doca_cc_connection *connection)
{
    send_task *task = NULL;
    (void)event;
    memcpy(text, bytes, length < sizeof(text) ? length : sizeof(text));
    printf("Echoed: %.*s\n", (int)length, text);
    must(server_alloc(server, connection, text, length, &task), "task");
    must(doca_task_submit(as_task(task)), "submit");
}

static void came(struct doca_cc_event_connection_status_changed *event,
                 struct doca_cc_connection *connection, flag_type ok)
{
    (void)event;
    (void)connection;
    (void)ok;
}

static void went(struct doca_cc_event_connection_status_changed *event,
                 struct doca_cc_connection *connection, flag_type ok)
{
    came(event, connection, ok);
    over = 1;
}

static struct doca_dev_rep *open_representor(struct doca_dev *dev, const char *address)
{
    struct doca_devinfo_rep **list = NULL;
    struct doca_dev_rep *rep = NULL;
    uint32_t count = 0;
    must(doca_devinfo_rep_create_list(dev, DOCA_DEVINFO_REP_FILTER_NET, &list, &count),
         "representors");
    for (uint32_t i = 0; i < count && rep == NULL; ++i) {
        uint8_t equal = 0;
        if (doca_devinfo_rep_is_equal_pci_addr(list[i], address, &equal) == DOCA_SUCCESS && equal)
            must(doca_dev_rep_open(list[i], &rep), "open");
    }
    doca_devinfo_rep_destroy_list(list);
    must(rep == NULL ? DOCA_ERROR_NOT_FOUND : DOCA_SUCCESS, address);
    return rep;
}

static struct doca_ctx *create(struct doca_dev *dev, char **flags)
{
    must(doca_cc_server_create(dev, open_representor(dev, flags[4]), "cc_project", &server),
         "server");
    must(server_set_conf(server, sent, sent, 4), "tasks");
    must(doca_cc_server_event_msg_recv_register(server, echo), "messages");
    must(doca_cc_server_event_connection_register(server, came, went), "connections");
    return doca_cc_server_as_ctx(server);
}

static void begin(void)
{
    printf("Listening\n");
    fflush(stdout);
}

#else

static struct doca_cc_client *client;

static void take(struct doca_cc_event_msg_recv *event, uint8_t *bytes, length_type length,
                 struct doca_cc_connection *connection)
{
    (void)event;
    (void)connection;
    printf("Came back: %.*s\n", (int)length, (const char *)bytes);
    over = 1;
}

static struct doca_ctx *create(struct doca_dev *dev, char **flags)
{
    (void)flags;
    must(doca_cc_client_create(dev, "cc_project", &client), "client");
    must(client_set_conf(client, sent, sent, 1), "tasks");
    must(doca_cc_client_event_msg_recv_register(client, take), "messages");
    return doca_cc_client_as_ctx(client);
}

static void begin(void)
{
    struct doca_cc_connection *connection = NULL;
    send_task *task = NULL;
    must(doca_cc_client_get_connection(client, &connection), "connection");
    must(client_alloc(client, connection, text, (length_type)strlen(text), &task), "task");
    must(doca_task_submit(as_task(task)), "submit");
}

#endif

int main(int argc, char **argv)
{
    struct doca_pe *pe = NULL;
    struct doca_ctx *ctx = NULL;
    must(argc < 3 ? DOCA_ERROR_INVALID_VALUE : DOCA_SUCCESS, "usage: -p ADDRESS [-r ADDRESS]");
    must(doca_pe_create(&pe), "engine");
    ctx = create(open_device(argv[2]), argv);
    must(doca_pe_connect_ctx(pe, ctx), "connect");
    must(doca_ctx_start(ctx), "start");
    while (state_of(ctx) == DOCA_CTX_STATE_STARTING)
        doca_pe_progress(pe);
    must(state_of(ctx) == DOCA_CTX_STATE_RUNNING ? DOCA_SUCCESS : DOCA_ERROR_NOT_CONNECTED, "start");
    begin();
    while (!over || !sent_out)
        doca_pe_progress(pe);
    must(doca_ctx_stop(ctx), "stop");
    while (state_of(ctx) != DOCA_CTX_STATE_IDLE)
        doca_pe_progress(pe);
    return EXIT_SUCCESS;
}
