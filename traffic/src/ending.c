/* SPDX-License-Identifier: Apache-2.0 */
#include "ending.h"
#include "privileges.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define INTERRUPT_SIGNAL SIGUSR1
#define INTERRUPT_NS 20000000l
#define INTERRUPTS_MAX 40

static atomic_bool terminated;

static void on_signal(int signal)
{
	if (signal != INTERRUPT_SIGNAL)
		terminated = true;
}

void ending_begin(struct ending *e, int in)
{
	const struct sigaction action = { .sa_handler = on_signal };
	sigset_t signals;

	e->in = in;
	e->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e->closed = false;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, &e->before);
	sigemptyset(&signals);
	sigaddset(&signals, INTERRUPT_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
	e->waiting = e->before;
	sigdelset(&e->waiting, SIGTERM);
	sigdelset(&e->waiting, SIGINT);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(INTERRUPT_SIGNAL, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

void ending_end(struct ending *e)
{
	pthread_sigmask(SIG_SETMASK, &e->before, NULL);
	if (e->news > 0)
		close(e->news);
	e->news = -1;
}

bool ending_came(const struct ending *e)
{
	return e->closed || terminated;
}

/* POLLHUP: the end of a pipe. POLLRDHUP: the peer of a socket has shut down writing. */
static bool has_ended(const struct pollfd *in)
{
	return in->revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL);
}

static struct timespec timespec_of(uint32_t ms)
{
	return (struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 };
}

bool ending_wait(struct ending *e, uint32_t ms)
{
	struct pollfd polls[] = { { .fd = e->in, .events = POLLRDHUP },
				  { .fd = e->news > 0 ? e->news : -1, .events = POLLIN } };
	const struct timespec pause = timespec_of(ms);
	eventfd_t news;

	if (ppoll(polls, 2, &pause, &e->waiting) > 0) {
		if (has_ended(&polls[0]))
			e->closed = true;
		if (polls[1].revents)
			(void)eventfd_read(e->news, &news);
	}
	return !ending_came(e);
}

int ending_wait_input(struct ending *e, uint32_t ms)
{
	struct pollfd in = { .fd = e->in, .events = POLLIN | POLLRDHUP };
	const struct timespec pause = timespec_of(ms);

	return ppoll(&in, 1, ms == UINT32_MAX ? NULL : &pause, &e->waiting);
}

static void *interrupter_main(void *argument)
{
	const struct timespec pause = { .tv_nsec = INTERRUPT_NS };
	struct interrupter *i = argument;
	struct ending *e = i->ending;

	privileges_drop();
	for (int interrupts = 0; interrupts < INTERRUPTS_MAX;) {
		const bool ending = ending_came(e);
		struct pollfd polls[] = { { .fd = i->done, .events = POLLIN },
					  { .fd = e->in, .events = POLLRDHUP } };
		const int found = ppoll(polls, ending ? 1 : 2, ending ? &pause : NULL, &e->waiting);

		if (found > 0 && polls[0].revents)
			return NULL;
		if (found > 0 && has_ended(&polls[1]))
			e->closed = true;
		if (ending) {
			pthread_kill(i->opener, INTERRUPT_SIGNAL);
			interrupts++;
		}
	}
	fputs("switchmark-traffic: ended without closing its ports: one of them still opens\n",
	      stderr);
	_exit(70);
}

int interrupter_start(struct interrupter *i, struct ending *e)
{
	int error;

	i->ending = e;
	i->opener = pthread_self();
	i->done = eventfd(0, EFD_CLOEXEC);
	if (i->done < 0)
		return errno;
	error = pthread_create(&i->thread, NULL, interrupter_main, i);
	if (error)
		close(i->done);
	return error;
}

void interrupter_stop(struct interrupter *i)
{
	(void)eventfd_write(i->done, 1);
	pthread_join(i->thread, NULL);
	close(i->done);
}
