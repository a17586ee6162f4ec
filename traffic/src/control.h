/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the program: commands in, answers out, ports and workers in between. */
#ifndef SWITCHMARK_CONTROL_H
#define SWITCHMARK_CONTROL_H

#include <stdio.h>

/* Serves commands until the end of `in`, or SIGTERM; answers go to `out`. An exit status. */
int control_serve(int in, FILE *out);

/* Prints the engines of this build as one JSON object. */
void control_list_engines(FILE *out);

#endif
