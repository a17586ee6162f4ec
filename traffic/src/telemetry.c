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
	ANSWER_MAX = 16 << 10, /* what the program sends at most, as it says when it is called */
	WAIT_S = 5,
};

static int failed(const char *path, const char *what)
{
	fprintf(stderr, "switchmark-traffic: %s: %s: %s\n", path, what, strerror(errno));
	return 1;
}

/* The next message; it is never longer than the buffer. */
static bool answer_read(int fd, char answer[ANSWER_MAX + 1])
{
	ssize_t got = recv(fd, answer, ANSWER_MAX, 0);

	answer[got > 0 ? got : 0] = 0;
	if (!got)
		errno = ECONNRESET;
	return got > 0;
}

int telemetry_ask(const char *path, char *const questions[], FILE *out)
{
	const struct timeval wait = { .tv_sec = WAIT_S };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char answer[ANSWER_MAX + 1];
	int fd, status = 0;

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return failed(path, "no socket");
	}
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return failed(path, "no socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address))) {
		status = failed(path, "nobody listens");
	} else if (!answer_read(fd, answer)) { /* who it is */
		status = failed(path, "no answer");
	} else {
		for (; *questions && !status; questions++) {
			if (send(fd, *questions, strlen(*questions), MSG_NOSIGNAL) < 0 ||
			    !answer_read(fd, answer))
				status = failed(path, *questions);
			else
				fprintf(out, "%s\n", answer);
		}
	}
	close(fd);
	return status;
}
