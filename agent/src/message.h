/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages are what the agent is asked and what it answers: numbers in the machine's byte order, texts
 * that end with a NUL, and bytes behind their length. A reader that finds too little is `bad`, and
 * gives zeros and empty texts from then on.
 */
#ifndef SWITCHMARK_MESSAGE_H
#define SWITCHMARK_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_MAX (1u << 28) /* bytes; what is longer is neither taken nor told */

struct reader {
	const uint8_t *at;
	size_t left;
	bool bad;
};

uint32_t read_u32(struct reader *r);
uint64_t read_u64(struct reader *r);

/* A text that ends with a NUL; never NULL. */
const char *read_text(struct reader *r);

/* So many bytes, or NULL. */
const uint8_t *read_bytes(struct reader *r, size_t length);

/* Bytes behind their length, a uint32_t. */
const uint8_t *read_counted(struct reader *r, uint32_t *length);

/* `count` texts, or all that are left where it is UINT32_MAX, as an array that ends with NULL; it is to be
 * freed, the texts are not. NULL without memory, or where the texts are bad. */
char **read_texts(struct reader *r, uint32_t count);

struct writer {
	uint8_t *at;
	size_t length, capacity;
	bool failed; /* without memory */
};

void writer_free(struct writer *w);

void write_u32(struct writer *w, uint32_t number);
void write_u64(struct writer *w, uint64_t number);
void write_text(struct writer *w, const char *text);
void write_bytes(struct writer *w, const void *bytes, size_t length);

/* All that a file gives from where it stands, behind its length, a uint32_t. 0, or an errno, EFBIG where
 * that is too much for a message: then nothing was written. */
int write_file(struct writer *w, int fd);

#endif
