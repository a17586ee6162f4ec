/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xdp-live: the kernel creates frames for BPF_PROG_RUN ("live frames"), and a BPF program fills and
 * redirects them to the interface: no socket and no skb on our side. Frames are built in the memory
 * of a BPF map; one system call sends a burst. The call itself costs as much as 25 frames (13 us
 * and 0.5 us, Linux 6.18 into a veth), so bursts of 256 and more pay off. At full rate one call
 * sends thousands of copies of one frame, and the BPF program writes what differs between them.
 */
#include "xdp_live.h"
#include "clock.h"
#include "engine.h"
#include "frames.h"
#include "socket.h"
#include "xdp_live_object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct live_port {
	struct bpf_object *object;
	struct bpf_link *link; /* of the counting program */
	int prog;
	int parked, park; /* a second attachment of the program, and its namespace: see live_park */
	struct live_burst *burst; /* shared with the programs */
	uint8_t *area;
	size_t bytes; /* mapped */
	uint64_t run; /* frames for which the program has run */
	uint32_t copied; /* the offset of the frame that is repeated, behind those of the pool */
	bool repeats; /* a call has repeated a frame */
	uint64_t shift_ns; /* of CLOCK_MONOTONIC by a time namespace: BPF programs see none */
	/* when the device refused the first frames, if it has never taken any */
	uint64_t refused_ns;

	uint32_t free, slots;
	uint32_t *stack; /* offsets of free frames */
};

static const struct option_spec live_options[] = {
	{ .name = "batch",
	  .type = OPTION_NUMBER,
	  .min = 1,
	  .max = 256,
	  .preset = 64,
	  .help = "frames between two flushes to the device" },
	{ 0 },
};

static void live_close(struct port *port)
{
	struct live_port *p = port->priv;

	if (!p)
		return;
	bpf_link__destroy(p->link);
	if (p->parked >= 0)
		close(p->parked);
	if (p->park >= 0)
		close(p->park);
	if (p->area)
		munmap(p->area, p->bytes);
	if (p->burst)
		munmap(p->burst, sizeof(*p->burst));
	bpf_object__close(p->object);
	free(p->stack);
	free(p);
	port->priv = NULL;
}

/* Frames are an odd number of cache lines apart, which spreads them over the cache sets. */
static uint32_t live_stride(uint32_t frame_max)
{
	return ((frame_max + CACHE_LINE - 1) / CACHE_LINE | 1) * CACHE_LINE;
}

static void *map_memory(const struct bpf_map *map, size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			    bpf_map__fd(map), 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int live_load(struct port *port, uint32_t area)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "switchmark_live");
	struct live_port *p = port->priv;
	struct bpf_program *prog, *count;
	struct bpf_map *map, *rodata, *bss;
	uint32_t mask = area - 1;
	int error;

	p->object = bpf_object__open_mem(xdp_live_object, sizeof(xdp_live_object), &options);
	if (!p->object)
		return port_fail(port, errno, "the BPF object: %s", strerror(errno));
	map = bpf_object__find_map_by_name(p->object, "area");
	rodata = bpf_object__find_map_by_name(p->object, ".rodata");
	bss = bpf_object__find_map_by_name(p->object, ".bss");
	prog = bpf_object__find_program_by_name(p->object, "live_frame");
	count = bpf_object__find_program_by_name(p->object, "live_sent");
	if (!map || !rodata || !bss || !prog || !count ||
	    bpf_map__value_size(bss) < sizeof(struct live_burst))
		return port_fail(port, ENOENT, "the BPF object is not what was built");
	error = bpf_map__set_initial_value(rodata, &mask, sizeof(mask));
	if (!error)
		error = bpf_map__set_value_size(map, area + LIVE_FRAME_MAX);
	if (error)
		return port_fail(port, error, "the BPF object: %s", strerror(-error));
	error = bpf_object__load(p->object);
	if (error)
		return port_fail(
			port, error, "cannot load the BPF programs: %s%s", strerror(-error),
			error == -EPERM ? " (needs root in the first user namespace)" : "");
	p->prog = bpf_program__fd(prog);
	p->burst = map_memory(bss, sizeof(*p->burst));
	p->bytes = area + LIVE_FRAME_MAX;
	p->area = map_memory(map, p->bytes);
	if (!p->burst || !p->area)
		return port_fail(port, errno, "cannot map %zu bytes: %s", p->bytes,
				 strerror(errno));
	p->link = bpf_program__attach(count);
	if (!p->link)
		return port_fail(port, errno, "cannot count what %s drops: xdp_devmap_xmit: %s",
				 port->config.ifname, strerror(errno));
	return 0;
}

/*
 * BPF_PROG_RUN adds the program to the kernel's XDP dispatcher for the duration of the call, which
 * takes two RCU grace periods (25 ms per call, Linux 6.18), unless the program is already there
 * because it is attached to an interface. Therefore it is attached to the loopback interface, which
 * stays down, of a network namespace created for this purpose.
 */
static int live_park(struct port *port)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = XDP_FLAGS_SKB_MODE);
	struct live_port *p = port->priv;
	int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	if (here < 0 || unshare(CLONE_NEWNET)) {
		int error = port_fail(port, errno, "no network namespace: %s", strerror(errno));

		if (here >= 0)
			close(here);
		return error;
	}
	p->park = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	p->parked = bpf_link_create(p->prog, 1, BPF_XDP, &options);
	/* This thread started in that namespace; after a failure everything else would run in the
	 * wrong one. */
	if (setns(here, CLONE_NEWNET))
		_exit(70);
	close(here);
	if (p->park < 0 || p->parked < 0)
		return port_fail(port, EIO, "cannot attach the program to a loopback interface");
	return 0;
}

static void live_describe(struct port *port)
{
	const struct live_port *p = port->priv;

	snprintf(port->mode, sizeof(port->mode), "devmap, batches of %u%s",
		 (uint32_t)port_option(port, "batch"), p->repeats ? ", made by BPF" : "");
}

static uint64_t time_shift_ns(void)
{
	FILE *offsets = fopen("/proc/self/timens_offsets", "re");
	long long seconds = 0, ns = 0;

	if (offsets) {
		if (fscanf(offsets, "monotonic %lld %lld", &seconds, &ns) != 2)
			seconds = ns = 0;
		fclose(offsets);
	}
	return (uint64_t)(seconds * 1000000000 + ns);
}

static int live_start(struct port *port)
{
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	const struct port_config *c = &port->config;
	const uint32_t stride = live_stride(c->frame_max), zero = 0;
	uint32_t area = 4096, ifindex = if_nametoindex(c->ifname);
	struct live_port *p = port->priv;
	struct stat netns;
	int error;

	if (!ifindex)
		return port_fail(port, ENODEV, "there is no interface %s", c->ifname);
	if (c->receives)
		return port_fail(port, EINVAL, "xdp-live only sends");
	if (c->frame_max > LIVE_FRAME_MAX)
		return port_fail(port, EMSGSIZE, "frames of %u bytes: a live frame has at most %d",
				 c->frame_max, LIVE_FRAME_MAX);
	if (stat("/proc/thread-self/ns/net", &netns))
		return port_fail(port, errno, "/proc/thread-self/ns/net: %s", strerror(errno));
	p->shift_ns = time_shift_ns();
	p->slots = 2 * c->burst;
	p->copied = p->slots * stride;
	while (area < p->copied + stride)
		area *= 2;
	p->stack = lines_alloc(p->slots, sizeof(*p->stack));
	if (!p->stack)
		return port_fail(port, ENOMEM, "no memory for %u frames", p->slots);
	for (uint32_t i = p->slots; i-- > 0;)
		p->stack[p->free++] = i * stride;
	(void)setrlimit(RLIMIT_MEMLOCK, &unlimited);
	libbpf_set_print(NULL);
	error = live_load(port, area);
	if (!error)
		error = live_park(port);
	if (error)
		return error;
	p->burst->ifindex = ifindex;
	p->burst->netns = (uint32_t)netns.st_ino;
	/* A devmap refers to the device itself, so the sending thread may be in any namespace. */
	error = bpf_map_update_elem(bpf_object__find_map_fd_by_name(p->object, "device"), &zero,
				    &ifindex, BPF_ANY);
	if (error)
		return port_fail(port, error, "%s takes no frames from XDP: %s", c->ifname,
				 strerror(-error));
	live_describe(port);
	return 0;
}

static int live_open(struct port *port)
{
	struct live_port *p = lines_alloc(1, sizeof(*p));
	int error;

	if (!p)
		return port_fail(port, ENOMEM, "no memory for a port");
	port->priv = p;
	p->parked = p->park = -1;
	error = live_start(port);
	if (error)
		live_close(port);
	return error;
}

static bool live_ready(struct port *port)
{
	return interface_running(port);
}

static uint32_t live_alloc(struct port *port, struct frame *f, uint32_t n)
{
	struct live_port *p = port->priv;

	if (n > p->free)
		n = p->free;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t offset = p->stack[--p->free];

		f[i] = (struct frame){ .data = p->area + offset, .handle = offset };
	}
	return n;
}

static void live_release(struct port *port, struct frame *f, uint32_t n)
{
	struct live_port *p = port->priv;

	/* In reverse, so that the first frame taken is on top again. */
	for (uint32_t i = n; i-- > 0;)
		p->stack[p->free++] = (uint32_t)f[i].handle;
}

#define REFUSED_NS 200000000 /* longer than a full ring needs to drain */

/* True if the device certainly takes no frames. */
static bool live_is_refused(struct live_port *p)
{
	const uint64_t now = clock_monotonic_ns();

	if (!p->refused_ns)
		p->refused_ns = now;
	return now - p->refused_ns > REFUSED_NS;
}

/* Runs the program for up to `n` frames, the first of which is like the frame at `data`. Returns for
 * how many it has run: after a signal for less. */
static uint32_t live_run(struct port *port, const void *data, uint32_t len, uint32_t n,
			 uint32_t batch)
{
	struct live_port *p = port->priv;
	struct live_burst *b = p->burst;
	LIBBPF_OPTS(bpf_test_run_opts, options, .flags = BPF_F_TEST_XDP_LIVE_FRAMES,
		    .batch_size = batch, .data_in = data, .data_size_in = len, .repeat = (int)n);
	uint32_t run;
	int error;

	b->next = 0;
	error = bpf_prog_test_run_opts(p->prog, &options);
	__atomic_store_n(&b->task, 0, __ATOMIC_RELEASE);
	run = __atomic_load_n(&b->next, __ATOMIC_ACQUIRE);
	if (unlikely(error)) {
		errno = -error;
		socket_tx_failed(port);
	}
	if (unlikely(!b->sent && run) && live_is_refused(p)) {
		port_fail(port, EIO,
			  "%s takes no frames from XDP; the peer of a veth needs NAPI: "
			  "ethtool -K PEER gro on, or an XDP program",
			  port->config.ifname);
		return 0;
	}
	p->run += run;
	return run;
}

static uint32_t live_tx(struct port *port, struct frame *f, uint32_t n)
{
	struct live_port *p = port->priv;
	struct live_burst *b = p->burst;
	uint32_t asked, run;

	for (asked = 0; asked < n && asked < LIVE_BURST; asked++) {
		if (unlikely(f[asked].len < 14 || f[asked].len > port->config.frame_max))
			break;
		b->frames[asked].offset = (uint32_t)f[asked].handle;
		b->frames[asked].len = f[asked].len;
	}
	if (unlikely(!asked)) {
		if (n)
			port_fail(port, EMSGSIZE, "cannot send a frame of %u bytes on %s", f[0].len,
				  port->config.ifname);
		return 0;
	}
	b->repetition.on = 0;
	run = live_run(port, f[0].data, f[0].len, asked, (uint32_t)port_option(port, "batch"));
	live_release(port, f, run);
	return run;
}

/* A call has at most so many frames and takes at most so long: the sender listens to commands
 * between calls. Once the time is up, the kernel makes the other frames of the call in vain. */
enum { REPEAT_MAX = 8192, REPEAT_NS = 20000000 };

static uint32_t live_repeat(struct port *port, const struct repetition *r)
{
	struct live_port *p = port->priv;
	struct live_burst *b = p->burst;
	const uint32_t most = r->most < REPEAT_MAX ? r->most : REPEAT_MAX;
	const uint32_t option = (uint32_t)port_option(port, "batch");
	const uint32_t batch = r->batch < option ? r->batch : option;
	const uint64_t until = clock_monotonic_ns() + REPEAT_NS;
	uint8_t *frame = p->area + p->copied;

	memcpy(frame, r->head, FRAME_MIN);
	memset(frame + FRAME_MIN, 0, r->len - FRAME_MIN);
	b->repetition = (struct live_repetition){
		.place = { .offset = p->copied, .len = r->len },
		.on = 1,
		.batch = batch,
		.until = (r->until_ns < until ? r->until_ns : until) - p->shift_ns,
		.sum = r->sum,
		.add = r->add_ns + p->shift_ns,
		.number = r->number,
	};
	p->repeats = true;
	return live_run(port, frame, r->len, most, batch);
}

static uint32_t live_rx(struct port *port, struct frame *f, struct arrival *arrivals, uint32_t n)
{
	(void)port;
	(void)f;
	(void)arrivals;
	(void)n;
	return 0;
}

static void live_stats(struct port *port, struct engine_stats *stats)
{
	struct live_port *p = port->priv;

	*stats = (struct engine_stats){
		.tx_errors = port->tx_errors,
		.tx_drops = p->run - p->burst->sent,
	};
}

const struct engine engine_xdp_live = {
	.name = "xdp-live",
	.caps = ENGINE_SENDS | ENGINE_NEEDS_INTERFACE | ENGINE_NEEDS_ROOT | ENGINE_PRIVILEGED,
	.options = live_options,
	.summary = "frames made in the kernel by BPF_PROG_RUN, redirected into the interface",
	.open = live_open,
	.ready = live_ready,
	.alloc = live_alloc,
	.tx = live_tx,
	.repeat = live_repeat,
	.rx = live_rx,
	.release = live_release,
	.describe = live_describe,
	.stats = live_stats,
	.close = live_close,
};
