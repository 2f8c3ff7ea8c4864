/* The flags that all examples share, and the names of the two sides' meeting points. */
#ifndef EXAMPLES_OPTIONS_H
#define EXAMPLES_OPTIONS_H

#include <doca_dev.h>
#include <doca_error.h>

#define MAX_TEXT 4000

struct options {
    char pci_addr[DOCA_DEVINFO_PCI_ADDR_SIZE];
    char rep_pci[DOCA_DEVINFO_REP_PCI_ADDR_SIZE]; /* of a server */
    char text[MAX_TEXT + 1];
};

enum side { SIDE_HOST, SIDE_DPU };

/* Creates the log backends, registers -p, -t and, on the DPU, -r, and reads the command line.
 * What is in `options` before are the defaults. */
doca_error_t options_read(const char *program, enum side side, struct options *options, int argc,
                          char **argv);

#endif
