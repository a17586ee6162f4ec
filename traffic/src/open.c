/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the ports and starts the threads of a session; closes and stops them. */
#include "privileges.h"
#include "session.h"
#include "socket.h"

#include <errno.h>
#include <stdlib.h>

void session_close(struct session *s)
{
	session_halt(s);
	for (uint32_t i = 0; i < s->worker_count; i++) {
		worker_quit(&s->workers[i]);
		free(s->workers[i].tasks);
	}
	for (uint32_t i = 0; i < s->task_count; i++)
		task_free(&s->tasks[i]);
	for (uint32_t i = 0; i < s->port_count; i++)
		s->ports[i].engine->close(&s->ports[i]);
	free(s->tasks);
	s->tasks = NULL;
	s->worker_count = s->task_count = s->port_count = 0;
	s->armed = false;
}

/* Opens one queue of a port. */
static const char *queue_open(struct session *s, const struct port_plan *plan, uint32_t number,
			      uint32_t core, int cpu)
{
	struct port *port = &s->ports[s->port_count];
	int saved, error, moved;
	cpu_set_t before;

	memset(port, 0, sizeof(*port));
	port->engine = plan->engine;
	port->config = plan->config;
	port->config.core = core;
	port->config.cores = plan->cores;
	port->config.queue += core;
	port->news = s->ending.news;
	saved = namespace_enter(port);
	if (saved < -1)
		return session_error(s, "port %u: %s", number, port->why);
	/* The first write places memory on a NUMA node: use the CPU of the port's thread. */
	moved = cpu_move(port->engine->caps & ENGINE_HAS_THREADS ? -1 : cpu, &before);
	error = port_open(port);
	cpu_return(moved, &before);
	namespace_leave(saved);
	if (error)
		return session_error(s, "port %u, engine %s: %s", number, port->engine->name,
				     port->why[0] ? port->why : strerror(-error));
	s->port_count++;
	return NULL;
}

/* Returns the CPU of a core of the thread that uses a port; -1: any. */
static int cpu_of_port(const struct open_plan *plan, uint32_t port, uint32_t core)
{
	for (uint32_t i = 0; i < plan->thread_count; i++)
		for (uint32_t j = 0; j < plan->threads[i].task_count; j++)
			for (uint32_t k = 0; k < plan->threads[i].tasks[j].port_count; k++)
				if (plan->threads[i].tasks[j].ports[k] == port)
					return plan->threads[i].cpus[core];
	return -1;
}

static const char *queues_open(struct session *s, const struct open_plan *plan)
{
	for (uint32_t i = 0; i < plan->port_count; i++) {
		s->first_queue[i] = s->port_count;
		for (uint32_t core = 0; core < plan->ports[i].cores; core++) {
			const char *error =
				queue_open(s, &plan->ports[i], i, core, cpu_of_port(plan, i, core));

			if (error)
				return error;
		}
	}
	return NULL;
}

static const char *ports_open(struct session *s, const struct open_plan *plan)
{
	struct interrupter interrupter;
	const char *error;
	int number;
	uint32_t total = 0;

	for (uint32_t i = 0; i < plan->port_count; i++) {
		const struct port_plan *p = &plan->ports[i];

		total += p->cores;
		if (p->cores > 1 && !(p->engine->caps & ENGINE_SPREADS))
			return session_error(s, "port %u: engine %s works on one core", i,
					     p->engine->name);
	}
	if (total > PORTS_MAX)
		return session_error(s, "open: more than %d queues of ports", PORTS_MAX);
	number = interrupter_start(&interrupter, &s->ending);
	if (number)
		return session_error(s, "open: %s", strerror(number));
	error = queues_open(s, plan);
	interrupter_stop(&interrupter);
	/* The only other threads so far are those of libraries. */
	privileges_drop_others();
	return error;
}

/* Sets up one core of a task. */
static void task_open(struct session *s, const struct task_plan *plan, struct worker *w,
		      struct task *t, uint32_t core, uint32_t cores)
{
	struct port *first = &s->ports[s->first_queue[plan->ports[0]] + core];
	struct port *last = &s->ports[s->first_queue[plan->ports[plan->port_count - 1]] + core];

	t->role = plan->role;
	t->core = core;
	t->cores = cores;
	t->sender.port = t->receiver.port = t->forwarder.ports[0] = first;
	t->forwarder.ports[1] = last;
	t->forwarder.reflect = plan->role == ROLE_SERVER;
	w->tasks[w->count++] = t;
	w->privileged |= (first->engine->caps | last->engine->caps) & ENGINE_PRIVILEGED;
}

/* Starts the threads of a plan: one per core. */
static const char *thread_open(struct session *s, const struct thread_plan *plan)
{
	for (uint32_t core = 0; core < plan->cores; core++) {
		struct worker *w = &s->workers[s->worker_count];
		int error;

		*w = (struct worker){ .cpu = plan->cpus[core],
				      .cores = plan->cores,
				      .yield = plan->yield,
				      .window = &s->window,
				      .news = s->ending.news };
		w->tasks = calloc(plan->task_count, sizeof(*w->tasks));
		if (!w->tasks)
			return "open: no memory";
		for (uint32_t j = 0; j < plan->task_count; j++)
			task_open(s, &plan->tasks[j], w,
				  &s->tasks[s->task_count + j * plan->cores + core], core,
				  plan->cores);
		s->worker_count++;
		error = worker_start(w);
		if (error)
			return session_error(s, "cannot run a thread on CPU %d: %s", w->cpu,
					     strerror(-error));
	}
	s->task_count += plan->task_count * plan->cores;
	return NULL;
}

static const char *workers_open(struct session *s, const struct open_plan *plan)
{
	uint32_t open = 0, tasks = 0, threads = 0;

	for (uint32_t i = 0; i < plan->thread_count; i++) {
		open += plan->threads[i].task_count;
		tasks += plan->threads[i].task_count * plan->threads[i].cores;
		threads += plan->threads[i].cores;
	}
	if (open > TASKS_MAX || threads > THREADS_MAX)
		return session_error(s, "open: more than %d tasks or %d threads", TASKS_MAX,
				     THREADS_MAX);
	s->tasks = aligned_alloc(CACHE_LINE, tasks * sizeof(*s->tasks));
	if (!s->tasks)
		return "open: no memory";
	memset(s->tasks, 0, tasks * sizeof(*s->tasks));
	for (uint32_t i = 0; i < plan->thread_count; i++) {
		const char *error = thread_open(s, &plan->threads[i]);

		if (error)
			return error;
	}
	return NULL;
}

const char *session_open(struct session *s, const struct open_plan *plan)
{
	const char *error;

	if (s->port_count)
		return "open: ports are open; close first";
	error = ports_open(s, plan);
	if (!error)
		error = workers_open(s, plan);
	if (error) {
		session_close(s);
		return error;
	}
	s->opened = plan->port_count;
	return NULL;
}

const char *session_ready(struct session *s, uint64_t timeout_ms)
{
	uint64_t until = clock_monotonic_ns() + timeout_ms * 1000000;

	for (uint32_t i = 0; i < s->port_count;) {
		if (s->ports[i].engine->ready(&s->ports[i])) {
			i++;
		} else if (clock_monotonic_ns() > until || !session_tick(s, 1)) {
			return session_error(s, "port %u (%s): the link is not up after %llu ms", i,
					     s->ports[i].config.ifname,
					     (unsigned long long)timeout_ms);
		}
	}
	return NULL;
}
