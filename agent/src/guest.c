/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGS_MAX 256

/* A process of the guest; `pid` 0 where the channel is free. */
struct process {
	pid_t pid;
	bool exited; /* and its streams may still hold something */
	int status;
	int fds[3]; /* our ends of its stdin, stdout, stderr; -1 once it has ended */
	uint32_t credit[3]; /* bytes of stdout and stderr that may be sent */
	uint8_t *fed; /* what stdin has not taken yet */
	size_t waiting;
	bool fed_all; /* nothing more will come for stdin */
};

struct guest {
	struct wire wire;
	int signals;
	sigset_t mask;
	struct process processes[WIRE_CHANNELS];
};

/* ---- processes -------------------------------------------------------------------- */

static void process_close(struct process *p, int stream)
{
	if (p->fds[stream] >= 0)
		close(p->fds[stream]);
	p->fds[stream] = -1;
}

static void process_free(struct process *p)
{
	for (int i = 0; i < 3; i++)
		process_close(p, i);
	free(p->fed);
	*p = (struct process){ .fds = { -1, -1, -1 } };
}

/* The words of a START; false if there are none, or too many. */
static bool words_split(char *words[ARGS_MAX + 1], uint8_t *bytes, size_t length)
{
	size_t count = 0;

	if (!length || bytes[length - 1])
		return false;
	for (size_t at = 0; at < length; at += strlen((char *)bytes + at) + 1) {
		if (count == ARGS_MAX)
			return false;
		words[count++] = (char *)bytes + at;
	}
	words[count] = NULL;
	return true;
}

static void child_run(const struct guest *g, const int ends[3], char *const words[])
{
	setsid(); /* a signal is for all that it starts */
	for (int i = 0; i < 3; i++)
		dup2(ends[i], i);
	sigprocmask(SIG_UNBLOCK, &g->mask, NULL);
	signal(SIGPIPE, SIG_DFL);
	execvp(words[0], words);
	dprintf(STDERR_FILENO, "%s: %s\n", words[0], strerror(errno));
	_exit(127);
}

/* Pipes for the three streams: `ours` and the child's `ends`. */
static bool pipes_open(int ours[3], int ends[3])
{
	for (int i = 0; i < 3; i++) {
		int pair[2];

		if (pipe2(pair, O_CLOEXEC)) {
			while (i-- > 0) {
				close(ours[i]);
				close(ends[i]);
				ours[i] = -1;
			}
			return false;
		}
		ours[i] = pair[i == STDIN_FILENO];
		ends[i] = pair[i != STDIN_FILENO];
		fcntl(ours[i], F_SETFL, O_NONBLOCK);
	}
	return true;
}

/* Tells why there is no process, as a command that does not start says it itself. */
static void guest_refuse(struct guest *g, uint16_t channel, const char *why)
{
	char text[256];
	const int length =
		snprintf(text, sizeof(text), "no process starts in the machine: %s\n", why);

	wire_put(&g->wire, channel, WIRE_DATA, STDERR_FILENO, text, (size_t)length);
	wire_put_number(&g->wire, channel, WIRE_EXIT, 0, 126 << 8);
}

/* 0, or an errno where there is no process. */
static int process_start(struct process *p, const struct guest *g, uint8_t *bytes, size_t length)
{
	char *words[ARGS_MAX + 1];
	int ends[3], error = 0;

	p->fed = malloc(WIRE_WINDOW);
	if (!p->fed)
		return ENOMEM;
	if (!words_split(words, bytes, length))
		return E2BIG;
	if (!pipes_open(p->fds, ends))
		return errno;
	p->credit[STDOUT_FILENO] = p->credit[STDERR_FILENO] = WIRE_WINDOW;
	p->pid = fork();
	if (!p->pid)
		child_run(g, ends, words);
	if (p->pid < 0)
		error = errno;
	for (int i = 0; i < 3; i++)
		close(ends[i]);
	return error;
}

static void guest_start(struct guest *g, uint16_t channel, const uint8_t *payload, size_t length)
{
	struct process *p = &g->processes[channel];
	uint8_t *bytes;
	int error = ENOMEM;

	if (p->pid)
		return; /* the other end forgets itself: the channel is in use */
	bytes = malloc(length + 1);
	if (bytes) {
		memcpy(bytes, payload, length);
		error = process_start(p, g, bytes, length);
	}
	if (error) {
		process_free(p);
		guest_refuse(g, channel, strerror(error));
	}
	free(bytes);
}

static void process_signal(const struct process *p, int number)
{
	if (p->pid > 1 && !p->exited && number > 0 && number < NSIG)
		/* Before it leads its session, it is alone. */
		if (kill(-p->pid, number))
			kill(p->pid, number);
}

/* Gives stdin what waits for it. */
static void process_feed(struct guest *g, uint16_t channel)
{
	struct process *p = &g->processes[channel];
	ssize_t put = 0;

	if (p->fds[0] >= 0 && p->waiting)
		put = write(p->fds[0], p->fed, p->waiting);
	if (put < 0 && errno != EAGAIN && errno != EINTR) {
		p->waiting = 0; /* it reads no more */
		process_close(p, STDIN_FILENO);
		wire_put(&g->wire, channel, WIRE_END, STDIN_FILENO, NULL, 0);
	} else if (put > 0) {
		memmove(p->fed, p->fed + put, p->waiting - (size_t)put);
		p->waiting -= (size_t)put;
		wire_put_number(&g->wire, channel, WIRE_GRANT, STDIN_FILENO, (uint32_t)put);
	}
	if (p->fed_all && !p->waiting)
		process_close(p, STDIN_FILENO);
}

/* Sends on what the process says. After its end nothing more is waited for: a daemon that it
   left behind may keep the stream open. */
static void process_hear(struct guest *g, uint16_t channel, int stream)
{
	struct process *p = &g->processes[channel];
	uint8_t bytes[WIRE_PAYLOAD_MAX];
	size_t room = p->credit[stream] < sizeof(bytes) ? p->credit[stream] : sizeof(bytes);
	ssize_t got = read(p->fds[stream], bytes, room);

	if (got > 0) {
		p->credit[stream] -= (uint32_t)got;
		wire_put(&g->wire, channel, WIRE_DATA, (uint8_t)stream, bytes, (size_t)got);
	} else if (got == 0 || p->exited || (errno != EAGAIN && errno != EINTR)) {
		process_close(p, stream);
	}
}

static void guest_finish(struct guest *g, uint16_t channel)
{
	struct process *p = &g->processes[channel];

	if (!p->pid || !p->exited || p->fds[1] >= 0 || p->fds[2] >= 0)
		return;
	wire_put_number(&g->wire, channel, WIRE_EXIT, 0, (uint32_t)p->status);
	process_free(p);
}

static void guest_reap(struct guest *g)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (uint16_t i = 0; i < WIRE_CHANNELS; i++)
			if (g->processes[i].pid == pid) {
				g->processes[i].exited = true;
				g->processes[i].status = status;
			}
}

/* ---- frames ----------------------------------------------------------------------- */

static void guest_take(void *context, const struct wire_head *head, const uint8_t *payload)
{
	struct guest *g = context;
	struct process *p = &g->processes[head->channel];

	if (head->kind == WIRE_START) {
		guest_start(g, head->channel, payload, head->length);
		return;
	}
	if (!p->pid)
		return; /* it has just ended */
	switch (head->kind) {
	case WIRE_DATA:
		if (p->fds[0] < 0 || head->length > WIRE_WINDOW - p->waiting)
			return;
		memcpy(p->fed + p->waiting, payload, head->length);
		p->waiting += head->length;
		process_feed(g, head->channel);
		return;
	case WIRE_END:
		if (head->stream == STDIN_FILENO) {
			p->fed_all = true;
			process_feed(g, head->channel);
			return;
		}
		/* Nobody reads it any more. */
		process_close(p, head->stream);
		guest_finish(g, head->channel);
		return;
	case WIRE_GRANT:
		if (wire_number(head, payload) <= WIRE_WINDOW - p->credit[head->stream])
			p->credit[head->stream] += wire_number(head, payload);
		return;
	case WIRE_SIGNAL:
		process_signal(p, (int)wire_number(head, payload));
		return;
	default:
		return;
	}
}

/* One turn; false when the host has gone. */
static bool guest_turn(struct guest *g)
{
	enum { WIRE, SIGNALS, FIRST };
	struct pollfd polls[FIRST + 3 * WIRE_CHANNELS];
	struct signalfd_siginfo info;

	polls[WIRE] =
		(struct pollfd){ .fd = g->wire.fd,
				 .events = (short)(POLLIN | (g->wire.waiting ? POLLOUT : 0)) };
	polls[SIGNALS] = (struct pollfd){ .fd = g->signals, .events = POLLIN };
	for (int i = 0; i < WIRE_CHANNELS; i++) {
		const struct process *p = &g->processes[i];
		struct pollfd *of = &polls[FIRST + 3 * i];

		of[0] = (struct pollfd){ .fd = p->waiting ? p->fds[0] : -1, .events = POLLOUT };
		for (int s = 1; s < 3; s++)
			of[s] = (struct pollfd){ .fd = p->credit[s] ? p->fds[s] : -1,
						 .events = POLLIN };
	}
	if (poll(polls, FIRST + 3 * WIRE_CHANNELS, -1) < 0)
		return errno == EINTR;
	if (polls[SIGNALS].revents && read(g->signals, &info, sizeof(info)) == sizeof(info))
		guest_reap(g);
	for (uint16_t i = 0; i < WIRE_CHANNELS; i++) {
		const struct pollfd *of = &polls[FIRST + 3 * i];
		struct process *p = &g->processes[i];

		if (of[0].revents)
			process_feed(g, i);
		for (int s = 1; s < 3; s++)
			if (p->fds[s] >= 0 && p->credit[s] && (of[s].revents || p->exited))
				process_hear(g, i, s);
		guest_finish(g, i);
	}
	if (polls[WIRE].revents & POLLOUT && !wire_flush(&g->wire))
		return false;
	return !(polls[WIRE].revents & ~POLLOUT) || wire_read(&g->wire, guest_take, g);
}

int guest_serve(int fd)
{
	struct guest *g = calloc(1, sizeof(*g));
	sigset_t before;

	if (!g)
		return 70;
	for (int i = 0; i < WIRE_CHANNELS; i++)
		g->processes[i].fds[0] = g->processes[i].fds[1] = g->processes[i].fds[2] = -1;
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&g->mask);
	sigaddset(&g->mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &g->mask, &before);
	g->signals = signalfd(-1, &g->mask, SFD_CLOEXEC | SFD_NONBLOCK);
	wire_open(&g->wire, fd);
	wire_put(&g->wire, 0, WIRE_HELLO, 0, NULL, 0);
	while (guest_turn(g))
		;
	for (int i = 0; i < WIRE_CHANNELS; i++) {
		process_signal(&g->processes[i], SIGKILL);
		if (g->processes[i].pid && !g->processes[i].exited)
			waitpid(g->processes[i].pid, NULL, 0);
		process_free(&g->processes[i]);
	}
	wire_close(&g->wire);
	close(g->signals);
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(g);
	return 0;
}
