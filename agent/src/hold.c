/* SPDX-License-Identifier: Apache-2.0 */
#include "hold.h"

#include "child.h"
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define OTHER_ENDS_MS 10000

static void path_in(char path[PATH_MAX], const char *folder, const char *name)
{
	/* folder_valid() leaves room for the name. */
	snprintf(path, PATH_MAX, "%.*s/%.60s", PATH_MAX - 64, folder, name);
}

/* True for the folder of a run, or a folder within it. */
static bool folder_valid(const char *folder, const char *run)
{
	const char *found = strstr(folder, run);

	return folder[0] == '/' && found && found > folder && found[-1] == '/' &&
	       (found[6] == 0 || found[6] == '/') && !strstr(folder, "/..") &&
	       strlen(folder) < PATH_MAX - 64;
}

static struct hold *hold_of(const struct holds *h, const char *folder)
{
	for (struct hold *hold = h->first; hold; hold = hold->next)
		if (!strcmp(hold->folder, folder))
			return hold;
	return NULL;
}

static void hold_free(struct holds *h, struct hold *hold)
{
	for (struct hold **at = &h->first; *at; at = &(*at)->next)
		if (*at == hold) {
			*at = hold->next;
			break;
		}
	if (hold->journal >= 0)
		close(hold->journal);
	if (hold->record >= 0)
		close(hold->record);
	undos_free(&hold->undos);
	free(hold->folder);
	free(hold);
}

/* Ends the agent that still holds a folder because it has not yet noticed the loss of its
 * connection. */
static void other_end(const char *folder)
{
	char path[PATH_MAX], text[64] = { 0 };
	long pid;
	unsigned long long start;
	char *rest;
	int fd, pidfd;

	path_in(path, folder, "agent");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	pid = strtol(text, &rest, 10);
	start = strtoull(rest, NULL, 10);
	if (pid == getpid())
		return;
	pidfd = process_open((pid_t)pid, start);
	if (pidfd < 0)
		return;
	process_fd_signal(pidfd, SIGTERM);
	process_wait(pidfd, OTHER_ENDS_MS);
	close(pidfd);
}

static int folder_make(char *path)
{
	for (char *at = path + 1; *at; at++) {
		if (*at != '/')
			continue;
		*at = 0;
		if (mkdir(path, 0700) && errno != EEXIST)
			return errno;
		*at = '/';
	}
	return mkdir(path, 0700) && errno != EEXIST ? errno : 0;
}

static int append_to(const char *folder, const char *name, int *fd)
{
	char path[PATH_MAX];

	path_in(path, folder, name);
	*fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	return *fd < 0 ? errno : 0;
}

/* Creates the files of a hold, and loads the undos left by an agent that was killed. Returns 0 or
 * an errno. */
static int hold_open(struct hold *hold)
{
	struct writer left = { 0 };
	char text[64];
	int error = append_to(hold->folder, "journal", &hold->journal), fd;

	if (!error)
		error = append_to(hold->folder, "undo", &hold->record);
	if (error)
		return error;
	if (flock(hold->journal, LOCK_EX | LOCK_NB))
		return errno;
	if (!write_file(&left, hold->record))
		undos_load(&hold->undos, left.at + sizeof(uint32_t),
			   left.length - sizeof(uint32_t));
	writer_free(&left);
	error = append_to(hold->folder, "agent", &fd);
	if (error)
		return error;
	snprintf(text, sizeof(text), "%d %llu\n", (int)getpid(),
		 (unsigned long long)process_start_time(getpid()));
	if (ftruncate(fd, 0) || write(fd, text, strlen(text)) < 0)
		error = errno;
	close(fd);
	return error;
}

static int hold_make(struct holds *h, struct hold *hold, const char *folder, const char *within,
		     struct reader *names)
{
	char path[PATH_MAX], beside[PATH_MAX];
	int error = 0;

	other_end(folder);
	path_in(beside, folder, within);
	other_end(beside);
	/* On the host that started the run, its folder already has a journal: use the second
	 * folder. */
	path_in(path, folder, "journal");
	if (!access(path, F_OK)) {
		path_in(path, folder, "agent");
		if (access(path, F_OK))
			folder = beside;
	}
	if (hold_of(h, folder))
		return EALREADY;
	hold->folder = strdup(folder);
	if (!hold->folder)
		return ENOMEM;
	snprintf(path, sizeof(path), "%s", folder);
	error = folder_make(path);
	while (names->left && !error) {
		const char *name = read_text(names);

		if (names->bad || strchr(name, '/'))
			return EINVAL;
		path_in(path, folder == beside ? beside : hold->folder, name);
		if (mkdir(path, 0700) && errno != EEXIST)
			error = errno;
	}
	return error ? error : hold_open(hold);
}

void hold_begin(struct holds *h, struct reader *asked, struct writer *answer)
{
	const char *run = read_text(asked), *folder = read_text(asked), *within = read_text(asked);
	struct hold *hold = calloc(1, sizeof(*hold));
	struct writer boot = { 0 };
	int error = EINVAL;

	if (hold) {
		hold->journal = hold->record = -1;
		if (!asked->bad && run_valid(run) && folder_valid(folder, run) &&
		    strlen(within) < 64 && !strchr(within, '/')) {
			memcpy(hold->run, run, 7);
			error = hold_make(h, hold, folder, within, asked);
		}
	} else {
		error = ENOMEM;
	}
	write_u32(answer, (uint32_t)error);
	if (error) {
		if (hold)
			hold_free(h, hold);
		return;
	}
	hold->next = h->first;
	h->first = hold;
	write_text(answer, hold->folder);
	if (content_read("/proc/sys/kernel/random/boot_id", &boot))
		write_u32(&boot, 0);
	write_u32(answer, (uint32_t)getpid());
	write_u64(answer, process_start_time(getpid()));
	write_bytes(answer, boot.at, boot.length);
	writer_free(&boot);
}

/* Narrows a content to the word in brackets, if there is one: /sys marks the current one of several
 * values in this way, and takes the value alone. */
static void choice_narrow(const uint8_t **content, size_t *length)
{
	const uint8_t *open = memchr(*content, '[', *length);
	const uint8_t *close = open ? memchr(open, ']', *length - (size_t)(open - *content)) : NULL;

	if (!close || (open > *content && open[-1] != ' '))
		return;
	*content = open + 1;
	*length = (size_t)(close - open - 1);
}

/* Appends the old content to a lease. */
static void lease_complete(struct writer *whole, struct reader *lease)
{
	struct reader r = *lease;
	struct writer content = { 0 };
	const char *path;

	write_bytes(whole, r.at, r.left);
	(void)read_u32(&r);
	(void)read_u64(&r);
	path = read_text(&r);
	if (!r.bad && !content_read(path, &content)) {
		const uint8_t *old = content.at + sizeof(uint32_t);
		size_t length = content.length - sizeof(uint32_t);

		choice_narrow(&old, &length);
		write_bytes(whole, old, length);
	}
	writer_free(&content);
}

int hold_note(struct holds *h, struct reader *asked)
{
	struct hold *hold = hold_of(h, read_text(asked));
	const uint32_t number = read_u32(asked), kind = read_u32(asked);
	struct writer line = { 0 }, whole = { 0 };
	int error = 0;

	if (asked->bad || !hold)
		return EINVAL;
	if (kind == UNDO_LEASE)
		lease_complete(&whole, asked);
	else
		write_bytes(&whole, asked->at, asked->left);
	if (!undos_add(&hold->undos, number, kind, whole.at, whole.length))
		error = EINVAL;
	undo_note(&line, number, kind, whole.at, whole.length);
	if (whole.failed || line.failed)
		error = ENOMEM;
	else if (!error && write(hold->record, line.at, line.length) != (ssize_t)line.length)
		error = errno;
	writer_free(&whole);
	writer_free(&line);
	return error;
}

int hold_journal(struct holds *h, struct reader *asked)
{
	struct hold *hold = hold_of(h, read_text(asked));

	if (asked->bad || !hold)
		return EINVAL;
	return write(hold->journal, asked->at, asked->left) == (ssize_t)asked->left ? 0 : errno;
}

int hold_end(struct holds *h, struct reader *asked)
{
	struct hold *hold = hold_of(h, read_text(asked));
	const bool kept = read_u32(asked);

	if (asked->bad || !hold)
		return EINVAL;
	if (kept)
		h->kept = true;
	else
		folder_remove(hold->folder);
	hold_free(h, hold);
	return 0;
}

void holds_close(struct holds *h)
{
	while (h->first) {
		run_undo(h->first->run, h->first->folder, &h->first->undos);
		hold_free(h, h->first);
	}
}

/* ---- other runs -------------------------------------------------------------------------- */

void runs_list(struct writer *answer)
{
	glob_t found = { 0 };

	write_u32(answer, 0);
	(void)glob("/run/switchmark/sm*/undo", 0, NULL, &found);
	(void)glob("/run/switchmark/sm*/far-*/undo", found.gl_pathc ? GLOB_APPEND : 0, NULL,
		   &found);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char *folder = found.gl_pathv[i], path[PATH_MAX];
		bool dead = true;
		int journal;

		folder[strlen(folder) - strlen("/undo")] = 0;
		path_in(path, folder, "journal");
		journal = open(path, O_RDONLY | O_CLOEXEC);
		if (journal >= 0) {
			dead = !flock(journal, LOCK_EX | LOCK_NB);
			close(journal);
		}
		write_text(answer, folder);
		write_u32(answer, dead);
	}
	globfree(&found);
}

int run_clean(struct reader *asked)
{
	const char *run = read_text(asked);

	if (!run_valid(run))
		return EINVAL;
	while (asked->left) {
		const char *folder = read_text(asked);
		struct undos undos = { 0 };
		struct writer left = { 0 };
		char path[PATH_MAX];

		if (asked->bad || !folder_valid(folder, run))
			return EINVAL;
		path_in(path, folder, "undo");
		if (!content_read(path, &left)) {
			undos_load(&undos, left.at + sizeof(uint32_t),
				   left.length - sizeof(uint32_t));
			run_undo(run, folder, &undos);
		}
		writer_free(&left);
		undos_free(&undos);
	}
	return 0;
}
