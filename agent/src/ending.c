/* SPDX-License-Identifier: Apache-2.0 */
#include "ending.h"

#include "child.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#define KILL_WAIT_MS 5000

static void tell(uint32_t id, int error, bool ended, ending_answer *answer, void *context)
{
	struct writer w = { 0 };

	write_u32(&w, id);
	write_u32(&w, (uint32_t)error);
	write_u32(&w, ended);
	answer(context, &w);
	writer_free(&w);
}

void endings_ask(struct endings *e, uint32_t id, struct reader *asked, ending_answer *answer,
		 void *context)
{
	const pid_t pid = (pid_t)read_u32(asked);
	const uint64_t start = read_u64(asked);
	const int number = (int)read_u32(asked);
	const uint32_t grace_ms = read_u32(asked);
	int place = 0, pidfd;

	while (place < ENDINGS_MAX && e->at[place].id)
		place++;
	if (asked->bad || !id || number < 0 || number >= NSIG || place == ENDINGS_MAX) {
		tell(id, place == ENDINGS_MAX ? EAGAIN : EINVAL, false, answer, context);
		return;
	}
	pidfd = process_open(pid, start);
	if (pidfd < 0) {
		tell(id, 0, true, answer, context);
		return;
	}
	process_fd_signal(pidfd, number);
	e->at[place].id = id;
	e->at[place].pidfd = pidfd;
	e->at[place].killed = false;
	e->at[place].deadline = now_ms() + grace_ms;
}

int endings_poll(const struct endings *e, struct pollfd *polls)
{
	int count = 0;

	for (int i = 0; i < ENDINGS_MAX; i++)
		if (e->at[i].id)
			polls[count++] = (struct pollfd){ .fd = e->at[i].pidfd, .events = POLLIN };
	return count;
}

int endings_turn(struct endings *e, ending_answer *answer, void *context)
{
	int64_t next = -1;

	for (int i = 0; i < ENDINGS_MAX; i++) {
		const uint32_t id = e->at[i].id;
		const int64_t left = e->at[i].deadline - now_ms();
		bool ended;

		if (!id)
			continue;
		ended = process_wait(e->at[i].pidfd, 0);
		if (ended || (e->at[i].killed && left <= 0)) {
			e->at[i].id = 0;
			close(e->at[i].pidfd);
			tell(id, 0, ended, answer, context);
			continue;
		}
		if (left <= 0) {
			process_fd_signal(e->at[i].pidfd, SIGKILL);
			e->at[i].killed = true;
			e->at[i].deadline = now_ms() + KILL_WAIT_MS;
			next = 0;
		} else if (next < 0 || left < next) {
			next = left;
		}
	}
	return next < INT_MAX ? (int)next : INT_MAX;
}

void endings_close(struct endings *e)
{
	for (int i = 0; i < ENDINGS_MAX; i++)
		if (e->at[i].id)
			close(e->at[i].pidfd);
}
