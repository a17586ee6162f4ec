/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include "privileges.h"
#include "session.h"
#include "socket.h"
#include "text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LINE_MAX_BYTES (1 << 20)
#define INTERRUPT_SIGNAL SIGUSR1
#define INTERRUPT_NS 20000000l
#define INTERRUPTS_MAX 40

static atomic_bool terminated;

static void on_signal(int signal)
{
	if (signal != INTERRUPT_SIGNAL)
		terminated = true;
}

/* ---- answers ---------------------------------------------------------------------- */

void answer(struct control *c, json_t *object)
{
	json_dumpf(object, c->out, JSON_COMPACT);
	fputc('\n', c->out);
	fflush(c->out);
	json_decref(object);
}

json_t *text_json(const char *text)
{
	char copy[512];

	snprintf(copy, sizeof(copy), "%s", text);
	text_mend(copy);
	return json_string(copy);
}

void answer_ok(struct control *c)
{
	answer(c, json_pack("{s:b}", "ok", 1));
}

void answer_error(struct control *c, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	answer(c, json_pack("{s:b,s:o}", "ok", 0, "error", text_json(text)));
}

/* The end of a pipe is POLLHUP; of a socket whose peer only writes no more, POLLRDHUP. */
static bool has_ended(const struct pollfd *in)
{
	return in->revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL);
}

bool control_tick(struct control *c)
{
	struct pollfd in = { .fd = c->in, .events = POLLRDHUP };
	const struct timespec millisecond = { .tv_nsec = 1000000 };

	control_note_drops(c);
	if (ppoll(&in, 1, &millisecond, &c->open_to) > 0 && has_ended(&in))
		c->ended = true;
	return !c->ended && !terminated;
}

/* ---- what comes while ports are opened ---------------------------------------------- */

/*
 * A library may wait for the other end of a port for ever. Meanwhile a thread waits for the end of stdin
 * and for signals, and interrupts the system calls of the one that opens until that fails: then ports
 * are closed as always. Where it does not, nothing but the end of the process helps.
 */
struct listener {
	struct control *c;
	pthread_t thread, opener;
	int done; /* an eventfd: the ports are opened, or will not be */
};

static void *listener_main(void *argument)
{
	const struct timespec pause = { .tv_nsec = INTERRUPT_NS };
	struct listener *l = argument;
	struct control *c = l->c;

	privileges_drop();
	for (int interrupts = 0; interrupts < INTERRUPTS_MAX;) {
		const bool ending = c->ended || terminated;
		struct pollfd polls[] = { { .fd = l->done, .events = POLLIN },
					  { .fd = c->in, .events = POLLRDHUP } };
		const int found = ppoll(polls, ending ? 1 : 2, ending ? &pause : NULL, &c->open_to);

		if (found > 0 && polls[0].revents)
			return NULL;
		if (found > 0 && has_ended(&polls[1]))
			c->ended = true;
		if (ending) {
			pthread_kill(l->opener, INTERRUPT_SIGNAL);
			interrupts++;
		}
	}
	fputs("switchmark-traffic: ended without closing its ports: one of them still opens\n",
	      stderr);
	_exit(70);
}

static int listener_start(struct listener *l, struct control *c)
{
	int error;

	l->c = c;
	l->opener = pthread_self();
	l->done = eventfd(0, EFD_CLOEXEC);
	if (l->done < 0)
		return errno;
	error = pthread_create(&l->thread, NULL, listener_main, l);
	if (error)
		close(l->done);
	return error;
}

static void listener_end(struct listener *l)
{
	(void)eventfd_write(l->done, 1);
	pthread_join(l->thread, NULL);
	close(l->done);
}

/* ---- open, close ------------------------------------------------------------------ */

static void control_close(struct control *c)
{
	control_halt(c);
	for (uint32_t i = 0; i < c->worker_count; i++) {
		worker_quit(&c->workers[i]);
		free(c->workers[i].tasks);
	}
	for (uint32_t i = 0; i < c->task_count; i++)
		task_free(&c->tasks[i]);
	for (uint32_t i = 0; i < c->port_count; i++)
		c->ports[i].engine->close(&c->ports[i]);
	free(c->tasks);
	c->tasks = NULL;
	c->worker_count = c->task_count = c->port_count = 0;
	c->armed = false;
}

/* Opens one queue of a port. */
static bool queue_open(struct control *c, const struct port_plan *plan, uint32_t number,
		       uint32_t core, int cpu)
{
	struct port *port = &c->ports[c->port_count];
	int saved, error, moved;
	cpu_set_t before;

	memset(port, 0, sizeof(*port));
	port->engine = plan->engine;
	port->config = plan->config;
	port->config.core = core;
	port->config.cores = plan->cores;
	port->config.queue += core;
	saved = namespace_enter(port);
	if (saved < -1) {
		answer_error(c, "port %u: %s", number, port->why);
		return false;
	}
	/* Memory is where it is first written: on the node of the thread that will use it. */
	moved = cpu_move(port->engine->caps & ENGINE_HAS_THREADS ? -1 : cpu, &before);
	error = port_open(port);
	cpu_return(moved, &before);
	namespace_leave(saved);
	if (error) {
		answer_error(c, "port %u, engine %s: %s", number, port->engine->name,
			     port->why[0] ? port->why : strerror(-error));
		return false;
	}
	c->port_count++;
	return true;
}

/* The CPU of a core of the thread that uses a port; -1: any. */
static int cpu_of_port(const struct open_plan *plan, uint32_t port, uint32_t core)
{
	for (uint32_t i = 0; i < plan->thread_count; i++)
		for (uint32_t j = 0; j < plan->threads[i].task_count; j++)
			for (uint32_t k = 0; k < plan->threads[i].tasks[j].port_count; k++)
				if (plan->threads[i].tasks[j].ports[k] == port)
					return plan->threads[i].cpus[core];
	return -1;
}

static bool queues_open(struct control *c, const struct open_plan *plan)
{
	for (uint32_t i = 0; i < plan->port_count; i++) {
		c->first_queue[i] = c->port_count;
		for (uint32_t core = 0; core < plan->ports[i].cores; core++)
			if (!queue_open(c, &plan->ports[i], i, core, cpu_of_port(plan, i, core)))
				return false;
	}
	return true;
}

static bool ports_open(struct control *c, const struct open_plan *plan)
{
	struct listener listener;
	bool opened;
	int error;
	uint32_t total = 0;

	for (uint32_t i = 0; i < plan->port_count; i++) {
		const struct port_plan *p = &plan->ports[i];

		total += p->cores;
		if (p->cores > 1 && !(p->engine->caps & ENGINE_SPREADS)) {
			answer_error(c, "port %u: engine %s works on one core", i, p->engine->name);
			return false;
		}
	}
	if (total > PORTS_MAX) {
		answer_error(c, "open: more than %d queues of ports", PORTS_MAX);
		return false;
	}
	error = listener_start(&listener, c);
	if (error) {
		answer_error(c, "open: %s", strerror(error));
		return false;
	}
	opened = queues_open(c, plan);
	listener_end(&listener);
	/* There is no thread yet but those that libraries have started. */
	privileges_drop_others();
	return opened;
}

/* The task of a plan, on one of its cores. */
static void task_open(struct control *c, const struct task_plan *plan, struct worker *w,
		      struct task *t, uint32_t core, uint32_t cores)
{
	struct port *first = &c->ports[c->first_queue[plan->ports[0]] + core];
	struct port *last = &c->ports[c->first_queue[plan->ports[plan->port_count - 1]] + core];

	t->role = plan->role;
	t->core = core;
	t->cores = cores;
	t->sender.port = t->receiver.port = t->forwarder.ports[0] = first;
	t->forwarder.ports[1] = last;
	t->forwarder.reflect = plan->role == ROLE_SERVER;
	w->tasks[w->count++] = t;
	w->privileged |= (first->engine->caps | last->engine->caps) & ENGINE_PRIVILEGED;
}

/* The threads of a plan: one for each of its cores. */
static bool thread_open(struct control *c, const struct thread_plan *plan)
{
	for (uint32_t core = 0; core < plan->cores; core++) {
		struct worker *w = &c->workers[c->worker_count];
		int error;

		*w = (struct worker){ .cpu = plan->cpus[core],
				      .cores = plan->cores,
				      .yield = plan->yield,
				      .window = &c->window };
		w->tasks = calloc(plan->task_count, sizeof(*w->tasks));
		if (!w->tasks) {
			answer_error(c, "open: no memory");
			return false;
		}
		for (uint32_t j = 0; j < plan->task_count; j++)
			task_open(c, &plan->tasks[j], w,
				  &c->tasks[c->task_count + j * plan->cores + core], core,
				  plan->cores);
		c->worker_count++;
		error = worker_start(w);
		if (error) {
			answer_error(c, "cannot run a thread on CPU %d: %s", w->cpu,
				     strerror(-error));
			return false;
		}
	}
	c->task_count += plan->task_count * plan->cores;
	return true;
}

static bool workers_open(struct control *c, const struct open_plan *plan)
{
	uint32_t open = 0, tasks = 0, threads = 0;

	for (uint32_t i = 0; i < plan->thread_count; i++) {
		open += plan->threads[i].task_count;
		tasks += plan->threads[i].task_count * plan->threads[i].cores;
		threads += plan->threads[i].cores;
	}
	if (open > TASKS_MAX || threads > THREADS_MAX) {
		answer_error(c, "open: more than %d tasks or %d threads", TASKS_MAX, THREADS_MAX);
		return false;
	}
	c->tasks = aligned_alloc(CACHE_LINE, tasks * sizeof(*c->tasks));
	if (!c->tasks) {
		answer_error(c, "open: no memory");
		return false;
	}
	memset(c->tasks, 0, tasks * sizeof(*c->tasks));
	for (uint32_t i = 0; i < plan->thread_count; i++)
		if (!thread_open(c, &plan->threads[i]))
			return false;
	return true;
}

static void control_open(struct control *c, const struct open_plan *plan)
{
	json_t *modes;

	if (c->port_count) {
		answer_error(c, "open: ports are open; close first");
		return;
	}
	if (!ports_open(c, plan) || !workers_open(c, plan)) {
		control_close(c);
		return;
	}
	modes = json_array();
	for (uint32_t i = 0; i < plan->port_count; i++)
		json_array_append_new(modes, text_json(c->ports[c->first_queue[i]].mode));
	answer(c, json_pack("{s:b,s:o}", "ok", 1, "modes", modes));
}

static void control_ready(struct control *c, uint64_t timeout_ms)
{
	uint64_t until = clock_monotonic_ns() + timeout_ms * 1000000;

	for (uint32_t i = 0; i < c->port_count;) {
		if (c->ports[i].engine->ready(&c->ports[i])) {
			i++;
		} else if (clock_monotonic_ns() > until || !control_tick(c)) {
			answer_error(c, "port %u (%s): the link is not up after %llu ms", i,
				     c->ports[i].config.ifname, (unsigned long long)timeout_ms);
			return;
		}
	}
	answer_ok(c);
}

/* ---- the loop over lines ---------------------------------------------------------- */

/* Tells the clock anew; those who move frames go on with the one that they were armed with. */
static void control_clock(struct control *c)
{
	clock_measure(&c->told, 50);
	answer(c, json_pack("{s:b,s:I,s:I,s:I}", "ok", 1, "ticks", COUNT(c->told.ticks0), "ns",
			    COUNT(c->told.ns0), "hz", COUNT(c->told.hz)));
}

static void control_command(struct control *c, const char *line, size_t len)
{
	char why[256] = "";

	if (!command_parse(line, len, &c->command, why, sizeof(why))) {
		answer_error(c, "%s", why);
		return;
	}
	switch (c->command.verb) {
	case VERB_OPEN:
		privileges_raise();
		control_open(c, &c->command.open);
		privileges_lower();
		return;
	case VERB_READY:
		privileges_raise(); /* to enter namespaces */
		control_ready(c, c->command.timeout_ms);
		privileges_lower();
		return;
	case VERB_CLOCK:
		control_clock(c);
		return;
	case VERB_ARM:
		privileges_raise(); /* to listen at an interface, and to announce a MAC at one */
		control_arm(c, &c->command.arm);
		privileges_lower();
		return;
	case VERB_START:
		control_start(c, &c->command.start);
		return;
	case VERB_WAIT:
		control_wait(c, c->command.timeout_ms);
		return;
	case VERB_STOP:
		control_stop(c, c->command.timeout_ms);
		return;
	case VERB_DRAIN:
		control_drain(c, c->command.quiet_ms, c->command.timeout_ms);
		return;
	case VERB_REPORT:
		control_report(c);
		return;
	case VERB_CLOSE:
		privileges_raise();
		control_close(c);
		privileges_lower();
		answer_ok(c);
		return;
	}
}

/* Takes complete lines out of the buffer; returns how many bytes are left in it. */
static size_t control_lines(struct control *c, char *buffer, size_t filled)
{
	char *line = buffer, *end;

	while ((end = memchr(line, '\n', filled - (size_t)(line - buffer)))) {
		if (end > line)
			control_command(c, line, (size_t)(end - line));
		line = end + 1;
	}
	memmove(buffer, line, filled - (size_t)(line - buffer));
	return filled - (size_t)(line - buffer);
}

/* Reads on, once there is something or the end of it. Returns what read() does. */
static ssize_t control_read(struct control *c, char *buffer, size_t size)
{
	struct pollfd in = { .fd = c->in, .events = POLLIN | POLLRDHUP };
	const struct timespec pause = { .tv_sec = NOTE_DROPS_MS / 1000 };
	int found;

	while (!(found = ppoll(&in, 1, c->running ? &pause : NULL, &c->open_to)))
		control_note_drops(c);
	if (found < 0)
		return -1;
	return read(c->in, buffer, size);
}

int control_serve(int in, FILE *out)
{
	struct control *c;
	char *buffer;
	struct sigaction action = { .sa_handler = on_signal };
	size_t filled = 0;
	sigset_t ending, interrupt, before;

	for (const struct engine *const *e = engines; *e; e++) {
		if (!engine_fault(*e))
			continue;
		fprintf(stderr, "engine %s of this build: %s\n", (*e)->name ? (*e)->name : "?",
			engine_fault(*e));
		return 70;
	}
	c = aligned_alloc(_Alignof(struct control), sizeof(*c));
	buffer = malloc(LINE_MAX_BYTES);
	if (!c || !buffer) {
		free(c);
		free(buffer);
		return 70;
	}
	memset(c, 0, sizeof(*c));
	/* Blocked but while it waits, here and in the threads to come: none is lost between a look
	 * at `terminated` and the wait. */
	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	pthread_sigmask(SIG_BLOCK, &ending, &before);
	sigemptyset(&interrupt);
	sigaddset(&interrupt, INTERRUPT_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL);
	c->open_to = before;
	sigdelset(&c->open_to, SIGTERM);
	sigdelset(&c->open_to, SIGINT);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(INTERRUPT_SIGNAL, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	clock_begin();
	c->in = in;
	c->out = out;
	privileges_seal();
	privileges_lower();
	while (!terminated && !c->ended) {
		ssize_t got = control_read(c, buffer + filled, LINE_MAX_BYTES - filled);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		filled = control_lines(c, buffer, filled + (size_t)got);
		if (filled == LINE_MAX_BYTES) {
			answer_error(c, "a line is longer than %d bytes", LINE_MAX_BYTES);
			filled = 0;
		}
	}
	privileges_raise();
	control_close(c);
	free(buffer);
	free(c);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return 0;
}
