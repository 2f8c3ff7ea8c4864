/*
 * Which side a program is built for. Programs ask `#ifdef DOCA_ARCH_DPU` whether they are the
 * server's or the client's half; both halves can be built on one machine. The compiler's command
 * line decides (-DDOCA_ARCH_DPU; the pkg-config files under doca-dpu say so), else it is the host.
 */
#ifndef DOCA_BUILD_CONFIG_H_
#define DOCA_BUILD_CONFIG_H_

#if !defined(DOCA_ARCH_DPU) && !defined(DOCA_ARCH_HOST)
#define DOCA_ARCH_HOST 1
#endif

#if defined(DOCA_ARCH_DPU) && defined(DOCA_ARCH_HOST)
#error "DOCA_ARCH_DPU and DOCA_ARCH_HOST are both defined: a program is for one side"
#endif

#endif
