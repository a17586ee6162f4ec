/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdint.h>
#include <stdio.h>

/* Returns the length of the character that starts here, by RFC 3629; 0 if it is invalid. The text's
 * NUL ends a truncated character. */
static size_t character_bytes(const uint8_t *at)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t bytes = at[0] < 0x80 ? 1 :
		       at[0] < 0xc0 ? 0 :
		       at[0] < 0xe0 ? 2 :
		       at[0] < 0xf0 ? 3 :
		       at[0] < 0xf8 ? 4 :
				      0;
	uint32_t code = at[0] & (0x7fu >> bytes);

	if (bytes < 2)
		return bytes;
	for (size_t i = 1; i < bytes; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (at[i] & 0x3f);
	}
	/* Overlong encodings, surrogates, values beyond Unicode. */
	if (code < least[bytes] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff)
		return 0;
	return bytes;
}

size_t text_cut(const char *text, size_t most)
{
	size_t at = 0, bytes;

	while (at < most && text[at]) {
		bytes = character_bytes((const uint8_t *)text + at);
		if (at + bytes > most)
			break;
		at += bytes ? bytes : 1;
	}
	return at;
}

void text_mend(char *text)
{
	size_t bytes;

	for (; *text; text += bytes ? bytes : 1) {
		bytes = character_bytes((const uint8_t *)text);
		if (!bytes)
			*text = '?';
	}
}

json_t *text_json(const char *text)
{
	char copy[512];

	snprintf(copy, sizeof(copy), "%s", text);
	text_mend(copy);
	return json_string(copy);
}
