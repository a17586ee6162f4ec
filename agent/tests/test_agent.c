/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the agent when the kernel rejects system calls, and of its parsing of messages and
 * records. tests/contract/test_agent.py tests its requests over a pipe. */
#include "child.h"
#include "command.h"
#include "machine.h"
#include "refuse.h"
#include "tap.h"
#include "undo.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ASK_RUN, ASK_SPAWN = 2, ASK_READ = 4 };

/* ---- messages -------------------------------------------------------------------------- */

static void a_reader_gives_no_more_than_there_is(void)
{
	const uint8_t bytes[] = { 5, 0, 0, 0, 'a', 0, 'b' };
	struct reader r = { .at = bytes, .left = sizeof(bytes) };
	uint32_t length;

	EXPECT(!read_counted(&r, &length)); /* 5 bytes expected, 3 left */
	EXPECT_EQ(length, 0);
	EXPECT(r.bad);
	EXPECT_EQ(read_u32(&r), 0);
	EXPECT_EQ(read_u64(&r), 0);
	EXPECT(!strcmp(read_text(&r), ""));
	r = (struct reader){ .at = bytes + 4, .left = 3 };
	EXPECT(!strcmp(read_text(&r), "a"));
	EXPECT(!r.bad);
	EXPECT(!strcmp(read_text(&r), "")); /* no NUL at the end */
	EXPECT(r.bad);
}

static void texts_are_counted_and_end(void)
{
	const uint8_t bytes[] = "a\0\0bc";
	struct reader r = { .at = bytes, .left = sizeof(bytes) };
	char **texts = read_texts(&r, 2);

	EXPECT(texts && !strcmp(texts[0], "a") && !strcmp(texts[1], "") && !texts[2]);
	free(texts);
	texts = read_texts(&r, UINT32_MAX);
	EXPECT(texts && !strcmp(texts[0], "bc") && !texts[1]);
	free(texts);
	texts = read_texts(&r, UINT32_MAX);
	EXPECT(texts && !texts[0]);
	free(texts);
	EXPECT(!r.bad);
	EXPECT(!read_texts(&r, 1));
	EXPECT(r.bad);
	r = (struct reader){ .at = bytes + 3, .left = 2 };
	EXPECT(!read_texts(&r, UINT32_MAX)); /* no NUL at the end of the last text */
}

/* ---- records --------------------------------------------------------------------------- */

static void undos_are_kept_by_number_and_a_record_is_read_up_to_its_cut(void)
{
	struct undos u = { 0 }, again = { 0 };
	struct writer record = { 0 };
	const uint32_t numbers[] = { 7, 2, 9, 2 };

	for (size_t i = 0; i < 4; i++)
		EXPECT(undos_add(&u, numbers[i], UNDO_REMOVE, (const uint8_t *)&i, sizeof(i)));
	EXPECT_EQ(u.count, 3);
	EXPECT_EQ(u.at[0].number, 2);
	EXPECT_EQ(u.at[0].bytes[0], 3); /* the later one */
	EXPECT_EQ(u.at[2].number, 9);
	EXPECT(undos_add(&u, 7, UNDO_DONE, NULL, 0));
	EXPECT(undos_add(&u, 8, UNDO_DONE, NULL, 0));
	EXPECT_EQ(u.count, 2);
	EXPECT(!undos_add(&u, 1, UNDO_KINDS, NULL, 0));
	for (size_t i = 0; i < u.count; i++)
		undo_note(&record, u.at[i].number, u.at[i].kind, u.at[i].bytes, u.at[i].length);
	for (size_t cut = 0; cut <= record.length; cut++) {
		const size_t each = record.length / 2;

		EXPECT_EQ(undos_load(&again, record.at, cut), !(cut % each));
		EXPECT_EQ(again.count, cut / each);
		undos_free(&again);
	}
	writer_free(&record);
	undos_free(&u);
}

static void only_the_id_of_a_run_is_one(void)
{
	EXPECT(run_valid("sm00af"));
	EXPECT(!run_valid("sm00ag"));
	EXPECT(!run_valid("sm00a"));
	EXPECT(!run_valid("sm00af0"));
	EXPECT(!run_valid("../../"));
	EXPECT(!run_valid(""));
}

/* ---- what the kernel refuses --------------------------------------------------------------- */

struct heard {
	uint8_t bytes[4096];
	size_t length;
};

static void heard_take(void *context, const struct wire_head *head, const uint8_t *payload)
{
	struct heard *h = context;

	if (head->kind == WIRE_ANSWER && head->length <= sizeof(h->bytes)) {
		memcpy(h->bytes, payload, head->length);
		h->length = head->length;
	}
}

/* Starts an agent with a limit of open files; the kernel rejects some calls if `error` is an
 * errno. */
static pid_t agent_start(struct wire *w, rlim_t files, int error)
{
	int ends[2];
	pid_t pid;

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	pid = fork();
	if (!pid) {
		struct rlimit few;

		dup2(ends[1], 3);
		for (int fd = 4; fd < 64; fd++)
			close(fd);
		getrlimit(RLIMIT_NOFILE, &few);
		if (files)
			few.rlim_cur = files;
		if (setrlimit(RLIMIT_NOFILE, &few) ||
		    (error && !refuse((long[]){ SYS_clone, SYS_clone3 }, error)))
			_exit(99);
		_exit(agent_serve(3, 3));
	}
	close(ends[1]);
	wire_open(w, ends[0]);
	return pid;
}

static void agent_ask(struct wire *w, const struct writer *message, struct heard *h)
{
	struct pollfd in = { .fd = w->fd, .events = POLLIN };

	h->length = 0;
	EXPECT(wire_put(w, 0, WIRE_ASK, 0, message->at, message->length));
	while (!h->length && poll(&in, 1, 10000) == 1 && wire_read(w, heard_take, h))
		;
	EXPECT(h->length >= 8);
}

static int agent_end(struct wire *w, pid_t pid)
{
	int status = -1;

	wire_close(w);
	waitpid(pid, &status, 0);
	return status;
}

static void message_run(struct writer *m, const char *program)
{
	const uint32_t fields[] = { 1, ASK_RUN, 1, 10000, UINT32_MAX, 1, 2 };

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		write_u32(m, fields[i]);
	write_bytes(m, "in", 2);
	write_u32(m, 0);
	write_text(m, program);
}

static uint32_t number_at(const struct heard *h, size_t at)
{
	struct reader r = { .at = h->bytes + at, .left = h->length - at };

	return read_u32(&r);
}

static void a_command_without_files_or_process_is_told_with_the_reason(void)
{
	/* The agent's own descriptors are 0 to 4; then stdin, stdout, stderr, and the two ends of
	 * the pipe. */
	enum { FIRST = 5, FILES = 5, FORK = FILES, NONE };
	static struct wire w;

	for (int fault = 0; fault <= NONE; fault++) {
		struct writer m = { 0 };
		struct heard h;
		pid_t pid = agent_start(&w, fault < FILES ? (rlim_t)(FIRST + fault) : 0,
					fault == FORK ? EAGAIN : 0);

		message_run(&m, "true");
		for (int twice = 0; twice < 2; twice++) {
			agent_ask(&w, &m, &h);
			EXPECT_EQ(number_at(&h, 0), 1);
			EXPECT_EQ(number_at(&h, 4),
				  fault == NONE ? COMMAND_RAN : COMMAND_NOT_STARTED);
			EXPECT_EQ(number_at(&h, 8), fault == NONE ? 0 :
						    fault == FORK ? EAGAIN :
								    EMFILE);
			/* The rest of a failed batch is skipped. */
			m.at[8]++;
		}
		writer_free(&m);
		EXPECT_EQ(agent_end(&w, pid), 0);
	}
}

static void a_process_without_pipes_or_program_is_told_with_the_reason(void)
{
	enum { FIRST = 5, FILES = 8, FORK = FILES, NO_PROGRAM, NONE };
	static struct wire w;

	for (int fault = 0; fault <= NONE; fault++) {
		struct writer m = { 0 };
		struct heard h;
		pid_t pid = agent_start(&w, fault < FILES ? (rlim_t)(FIRST + fault) : 0,
					fault == FORK ? EAGAIN : 0);

		for (int i = 0; i < 4; i++)
			write_u32(&m, (uint32_t[]){ 1, ASK_SPAWN, 255, 0 }[i]);
		write_text(&m, fault == NO_PROGRAM ? "/no/such/program" : "true");
		agent_ask(&w, &m, &h);
		EXPECT_EQ(number_at(&h, 4), fault == NONE	? 0 :
					    fault == NO_PROGRAM ? ENOENT :
					    fault == FORK	? EAGAIN :
								  EMFILE);
		writer_free(&m);
		EXPECT_EQ(agent_end(&w, pid), 0);
	}
}

static void a_client_that_reads_no_more_ends_the_agent_and_its_processes(void)
{
	static struct wire w;
	struct writer m = { 0 };
	struct heard h;
	pid_t pid = agent_start(&w, 0, 0), child;

	for (int i = 0; i < 4; i++)
		write_u32(&m, (uint32_t[]){ 1, ASK_SPAWN, 3, 0 }[i]);
	write_text(&m, "yes");
	agent_ask(&w, &m, &h);
	EXPECT_EQ(number_at(&h, 4), 0);
	child = (pid_t)number_at(&h, 8);
	EXPECT(child > 1 && !kill(child, 0));
	shutdown(w.fd, SHUT_RDWR);
	EXPECT_EQ(agent_end(&w, pid), 0);
	EXPECT(kill(child, 0));
	writer_free(&m);
}

static void what_is_read_is_refused_with_its_number(void)
{
	static struct wire w;
	struct writer m = { 0 };
	struct heard h;
	pid_t pid = agent_start(&w, 5, 0);

	write_u32(&m, 1);
	write_u32(&m, ASK_READ);
	write_text(&m, "/proc/self/stat");
	agent_ask(&w, &m, &h);
	EXPECT_EQ(number_at(&h, 4), EMFILE);
	writer_free(&m);
	EXPECT_EQ(agent_end(&w, pid), 0);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	TEST(a_reader_gives_no_more_than_there_is);
	TEST(texts_are_counted_and_end);
	TEST(undos_are_kept_by_number_and_a_record_is_read_up_to_its_cut);
	TEST(only_the_id_of_a_run_is_one);
	TEST(a_command_without_files_or_process_is_told_with_the_reason);
	TEST(a_process_without_pipes_or_program_is_told_with_the_reason);
	TEST(a_client_that_reads_no_more_ends_the_agent_and_its_processes);
	TEST(what_is_read_is_refused_with_its_number);
	return tap_end();
}
