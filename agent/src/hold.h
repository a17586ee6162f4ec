/* SPDX-License-Identifier: Apache-2.0 */
/* Runs with state on this host while their leader is connected. Each has a folder here, with a
 * locked journal and its undos, which are executed when the connection ends. */
#ifndef SWITCHMARK_HOLD_H
#define SWITCHMARK_HOLD_H

#include "undo.h"

#include <sys/types.h>

struct hold {
	struct hold *next;
	char run[8];
	char *folder;
	int journal, record;
	struct undos undos;
};

struct holds {
	struct hold *first;
	bool kept; /* a run has state that must stay */
};

/* Request: run, folder, name of the subfolder for a second journal, names of folders to create.
 * Answer: the folder, the boot id, and the holder of the run: pid, start time. Waits for the end of
 * an agent that still holds the run. */
void hold_begin(struct holds *h, struct reader *asked, struct writer *answer);

/* Request: folder, number, kind, and the undo. For a lease this function reads the old content. */
int hold_note(struct holds *h, struct reader *asked);

/* Request: folder, and a line of the journal. */
int hold_journal(struct holds *h, struct reader *asked);

/* Request: folder, and whether to keep it for `clean`. */
int hold_end(struct holds *h, struct reader *asked);

/* Answers with the folder of each run that has undos here, and whether it is dead. */
void runs_list(struct writer *answer);

/* Request: run and folders. Executes the remaining undos, which takes seconds. */
int run_clean(struct reader *asked);

/* Executes the undos of all holds, which takes seconds. */
void holds_close(struct holds *h);

#endif
