/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops that move frames. A worker is a pinned thread that steps its tasks in turn. Between
 * phases the workers sleep, and the control thread may access tasks and ports only then.
 */
#ifndef SWITCHMARK_LOOP_H
#define SWITCHMARK_LOOP_H

#include "task.h"

#include <pthread.h>
#include <sched.h>

/* The CPU time that a thread has used up to some moment. */
struct usage {
	uint64_t cpu_ns;
	uint64_t user_ns; /* the user-mode part of cpu_ns */
	int64_t wait_ns; /* runnable without a CPU; -1: unknown */
};

/* The rounds of a phase: 0 while frames are sent. `wait` and the drain begin a round to learn that all
 * ports are empty. The drain begins another round after each frame. ROUND_REST follows the drain: a thread
 * without frames sleeps between its polls. */
#define ROUND_REST UINT32_MAX

struct worker {
	pthread_t thread;
	int cpu; /* -1: not pinned */
	uint32_t cores; /* number of consecutive workers with the same tasks */
	bool yield;
	bool privileged; /* keeps the program's privileges, if there are any */
	struct task **tasks;
	uint32_t count;
	const struct window *window;
	int news; /* an eventfd that wakes the control thread; -1 or 0: none */

	pthread_mutex_t lock;
	pthread_cond_t wake, slept;
	bool run, quit; /* protected by the lock */
	atomic_bool halt;
	atomic_bool idle;
	_Atomic uint32_t round;
	/* The last round in which a poll of all tasks began and returned no frame. */
	_Atomic uint32_t empty_round;
	/* Frames that servers and forwarders have taken in this phase, as of the last round. */
	_Atomic uint64_t forwarded;

	int schedstat; /* file descriptor of the thread's schedstat; -1: not available */
	struct usage before, after; /* at the start of the phase and after its end */
	uint64_t before_at, after_at; /* ticks: when the usage was read */
	uint64_t late; /* ticks from the start of the phase to the thread's first poll */
	uint64_t yields;
	int started; /* the thread exists */
} __attribute__((aligned(CACHE_LINE)));

_Static_assert(sizeof(struct worker) % CACHE_LINE == 0, "two threads share a line of workers");

/* Moves the calling thread to a CPU; -1: no move. The result is an argument for cpu_return. */
int cpu_move(int cpu, cpu_set_t *before);
void cpu_return(int moved, const cpu_set_t *before);

/* Returns 0 or -errno. The thread sleeps until worker_run. */
int worker_start(struct worker *w);
void worker_run(struct worker *w);
/* Waits until the thread sleeps again. */
void worker_halt(struct worker *w);
void worker_quit(struct worker *w);

/* Returns whether a task of this thread takes frames from a port. */
bool worker_receives(const struct worker *w);

/* Selects the step function for the role, the touch mode and the engine. */
void task_choose_step(struct task *t, enum touch touch, enum timing timing);

/* Prepares a task for a phase; the window must be set. */
void task_begin(struct task *t);

/* Releases frames that were built and not sent. */
void task_end(struct task *t);

/* Receives and discards frames that wait at a port; at most `limit` frames. */
void port_discard(struct port *port, struct frame *frames, uint32_t burst, uint64_t limit);

/* Sends one frame of phase PHASE_ANNOUNCE, so that switches learn its source MAC: through the
 * socket `past` from packet_sender, unless it is -1. */
bool port_announce(struct port *port, int past, const struct frame_template *t);

#endif
