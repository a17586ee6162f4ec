/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switch for tests, over AF_PACKET or DPDK, with configurable faults. Tests compare the results
 * of switchmark with the faults that this switch injected:
 *
 *     truth_switch [--eal NAME FOLDER QUEUES] [--cpu N] [--drop N] [--duplicate N] [--swap N]
 *                  [--corrupt N] [--stray N] [--ttl N] [--mac N] [--checksum N] [--spread N]
 *                  [--delay-us N] [--delay-from N] [--cap PPS] [--gap-us N] [--gap-after-us N]
 *                  [--lose N] [--lose-from N] [--leak-kib N]
 *                  [--ready FILE] IN OUT WRONG [IN OUT WRONG]...
 *
 * Frames received at IN are sent at OUT. Of the frames of a flow and phase, those whose sequence
 * number is N-1 modulo N get the fault of the option: dropped, sent twice, sent after their
 * successor in the flow, sent with a flipped bit, sent to the port WRONG, sent with a TTL reduced
 * by one as by a router, with a changed source MAC, with a wrong IP header checksum, or with
 * changed UDP ports (and with different ones in a duplicate), so that a device that spreads flows
 * assigns the frame to another flow. --delay-us delays every frame; --cap drops frames above a
 * rate. --gap-us drops the frames that are due in so many microseconds, from --gap-after-us after the
 * first frame of a phase on. --lose drops N frames of the measured phase, from number --lose-from of
 * a flow on. --delay-from delays only the frames from this number of the measured phase on.
 * --leak-kib takes so much memory with every thousandth frame. FILE is created when the switch forwards.
 *
 * A port is the name of an interface, or a DPDK device ("net_vhost0,iface=..."), where the source
 * port of a frame selects the queue; NAME and FOLDER are those of DPDK's files.
 */
#include "checksum.h"
#include "clock.h"
#include "engine.h"
#include "payload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORTS_MAX 16
#define BURST 32
#define BYTES_MAX 9728
#define FLOWS 16 /* per path, for swapping frames */
#define QUEUE 4096 /* delayed frames */
#define BUFFER (64 << 20)

/* An interface, or a DPDK device, which has one port per queue. */
struct end {
	const char *name;
	int fd;
	struct port *queues;
};

struct held {
	uint64_t due_ns;
	size_t len;
	const struct end *out;
	uint8_t bytes[BYTES_MAX];
};

struct path {
	const struct end *in, *out, *wrong;
	struct {
		size_t len;
		uint8_t bytes[BYTES_MAX];
	} swapped[FLOWS]; /* by flow: the frame that is sent after the next one */
	uint16_t phase;
	uint64_t passed, since_ns; /* in this phase */
	uint16_t gap_phase;
	uint64_t gap_from_ns; /* the due time of the first frame of this phase */
};

static uint64_t every_drop, every_duplicate, every_swap, every_corrupt, every_stray, every_ttl,
	every_mac, every_checksum, every_spread, delay_us, cap, gap_us, gap_after_us, delay_from,
	lose, lose_from, leak_kib;
static struct held queue[QUEUE];
static uint64_t queue_head, queue_tail;
static struct end ends[3 * PORTS_MAX];
static const char *eal_name, *eal_folder;
static uint32_t eal_queues;

static int interface_attach(const char *name)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0), one = 1, size = BUFFER;

	to.sll_ifindex = (int)if_nametoindex(name);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	if (!to.sll_ifindex ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    bind(fd, (struct sockaddr *)&to, sizeof(to))) {
		fprintf(stderr, "%s: %s\n", name, strerror(errno));
		exit(1);
	}
	return fd;
}

static void option_set(struct port_config *c, const char *name, uint64_t number, const char *text)
{
	struct option_value *v = &c->options[c->option_count++];

	v->name = name;
	v->number = number;
	snprintf(v->text, sizeof(v->text), "%s", text);
}

/* The port of the first queue receives from all queues. */
static struct port *device_attach(const char *device)
{
	struct port *ports = aligned_alloc(CACHE_LINE, eal_queues * sizeof(*ports));

	if (!ports || !engine_find("dpdk"))
		exit(1);
	memset(ports, 0, eal_queues * sizeof(*ports));
	for (uint32_t q = 0; q < eal_queues; q++) {
		struct port *p = &ports[q];

		p->engine = engine_find("dpdk");
		p->config = (struct port_config){ .sends = true,
						  .receives = !q,
						  .forwards = true,
						  .burst = BURST,
						  .frame_max = 1518,
						  .queue = q };
		option_set(&p->config, "device", 0, device);
		option_set(&p->config, "queues", eal_queues, "");
		option_set(&p->config, "prefix", 0, eal_name);
		option_set(&p->config, "directory", 0, eal_folder);
		if (port_open(p)) {
			fprintf(stderr, "%s: %s\n", device, p->why);
			exit(1);
		}
		p->engine->enter(p);
	}
	return ports;
}

/* Returns the port with this name; attaches it at the first use. */
static const struct end *end_attach(const char *name)
{
	struct end *e = ends;

	while (e->name && strcmp(e->name, name))
		e++;
	if (e->name)
		return e;
	e->name = name;
	if (strchr(name, ','))
		e->queues = device_attach(name);
	else
		e->fd = interface_attach(name);
	return e;
}

/* Selects the queue by the source port, like a device that spreads flows. */
static void device_send(struct port *queues, const uint8_t *bytes, size_t len)
{
	const uint64_t until = clock_monotonic_ns() + 100000000;
	const uint16_t source = ntohs(load16(bytes + ETH_BYTES + IP_BYTES));
	struct port *p = &queues[source % eal_queues];
	struct frame f;

	if (!p->engine->alloc(p, &f, 1))
		return;
	memcpy(f.data, bytes, len);
	f.len = (uint32_t)len;
	while (!p->tx(p, &f, 1))
		if (clock_monotonic_ns() > until) {
			p->engine->release(p, &f, 1);
			return;
		}
}

static void frame_send(const struct end *out, const uint8_t *bytes, size_t len)
{
	if (out->queues)
		device_send(out->queues, bytes, len);
	else
		while (send(out->fd, bytes, len, 0) < 0 && (errno == EAGAIN || errno == ENOBUFS))
			;
}

static void frame_pass(const struct end *out, const uint8_t *bytes, size_t len, bool delayed)
{
	struct held *h;

	if (!delay_us || !delayed) {
		frame_send(out, bytes, len);
		return;
	}
	if (queue_tail - queue_head == QUEUE)
		return;
	h = &queue[queue_tail++ % QUEUE];
	h->due_ns = clock_monotonic_ns() + delay_us * 1000;
	h->len = len;
	h->out = out;
	memcpy(h->bytes, bytes, len);
}

static void queue_run(void)
{
	while (queue_head < queue_tail &&
	       clock_monotonic_ns() >= queue[queue_head % QUEUE].due_ns) {
		const struct held *h = &queue[queue_head++ % QUEUE];

		frame_send(h->out, h->bytes, h->len);
	}
}

static bool is_chosen(uint64_t every, uint32_t seq)
{
	return every && seq % every == every - 1;
}

/* True if a frame of a phase is within the rate limit, at the time when the switch handles it. */
static bool is_within_cap(struct path *w, uint16_t phase)
{
	uint64_t now = clock_monotonic_ns();

	if (phase != w->phase || !w->since_ns) {
		w->phase = phase;
		w->since_ns = now;
		w->passed = 0;
	}
	if ((double)w->passed > (double)(now - w->since_ns) * (double)cap / 1e9)
		return false;
	w->passed++;
	return true;
}

/* True if a frame of a phase was due in the gap. */
static bool is_in_gap(struct path *w, uint16_t phase, uint64_t due_ns)
{
	if (phase != w->gap_phase || !w->gap_from_ns) {
		w->gap_phase = phase;
		w->gap_from_ns = due_ns;
	}
	return due_ns - w->gap_from_ns - gap_after_us * 1000 < gap_us * 1000;
}

/* Returns the offset of the payload of a frame in a tunnel; the inner frame starts at `at`. */
static size_t inside_find(const uint8_t *bytes, size_t at)
{
	const bool v6 = load16(bytes + at + ETH_BYTES - 2) == htons(0x86dd);

	return at + ETH_BYTES + (v6 ? IP6_BYTES : IP_BYTES) + UDP_BYTES;
}

/* Returns the offset of a test frame's payload after any headers; 0: not a test frame. */
static size_t payload_find(const uint8_t *bytes, size_t len)
{
	size_t ip = ETH_BYTES, at;

	if (len < FRAME_MIN)
		return 0;
	if (load16(bytes + 12) == htons(0x8100))
		ip += VLAN_BYTES;
	at = ip + (load16(bytes + ip - 2) == htons(0x86dd) ? IP6_BYTES : IP_BYTES) + UDP_BYTES;
	if (at + 8 + ETH_BYTES <= len && load16(bytes + at - UDP_BYTES + 2) == htons(VXLAN_PORT))
		at = inside_find(bytes, at + 8);
	return len >= at + PAYLOAD_BYTES ? at : 0;
}

static void ttl_lower(uint8_t *ip)
{
	ip[8]--;
	store16(ip + 10, 0);
	store16(ip + 10, (uint16_t)~checksum_fold(checksum_add(ip, IP_BYTES)));
}

/* Changes the ports so that the UDP checksum stays correct. */
static void ports_shift(uint8_t *udp, uint16_t by)
{
	store16(udp, htons((uint16_t)(ntohs(load16(udp)) + by)));
	store16(udp + 2, htons((uint16_t)(ntohs(load16(udp + 2)) - by)));
}

/* Takes memory and uses it. */
static void memory_leak(void)
{
	static uint64_t frames;
	void *memory;

	if (!leak_kib || ++frames % 1000)
		return;
	memory = malloc(leak_kib << 10);
	if (memory)
		memset(memory, 1, leak_kib << 10);
	__asm__ volatile("" : : "r"(memory) : "memory"); /* it is never freed */
}

static void path_frame(struct path *w, uint8_t *bytes, size_t len)
{
	const size_t payload = payload_find(bytes, len);
	uint32_t seq, flow;
	bool measured, delayed;

	memory_leak();
	if (!payload) {
		frame_pass(w->out, bytes, len, true);
		return;
	}
	seq = ntohl(load32(bytes + payload + 6));
	measured = ntohs(load16(bytes + payload + 4)) >> 14 == PHASE_MEASURED;
	if (measured && seq - lose_from < lose)
		return;
	delayed = !delay_from || (measured && seq >= delay_from);
	if (is_chosen(every_drop, seq) || (cap && !is_within_cap(w, load16(bytes + payload + 4))))
		return;
	if (gap_us &&
	    is_in_gap(w, load16(bytes + payload + 4), net64(load64(bytes + payload + 10))))
		return;
	flow = payload_flow(bytes + payload) % FLOWS;
	if (is_chosen(every_swap, seq) && !w->swapped[flow].len) {
		memcpy(w->swapped[flow].bytes, bytes, len);
		w->swapped[flow].len = len;
		return;
	}
	if (is_chosen(every_corrupt, seq))
		bytes[payload + PAYLOAD_BYTES - 1] ^= 1;
	if (is_chosen(every_ttl, seq))
		ttl_lower(bytes + ETH_BYTES);
	if (is_chosen(every_mac, seq))
		bytes[ETH_BYTES - 3] ^= 1;
	if (is_chosen(every_checksum, seq))
		bytes[ETH_BYTES + 10] ^= 1;
	if (is_chosen(every_spread, seq))
		ports_shift(bytes + ETH_BYTES + IP_BYTES, (uint16_t)(1 + seq % 97));
	frame_pass(is_chosen(every_stray, seq) ? w->wrong : w->out, bytes, len, delayed);
	if (is_chosen(every_duplicate, seq)) {
		if (every_spread)
			ports_shift(bytes + ETH_BYTES + IP_BYTES, (uint16_t)(1 + seq % 89));
		frame_pass(w->out, bytes, len, delayed);
	}
	if (w->swapped[flow].len) {
		frame_pass(w->out, w->swapped[flow].bytes, w->swapped[flow].len, delayed);
		w->swapped[flow].len = 0;
	}
}

/* Forwards frames received at a kernel or DPDK port. */
static void path_run(struct path *w)
{
	static uint8_t bytes[BYTES_MAX];
	struct port *p = w->in->queues;
	struct frame frames[BURST];
	uint32_t n = p ? p->rx(p, frames, NULL, BURST) : 0;

	for (uint32_t i = 0; i < n; i++)
		path_frame(w, frames[i].data, frames[i].len);
	if (n)
		p->engine->release(p, frames, n);
	for (int i = 0; !p && i < BURST; i++) {
		ssize_t len = recv(w->in->fd, bytes, sizeof(bytes), 0);

		if (len <= 0)
			break;
		path_frame(w, bytes, (size_t)len);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		uint64_t *value;
	} options[] = { { "--drop", &every_drop },
			{ "--duplicate", &every_duplicate },
			{ "--swap", &every_swap },
			{ "--corrupt", &every_corrupt },
			{ "--stray", &every_stray },
			{ "--ttl", &every_ttl },
			{ "--mac", &every_mac },
			{ "--checksum", &every_checksum },
			{ "--spread", &every_spread },
			{ "--delay-us", &delay_us },
			{ "--delay-from", &delay_from },
			{ "--lose", &lose },
			{ "--lose-from", &lose_from },
			{ "--leak-kib", &leak_kib },
			{ "--cap", &cap },
			{ "--gap-us", &gap_us },
			{ "--gap-after-us", &gap_after_us } };
	static struct path paths[PORTS_MAX];
	const char *ready = "/dev/null";
	uint32_t count = 0;
	int i = 1;

	if (argc > 4 && !strcmp(argv[1], "--eal")) {
		eal_name = argv[2];
		eal_folder = argv[3];
		eal_queues = (uint32_t)atoi(argv[4]);
		i = 5;
	}
	for (; i + 1 < argc && !strncmp(argv[i], "--", 2); i += 2) {
		if (!strcmp(argv[i], "--ready"))
			ready = argv[i + 1];
		if (!strcmp(argv[i], "--cpu")) {
			cpu_set_t set;

			CPU_ZERO(&set);
			CPU_SET((unsigned)atoi(argv[i + 1]), &set);
			if (sched_setaffinity(0, sizeof(set), &set))
				return 1;
		}
		for (size_t o = 0; o < sizeof(options) / sizeof(options[0]); o++)
			if (!strcmp(argv[i], options[o].name))
				*options[o].value = strtoull(argv[i + 1], NULL, 10);
	}
	for (; i + 2 < argc && count < PORTS_MAX; i += 3)
		paths[count++] = (struct path){ .in = end_attach(argv[i]),
						.out = end_attach(argv[i + 1]),
						.wrong = end_attach(argv[i + 2]) };
	if (!count)
		return 2;
	if (!freopen(ready, "w", stdout))
		return 1;
	for (;;) {
		queue_run();
		for (uint32_t w = 0; w < count; w++)
			path_run(&paths[w]);
	}
}
