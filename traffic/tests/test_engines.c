/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of engines: one test suite for every engine in the table, in a private network
 * namespace with a veth pair. Prints TAP; exits with 1 if a check failed. Built with the address
 * and undefined-behaviour sanitizers, which are a part of the checks.
 */
#include "clock.h"
#include "engine.h"
#include "fds.h"
#include "judge.h"
#include "memif_device.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	BURST = 64,
	OWNED_MAX = 256,
	FRAME_LONGEST = 1400,
};

/* ---- harness ------------------------------------------------------------------------ */

static unsigned int test_number, failures;
static char complaint[1024], skipped[512];

#define CHECK(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			if (!complaint[0]) {                                                       \
				int at = snprintf(complaint, sizeof(complaint),                    \
						  "%s:%d: %s: ", __func__, __LINE__, #condition);  \
				snprintf(complaint + at, sizeof(complaint) - (size_t)at,           \
					 __VA_ARGS__);                                             \
			}                                                                          \
			return;                                                                    \
		}                                                                                  \
	} while (0)

#define SKIP(...)                                                                                  \
	do {                                                                                       \
		snprintf(skipped, sizeof(skipped), __VA_ARGS__);                                   \
		return;                                                                            \
	} while (0)

static uint64_t random_state = 0x243f6a8885a308d3;

static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return n ? (uint32_t)(random_state >> 33) % n : 0;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int run(const char *command)
{
	int status = system(command);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- the network -------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		printf("# cannot write %s: %s\n", path, strerror(errno));
	close(fd);
}

/* With GRO a veth has NAPI and a ring of 256 frames, which XDP redirection needs. Other frames take
 * that path only if their sender has no TSO. */
static bool set_feature(const char *ifname, uint32_t command, bool on)
{
	struct ethtool_value value = { .cmd = command, .data = on };
	struct ifreq request = { .ifr_data = (void *)&value };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool done;

	snprintf(request.ifr_name, IFNAMSIZ, "%s", ifname);
	done = fd >= 0 && !ioctl(fd, SIOCETHTOOL, &request);
	if (fd >= 0)
		close(fd);
	return done;
}

/* Returns NULL, or the reason why there is no network for the tests. */
static const char *network_make(void)
{
	char map[64];
	uid_t uid = geteuid();

	if (uid) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS))
			return "no user namespaces here";
		write_file("/proc/self/setgroups", "deny");
		snprintf(map, sizeof(map), "0 %u 1", uid);
		write_file("/proc/self/uid_map", map);
	} else if (unshare(CLONE_NEWNET | CLONE_NEWNS)) {
		return "no network namespaces here";
	}
	/* A /sys that shows this namespace's interfaces. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("sysfs", "/sys", "sysfs", 0, NULL))
		printf("# /sys shows another namespace: %s\n", strerror(errno));
	write_file("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
	write_file("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
	if (run("ip link set lo up && ip link add sm0 type veth peer name sm1 &&"
		"ip link set sm0 up && ip link set sm1 up"))
		return "cannot make a veth pair with `ip`";
	return NULL;
}

/* ---- ports -------------------------------------------------------------------------- */

/* A path from one port to another; for null both are the same port. */
struct path {
	struct port a, b;
	struct port *tx, *rx;
	uint32_t sent, received; /* the next sequence numbers */
	uint32_t tagged; /* how many of eight frames have a tag */
	bool plain; /* send zeros: the content of received frames is not checked */
	uint32_t least, longest;
};

static void set_number(struct port *port, const char *name, uint64_t number)
{
	const struct option_spec *s = port->engine->options;

	for (; s && s->name; s++)
		if (!strcmp(s->name, name)) {
			struct option_value *v = &port->config.options[port->config.option_count++];

			v->name = s->name;
			v->number = number;
		}
}

static void set_text(struct port *port, const char *name, const char *text)
{
	struct option_value *v = &port->config.options[port->config.option_count++];

	v->name = name;
	snprintf(v->text, sizeof(v->text), "%s", text);
}

/* vhost and virtio-user, both in this process, over a socket in a temporary folder. */
static char folder[] = "/tmp/switchmark-XXXXXX";

static void folder_remove(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	run(command);
}

static bool folder_made(void)
{
	static bool made;

	if (!made && mkdtemp(folder))
		made = !atexit(folder_remove);
	return made;
}

static void devices_prepare(struct path *w)
{
	char device[128];

	(void)folder_made();
	snprintf(device, sizeof(device), "%s/s", folder);
	unlink(device);
	set_text(&w->a, "directory", folder);
	snprintf(device, sizeof(device), "net_vhost0,iface=%s/s,client=0", folder);
	set_text(&w->a, "device", device);
	snprintf(device, sizeof(device), "net_virtio_user0,path=%s/s", folder);
	set_text(&w->b, "device", device);
}

static bool is_memif(const struct engine *e)
{
	return !strcmp(e->name, "memif");
}

/* True: the sending end of a path over memif is the server. */
static bool memif_turned;

static void memif_prepare(struct path *w)
{
	char at[64];

	if (!folder_made())
		return;
	snprintf(at, sizeof(at), "%s/m", folder);
	set_text(&w->a, "socket", at);
	set_text(&w->b, "socket", at);
	set_text(memif_turned ? &w->a : &w->b, "role", "server");
}

static void path_prepare(struct path *w, const struct engine *e)
{
	memset(w, 0, sizeof(*w));
	w->a.engine = w->b.engine = e;
	w->tx = &w->a;
	w->rx = &w->b;
	w->least = e->caps & ENGINE_PAYLOAD ? 1 + 8 : FRAME_MIN;
	w->longest = FRAME_LONGEST;
	/* With GRO a packet socket receives tagged frames before untagged ones that arrived just
	 * before (Linux 6.18 queues the latter in a list): only frames of one kind are in order. */
	w->tagged = e->caps & ENGINE_NEEDS_ROOT ? 8 : 1;
	w->a.config = w->b.config = (struct port_config){
		.burst = BURST,
		.frame_max = 1514,
		.local_ip = htonl(INADDR_LOOPBACK),
		.remote_ip = htonl(INADDR_LOOPBACK),
		.local_port = 20000,
		.remote_port = 20001,
		.flows = 1,
	};
	w->b.config.local_port = 20001;
	w->b.config.remote_port = 20000;
	w->a.config.sends = true;
	w->b.config.receives = true;
	if (e->caps & ENGINE_NEEDS_INTERFACE) {
		snprintf(w->a.config.ifname, IFNAMSIZ, "%s", "sm0");
		snprintf(w->b.config.ifname, IFNAMSIZ, "%s", "sm1");
	}
	if (!strcmp(e->name, "null")) {
		w->rx = &w->a;
		w->a.config.receives = true;
		set_number(&w->a, "loop", 1);
	}
	if (!strcmp(e->name, "dpdk"))
		devices_prepare(w);
	if (!strcmp(e->name, "memif"))
		memif_prepare(w);
	if (!(e->caps & ENGINE_RECEIVES)) {
		w->b.engine = engine_find("raw");
		set_number(&w->b, "buffer", 64 << 20);
	}
}

/* Returns 0, or sets a complaint or a skip. */
static int path_open(struct path *w)
{
	int error = port_open(w->tx);
	struct port *bad = w->tx;

	if (!error && w->rx != w->tx) {
		bad = w->rx;
		error = port_open(w->rx);
		if (error)
			w->tx->engine->close(w->tx);
	}
	if (error == -EPERM || error == -EACCES)
		snprintf(skipped, sizeof(skipped), "not allowed: %s", bad->why);
	else if (error)
		snprintf(complaint, sizeof(complaint), "open: %d %s", error, bad->why);
	for (double start = seconds(); !error && seconds() - start < 1;)
		if (w->tx->engine->ready(w->tx) && w->rx->engine->ready(w->rx))
			break;
	return error;
}

static void path_close(struct path *w)
{
	w->tx->engine->close(w->tx);
	if (w->rx != w->tx)
		w->rx->engine->close(w->rx);
}

static uint32_t hash(uint32_t v)
{
	v = (v ^ (v >> 16)) * 0x7feb352du;
	v = (v ^ (v >> 15)) * 0x846ca68bu;
	return v ^ (v >> 16);
}

/* Returns the random bytes of frame number `seq`. They are made once: to make them for each frame
 * would take a third of the time of these tests. */
static const uint8_t *bytes_of(uint32_t seq)
{
	static uint8_t bytes[1 << 16];
	static uint32_t x;

	if (!x) {
		x = 2654435761u;
		for (size_t i = 0; i < sizeof(bytes); i++) {
			x ^= x << 13;
			x ^= x >> 17;
			x ^= x << 5;
			bytes[i] = (uint8_t)x;
		}
	}
	return bytes + hash(~seq) % (sizeof(bytes) - FRAME_BYTES_MAX);
}

/* Writes frame number `seq`, whose length and bytes depend only on `seq`. Some frames have a VLAN
 * tag. */
static uint32_t content(const struct path *w, uint8_t *out, uint32_t seq)
{
	const uint32_t len = w->least + 4 + hash(seq) % (w->longest - w->least - 4);
	uint32_t at = 0;

	if (!(w->tx->engine->caps & ENGINE_PAYLOAD)) {
		static const uint8_t head[] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1 };

		memcpy(out, head, sizeof(head));
		at = sizeof(head);
		if (seq % 8 < w->tagged) {
			store16(out + at, net16(0x8100));
			store16(out + at + 2, net16((uint16_t)(0x2000 | (seq & 0xfff))));
			at += 4;
		}
		store16(out + at, net16(0x88b5)); /* EtherType for local experiments */
		at += 2;
	}
	store32(out + at, seq);
	at += 4;
	memcpy(out + at, bytes_of(seq), len - at);
	return len;
}

static bool matches(const struct path *w, const struct frame *f, uint32_t seq)
{
	uint8_t expected[FRAME_BYTES_MAX];
	uint32_t len = content(w, expected, seq);

	return f->len == len && !memcmp(f->data, expected, len);
}

/* Fills frames with the next numbers and sends them; returns the number of frames taken. */
static uint32_t send_next(struct path *w, struct frame *f, uint32_t n)
{
	uint32_t k;

	for (uint32_t i = 0; i < n; i++)
		f[i].len = w->plain ? w->least : content(w, f[i].data, w->sent + i);
	k = w->tx->tx(w->tx, f, n);
	w->sent += k;
	return k;
}

static void shuffle(struct frame *f, uint32_t n)
{
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = random_below(i);
		struct frame swap = f[i - 1];

		f[i - 1] = f[k];
		f[k] = swap;
	}
}

/*
 * Receives frames until `until` have arrived or a moment passes without a frame; every frame must
 * be the next one in sequence.
 */
static void receive_in_order(struct path *w, uint32_t until)
{
	double last = seconds();
	struct frame f[BURST];

	for (;;) {
		uint32_t n = w->rx->rx(w->rx, f, NULL, 1 + random_below(BURST));

		CHECK(n <= BURST, "%u frames", n);
		for (uint32_t i = 0; i < n; i++) {
			CHECK(matches(w, &f[i], w->received),
			      "frame %u, %u bytes, is not the one that was sent", w->received,
			      f[i].len);
			w->received++;
		}
		shuffle(f, n);
		w->rx->engine->release(w->rx, f, n);
		if (n)
			last = seconds();
		else if (w->received >= until || seconds() - last > 0.5)
			return;
	}
}

/* Receives frames until none arrive, and counts them. */
static uint64_t receive_all(struct path *w, double quiet)
{
	double last = seconds();
	struct frame f[BURST];
	uint64_t count = 0;

	while (seconds() - last < quiet) {
		uint32_t n = w->rx->rx(w->rx, f, NULL, BURST);

		w->rx->engine->release(w->rx, f, n);
		count += n;
		if (n)
			last = seconds();
	}
	return count;
}

static uint64_t tx_drops(struct path *w)
{
	struct engine_stats s = { 0 };

	w->tx->engine->stats(w->tx, &s);
	return s.tx_drops;
}

static uint64_t rx_drops(struct path *w)
{
	struct engine_stats s = { 0 };

	w->rx->engine->stats(w->rx, &s);
	return s.rx_ring_drops;
}

/* Returns how many frames can be allocated at once: all free ones. */
static uint32_t capacity(struct path *w)
{
	static struct frame f[1 << 20];
	uint32_t n = 0, got;

	while (n < sizeof(f) / sizeof(f[0]) - BURST &&
	       (got = w->tx->engine->alloc(w->tx, f + n, BURST)))
		n += got;
	w->tx->engine->release(w->tx, f, n);
	return n;
}

/* ---- the contract ------------------------------------------------------------------- */

static void the_table_is_complete(const struct engine *e)
{
	CHECK(e->name && e->name[0] && e->summary && e->summary[0], "no name or summary");
	CHECK(e->open && e->ready && e->alloc && e->tx && e->rx && e->release && e->stats &&
		      e->close,
	      "a function is missing");
	CHECK(e->caps & (ENGINE_SENDS | ENGINE_RECEIVES), "neither sends nor receives");
	CHECK(engine_find(e->name) == e, "not found by its name");
	for (const struct option_spec *s = e->options; s && s->name; s++) {
		CHECK(s->help && s->help[0], "option %s has no help", s->name);
		CHECK(s->type == OPTION_TEXT || !s->choices, "option %s", s->name);
		CHECK(s->type == OPTION_TEXT || (s->min <= s->preset && s->preset <= s->max),
		      "the preset of option %s is out of range", s->name);
	}
}

static void refuses_an_interface_that_is_not_there(const struct engine *e)
{
	struct path w;
	int before, error;

	if (!(e->caps & ENGINE_NEEDS_INTERFACE))
		SKIP("works without an interface");
	path_prepare(&w, e);
	snprintf(w.tx->config.ifname, IFNAMSIZ, "%s", "nosuch0");
	before = count_fds();
	error = port_open(w.tx);
	CHECK(error < 0, "open gave %d", error);
	CHECK(w.tx->why[0], "no reason given");
	CHECK(!w.tx->priv, "memory is left");
	CHECK(count_fds() == before, "%d descriptors, %d before", count_fds(), before);
}

static void opens_closes_and_opens_again(const struct engine *e)
{
	struct path w;
	int before = count_fds();

	for (int i = 0; i < 5; i++) {
		path_prepare(&w, e);
		if (path_open(&w))
			return;
		path_close(&w);
		if (!i)
			/* a library may keep some descriptors open after the first use */
			before = count_fds();
		CHECK(!w.tx->priv && !w.rx->priv, "memory is left");
	}
	CHECK(count_fds() == before, "%d descriptors, %d before", count_fds(), before);
}

static void says_how_it_works(const struct engine *e)
{
	struct path w;
	struct frame f;
	bool ready;

	path_prepare(&w, e);
	if (path_open(&w))
		return;
	ready = e->ready(w.tx);
	f.len = w.rx->rx(w.rx, &f, NULL, 1); /* no frame arrived: returns at once */
	path_close(&w);
	CHECK(w.tx->mode[0], "port->mode is empty");
	CHECK(ready, "the link is up, and the port not ready");
	CHECK(!f.len, "a frame came from nowhere");
	printf("# %s: %s\n", e->name, w.tx->mode);
}

/* Allocates random numbers of frames, and sends them in any order or releases them unsent. */
static void rounds(struct path *w)
{
	const struct engine *e = w->tx->engine;
	struct frame owned[OWNED_MAX];
	uint32_t held = 0;

	for (int round = 0; round < 2000; round++) {
		uint32_t n = random_below(BURST + 1), k;

		switch (random_below(3)) {
		case 0:
			if (n > OWNED_MAX - held)
				n = OWNED_MAX - held;
			k = e->alloc(w->tx, owned + held, n);
			CHECK(k <= n, "asked for %u frames, got %u", n, k);
			for (uint32_t i = held; i < held + k; i++)
				for (uint32_t j = 0; j < i; j++)
					CHECK(owned[i].data != owned[j].data,
					      "a frame given twice");
			held += k;
			break;
		case 1:
			/* In allocation order, as the core does, or in any other order. */
			if (random_below(2))
				shuffle(owned, held);
			if (n > held)
				n = held;
			k = send_next(w, owned, n);
			CHECK(k <= n, "%u frames to send, %u taken", n, k);
			memmove(owned, owned + k, (held - k) * sizeof(owned[0]));
			held -= k;
			receive_in_order(w, w->sent);
			if (complaint[0])
				return;
			CHECK(w->received == w->sent, "%u sent, %u received", w->sent, w->received);
			break;
		default:
			if (random_below(2))
				shuffle(owned, held);
			if (n > held)
				n = held;
			held -= n;
			e->release(w->tx, owned + held, n);
			break;
		}
	}
	e->release(w->tx, owned, held);
}

static void no_frame_is_given_twice_or_lost(const struct engine *e)
{
	struct path w;
	uint32_t before, after;
	double start;

	path_prepare(&w, e);
	set_number(memif_turned ? w.rx : w.tx, "ring",
		   64); /* small, so that the ring wraps around many times */
	if (path_open(&w))
		return;
	if (memif_turned)
		rounds(&w); /* a server sends from another pool after a frame out of order */
	before = capacity(&w);
	rounds(&w);
	start = seconds();
	do
		after = capacity(&w);
	while (after < before && seconds() - start < 1);
	path_close(&w);
	CHECK(before >= BURST, "%u frames to begin with", before);
	CHECK(after == before, "%u frames to begin with, %u in the end", before, after);
	CHECK(w.sent > 4000, "only %u frames were sent: %s", w.sent, w.tx->why);
	CHECK(!w.tx->failed && !w.rx->failed, "%s%s", w.tx->why, w.rx->why);
}

static void stream(struct path *w, uint32_t count)
{
	struct frame f[BURST];

	while (w->received < count) {
		uint32_t n = count - w->sent < BURST ? count - w->sent : BURST, k = 0;

		n = w->tx->engine->alloc(w->tx, f, n);
		for (int tries = 0; k < n && tries < 1000; tries++)
			k += send_next(w, f + k, n - k);
		w->tx->engine->release(w->tx, f + k, n - k);
		CHECK(k == n, "%u of %u frames taken: %s", k, n, w->tx->why);
		receive_in_order(w, w->sent);
		if (complaint[0])
			return;
		CHECK(w->received == w->sent, "%u sent, %u received", w->sent, w->received);
	}
}

static void frames_arrive_whole_in_order_and_once(const struct engine *e)
{
	struct path w;

	path_prepare(&w, e);
	if (path_open(&w))
		return;
	stream(&w, 10000);
	if (!complaint[0] && receive_all(&w, 0.05))
		snprintf(complaint, sizeof(complaint), "more frames than were sent");
	if (!complaint[0] && (tx_drops(&w) || rx_drops(&w)))
		snprintf(complaint, sizeof(complaint), "drops are counted, and nothing was lost");
	path_close(&w);
}

static void frames_go_on_after_one_was_returned_unsent(const struct engine *e)
{
	struct frame f[2];
	struct path w;
	uint32_t n;

	path_prepare(&w, e);
	if (path_open(&w))
		return;
	n = w.tx->engine->alloc(w.tx, f, 2);
	CHECK(n == 2, "%u frames of 2", n);
	w.tx->engine->release(w.tx, f, 1);
	CHECK(send_next(&w, f + 1, 1) == 1, "the second frame was not taken: %s", w.tx->why);
	receive_in_order(&w, w.sent);
	if (!complaint[0])
		stream(&w, 5000);
	path_close(&w);
}

static void frames_received_stay_until_released(const struct engine *e)
{
	struct frame f[BURST], kept[BURST];
	uint32_t n = 0, first, i;
	struct path w;

	if (!(e->caps & ENGINE_RECEIVES))
		SKIP("only sends");
	path_prepare(&w, e);
	/* A ring of memif stops at the oldest frame that is kept. */
	set_number(memif_turned ? &w.b : &w.a, "ring", 2048);
	if (path_open(&w))
		return;
	for (int round = 0; round < 10 && !complaint[0]; round++) {
		uint32_t keep = 1 + random_below(BURST / 2);

		first = w.received;
		n = w.tx->engine->alloc(w.tx, f, keep);
		i = send_next(&w, f, n);
		w.tx->engine->release(w.tx, f + i, n - i);
		for (n = 0; n < i;) {
			uint32_t got = w.rx->rx(w.rx, kept + n, NULL, BURST - n);

			n += got;
		}
		w.received += n;
		stream(&w, w.sent + 1000);
		for (i = 0; i < n && !complaint[0]; i++)
			if (!matches(&w, &kept[i], first + i))
				snprintf(complaint, sizeof(complaint),
					 "frame %u of %u kept has changed", i, n);
		shuffle(kept, n);
		w.rx->engine->release(w.rx, kept, n);
	}
	if (!complaint[0])
		stream(&w, w.sent + 10000);
	path_close(&w);
}

/* Offers `count` frames for up to `patience` seconds; tx may take fewer. */
static bool offer(struct path *w, uint32_t count, double patience, bool receive)
{
	double start = seconds();
	struct frame f[BURST];
	bool partly = false;

	while (w->sent < count && seconds() - start < patience && !w->tx->failed) {
		uint32_t n = count - w->sent < BURST ? count - w->sent : BURST, k;

		n = w->tx->engine->alloc(w->tx, f, n);
		k = send_next(w, f, n);
		partly |= k < n || !n;
		w->tx->engine->release(w->tx, f + k, n - k);
		if (receive)
			receive_in_order(w, 0);
		if (complaint[0])
			break;
	}
	return partly;
}

static void a_full_ring_takes_a_part_and_loses_nothing(const struct engine *e)
{
	const char *ifname = e->caps & ENGINE_NEEDS_INTERFACE ? "sm0" : "lo";
	bool partly, shaped = false;
	char command[128];
	struct path w;

	path_prepare(&w, e);
	set_number(w.tx, "bypass", 0);
	if (!strcmp(e->name, "null")) {
		set_number(w.tx, "take", 10);
	} else if (!strcmp(e->name, "xdp")) {
		w.tx->config.burst = 64;
		set_number(w.tx, "ring", 64);
	} else if (!strcmp(e->name, "xdp-live")) {
		SKIP("has no ring: every frame is run at once");
	} else if (!strcmp(e->name, "memif")) {
		set_number(memif_turned ? &w.b : &w.a, "ring", 64);
	} else if (!strcmp(e->name, "dpdk")) {
		/* 256 descriptors; no frame is read before 4000 have been offered */
		SKIP("see drops_of_a_full_receiver_are_counted");
	} else {
		snprintf(command, sizeof(command),
			 "tc qdisc add dev %s root tbf rate 100mbit burst 20kb limit 30kb", ifname);
		if (run(command))
			SKIP("cannot set up a slow queue with `tc`");
		shaped = true;
	}
	if (!path_open(&w)) {
		partly = offer(&w, 4000, 30, true);
		if (!complaint[0])
			receive_in_order(&w, w.sent);
		path_close(&w);
		if (!complaint[0] && (w.sent != 4000 || w.received != w.sent))
			snprintf(complaint, sizeof(complaint), "%u taken, %u received: %s", w.sent,
				 w.received, w.tx->why);
		if (!complaint[0] && shaped && !partly)
			snprintf(complaint, sizeof(complaint), "the queue was never full");
	}
	if (shaped) {
		snprintf(command, sizeof(command), "tc qdisc del dev %s root", ifname);
		run(command);
	}
}

static bool device_full, device_reports_drops;
static uint32_t kicks;

/* Replaces the C library's sendto: intercepts every call that makes the kernel send a ring's
 * frames, and simulates a device that takes none while it is full. It also simulates a device that
 * reports a drop after it has sent a packet in part. */
ssize_t sendto(int fd, const void *buffer, size_t n, int flags, __CONST_SOCKADDR_ARG to,
	       socklen_t size)
{
	kicks += !n;
	if (!n && device_full) {
		errno = EAGAIN;
		return -1;
	}
	if (device_reports_drops) {
		if (syscall(SYS_sendto, fd, buffer, n, flags, to.__sockaddr__, size) >= 0)
			errno = ENOBUFS;
		return -1;
	}
	return syscall(SYS_sendto, fd, buffer, n, flags, to.__sockaddr__, size);
}

/* A full device must not delay receiving, and at the end of a phase the ring must be empty. */
static void what_waits_in_a_ring_is_flushed_and_delays_no_frame(const struct engine *e)
{
	struct frame f[BURST];
	uint32_t n, calls, taken;
	bool early, flushed = false;
	struct path w;

	if (!e->flush)
		SKIP("has no ring that frames wait in");
	path_prepare(&w, e);
	w.a.config.receives = true;
	if (path_open(&w))
		return;
	device_full = true;
	n = e->alloc(w.tx, f, 8);
	taken = send_next(&w, f, n);
	e->release(w.tx, f + taken, n - taken);
	kicks = 0;
	n = w.tx->rx(w.tx, f, NULL, BURST);
	e->release(w.tx, f, n);
	calls = kicks;
	early = e->flush(w.tx);
	device_full = false;
	for (double start = seconds(); !flushed && seconds() - start < 1;)
		flushed = e->flush(w.tx);
	if (!complaint[0])
		receive_in_order(&w, taken);
	n = w.received;
	path_close(&w);
	CHECK(taken == 8 && calls == 1 && !early && flushed && n == taken,
	      "%u taken, %u calls in one rx, flushed %d and %d, %u received", taken, calls, early,
	      flushed, n);
}

/* Unread packet sockets lengthen a frame's path through the kernel. */
static void bystanders(int *fds, uint32_t n, const char *ifname, bool come)
{
	for (uint32_t i = 0; i < n; i++) {
		struct sockaddr_ll at = { .sll_family = AF_PACKET,
					  .sll_protocol = htons(ETH_P_ALL),
					  .sll_ifindex = (int)if_nametoindex(ifname) };

		if (!come) {
			close(fds[i]);
			continue;
		}
		fds[i] = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
		setsockopt(fds[i], SOL_SOCKET, SO_RCVBUFFORCE, &(int){ 64 << 20 }, sizeof(int));
		if (bind(fds[i], (struct sockaddr *)&at, sizeof(at)))
			printf("# a bystander cannot bind: %s\n", strerror(errno));
	}
}

/* No frame is read for a while: the counters must contain exactly the missing frames. */
static void overflow_is_counted(struct path *w, uint32_t count, double patience, bool must)
{
	uint64_t got, lost;

	offer(w, count, patience, false);
	got = receive_all(w, 0.2);
	lost = rx_drops(w);
	if (w->sent != got + lost + tx_drops(w) || (must && !lost))
		snprintf(
			complaint, sizeof(complaint),
			"%u taken, %llu received, %llu dropped by the receiver, %llu by the sender%s%s",
			w->sent, (unsigned long long)got, (unsigned long long)lost,
			(unsigned long long)tx_drops(w), w->tx->failed ? ": " : "", w->tx->why);
	if (!complaint[0] && rx_drops(w) != lost)
		snprintf(complaint, sizeof(complaint), "drops are counted twice");
}

static void drops_of_a_full_receiver_are_counted(const struct engine *e)
{
	struct path w;

	if (!(e->caps & ENGINE_RECEIVES))
		SKIP("only sends");
	path_prepare(&w, e);
	set_number(w.rx, "ring", 256);
	if (w.rx != w.tx)
		set_number(w.rx, "buffer", 64 << 10);
	if (path_open(&w))
		return;
	if (!strcmp(e->name, "null"))
		offer(&w, 5000, 0.2, false), w.sent = 0, receive_all(&w, 0.1);
	else if (!strcmp(e->name, "dpdk") || !strcmp(e->name, "memif"))
		/* vhost and memif take only as many frames as fit, for however long they are offered. */
		overflow_is_counted(&w, 5000, 0.3, false);
	else
		overflow_is_counted(&w, 5000, 20, true);
	if (!complaint[0]) {
		w.received = w.sent;
		stream(&w, w.sent + 1000); /* and the port still works */
	}
	path_close(&w);
}

/* The device drops frames: NAPI of the peer runs in a separate thread, which is too slow. */
static void drops_of_the_device_are_counted(const struct engine *e)
{
	struct path w;
	int others[8];

	if (!(e->caps & ENGINE_NEEDS_INTERFACE))
		SKIP("works without an interface");
	if (access("/sys/class/net/sm1/threaded", W_OK))
		SKIP("this kernel or this user cannot put NAPI into a thread");
	path_prepare(&w, e);
	set_number(w.rx, "ring", 16384);
	if (path_open(&w))
		return;
	set_feature("sm1", ETHTOOL_SGRO, true);
	set_feature("sm0", ETHTOOL_STSO, false);
	write_file("/sys/class/net/sm1/threaded", "1");
	bystanders(others, 8, "sm1", true);
	w.plain = true;
	overflow_is_counted(&w, 30000, 20, false);
	bystanders(others, 8, "sm1", false);
	printf("# %s: %u taken, %llu dropped by the device, %llu by the receiver, %llu not taken\n",
	       e->name, w.sent, (unsigned long long)tx_drops(&w), (unsigned long long)rx_drops(&w),
	       (unsigned long long)w.tx->tx_errors);
	write_file("/sys/class/net/sm1/threaded", "0");
	path_close(&w);
}

static void a_frame_too_long_is_not_lost_in_silence(const struct engine *e)
{
	struct path w;
	struct frame f;
	uint32_t taken;
	uint64_t got;
	int error;

	if (!(e->caps & ENGINE_NEEDS_INTERFACE))
		SKIP("works without an interface");
	path_prepare(&w, e);
	w.tx->config.frame_max = 1600; /* too long for an MTU of 1500 */
	error = port_open(w.tx);
	if (error == -EPERM)
		SKIP("not allowed: %s", w.tx->why);
	if (error) {
		CHECK(w.tx->why[0], "no reason given");
		return;
	}
	if (port_open(w.rx)) {
		e->close(w.tx);
		SKIP("%s", w.rx->why);
	}
	if (e->alloc(w.tx, &f, 1) == 1) {
		memset(f.data, 0, 1600);
		f.len = 1600;
		taken = e->tx(w.tx, &f, 1);
		got = receive_all(&w, 0.1);
		if (!taken)
			e->release(w.tx, &f, 1);
		if (taken != got + tx_drops(&w))
			snprintf(complaint, sizeof(complaint),
				 "%u taken, %llu received, %llu dropped", taken,
				 (unsigned long long)got, (unsigned long long)tx_drops(&w));
		if (!complaint[0] && !taken && !w.tx->failed)
			snprintf(complaint, sizeof(complaint), "not taken, and no reason given");
	}
	path_close(&w);
}

static bool mtu_set(uint32_t bytes)
{
	char command[128];

	snprintf(command, sizeof(command), "ip link set sm0 mtu %u && ip link set sm1 mtu %u",
		 bytes, bytes);
	return !run(command);
}

/* Frames of all lengths up to 9600 bytes with the FCS, some longer than the engine's units of
 * memory. */
static void jumbo_frames_arrive_whole(const struct engine *e)
{
	const uint32_t most = FRAME_BYTES_MAX - FCS_BYTES;
	struct path w;
	int error;

	if (!(e->caps & ENGINE_NEEDS_INTERFACE) || !(e->caps & ENGINE_RECEIVES))
		SKIP("has no interface, or only sends");
	if (!mtu_set(most))
		SKIP("cannot set an MTU");
	path_prepare(&w, e);
	w.a.config.frame_max = w.b.config.frame_max = w.longest = most;
	set_number(w.rx, "buffer", 64 << 20);
	error = path_open(&w);
	if (!error) {
		stream(&w, 5000);
		if (!complaint[0] && receive_all(&w, 0.05))
			snprintf(complaint, sizeof(complaint), "more frames than were sent");
		path_close(&w);
	}
	mtu_set(1500);
}

/* Sends one frame or datagram of 12000 bytes, bypassing the engine. */
static bool send_long(const struct path *w)
{
	static uint8_t bytes[12000] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5 };
	struct sockaddr_ll link = { .sll_family = AF_PACKET,
				    .sll_ifindex = (int)if_nametoindex("sm0") };
	struct sockaddr_in udp = { .sin_family = AF_INET,
				   .sin_addr.s_addr = w->rx->config.local_ip,
				   .sin_port = htons(w->rx->config.local_port) };
	const bool payload = w->rx->engine->caps & ENGINE_PAYLOAD;
	int fd = payload ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) :
			   socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	ssize_t sent =
		payload ?
			sendto(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&udp, sizeof(udp)) :
			sendto(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&link, sizeof(link));

	close(fd);
	return sent == sizeof(bytes);
}

/* A truncated frame must not be delivered as if it were complete. */
static void a_frame_that_was_cut_is_counted_and_not_given(const struct engine *e)
{
	struct engine_stats stats = { 0 };
	bool sent = false;
	uint64_t got = 0;
	struct path w;

	if (!(e->caps & (ENGINE_PAYLOAD | ENGINE_NEEDS_INTERFACE)))
		SKIP("has no kernel that would cut it");
	if (!(e->caps & ENGINE_RECEIVES))
		SKIP("only sends");
	if (!strcmp(e->name, "xdp"))
		SKIP("an interface with XDP takes no such frame");
	if (!mtu_set(16000))
		SKIP("no MTU above 9000 here");
	path_prepare(&w, e);
	if (!path_open(&w)) {
		sent = send_long(&w);
		got = receive_all(&w, 0.05);
		e->stats(w.rx, &stats);
		if (!complaint[0])
			stream(&w, 500); /* and no buffer is lost */
		path_close(&w);
	}
	mtu_set(1500);
	CHECK(sent, "cannot be sent: %s", strerror(errno));
	CHECK(!got && stats.rx_invalid == 1, "%llu came, %llu are told of", (unsigned long long)got,
	      (unsigned long long)stats.rx_invalid);
}

/* A large burst of short frames must not use the memory of long frames. Two buffers allocated
 * together are adjacent. */
static void buffers_are_as_long_as_the_ports_frames(const struct engine *e)
{
	struct frame f[2];
	ptrdiff_t apart;
	uint32_t n;
	struct path w;

	if (strncmp(e->name, "raw", 3) && strncmp(e->name, "udp", 3))
		SKIP("has no buffers of ours");
	path_prepare(&w, e);
	w.a.config.frame_max = FRAME_MIN;
	if (path_open(&w))
		return;
	n = e->alloc(w.tx, f, 2);
	apart = n == 2 ? (uint8_t *)f[1].data - (uint8_t *)f[0].data : 0;
	e->release(w.tx, f, n);
	path_close(&w);
	CHECK(apart && llabs(apart) < 512, "buffers for %d bytes are %td bytes apart", FRAME_MIN,
	      apart);
}

static void ports_of_one_interface_count_their_own(const struct engine *e)
{
	struct engine_stats stats = { 0 };
	struct port second;
	struct path w;

	if (!(e->caps & ENGINE_NEEDS_INTERFACE))
		SKIP("works without an interface");
	path_prepare(&w, e);
	if (path_open(&w))
		return;
	memset(&second, 0, sizeof(second));
	second.engine = e;
	second.config = w.tx->config;
	if (port_open(&second)) {
		path_close(&w);
		SKIP("a second port is refused: %s", second.why);
	}
	stream(&w, 500);
	e->stats(&second, &stats);
	e->close(&second);
	if (!complaint[0] && (stats.tx_drops || stats.tx_errors))
		snprintf(complaint, sizeof(complaint), "of a port that sent nothing: %lld drops",
			 (long long)stats.tx_drops);
	if (!complaint[0] && tx_drops(&w))
		snprintf(complaint, sizeof(complaint), "%lld drops, and nothing was lost",
			 (long long)tx_drops(&w));
	path_close(&w);
}

/* Frames redirected by XDP vanish at a veth whose peer has no NAPI. */
static void names_a_peer_that_takes_no_frames(const struct engine *e)
{
	const double began = seconds();
	struct path w;
	struct frame f;

	if (!(e->caps & ENGINE_NEEDS_ROOT))
		SKIP("needs nothing of its peer");
	path_prepare(&w, e);
	if (path_open(&w))
		return;
	set_feature("sm1", ETHTOOL_SGRO, false);
	while (!w.tx->failed && seconds() - began < 10 && e->alloc(w.tx, &f, 1) == 1)
		e->release(w.tx, &f, 1 - send_next(&w, &f, 1));
	set_feature("sm1", ETHTOOL_SGRO, true);
	path_close(&w);
	CHECK(w.tx->failed && strstr(w.tx->why, "NAPI"), "%u taken: %s", w.sent, w.tx->why);
}

/* Like a peer whose ring is full at that moment. The frames that it did not take are counted as
 * lost. */
static void a_peer_that_takes_no_frames_yet_fails_no_port(const struct engine *e)
{
	struct engine_stats stats = { 0 };
	struct path w;
	struct frame f;
	uint32_t taken[2] = { 0 };

	if (!(e->caps & ENGINE_NEEDS_ROOT))
		SKIP("needs nothing of its peer");
	path_prepare(&w, e);
	if (path_open(&w))
		return;
	for (int takes = 0; takes < 2; takes++) {
		set_feature("sm1", ETHTOOL_SGRO, takes);
		if (e->alloc(w.tx, &f, 1) == 1) {
			taken[takes] = send_next(&w, &f, 1);
			e->release(w.tx, &f, 1 - taken[takes]);
		}
	}
	e->stats(w.tx, &stats);
	path_close(&w);
	CHECK(!w.tx->failed && taken[0] && taken[1] && stats.tx_drops == 1,
	      "%u and %u taken, %llu lost: %s", taken[0], taken[1],
	      (unsigned long long)stats.tx_drops, w.tx->why);
}

/* Also while the caller has frames of the port that it allocated, which are not touched by that. A
 * server of memif has no free slots then. */
static void a_port_reflects_what_it_received(const struct engine *e)
{
	const bool keeps = !is_memif(e) || memif_turned;
	struct frame f[BURST], kept[3];
	uint32_t n = 0, k = 0, held = 0;
	struct path w;

	if (!(e->caps & ENGINE_REFLECTS))
		SKIP("does not reflect");
	path_prepare(&w, e);
	if (w.rx != w.tx) {
		w.a.config.receives = w.b.config.sends = true;
	}
	if (path_open(&w))
		return;
	for (int round = 0; round < 500 && !complaint[0]; round++) {
		uint32_t first = w.sent, sent = 0, back = 0;
		double start = seconds();

		n = e->alloc(w.tx, f, 1 + random_below(BURST));
		sent = send_next(&w, f, n);
		e->release(w.tx, f + sent, n - sent);
		for (n = 0; n < sent && seconds() - start < 1;)
			n += w.rx->rx(w.rx, f + n, NULL, sent - n);
		held = keeps ? e->alloc(w.rx, kept, round % 4) : 0;
		for (uint32_t i = 0; i < held; i++)
			memset(kept[i].data, 0x5a, FRAME_MIN);
		for (k = 0; k < n && seconds() - start < 1;)
			k += w.rx->tx(w.rx, f + k, n - k);
		for (uint32_t i = 0; i < held && !complaint[0]; i++)
			if (load32(kept[i].data) != 0x5a5a5a5a)
				snprintf(complaint, sizeof(complaint), "a kept frame has changed");
		e->release(w.rx, kept, held);
		while (back < k && seconds() - start < 1) {
			n = w.tx->rx(w.tx, f, NULL, BURST);
			for (uint32_t i = 0; i < n && !complaint[0]; i++)
				if (!matches(&w, &f[i], first + back + i))
					snprintf(complaint, sizeof(complaint),
						 "frame %u came back changed", first + back + i);
			e->release(w.tx, f, n);
			back += n;
		}
		if (!complaint[0] && (back != sent || !sent))
			snprintf(complaint, sizeof(complaint),
				 "%u sent, %u reflected, %u came back: %s%s", sent, k, back,
				 w.tx->why, w.rx->why);
	}
	path_close(&w);
}

/* net_af_xdp of DPDK 22.11 leaks a block of libxdp when it closes. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:xsk_umem__create\n";
}

/* Sends `count` requests from each of four sockets in turn, and replies from the other end. Returns
 * the number of replies sent. Counts the received replies by socket, or leaves them unread. */
static uint32_t ask(struct path *w, uint32_t count, uint32_t *answers)
{
	uint32_t answered = 0;
	struct frame f[BURST];

	for (uint32_t asked = 0; asked < count;) {
		uint32_t n = w->a.engine->alloc(&w->a, f, 40), come = 0, k;
		double start = seconds();

		for (uint32_t i = 0; i < n; i++) {
			memset(f[i].data, 0, w->least);
			store16((uint8_t *)f[i].data + 4, net16((uint16_t)((asked + i) % 4)));
			f[i].len = w->least;
		}
		k = w->a.tx(&w->a, f, n);
		w->a.engine->release(&w->a, f + k, n - k);
		if (!k)
			return answered;
		asked += k;
		while (come < k && seconds() - start < 1) {
			uint32_t taken;

			n = w->b.rx(&w->b, f, NULL, BURST);
			taken = w->b.tx(&w->b, f, n);
			w->b.engine->release(&w->b, f + taken, n - taken);
			come += taken;
			k -= n - taken;
		}
		answered += come;
		for (start = seconds(); answers && come && seconds() - start < 1; come -= n) {
			n = w->a.rx(&w->a, f, NULL, BURST);
			for (uint32_t i = 0; i < n; i++)
				answers[payload_flow(f[i].data) % 4]++;
			w->a.engine->release(&w->a, f, n);
		}
	}
	return answered;
}

static void every_socket_of_a_port_receives(const struct engine *e)
{
	uint32_t answers[4] = { 0 }, answered, unread;
	uint64_t before, dropped;
	struct path w;

	if (!(e->caps & ENGINE_PAYLOAD))
		SKIP("has no sockets of flows");
	path_prepare(&w, e);
	w.a.config.flows = 4;
	w.a.config.receives = w.b.config.sends = true;
	w.a.config.remote_port = w.b.config.local_port = 20100;
	set_number(&w.a, "buffer", 16 << 10);
	if (path_open(&w))
		return;
	answered = ask(&w, 400, answers);
	w.rx = &w.a;
	before = rx_drops(&w);
	unread = ask(&w, 4000, NULL);
	dropped = rx_drops(&w);
	unread -= (uint32_t)receive_all(&w, 0.05);
	w.rx = &w.b;
	path_close(&w);
	for (uint32_t i = 0; i < 4; i++)
		CHECK(answers[i] == 100, "%u of 100 answers at socket %u, of %u", answers[i], i,
		      answered);
	CHECK(!before && dropped && dropped == unread, "%u were not read, %llu counted", unread,
	      (unsigned long long)dropped);
}

/* Each read is a system call, and no frame may look older by the duration of later calls. */
static void frames_fetched_one_by_one_are_stamped_one_by_one(const struct engine *e)
{
	uint32_t n, got = 0;
	struct frame f[BURST];
	uint64_t last;
	struct path w;

	if (strcmp(e->name, "raw") && strcmp(e->name, "udp"))
		SKIP("fetches many at once");
	path_prepare(&w, e);
	if (path_open(&w))
		return;
	n = e->alloc(w.tx, f, BURST);
	n = send_next(&w, f, n);
	last = clock_ticks();
	for (double start = seconds(); got < n && seconds() - start < 1;) {
		struct arrival arrivals[BURST] = { 0 };
		uint32_t come = e->rx(w.rx, f, arrivals, BURST);

		for (uint32_t i = 0; i < come && !complaint[0]; i++) {
			uint64_t ticks = arrivals[i].ticks;

			if (ticks <= last)
				snprintf(complaint, sizeof(complaint),
					 "frame %u has the time of the one before, or none",
					 got + i);
			last = ticks;
		}
		e->release(w.rx, f, come);
		got += come;
	}
	path_close(&w);
	CHECK(got == BURST && last <= clock_ticks(), "%u of %u frames", got, n);
}

/* Connected pairs of devices; `%s` is a folder for sockets. Without a second device the peer is a
 * raw socket at the interface `peer`. The two ends of a memif cannot connect within one process:
 * tests/root/test_bypass.py tests memif. */
static const struct {
	const char *from, *to, *peer;
} device_pairs[] = {
	{ "net_vhost0,iface=%s/s,client=1", "net_virtio_user0,path=%s/s,server=1", NULL },
	{ "net_af_packet0,iface=sm0", "net_af_packet1,iface=sm1", NULL },
	{ "net_af_packet0,iface=sm0", NULL, "sm1" },
	{ "net_af_xdp0,iface=sm0", NULL, "sm1" },
	{ "net_tap0,iface=smtap", NULL, "smtap" },
};

static void device_set(struct port *port, const char *pattern)
{
	struct option_value *v = &port->config.options[port->config.option_count++];
	const char *at = strstr(pattern, "%s");

	v->name = "device";
	if (at)
		snprintf(v->text, sizeof(v->text), "%.*s%s%s", (int)(at - pattern), pattern, folder,
			 at + 2);
	else
		snprintf(v->text, sizeof(v->text), "%s", pattern);
}

/* Tests both directions, because a device receives and sends with different code. */
static void device_pair_run(const struct engine *e, size_t which)
{
	const char *from = device_pairs[which].from, *to = device_pairs[which].to;
	struct port *sender;
	struct path w;

	path_prepare(&w, e);
	w.a.config.option_count = w.b.config.option_count = 0;
	w.a.config.receives = w.b.config.sends = true;
	w.tagged = 1;
	device_set(&w.a, from);
	set_text(&w.a, "directory", folder);
	if (to) {
		device_set(&w.b, to);
	} else {
		w.b.engine = engine_find("raw");
		set_number(&w.b, "buffer", 64 << 20);
		snprintf(w.b.config.ifname, IFNAMSIZ, "%s", device_pairs[which].peer);
	}
	if (path_open(&w)) {
		if (complaint[0] && strstr(from, "af_xdp"))
			printf("# %s: not here: %s\n", from, complaint), complaint[0] = 0;
		return;
	}
	for (int turn = 0; turn < 2 && !complaint[0]; turn++) {
		w.sent = w.received = 0;
		stream(&w, 5000);
		sender = w.tx;
		w.tx = w.rx;
		w.rx = sender;
	}
	if (!complaint[0])
		printf("# %s: %s\n", from, w.a.mode);
	path_close(&w);
}

static void every_kind_of_device_carries_frames(const struct engine *e)
{
	if (strcmp(e->name, "dpdk"))
		SKIP("has one kind");
	for (size_t i = 0; i < sizeof(device_pairs) / sizeof(device_pairs[0]); i++) {
		device_pair_run(e, i);
		if (complaint[0]) {
			printf("# between %s and %s\n", device_pairs[i].from,
			       device_pairs[i].to ? device_pairs[i].to : "a socket");
			return;
		}
	}
}

/* The sockets of net_af_packet report their drops even in a process with many descriptors. */
static void drops_of_a_socket_with_a_high_number_are_counted(const struct engine *e)
{
	enum { HIGH = 1500 };
	const struct rlimit many = { HIGH + 100, HIGH + 100 };
	struct rlimit before;
	struct path w;
	int first, last;
	uint64_t dropped = 0;

	if (strcmp(e->name, "dpdk"))
		SKIP("knows its sockets");
	CHECK(!getrlimit(RLIMIT_NOFILE, &before), "%s", strerror(errno));
	if (before.rlim_max < many.rlim_max)
		SKIP("this process may not have so many descriptors");
	CHECK(!setrlimit(RLIMIT_NOFILE, &(struct rlimit){ many.rlim_cur, before.rlim_max }), "%s",
	      strerror(errno));
	first = last = dup(STDIN_FILENO);
	while (last >= 0 && last < HIGH)
		last = dup(STDIN_FILENO);
	path_prepare(&w, e);
	w.a.config.option_count = 0;
	w.a.config.sends = false;
	w.a.config.receives = true;
	device_set(&w.a, "net_af_packet0,iface=sm0,framecnt=32");
	set_text(&w.a, "directory", folder);
	w.b.engine = engine_find("raw");
	snprintf(w.b.config.ifname, IFNAMSIZ, "sm1");
	w.b.config.receives = false;
	w.b.config.sends = true;
	w.tx = &w.b;
	w.rx = &w.a;
	w.plain = true;
	if (!path_open(&w)) {
		offer(&w, 5000, 2, false);
		dropped = rx_drops(&w);
		path_close(&w);
	}
	for (int fd = first; fd <= last; fd++)
		close(fd);
	setrlimit(RLIMIT_NOFILE, &before);
	CHECK(last == HIGH && dropped, "%d descriptors, %u sent, %llu dropped", last, w.sent,
	      (unsigned long long)dropped);
}

/* Sets up a port at `device`, and a raw socket at the interface `peer`. */
static void offload_prepare(struct path *w, const struct engine *e, const char *device,
			    const char *peer, const char *offload, const char *stamps)
{
	path_prepare(w, e);
	w->a.config.option_count = w->b.config.option_count = 0;
	w->a.config.receives = w->b.config.sends = true;
	device_set(&w->a, device);
	set_text(&w->a, "directory", folder);
	set_text(&w->a, "offload", offload);
	set_text(&w->a, "stamps", stamps);
	w->b.engine = engine_find("raw");
	set_number(&w->b, "buffer", 64 << 20);
	snprintf(w->b.config.ifname, IFNAMSIZ, "%s", peer);
}

/* Sends a test frame as the core builds it for this port; varies length, tag and touch. */
static void send_test_frame(struct port *port, uint32_t seq, bool corrupt)
{
	struct address address = { .src_mac = { 2, 0, 0, 0, 0, 1 },
				   .dst_mac = { 2, 0, 0, 0, 0, 2 },
				   .src_ip = 0xc6120001,
				   .dst_ip = 0xc6120002,
				   .src_port = 20000,
				   .dst_port = 20000,
				   .vlan = seq % 3 ? 0 : 7 };
	const uint32_t len = FRAME_MIN + VLAN_BYTES + hash(seq) % 1400;
	struct frame_template t;
	struct frame f;

	template_make(&t, &address, len, 7, 3, PHASE_MEASURED, false);
	if (port->completes_sums)
		template_leave_sum(&t);
	CHECK(port->engine->alloc(port, &f, 1) == 1, "no frame to be had");
	frame_write(f.data, &t, seq, 0, 0, TOUCH_FULL, false, false, t.device_sums);
	if (corrupt)
		((uint8_t *)f.data)[len - 1] ^= 1;
	f.len = len;
	for (uint32_t tries = 0; !port->tx(port, &f, 1); tries++)
		CHECK(tries < 1000, "not taken: %s", port->why);
}

/* Every intact frame arrives intact, and every corrupt one is detected, with checksums in software
 * or in the device. */
static void sums_run(const struct engine *e, const char *device, const char *peer,
		     const char *offload, bool by_device)
{
	uint32_t found[3] = { 0 }, reported[3] = { 0 }, come;
	struct payload out;
	struct frame f;
	struct path w;

	offload_prepare(&w, e, device, peer, offload, "software");
	if (path_open(&w))
		return;
	CHECK(w.a.completes_sums == by_device && (w.a.notes_arrivals || !by_device),
	      "%s with offload %s: %s", device, offload, w.a.mode);
	CHECK(strstr(w.a.mode, "rx times by software"), "%s", w.a.mode);
	for (uint32_t i = 0; i < 2 * 300 && !complaint[0]; i++) {
		struct port *from = i % 2 ? &w.a : &w.b, *to = i % 2 ? &w.b : &w.a;
		struct arrival arrival = { 0 };
		double start = seconds();

		send_test_frame(from, i, i % 10 >= 8);
		for (come = 0; !come && seconds() - start < 1;)
			come = to->rx(to, &f, &arrival, 1);
		CHECK(come, "frame %u of %s is lost", i, from->mode);
		found[frame_judge(f.data, f.len, 7, &out, TOUCH_FULL, false, arrival.sum)]++;
		if (to->notes_arrivals)
			reported[arrival.sum]++;
		to->engine->release(to, &f, 1);
	}
	printf("# %s, offload %s: %s\n", device, offload, w.a.mode);
	path_close(&w);
	/* A device completes a correct checksum for any content, so half of the corrupt frames look
	 * intact. */
	CHECK(found[FRAME_OURS] == 480 && found[FRAME_CORRUPT] == 120 && !found[FRAME_FOREIGN],
	      "%u whole, %u corrupt, %u foreign", found[FRAME_OURS], found[FRAME_CORRUPT],
	      found[FRAME_FOREIGN]);
	CHECK(!by_device || (reported[DEVICE_SUM_GOOD] == 240 && reported[DEVICE_SUM_BAD] == 60),
	      "of the received ones %u told good and %u bad", reported[DEVICE_SUM_GOOD],
	      reported[DEVICE_SUM_BAD]);
}

static void a_device_makes_and_checks_sums(const struct engine *e)
{
	if (strcmp(e->name, "dpdk"))
		SKIP("has no such device");
	sums_run(e, "net_tap0,iface=smtap", "smtap", "on", true);
	if (!complaint[0])
		sums_run(e, "net_tap0,iface=smtap", "smtap", "off", false);
	if (!complaint[0])
		sums_run(e, "net_af_packet0,iface=sm0", "sm1", "on", false); /* has no offload */
}

/* The kernel timestamps a frame during the send: not before it, and long before libpcap delivers
 * the frame. */
static void times_run(const struct engine *e, const char *device, bool must)
{
	int64_t nearest = INT64_MAX;
	struct path w;

	offload_prepare(&w, e, device, "sm1", "off", "device");
	if (path_open(&w)) {
		if (!must && strstr(w.a.why, "does not timestamp"))
			complaint[0] = 0;
		return;
	}
	CHECK(w.a.notes_arrivals && !w.a.completes_sums, "no times: %s", w.a.mode);
	for (uint32_t i = 0; i < 40; i++) {
		uint64_t sent = clock_ticks(), taken, arrived;
		double start = seconds();
		struct arrival arrival = { 0 };
		uint32_t come;
		struct frame f;

		send_test_frame(&w.b, i, false);
		taken = clock_ticks();
		for (come = 0; !come && seconds() - start < 1;)
			come = w.a.rx(&w.a, &f, &arrival, 1);
		CHECK(come, "frame %u is lost: %s", i, w.a.mode);
		arrived = arrival.ticks;
		w.a.engine->release(&w.a, &f, 1);
		if (i < 8) { /* until the clock is identified */
			usleep(2000);
			continue;
		}
		/* 3000 ticks: at least half a microsecond, because some timestamps have whole
		 * microseconds. */
		CHECK((int64_t)(arrived - sent) > -3000 && arrived <= clock_ticks(),
		      "%lld ticks before it was sent", (long long)(sent - arrived));
		if ((int64_t)(arrived - taken) < nearest)
			nearest = (int64_t)(arrived - taken);
	}
	CHECK(nearest < 3000, "%lld ticks after it was sent at the earliest", (long long)nearest);
	if (e->describe)
		e->describe(&w.a);
	CHECK(strstr(w.a.mode, "rx times by device (CLOCK_REALTIME") &&
		      strstr(w.a.mode, "rx checksum by software"),
	      "%s", w.a.mode);
	printf("# %s: %s\n", device, w.a.mode);
	path_close(&w);
}

static void a_device_tells_when_frames_arrived(const struct engine *e)
{
	if (strcmp(e->name, "dpdk"))
		SKIP("has no such device");
	times_run(e, "net_pcap0,iface=sm0", true);
	if (!complaint[0])
		times_run(e, "net_af_packet0,iface=sm0", false); /* since DPDK 24 */
}

/* A port that only sends needs no times of arrival. */
static void a_device_without_a_clock_is_refused(const struct engine *e)
{
	const char *const device = "net_null0,size=100";
	struct path w;

	if (strcmp(e->name, "dpdk"))
		SKIP("has no such device");
	for (int receives = 1; receives >= 0; receives--) {
		path_prepare(&w, e);
		w.a.config.option_count = 0;
		w.a.config.receives = receives;
		device_set(&w.a, device);
		set_text(&w.a, "directory", folder);
		set_text(&w.a, "stamps", "device");
		if (receives) {
			CHECK(port_open(&w.a) == -ENOTSUP &&
				      strstr(w.a.why, "does not timestamp arriving frames"),
			      "%s", w.a.why);
			continue;
		}
		CHECK(!port_open(&w.a), "%s", w.a.why);
		e->close(&w.a);
	}
}

/* The device accepts all frames, and delivers zeros of the requested length. */
static void a_device_without_a_wire_takes_and_gives(const struct engine *e)
{
	uint32_t taken, got = 0;
	struct frame f[BURST];
	struct path w;

	if (strcmp(e->name, "dpdk"))
		SKIP("has no such device");
	path_prepare(&w, e);
	w.a.config.option_count = 0;
	w.a.config.receives = true;
	device_set(&w.a, "net_null0,size=100");
	set_text(&w.a, "directory", folder);
	CHECK(!port_open(&w.a), "%s", w.a.why);
	for (w.sent = 0; w.sent < 10000; w.sent += taken) {
		uint32_t n = e->alloc(&w.a, f, BURST);

		for (uint32_t i = 0; i < n; i++)
			f[i].len = FRAME_MIN;
		taken = e->tx(&w.a, f, n);
		e->release(&w.a, f + taken, n - taken);
		if (!taken)
			break;
	}
	for (double start = seconds(); got < 10000 && seconds() - start < 5;) {
		uint32_t n = e->rx(&w.a, f, NULL, BURST);

		for (uint32_t i = 0; i < n; i++)
			if (f[i].len != 100)
				snprintf(complaint, sizeof(complaint), "a frame of %u bytes",
					 f[i].len);
		e->release(&w.a, f, n);
		got += n;
	}
	e->close(&w.a);
	CHECK(w.sent >= 10000 && got >= 10000, "%u taken, %u given", w.sent, got);
}

static int queue_open(struct port *port, const struct engine *e, uint32_t queue, bool sends,
		      bool receives)
{
	struct path w;

	path_prepare(&w, e);
	w.a.config.option_count = 0;
	w.a.config.sends = sends;
	w.a.config.receives = receives;
	w.a.config.queue = queue;
	device_set(&w.a, "net_null0,size=100");
	set_text(&w.a, "directory", folder);
	set_number(&w.a, "queues", 2);
	*port = w.a;
	return port_open(port);
}

static uint32_t pci_looks;

/* Replaces the C library's opendir: the EAL uses it to scan the PCI bus. */
DIR *opendir(const char *path)
{
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	pci_looks += !strcmp(path, "/sys/bus/pci/devices");
	return fd < 0 ? NULL : fdopendir(fd);
}

/* Even if the first device has no bus: the EAL never scans a bus that was disabled at its start. No
 * NIC has this address. */
static void a_pci_device_is_looked_for_after_others(const struct engine *e)
{
	struct port first;
	struct path w;
	int error;

	if (strcmp(e->name, "dpdk"))
		SKIP("has no PCI devices");
	if (access("/sys/bus/pci/devices", F_OK))
		SKIP("there is no PCI bus");
	CHECK(!queue_open(&first, e, 0, true, true), "%s", first.why);
	path_prepare(&w, e);
	w.a.config.option_count = 0;
	device_set(&w.a, "ffff:ff:1f.7");
	set_text(&w.a, "directory", folder);
	pci_looks = 0;
	error = port_open(&w.a);
	e->close(&first);
	CHECK(error && pci_looks, "%d, %u looks at the bus", error, pci_looks);
}

/* One of a device's ports reports its drops: the first one asked. */
static void counters_of_a_device_are_told_once(const struct engine *e)
{
	static const uint32_t orders[][2] = { { 0, 1 }, { 1, 0 } };

	if (strcmp(e->name, "dpdk"))
		SKIP("has no devices of several ports");
	for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
		struct port *both[2] = { NULL }, second;
		struct engine_stats stats[2] = { { 0 } }, left = { 0 };
		struct path w;
		int error;

		path_prepare(&w, e);
		w.a.config.option_count = 0;
		w.a.config.sends = false;
		w.a.config.receives = true;
		device_set(&w.a, "net_af_packet0,iface=sm0,framecnt=32");
		set_text(&w.a, "directory", folder);
		second = w.a;
		second.config.receives = false;
		second.config.sends = true;
		w.b.engine = engine_find("raw");
		w.b.config.receives = false;
		w.b.config.sends = true;
		snprintf(w.b.config.ifname, IFNAMSIZ, "sm1");
		w.tx = &w.b;
		w.rx = &w.a;
		w.plain = true;
		if (path_open(&w))
			return;
		error = port_open(&second);
		if (!error) {
			both[orders[i][0]] = &w.a;
			both[orders[i][1]] = &second;
			for (int k = 0; k < 2; k++)
				e->stats(both[k], &stats[k]);
			offer(&w, 5000, 2, false);
			for (int k = 0; k < 2; k++)
				e->stats(both[k], &stats[k]);
			e->close(both[0]);
			/* A remaining port reports the rest. */
			e->stats(both[1], &left);
			e->close(both[1]);
		} else {
			e->close(&w.a);
		}
		w.b.engine->close(&w.b);
		CHECK(!error, "%s", second.why);
		CHECK(stats[0].rx_ring_drops && !stats[1].rx_ring_drops &&
			      left.rx_ring_drops == stats[0].rx_ring_drops,
		      "%llu and %llu, then %llu", (unsigned long long)stats[0].rx_ring_drops,
		      (unsigned long long)stats[1].rx_ring_drops,
		      (unsigned long long)left.rx_ring_drops);
	}
}

/* Queues have no locks, and two ports may belong to two threads. */
static void a_queue_of_a_device_is_one_ports(const struct engine *e)
{
	struct port first, second, third;
	int receives, same, other;

	if (strcmp(e->name, "dpdk"))
		SKIP("has no such queues");
	CHECK(!queue_open(&first, e, 0, true, true), "%s", first.why);
	receives = queue_open(&second, e, 1, false, true);
	same = queue_open(&third, e, 0, true, false);
	other = queue_open(&third, e, 1, true, false);
	CHECK(receives == -EBUSY && strstr(second.why, "reads all its queues"), "%d %s", receives,
	      second.why);
	CHECK(same == -EBUSY, "%d", same);
	CHECK(!other, "%s", third.why);
	e->close(&first);
	CHECK(!queue_open(&first, e, 0, false, true), "once it is free: %s", first.why);
	e->close(&first);
	e->close(&third);
}

/* ---- frames that the engine makes ------------------------------------------------------- */

/* Each copy has the next number, a time within the call and the right checksum, also on memory that
 * the switch has changed. No copy is late, and a call that begins too late makes none. */
static void copies_are_frames_of_their_own(const struct engine *e)
{
	static const uint32_t lens[] = { FRAME_MIN, FRAME_MIN + 1, 1000, 1514 };
	const struct address address = { .src_mac = { 2, 0, 0, 0, 0, 1 },
					 .dst_mac = { 2, 0, 0, 0, 0, 2 },
					 .src_ip = 0xc6120001,
					 .dst_ip = 0xc6120002,
					 .src_port = 20000,
					 .dst_port = 20000 };
	enum { COPIES = 3000, BATCH = 16, FIRST = 0xfffe };
	struct path w;

	if (!e->repeat)
		SKIP("makes no frames");
	path_prepare(&w, e);
	if (path_open(&w))
		return;
	for (size_t i = 0; i < sizeof(lens) / sizeof(*lens) && !complaint[0]; i++) {
		const uint64_t add = 1ull << 40, before = clock_monotonic_ns();
		uint64_t time = before + add, times = 0, got = 0;
		struct frame_template t;
		struct repetition r = { .number = FIRST,
					.most = COPIES,
					.batch = BATCH,
					.add_ns = add,
					.until_ns = before };
		uint32_t made, more;
		double last;

		template_make(&t, &address, lens[i], 7, 3, PHASE_MEASURED, false);
		r.head = t.head;
		r.len = t.len;
		r.sum = t.sum;
		made = e->repeat(w.tx, &r);
		CHECK(!made, "%u copies that are late", made);
		/* A call ends after some milliseconds. */
		for (r.until_ns = before + 5000000000u; made < COPIES; made += more) {
			r.number = FIRST + made;
			r.most = COPIES - made;
			more = e->repeat(w.tx, &r);
			CHECK(more, "%u copies: %s", made, w.tx->why);
		}
		for (last = seconds(); seconds() - last < 0.1;) {
			static uint8_t memory[FRAME_BYTES_MAX];
			struct frame f;
			struct payload p = { 0 };
			bool same;

			if (!w.rx->rx(w.rx, &f, NULL, 1))
				continue;
			last = seconds();
			payload_read(&p, (uint8_t *)f.data + PAYLOAD_AT);
			memset(memory, 0, sizeof(memory));
			frame_build(memory, &t, FIRST + (uint32_t)got, time_to_net(p.time_ns),
				    time_sum(time_to_net(p.time_ns)), TOUCH_HEADER, false, false);
			same = f.len == t.len && !memcmp(f.data, memory, f.len);
			w.rx->engine->release(w.rx, &f, 1);
			CHECK(same, "copy %llu of %u bytes is another frame",
			      (unsigned long long)got, lens[i]);
			CHECK(p.time_ns >= time && p.time_ns < clock_monotonic_ns() + add,
			      "copy %llu has a wrong time", (unsigned long long)got);
			times += p.time_ns != time;
			time = p.time_ns;
			got++;
		}
		CHECK(got == made, "%u made, %llu received", made, (unsigned long long)got);
		CHECK(times >= COPIES / BATCH / 2 && times <= COPIES / BATCH + 30,
		      "%llu times for %u copies", (unsigned long long)times, made);
		w.sent += made;
	}
	if (!complaint[0] && tx_drops(&w))
		snprintf(complaint, sizeof(complaint), "drops are counted, and nothing was lost");
	path_close(&w);
}

/* ---- packets that the device splits ---------------------------------------------------- */

static bool is_gso(const struct engine *e)
{
	return strstr(e->name, "-gso");
}

/* Sets whether devices split packets. They then compute no checksums either, as test ports do: a
 * veth would leave the checksums out. */
static bool devices_split(bool split)
{
	static const char features[] = "tx-udp-segmentation %s tx-checksum-ip-generic %s sg %s";
	const char *how = split ? "off" : "on";
	char set[128], command[320];

	snprintf(set, sizeof(set), features, how, how, how);
	snprintf(command, sizeof(command), "(ethtool -K sm0 %s && ethtool -K sm1 %s) >/dev/null",
		 set, set);
	return !run(command);
}

static void refuses_a_device_that_does_not_split(const struct engine *e)
{
	int before = count_fds(), error;
	struct path w;

	if (!is_gso(e) || e->caps & ENGINE_PAYLOAD)
		SKIP("sends no packets that a device splits");
	if (!devices_split(false))
		SKIP("cannot set features with `ethtool`");
	path_prepare(&w, e);
	error = port_open(w.tx);
	devices_split(true);
	CHECK(error == -EOPNOTSUPP && strstr(w.tx->why, "ethtool -K sm0 tx-udp-segmentation off"),
	      "%d %s", error, w.tx->why);
	CHECK(!w.tx->priv && count_fds() == before, "%d descriptors, %d before", count_fds(),
	      before);
}

/* Writes frame `seq` as the core does. Frames of one run have equal headers. */
static void run_frame(const struct path *w, struct frame *f, uint32_t seq, uint32_t run)
{
	const struct address address = { .src_mac = { 2, 0, 0, 0, 0, 1 },
					 .dst_mac = { 2, 0, 0, 0, 0, 2 },
					 .src_ip = 0xc6120001,
					 .dst_ip = 0xc6120002,
					 .src_ip6 = { 0xfd, [15] = 1 },
					 .dst_ip6 = { 0xfd, [15] = 2 },
					 .inner_src_ip = 0xc6120001,
					 .inner_dst_ip = 0xc6120002,
					 .v6 = run % 4 == 3,
					 .vxlan = run % 8 == 6,
					 .vlan = run % 8 == 6 || run % 3 ? 0 : 7,
					 .src_port = (uint16_t)(20000 + run),
					 .dst_port = 20000 };
	const bool headless = w->tx->engine->caps & ENGINE_PAYLOAD;
	const uint32_t least = headless ? PAYLOAD_BYTES : frame_least(&address);
	struct frame_template t;

	template_make(&t, &address, least + hash(run) % 1300, 7, 3, PHASE_MEASURED, headless);
	frame_build(f->data, &t, seq, 0, 0, TOUCH_FULL, headless, false);
	f->len = t.len;
}

/* Frames of several runs in a burst arrive as they were written, in order and once. Only IPv4
 * identifications differ: the kernel counts them up within a packet. Adds the number of frames with
 * such an identification. */
static void burst_arrives(struct path *w, uint32_t *seq, uint32_t first_run, uint32_t *numbered)
{
	const uint32_t n = 1 + random_below(BURST), change = random_below(2 * BURST);
	uint32_t come = 0, taken = 0;
	struct frame f[BURST], got;
	double start = seconds();

	CHECK(w->tx->engine->alloc(w->tx, f, n) == n, "no %u frames", n);
	for (uint32_t i = 0; i < n; i++)
		run_frame(w, &f[i], *seq + i, first_run + (i >= change));
	while (taken < n && !w->tx->failed && seconds() - start < 1)
		taken += w->tx->tx(w->tx, f + taken, n - taken);
	w->tx->engine->release(w->tx, f + taken, n - taken);
	CHECK(taken == n, "%u of %u taken: %s", taken, n, w->tx->why);
	while (come < n && seconds() - start < 1) {
		static uint8_t memory[FRAME_BYTES_MAX];
		struct frame want = { .data = memory };
		bool same;

		if (!w->rx->rx(w->rx, &got, NULL, 1))
			continue;
		memset(memory, 0, sizeof(memory));
		run_frame(w, &want, *seq + come, first_run + (come >= change));
		if (!(w->rx->engine->caps & ENGINE_PAYLOAD)) {
			const uint32_t type = net16(load16((uint8_t *)got.data + 12));
			const uint32_t id = ETH_BYTES + 4 + (type == 0x8100 ? VLAN_BYTES : 0);

			*numbered += type != 0x86dd && load16((uint8_t *)got.data + id);
			frame_clear_identification(got.data);
		}
		same = got.len == want.len && !memcmp(got.data, want.data, want.len);
		w->rx->engine->release(w->rx, &got, 1);
		CHECK(same, "frame %u, run %u, is another one: %u bytes for %u", *seq + come,
		      first_run + (come >= change), got.len, want.len);
		come++;
	}
	CHECK(come == n, "%u of %u arrived", come, n);
	*seq += n;
}

static void packets_arrive_as_the_frames_that_they_were_made_of(const struct engine *e)
{
	uint32_t seq = 0, numbered = 0;
	struct path w;

	if (!is_gso(e))
		SKIP("sends frame by frame");
	path_prepare(&w, e);
	if (path_open(&w))
		return;
	for (uint32_t run = 0; run < 600 && !complaint[0]; run++)
		burst_arrives(&w, &seq, run, &numbered);
	if (!complaint[0] && (receive_all(&w, 0.05) || tx_drops(&w) || rx_drops(&w)))
		snprintf(complaint, sizeof(complaint), "more frames than were sent, or drops");
	path_close(&w);
	CHECK(e->caps & ENGINE_PAYLOAD || numbered > seq / 3,
	      "only %u of %u frames came in packets", numbered, seq);
}

/* A full queue (qdisc) drops a packet as a whole: it is sent again, and nothing is lost. */
static void a_full_queue_takes_no_part_of_a_packet(const struct engine *e)
{
	uint32_t seq = 0, come = 0, errors = 0;
	struct frame f[BURST];
	struct path w;

	if (!is_gso(e) || e->caps & ENGINE_PAYLOAD)
		SKIP("sends no packets that a device splits");
	if (run("tc qdisc add dev sm0 root tbf rate 400mbit burst 80kb limit 80kb"))
		SKIP("cannot set up a slow queue with `tc`");
	path_prepare(&w, e);
	if (!path_open(&w)) {
		double start = seconds();

		while (seq < 20 * BURST && seconds() - start < 5 && !w.tx->failed) {
			uint32_t n = e->alloc(w.tx, f, BURST), taken;

			for (uint32_t i = 0; i < n; i++)
				run_frame(&w, &f[i], seq + i, 1);
			taken = w.tx->tx(w.tx, f, n);
			e->release(w.tx, f + taken, n - taken);
			seq += taken;
		}
		come = (uint32_t)receive_all(&w, 0.2);
		errors = (uint32_t)w.tx->tx_errors;
		path_close(&w);
	}
	run("tc qdisc del dev sm0 root");
	CHECK(complaint[0] || (seq >= 20 * BURST && come == seq && errors),
	      "%u taken, %u received, the queue was full %u times: %s", seq, come, errors,
	      w.tx->why);
}

/* A device without a queue may report that it dropped the last frame of a packet, after it has sent
 * the others: the packet is not sent again. */
static void a_packet_that_was_sent_in_part_is_not_sent_again(const struct engine *e)
{
	uint32_t seq = 0, numbered = 0;
	struct path w;

	if (!is_gso(e) || e->caps & ENGINE_PAYLOAD)
		SKIP("sends no packets that a device splits");
	path_prepare(&w, e);
	if (path_open(&w))
		return;
	device_reports_drops = true;
	for (uint32_t run = 0; run < 20 && !complaint[0]; run++)
		burst_arrives(&w, &seq, run, &numbered);
	device_reports_drops = false;
	if (!complaint[0] && receive_all(&w, 0.05))
		snprintf(complaint, sizeof(complaint), "frames arrived twice");
	path_close(&w);
}

/* A forwarder leaves frames as they are, wrong checksums included. */
static void a_forwarder_repairs_no_checksum(const struct engine *e)
{
	struct frame f[2];
	struct path w;
	uint32_t come = 0;
	bool same = true;

	if (!is_gso(e) || e->caps & ENGINE_PAYLOAD)
		SKIP("writes no checksums");
	path_prepare(&w, e);
	w.a.config.receives = w.a.config.forwards = true;
	if (path_open(&w))
		return;
	CHECK(e->alloc(w.tx, f, 2) == 2, "no frames");
	for (uint32_t i = 0; i < 2; i++) {
		run_frame(&w, &f[i], i, 1);
		((uint8_t *)f[i].data)[FRAME_MIN - 1] ^= 1;
	}
	CHECK(w.tx->tx(w.tx, f, 2) == 2, "not taken: %s", w.tx->why);
	for (double start = seconds(); come < 2 && seconds() - start < 1;) {
		struct payload p;

		if (!w.rx->rx(w.rx, f, NULL, 1))
			continue;
		come++;
		same &= frame_parse(f->data, f->len, 7, &p, TOUCH_FULL, false) == FRAME_CORRUPT;
		w.rx->engine->release(w.rx, f, 1);
	}
	path_close(&w);
	CHECK(come == 2 && same, "%u arrived", come);
}

/* ---- memory shared with another program ------------------------------------------------ */

static bool until_ready(struct port *port, bool ready)
{
	for (double start = seconds(); seconds() - start < 2; usleep(100))
		if (port->engine->ready(port) == ready)
			return true;
	return false;
}

/* Each end in turn ends while frames wait in the ring, and comes back. */
static void ends_connect_again(const struct engine *e)
{
	struct path w;

	if (!is_memif(e))
		SKIP("has no connection");
	path_prepare(&w, e);
	if (path_open(&w))
		return;
	stream(&w, 1000);
	for (int round = 0; round < 4 && !complaint[0]; round++) {
		struct port *gone = round & 1 ? &w.a : &w.b, *left = round & 1 ? &w.b : &w.a;
		const uint64_t lost = left == &w.a ? tx_drops(&w) : 0;
		struct frame f[BURST];
		uint32_t n = e->alloc(&w.a, f, 10), before = w.sent;

		n = send_next(&w, f, n);
		e->close(gone);
		if (!until_ready(left, false))
			snprintf(complaint, sizeof(complaint), "the link stays up, round %d",
				 round);
		if (left == &w.b) {
			/* What came before the end of the other program can still be read. */
			receive_in_order(&w, w.sent);
			if (w.received != before + n)
				snprintf(complaint, sizeof(complaint), "%u of %u frames are left",
					 w.received - before, n);
		}
		if (port_open(gone) || !until_ready(left, true) || !until_ready(gone, true))
			snprintf(complaint, sizeof(complaint), "no new link, round %d: %s", round,
				 gone->why);
		if (left == &w.a && !memif_turned) {
			const uint32_t again = e->alloc(&w.a, f, 1);

			e->release(&w.a, f, again);
			if (again != 1 || tx_drops(&w) != lost + n)
				snprintf(complaint, sizeof(complaint),
					 "%u frames waited, %llu of them are counted, %u allocated",
					 n, (unsigned long long)(tx_drops(&w) - lost), again);
		}
		w.received = w.sent;
		if (!complaint[0])
			stream(&w, w.sent + 1000);
	}
	path_close(&w);
}

/* Opens `count` ports of an interface, one per queue of two. */
static bool queues_open(struct port *ports, const struct port *like, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		ports[i] = *like;
		set_number(&ports[i], "queues", 2);
		ports[i].config.cores = count;
		ports[i].config.core = ports[i].config.queue = i;
		if (port_open(&ports[i])) {
			snprintf(complaint, sizeof(complaint), "%s", ports[i].why);
			while (i-- > 0)
				ports[i].engine->close(&ports[i]);
			return false;
		}
	}
	return true;
}

static void queue_send(struct port *port, uint32_t n, uint8_t mark)
{
	struct frame f[BURST];

	n = port->engine->alloc(port, f, n);
	for (uint32_t i = 0; i < n; i++) {
		memset(f[i].data, mark, FRAME_MIN);
		f[i].len = FRAME_MIN;
	}
	(void)port->tx(port, f, n);
}

/* Returns the number of frames with a mark, and counts others as -1000. */
static int queue_receive(struct port *port, uint8_t mark)
{
	struct frame f[BURST];
	const uint32_t n = port->rx(port, f, NULL, BURST);
	int count = 0;

	for (uint32_t i = 0; i < n; i++)
		count += *(uint8_t *)f[i].data == mark || !mark ? 1 : -1000;
	port->engine->release(port, f, n);
	return count;
}

static void a_queue_of_an_interface_is_one_ports(const struct engine *e)
{
	struct port tx[2], rx[2], one;
	struct path w;
	int got[4] = { 0 }, taken = 0;

	if (!is_memif(e))
		SKIP("has no interfaces of several ports");
	path_prepare(&w, e);
	if (!queues_open(rx, &w.b, 2))
		return;
	if (queues_open(tx, &w.a, 2)) {
		one = w.a;
		set_number(&one, "queues", 2);
		one.config.queue = 1;
		taken = port_open(&one);
		(void)until_ready(&tx[1], true);
		(void)until_ready(&rx[1], true);
		queue_send(&tx[0], 7, 1);
		queue_send(&tx[1], 9, 2);
		got[0] = queue_receive(&rx[0], 1);
		got[1] = queue_receive(&rx[1], 2);
		for (int i = 0; i < 2; i++)
			e->close(&rx[i]);
		/* One port for both queues. */
		(void)until_ready(&tx[1], false);
		set_number(&w.b, "queues", 2);
		if (!port_open(&w.b)) {
			(void)until_ready(&w.b, true);
			(void)until_ready(&tx[1], true);
			queue_send(&tx[0], 3, 1);
			queue_send(&tx[1], 4, 2);
			got[2] = queue_receive(&w.b, 0);
			got[3] = queue_receive(&w.b, 0);
			e->close(&w.b);
		}
		for (int i = 0; i < 2; i++)
			e->close(&tx[i]);
	} else {
		for (int i = 0; i < 2; i++)
			e->close(&rx[i]);
	}
	CHECK(taken == -EBUSY, "a second port of a queue: %d", taken);
	CHECK(got[0] == 7 && got[1] == 9 && got[2] + got[3] == 7 && got[2] * got[3] == 12,
	      "%d, %d, then %d and %d received", got[0], got[1], got[2], got[3]);
}

/* Returns the client's view of the memory of a path. */
static struct memif_link *link_of(struct path *w)
{
	struct memif_device *d;

	return memif_device_take(memif_turned ? &w->b : &w->a, &d) ? NULL : memif_device_link(d);
}

/* The client of the server `b` may have short buffers. */
static void a_frame_in_several_slots_arrives_whole(const struct engine *e)
{
	struct engine_stats stats = { 0 };
	struct memif_link *link;
	struct frame f[3], got;
	uint8_t want[3 * FRAME_MIN];
	uint32_t n, come = 0, rest = 0;
	bool same = false;
	struct path w;

	if (!is_memif(e) || memif_turned)
		SKIP("has no client with short buffers");
	path_prepare(&w, e);
	if (path_open(&w))
		return;
	link = link_of(&w);
	n = e->alloc(&w.a, f, 3);
	for (uint32_t i = 0; i < n; i++) {
		memset(f[i].data, (int)i + 1, FRAME_MIN);
		memset(want + (size_t)i * FRAME_MIN, (int)i + 1, FRAME_MIN);
		f[i].len = FRAME_MIN;
	}
	(void)w.a.tx(&w.a, f, n);
	link->to_server[0].ring->slots[0].flags = MEMIF_NEXT;
	link->to_server[0].ring->slots[1].flags = MEMIF_NEXT;
	come = w.b.rx(&w.b, &got, NULL, 1);
	same = come && got.len == sizeof(want) && !memcmp(got.data, want, sizeof(want));
	e->release(&w.b, &got, come);
	/* A chain that is longer than any frame, and one without an end. */
	n = e->alloc(&w.a, f, 3);
	for (uint32_t i = 0; i < n; i++)
		f[i].len = FRAME_LONGEST;
	(void)w.a.tx(&w.a, f, n);
	for (int i = 3; i < 6; i++)
		link->to_server[0].ring->slots[i].flags = i == 4 ? 0 : MEMIF_NEXT;
	rest = w.b.rx(&w.b, &got, NULL, 1);
	e->stats(&w.b, &stats);
	for (int i = 0; i < 6; i++)
		link->to_server[0].ring->slots[i].flags = 0;
	memif_link_leave(link);
	stream(&w, w.sent + 10000);
	path_close(&w);
	CHECK(n == 3 && same, "%u frames, %u bytes", come, got.len);
	CHECK(!rest && stats.rx_invalid == 2, "%u received, %llu discarded", rest,
	      (unsigned long long)stats.rx_invalid);
}

/* A server copies frames that are longer than the client's buffers into several of them. */
static void a_server_fills_several_buffers(const struct engine *e)
{
	struct engine_stats stats = { 0 };
	struct frame f[2];
	uint32_t n, taken;
	struct path w;

	if (!is_memif(e) || !memif_turned)
		SKIP("has no server that sends");
	path_prepare(&w, e);
	w.a.config.frame_max = 5000;
	if (path_open(&w))
		return;
	n = e->alloc(&w.a, f, 1);
	n += n ? 0 : e->alloc(&w.a, f, 1); /* the first look finds that the buffers are short */
	if (n)
		memset(f[0].data, 1, 5000);
	f[0].len = 5000;
	taken = w.a.tx(&w.a, f, n);
	queue_send(&w.a, 1, 2);
	taken += (uint32_t)queue_receive(&w.b, 2);
	e->stats(&w.b, &stats);
	path_close(&w);
	CHECK(n == 1 && taken == 2 && stats.rx_invalid == 1, "%u allocated, %u, %llu discarded", n,
	      taken, (unsigned long long)stats.rx_invalid);
}

static void nonsense_in_shared_memory_fails_the_port(const struct engine *e)
{
	struct memif_link *link;
	struct frame f[BURST];
	struct path w;
	uint32_t n;

	if (!is_memif(e))
		SKIP("shares no memory");
	path_prepare(&w, e);
	if (path_open(&w))
		return;
	link = link_of(&w);
	/* The position that the other end of `a` writes. */
	if (memif_turned)
		link->to_client[0].ring->head = 40000;
	else
		link->to_server[0].ring->tail = 40000;
	memif_link_leave(link);
	for (n = 0; n < 100 && e->alloc(&w.a, f, BURST); n++)
		;
	CHECK(w.a.failed && strstr(w.a.why, "impossible positions"), "after %u bursts: %s", n,
	      w.a.why);
	path_close(&w);
}

static const struct {
	const char *name;
	void (*run)(const struct engine *);
} tests[] = {
#define TEST(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}
	TEST(the_table_is_complete),
	TEST(refuses_an_interface_that_is_not_there),
	TEST(opens_closes_and_opens_again),
	TEST(says_how_it_works),
	TEST(no_frame_is_given_twice_or_lost),
	TEST(frames_arrive_whole_in_order_and_once),
	TEST(frames_go_on_after_one_was_returned_unsent),
	TEST(frames_received_stay_until_released),
	TEST(a_full_ring_takes_a_part_and_loses_nothing),
	TEST(what_waits_in_a_ring_is_flushed_and_delays_no_frame),
	TEST(drops_of_a_full_receiver_are_counted),
	TEST(a_port_reflects_what_it_received),
	TEST(every_socket_of_a_port_receives),
	TEST(frames_fetched_one_by_one_are_stamped_one_by_one),
	TEST(names_a_peer_that_takes_no_frames),
	TEST(a_peer_that_takes_no_frames_yet_fails_no_port),
	TEST(a_frame_too_long_is_not_lost_in_silence),
	TEST(jumbo_frames_arrive_whole),
	TEST(a_frame_that_was_cut_is_counted_and_not_given),
	TEST(buffers_are_as_long_as_the_ports_frames),
	TEST(ports_of_one_interface_count_their_own),
	TEST(drops_of_the_device_are_counted),
	TEST(every_kind_of_device_carries_frames),
	TEST(drops_of_a_socket_with_a_high_number_are_counted),
	TEST(a_device_makes_and_checks_sums),
	TEST(a_device_tells_when_frames_arrived),
	TEST(a_device_without_a_clock_is_refused),
	TEST(a_device_without_a_wire_takes_and_gives),
	TEST(a_pci_device_is_looked_for_after_others),
	TEST(counters_of_a_device_are_told_once),
	TEST(a_queue_of_a_device_is_one_ports),
	TEST(copies_are_frames_of_their_own),
	TEST(refuses_a_device_that_does_not_split),
	TEST(packets_arrive_as_the_frames_that_they_were_made_of),
	TEST(a_full_queue_takes_no_part_of_a_packet),
	TEST(a_packet_that_was_sent_in_part_is_not_sent_again),
	TEST(a_forwarder_repairs_no_checksum),
	TEST(ends_connect_again),
	TEST(a_queue_of_an_interface_is_one_ports),
	TEST(a_frame_in_several_slots_arrives_whole),
	TEST(a_server_fills_several_buffers),
	TEST(nonsense_in_shared_memory_fails_the_port),
};

static void tests_run(const struct engine *e, const char *only)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (only && strcmp(only, tests[i].name))
			continue;
		complaint[0] = skipped[0] = 0;
		tests[i].run(e);
		printf("%sok %u - %s%s: %s%s%s\n", complaint[0] ? "not " : "", ++test_number,
		       e->name, memif_turned ? ", the server sends" : "", tests[i].name,
		       skipped[0] ? " # SKIP " : "", skipped);
		if (complaint[0]) {
			printf("# %s\n", complaint);
			failures++;
		}
	}
}

int main(int argc, char **argv)
{
	const char *missing = network_make();

	signal(SIGPIPE, SIG_IGN); /* like the program, because vhost writes to closed sockets */
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (missing) {
		printf("1..0 # SKIP %s\n", missing);
		return 77;
	}
	for (const struct engine *const *e = engines; *e; e++) {
		if (argc > 1 && strcmp(argv[1], (*e)->name))
			continue;
		/* Only engines that need NAPI on every veth get it: without NAPI raw sockets see
		 * more variety. */
		set_feature("sm1", ETHTOOL_SGRO, (*e)->caps & ENGINE_NEEDS_ROOT);
		if (is_gso(*e))
			devices_split(true);
		tests_run(*e, argc > 2 ? argv[2] : NULL);
		memif_turned = is_memif(*e);
		if (memif_turned)
			tests_run(*e, argc > 2 ? argv[2] : NULL);
		memif_turned = false;
		if (is_gso(*e))
			devices_split(false);
	}
	printf("1..%u\n", test_number);
	return failures ? 1 : 0;
}
