/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads JSON objects by tables: each member has a name, a kind, a range and a field in a struct. An
 * unknown member, a wrong type or a value beyond its range is rejected with the member's name. The
 * table contains the width of a number, so no caller converts one.
 */
#ifndef SWITCHMARK_SCHEMA_H
#define SWITCHMARK_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_SHOWN 40 /* bytes of a wrong name in an error message */

/* Receives the reason of the first failure. */
struct reader {
	char *why;
	size_t size;
	bool failed;
};

/* Writes the reason unless there is one already. Returns false. */
__attribute__((format(printf, 2, 3))) bool refuse(struct reader *r, const char *format, ...);

enum kind {
	NUMBER, /* an unsigned integer of any width, or an int */
	REAL, /* a double */
	BOOL,
	TEXT, /* a char array */
	CHOICE, /* the index in `choices`, stored like a number */
	MAC, /* uint8_t[6] */
	IPV4, /* uint32_t in host order */
	IPV6, /* uint8_t[16] */
	OTHER, /* the caller reads it */
};

/* One member of an object. A table ends with key NULL. */
struct member {
	const char *key;
	enum kind kind;
	size_t at, bytes; /* of the field in the struct */
	double min, max;
	const char *const *choices; /* ends with NULL */
	bool required;
};

/* Binds a member to a field of a struct. */
#define INTO(type, field)                                                                          \
	.at = offsetof(struct type, field), .bytes = sizeof(((struct type *)0)->field)

/* Reads the members of an object into a struct; the fields of absent members stay unchanged.
 * `where` is the prefix of an error message. */
bool object_read(struct reader *r, const char *where, json_t *object, const struct member *members,
		 void *into);

/* Reads one value. */
bool member_read(struct reader *r, const char *where, const struct member *m, json_t *value,
		 void *into);

/* True if this is a list of 1 to `max` values. `what` names it in an error message. */
bool list_read(struct reader *r, const char *what, json_t *list, uint32_t max, uint32_t *count);

/* Reads a whole number of a list. Returns false, without a reason, for another type or a number
 * beyond the range. */
bool number_read(json_t *value, json_int_t min, json_int_t max, uint32_t *number);

#endif
