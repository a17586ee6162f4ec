/* SPDX-License-Identifier: Apache-2.0 */
#include "socket_clear.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int socket_clear(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct stat found;
	int fd, error = 0;

	if (strlen(path) >= sizeof(at.sun_path))
		return ENAMETOOLONG;
	memcpy(at.sun_path, path, strlen(path) + 1);
	if (lstat(path, &found))
		return errno == ENOENT ? 0 : errno;
	if (!S_ISSOCK(found.st_mode))
		return EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno;
	if (!connect(fd, (const struct sockaddr *)&at, sizeof(at)))
		error = EADDRINUSE;
	else if (errno != ECONNREFUSED)
		error = errno;
	close(fd);
	return error || !unlink(path) ? error : errno;
}
