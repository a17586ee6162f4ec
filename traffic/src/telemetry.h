/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a DPDK program, as `dpdk-telemetry.py` asks them, without Python's start. */
#ifndef SWITCHMARK_TELEMETRY_H
#define SWITCHMARK_TELEMETRY_H

#include <stdio.h>

/* Asks the program behind the socket `path` each of `questions`, such as `/ethdev/stats,0`;
   NULL ends them. Writes the answers, a line of JSON each. The exit status: 0, or 1 with the
   reason on stderr. */
int telemetry_ask(const char *path, char *const questions[], FILE *out);

#endif
