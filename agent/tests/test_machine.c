/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of init, boot and enter without a virtual machine: `boot` starts the guest's side
 * directly. */
#include "machine.h"
#include "refuse.h"
#include "tap.h"
#include "wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/switchmark-machine-XXXXXX";
static char socket_path[64];
static const char *self;
static int machine_in = -1;

/* A command in the machine, with pipes. */
struct visitor {
	pid_t pid;
	int in, out, err;
};

/* Returns true if a program accepts connections at the socket. Between bind() and listen() the
 * socket exists, and refuses them. */
static bool listens(void)
{
	FILE *sockets = fopen("/proc/net/unix", "r");
	char line[512];
	bool found = false;

	while (sockets && !found && fgets(line, sizeof(line), sockets))
		found = strstr(line, " 00010000 ") && strstr(line, socket_path);
	if (sockets)
		fclose(sockets);
	return found;
}

static bool has_ended(pid_t pid)
{
	siginfo_t ended = { 0 };

	return !waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) &&
	       ended.si_pid == pid;
}

static pid_t machine_up_as(const char *guest, int *in)
{
	char *const argv[] = { (char *)self, (char *)guest, NULL };
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		dup2(pair[0], STDIN_FILENO);
		close(pair[1]);
		_exit(boot(socket_path, argv));
	}
	close(pair[0]);
	machine_in = *in = pair[1];
	for (int i = 0; i < 15000 && !listens() && !has_ended(pid); i++)
		usleep(2000);
	return pid;
}

static pid_t machine_up(int *in)
{
	return machine_up_as("guest", in);
}

/* Opens a client connection for arbitrary data. */
static int connect_raw(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", socket_path);
	EXPECT_EQ(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* Requests a command; the words include their NULs. */
static void start_raw(int fd, const char *words, size_t length)
{
	struct wire_head head = { .length = (uint32_t)length, .kind = WIRE_START };

	EXPECT_EQ(write(fd, &head, sizeof(head)), sizeof(head));
	EXPECT_EQ(write(fd, words, length), (ssize_t)length);
}

static struct visitor visit(char *const argv[])
{
	int in[2], out[2], err[2];
	struct visitor v = { .pid = -1 };

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		return v;
	v = (struct visitor){ .pid = fork(), .in = in[1], .out = out[0], .err = err[0] };
	if (!v.pid) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		dup2(err[1], STDERR_FILENO);
		close(in[1]);
		close(machine_in); /* closing it ends the machine */
		exit(enter(socket_path, argv));
	}
	close(in[0]);
	close(out[1]);
	close(err[1]);
	return v;
}

static size_t read_all(int fd, char *text, size_t size)
{
	size_t length = 0;
	ssize_t got;

	while (length < size - 1 && (got = read(fd, text + length, size - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = 0;
	return length;
}

static int leave(struct visitor *v)
{
	int status = -1;

	close(v->out);
	close(v->err);
	waitpid(v->pid, &status, 0);
	return status;
}

static int machine_pid_end(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return status;
}

static void streams_and_exit_status_pass(void)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)"cat; echo two >&2; exit 7",
			       NULL };
	char text[64];
	struct visitor v = visit(argv);
	int status;

	EXPECT_EQ(write(v.in, "one\n", 4), 4);
	close(v.in);
	EXPECT_EQ(read_all(v.out, text, sizeof(text)), 4);
	EXPECT(!strcmp(text, "one\n"));
	read_all(v.err, text, sizeof(text));
	EXPECT(!strcmp(text, "two\n"));
	status = leave(&v);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 7);
}

static void a_program_that_is_not_there_is_named(void)
{
	char *const argv[] = { (char *)"no-such-program", NULL };
	char text[128];
	struct visitor v = visit(argv);

	close(v.in);
	read_all(v.err, text, sizeof(text));
	EXPECT(!strcmp(text, "no-such-program: No such file or directory\n"));
	EXPECT_EQ(WEXITSTATUS(leave(&v)), 127);
}

static void a_signal_reaches_the_command_and_tells_how_it_ended(void)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)"echo up; exec sleep 60", NULL };
	char text[4];
	struct visitor v = visit(argv);
	int status;

	EXPECT_EQ(read(v.out, text, 3), 3);
	kill(v.pid, SIGTERM);
	status = leave(&v);
	close(v.in);
	EXPECT(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

static void what_enters_and_is_killed_takes_its_command_along(void)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)"echo $$; exec sleep 60", NULL };
	char text[16] = "";
	struct visitor v = visit(argv);
	pid_t inside;

	EXPECT(read(v.out, text, sizeof(text) - 1) > 1);
	inside = atoi(text);
	EXPECT(inside > 1 && !kill(inside, 0));
	kill(v.pid, SIGKILL);
	leave(&v);
	close(v.in);
	for (int i = 0; i < 1000 && !kill(inside, 0); i++)
		usleep(2000);
	EXPECT_EQ(kill(inside, 0), -1);
}

/* More data than the windows hold, in both directions, with a slow reader. */
static void much_passes_whole_while_others_come_and_go(void)
{
	enum { BYTES = 4 << 20, PIECE = 1 << 16 };
	char *const cat[] = { (char *)"cat", NULL }, *const yes[] = { (char *)"true", NULL };
	struct visitor v = visit(cat);
	static uint8_t piece[PIECE];
	size_t in = 0, out = 0, wrong = 0;

	fcntl(v.in, F_SETFL, O_NONBLOCK);
	fcntl(v.out, F_SETFL, O_NONBLOCK);
	for (int turn = 0; turn < 60 && in < BYTES; turn++) { /* fill it up */
		ssize_t put;

		for (size_t i = 0; i < PIECE; i++)
			piece[i] = (uint8_t)((in + i) * 31 >> 3);
		put = write(v.in, piece, in + PIECE > BYTES ? BYTES - in : PIECE);
		in += put > 0 ? (size_t)put : 0;
		usleep(1000);
	}
	for (int i = 0; i < 3; i++) { /* it does not block other clients */
		struct visitor other = visit(yes);

		close(other.in);
		EXPECT_EQ(leave(&other), 0);
	}
	while (out < BYTES) {
		struct pollfd polls[] = { { .fd = v.out, .events = POLLIN },
					  { .fd = in < BYTES ? v.in : -1, .events = POLLOUT } };
		ssize_t got;

		if (poll(polls, 2, 5000) <= 0)
			break;
		got = read(v.out, piece, PIECE);
		for (ssize_t i = 0; i < got; i++)
			wrong += piece[i] != (uint8_t)((out + (size_t)i) * 31 >> 3);
		out += got > 0 ? (size_t)got : 0;
		if (got == 0)
			break;
		for (size_t i = 0; i < PIECE; i++)
			piece[i] = (uint8_t)((in + i) * 31 >> 3);
		if (in < BYTES) {
			got = write(v.in, piece, in + PIECE > BYTES ? BYTES - in : PIECE);
			in += got > 0 ? (size_t)got : 0;
		}
	}
	EXPECT_EQ(in, BYTES);
	EXPECT_EQ(out, BYTES);
	EXPECT_EQ(wrong, 0);
	close(v.in);
	EXPECT_EQ(leave(&v), 0);
}

static void garbage_from_one_who_enters_ends_that_one_only(void)
{
	char *const yes[] = { (char *)"true", NULL };
	uint32_t seed = 1;

	for (int round = 0; round < 50; round++) {
		uint8_t bytes[256];
		struct visitor v;
		int fd = connect_raw();

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
		if (round % 2) /* a valid head with an invalid payload */
			memcpy(bytes,
			       &(struct wire_head){ .length = 100,
						    .kind = (uint8_t)(round / 2 % WIRE_KINDS),
						    .stream = (uint8_t)(round % 3) },
			       sizeof(struct wire_head));
		EXPECT(write(fd, bytes, sizeof(bytes)) > 0);
		close(fd);
		if (round % 10)
			continue;
		v = visit(yes);
		close(v.in);
		EXPECT_EQ(leave(&v), 0);
	}
}

/* The client has read a full window, granted nothing, and disconnected: no grant will ever
 * follow. */
static void a_channel_is_free_again_whatever_was_left_unheard(void)
{
	static const char words[] = "head\0-c\0"
				    "1000000\0/dev/zero";
	char *const yes[] = { (char *)"true", NULL };
	int status = 125 << 8;

	for (int i = 0; i < WIRE_CHANNELS; i++) {
		static uint8_t bytes[WIRE_WINDOW];
		size_t heard = 0;
		ssize_t got = 1;
		int fd = connect_raw();

		start_raw(fd, words, sizeof(words));
		while (heard < WIRE_WINDOW && (got = read(fd, bytes, sizeof(bytes))) > 0)
			heard += (size_t)got;
		EXPECT(got > 0);
		close(fd);
	}
	for (int i = 0; i < 100 && status == 125 << 8; i++) {
		struct visitor v = visit(yes);

		close(v.in);
		status = leave(&v);
		usleep(2000);
	}
	EXPECT_EQ(status, 0);
}

static void count_frame(void *context, const struct wire_head *head, const uint8_t *payload)
{
	(void)payload;
	*(uint64_t *)context += 1 + head->length;
}

static void frames_are_taken_whole_however_they_are_cut(void)
{
	static struct wire a, b;
	uint64_t seen = 0;
	int ends[2];
	struct wire_head head = { .length = 5, .channel = 1, .kind = WIRE_DATA };
	uint8_t bytes[sizeof(head) + 5] = { 0 };

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	wire_open(&a, ends[0]);
	wire_open(&b, ends[1]);
	memcpy(bytes, &head, sizeof(head));
	for (size_t i = 0; i < sizeof(bytes); i++) {
		EXPECT_EQ(seen, 0);
		EXPECT_EQ(write(a.fd, bytes + i, 1), 1);
		EXPECT(wire_read(&b, count_frame, &seen));
	}
	EXPECT_EQ(seen, 6);
	EXPECT(wire_put_number(&a, 2, WIRE_GRANT, 1, 77) && wire_put(&a, 2, WIRE_END, 1, NULL, 0));
	EXPECT(wire_read(&b, count_frame, &seen));
	EXPECT_EQ(seen, 6 + 5 + 1);
	head.length = WIRE_PAYLOAD_MAX + 1;
	EXPECT_EQ(write(a.fd, &head, sizeof(head)), sizeof(head));
	EXPECT(!wire_read(&b, count_frame, &seen));
	wire_close(&a);
	EXPECT(!wire_read(&b, count_frame, &seen));
	wire_close(&b);
}

/* The queued bytes are sent completely and in order, whatever part was already written when more
 * bytes were added. */
static void bytes_that_wait_are_passed_on_in_order(void)
{
	enum { FRAMES = 3000, MOST = 3000 };
	static struct wire a, b;
	static uint8_t sent[MOST];
	uint64_t seen = 0, expected = 0;
	uint32_t seed = 1;
	int ends[2];

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	wire_open(&a, ends[0]);
	wire_open(&b, ends[1]);
	for (uint32_t i = 0; i < FRAMES; i++) {
		size_t length = (seed = seed * 1103515245 + 12345) >> 16;

		length %= MOST;
		EXPECT(wire_put(&a, 1, WIRE_DATA, 1, sent, length));
		expected += 1 + length;
		/* Sometimes some bytes are read, and some stay. */
		if (i % 50 == 0)
			EXPECT(wire_read(&b, count_frame, &seen) && wire_flush(&a));
	}
	EXPECT(a.waiting && a.capacity < 4u * FRAMES * MOST);
	while (a.waiting && !tap_failed)
		EXPECT(wire_flush(&a) && wire_read(&b, count_frame, &seen));
	for (int i = 0; i < 100 && seen < expected; i++)
		EXPECT(wire_read(&b, count_frame, &seen));
	EXPECT_EQ(seen, expected);
	wire_close(&a);
	wire_close(&b);
}

static void no_machine_is_told_from_a_command_that_fails(void)
{
	char *const argv[] = { (char *)"true", NULL };
	char text[128];
	struct visitor v = visit(argv);

	close(v.in);
	read_all(v.err, text, sizeof(text));
	EXPECT(strstr(text, "no virtual machine at /tmp/switchmark-machine-"));
	EXPECT_EQ(WEXITSTATUS(leave(&v)), 125);
}

static void the_end_of_stdin_ends_the_machine_and_those_inside(void)
{
	char *const argv[] = { (char *)"sh", (char *)"-c", (char *)"echo up; exec sleep 60", NULL };
	int in;
	pid_t machine = machine_up(&in);
	char text[4];
	struct visitor v = visit(argv);

	EXPECT_EQ(read(v.out, text, 3), 3);
	close(in);
	EXPECT_EQ(WEXITSTATUS(machine_pid_end(machine)), 0);
	EXPECT(access(socket_path, F_OK));
	close(v.in);
	EXPECT_EQ(WEXITSTATUS(leave(&v)), 125);
}

/* stdin may be a socket whose other end is half-closed, for example by ssh. */
static void the_end_of_a_socket_ends_the_machine(void)
{
	char *const argv[] = { (char *)self, (char *)"guest", NULL };
	int pair[2], status = 0;
	pid_t pid, ended = 0;

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (!pid) {
		dup2(pair[0], STDIN_FILENO);
		_exit(boot(socket_path, argv));
	}
	for (int i = 0; i < 1000 && access(socket_path, F_OK); i++)
		usleep(2000);
	shutdown(pair[1], SHUT_WR);
	for (int i = 0; i < 1000 && !ended; i++) {
		ended = waitpid(pid, &status, WNOHANG);
		usleep(1000);
	}
	EXPECT_EQ(ended, pid);
	EXPECT_EQ(status, 0);
	close(pair[0]);
	close(pair[1]);
	if (!ended) {
		kill(pid, SIGTERM);
		machine_pid_end(pid);
	}
}

static void a_machine_that_does_not_start_says_why_by_its_status(void)
{
	char *const argv[] = { (char *)"false", NULL };
	int in[2];
	pid_t pid;

	EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		dup2(in[0], STDIN_FILENO);
		_exit(boot(socket_path, argv));
	}
	EXPECT_EQ(WEXITSTATUS(machine_pid_end(pid)), 1);
	close(in[0]);
	close(in[1]);
}

/* ---- what the kernel may refuse ----------------------------------------------------- */

/* Runs boot with rejected calls; returns its status and its messages. */
static int boot_refused(const long calls[2], int error, char *text, size_t size)
{
	char *const argv[] = { (char *)self, (char *)"guest", NULL };
	int in[2], said[2];
	pid_t pid;

	EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
	EXPECT_EQ(pipe2(said, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		dup2(in[0], STDIN_FILENO);
		dup2(said[1], STDERR_FILENO);
		_exit(refuse(calls, error) ? boot(socket_path, argv) : 99);
	}
	close(said[1]);
	read_all(said[0], text, size);
	close(said[0]);
	close(in[0]);
	close(in[1]);
	return machine_pid_end(pid);
}

static void what_boot_cannot_have_is_named_and_nobody_is_harmed(void)
{
	const struct {
		long calls[2];
		int error;
		const char *say;
	} cases[] = {
		{ { SYS_clone, SYS_clone3 }, EAGAIN, "cannot start the machine: fork: Resource" },
		{ { SYS_socketpair, -2 }, EMFILE, "cannot start the machine: socketpair: Too" },
		{ { SYS_signalfd4, -2 }, EMFILE, "cannot listen at /tmp/" },
		{ { SYS_socket, -2 }, EMFILE, "cannot listen at /tmp/" },
		{ { SYS_bind, -2 }, EACCES, "Permission denied" },
		{ { SYS_listen, -2 }, EACCES, "Permission denied" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char text[256];
		int status = boot_refused(cases[i].calls, cases[i].error, text, sizeof(text));

		EXPECT(WIFEXITED(status));
		EXPECT_EQ(WEXITSTATUS(status), 70);
		EXPECT(strstr(text, cases[i].say));
		EXPECT(access(socket_path, F_OK));
	}
}

/* The result of one command: its stderr, and the status. */
struct ending {
	char text[256];
	size_t length;
	bool exited;
	uint32_t status;
};

static void ending_take(void *context, const struct wire_head *head, const uint8_t *payload)
{
	struct ending *e = context;

	if (head->kind == WIRE_DATA && head->length < sizeof(e->text) - e->length) {
		memcpy(e->text + e->length, payload, head->length);
		e->length += head->length;
	}
	if (head->kind == WIRE_EXIT) {
		e->exited = true;
		e->status = wire_number(head, payload);
	}
}

static int count_fds_of(pid_t pid)
{
	char path[64];
	DIR *d;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* The kernel rejects any of the six pipe ends of a command. */
static void a_command_without_pipes_or_process_is_refused_with_the_reason(void)
{
	enum { USED = 300, ENDS = 6, FORK = ENDS, ALL };
	static struct wire w;
	struct rlimit most;
	int ends[2];

	EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &most), 0);
	for (int fault = 0; fault <= ALL; fault++) {
		const struct rlimit few = { (rlim_t)(USED + fault), most.rlim_max };
		struct ending e = { 0 };
		struct pollfd in = { .events = POLLIN };
		int before;
		pid_t pid;

		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
		pid = fork();
		if (!pid) {
			dup2(ends[1], 3);
			close(4); /* the signalfd */
			for (int fd = 5; fd < USED; fd++)
				dup2(0, fd);
			if (fault == FORK && !refuse((long[]){ SYS_clone, SYS_clone3 }, EAGAIN))
				_exit(99);
			_exit(agent_serve(3, 3));
		}
		close(ends[1]);
		wire_open(&w, ends[0]);
		in.fd = ends[0];
		EXPECT_EQ(poll(&in, 1, 10000), 1); /* the agent's hello */
		before = count_fds_of(pid);
		if (fault < ENDS)
			EXPECT_EQ(prlimit(pid, RLIMIT_NOFILE, &few, NULL), 0);
		EXPECT(wire_put(&w, 7, WIRE_START, 0, "true", sizeof("true")));
		while (!e.exited && poll(&in, 1, 10000) == 1 && wire_read(&w, ending_take, &e))
			;
		EXPECT(e.exited);
		EXPECT_EQ(e.status, fault == ALL ? 0 : 126 << 8);
		if (fault < ENDS)
			EXPECT(strstr(e.text, "no process starts: Too many open"));
		else if (fault == FORK)
			EXPECT(strstr(e.text, "no process starts: Resource"));
		/* The files of a process are closed just after its end is reported. */
		for (int i = 0; i < 1000 && count_fds_of(pid) != before; i++)
			usleep(1000);
		EXPECT_EQ(count_fds_of(pid), before);
		wire_close(&w);
		EXPECT_EQ(machine_pid_end(pid), 0);
	}
}

/* ---- what is not ours --------------------------------------------------------------- */

static int boot_at_once(void)
{
	char *const argv[] = { (char *)"true", NULL };
	pid_t pid = fork();

	if (!pid) {
		close(STDERR_FILENO);
		_exit(boot(socket_path, argv));
	}
	return machine_pid_end(pid);
}

static void what_is_at_the_path_and_no_old_socket_stays(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct stat before, after;
	int fd = open(socket_path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	EXPECT(fd >= 0);
	close(fd);
	EXPECT_EQ(stat(socket_path, &before), 0);
	EXPECT_EQ(boot_at_once(), 70 << 8);
	EXPECT(!stat(socket_path, &after) && after.st_ino == before.st_ino);
	unlink(socket_path);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", socket_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	EXPECT_EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	EXPECT_EQ(listen(fd, 1), 0);
	EXPECT_EQ(stat(socket_path, &before), 0);
	EXPECT_EQ(boot_at_once(), 70 << 8);
	EXPECT(!stat(socket_path, &after) && after.st_ino == before.st_ino);
	close(fd);
	/* The socket is stale now. */
	EXPECT_EQ(boot_at_once(), 0);
	EXPECT(access(socket_path, F_OK));
}

static void a_socket_without_a_name_is_refused(void)
{
	char *const argv[] = { (char *)"true", NULL };
	pid_t pid = fork();

	if (!pid) {
		close(STDERR_FILENO);
		_exit(boot("", argv));
	}
	EXPECT_EQ(machine_pid_end(pid), 70 << 8);
}

static void what_has_taken_the_place_of_the_socket_stays(void)
{
	char moved[sizeof(socket_path) + 1];
	struct stat found;
	pid_t machine;
	int in, fd;

	machine = machine_up(&in);
	snprintf(moved, sizeof(moved), "%s2", socket_path);
	EXPECT_EQ(rename(socket_path, moved), 0);
	fd = open(socket_path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	close(in);
	EXPECT_EQ(machine_pid_end(machine), 0);
	EXPECT(!stat(socket_path, &found) && S_ISREG(found.st_mode));
	unlink(socket_path);
	unlink(moved);
}

/* A guest that sends without grants, while its client reads nothing. */
static int guest_flood(int fd)
{
	static uint8_t bytes[WIRE_PAYLOAD_MAX];
	static struct wire w;
	uint64_t seen = 0;

	wire_open(&w, fd);
	fcntl(fd, F_SETFL, 0);
	wire_put(&w, 0, WIRE_HELLO, 0, NULL, 0);
	wire_read(&w, count_frame, &seen);
	for (int i = 0; i < 1000; i++)
		wire_put(&w, 0, WIRE_DATA, STDOUT_FILENO, bytes, sizeof(bytes));
	while (wire_read(&w, count_frame, &seen))
		;
	return 0;
}

static void what_waits_for_one_who_does_not_read_has_a_bound(void)
{
	static uint8_t bytes[1 << 16];
	struct pollfd hung = { 0 };
	size_t heard = 0;
	ssize_t got;
	int in;
	pid_t machine = machine_up_as("flood", &in);

	hung.fd = connect_raw();
	start_raw(hung.fd, "true", sizeof("true"));
	EXPECT_EQ(poll(&hung, 1, 10000), 1); /* only a hang-up is requested */
	EXPECT(hung.revents & POLLHUP);
	while ((got = recv(hung.fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		heard += (size_t)got;
	EXPECT(heard < 10 << 20);
	close(hung.fd);
	EXPECT_EQ(waitpid(machine, NULL, WNOHANG), 0); /* it is still running */
	close(in);
	EXPECT_EQ(machine_pid_end(machine), 0);
}

/* Becomes process 1 of a pid namespace; returns false if that is not permitted. */
static bool process_one(pid_t *pid)
{
	const int flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC;

	if (unshare(geteuid() ? flags | CLONE_NEWUSER : flags) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return false;
	*pid = fork();
	return *pid >= 0;
}

/* Like the first process of `unshare --pid`, in the mounts of its host. */
static void init_of_a_namespace_changes_nothing(void)
{
	int said[2];
	char text[256];
	pid_t pid;

	EXPECT_EQ(pipe2(said, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		pid_t inside;

		dup2(said[1], STDERR_FILENO);
		if (!process_one(&inside))
			_exit(99);
		if (!inside)
			_exit(guest_init());
		_exit(WEXITSTATUS(machine_pid_end(inside)));
	}
	close(said[1]);
	read_all(said[0], text, sizeof(text));
	close(said[0]);
	EXPECT_EQ(WEXITSTATUS(machine_pid_end(pid)), 2);
	EXPECT(!strcmp(text, "switchmark-agent init is the first process of a virtual machine\n"));
}

static bool namespaces_allowed(void)
{
	pid_t pid = fork();

	if (!pid) {
		pid_t inside;

		if (!process_one(&inside))
			_exit(1);
		if (!inside)
			_exit(0);
		_exit(machine_pid_end(inside));
	}
	return !machine_pid_end(pid);
}

int main(int argc, char **argv)
{
	int in;
	pid_t machine;

	if (argc == 2 && !strcmp(argv[1], "guest"))
		return agent_serve(BOOT_FD, BOOT_FD);
	if (argc == 2 && !strcmp(argv[1], "flood"))
		return guest_flood(BOOT_FD);
	self = "/proc/self/exe";
	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(folder))
		return 99;
	snprintf(socket_path, sizeof(socket_path), "%s/s", folder);
	TEST(frames_are_taken_whole_however_they_are_cut);
	TEST(no_machine_is_told_from_a_command_that_fails);
	TEST(bytes_that_wait_are_passed_on_in_order);
	TEST(a_machine_that_does_not_start_says_why_by_its_status);
	TEST(what_boot_cannot_have_is_named_and_nobody_is_harmed);
	TEST(a_command_without_pipes_or_process_is_refused_with_the_reason);
	TEST(what_is_at_the_path_and_no_old_socket_stays);
	TEST(a_socket_without_a_name_is_refused);
	TEST(what_has_taken_the_place_of_the_socket_stays);
	TEST(what_waits_for_one_who_does_not_read_has_a_bound);
	if (namespaces_allowed())
		TEST(init_of_a_namespace_changes_nothing);
	else
		SKIP(init_of_a_namespace_changes_nothing, "no namespaces here");
	machine = machine_up(&in);
	TEST(streams_and_exit_status_pass);
	TEST(a_program_that_is_not_there_is_named);
	TEST(a_signal_reaches_the_command_and_tells_how_it_ended);
	TEST(what_enters_and_is_killed_takes_its_command_along);
	TEST(much_passes_whole_while_others_come_and_go);
	TEST(garbage_from_one_who_enters_ends_that_one_only);
	TEST(a_channel_is_free_again_whatever_was_left_unheard);
	kill(machine, SIGTERM);
	machine_pid_end(machine);
	close(in);
	TEST(the_end_of_stdin_ends_the_machine_and_those_inside);
	TEST(the_end_of_a_socket_ends_the_machine);
	rmdir(folder);
	return tap_end();
}
