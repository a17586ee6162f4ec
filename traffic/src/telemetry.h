/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SWITCHMARK_TELEMETRY_H
#define SWITCHMARK_TELEMETRY_H

#include <stdio.h>

/* Asks a DPDK program by its telemetry socket (version 2) at `path`, and writes each answer, a
   JSON object, as a line. 0, or 1 with the reason on stderr. */
int telemetry_ask(const char *path, char *const questions[], FILE *out);

#endif
