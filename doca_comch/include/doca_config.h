/* The platform that programs are compiled on. */
#ifndef DOCA_CONFIG_H_
#define DOCA_CONFIG_H_

#include <doca_build_config.h>

#ifdef __linux__
#define DOCA_OS_LINUX 1
#endif

#endif
