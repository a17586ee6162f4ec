/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts text from users and libraries to JSON, which accepts valid UTF-8 only: truncates it
 * between characters and replaces invalid bytes.
 */
#ifndef SWITCHMARK_TEXT_H
#define SWITCHMARK_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* A JSON integer. */
#define COUNT(value) ((json_int_t)(value))

/* Returns the length of the whole characters within the first `most` bytes of a text. */
size_t text_cut(const char *text, size_t most);

/* Replaces each byte that is not part of a valid character with '?'. */
void text_mend(char *text);

/* Returns a JSON string of the first 511 bytes of any text, such as one from a library. */
json_t *text_json(const char *text);

#endif
