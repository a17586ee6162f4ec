/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int content_read(const char *path, struct writer *content)
{
	/* O_NONBLOCK: open must not wait for the writer of a pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error;

	if (fd < 0)
		return errno;
	error = write_file(content, fd);
	close(fd);
	return error;
}

int content_write(const char *path, const uint8_t *content, size_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
	int error = 0;

	if (fd < 0)
		return errno;
	while (length && !error) {
		ssize_t put = write(fd, content, length);

		if (put < 0 && errno != EINTR)
			error = errno;
		if (put > 0) {
			content += put;
			length -= (size_t)put;
		}
	}
	if (close(fd) && !error)
		error = errno;
	return error;
}

void file_read(struct reader *asked, struct writer *answer)
{
	const char *path = read_text(asked);
	struct writer content = { 0 };
	int error = asked->bad ? EINVAL : content_read(path, &content);

	write_u32(answer, (uint32_t)error);
	if (!error)
		write_bytes(answer, content.at, content.length);
	writer_free(&content);
}

void file_write(struct reader *asked, struct writer *answer)
{
	const char *path = read_text(asked);

	write_u32(answer,
		  (uint32_t)(asked->bad ? EINVAL : content_write(path, asked->at, asked->left)));
}

void file_exists(struct reader *asked, struct writer *answer)
{
	struct stat found;
	const char *path = read_text(asked);

	write_u32(answer, 0);
	write_u32(answer, !asked->bad && !stat(path, &found));
}

void file_remove(struct reader *asked, struct writer *answer)
{
	const char *path = read_text(asked);
	int error = 0;

	if (asked->bad)
		error = EINVAL;
	else if (unlink(path) && errno != ENOENT)
		error = errno;
	write_u32(answer, (uint32_t)error);
}

/* Calls `handle` for every path that matches a pattern, pattern by pattern. A path without wildcards
 * is used without a search. */
static void paths_match(struct reader *asked, struct writer *answer,
			void handle(const char *path, struct writer *answer))
{
	while (asked->left) {
		const char *pattern = read_text(asked);
		glob_t found;

		if (asked->bad)
			return;
		if (!strpbrk(pattern, "*?[")) {
			handle(pattern, answer);
		} else if (!glob(pattern, GLOB_NOESCAPE, NULL, &found)) {
			for (size_t i = 0; i < found.gl_pathc; i++)
				handle(found.gl_pathv[i], answer);
			globfree(&found);
		}
	}
}

static void path_read(const char *path, struct writer *answer)
{
	const size_t start = answer->length;

	write_text(answer, path);
	if (content_read(path, answer) && !answer->failed)
		answer->length = start;
}

static void path_inode(const char *path, struct writer *answer)
{
	struct stat found;

	if (stat(path, &found))
		return;
	write_text(answer, path);
	write_u64(answer, found.st_ino);
}

void files_read(struct reader *asked, struct writer *answer)
{
	write_u32(answer, 0);
	paths_match(asked, answer, path_read);
}

void files_inodes(struct reader *asked, struct writer *answer)
{
	write_u32(answer, 0);
	paths_match(asked, answer, path_inode);
}
