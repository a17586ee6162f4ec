/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include "socket_clear.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRACE_MS 2000
#define BACKLOG_MAX (1 << 20) /* bytes queued for the guest, above which clients are not read */
/* Bytes queued for a client, above which it is disconnected: the windows of both of its streams,
 * and the grants for a window of its stdin, in frames of one byte each. */
#define CLIENT_MAX ((2 * (1 + sizeof(struct wire_head)) + 12) * WIRE_WINDOW)

/* A client that runs a command in the guest. The channel is free again when its process in the
 * guest has ended. */
struct client {
	struct wire wire; /* fd -1: no client */
	bool started; /* a process in the guest is running */
};

struct machine {
	pid_t pid;
	struct wire wire;
	bool up; /* the guest has sent its hello */
	const char *path; /* of the socket */
	struct stat socket;
	int listener, signals;
	struct client clients[WIRE_CHANNELS];
};

/* The context of take_from_client. */
struct from_client {
	struct machine *m;
	uint16_t channel;
};

static void client_leave(struct machine *m, uint16_t channel)
{
	struct client *c = &m->clients[channel];

	wire_close(&c->wire);
	if (!c->started)
		return;
	wire_put_number(&m->wire, channel, WIRE_SIGNAL, 0, SIGKILL);
	/* No client will grant the rest of the output. */
	wire_put(&m->wire, channel, WIRE_END, STDOUT_FILENO, NULL, 0);
	wire_put(&m->wire, channel, WIRE_END, STDERR_FILENO, NULL, 0);
}

static void take_from_client(void *context, const struct wire_head *head, const uint8_t *payload)
{
	struct from_client *from = context;
	struct client *c = &from->m->clients[from->channel];

	if (head->kind == WIRE_HELLO || head->kind >= WIRE_EXIT ||
	    (head->kind == WIRE_START) == c->started)
		return; /* not valid from a client, or out of sequence */
	c->started = true;
	wire_put(&from->m->wire, from->channel, head->kind, head->stream, payload, head->length);
}

static void take_from_guest(void *context, const struct wire_head *head, const uint8_t *payload)
{
	struct machine *m = context;
	struct client *c = &m->clients[head->channel];

	if (head->kind == WIRE_HELLO) {
		m->up = true;
		return;
	}
	if (head->kind == WIRE_EXIT)
		c->started = false;
	if (c->wire.fd < 0)
		return;
	/* More bytes are queued than the client can have granted: an error of the guest. */
	if (!wire_put(&c->wire, 0, head->kind, head->stream, payload, head->length) ||
	    c->wire.waiting > CLIENT_MAX)
		client_leave(m, head->channel);
}

static void machine_accept(struct machine *m)
{
	int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);

	for (uint16_t i = 0; fd >= 0 && i < WIRE_CHANNELS; i++) {
		struct client *c = &m->clients[i];

		if (c->wire.fd < 0 && !c->started) {
			wire_open(&c->wire, fd);
			return;
		}
	}
	if (fd >= 0)
		close(fd);
}

/* Returns 0 or an errno. */
static int machine_listen(struct machine *m)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int error;
	mode_t old;

	if (strlen(m->path) >= sizeof(at.sun_path))
		return ENAMETOOLONG;
	memcpy(at.sun_path, m->path, strlen(m->path) + 1);
	error = socket_clear(m->path); /* left by a machine that was killed */
	if (error)
		return error;
	m->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (m->listener < 0)
		return errno;
	old = umask(077);
	if (bind(m->listener, (struct sockaddr *)&at, sizeof(at)) || lstat(m->path, &m->socket) ||
	    listen(m->listener, WIRE_CHANNELS))
		error = errno;
	umask(old);
	return error;
}

/* Removes the socket of this machine, unless another file has replaced it. */
static void path_leave(const struct machine *m)
{
	struct stat found;

	if (S_ISSOCK(m->socket.st_mode) && !lstat(m->path, &found) &&
	    found.st_dev == m->socket.st_dev && found.st_ino == m->socket.st_ino)
		unlink(m->path);
}

/* Starts the machine with its end of the port as BOOT_FD and its console on this stderr; it is
 * killed when this process dies. Returns -1 with errno on failure. */
static pid_t machine_start(char *const argv[], int port, const sigset_t *mask)
{
	pid_t parent = getpid(), pid = fork();
	int nothing;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	sigprocmask(SIG_UNBLOCK, mask, NULL);
	signal(SIGPIPE, SIG_DFL);
	nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	dup2(nothing, STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	if (port == BOOT_FD)
		fcntl(port, F_SETFD, 0);
	else
		dup2(port, BOOT_FD);
	execvp(argv[0], argv);
	fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* Runs one iteration of the event loop; returns false if the machine must end. */
static bool machine_turn(struct machine *m)
{
	enum { GUEST, SIGNALS, STDIN, LISTENER, FIRST };
	struct pollfd polls[FIRST + WIRE_CHANNELS];
	bool listen_to = m->up && m->wire.waiting < BACKLOG_MAX;

	polls[GUEST] =
		(struct pollfd){ .fd = m->wire.fd,
				 .events = (short)(POLLIN | (m->wire.waiting ? POLLOUT : 0)) };
	polls[SIGNALS] = (struct pollfd){ .fd = m->signals, .events = POLLIN };
	/* poll always reports the end of a pipe, but a socket's half-close only with POLLRDHUP. */
	polls[STDIN] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLRDHUP };
	polls[LISTENER] = (struct pollfd){ .fd = m->listener, .events = POLLIN };
	for (int i = 0; i < WIRE_CHANNELS; i++) {
		const struct wire *w = &m->clients[i].wire;

		polls[FIRST + i] = (struct pollfd){ .fd = w->fd,
						    .events = (short)((listen_to ? POLLIN : 0) |
								      (w->waiting ? POLLOUT : 0)) };
	}
	if (poll(polls, FIRST + WIRE_CHANNELS, -1) < 0)
		return errno == EINTR;
	if (polls[SIGNALS].revents || polls[STDIN].revents)
		return false;
	if (polls[GUEST].revents & POLLOUT && !wire_flush(&m->wire))
		return false;
	if (polls[GUEST].revents & ~POLLOUT && !wire_read(&m->wire, take_from_guest, m))
		return false;
	for (uint16_t i = 0; i < WIRE_CHANNELS; i++) {
		struct from_client from = { m, i };
		struct wire *w = &m->clients[i].wire;
		short found = polls[FIRST + i].revents;

		if (w->fd < 0 || w->fd != polls[FIRST + i].fd)
			continue;
		/* poll reports a hang-up even without requested events. */
		if (((found & POLLOUT) && !wire_flush(w)) ||
		    ((found & ~POLLOUT) && !wire_read(w, take_from_client, &from)))
			client_leave(m, i);
	}
	if (polls[LISTENER].revents)
		machine_accept(m);
	return true;
}

/* Returns the exit status of the machine, whose process is running or not yet reaped; the process
 * has GRACE_MS to end. */
static int machine_end(struct machine *m, bool asked)
{
	struct pollfd ended = { .fd = m->signals, .events = POLLIN };
	struct signalfd_siginfo info;
	int status = 0;

	if (asked)
		kill(m->pid, SIGTERM);
	for (int waited = 0; waitpid(m->pid, &status, WNOHANG) == 0; waited += 10) {
		if (waited == GRACE_MS)
			kill(m->pid, SIGKILL);
		if (poll(&ended, 1, 10) > 0)
			while (read(m->signals, &info, sizeof(info)) > 0)
				;
	}
	if (WIFSIGNALED(status))
		return asked ? 0 : 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}

/* Starts the machine and serves it until it ends or must end. */
static int machine_run(struct machine *m, char *const argv[], const sigset_t *mask)
{
	siginfo_t info = { 0 };
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		fprintf(stderr, "cannot start the machine: socketpair: %s\n", strerror(errno));
		return 70;
	}
	m->pid = machine_start(argv, pair[1], mask);
	if (m->pid < 0)
		fprintf(stderr, "cannot start the machine: fork: %s\n", strerror(errno));
	close(pair[1]);
	wire_open(&m->wire, pair[0]);
	/* Without a process there is nothing to wait for, and kill(-1) would signal every
	 * process. */
	if (m->pid < 0)
		return 70;
	while (machine_turn(m))
		;
	/* Check whether QEMU exited by itself or we were asked to stop it. */
	waitid(P_PID, (id_t)m->pid, &info, WEXITED | WNOHANG | WNOWAIT);
	return machine_end(m, info.si_pid == 0);
}

int boot(const char *path, char *const argv[])
{
	struct machine *m = calloc(1, sizeof(*m));
	int status = 70, error;
	sigset_t mask;

	if (!m) {
		fprintf(stderr, "cannot start the machine: no memory\n");
		return 70;
	}
	m->path = path;
	m->listener = m->wire.fd = -1;
	for (int i = 0; i < WIRE_CHANNELS; i++)
		m->clients[i].wire.fd = -1;
	signal(SIGPIPE, SIG_IGN);
	/* with SIG_IGN the exit status of the machine's process would be lost */
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	m->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	error = m->signals < 0 ? errno : machine_listen(m);
	if (error)
		fprintf(stderr, "cannot listen at %s: %s\n", path, strerror(error));
	else
		status = machine_run(m, argv, &mask);
	path_leave(m);
	for (uint16_t i = 0; i < WIRE_CHANNELS; i++)
		if (m->clients[i].wire.fd >= 0)
			wire_close(&m->clients[i].wire);
	if (m->wire.fd >= 0)
		wire_close(&m->wire);
	if (m->listener >= 0)
		close(m->listener);
	if (m->signals >= 0)
		close(m->signals);
	free(m);
	return status;
}
