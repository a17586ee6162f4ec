/* SPDX-License-Identifier: Apache-2.0 */
#include "memif_talk.h"

#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HUGE_BYTES ((uint64_t)2 << 20)

/* ---- links ------------------------------------------------------------------------- */

static struct memif_link *link_make(bool client)
{
	struct memif_link *link = lines_alloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->users = 1;
	link->client = client;
	return link;
}

void memif_link_leave(struct memif_link *link)
{
	if (!link || atomic_fetch_sub(&link->users, 1) != 1)
		return;
	for (uint32_t i = 0; i < link->regions_count; i++) {
		if (link->regions[i].base)
			munmap(link->regions[i].base, link->regions[i].bytes);
		close(link->regions[i].fd);
	}
	for (uint32_t i = 0; i < link->to_server_count; i++)
		close(link->to_server[i].wake);
	for (uint32_t i = 0; i < link->to_client_count; i++)
		close(link->to_client[i].wake);
	free(link);
}

static uint32_t ring_bytes(uint8_t log2)
{
	return (uint32_t)(sizeof(struct memif_ring) + (sizeof(struct memif_slot) << log2));
}

/* ---- both ends --------------------------------------------------------------------- */

static bool talk_fail(struct memif_talk *t, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static bool talk_fail(struct memif_talk *t, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(t->why, sizeof(t->why), format, args);
	va_end(args);
	return false;
}

static struct memif_message *talk_say(struct memif_talk *t, enum memif_type type, int fd)
{
	struct memif_message *m = &t->out[t->out_count];

	memset(m, 0, sizeof(*m));
	m->type = (uint16_t)type;
	t->out_fds[t->out_count++] = fd;
	return m;
}

/* Copies a name, which may have no end. */
static void name_copy(char *to, size_t size, const char *name, size_t most)
{
	snprintf(to, size, "%.*s", (int)strnlen(name, most), name);
	for (char *c = to; *c; c++)
		*c = *c < ' ' || *c > '~' ? '?' : *c;
}

/* ---- the client: it makes the memory ------------------------------------------------ */

/* Writes the slots of a ring, with their buffers. */
static void ring_fill(const struct memif_link *link, const struct memif_queue *q, uint32_t number,
		      uint32_t buffer)
{
	const uint32_t slots = 1u << q->log2;

	*q->ring = (struct memif_ring){ .cookie = MEMIF_COOKIE };
	for (uint32_t s = 0; s < slots; s++)
		q->ring->slots[s] = (struct memif_slot){
			.len = buffer,
			.offset = (uint32_t)(link->buffers +
					     ((uint64_t)number * slots + s) * link->stride),
		};
}

static bool queue_make(struct memif_talk *t, struct memif_queue *q, uint32_t number, uint8_t log2)
{
	struct memif_link *link = t->link;

	q->offset = number * ring_bytes(log2);
	q->log2 = log2;
	q->ring = (struct memif_ring *)(link->regions[0].base + q->offset);
	ring_fill(link, q, number, t->plan->buffer);
	q->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return q->wake >= 0;
}

static bool region_make(struct memif_talk *t, uint64_t bytes)
{
	struct memif_region *r = &t->link->regions[0];
	const unsigned int huge = t->plan->huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0;

	r->bytes = t->plan->huge ? (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES : bytes;
	r->fd = memfd_create("switchmark-memif", MFD_CLOEXEC | MFD_ALLOW_SEALING | huge);
	if (r->fd < 0)
		return talk_fail(t, "memfd_create: %s", strerror(errno));
	t->link->regions_count = 1;
	/* A server may insist that the memory cannot vanish. */
	if (ftruncate(r->fd, (off_t)r->bytes) || fcntl(r->fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return talk_fail(t, "memory of %llu bytes: %s", (unsigned long long)r->bytes,
				 strerror(errno));
	r->base = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, 0);
	if (r->base == MAP_FAILED) {
		r->base = NULL;
		return talk_fail(t, "no memory of %llu bytes%s: %s", (unsigned long long)r->bytes,
				 t->plan->huge ? " in hugepages" : "", strerror(errno));
	}
	return true;
}

/* Makes the memory: the rings to the server, those to the client, and the buffers of each. */
static bool link_build(struct memif_talk *t, uint8_t log2)
{
	const uint32_t queues = t->plan->queues;
	struct memif_link *link = t->link = link_make(true);

	if (!link)
		return talk_fail(t, "no memory for a link");
	/* An odd number of lines: the first lines of buffers 2048 bytes apart would share a few sets of
	 * a cache. */
	link->stride = ((t->plan->buffer + CACHE_LINE - 1) / CACHE_LINE | 1) * CACHE_LINE;
	link->buffers = ((uint64_t)2 * queues * ring_bytes(log2) + CACHE_LINE - 1) / CACHE_LINE *
			CACHE_LINE;
	if (link->buffers + ((uint64_t)2 * queues << log2) * link->stride > UINT32_MAX)
		return talk_fail(t, "queues and rings need more than 4 GiB");
	if (!region_make(t, link->buffers + ((uint64_t)2 * queues << log2) * link->stride))
		return false;
	for (uint32_t i = 0; i < queues; i++) {
		struct memif_queue *to_server = &link->to_server[i],
				   *to_client = &link->to_client[i];

		if (!queue_make(t, to_server, i, log2))
			return talk_fail(t, "eventfd: %s", strerror(errno));
		link->to_server_count++;
		if (!queue_make(t, to_client, queues + i, log2))
			return talk_fail(t, "eventfd: %s", strerror(errno));
		link->to_client_count++;
		to_client->ring->flags = MEMIF_NO_WAKE;
	}
	return true;
}

static void ring_say(struct memif_talk *t, const struct memif_queue *queues, uint32_t i,
		     uint16_t flags)
{
	struct memif_message *m = talk_say(t, MEMIF_ADD_RING, queues[i].wake);

	m->ring.flags = flags;
	m->ring.index = (uint16_t)i;
	m->ring.offset = queues[i].offset;
	m->ring.log2 = queues[i].log2;
}

/* Returns how many messages a client says after its first one: the region, the rings, and that it
 * is connected. */
static uint32_t messages_of_client(const struct memif_talk *t)
{
	return 2 + 2 * t->plan->queues;
}

/* Says the next message, after the answer to the one before. VPP sends one answer for each message
 * that it hears later: of several at once it would keep the last answers. */
static void client_says_next(struct memif_talk *t)
{
	const uint32_t queues = t->plan->queues, ring = t->said - 1;
	struct memif_message *m;

	if (t->said == 0) {
		m = talk_say(t, MEMIF_ADD_REGION, t->link->regions[0].fd);
		m->region.bytes = t->link->regions[0].bytes;
	} else if (ring < queues) {
		ring_say(t, t->link->to_server, ring, MEMIF_TO_SERVER);
	} else if (ring < 2 * queues) {
		ring_say(t, t->link->to_client, ring - queues, 0);
	} else if (t->said < messages_of_client(t)) {
		m = talk_say(t, MEMIF_CONNECT, -1);
		memcpy(m->connect.name, "switchmark", sizeof("switchmark"));
	} else {
		return;
	}
	t->said++;
}

static bool client_hears_hello(struct memif_talk *t, const struct memif_message *in)
{
	const uint8_t log2 = in->hello.log2_max < t->plan->log2 ? in->hello.log2_max :
								  t->plan->log2;
	const uint32_t queues = t->plan->queues;
	struct memif_message *m;

	if (in->hello.min_version > MEMIF_VERSION || in->hello.max_version < MEMIF_VERSION)
		return talk_fail(t, "the server has no memif 2.0");
	if (in->hello.max_to_server < queues - 1 || in->hello.max_to_client < queues - 1 || !log2)
		return talk_fail(t, "the server has fewer than %u queues", queues);
	if (!link_build(t, log2))
		return false;
	name_copy(t->link->peer, sizeof(t->link->peer), in->hello.name, sizeof(in->hello.name));
	m = talk_say(t, MEMIF_INIT, -1);
	m->init.version = MEMIF_VERSION;
	m->init.id = t->plan->id;
	m->init.mode = MEMIF_ETHERNET;
	memcpy(m->init.name, "switchmark", sizeof("switchmark"));
	t->state = MEMIF_AWAITS_REST;
	return true;
}

/* Offers all buffers. Not before: a server of DPDK sets both positions to 0 when it connects. */
static bool client_hears_connected(struct memif_talk *t)
{
	for (uint32_t i = 0; i < t->link->to_client_count; i++) {
		struct memif_queue *q = &t->link->to_client[i];

		__atomic_store_n(&q->ring->head, (uint16_t)(1u << q->log2), __ATOMIC_RELEASE);
	}
	t->state = MEMIF_IS_CONNECTED;
	return true;
}

/* ---- the server: it accepts the memory ---------------------------------------------- */

static bool server_hears_init(struct memif_talk *t, const struct memif_message *in)
{
	if (in->init.version != MEMIF_VERSION || in->init.mode != MEMIF_ETHERNET)
		return talk_fail(t, "only Ethernet by memif 2.0 is supported");
	if (in->init.id != t->plan->id)
		return talk_fail(t, "there is no interface %u", in->init.id);
	t->link = link_make(false);
	if (!t->link)
		return talk_fail(t, "no memory for a link");
	name_copy(t->link->peer, sizeof(t->link->peer), in->init.name, sizeof(in->init.name));
	t->state = MEMIF_AWAITS_REST;
	talk_say(t, MEMIF_ACK, -1);
	return true;
}

static bool server_hears_region(struct memif_talk *t, const struct memif_message *in, int *fd)
{
	struct memif_link *link = t->link;

	if (*fd < 0 || in->region.index != link->regions_count ||
	    link->regions_count == MEMIF_REGIONS_MAX)
		return talk_fail(t, "a region without memory, or out of order");
	link->regions[link->regions_count++] =
		(struct memif_region){ .bytes = in->region.bytes, .fd = *fd };
	*fd = -1;
	talk_say(t, MEMIF_ACK, -1);
	return true;
}

static bool server_hears_ring(struct memif_talk *t, const struct memif_message *in, int *fd)
{
	struct memif_link *link = t->link;
	const bool to_server = in->ring.flags & MEMIF_TO_SERVER;
	struct memif_queue *queues = to_server ? link->to_server : link->to_client;
	uint32_t *count = to_server ? &link->to_server_count : &link->to_client_count;

	if (*fd < 0 || in->ring.index != *count || *count == t->plan->queues)
		return talk_fail(t, "a ring without an event, out of order, or one too many");
	if (in->ring.log2 > MEMIF_LOG2_MAX || in->ring.private_bytes)
		return talk_fail(t, "a ring is too long, or has private headers");
	queues[(*count)++] = (struct memif_queue){ .region = in->ring.region,
						   .offset = in->ring.offset,
						   .log2 = in->ring.log2,
						   .wake = *fd };
	*fd = -1;
	talk_say(t, MEMIF_ACK, -1);
	return true;
}

static bool region_map(struct memif_talk *t, struct memif_region *r)
{
	struct stat found;
	void *base;

	/* Memory beyond the end of a file would kill this program when it is read. A descriptor
	 * may also be a device, whose size is unknown. */
	if (fstat(r->fd, &found) || (S_ISREG(found.st_mode) && (uint64_t)found.st_size < r->bytes))
		return talk_fail(t, "a region is shorter than announced");
	base = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (base == MAP_FAILED)
		return talk_fail(t, "a region of %llu bytes cannot be mapped: %s",
				 (unsigned long long)r->bytes, strerror(errno));
	r->base = base;
	return true;
}

static bool rings_map(struct memif_talk *t, struct memif_queue *queues, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct memif_queue *q = &queues[i];
		const struct memif_region *r = &t->link->regions[q->region % MEMIF_REGIONS_MAX];

		if (q->region >= t->link->regions_count ||
		    (uint64_t)q->offset + ring_bytes(q->log2) > r->bytes || q->offset % 16)
			return talk_fail(t, "a ring is outside of its region");
		q->ring = (struct memif_ring *)(r->base + q->offset);
		if (q->ring->cookie != MEMIF_COOKIE)
			return talk_fail(t, "a ring has a wrong cookie");
	}
	return true;
}

static bool server_hears_connect(struct memif_talk *t)
{
	struct memif_link *link = t->link;

	if (link->to_server_count != t->plan->queues || link->to_client_count != t->plan->queues)
		return talk_fail(t, "the client has %u and %u rings for %u queues",
				 link->to_server_count, link->to_client_count, t->plan->queues);
	for (uint32_t i = 0; i < link->regions_count; i++)
		if (!region_map(t, &link->regions[i]))
			return false;
	if (!rings_map(t, link->to_server, link->to_server_count) ||
	    !rings_map(t, link->to_client, link->to_client_count))
		return false;
	for (uint32_t i = 0; i < link->to_server_count; i++)
		link->to_server[i].ring->flags = MEMIF_NO_WAKE;
	memcpy(talk_say(t, MEMIF_CONNECTED, -1)->connect.name, "switchmark", sizeof("switchmark"));
	t->state = MEMIF_IS_CONNECTED;
	return true;
}

/* ---- the conversation --------------------------------------------------------------- */

void memif_talk_begin(struct memif_talk *t, const struct memif_plan *plan)
{
	struct memif_message *m;

	memset(t, 0, sizeof(*t));
	t->plan = plan;
	if (plan->client)
		return;
	m = talk_say(t, MEMIF_HELLO, -1);
	memcpy(m->hello.name, "switchmark", sizeof("switchmark"));
	m->hello.min_version = m->hello.max_version = MEMIF_VERSION;
	m->hello.max_region = MEMIF_REGIONS_MAX - 1;
	m->hello.max_to_client = m->hello.max_to_server = (uint16_t)(plan->queues - 1);
	m->hello.log2_max = MEMIF_LOG2_MAX;
}

static bool client_hears(struct memif_talk *t, const struct memif_message *in)
{
	if (in->type == MEMIF_ACK && t->state == MEMIF_AWAITS_REST) {
		client_says_next(t);
		return true;
	}
	if (in->type == MEMIF_HELLO && t->state == MEMIF_AWAITS_FIRST)
		return client_hears_hello(t, in);
	if (in->type == MEMIF_CONNECTED && t->state == MEMIF_AWAITS_REST &&
	    t->said == messages_of_client(t))
		return client_hears_connected(t);
	return talk_fail(t, "message %u is not expected here", in->type);
}

static bool server_hears(struct memif_talk *t, const struct memif_message *in, int *fd)
{
	if (in->type == MEMIF_INIT && t->state == MEMIF_AWAITS_FIRST)
		return server_hears_init(t, in);
	if (t->state == MEMIF_AWAITS_REST) {
		switch (in->type) {
		case MEMIF_ADD_REGION:
			return server_hears_region(t, in, fd);
		case MEMIF_ADD_RING:
			return server_hears_ring(t, in, fd);
		case MEMIF_CONNECT:
			return server_hears_connect(t);
		default:
			break;
		}
	}
	return talk_fail(t, "message %u is not expected here", in->type);
}

bool memif_talk_hear(struct memif_talk *t, const void *packet, size_t size, int fd)
{
	struct memif_message in;
	char text[sizeof(in.disconnect.text) + 1];
	bool goes_on;

	t->out_count = 0;
	if (size != sizeof(in)) {
		goes_on = talk_fail(t, "a message of %zu bytes", size);
	} else {
		memcpy(&in, packet, sizeof(in));
		if (in.type == MEMIF_DISCONNECT) {
			name_copy(text, sizeof(text), in.disconnect.text,
				  sizeof(in.disconnect.text));
			goes_on = talk_fail(t, "the other end disconnected: %s", text);
		} else if (t->plan->client) {
			goes_on = client_hears(t, &in);
		} else {
			goes_on = server_hears(t, &in, &fd);
		}
	}
	if (fd >= 0)
		close(fd);
	return goes_on;
}

void memif_talk_part(const struct memif_talk *t, struct memif_message *m)
{
	memset(m, 0, sizeof(*m));
	m->type = MEMIF_DISCONNECT;
	snprintf(m->disconnect.text, sizeof(m->disconnect.text), "%.*s",
		 (int)sizeof(m->disconnect.text) - 1, t->why);
}

void memif_talk_end(struct memif_talk *t)
{
	memif_link_leave(t->link);
	t->link = NULL;
}
