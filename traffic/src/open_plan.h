/* SPDX-License-Identifier: Apache-2.0 */
/* The command `open`: ports, and the threads and tasks that use them. */
#ifndef SWITCHMARK_OPEN_PLAN_H
#define SWITCHMARK_OPEN_PLAN_H

#include "engine.h"
#include "schema.h"
#include "task.h"

#define PORTS_MAX 128 /* queues of all ports */
#define TASKS_MAX 64 /* a task on several cores counts once */
#define THREADS_MAX 128
#define CPU_MAX 1023

struct task_plan {
	enum role role;
	uint32_t ports[2], port_count;
};

struct thread_plan {
	uint32_t cores; /* number of threads that share the tasks, each with its own queues */
	int cpus[THREADS_MAX]; /* one per core; -1: any */
	bool yield;
	struct task_plan tasks[TASKS_MAX];
	uint32_t task_count;
};

struct port_plan {
	const struct engine *engine;
	/* cores of the thread that uses the port: one pair of queues is opened per core */
	uint32_t cores;
	struct port_config config;
};

struct open_plan {
	struct port_plan ports[PORTS_MAX];
	uint32_t port_count;
	struct thread_plan threads[THREADS_MAX];
	uint32_t thread_count;
};

/* Reads the command into `plan`. The caller zeroes `plan` first. */
bool open_plan_read(struct reader *r, json_t *object, struct open_plan *plan);

#endif
