/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void wire_open(struct wire *w, int fd)
{
	wire_open_pair(w, fd, fd);
}

void wire_open_pair(struct wire *w, int in, int out)
{
	w->fd = in;
	w->out_fd = out;
	w->filled = w->waiting = w->written = w->capacity = 0;
	w->out = NULL;
	fcntl(in, F_SETFL, fcntl(in, F_GETFL) | O_NONBLOCK);
	if (out != in)
		fcntl(out, F_SETFL, fcntl(out, F_GETFL) | O_NONBLOCK);
}

void wire_close(struct wire *w)
{
	close(w->fd);
	if (w->out_fd != w->fd)
		close(w->out_fd);
	free(w->out);
	w->out = NULL;
	w->fd = -1;
}

static bool head_valid(const struct wire_head *head)
{
	return head->length <= WIRE_PAYLOAD_MAX && head->channel < WIRE_CHANNELS &&
	       head->kind < WIRE_KINDS && head->stream < 3;
}

/* Processes the complete frames in `in`. */
static bool wire_take(struct wire *w, wire_taker *take, void *context)
{
	size_t at = 0;

	while (w->filled - at >= sizeof(struct wire_head)) {
		struct wire_head head;

		memcpy(&head, w->in + at, sizeof(head));
		if (!head_valid(&head))
			return false;
		if (w->filled - at < sizeof(head) + head.length)
			break;
		take(context, &head, w->in + at + sizeof(head));
		at += sizeof(head) + head.length;
	}
	memmove(w->in, w->in + at, w->filled - at);
	w->filled -= at;
	return true;
}

bool wire_read(struct wire *w, wire_taker *take, void *context)
{
	ssize_t got = read(w->fd, w->in + w->filled, sizeof(w->in) - w->filled);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	w->filled += (size_t)got;
	return got > 0 && wire_take(w, take, context);
}

/* Makes room for `size` bytes after the waiting ones. The waiting bytes are moved only after as
 * many bytes were written or added, so each byte is moved once or twice, however many wait. */
static bool wire_room(struct wire *w, size_t size)
{
	const size_t needed = w->waiting + size;
	uint8_t *grown = w->out;

	if (w->written + needed <= w->capacity)
		return true;
	if (w->written < w->waiting || needed > w->capacity) {
		grown = malloc(needed * 2);
		if (!grown)
			return false;
		w->capacity = needed * 2;
	}
	if (w->waiting)
		memmove(grown, w->out + w->written, w->waiting);
	if (grown != w->out)
		free(w->out);
	w->out = grown;
	w->written = 0;
	return true;
}

bool wire_put(struct wire *w, uint16_t channel, enum wire_kind kind, uint8_t stream,
	      const void *payload, size_t length)
{
	struct wire_head head = { .length = (uint32_t)length,
				  .channel = channel,
				  .kind = (uint8_t)kind,
				  .stream = stream };
	uint8_t *at;

	if (!wire_room(w, sizeof(head) + length))
		return false;
	at = w->out + w->written + w->waiting;
	memcpy(at, &head, sizeof(head));
	if (length)
		memcpy(at + sizeof(head), payload, length);
	w->waiting += sizeof(head) + length;
	wire_flush(w); /* the next read reports a closed connection */
	return true;
}

bool wire_put_number(struct wire *w, uint16_t channel, enum wire_kind kind, uint8_t stream,
		     uint32_t number)
{
	return wire_put(w, channel, kind, stream, &number, sizeof(number));
}

bool wire_flush(struct wire *w)
{
	while (w->waiting) {
		ssize_t put = write(w->out_fd, w->out + w->written, w->waiting);

		if (put < 0)
			return errno == EAGAIN || errno == EINTR;
		w->written += (size_t)put;
		w->waiting -= (size_t)put;
	}
	w->written = 0;
	return true;
}

uint32_t wire_number(const struct wire_head *head, const uint8_t *payload)
{
	uint32_t number = 0;

	if (head->length == sizeof(number))
		memcpy(&number, payload, sizeof(number));
	return number;
}
