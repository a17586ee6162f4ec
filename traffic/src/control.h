/* SPDX-License-Identifier: Apache-2.0 */
/* Reads commands and writes answers, one JSON object per line. session.h executes the commands. */
#ifndef SWITCHMARK_CONTROL_H
#define SWITCHMARK_CONTROL_H

#include "session.h"

#include <stdio.h>

/* Executes one command and returns the answer. `command` is memory for the parsed command. */
json_t *control_answer(struct session *s, struct command *command, const char *line, size_t len);

/* Serves commands until the end of `in`, or SIGTERM; answers go to `out`. Returns an exit
 * status. */
int control_serve(int in, FILE *out);

/* Prints the engines of this build as one JSON object. */
void control_list_engines(FILE *out);

#endif
