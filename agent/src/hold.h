/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that have something on this host while their leader is connected: each has a folder here, with its journal,
 * which is locked, and its undos, which are carried out when the connection ends. */
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
	bool kept; /* something of a run is to stay */
};

/* Run, folder, name of the folder within it where there are two journals, names of folders to make. Answers
 * with the folder, the name of this boot, and who holds the run: pid, start time. Waits for the end of an agent that
 * still holds it. */
void hold_begin(struct holds *h, struct reader *asked, struct writer *answer);

/* Folder, number, kind, and the undo. Of a lease the old content is read here. */
int hold_note(struct holds *h, struct reader *asked);

/* Folder, and a line of the journal. */
int hold_journal(struct holds *h, struct reader *asked);

/* Folder, and whether it is to stay, for `clean`. */
int hold_end(struct holds *h, struct reader *asked);

/* Answers with the folder of each run that has undos here, and whether it is dead. */
void runs_list(struct writer *answer);

/* Run, and folders of it: undoes what is left. Takes seconds. */
int run_clean(struct reader *asked);

/* Undoes all that is held. Takes seconds. */
void holds_close(struct holds *h);

#endif
