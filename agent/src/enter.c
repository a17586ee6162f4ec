/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NO_MACHINE = 125 };

struct visit {
	struct wire wire;
	uint32_t credit; /* bytes of stdin that may be sent */
	bool ended; /* stdin has ended */
	bool exited;
	int status;
};

/* stdout and stderr may block: a slow reader delays only this process. */
static void write_all(int fd, const uint8_t *bytes, size_t length)
{
	while (length) {
		ssize_t put = write(fd, bytes, length);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return; /* the reader has gone */
		bytes += put;
		length -= (size_t)put;
	}
}

static void visit_take(void *context, const struct wire_head *head, const uint8_t *payload)
{
	struct visit *v = context;

	switch (head->kind) {
	case WIRE_DATA:
		if (head->stream == STDIN_FILENO)
			return;
		write_all(head->stream, payload, head->length);
		wire_put_number(&v->wire, 0, WIRE_GRANT, head->stream, head->length);
		return;
	case WIRE_END:
		if (head->stream == STDIN_FILENO)
			v->ended = true; /* the process has closed its stdin */
		return;
	case WIRE_GRANT:
		v->credit += wire_number(head, payload);
		return;
	case WIRE_EXIT:
		v->exited = true;
		v->status = (int)wire_number(head, payload);
		return;
	default:
		return;
	}
}

static void visit_feed(struct visit *v)
{
	uint8_t bytes[WIRE_PAYLOAD_MAX];
	size_t room = v->credit < sizeof(bytes) ? v->credit : sizeof(bytes);
	ssize_t got = read(STDIN_FILENO, bytes, room);

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (got <= 0) {
		v->ended = true;
		wire_put(&v->wire, 0, WIRE_END, STDIN_FILENO, NULL, 0);
		return;
	}
	v->credit -= (uint32_t)got;
	wire_put(&v->wire, 0, WIRE_DATA, STDIN_FILENO, bytes, (size_t)got);
}

static bool visit_start(struct visit *v, char *const argv[])
{
	uint8_t words[WIRE_PAYLOAD_MAX];
	size_t length = 0;

	for (; *argv; argv++) {
		size_t size = strlen(*argv) + 1;

		if (size > sizeof(words) - length)
			return false;
		memcpy(words + length, *argv, size);
		length += size;
	}
	return wire_put(&v->wire, 0, WIRE_START, 0, words, length);
}

static int connect_to(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (strlen(path) >= sizeof(to.sun_path)) {
		errno = ENAMETOOLONG;
	} else {
		memcpy(to.sun_path, path, strlen(path) + 1);
		if (!connect(fd, (struct sockaddr *)&to, sizeof(to)))
			return fd;
	}
	close(fd);
	return -1;
}

/* Forwards all streams until the process ends; returns false if the machine goes away first. */
static bool visit_run(struct visit *v, int signals)
{
	while (!v->exited) {
		struct pollfd polls[] = {
			{ .fd = v->wire.fd,
			  .events = (short)(POLLIN | (v->wire.waiting ? POLLOUT : 0)) },
			{ .fd = signals, .events = POLLIN },
			{ .fd = v->ended || !v->credit ? -1 : STDIN_FILENO, .events = POLLIN },
		};
		struct signalfd_siginfo info;

		if (poll(polls, 3, -1) < 0 && errno != EINTR)
			return false;
		if (polls[0].revents & ~POLLOUT && !wire_read(&v->wire, visit_take, v))
			return v->exited;
		if (polls[0].revents & POLLOUT && !wire_flush(&v->wire))
			return false;
		if (polls[1].revents && read(signals, &info, sizeof(info)) == sizeof(info))
			wire_put_number(&v->wire, 0, WIRE_SIGNAL, 0, info.ssi_signo);
		if (polls[2].revents)
			visit_feed(v);
	}
	return true;
}

int enter(const char *path, char *const argv[])
{
	struct visit *v = calloc(1, sizeof(*v));
	sigset_t mask;
	int fd, signals, status;
	bool met;

	if (!v)
		return NO_MACHINE;
	fd = connect_to(path);
	if (fd < 0) {
		fprintf(stderr, "no virtual machine at %s: %s\n", path, strerror(errno));
		free(v);
		return NO_MACHINE;
	}
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signals = signalfd(-1, &mask, SFD_CLOEXEC);
	wire_open(&v->wire, fd);
	v->credit = WIRE_WINDOW;
	met = visit_start(v, argv) && visit_run(v, signals);
	status = v->status;
	wire_close(&v->wire);
	free(v);
	if (!met) {
		fprintf(stderr, "the virtual machine at %s has gone\n", path);
		return NO_MACHINE;
	}
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	/* End with the same signal as the command. */
	signal(WTERMSIG(status), SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &mask, NULL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}
