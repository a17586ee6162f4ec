/* SPDX-License-Identifier: Apache-2.0 */
/* Queries a DPDK program as `dpdk-telemetry.py` does, without Python's start-up time. */
#ifndef SWITCHMARK_TELEMETRY_H
#define SWITCHMARK_TELEMETRY_H

#include <stdio.h>

/* Sends each of `questions`, such as `/ethdev/stats,0`, to the program at the socket `path`; NULL
 * ends the list. Writes the answers, one JSON line each. Returns the exit status: 0, or 1 with the
 * reason on stderr. */
int telemetry_ask(const char *path, char *const questions[], FILE *out);

#endif
