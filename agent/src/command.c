/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void commands_open(struct commands *c)
{
	c->first = NULL;
	c->last = &c->first;
	c->failed = 0;
}

static void command_free(struct command *command)
{
	if (command->out >= 0)
		close(command->out);
	if (command->err >= 0)
		close(command->err);
	free(command->env);
	free(command->words);
	free(command->bytes);
	free(command);
}

static bool command_parse(struct command *command, struct reader *r)
{
	command->batch = read_u32(r);
	command->timeout_ms = read_u32(r);
	command->fine_count = read_u32(r);
	if (command->fine_count != UINT32_MAX)
		command->fine = read_bytes(r, (size_t)command->fine_count * sizeof(int32_t));
	command->fed = read_u32(r);
	command->input = read_counted(r, &command->input_length);
	command->env = read_texts(r, read_u32(r));
	command->words = read_texts(r, UINT32_MAX);
	return !r->bad && command->env && command->words && command->words[0];
}

bool commands_ask(struct commands *c, uint32_t id, const struct reader *asked)
{
	struct command *command = calloc(1, sizeof(*command));
	struct reader r = { .left = asked->left };

	if (!command)
		return false;
	command->out = command->err = -1;
	command->id = id;
	r.at = command->bytes = malloc(asked->left + 1);
	if (r.at && asked->left)
		memcpy(command->bytes, asked->at, asked->left);
	if (!r.at || !command_parse(command, &r)) {
		command_free(command);
		return false;
	}
	*c->last = command;
	c->last = &command->next;
	return true;
}

/* Returns 0 or an errno. */
static int command_start(struct command *command)
{
	int in, error = 0;

	in = command->fed ? memory_file("stdin", command->input, command->input_length) :
			    open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (in >= 0)
		command->out = memory_file("stdout", NULL, 0);
	if (command->out >= 0)
		command->err = memory_file("stderr", NULL, 0);
	if (command->err >= 0) {
		const int fds[3] = { in, command->out, command->err };

		command->pid = child_start(fds, command->env, command->words);
	}
	if (command->pid <= 0) {
		error = errno ? errno : EIO;
		command->pid = 0;
	}
	if (in >= 0)
		close(in);
	command->deadline = now_ms() + command->timeout_ms;
	return error;
}

static bool command_fine(const struct command *command, int32_t status)
{
	for (uint32_t i = 0; i < command->fine_count && command->fine_count != UINT32_MAX; i++) {
		int32_t fine;

		memcpy(&fine, command->fine + i * sizeof(fine), sizeof(fine));
		if (fine == status)
			return true;
	}
	return command->fine_count == UINT32_MAX;
}

static void command_tell_ended(const struct command *command, struct writer *w)
{
	const int status = command->status;
	const size_t start = w->length;
	const int32_t result = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);

	write_u32(w, command->overdue ? COMMAND_OVERDUE : COMMAND_RAN);
	write_u32(w, (uint32_t)result);
	lseek(command->out, 0, SEEK_SET);
	lseek(command->err, 0, SEEK_SET);
	if (!write_file(w, command->out) && !write_file(w, command->err) &&
	    w->length <= MESSAGE_MAX)
		return;
	w->length = start;
	write_u32(w, COMMAND_TOO_LONG);
	write_u32(w, 0);
}

/* Answers the result of the first command, and removes it. */
static void commands_tell(struct commands *c, enum command_end end, int error,
			  command_answer *answer, void *context)
{
	struct command *command = c->first;
	const int status = command->status;
	struct writer w = { 0 };

	write_u32(&w, command->id);
	if (end == COMMAND_RAN) {
		command_tell_ended(command, &w);
	} else {
		write_u32(&w, end);
		write_u32(&w, (uint32_t)error);
	}
	if (end == COMMAND_NOT_STARTED || command->overdue ||
	    (end == COMMAND_RAN &&
	     !command_fine(command, WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status))))
		c->failed = command->batch;
	c->first = command->next;
	if (!c->first)
		c->last = &c->first;
	command_free(command);
	answer(context, &w);
	writer_free(&w);
}

void commands_cancel(struct commands *c, uint32_t batch)
{
	c->failed = batch;
	if (c->first && c->first->pid && c->first->batch == batch && !c->first->exited)
		kill(-c->first->pid, SIGKILL);
}

void commands_ended(struct commands *c, pid_t pid, int status)
{
	if (c->first && c->first->pid == pid) {
		c->first->exited = true;
		c->first->status = status;
	}
}

int commands_turn(struct commands *c, command_answer *answer, void *context)
{
	while (c->first) {
		struct command *command = c->first;
		int64_t left;
		int error;

		if (command->exited) {
			commands_tell(c, COMMAND_RAN, 0, answer, context);
			continue;
		}
		if (!command->pid && command->batch == c->failed) {
			commands_tell(c, COMMAND_SKIPPED, 0, answer, context);
			continue;
		}
		if (!command->pid) {
			error = command_start(command);
			if (error) {
				commands_tell(c, COMMAND_NOT_STARTED, error, answer, context);
				continue;
			}
		}
		left = command->deadline - now_ms();
		if (left > 0)
			return left < INT_MAX ? (int)left : INT_MAX;
		/* The whole process group of the command. */
		command->overdue = true;
		kill(-command->pid, SIGKILL);
		return -1; /* the answer follows when the process is reaped */
	}
	return -1;
}

void commands_close(struct commands *c)
{
	while (c->first) {
		struct command *command = c->first;

		if (command->pid && !command->exited) {
			kill(-command->pid, SIGKILL);
			waitpid(command->pid, NULL, 0);
		}
		c->first = command->next;
		command_free(command);
	}
	c->last = &c->first;
}
