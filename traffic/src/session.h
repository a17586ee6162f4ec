/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of one program share: its ports, tasks and threads, and how they answer.
 * control.c reads commands and opens; arm.c, phases.c and report.c carry the others out.
 */
#ifndef SWITCHMARK_SESSION_H
#define SWITCHMARK_SESSION_H

#include "config.h"
#include "loop.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>

/* A whole number of JSON. */
#define COUNT(value) ((json_int_t)(value))

struct control {
	int in;
	FILE *out;
	atomic_bool ended; /* of stdin */
	sigset_t open_to; /* the signals while it waits: SIGTERM and SIGINT come at no other time */

	struct port ports[PORTS_MAX];
	uint32_t port_count;
	uint32_t first_queue[PORTS_MAX]; /* of each port of the plan, its first of `ports` */
	struct task *tasks;
	uint32_t task_count;
	struct worker workers[THREADS_MAX];
	uint32_t worker_count;

	struct clock told; /* the last answer to `clock`; hz 0: there was none */
	struct clock clock; /* that tasks were armed with */
	struct window window;
	struct engine_stats at_start[PORTS_MAX];
	bool armed, running;
	uint64_t noted_ns; /* when ports noted last what the kernel had dropped */
	struct command command;
};

/* Writes an answer, a line, and drops the object. */
void answer(struct control *c, json_t *object);
void answer_ok(struct control *c);
__attribute__((format(printf, 2, 3))) void answer_error(struct control *c, const char *format, ...);

/* A string whatever the bytes of the text are: engines and their libraries write some. */
json_t *text_json(const char *text);

/* What a histogram has counted. */
json_t *histogram_report(const struct histogram *h);

/* Sleeps a millisecond; false if stdin has ended or a signal came. */
bool control_tick(struct control *c);

/* Has ports note drops if a phase runs and they have not for NOTE_DROPS_MS: no counter of 32 bits is
 * full sooner. */
#define NOTE_DROPS_MS 5000
void control_note_drops(struct control *c);

/* Waits until the threads sleep; what they have not sent is given back. */
void control_halt(struct control *c);

/* Why a port can work no more; NULL: all can. */
const char *control_failure(const struct control *c);

void control_arm(struct control *c, const struct arm_plan *arm);
void control_start(struct control *c, const struct start_plan *plan);
void control_wait(struct control *c, uint64_t timeout_ms);
void control_stop(struct control *c, uint64_t timeout_ms);
void control_drain(struct control *c, uint64_t quiet_ms, uint64_t timeout_ms);
void control_report(struct control *c);

/* Frees what a task was armed with. */
void task_free(struct task *t);

#endif
