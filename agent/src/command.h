/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that terminate: they run one by one, in the order of the requests. After a command of a
 * batch ends with an unexpected status, the rest of the batch is skipped.
 */
#ifndef SWITCHMARK_COMMAND_H
#define SWITCHMARK_COMMAND_H

#include "message.h"

#include <sys/types.h>

enum command_end {
	COMMAND_RAN,
	COMMAND_SKIPPED,
	COMMAND_OVERDUE,
	COMMAND_NOT_STARTED,
	COMMAND_TOO_LONG
};

struct command {
	struct command *next;
	uint8_t *bytes; /* the request, to which the pointers below refer */
	uint32_t id, batch, timeout_ms;
	uint32_t fine_count; /* UINT32_MAX: every status is expected */
	const uint8_t *fine; /* array of int32_t */
	bool fed;
	const uint8_t *input;
	uint32_t input_length;
	char **env, **words;
	pid_t pid; /* 0 before the start */
	int out, err;
	int64_t deadline;
	bool overdue, exited;
	int status; /* as returned by waitpid() */
};

struct commands {
	struct command *first, **last;
	uint32_t failed; /* the batch whose remaining commands are skipped */
};

typedef void command_answer(void *context, struct writer *answer);

void commands_open(struct commands *c);

/* Parses a request after its id: batch, timeout in ms, expected statuses, input, variables, words.
 * Returns false if it is invalid. */
bool commands_ask(struct commands *c, uint32_t id, const struct reader *asked);

/* Kills the running command of a batch and skips the rest. */
void commands_cancel(struct commands *c, uint32_t batch);

/* Handles the end of a process, which may be that of a command. */
void commands_ended(struct commands *c, pid_t pid, int status);

/* Starts the next command, answers ended ones, kills those over their timeout. Returns the ms until
 * the next call, or -1. */
int commands_turn(struct commands *c, command_answer *answer, void *context);

/* Kills the running command and drops the rest. */
void commands_close(struct commands *c);

#endif
