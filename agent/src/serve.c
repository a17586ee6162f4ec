/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include "child.h"
#include "command.h"
#include "ending.h"
#include "files.h"
#include "hold.h"
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

#define BACKLOG_MAX (1 << 20) /* bytes queued for the client, above which no process is read */
#define CLEANINGS_MAX 16
#define HELLO_MS 5000

/* A process with its streams; `pid` 0: the channel is free. */
struct process {
	pid_t pid;
	/* signals go to the process only; its process group is killed when it has ended */
	bool alone;
	bool exited; /* the streams may still contain data */
	int status;
	int fds[3]; /* our ends of its stdin, stdout, stderr; -1 if closed */
	uint32_t credit[3]; /* bytes of stdout and stderr that may be sent */
	uint8_t *fed; /* input that stdin has not yet taken */
	size_t waiting;
	bool fed_all; /* the input is complete */
};

struct agent {
	struct wire wire;
	int signals;
	bool ends; /* SIGTERM arrived, or the connection is unusable */
	struct process processes[WIRE_CHANNELS];
	struct writer asked; /* the parts of an incomplete message */
	struct commands commands;
	struct endings endings;
	struct holds holds;
	int64_t hello_at; /* time of the next hello */
	struct {
		pid_t pid; /* of the process that cleans up after a run; 0: free entry */
		uint32_t id;
	} cleanings[CLEANINGS_MAX];
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

/* Opens pipes for the three streams: `ours` and the child's `ends`. */
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

/* Reports why no process started, in the way that a failing command would. */
static void agent_refuse(struct agent *g, uint16_t channel, const char *why)
{
	char text[256];
	const int length = snprintf(text, sizeof(text), "no process starts: %s\n", why);

	wire_put(&g->wire, channel, WIRE_DATA, STDERR_FILENO, text, (size_t)length);
	wire_put_number(&g->wire, channel, WIRE_EXIT, 0, 126 << 8);
}

/* Returns 0, or an errno if no process was started. If `env` is NULL, a missing program is reported
 * on the process's stderr. */
static int process_start(struct process *p, char *const env[], char *const words[])
{
	int ends[3], error = 0;

	p->fed = malloc(WIRE_WINDOW);
	if (!p->fed)
		return ENOMEM;
	if (!pipes_open(p->fds, ends))
		return errno;
	p->credit[STDOUT_FILENO] = p->credit[STDERR_FILENO] = WIRE_WINDOW;
	p->pid = env ? child_start(ends, env, words) : child_start_telling(ends, words);
	if (p->pid < 0)
		error = errno;
	for (int i = 0; i < 3; i++)
		close(ends[i]);
	return error;
}

static void agent_start(struct agent *g, uint16_t channel, const uint8_t *payload, size_t length)
{
	struct process *p = &g->processes[channel];
	struct reader r = { .at = payload, .left = length };
	char **words;
	int error;

	if (p->pid)
		return; /* the channel is in use: an error of the other end */
	words = read_texts(&r, UINT32_MAX);
	error = !words ? ENOMEM : !words[0] ? EINVAL : process_start(p, NULL, words);
	if (error) {
		process_free(p);
		agent_refuse(g, channel, strerror(error));
	}
	free(words);
}

static void process_signal(const struct process *p, int number)
{
	if (p->pid < 2 || p->exited || number <= 0 || number >= NSIG)
		return;
	/* Before setsid() the process has no process group. */
	if (p->alone || kill(-p->pid, number))
		kill(p->pid, number);
}

/* Writes the waiting input to stdin. */
static void process_feed(struct agent *g, uint16_t channel)
{
	struct process *p = &g->processes[channel];
	ssize_t put = 0;

	if (p->fds[0] >= 0 && p->waiting)
		put = write(p->fds[0], p->fed, p->waiting);
	if (put < 0 && errno != EAGAIN && errno != EINTR) {
		p->waiting = 0; /* the process has closed its stdin */
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

/* Forwards the output of the process. After the process has ended, only available output is read: a
 * daemon that it started may keep the stream open. */
static void process_hear(struct agent *g, uint16_t channel, int stream)
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

static void agent_finish(struct agent *g, uint16_t channel)
{
	struct process *p = &g->processes[channel];

	if (!p->pid || !p->exited || p->fds[1] >= 0 || p->fds[2] >= 0)
		return;
	wire_put_number(&g->wire, channel, WIRE_EXIT, 0, (uint32_t)p->status);
	process_free(p);
}

/* ---- requests ------------------------------------------------------------------------ */

/* The kind of a request, after its id; `hold.h` and the other headers describe the rest. */
enum ask {
	ASK_RUN, /* commands_ask() */
	ASK_CANCEL, /* batch */
	/* channel, count of variables, variables, words; answers with errno, pid, start time */
	ASK_SPAWN,
	ASK_END, /* endings_ask() */
	ASK_READ,
	ASK_WRITE,
	ASK_EXISTS,
	ASK_REMOVE,
	ASK_READ_ALL,
	ASK_INODES,
	ASK_HOLD,
	ASK_NOTE,
	ASK_JOURNAL,
	ASK_LET_GO,
	ASK_RUNS,
	ASK_CLEAN,
};

static void answer_send(void *context, struct writer *w)
{
	struct agent *g = context;
	size_t at = 0;

	if (w->failed || w->length > MESSAGE_MAX) {
		uint32_t answer[2] = { 0, ENOMEM };

		if (w->at && w->length >= sizeof(*answer))
			memcpy(answer, w->at, sizeof(*answer));
		wire_put(&g->wire, 0, WIRE_ANSWER, 0, answer, sizeof(answer));
		return;
	}
	do {
		const size_t left = w->length - at;
		const size_t part = left < WIRE_PAYLOAD_MAX ? left : WIRE_PAYLOAD_MAX;

		if (!wire_put(&g->wire, 0, WIRE_ANSWER, left > part, w->at + at, part)) {
			/* the client would take the next message for the rest of this one */
			g->ends = true;
			return;
		}
		at += part;
	} while (at < w->length);
}

static void answer_error(struct agent *g, uint32_t id, int error)
{
	struct writer w = { 0 };

	if (!id)
		return;
	write_u32(&w, id);
	write_u32(&w, (uint32_t)error);
	answer_send(g, &w);
	writer_free(&w);
}

static void ask_spawn(struct agent *g, struct reader *r, struct writer *answer)
{
	const uint32_t channel = read_u32(r);
	char **env = read_texts(r, read_u32(r)), **words = read_texts(r, UINT32_MAX);
	struct process *p = channel < WIRE_CHANNELS ? &g->processes[channel] : NULL;
	int error = EINVAL;

	if (p && !p->pid && env && words && words[0]) {
		error = process_start(p, env, words);
		if (error)
			process_free(p);
		else
			p->alone = true;
	}
	write_u32(answer, (uint32_t)error);
	if (!error) {
		write_u32(answer, (uint32_t)p->pid);
		write_u64(answer, process_start_time(p->pid));
	}
	free(env);
	free(words);
}

/* Cleans up in a separate process, because that takes seconds. */
static int ask_clean(struct agent *g, uint32_t id, struct reader *r)
{
	int place = 0;
	pid_t pid;

	while (place < CLEANINGS_MAX && g->cleanings[place].pid)
		place++;
	if (place == CLEANINGS_MAX)
		return EAGAIN;
	pid = fork();
	if (!pid) {
		setsid();
		_exit(run_clean(r));
	}
	if (pid < 0)
		return errno;
	g->cleanings[place].pid = pid;
	g->cleanings[place].id = id;
	return 0;
}

/* Handles the requests that are answered at once. */
static void ask_now(struct agent *g, enum ask verb, struct reader *r, struct writer *answer)
{
	switch (verb) {
	case ASK_CANCEL:
		commands_cancel(&g->commands, read_u32(r));
		write_u32(answer, 0);
		return;
	case ASK_SPAWN:
		ask_spawn(g, r, answer);
		return;
	case ASK_READ:
		file_read(r, answer);
		return;
	case ASK_WRITE:
		file_write(r, answer);
		return;
	case ASK_EXISTS:
		file_exists(r, answer);
		return;
	case ASK_REMOVE:
		file_remove(r, answer);
		return;
	case ASK_READ_ALL:
		files_read(r, answer);
		return;
	case ASK_INODES:
		files_inodes(r, answer);
		return;
	case ASK_HOLD:
		hold_begin(&g->holds, r, answer);
		return;
	case ASK_NOTE:
		write_u32(answer, (uint32_t)hold_note(&g->holds, r));
		return;
	case ASK_JOURNAL:
		write_u32(answer, (uint32_t)hold_journal(&g->holds, r));
		return;
	case ASK_LET_GO:
		write_u32(answer, (uint32_t)hold_end(&g->holds, r));
		return;
	case ASK_RUNS:
		runs_list(answer);
		return;
	default:
		write_u32(answer, ENOSYS);
		return;
	}
}

static void agent_ask(struct agent *g, struct reader *r)
{
	const uint32_t id = read_u32(r), verb = read_u32(r);
	struct writer answer = { 0 };
	int error = 0;

	if (verb == ASK_RUN) {
		if (!commands_ask(&g->commands, id, r))
			answer_error(g, id, EINVAL);
	} else if (verb == ASK_END) {
		endings_ask(&g->endings, id, r, answer_send, g);
	} else if (verb == ASK_CLEAN) {
		error = ask_clean(g, id, r);
		if (error)
			answer_error(g, id, error);
	} else {
		write_u32(&answer, id);
		ask_now(g, verb, r, &answer);
		if (id)
			answer_send(g, &answer);
	}
	writer_free(&answer);
}

/* Takes a part of a message. Returns false if the message is too long. */
static bool agent_hear(struct agent *g, const struct wire_head *head, const uint8_t *payload)
{
	struct reader r;

	if (!head->stream && !g->asked.length) {
		r = (struct reader){ .at = payload, .left = head->length };
		agent_ask(g, &r);
		return true;
	}
	write_bytes(&g->asked, payload, head->length);
	if (g->asked.failed || g->asked.length > MESSAGE_MAX)
		return false;
	if (!head->stream) {
		r = (struct reader){ .at = g->asked.at, .left = g->asked.length };
		agent_ask(g, &r);
		writer_free(&g->asked);
	}
	return true;
}

static void agent_reap(struct agent *g)
{
	siginfo_t info = { 0 };
	int status;

	while (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid) {
		struct process *p = NULL;

		for (int i = 0; i < WIRE_CHANNELS; i++)
			if (g->processes[i].pid == info.si_pid)
				p = &g->processes[i];
		/* The process group's number is reserved only until its leader is reaped. */
		if (p && p->alone)
			kill(-info.si_pid, SIGKILL);
		if (waitpid(info.si_pid, &status, 0) < 0)
			return;
		if (p) {
			p->exited = true;
			p->status = status;
		}
		commands_ended(&g->commands, info.si_pid, status);
		for (int i = 0; i < CLEANINGS_MAX; i++)
			if (g->cleanings[i].pid == info.si_pid) {
				g->cleanings[i].pid = 0;
				answer_error(g, g->cleanings[i].id,
					     WIFEXITED(status) ? WEXITSTATUS(status) : EIO);
			}
		info.si_pid = 0;
	}
}

/* ---- frames ----------------------------------------------------------------------- */

static void agent_take(void *context, const struct wire_head *head, const uint8_t *payload)
{
	struct agent *g = context;
	struct process *p = &g->processes[head->channel];

	if (head->kind == WIRE_START) {
		agent_start(g, head->channel, payload, head->length);
		return;
	}
	if (head->kind == WIRE_ASK) {
		if (!agent_hear(g, head, payload))
			g->ends = true;
		return;
	}
	if (!p->pid)
		return; /* the process has just ended */
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
		/* The client no longer reads this stream. */
		process_close(p, head->stream);
		agent_finish(g, head->channel);
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

/* Returns the shorter of two timeouts, where -1 is infinite. */
static int sooner(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

static void agent_heed_signals(struct agent *g)
{
	struct signalfd_siginfo info;

	while (read(g->signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGTERM)
			g->ends = true;
	agent_reap(g);
}

/* While a run is held, writes to the client from time to time. A client that was rebooted rejects
 * the data, which ends the connection; this host would not notice otherwise. Returns the ms until
 * the next call, or -1. */
static int agent_hail(struct agent *g)
{
	const int64_t left = g->hello_at - now_ms();

	if (!g->holds.first)
		return -1;
	if (left > 0)
		return (int)left;
	if (!g->wire.waiting)
		wire_put_number(&g->wire, 0, WIRE_HELLO, 0, WIRE_VERSION);
	g->hello_at = now_ms() + HELLO_MS;
	return HELLO_MS;
}

/* Runs one iteration of the event loop; returns false if the client has gone or a signal has
 * arrived. */
static bool agent_turn(struct agent *g)
{
	enum { WIRE, SIGNALS, OUT, FIRST };
	struct pollfd polls[FIRST + ENDINGS_MAX + 3 * WIRE_CHANNELS];
	int places[WIRE_CHANNELS], count = FIRST;
	const bool listen_to = g->wire.waiting < BACKLOG_MAX;
	/* While the client is slow, no further command starts: its output would have to be
	 * stored. */
	int wait_ms = listen_to ? commands_turn(&g->commands, answer_send, g) : -1;

	wait_ms = sooner(wait_ms, endings_turn(&g->endings, answer_send, g));
	wait_ms = sooner(wait_ms, agent_hail(g));
	polls[WIRE] = (struct pollfd){ .fd = g->wire.fd, .events = POLLIN };
	polls[SIGNALS] = (struct pollfd){ .fd = g->signals, .events = POLLIN };
	polls[OUT] =
		(struct pollfd){ .fd = g->wire.waiting ? g->wire.out_fd : -1, .events = POLLOUT };
	count += endings_poll(&g->endings, polls + count);
	/* Only active processes: the kernel limits poll to the number of files of a process. */
	for (int i = 0; i < WIRE_CHANNELS; i++) {
		const struct process *p = &g->processes[i];
		struct pollfd *of = &polls[count];

		places[i] = p->pid ? count : -1;
		if (!p->pid)
			continue;
		of[0] = (struct pollfd){ .fd = p->waiting ? p->fds[0] : -1, .events = POLLOUT };
		for (int s = 1; s < 3; s++)
			of[s] = (struct pollfd){ .fd = p->credit[s] && listen_to ? p->fds[s] : -1,
						 .events = POLLIN };
		count += 3;
	}
	if (poll(polls, (nfds_t)count, wait_ms) < 0)
		return errno == EINTR;
	if (polls[SIGNALS].revents)
		agent_heed_signals(g);
	for (uint16_t i = 0; i < WIRE_CHANNELS; i++) {
		const struct pollfd *of = &polls[places[i] < 0 ? 0 : places[i]];
		struct process *p = &g->processes[i];

		if (places[i] < 0)
			continue;
		if (of[0].revents)
			process_feed(g, i);
		for (int s = 1; s < 3; s++)
			if (p->fds[s] >= 0 && p->credit[s] && (of[s].revents || p->exited))
				process_hear(g, i, s);
		agent_finish(g, i);
	}
	if (polls[OUT].revents && !wire_flush(&g->wire))
		return false;
	return (!polls[WIRE].revents || wire_read(&g->wire, agent_take, g)) && !g->ends;
}

static void agent_close(struct agent *g)
{
	commands_close(&g->commands);
	endings_close(&g->endings);
	/* Ends the processes of runs as their undos specify. */
	holds_close(&g->holds);
	for (int i = 0; i < WIRE_CHANNELS; i++) {
		struct process *p = &g->processes[i];

		if (p->pid && !g->holds.kept) {
			if (p->alone && !p->exited)
				kill(-p->pid, SIGKILL);
			process_signal(p, SIGKILL);
			if (!p->exited)
				waitpid(p->pid, NULL, 0);
		}
		process_free(p);
	}
	wire_close(&g->wire);
	close(g->signals);
	writer_free(&g->asked);
}

int agent_serve(int in, int out)
{
	struct agent *g = calloc(1, sizeof(*g));
	sigset_t mask, before;

	if (!g)
		return 70;
	for (int i = 0; i < WIRE_CHANNELS; i++)
		g->processes[i].fds[0] = g->processes[i].fds[1] = g->processes[i].fds[2] = -1;
	commands_open(&g->commands);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigaddset(&mask, SIGTERM);
	sigprocmask(SIG_BLOCK, &mask, &before);
	g->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	wire_open_pair(&g->wire, in, out);
	wire_put_number(&g->wire, 0, WIRE_HELLO, 0, WIRE_VERSION);
	while (agent_turn(g))
		;
	agent_close(g);
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(g);
	return 0;
}
