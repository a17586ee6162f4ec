/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of users and of libraries on its way into JSON, which takes valid UTF-8 only: cut between
 * characters, and mended where it is none.
 */
#ifndef SWITCHMARK_TEXT_H
#define SWITCHMARK_TEXT_H

#include <jansson.h>
#include <stddef.h>

/* A whole number of JSON. */
#define COUNT(value) ((json_int_t)(value))

/* How many bytes the whole characters take that fit into the first `most` bytes of a text. */
size_t text_cut(const char *text, size_t most);

/* Writes '?' over each byte of a text that belongs to no whole character. */
void text_mend(char *text);

/* A JSON string of the first 511 bytes, whatever they are: engines and their libraries write
 * some. */
json_t *text_json(const char *text);

#endif
