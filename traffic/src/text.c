/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdint.h>
#include <stdio.h>

/* The bytes of the character that begins here, as RFC 3629 has it; 0 if none does. The text's NUL
 * ends a character that is cut. */
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
	/* Written longer than needed, half of a UTF-16 pair, beyond Unicode. */
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
