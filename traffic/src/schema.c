/* SPDX-License-Identifier: Apache-2.0 */
#include "schema.h"

#include "text.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool refuse(struct reader *r, const char *format, ...)
{
	va_list args;

	if (!r->failed) {
		va_start(args, format);
		vsnprintf(r->why, r->size, format, args);
		va_end(args);
		r->failed = true;
	}
	return false;
}

static bool mac_parse(const char *text, uint8_t mac[6])
{
	unsigned b[6];
	char rest;

	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%c", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5],
		   &rest) != 6)
		return false;
	for (int i = 0; i < 6; i++)
		mac[i] = (uint8_t)b[i];
	return true;
}

static void number_store(void *into, size_t bytes, uint64_t number)
{
	switch (bytes) {
	case 1:
		*(uint8_t *)into = (uint8_t)number;
		return;
	case 2:
		*(uint16_t *)into = (uint16_t)number;
		return;
	case 4:
		*(uint32_t *)into = (uint32_t)number;
		return;
	default:
		*(uint64_t *)into = number;
	}
}

bool member_read(struct reader *r, const char *where, const struct member *m, json_t *value,
		 void *into)
{
	const char *text = json_string_value(value);
	void *field = (char *)into + m->at;
	struct in_addr address;

	switch (m->kind) {
	case NUMBER:
		if (!json_is_integer(value) || (double)json_integer_value(value) < m->min ||
		    (double)json_integer_value(value) > m->max)
			return refuse(r, "%s: %s is not a whole number from %.0f to %.0f", where,
				      m->key, m->min, m->max);
		number_store(field, m->bytes, (uint64_t)json_integer_value(value));
		return true;
	case REAL:
		if (!json_is_number(value) || !(json_number_value(value) >= m->min) ||
		    !(json_number_value(value) <= m->max))
			return refuse(r, "%s: %s is not a number from %g to %g", where, m->key,
				      m->min, m->max);
		*(double *)field = json_number_value(value);
		return true;
	case BOOL:
		if (!json_is_boolean(value))
			return refuse(r, "%s: %s is neither true nor false", where, m->key);
		*(bool *)field = json_is_true(value);
		return true;
	case TEXT:
		if (!text || strlen(text) >= m->bytes)
			return refuse(r, "%s: %s is not a text below %zu bytes", where, m->key,
				      m->bytes);
		memcpy(field, text, strlen(text) + 1);
		return true;
	case CHOICE:
		for (uint32_t i = 0; text && m->choices[i]; i++) {
			if (!strcmp(m->choices[i], text)) {
				number_store(field, m->bytes, i);
				return true;
			}
		}
		return refuse(r, "%s: %s has no such value", where, m->key);
	case MAC:
		if (!text || !mac_parse(text, field))
			return refuse(r, "%s: %s is not a MAC", where, m->key);
		return true;
	case IPV4:
		if (!text || inet_pton(AF_INET, text, &address) != 1)
			return refuse(r, "%s: %s is not an IPv4 address", where, m->key);
		*(uint32_t *)field = ntohl(address.s_addr);
		return true;
	case IPV6:
		if (!text || inet_pton(AF_INET6, text, field) != 1)
			return refuse(r, "%s: %s is not an IPv6 address", where, m->key);
		return true;
	case OTHER:
		return true;
	}
	return false;
}

bool object_read(struct reader *r, const char *where, json_t *object, const struct member *members,
		 void *into)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return refuse(r, "%s: not an object", where);
	json_object_foreach(object, key, value) {
		const struct member *m = members;

		while (m->key && strcmp(m->key, key))
			m++;
		if (!m->key)
			return refuse(r, "%s: unknown member '%.*s'", where,
				      (int)text_cut(key, NAME_SHOWN), key);
		if (!member_read(r, where, m, value, into))
			return false;
	}
	for (const struct member *m = members; m->key; m++)
		if (m->required && !json_object_get(object, m->key))
			return refuse(r, "%s: %s is missing", where, m->key);
	return true;
}

bool list_read(struct reader *r, const char *what, json_t *list, uint32_t max, uint32_t *count)
{
	if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > max)
		return refuse(r, "%s is not a list of 1 to %u", what, max);
	*count = (uint32_t)json_array_size(list);
	return true;
}

bool number_read(json_t *value, json_int_t min, json_int_t max, uint32_t *number)
{
	if (!json_is_integer(value) || json_integer_value(value) < min ||
	    json_integer_value(value) > max)
		return false;
	*number = (uint32_t)json_integer_value(value);
	return true;
}
