/* SPDX-License-Identifier: Apache-2.0 */
/* init, boot and enter without a machine: what `boot` starts is the guest's side itself. */
#include "machine.h"
#include "tap.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

static pid_t machine_up(int *in)
{
	char *const argv[] = { (char *)self, (char *)"guest", NULL };
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
	for (int i = 0; i < 1000 && access(socket_path, F_OK); i++)
		usleep(2000);
	return pid;
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
		close(machine_in); /* whose end is the machine's */
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

/* More than the windows hold, both ways, while the reader takes its time. */
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
	for (int i = 0; i < 3; i++) { /* it does not stand in the way of others */
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
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		struct sockaddr *at;
		struct {
			sa_family_t family;
			char path[108];
		} to = { .family = AF_UNIX };

		strcpy(to.path, socket_path);
		at = (struct sockaddr *)&to;
		EXPECT_EQ(connect(fd, at, sizeof(to)), 0);
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
		if (round % 2) /* a head that is right, with a payload that is not */
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

/* It may be a socket whose other end only writes no more, as ssh and others leave it. */
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

int main(int argc, char **argv)
{
	int in;
	pid_t machine;

	if (argc == 2 && !strcmp(argv[1], "guest"))
		return guest_serve(BOOT_FD);
	self = "/proc/self/exe";
	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(folder))
		return 99;
	snprintf(socket_path, sizeof(socket_path), "%s/s", folder);
	TEST(frames_are_taken_whole_however_they_are_cut);
	TEST(no_machine_is_told_from_a_command_that_fails);
	TEST(a_machine_that_does_not_start_says_why_by_its_status);
	machine = machine_up(&in);
	TEST(streams_and_exit_status_pass);
	TEST(a_program_that_is_not_there_is_named);
	TEST(a_signal_reaches_the_command_and_tells_how_it_ended);
	TEST(what_enters_and_is_killed_takes_its_command_along);
	TEST(much_passes_whole_while_others_come_and_go);
	TEST(garbage_from_one_who_enters_ends_that_one_only);
	kill(machine, SIGTERM);
	machine_pid_end(machine);
	close(in);
	TEST(the_end_of_stdin_ends_the_machine_and_those_inside);
	TEST(the_end_of_a_socket_ends_the_machine);
	rmdir(folder);
	return tap_end();
}
