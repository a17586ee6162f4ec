/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 65536

const uint8_t *read_bytes(struct reader *r, size_t length)
{
	const uint8_t *found = r->at;

	if (r->bad || length > r->left) {
		r->bad = true;
		return NULL;
	}
	r->at += length;
	r->left -= length;
	return found;
}

uint32_t read_u32(struct reader *r)
{
	const uint8_t *found = read_bytes(r, sizeof(uint32_t));
	uint32_t number = 0;

	if (found)
		memcpy(&number, found, sizeof(number));
	return number;
}

uint64_t read_u64(struct reader *r)
{
	const uint8_t *found = read_bytes(r, sizeof(uint64_t));
	uint64_t number = 0;

	if (found)
		memcpy(&number, found, sizeof(number));
	return number;
}

const char *read_text(struct reader *r)
{
	const uint8_t *end = r->bad || !r->left ? NULL : memchr(r->at, 0, r->left);

	if (!end) {
		r->bad = true;
		return "";
	}
	return (const char *)read_bytes(r, (size_t)(end - r->at) + 1);
}

const uint8_t *read_counted(struct reader *r, uint32_t *length)
{
	const uint8_t *found;

	*length = read_u32(r);
	found = read_bytes(r, *length);
	if (!found)
		*length = 0;
	return found;
}

char **read_texts(struct reader *r, uint32_t count)
{
	size_t there = 0;
	char **texts;

	for (size_t i = 0; i < r->left && there < count; i++)
		there += !r->at[i];
	if (r->bad || (count == UINT32_MAX ? r->left && r->at[r->left - 1] : there < count)) {
		r->bad = true;
		return NULL;
	}
	texts = calloc(there + 1, sizeof(*texts));
	for (size_t i = 0; texts && i < there; i++)
		texts[i] = (char *)(uintptr_t)read_text(r);
	return texts;
}

/* Returns room for `length` more bytes; NULL without memory. */
static uint8_t *writer_room(struct writer *w, size_t length)
{
	if (w->failed)
		return NULL;
	if (length > w->capacity - w->length) {
		size_t capacity = 2 * (w->length + length) + 256;
		uint8_t *grown = realloc(w->at, capacity);

		if (!grown) {
			w->failed = true;
			return NULL;
		}
		w->at = grown;
		w->capacity = capacity;
	}
	return w->at + w->length;
}

void writer_free(struct writer *w)
{
	free(w->at);
	*w = (struct writer){ 0 };
}

void write_bytes(struct writer *w, const void *bytes, size_t length)
{
	uint8_t *at = length ? writer_room(w, length) : NULL;

	if (at) {
		memcpy(at, bytes, length);
		w->length += length;
	}
}

void write_u32(struct writer *w, uint32_t number)
{
	write_bytes(w, &number, sizeof(number));
}

void write_u64(struct writer *w, uint64_t number)
{
	write_bytes(w, &number, sizeof(number));
}

void write_text(struct writer *w, const char *text)
{
	write_bytes(w, text, strlen(text) + 1);
}

int write_file(struct writer *w, int fd)
{
	const size_t start = w->length;
	uint32_t length;
	ssize_t got;

	write_u32(w, 0);
	do {
		uint8_t *at = writer_room(w, CHUNK);

		if (!at)
			return ENOMEM;
		got = read(fd, at, CHUNK);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 || w->length - start > MESSAGE_MAX) {
			w->length = start;
			return got < 0 ? errno : EFBIG;
		}
		w->length += (size_t)got;
	} while (got); /* EINTR: got is -1 */
	length = (uint32_t)(w->length - start - sizeof(length));
	memcpy(w->at + start, &length, sizeof(length));
	return 0;
}
