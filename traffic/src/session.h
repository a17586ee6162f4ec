/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ports, tasks and threads of one program, and the verbs that work on them in open.c, arm.c,
 * phases.c and report.c. A verb returns its error; control.c alone reads commands and writes
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
	uint32_t first_queue[PORTS_MAX]; /* of each port of the plan, its first of `ports` */
	uint32_t opened; /* ports of the plan */
	struct task *tasks;
	uint32_t task_count;
	struct worker workers[THREADS_MAX];
	uint32_t worker_count;

	struct clock measured; /* the last answer to `clock`; hz 0: none yet */
	struct clock clock; /* that tasks were armed with */
	struct window window;
	struct engine_stats at_start[PORTS_MAX];
	bool armed, running;
	uint64_t noted_ns; /* when drop counters of the kernel were last read */
	char error[512]; /* the text of the last one */
};

/* Keeps the text of an error and returns it. */
__attribute__((format(printf, 2, 3))) const char *session_error(struct session *s,
								const char *format, ...);

/* Waits a millisecond. Returns false if the program is to end. */
bool session_tick(struct session *s);

/* Reads the drop counters of ports if a phase runs and the last reading is NOTE_DROPS_MS old: no
 * counter of 32 bits is full sooner. */
#define NOTE_DROPS_MS 5000
void session_note_drops(struct session *s);

/* Waits until the threads sleep; frames that they have not sent are given back. */
void session_halt(struct session *s);

/* Why a port cannot go on; NULL: all ports work. */
const char *session_failure(const struct session *s);

/* The verbs. An error is NULL if there is none, and valid until the next verb. */
const char *session_open(struct session *s, const struct open_plan *plan);
const char *session_ready(struct session *s, uint64_t timeout_ms);
const char *session_arm(struct session *s, const struct arm_plan *plan);
const char *session_start(struct session *s, const struct start_plan *plan);
const char *session_wait(struct session *s, uint64_t timeout_ms);
const char *session_stop(struct session *s, uint64_t timeout_ms);
/* Returns whether no frame came for `quiet_ms`. */
bool session_drain(struct session *s, uint64_t quiet_ms, uint64_t timeout_ms);
/* What was counted since the start, as JSON; NULL if the session is not armed. */
json_t *session_report(struct session *s);
void session_close(struct session *s);

json_t *histogram_report(const struct histogram *h);

/* Frees what a task was armed with. */
void task_free(struct task *t);

#endif
