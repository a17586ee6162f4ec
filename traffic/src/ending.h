/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends the program on SIGTERM, SIGINT or the end of stdin. The signals are blocked except while the
 * control thread waits, so no signal is lost between a check and the wait.
 */
#ifndef SWITCHMARK_ENDING_H
#define SWITCHMARK_ENDING_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ending {
	int in;
	int news; /* an eventfd: other threads wake the control thread by it; -1 or 0: none */
	atomic_bool closed; /* stdin has ended */
	sigset_t waiting; /* the mask while the control thread waits */
	sigset_t before; /* the mask before ending_begin */
};

/* Blocks the signals and sets their handlers. `in` is stdin. Without room for an eventfd, the control
 * thread looks for news from time to time. */
void ending_begin(struct ending *e, int in);
/* Restores the mask, and closes the eventfd; the handlers stay. */
void ending_end(struct ending *e);

/* True if stdin has ended or a signal has arrived. */
bool ending_came(const struct ending *e);

/* Waits up to `ms` milliseconds, or for news. Returns false if the program must end. */
bool ending_wait(struct ending *e, uint32_t ms);

/* Waits for input, at most `ms` milliseconds if that is not UINT32_MAX. Returns the result of poll. */
int ending_wait_input(struct ending *e, uint32_t ms);

/*
 * A library may wait forever for the other end of a port. While ports open, a second thread waits
 * for the end of stdin and for signals, and interrupts the system calls of the opening thread until
 * they fail; the ports are then closed as usual. If that does not help, the process exits with
 * status 70.
 */
struct interrupter {
	struct ending *ending;
	pthread_t thread, opener;
	int done; /* an eventfd: opening has finished, successfully or not */
};

/* Returns 0 or an errno. */
int interrupter_start(struct interrupter *i, struct ending *e);
void interrupter_stop(struct interrupter *i);

#endif
