/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ports, tasks and threads of one program, and the commands that work on them in open.c, arm.c,
 * phases.c and report.c. A command returns its error; only control.c reads commands and writes
 * answers.
 */
#ifndef SWITCHMARK_SESSION_H
#define SWITCHMARK_SESSION_H

#include "command.h"
#include "ending.h"
#include "loop.h"

#include <jansson.h>

struct session {
	struct ending ending;
	struct port ports[PORTS_MAX];
	uint32_t port_count;
	/* index in `ports` of the first queue of each port of the plan */
	uint32_t first_queue[PORTS_MAX];
	uint32_t opened; /* number of ports in the plan */
	struct task *tasks;
	uint32_t task_count;
	struct worker workers[THREADS_MAX];
	uint32_t worker_count;

	struct clock measured; /* the last answer to `clock`; hz 0: not measured yet */
	struct clock clock; /* the clock of the armed tasks */
	struct window window;
	struct engine_stats at_start[PORTS_MAX];
	bool armed, running;
	uint32_t round; /* the last round of this phase */
	uint64_t noted_ns; /* when the kernel's drop counters were last read */
	char error[512]; /* text of the last error */
};

/* Keeps the text of an error and returns it. */
__attribute__((format(printf, 2, 3))) const char *session_error(struct session *s,
								const char *format, ...);

/* Waits up to `ms` milliseconds, or for news of a thread. Returns false if the program must end. */
bool session_tick(struct session *s, uint32_t ms);

/* Reads the drop counters of ports if a phase is running and the last reading is NOTE_DROPS_MS old:
 * 32-bit counters do not wrap around sooner. */
#define NOTE_DROPS_MS 1000
void session_note_drops(struct session *s);

/* Returns the milliseconds until the next such reading; UINT32_MAX: no port needs one. */
uint32_t session_drops_ms(const struct session *s);

/* Waits until the threads sleep; releases frames that they have not sent. */
void session_halt(struct session *s);

/* Returns the reason why a port has failed; NULL: all ports work. */
const char *session_failure(const struct session *s);

/* The commands. They return NULL or an error, which is valid until the next command. */
const char *session_open(struct session *s, const struct open_plan *plan);
const char *session_ready(struct session *s, uint64_t timeout_ms);
const char *session_arm(struct session *s, const struct arm_plan *arm);
const char *session_start(struct session *s, const struct start_plan *plan);
const char *session_wait(struct session *s, uint64_t timeout_ms);
const char *session_stop(struct session *s, uint64_t timeout_ms);
/* Returns true if no frame arrived for `quiet_ms`. */
bool session_drain(struct session *s, uint64_t quiet_ms, uint64_t timeout_ms);
/* Returns the counts since the start as JSON; NULL if the session is not armed. */
json_t *session_report(struct session *s);
/* Returns the counts of `count` intervals from `first` on as JSON, also while a phase runs; NULL if
 * the session is not armed for it, or a port has failed. */
json_t *session_series(struct session *s, uint32_t first, uint32_t count);
void session_close(struct session *s);

json_t *histogram_report(const struct histogram *h);

/* Frees the memory that session_arm allocated for a task. */
void task_free(struct task *t);

#endif
