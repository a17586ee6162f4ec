/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of some CPUs a busy loop does not get: the gaps between its readings of the cycle
 * counter, whoever made them (interrupts, other processes, a hypervisor).
 */
#ifndef SWITCHMARK_JITTER_H
#define SWITCHMARK_JITTER_H

#include <stdio.h>

/* `jitter --cpus 0,2-3 [--ms 10]`: spins on each CPU at once, prints what it found as JSON.
 * Returns the exit status: 2 for wrong usage, 1 where a CPU cannot be had. */
int jitter_main(int argc, char **argv, FILE *out);

#endif
