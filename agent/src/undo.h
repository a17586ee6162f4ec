/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What undoes a run on this host. Its folder has a file, `undo`, to which each undo is added before what it
 * undoes is done: whoever finds that file can carry them out, when the agent was killed, too.
 */
#ifndef SWITCHMARK_UNDO_H
#define SWITCHMARK_UNDO_H

#include "message.h"

enum undo_kind {
	UNDO_DONE, /* the undo of that number was carried out */
	UNDO_COMMAND, /* whether it is fed, input, words */
	UNDO_WRITE, /* path, content */
	UNDO_REMOVE, /* path */
	UNDO_STOP, /* pid, start time (uint64_t), signal, ms of grace */
	UNDO_LEASE, /* whether it is a count, most that is taken off (uint64_t), path, old content */
	UNDO_KINDS
};

struct undo {
	uint32_t number, kind;
	uint8_t *bytes;
	size_t length;
};

struct undos {
	struct undo *at;
	size_t count, capacity;
};

/* Adds an undo in place of the one with its number, if any; UNDO_DONE takes that away. False without memory, or where
 * it is none. */
bool undos_add(struct undos *u, uint32_t number, uint32_t kind, const uint8_t *bytes,
	       size_t length);

/* Adds what a file `undo` holds, up to an end that was cut off. */
bool undos_load(struct undos *u, const uint8_t *bytes, size_t length);

/* One undo as it stands in the file. */
void undo_note(struct writer *w, uint32_t number, uint32_t kind, const uint8_t *bytes,
	       size_t length);

void undos_free(struct undos *u);

/* Is it the id of a run? */
bool run_valid(const char *run);

/* Carries them out, the last one first, ends every process that carries the run's mark, removes its namespaces
 * and interfaces, and `folder`. Takes seconds. */
void run_undo(const char *run, const char *folder, struct undos *u);

/* Removes a folder with all that is in it, but for what is mounted there. */
void folder_remove(const char *folder);

#endif
