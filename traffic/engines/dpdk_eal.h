/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPDK's environment (EAL). A process has one: the first port that is opened starts it, and it
 * lives as long as the process.
 */
#ifndef SWITCHMARK_DPDK_EAL_H
#define SWITCHMARK_DPDK_EAL_H

#include "engine.h"

/* The choices of the option `memory`. */
extern const char *const eal_memories[];

/* Starts the EAL if it does not run. 0, or -errno with port->why. */
int eal_start(struct port *port);

/* The choice of memory that the EAL runs with. */
const char *eal_memory(void);

/* The last line that the EAL logged since eal_forget_log, or the text of rte_errno. */
const char *eal_error(void);
void eal_forget_log(void);

/* Makes the calling thread known to DPDK, as an unknown thread has no cache of mbufs. */
void eal_enter(void);

#endif
