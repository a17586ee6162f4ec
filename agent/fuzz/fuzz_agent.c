/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: the agent's parsers, with valid and invalid data. The requests are not executed:
 * commands are parsed and dropped, a record of undos is read and written again, and messages with
 * an unknown verb arrive in pieces of any size.
 */
#include "serve.c"

#include "input.h"

#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_command(const uint8_t *data, size_t size)
{
	struct reader r = { .at = data, .left = size };
	struct commands c;

	commands_open(&c);
	if (commands_ask(&c, 1, &r)) {
		const struct command *taken = c.first;

		MUST(taken && taken->words[0] && !taken->next);
		for (char **word = taken->words; *word; word++)
			MUST((uint8_t *)*word + strlen(*word) < taken->bytes + size);
	}
	commands_close(&c);
	MUST(!c.first);
}

static void take_record(const uint8_t *data, size_t size)
{
	struct undos u = { 0 }, again = { 0 };
	struct writer record = { 0 };

	undos_load(&u, data, size);
	for (size_t i = 0; i < u.count; i++) {
		MUST(!i || u.at[i - 1].number < u.at[i].number);
		undo_note(&record, u.at[i].number, u.at[i].kind, u.at[i].bytes, u.at[i].length);
	}
	MUST(undos_load(&again, record.at, record.length) && again.count == u.count);
	for (size_t i = 0; i < u.count; i++)
		MUST(again.at[i].length == u.at[i].length &&
		     !memcmp(again.at[i].bytes, u.at[i].bytes, u.at[i].length));
	writer_free(&record);
	undos_free(&u);
	undos_free(&again);
}

/* Messages in parts: each is answered once, with its number. */
static void take_messages(struct input *in)
{
	static struct agent g;
	uint32_t number = 0;
	int pair[2];

	MUST(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	memset(&g, 0, sizeof(g));
	commands_open(&g.commands);
	wire_open(&g.wire, pair[0]);
	while (in->left && number < 64) {
		const uint32_t head[2] = { ++number, ASK_CLEAN + 1 + choose(in, 1000) };
		struct wire_head frame = { .length = sizeof(head), .kind = WIRE_ASK };
		uint32_t parts = choose(in, 4), told[2];

		frame.stream = parts > 0;
		MUST(agent_hear(&g, &frame, (const uint8_t *)head));
		while (parts--) {
			frame.length =
				choose(in, in->left + 1 < 200 ? (uint32_t)in->left + 1 : 200);
			if (frame.length > in->left)
				frame.length = (uint32_t)in->left;
			frame.stream = parts > 0;
			MUST(agent_hear(&g, &frame, in->data));
			in->data += frame.length;
			in->left -= frame.length;
		}
		MUST(!g.asked.length);
		MUST(recv(pair[1], &frame, sizeof(frame), MSG_DONTWAIT) == sizeof(frame));
		MUST(frame.kind == WIRE_ANSWER && frame.length == sizeof(told));
		MUST(recv(pair[1], told, sizeof(told), MSG_DONTWAIT) == sizeof(told));
		MUST(told[0] == number && told[1] == ENOSYS);
	}
	wire_close(&g.wire);
	writer_free(&g.asked);
	close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	const uint32_t which = choose(&in, 3);

	if (which == 0)
		take_command(in.data, in.left);
	else if (which == 1)
		take_record(in.data, in.left);
	else
		take_messages(&in);
	return 0;
}
