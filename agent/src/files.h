/* SPDX-License-Identifier: Apache-2.0 */
/* File operations on the host for the client: each answer begins with 0 or an errno. */
#ifndef SWITCHMARK_FILES_H
#define SWITCHMARK_FILES_H

#include "message.h"

/* Request: path. Answer: the content, preceded by its length. */
void file_read(struct reader *asked, struct writer *answer);

/* Request: path, and the content as the rest. */
void file_write(struct reader *asked, struct writer *answer);

/* Request: path. Answer: 1 if the file exists. */
void file_exists(struct reader *asked, struct writer *answer);

/* Request: path. A missing file is not an error. */
void file_remove(struct reader *asked, struct writer *answer);

/* Request: patterns as in glob(7), without backslashes. Answer: path and content of each readable
 * file. */
void files_read(struct reader *asked, struct writer *answer);

/* Request: patterns. Answer: each path with the inode that it leads to. */
void files_inodes(struct reader *asked, struct writer *answer);

/* Writes a whole file. Returns 0 or an errno. */
int content_write(const char *path, const uint8_t *content, size_t length);

/* Appends the length and the content of a file to `content`. Returns 0 or an errno. */
int content_read(const char *path, struct writer *content);

#endif
