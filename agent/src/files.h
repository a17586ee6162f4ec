/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the host, as its client asks for them: each answer begins with 0 or an errno. */
#ifndef SWITCHMARK_FILES_H
#define SWITCHMARK_FILES_H

#include "message.h"

/* A path; answers with its content, behind its length. */
void file_read(struct reader *asked, struct writer *answer);

/* A path and the content, which is the rest. */
void file_write(struct reader *asked, struct writer *answer);

/* A path; answers with 1 if something is there. */
void file_exists(struct reader *asked, struct writer *answer);

/* A path; what is not there is no error. */
void file_remove(struct reader *asked, struct writer *answer);

/* Patterns as glob(7) has them, without its backslashes; answers with path and content of each file that
 * can be read. */
void files_read(struct reader *asked, struct writer *answer);

/* Patterns; answers with path and inode of what each path leads to. */
void files_inodes(struct reader *asked, struct writer *answer);

/* Writes a whole file; 0 or an errno. */
int content_write(const char *path, const uint8_t *content, size_t length);

/* Reads a file into `content` behind its length; 0 or an errno. */
int content_read(const char *path, struct writer *content);

#endif
