/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The undos of a run on this host. The run's folder has a file, `undo`, to which every undo is
 * appended before the action that it reverts: any process that finds the file can execute the
 * undos, even after the agent was killed.
 */
#ifndef SWITCHMARK_UNDO_H
#define SWITCHMARK_UNDO_H

#include "message.h"

enum undo_kind {
	UNDO_DONE, /* the undo with that number was executed */
	UNDO_COMMAND, /* whether it has input, input, words */
	UNDO_WRITE, /* path, content */
	UNDO_REMOVE, /* path */
	UNDO_STOP, /* pid, start time (uint64_t), signal, ms of grace */
	UNDO_LEASE, /* whether it is a count, maximum to subtract (uint64_t), path, old content */
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

/* Adds an undo, replacing the one with the same number; UNDO_DONE removes that one. Returns false
 * without memory, or for an unknown kind. */
bool undos_add(struct undos *u, uint32_t number, uint32_t kind, const uint8_t *bytes,
	       size_t length);

/* Adds the contents of a file `undo`, up to a truncated end. */
bool undos_load(struct undos *u, const uint8_t *bytes, size_t length);

/* Writes one undo in the format of the file. */
void undo_note(struct writer *w, uint32_t number, uint32_t kind, const uint8_t *bytes,
	       size_t length);

void undos_free(struct undos *u);

/* True for the id of a run. */
bool run_valid(const char *run);

/* Executes the undos, the last one first, ends every process with the run's mark, removes the run's
 * namespaces and interfaces, and `folder`. Takes seconds. */
void run_undo(const char *run, const char *folder, struct undos *u);

/* Removes a folder with its contents, except mounted file systems. */
void folder_remove(const char *folder);

#endif
