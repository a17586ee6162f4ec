/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xdp: AF_XDP. Frames are in one area of chunks that the kernel (or, with zero-copy, the device)
 * reads and writes. A receiving port attaches an XDP program to its interface, which is removed
 * when the process ends; a port that only sends attaches none. A frame longer than a chunk is sent
 * from consecutive chunks, one descriptor each, and received in any chunks (multi-buffer).
 */
#include "engine.h"
#include "frames.h"
#include "socket.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xdp/libxdp.h>
#include <xdp/xsk.h>

#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9 /* Linux 6.17 */
#endif
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4) /* Linux 6.6 */
#define XDP_PKT_CONTD (1 << 0)
#endif
#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#define SO_BUSY_POLL_BUDGET 70
#endif

enum {
	CHUNK_SMALL = 2048,
	CHUNK_LARGE = 4096, /* a page, the kernel's maximum */
	HEADROOM = 256, /* XDP_PACKET_HEADROOM, before each received frame */
	/* A page-based driver such as veth splits longer frames: a page minus the headroom and the
	 * kernel's struct skb_shared_info. */
	RECEIVE_MAX = CHUNK_LARGE - HEADROOM - 320,
	QUEUES_MAX = 256,
	PROGRAMS_MAX = 64,
	STUCK_NS = 2000000, /* how long a full device may delay tx */
};

/* The XDP program of an interface, shared by the ports of its queues. */
struct program {
	uint32_t refs;
	ino_t netns;
	uint32_t ifindex;
	int map, link;
	bool native;
};

/* The memory of a port's frames. */
struct memory {
	struct xsk_umem *umem;
	uint8_t *area;
	size_t bytes;
	uint32_t chunk; /* bytes */
	uint32_t parts; /* consecutive chunks for one frame */
	bool splits; /* frames may need several descriptors */
	uint32_t frames;
	uint32_t free; /* frames on the stack */
	uint64_t *stack;
	uint8_t *unsent; /* with `splits`: descriptors of a frame that the kernel still has */
};

struct xdp_port {
	struct program *program; /* NULL: the port only sends */
	struct memory *memory;
	struct xsk_socket *xsk;
	struct xsk_ring_prod fill, tx;
	struct xsk_ring_cons completion, rx;
	int fd;
	bool zerocopy, busy_poll;

	uint32_t flying; /* descriptors passed to the kernel and not yet completed */
	struct frame joined; /* the parts so far of a frame that is being received */
	bool joining;

	uint64_t invalid, lost;
};

static const char *const mode_choices[] = { "auto", "native", "generic", NULL };
static const char *const copy_choices[] = { "auto", "zero-copy", "copy", NULL };

static const struct option_spec xdp_options[] = {
	{ .name = "mode",
	  .type = OPTION_TEXT,
	  .choices = mode_choices,
	  .help = "where the XDP program runs: in the driver or behind it" },
	{ .name = "copy",
	  .type = OPTION_TEXT,
	  .choices = copy_choices,
	  .help = "whether the device works in our memory" },
	{ .name = "ring",
	  .type = OPTION_NUMBER,
	  .min = 64,
	  .max = 32768,
	  .preset = 2048,
	  .help = "frames in each ring, a power of two" },
	{ .name = "busy-poll",
	  .type = OPTION_NUMBER,
	  .max = 1,
	  .help = "drive the device from our calls, not from its interrupts" },
	{ 0 },
};

/* ---- the XDP program ---------------------------------------------------------------- */

static struct program programs[PROGRAMS_MAX];

/* return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS); */
static int program_load(int map)
{
	const struct bpf_insn code[] = {
		{ .code = BPF_LDX | BPF_W | BPF_MEM,
		  .dst_reg = BPF_REG_2,
		  .src_reg = BPF_REG_1,
		  .off = offsetof(struct xdp_md, rx_queue_index) },
		{ .code = BPF_LD | BPF_DW, /* with an immediate value */
		  .dst_reg = BPF_REG_1,
		  .src_reg = BPF_PSEUDO_MAP_FD,
		  .imm = map },
		{ 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = XDP_PASS },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	/* The kernel rejects a program without multi-buffer support on large MTUs. */
	LIBBPF_OPTS(bpf_prog_load_opts, options, .prog_flags = BPF_F_XDP_HAS_FRAGS);
	int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "switchmark_xsk", "Apache-2.0", code,
			       sizeof(code) / sizeof(code[0]), &options);

	if (fd == -EINVAL) {
		options.prog_flags = 0; /* before Linux 5.18 */
		fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "switchmark_xsk", "Apache-2.0", code,
				   sizeof(code) / sizeof(code[0]), &options);
	}
	return fd;
}

static int program_attach(struct program *g, int prog, const char *mode)
{
	LIBBPF_OPTS(bpf_link_create_opts, options);

	g->link = -EOPNOTSUPP;
	if (strcmp(mode, "generic")) {
		g->native = true;
		options.flags = XDP_FLAGS_DRV_MODE;
		g->link = bpf_link_create(prog, (int)g->ifindex, BPF_XDP, &options);
	}
	if (g->link < 0 && strcmp(mode, "native")) {
		g->native = false;
		options.flags = XDP_FLAGS_SKB_MODE;
		g->link = bpf_link_create(prog, (int)g->ifindex, BPF_XDP, &options);
	}
	return g->link < 0 ? g->link : 0;
}

static void program_put(struct program *g)
{
	if (!g || --g->refs)
		return;
	close(g->link);
	close(g->map);
}

static int program_get(struct port *port, uint32_t ifindex, struct program **found)
{
	const char *mode = port_option_text(port, "mode"), *ifname = port->config.ifname;
	struct program *g = NULL;
	struct stat netns;
	int prog, error;

	if (stat("/proc/thread-self/ns/net", &netns))
		return port_fail(port, errno, "/proc/thread-self/ns/net: %s", strerror(errno));
	for (uint32_t i = 0; i < PROGRAMS_MAX; i++) {
		struct program *other = &programs[i];

		if (!other->refs) {
			g = g ? g : other;
		} else if (other->ifindex == ifindex && other->netns == netns.st_ino) {
			other->refs++;
			*found = other;
			return 0;
		}
	}
	if (!g)
		return port_fail(port, ENOSPC, "more than %d interfaces with an XDP program",
				 PROGRAMS_MAX);
	*g = (struct program){ .netns = netns.st_ino, .ifindex = ifindex };
	g->map = bpf_map_create(BPF_MAP_TYPE_XSKMAP, "switchmark_xsk", sizeof(uint32_t),
				sizeof(uint32_t), QUEUES_MAX, NULL);
	if (g->map < 0)
		return port_fail(port, g->map, "cannot make an XSKMAP: %s%s", strerror(-g->map),
				 g->map == -EPERM ? " (needs CAP_BPF in the first user namespace)" :
						    "");
	prog = program_load(g->map);
	if (prog < 0) {
		close(g->map);
		return port_fail(port, prog, "cannot load the XDP program: %s", strerror(-prog));
	}
	error = program_attach(g, prog, mode);
	close(prog); /* the link keeps a reference */
	if (error) {
		close(g->map);
		return port_fail(port, error, "cannot attach an XDP program to %s (mode %s): %s",
				 ifname, mode,
				 error == -EBUSY ? "there is one already" : strerror(-error));
	}
	g->refs = 1;
	*found = g;
	return 0;
}

/* ---- opening ------------------------------------------------------------------------ */

static void umem_close(struct memory *m)
{
	if (m->umem)
		(void)xsk_umem__delete(m->umem);
	m->umem = NULL;
}

static void memory_close(struct memory *m)
{
	if (!m)
		return;
	umem_close(m);
	if (m->area)
		munmap(m->area, m->bytes);
	free(m->stack);
	free(m->unsent);
	free(m);
}

static void xdp_close(struct port *port)
{
	struct xdp_port *p = port->priv;

	if (!p)
		return;
	program_put(p->program);
	if (p->xsk)
		xsk_socket__delete(p->xsk);
	memory_close(p->memory);
	free(p);
	port->priv = NULL;
}

static int memory_open(struct port *port, uint32_t ring)
{
	const struct port_config *c = &port->config;
	const uint32_t most = c->receives ? RECEIVE_MAX : CHUNK_LARGE;
	const uint32_t room = c->frame_max + (c->receives ? HEADROOM : 0);
	struct xdp_port *p = port->priv;
	struct memory *m = p->memory = lines_alloc(1, sizeof(*m));

	if (!m)
		return port_fail(port, ENOMEM, "no memory for a port");
	m->splits = c->frame_max > most;
	m->chunk = room <= CHUNK_SMALL ? CHUNK_SMALL : CHUNK_LARGE;
	m->parts = m->splits ? (room + VLAN_BYTES + CHUNK_LARGE - 1) / CHUNK_LARGE : 1;
	/* Enough for the rings and the callers. */
	m->frames = 2 * c->burst + (c->sends ? ring : 0) + (c->receives ? 2 * ring : 0);
	m->bytes = (size_t)m->chunk * m->parts * m->frames;
	m->stack = lines_alloc(m->frames, sizeof(*m->stack));
	m->unsent = lines_alloc(m->frames, sizeof(*m->unsent));
	m->area = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (m->area == MAP_FAILED)
		m->area = NULL;
	if (!m->stack || !m->unsent || !m->area)
		return port_fail(port, ENOMEM, "no memory for %u frames", m->frames);
	for (uint32_t i = m->frames; i-- > 0;)
		m->stack[m->free++] = (uint64_t)i * m->parts * m->chunk;
	return 0;
}

/* Tries to open the socket once; returns -errno without setting port->why. */
static int socket_try(struct port *port, uint32_t ring, uint16_t bind_flags)
{
	const struct port_config *c = &port->config;
	struct xdp_port *p = port->priv;
	struct memory *m = p->memory;
	struct xsk_umem_config umem = {
		.fill_size = ring,
		.comp_size = ring,
		.frame_size = m->chunk,
	};
	struct xsk_socket_config config = {
		.rx_size = ring,
		.tx_size = ring,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = bind_flags | XDP_USE_NEED_WAKEUP | (m->splits ? XDP_USE_SG : 0),
	};
	int error = xsk_umem__create(&m->umem, m->area, m->bytes, &p->fill, &p->completion, &umem);

	if (error) {
		m->umem = NULL;
		return error;
	}
	/* The kernel releases the queue of a closed socket in a worker, a moment after the
	 * close. */
	for (int tries = 0; tries < 200; tries++) {
		error = xsk_socket__create(&p->xsk, c->ifname, c->queue, m->umem,
					   c->receives ? &p->rx : NULL, c->sends ? &p->tx : NULL,
					   &config);
		if (error != -EBUSY)
			break;
		/* A umem can be used for one attempt only. */
		p->xsk = NULL;
		umem_close(m);
		usleep(1000);
		error = xsk_umem__create(&m->umem, m->area, m->bytes, &p->fill, &p->completion,
					 &umem);
		if (error) {
			m->umem = NULL;
			return error;
		}
		error = -EBUSY;
	}
	if (error) {
		p->xsk = NULL;
		umem_close(m);
	}
	return error;
}

static int socket_open(struct port *port, uint32_t ring)
{
	const struct port_config *c = &port->config;
	const char *copy = port_option_text(port, "copy");
	const bool generic = c->receives && !((struct xdp_port *)port->priv)->program->native;
	struct xdp_port *p = port->priv;
	int error = -EOPNOTSUPP;

	if (strcmp(copy, "copy") && !generic) {
		error = socket_try(port, ring, XDP_ZEROCOPY);
		p->zerocopy = !error;
	}
	if (error && strcmp(copy, "zero-copy"))
		error = socket_try(port, ring, XDP_COPY);
	if (!error)
		return 0;
	if (error == -ENOBUFS)
		return port_fail(port, EPERM,
				 "%zu bytes of frames are more than RLIMIT_MEMLOCK allows",
				 p->memory->bytes);
	return port_fail(port, error, "AF_XDP on queue %u of %s (copy %s): %s%s", c->queue,
			 c->ifname, copy, strerror(-error),
			 p->memory->splits && error == -EINVAL ?
				 " (frames of several buffers need Linux 6.6)" :
				 "");
}

static void busy_poll_start(struct xdp_port *p, uint32_t burst)
{
	const int budget = burst < 64 ? 64 : burst > 1024 ? 1024 : (int)burst;

	p->busy_poll =
		!setsockopt(p->fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &(int){ 1 }, sizeof(int)) &&
		!setsockopt(p->fd, SOL_SOCKET, SO_BUSY_POLL, &(int){ 20 }, sizeof(int)) &&
		!setsockopt(p->fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, &budget, sizeof(budget));
}

static void fill_more(struct xdp_port *p);
static uint32_t xdp_tx_long(struct port *port, struct frame *f, uint32_t n);
static uint32_t xdp_rx_long(struct port *port, struct frame *f, struct arrival *arrivals,
			    uint32_t n);

static int xdp_start(struct port *port)
{
	const struct port_config *c = &port->config;
	struct xdp_port *p = port->priv;
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	uint32_t ring = 64, ifindex = if_nametoindex(c->ifname);
	int error;

	if (!ifindex)
		return port_fail(port, ENODEV, "there is no interface %s", c->ifname);
	if (c->queue >= QUEUES_MAX)
		return port_fail(port, EINVAL, "queue %u: at most %d", c->queue, QUEUES_MAX - 1);
	while (ring < port_option(port, "ring"))
		ring *= 2;
	/* Permitted for root only, and required before Linux 5.11. */
	(void)setrlimit(RLIMIT_MEMLOCK, &unlimited);
	libbpf_set_print(NULL);
	libxdp_set_print(NULL);
	error = memory_open(port, ring);
	if (error)
		return error;
	if (c->receives) {
		error = program_get(port, ifindex, &p->program);
		if (error)
			return error;
	}
	error = socket_open(port, ring);
	if (error)
		return error;
	p->fd = xsk_socket__fd(p->xsk);
	/* Without this option the kernel sends 32 frames per call. */
	if (c->sends)
		(void)setsockopt(p->fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &ring, sizeof(ring));
	if (port_option(port, "busy-poll"))
		busy_poll_start(p, c->burst);
	if (c->receives) {
		fill_more(p);
		if (bpf_map_update_elem(p->program->map, &c->queue, &p->fd, BPF_ANY))
			return port_fail(port, errno, "cannot direct queue %u to the socket: %s",
					 c->queue, strerror(errno));
	}
	if (p->memory->splits) {
		port->tx = xdp_tx_long;
		port->rx = xdp_rx_long;
	}
	snprintf(port->mode, sizeof(port->mode), "%s%s%s%s",
		 !c->receives	    ? "" :
		 p->program->native ? "native, " :
				      "generic, ",
		 p->zerocopy ? "zero-copy" : "copy", p->busy_poll ? ", busy-poll" : "",
		 p->memory->splits ? ", multi-buffer" : "");
	return 0;
}

static int xdp_open(struct port *port)
{
	int error;

	port->priv = lines_alloc(1, sizeof(struct xdp_port));
	if (!port->priv)
		return port_fail(port, ENOMEM, "no memory for a port");
	error = xdp_start(port);
	if (error)
		xdp_close(port);
	return error;
}

static bool xdp_ready(struct port *port)
{
	return interface_running(port);
}

/* ---- sending ------------------------------------------------------------------------ */

/* Returns the address of the frame's memory that contains an address. */
always_inline uint64_t frame_start(const struct memory *m, uint64_t address)
{
	if (likely(m->parts == 1))
		return address & ~(uint64_t)(m->chunk - 1);
	return address - address % ((uint64_t)m->parts * m->chunk);
}

always_inline void frame_give(struct memory *m, uint64_t address)
{
	m->stack[m->free++] = frame_start(m, address);
}

/* Returns the entry of a frame in `unsent`. */
always_inline uint8_t *frame_unsent(const struct memory *m, uint64_t address)
{
	return &m->unsent[address / ((uint64_t)m->parts * m->chunk)];
}

/* Takes back the memory of sent frames. */
always_inline void complete(struct xdp_port *p)
{
	struct memory *m = p->memory;
	uint32_t at, n;

	if (!p->flying)
		return;
	n = xsk_ring_cons__peek(&p->completion, p->flying, &at);
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t address = *xsk_ring_cons__comp_addr(&p->completion, at + i);

		if (likely(!m->splits) || !--*frame_unsent(m, address))
			frame_give(m, address);
	}
	xsk_ring_cons__release(&p->completion, n);
	p->flying -= n;
}

/* Returns the descriptors in the send ring that the kernel has not yet read. */
always_inline uint32_t waiting(const struct xdp_port *p)
{
	return p->tx.cached_prod - __atomic_load_n(p->tx.consumer, __ATOMIC_ACQUIRE);
}

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* True if frames wait for a system call. */
static bool asks(const struct xdp_port *p)
{
	return waiting(p) && (p->busy_poll || xsk_ring_prod__needs_wakeup(&p->tx));
}

/* Makes the kernel send, with one call. */
static void ask(struct port *port)
{
	struct xdp_port *p = port->priv;
	int error = sendto(p->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 ? errno : 0;

	/* EBUSY: the device dropped the frame that the kernel read last. */
	if (error == EBUSY && !p->zerocopy) {
		p->lost++;
	} else if (error && error != EAGAIN && error != EBUSY) {
		errno = error;
		socket_tx_failed(port);
	}
	complete(p);
}

/*
 * In copy mode the kernel sends only within our calls: repeat the call until the kernel has read
 * every frame, or the device has been full for STUCK_NS; the next call continues. In zero-copy mode
 * the driver fetches frames by itself, and one call wakes it.
 */
static void kick(struct port *port)
{
	struct xdp_port *p = port->priv;
	uint32_t left = waiting(p);
	uint64_t since = 0;

	if (!asks(p))
		return;
	do {
		uint32_t before = left;

		ask(port);
		if (port->failed)
			return;
		left = waiting(p);
		if (likely(left != before))
			since = 0;
		else if (!since)
			since = monotonic_ns();
		else if (monotonic_ns() - since > STUCK_NS)
			return;
	} while (left && !p->zerocopy);
}

static uint32_t xdp_alloc(struct port *port, struct frame *f, uint32_t n)
{
	struct xdp_port *p = port->priv;
	struct memory *m = p->memory;

	if (m->free < n)
		complete(p);
	if (unlikely(m->free < n)) {
		kick(port);
		n = m->free < n ? m->free : n;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint64_t address = m->stack[--m->free];

		f[i] = (struct frame){ .data = m->area + address, .handle = address };
	}
	return n;
}

/* Reports a frame that does not fit its memory. */
static void frame_refuse(struct port *port, const struct frame *f)
{
	port_fail(port, EMSGSIZE, "cannot send a frame of %u bytes on %s", f->len,
		  port->config.ifname);
}

static uint32_t xdp_tx(struct port *port, struct frame *f, uint32_t n)
{
	struct xdp_port *p = port->priv;
	const uint32_t chunk = p->memory->chunk;
	uint32_t room, at = 0, i;

	complete(p);
	room = xsk_prod_nb_free(&p->tx, n);
	/* The completion ring must have room for every frame. */
	if (room > p->tx.size - p->flying)
		room = p->tx.size - p->flying;
	n = n < room ? n : room;
	for (i = 0; i < n; i++)
		if (unlikely(f[i].len < ETH_BYTES ||
			     (f[i].handle & (chunk - 1)) + f[i].len > chunk))
			break;
	if (unlikely(i < n)) {
		if (!i)
			frame_refuse(port, f);
		n = i;
	}
	xsk_ring_prod__reserve(&p->tx, n, &at);
	for (i = 0; i < n; i++)
		*xsk_ring_prod__tx_desc(&p->tx, at + i) =
			(struct xdp_desc){ .addr = f[i].handle, .len = f[i].len };
	xsk_ring_prod__submit(&p->tx, n);
	p->flying += n;
	kick(port);
	return n;
}

/* The same for frames that may need several descriptors: one for each of their chunks. */
static uint32_t xdp_tx_long(struct port *port, struct frame *f, uint32_t n)
{
	struct xdp_port *p = port->priv;
	struct memory *m = p->memory;
	uint32_t submitted = 0, i;

	complete(p);
	for (i = 0; i < n; i++) {
		const uint64_t start = frame_start(m, f[i].handle), end = f[i].handle + f[i].len;
		uint64_t from = f[i].handle;
		uint32_t parts = (uint32_t)((end - 1) / m->chunk - from / m->chunk) + 1, at;

		if (unlikely(f[i].len < ETH_BYTES || end > start + (uint64_t)m->parts * m->chunk)) {
			if (!i)
				frame_refuse(port, f);
			break;
		}
		if (p->flying + parts > p->tx.size || !xsk_ring_prod__reserve(&p->tx, parts, &at))
			break;
		*frame_unsent(m, start) = (uint8_t)parts;
		p->flying += parts;
		submitted += parts;
		while (from < end) {
			const uint64_t left = m->chunk - from % m->chunk;
			const uint64_t len = end - from < left ? end - from : left;

			*xsk_ring_prod__tx_desc(&p->tx, at++) = (struct xdp_desc){
				.addr = from,
				.len = (uint32_t)len,
				.options = from + len < end ? XDP_PKT_CONTD : 0,
			};
			from += len;
		}
	}
	xsk_ring_prod__submit(&p->tx, submitted);
	kick(port);
	return i;
}

/* ---- receiving ---------------------------------------------------------------------- */

/* Gives the kernel memory for received frames, all with one update of the ring. */
static void fill_more(struct xdp_port *p)
{
	struct memory *m = p->memory;
	uint32_t n = xsk_prod_nb_free(&p->fill, p->fill.size), at;

	if (n > m->free)
		n = m->free;
	if (!n || !xsk_ring_prod__reserve(&p->fill, n, &at))
		return;
	for (uint32_t i = 0; i < n; i++)
		*xsk_ring_prod__fill_addr(&p->fill, at + i) = m->stack[--m->free];
	xsk_ring_prod__submit(&p->fill, n);
}

/* Returns the number of received descriptors, at most `n`. Wakes the kernel if it waits for that. */
always_inline uint32_t rx_peek(struct port *port, uint32_t n, uint32_t *at)
{
	struct xdp_port *p = port->priv;
	const uint32_t got = xsk_ring_cons__peek(&p->rx, n, at);

	if (port->config.sends && unlikely(asks(p)))
		ask(port);
	if (!got && (p->busy_poll || xsk_ring_prod__needs_wakeup(&p->fill)))
		(void)recvfrom(p->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
	return got;
}

static uint32_t xdp_rx(struct port *port, struct frame *f, struct arrival *arrivals, uint32_t n)
{
	struct xdp_port *p = port->priv;
	const uint32_t most = port->config.frame_max + VLAN_BYTES;
	uint32_t at, got = rx_peek(port, n, &at), taken = 0;

	(void)arrivals;
	if (!got)
		return 0;
	for (uint32_t i = 0; i < got; i++) {
		const struct xdp_desc *d = xsk_ring_cons__rx_desc(&p->rx, at + i);

		if (unlikely(d->len > most)) {
			p->invalid++;
			frame_give(p->memory, d->addr);
			continue;
		}
		f[taken++] = (struct frame){ p->memory->area + d->addr, d->len, d->addr };
	}
	xsk_ring_cons__release(&p->rx, got);
	fill_more(p);
	return taken;
}

/* The same for frames that may have several descriptors. Each has the first chunk of a frame's
 * memory, so the later parts are copied behind the first one. */
static uint32_t xdp_rx_long(struct port *port, struct frame *f, struct arrival *arrivals,
			    uint32_t n)
{
	struct xdp_port *p = port->priv;
	struct memory *m = p->memory;
	const uint32_t most = port->config.frame_max + VLAN_BYTES;
	uint32_t at, got = rx_peek(port, n, &at), taken = 0;

	(void)arrivals;
	if (!got)
		return 0;
	for (uint32_t i = 0; i < got; i++) {
		const struct xdp_desc *d = xsk_ring_cons__rx_desc(&p->rx, at + i);
		struct frame *joined = &p->joined;

		if (!p->joining) {
			*joined = (struct frame){ m->area + d->addr, d->len, d->addr };
		} else {
			if (joined->len + d->len <= most)
				memcpy((uint8_t *)joined->data + joined->len, m->area + d->addr,
				       d->len);
			joined->len += d->len;
			frame_give(m, d->addr);
		}
		p->joining = d->options & XDP_PKT_CONTD;
		if (p->joining)
			continue;
		if (likely(joined->len <= most)) {
			f[taken++] = *joined;
			continue;
		}
		p->invalid++;
		frame_give(m, joined->handle);
	}
	xsk_ring_cons__release(&p->rx, got);
	fill_more(p);
	return taken;
}

static void xdp_release(struct port *port, struct frame *f, uint32_t n)
{
	struct xdp_port *p = port->priv;

	/* In reverse, so that the first frame taken is on top again. */
	for (uint32_t i = n; i-- > 0;)
		frame_give(p->memory, f[i].handle);
}

static bool xdp_flush(struct port *port)
{
	const struct xdp_port *p = port->priv;

	if (!port->config.sends)
		return true;
	if (asks(p))
		ask(port);
	return !waiting(p) || port->failed;
}

static void xdp_stats(struct port *port, struct engine_stats *stats)
{
	struct xdp_port *p = port->priv;
	struct xdp_statistics s = { 0 };
	socklen_t size = sizeof(s);

	(void)getsockopt(p->fd, SOL_XDP, XDP_STATISTICS, &s, &size);
	*stats = (struct engine_stats){
		.rx_ring_drops = s.rx_dropped + s.rx_ring_full,
		.rx_invalid = p->invalid + s.rx_invalid_descs,
		.tx_errors = port->tx_errors,
		.tx_drops = p->lost + s.tx_invalid_descs,
	};
}

const struct engine engine_xdp = {
	.name = "xdp",
	.caps = ENGINE_SPREADS | ENGINE_SENDS | ENGINE_RECEIVES | ENGINE_REFLECTS |
		ENGINE_NEEDS_INTERFACE,
	.options = xdp_options,
	.summary = "AF_XDP",
	.open = xdp_open,
	.ready = xdp_ready,
	.alloc = xdp_alloc,
	.tx = xdp_tx,
	.rx = xdp_rx,
	.release = xdp_release,
	.flush = xdp_flush,
	.stats = xdp_stats,
	.close = xdp_close,
};
