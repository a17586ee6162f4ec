/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that end: they are run one by one, in the order in which they were asked for. Of those of one
 * batch, none is run behind one that ends with none of the statuses that are fine.
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
	uint8_t *bytes; /* what was asked, to which all that follows points */
	uint32_t id, batch, timeout_ms;
	uint32_t fine_count; /* UINT32_MAX: every status is fine */
	const uint8_t *fine; /* int32_t each */
	bool fed;
	const uint8_t *input;
	uint32_t input_length;
	char **env, **words;
	pid_t pid; /* 0 before it runs */
	int out, err;
	int64_t deadline;
	bool overdue, exited;
	int status; /* as waitpid() gives it */
};

struct commands {
	struct command *first, **last;
	uint32_t failed; /* the batch of which nothing more is run */
};

typedef void command_answer(void *context, struct writer *answer);

void commands_open(struct commands *c);

/* Takes what is asked behind its id: batch, limit in ms, fine statuses, input, variables, words. False if it is
 * no command. */
bool commands_ask(struct commands *c, uint32_t id, const struct reader *asked);

/* Ends what runs of a batch, of which nothing more is run. */
void commands_cancel(struct commands *c, uint32_t batch);

/* Notes that a process has ended, which may be that of a command. */
void commands_ended(struct commands *c, pid_t pid, int status);

/* Starts what can start, answers what has ended, kills what is over its time. The ms until it is to be called
 * again, or -1. */
int commands_turn(struct commands *c, command_answer *answer, void *context);

/* Kills what runs, and forgets the rest. */
void commands_close(struct commands *c);

#endif
