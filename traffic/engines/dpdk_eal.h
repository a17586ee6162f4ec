/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPDK's environment abstraction layer (EAL). A process has at most one: the first DPDK port starts
 * it, and it runs until the process ends.
 */
#ifndef SWITCHMARK_DPDK_EAL_H
#define SWITCHMARK_DPDK_EAL_H

#include "engine.h"

/* The values of the option `memory`. */
extern const char *const eal_memories[];

/* Starts the EAL unless it is running. Returns 0, or -errno with port->why. */
int eal_start(struct port *port);

/* Returns the kind of memory that the EAL uses. */
const char *eal_memory(void);

/* Returns the last line that the EAL logged since eal_forget_log, or the text of rte_errno. */
const char *eal_error(void);
void eal_forget_log(void);

/* Registers the calling thread with DPDK; an unregistered thread has no mbuf cache. */
void eal_enter(void);

#endif
