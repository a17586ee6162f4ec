/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are to end: they are signalled, and killed where they have not ended in time. */
#ifndef SWITCHMARK_ENDING_H
#define SWITCHMARK_ENDING_H

#include "message.h"

#include <poll.h>

#define ENDINGS_MAX 64

struct endings {
	struct {
		uint32_t id; /* of the question; 0 where the place is free */
		int pidfd;
		bool killed;
		int64_t deadline;
	} at[ENDINGS_MAX];
};

typedef void ending_answer(void *context, struct writer *answer);

/* Takes a pid, its start time, a signal and ms of grace. Answers at once where it cannot begin. */
void endings_ask(struct endings *e, uint32_t id, struct reader *asked, ending_answer *answer,
		 void *context);

/* Fills in what to poll, at most ENDINGS_MAX places; returns how many. */
int endings_poll(const struct endings *e, struct pollfd *polls);

/* Goes on with those whose time is over; answers 1 for those that ended, 0 for one that survives SIGKILL. The ms
 * until it is to be called again, or -1. */
int endings_turn(struct endings *e, ending_answer *answer, void *context);

void endings_close(struct endings *e);

#endif
