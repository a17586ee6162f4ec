/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: what another program says on a memif control channel, and what it writes into the
 * shared memory. A link that is agreed on lies within its memory, every frame lies within the link,
 * and no descriptor is left open.
 */
#include "../tests/fds.h"
#include "input.h"
#include "memif_device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BURST = 32, STEPS = 64 };

extern const struct engine engine_memif;

/* ---- the control channel ------------------------------------------------------------- */

static int region_descriptor(uint64_t bytes)
{
	const int fd = memfd_create("fuzz", MFD_CLOEXEC);

	MUST(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	return fd;
}

/* Memory with the cookies of two rings at its start. */
static int rings_descriptor(uint64_t bytes, uint32_t second)
{
	const int fd = region_descriptor(bytes);
	const uint32_t cookie = MEMIF_COOKIE;

	MUST(pwrite(fd, &cookie, sizeof(cookie), 0) == sizeof(cookie));
	MUST(pwrite(fd, &cookie, sizeof(cookie), second) == sizeof(cookie));
	return fd;
}

static struct memif_message message_take(struct input *in, uint16_t type)
{
	struct memif_message m = { .type = type };

	for (size_t i = 0; i < 16; i++)
		m.room[i] = (uint8_t)take(in, 1);
	memset(m.room + 16, (int)take(in, 1), sizeof(m.room) - 16);
	return m;
}

/* A message that fits the conversation, apart from what the input changes. */
static struct memif_message message_fit(struct input *in, uint16_t type, uint32_t rings, int *fd)
{
	struct memif_message m = { .type = type };
	const uint32_t wrong = choose(in, 16);

	switch (type) {
	case MEMIF_HELLO:
		m.hello.min_version = m.hello.max_version = MEMIF_VERSION;
		m.hello.max_region = m.hello.max_to_client = m.hello.max_to_server = 3;
		m.hello.log2_max = (uint8_t)(wrong ? 6 : take(in, 1));
		break;
	case MEMIF_INIT:
		m.init.version = MEMIF_VERSION;
		break;
	case MEMIF_ADD_REGION:
		m.region.bytes = wrong == 1 ? take(in, 8) : 65536;
		m.region.index = wrong == 2 ? (uint16_t)take(in, 1) : 0;
		*fd = wrong == 3 ? -1 : rings_descriptor(wrong == 4 ? 100 : 65536, 4096);
		break;
	case MEMIF_ADD_RING:
		m.ring.flags = rings & 1;
		m.ring.index = wrong == 1 ? (uint16_t)take(in, 2) : (uint16_t)(rings / 2);
		m.ring.region = wrong == 2 ? (uint16_t)take(in, 2) : 0;
		m.ring.offset = wrong == 3 ? (uint32_t)take(in, 4) : rings % 2 * 4096;
		m.ring.log2 = wrong == 4 ? (uint8_t)take(in, 1) : 6;
		*fd = wrong == 5 ? -1 : eventfd(0, EFD_CLOEXEC);
		break;
	default:
		break;
	}
	return m;
}

static void queues_check(const struct memif_link *link, const struct memif_queue *queues,
			 uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct memif_queue *q = &queues[i];
		const struct memif_region *r = &link->regions[q->region];
		const uint64_t bytes = sizeof(struct memif_ring) +
				       ((uint64_t)sizeof(struct memif_slot) << q->log2);

		MUST(q->region < link->regions_count && q->offset + bytes <= r->bytes);
		MUST((uint8_t *)q->ring == r->base + q->offset && q->ring->cookie == MEMIF_COOKIE);
		/* The last slot can be read. */
		(void)*(volatile uint32_t *)&q->ring->slots[(1u << q->log2) - 1].len;
	}
}

static void talk(struct input *in)
{
	static const uint16_t of_client[] = { MEMIF_INIT, MEMIF_ADD_REGION, MEMIF_ADD_RING,
					      MEMIF_CONNECT, MEMIF_DISCONNECT },
			      of_server[] = { MEMIF_HELLO, MEMIF_ACK, MEMIF_CONNECTED };
	const struct memif_plan plan = {
		.client = take(in, 1) & 1, .queues = 1 + choose(in, 3), .log2 = 6, .buffer = 2048
	};
	struct memif_talk t;
	uint32_t rings = 0;

	memif_talk_begin(&t, &plan);
	for (int step = 0; in->left && step < STEPS; step++) {
		const uint32_t kind = choose(in, 8);
		uint16_t type = plan.client ? of_server[choose(in, 3)] : of_client[choose(in, 5)];
		struct memif_message m, end;
		size_t size = sizeof(m);
		int fd = -1;

		if (kind == 7) {
			type = (uint16_t)take(in, 2);
			m = message_take(in, type);
			fd = take(in, 1) & 1 ? region_descriptor(take(in, 2)) : -1;
			size = take(in, 1) & 7 ? size : take(in, 1);
			size = size < sizeof(m) ? size : sizeof(m);
		} else {
			m = message_fit(in, type, rings, &fd);
			rings += type == MEMIF_ADD_RING;
		}
		if (!memif_talk_hear(&t, &m, size, fd)) {
			MUST(t.why[0]);
			memif_talk_part(&t, &end);
			MUST(end.type == MEMIF_DISCONNECT && memchr(end.disconnect.text, 0, 96));
			break;
		}
		MUST(t.out_count <= (plan.client ? 1 : MEMIF_OUT_MAX)); /* VPP answers one alone */
		if (t.state != MEMIF_IS_CONNECTED)
			continue;
		MUST(t.link->to_server_count == plan.queues &&
		     t.link->to_client_count == plan.queues);
		queues_check(t.link, t.link->to_server, plan.queues);
		queues_check(t.link, t.link->to_client, plan.queues);
	}
	memif_talk_end(&t);
}

/* ---- the shared memory ---------------------------------------------------------------- */

struct pair {
	struct port client, server;
	struct memif_link *link; /* the client's view of the memory */
	char folder[32];
};

static void text_set(struct port *port, const char *name, const char *text)
{
	struct option_value *v = &port->config.options[port->config.option_count++];

	v->name = name;
	snprintf(v->text, sizeof(v->text), "%s", text);
}

static void number_set(struct port *port, const char *name, uint64_t number)
{
	port->config.options[port->config.option_count++] =
		(struct option_value){ .name = name, .number = number };
}

static void port_begin(struct port *port, const struct pair *pair, const char *role)
{
	char path[64];

	*port = (struct port){
		.engine = &engine_memif,
		.config = { .sends = true, .receives = true, .burst = BURST, .frame_max = 1514 }
	};
	snprintf(path, sizeof(path), "%s/s", pair->folder);
	text_set(port, "socket", path);
	text_set(port, "role", role);
	number_set(port, "ring", 64);
	MUST(!port_open(port));
}

static bool pair_open(struct pair *pair)
{
	struct memif_device *d;

	snprintf(pair->folder, sizeof(pair->folder), "/tmp/fuzz-memif-XXXXXX");
	MUST(mkdtemp(pair->folder));
	port_begin(&pair->server, pair, "server");
	port_begin(&pair->client, pair, "client");
	MUST(!memif_device_take(&pair->client, &d));
	for (int i = 0; i < 20000; i++) {
		if (engine_memif.ready(&pair->client) && engine_memif.ready(&pair->server)) {
			pair->link = memif_device_link(d);
			return pair->link;
		}
		usleep(50);
	}
	return false;
}

static void pair_close(struct pair *pair)
{
	memif_link_leave(pair->link);
	engine_memif.close(&pair->client);
	engine_memif.close(&pair->server);
	MUST(!rmdir(pair->folder));
}

/* The bytes of a frame can be read, and written. */
static void frames_touch(const struct frame *f, uint32_t n, uint32_t room)
{
	for (uint32_t i = 0; i < n; i++) {
		volatile uint8_t *data = f[i].data;
		const uint32_t len = room ? room : f[i].len;

		for (uint32_t at = 0; at < len; at += 64)
			data[at]++;
		if (len)
			data[len - 1]++;
	}
}

/* Writes a few bytes of the input anywhere into the memory, mostly into the rings. */
static void memory_write(struct input *in, const struct memif_link *link)
{
	const struct memif_queue *q = choose(in, 2) ? &link->to_server[0] : &link->to_client[0];
	struct memif_slot *s = &q->ring->slots[choose(in, 64)];

	switch (choose(in, 6)) {
	case 0:
		q->ring->head = (uint16_t)take(in, 2);
		break;
	case 1:
		q->ring->tail = (uint16_t)take(in, 2);
		break;
	case 2:
		s->len = (uint32_t)take(in, 4);
		break;
	case 3:
		s->offset = (uint32_t)take(in, 4);
		break;
	case 4:
		s->flags = (uint16_t)take(in, 1);
		s->region = (uint16_t)take(in, 2);
		break;
	default:
		q->ring->flags = (uint16_t)take(in, 1);
		break;
	}
}

static void memory(struct input *in)
{
	struct pair pair = { 0 };
	struct frame f[BURST];

	MUST(pair_open(&pair));
	for (int step = 0; in->left && step < STEPS; step++) {
		struct port *port = take(in, 1) & 1 ? &pair.client : &pair.server;
		const uint32_t n = 1 + choose(in, BURST);
		uint32_t got, taken;

		switch (choose(in, 4)) {
		case 0:
			memory_write(in, pair.link);
			break;
		case 1:
			got = port->rx(port, f, NULL, n);
			MUST(got <= n);
			frames_touch(f, got, 0);
			taken = take(in, 1) & 1 ? port->tx(port, f, got) : 0;
			MUST(taken <= got);
			engine_memif.release(port, f + taken, got - taken);
			break;
		default:
			got = engine_memif.alloc(port, f, n);
			MUST(got <= n);
			frames_touch(f, got, 1514);
			for (uint32_t i = 0; i < got; i++)
				f[i].len = 1 + (uint32_t)take(in, 2) % 1514;
			taken = port->tx(port, f, got);
			MUST(taken <= got);
			engine_memif.release(port, f + taken, got - taken);
			break;
		}
	}
	pair_close(&pair);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	const int before = count_fds();

	if (take(&in, 1) & 1)
		memory(&in);
	else
		talk(&in);
	MUST(count_fds() == before);
	return 0;
}
