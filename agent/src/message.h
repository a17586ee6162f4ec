/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: the requests to the agent and its answers. They contain numbers in the machine's byte
 * order, texts that end with a NUL, and bytes preceded by their length. A reader that runs out of
 * data becomes `bad`, and returns zeros and empty texts from then on.
 */
#ifndef SWITCHMARK_MESSAGE_H
#define SWITCHMARK_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_MAX (1u << 28) /* bytes; longer messages are neither accepted nor sent */

struct reader {
	const uint8_t *at;
	size_t left;
	bool bad;
};

uint32_t read_u32(struct reader *r);
uint64_t read_u64(struct reader *r);

/* Returns a text that ends with a NUL; never NULL. */
const char *read_text(struct reader *r);

/* Returns `length` bytes, or NULL. */
const uint8_t *read_bytes(struct reader *r, size_t length);

/* Returns bytes preceded by their length, a uint32_t. */
const uint8_t *read_counted(struct reader *r, uint32_t *length);

/* Returns `count` texts, or all remaining ones if it is UINT32_MAX, as an array that ends with
 * NULL. The caller frees the array, not the texts. Returns NULL without memory or for invalid
 * texts. */
char **read_texts(struct reader *r, uint32_t count);

struct writer {
	uint8_t *at;
	size_t length, capacity;
	bool failed; /* out of memory */
};

void writer_free(struct writer *w);

void write_u32(struct writer *w, uint32_t number);
void write_u64(struct writer *w, uint64_t number);
void write_text(struct writer *w, const char *text);
void write_bytes(struct writer *w, const void *bytes, size_t length);

/* Appends the rest of a file, preceded by its length, a uint32_t. Returns 0 or an errno; EFBIG if
 * the file is too long for a message: then nothing was written. */
int write_file(struct writer *w, int fd);

#endif
