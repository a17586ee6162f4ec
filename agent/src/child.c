/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Executes the program. An error is written to `failure`, or to stderr if `failure` is -1. */
static void child_run(const int fds[3], char *const env[], char *const words[], int failure)
{
	sigset_t none;
	int error;

	setsid();
	for (int i = 0; i < 3; i++)
		dup2(fds[i], i);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	for (; env && *env; env++)
		putenv(*env);
	execvp(words[0], words);
	error = errno;
	if (failure < 0)
		dprintf(STDERR_FILENO, "%s: %s\n", words[0], strerror(error));
	else if (write(failure, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

pid_t child_start_telling(const int fds[3], char *const words[])
{
	pid_t pid = fork();

	if (!pid)
		child_run(fds, NULL, words, -1);
	return pid;
}

pid_t child_start(const int fds[3], char *const env[], char *const words[])
{
	int failure[2], error = 0;
	pid_t pid;

	if (pipe2(failure, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid)
		child_run(fds, env, words, failure[1]);
	if (pid < 0)
		error = errno;
	close(failure[1]);
	/* The pipe is closed when the program starts. */
	while (pid > 0 && read(failure[0], &error, sizeof(error)) < 0 && errno == EINTR)
		;
	close(failure[0]);
	if (!error)
		return pid;
	if (pid > 0)
		waitpid(pid, NULL, 0);
	errno = error;
	return -1;
}

uint64_t process_start_time(pid_t pid)
{
	char path[64], line[1024], *at;
	unsigned long long start = 0;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = read(fd, line, sizeof(line) - 1);
	close(fd);
	line[got > 0 ? got : 0] = 0;
	/* The name, in parentheses, may contain any character; count the fields after it, up to
	 * 22. */
	at = strrchr(line, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		start = strtoull(at, NULL, 10);
	return start;
}

int process_open(pid_t pid, uint64_t start)
{
	int pidfd = pid > 1 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (pidfd >= 0 && process_start_time(pid) != start) {
		close(pidfd);
		return -1;
	}
	return pidfd;
}

void process_fd_signal(int pidfd, int number)
{
	if (number > 0)
		syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0);
}

bool process_wait(int pidfd, int timeout_ms)
{
	struct pollfd ended = { .fd = pidfd, .events = POLLIN };
	const int64_t deadline = now_ms() + timeout_ms;
	int left = timeout_ms;

	while (poll(&ended, 1, left) < 0 && errno == EINTR)
		left = deadline > now_ms() ? (int)(deadline - now_ms()) : 0;
	return ended.revents;
}

int memory_file(const char *name, const uint8_t *content, size_t length)
{
	int fd = memfd_create(name, MFD_CLOEXEC), error;

	while (fd >= 0 && length) {
		ssize_t put = write(fd, content, length);

		if (put < 0 && errno != EINTR) {
			error = errno;
			close(fd);
			errno = error;
			return -1;
		}
		if (put > 0) {
			content += put;
			length -= (size_t)put;
		}
	}
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd;
}

int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
