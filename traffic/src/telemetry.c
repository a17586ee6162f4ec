/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	ANSWER_MAX = 1 << 14, /* MAX_OUTPUT_LEN of DPDK's lib/telemetry */
	PATIENCE_S = 5,
};

static int report_error(const char *path, const char *what)
{
	fprintf(stderr, "switchmark-tool: %s: %s: %s\n", path, what, strerror(errno));
	return 1;
}

static int connect_to(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = PATIENCE_S };
	int fd;

	if (strlen(path) >= sizeof(to.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(to.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

/* Receives one answer, or the greeting that the program sends to each new connection. */
static bool receive_answer(int fd, char *answer)
{
	ssize_t got = recv(fd, answer, ANSWER_MAX, 0);

	if (!got)
		errno = ECONNRESET;
	answer[got > 0 ? got : 0] = 0;
	return got > 0;
}

int telemetry_ask(const char *path, char *const questions[], FILE *out)
{
	char answer[ANSWER_MAX + 1];
	int fd = connect_to(path);

	if (fd < 0)
		return report_error(path, "cannot connect");
	if (!receive_answer(fd, answer)) {
		close(fd);
		return report_error(path, "does not say who it is");
	}
	for (; *questions; questions++) {
		if (send(fd, *questions, strlen(*questions), MSG_NOSIGNAL) < 0 ||
		    !receive_answer(fd, answer)) {
			close(fd);
			return report_error(path, *questions);
		}
		fprintf(out, "%s\n", answer);
	}
	close(fd);
	return 0;
}
