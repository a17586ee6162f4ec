/* SPDX-License-Identifier: Apache-2.0 */
#include "undo.h"

#include "child.h"
#include "files.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND_MS 30000
#define ROUNDS 3
#define MARK "SWITCHMARK_RUN="
#define NAME_MAX_ 64

/* ---- the list ----------------------------------------------------------------------- */

static void undo_drop(struct undos *u, size_t at)
{
	free(u->at[at].bytes);
	memmove(u->at + at, u->at + at + 1, (--u->count - at) * sizeof(*u->at));
}

bool undos_add(struct undos *u, uint32_t number, uint32_t kind, const uint8_t *bytes, size_t length)
{
	struct undo added = { .number = number, .kind = kind, .length = length };
	size_t at = u->count;

	if (kind >= UNDO_KINDS)
		return false;
	while (at && u->at[at - 1].number > number)
		at--;
	if (at && u->at[at - 1].number == number)
		undo_drop(u, --at);
	if (kind == UNDO_DONE)
		return true;
	if (u->count == u->capacity) {
		const size_t capacity = 2 * u->capacity + 16;
		struct undo *grown = realloc(u->at, capacity * sizeof(*grown));

		if (!grown)
			return false;
		u->at = grown;
		u->capacity = capacity;
	}
	added.bytes = malloc(length + 1);
	if (!added.bytes)
		return false;
	if (length)
		memcpy(added.bytes, bytes, length);
	memmove(u->at + at + 1, u->at + at, (u->count++ - at) * sizeof(*u->at));
	u->at[at] = added;
	return true;
}

void undo_note(struct writer *w, uint32_t number, uint32_t kind, const uint8_t *bytes,
	       size_t length)
{
	write_u32(w, (uint32_t)length);
	write_u32(w, number);
	write_u32(w, kind);
	write_bytes(w, bytes, length);
}

bool undos_load(struct undos *u, const uint8_t *bytes, size_t length)
{
	struct reader r = { .at = bytes, .left = length };

	while (r.left) {
		const uint32_t size = read_u32(&r), number = read_u32(&r), kind = read_u32(&r);
		const uint8_t *payload = read_bytes(&r, size);

		if (r.bad || !undos_add(u, number, kind, payload, size))
			return false;
	}
	return true;
}

void undos_free(struct undos *u)
{
	while (u->count)
		undo_drop(u, u->count - 1);
	free(u->at);
	*u = (struct undos){ 0 };
}

/* ---- execution ------------------------------------------------------------------------ */

static void run_command(char *const words[], const uint8_t *input, size_t length)
{
	const int in = input ? memory_file("stdin", input, length) :
			       open("/dev/null", O_RDONLY | O_CLOEXEC);
	const int out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	const int fds[3] = { in, out, out };
	pid_t pid = in < 0 || out < 0 ? -1 : child_start(fds, NULL, words);

	if (pid > 0) {
		const int pidfd = process_open(pid, process_start_time(pid));

		if (pidfd < 0 || !process_wait(pidfd, COMMAND_MS))
			kill(-pid, SIGKILL);
		if (pidfd >= 0)
			close(pidfd);
		waitpid(pid, NULL, 0);
	}
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
}

static void undo_command(struct reader *r)
{
	const bool fed = read_u32(r);
	uint32_t length;
	const uint8_t *input = read_counted(r, &length);
	char **words = read_texts(r, UINT32_MAX);

	if (!r->bad && words && words[0])
		run_command(words, fed ? input : NULL, length);
	free(words);
}

static void undo_stop(struct reader *r)
{
	const pid_t pid = (pid_t)read_u32(r);
	const uint64_t start = read_u64(r);
	const int number = (int)read_u32(r);
	const uint32_t grace_ms = read_u32(r);
	const int pidfd = r->bad ? -1 : process_open(pid, start);

	if (pidfd < 0)
		return;
	if (number < NSIG)
		process_fd_signal(pidfd, number);
	if (!process_wait(pidfd, grace_ms < COMMAND_MS ? (int)grace_ms : COMMAND_MS))
		process_fd_signal(pidfd, SIGKILL);
	process_wait(pidfd, COMMAND_MS);
	close(pidfd);
}

/* Returns the number at the start of a text. */
static int64_t number_of(const uint8_t *content, size_t length)
{
	char text[32] = { 0 };

	memcpy(text, content, length < sizeof(text) - 1 ? length : sizeof(text) - 1);
	return strtoll(text, NULL, 10);
}

/* Restores an old value, or reduces a count by what was added since, but at most by the run's
 * share. */
static void undo_lease(struct reader *r)
{
	const bool counted = read_u32(r);
	const int64_t most = (int64_t)read_u64(r);
	const char *path = read_text(r);
	struct writer now = { 0 };
	char text[32];

	if (r->bad)
		return;
	if (!counted) {
		content_write(path, r->at, r->left);
		return;
	}
	if (!content_read(path, &now) && now.length > sizeof(uint32_t)) {
		const int64_t count =
			number_of(now.at + sizeof(uint32_t), now.length - sizeof(uint32_t));
		int64_t added = count - number_of(r->at, r->left);

		if (added > most)
			added = most;
		snprintf(text, sizeof(text), "%" PRId64 "\n", count - added);
		if (added > 0)
			content_write(path, (const uint8_t *)text, strlen(text));
	}
	writer_free(&now);
}

static void undo_carry_out(const struct undo *undo)
{
	struct reader r = { .at = undo->bytes, .left = undo->length };
	const char *path;

	switch (undo->kind) {
	case UNDO_COMMAND:
		undo_command(&r);
		return;
	case UNDO_WRITE:
		path = read_text(&r);
		if (!r.bad)
			content_write(path, r.at, r.left);
		return;
	case UNDO_REMOVE:
		path = read_text(&r);
		if (!r.bad)
			unlink(path);
		return;
	case UNDO_STOP:
		undo_stop(&r);
		return;
	case UNDO_LEASE:
		undo_lease(&r);
		return;
	default:
		return;
	}
}

/* ---- processes and interfaces with the run's id ----------------------------------------- */

static bool process_marked(const char *number, const char *mark)
{
	char path[NAME_MAX_];
	struct writer variables = { 0 };
	struct reader r;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%.20s/environ", number);
	if (!content_read(path, &variables)) {
		r = (struct reader){ .at = variables.at, .left = variables.length };
		(void)read_u32(&r);
		while (r.left && !r.bad && !found)
			found = !strcmp(read_text(&r), mark);
	}
	writer_free(&variables);
	return found;
}

/* Signals every process with the mark. Returns false if there is none. */
static bool marked_signal(const char *mark, int number)
{
	DIR *all = opendir("/proc");
	struct dirent *entry;
	bool any = false;

	while (all && (entry = readdir(all))) {
		const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid < 2 || pid == getpid() || !process_marked(entry->d_name, mark))
			continue;
		any = true;
		if (number)
			kill(pid, number);
	}
	if (all)
		closedir(all);
	return any;
}

static void delete_by_ip(const char *what, const char *how, const char *name)
{
	char *words[] = { (char *)"ip", (char *)(uintptr_t)what, (char *)(uintptr_t)how,
			  (char *)(uintptr_t)name, NULL };

	run_command(words, NULL, 0);
}

static void namespaces_delete(const char *prefix)
{
	DIR *all = opendir("/run/netns");
	struct dirent *each;

	while (all && (each = readdir(all)))
		if (!strncmp(each->d_name, prefix, strlen(prefix)))
			delete_by_ip("netns", "del", each->d_name);
	if (all)
		closedir(all);
}

static void links_delete(const char *prefix)
{
	struct if_nameindex *all = if_nameindex();

	for (struct if_nameindex *each = all; each && each->if_index; each++)
		if (!strncmp(each->if_name, prefix, strlen(prefix)))
			delete_by_ip("link", "del", each->if_name);
	if (all)
		if_freenameindex(all);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	remove(path);
	return 0;
}

void folder_remove(const char *folder)
{
	nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

bool run_valid(const char *run)
{
	if (strlen(run) != 6 || run[0] != 's' || run[1] != 'm')
		return false;
	for (int i = 2; i < 6; i++)
		if (!isxdigit((unsigned char)run[i]))
			return false;
	return true;
}

void run_undo(const char *run, const char *folder, struct undos *u)
{
	static const int signals[] = { SIGTERM, SIGTERM, SIGKILL };
	char mark[NAME_MAX_], prefix[NAME_MAX_];

	snprintf(mark, sizeof(mark), MARK "%.6s", run);
	snprintf(prefix, sizeof(prefix), "%.6s-", run);
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = u->count; i-- > 0;) {
			undo_carry_out(&u->at[i]);
			/* A count is reduced only once. */
			if (u->at[i].kind == UNDO_LEASE)
				undo_drop(u, i);
		}
		if (!marked_signal(mark, 0)) {
			/* During an exec a process has no mark for a moment. */
			if (round)
				break;
			usleep(100000);
			continue;
		}
		for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
			if (marked_signal(mark, signals[i]))
				usleep(300000);
	}
	namespaces_delete(prefix);
	links_delete(prefix);
	folder_remove(folder);
}
