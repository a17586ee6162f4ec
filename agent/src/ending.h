/* SPDX-License-Identifier: Apache-2.0 */
/* Ends processes: signals them, and kills those that have not ended in time. */
#ifndef SWITCHMARK_ENDING_H
#define SWITCHMARK_ENDING_H

#include "message.h"

#include <poll.h>

#define ENDINGS_MAX 64

struct endings {
	struct {
		uint32_t id; /* of the request; 0: free entry */
		int pidfd;
		bool killed;
		int64_t deadline;
	} at[ENDINGS_MAX];
};

typedef void ending_answer(void *context, struct writer *answer);

/* Handles a request: pid, start time, signal and ms of grace. Answers at once if it cannot
 * start. */
void endings_ask(struct endings *e, uint32_t id, struct reader *asked, ending_answer *answer,
		 void *context);

/* Fills in what to poll, at most ENDINGS_MAX entries; returns their number. */
int endings_poll(const struct endings *e, struct pollfd *polls);

/* Kills the processes that are over their time; answers 1 for ended ones, 0 for one that survives
 * SIGKILL. Returns the ms until the next call, or -1. */
int endings_turn(struct endings *e, ending_answer *answer, void *context);

void endings_close(struct endings *e);

#endif
