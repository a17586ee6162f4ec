/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the time that a busy loop loses on some CPUs: the gaps between its readings of the cycle
 * counter, whatever their cause (interrupts, other processes, a hypervisor).
 */
#ifndef SWITCHMARK_JITTER_H
#define SWITCHMARK_JITTER_H

#include <stdio.h>

/* `jitter --cpus 0,2-3 [--ms 10]`: spins on all CPUs at once and prints the result as JSON. Returns
 * the exit status: 2 for wrong usage, 1 if a CPU is unavailable. */
int jitter_main(int argc, char **argv, FILE *out);

#endif
