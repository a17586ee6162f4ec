/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The programs of the engine xdp-live. `live_frame` runs once per frame that the kernel creates for
 * BPF_PROG_RUN. It writes the frame in full, because a recycled page contains what the switch made
 * of an older frame, and redirects it to the port's interface. The frame is the next one of the
 * burst, or a copy of the only one with its own number, time and checksum. `live_sent` counts how
 * many frames the interface took; the kernel shows its structures only to programs under a
 * GPL-compatible licence, which explains the licence of this file.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "xdp_live.h"

/* The parts of the kernel's types that live_sent reads; libbpf locates the fields by name. */
struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} __attribute__((preserve_access_index)) possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

struct live_burst burst;

/* Size of the area minus one, where the size is a power of two; set before loading. */
const volatile __u32 area_mask;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, LIVE_FRAME_MAX); /* plus the area: set before loading */
} area SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} device SEC(".maps");

/* The offsets of a test frame without a tag (frames.h). */
enum { CHECKSUM_AT = 40, NUMBER_AT = 48, TIME_AT = 52 };

/* Copies a frame of LIVE_SHORT bytes. */
static __always_inline void copy_short(void *to, const void *from)
{
	const __u64 *words = from;
	__u64 *out = to;

#pragma unroll
	for (int i = 0; i < LIVE_SHORT / 8; i++)
		out[i] = words[i];
	*(__u32 *)(out + LIVE_SHORT / 8) = *(const __u32 *)(words + LIVE_SHORT / 8);
}

/* Takes the time of the next batch, and the checksum that its first frame has. Returns false if the
 * time is up. */
static __always_inline int batch_begin(struct live_repetition *r)
{
	const __u64 now = bpf_ktime_get_ns();
	__u64 time, sum;

	if (r->over || now >= r->until) {
		r->over = 1;
		return 0;
	}
	time = __builtin_bswap64(now + r->add);
	r->time[0] = (__u32)time;
	r->time[1] = (__u32)(time >> 32);
	sum = r->sum + r->time[0] + r->time[1] + __builtin_bswap32(r->number);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~sum & 0xffff;
	r->checksum = sum ? __builtin_bswap16((__u16)sum) : 0xffff;
	r->left = r->batch;
	return 1;
}

/* Writes number, time and checksum of the next frame. The checksum of the frame behind it is one
 * less; 0xffff and 0 are equal, and no frame has 0. */
static __always_inline void stamp(struct live_repetition *r, void *data)
{
	*(__u16 *)(data + CHECKSUM_AT) = __builtin_bswap16((__u16)r->checksum);
	*(__u32 *)(data + NUMBER_AT) = __builtin_bswap32(r->number);
	*(__u32 *)(data + TIME_AT) = r->time[0];
	*(__u32 *)(data + TIME_AT + 4) = r->time[1];
	r->number++;
	r->left--;
	r->checksum = r->checksum == 1 ? 0xffff : r->checksum - 1;
}

SEC("xdp")
int live_frame(struct xdp_md *ctx)
{
	struct live_repetition *r = &burst.repetition;
	struct live_place place;
	const __u32 zero = 0, repeats = r->on, i = burst.next;
	const __u8 *memory = bpf_map_lookup_elem(&area, &zero);
	__u32 now = (__u32)(ctx->data_end - ctx->data);
	void *data;

	if (!memory)
		return XDP_DROP;
	if (repeats) {
		if (!r->left && !batch_begin(r))
			return XDP_DROP;
		place = r->place;
	} else {
		if (i >= LIVE_BURST)
			return XDP_DROP;
		place = burst.frames[i];
	}
	burst.next = i + 1;
	if (!i)
		burst.task = bpf_get_current_task();
	memory += place.offset & area_mask;
	if (place.len < 14 || place.len > LIVE_FRAME_MAX)
		return XDP_DROP;
	if (place.len != now && bpf_xdp_adjust_tail(ctx, (int)place.len - (int)now))
		return XDP_DROP;
	if (place.len != LIVE_SHORT && bpf_xdp_store_bytes(ctx, 0, (void *)memory, place.len))
		return XDP_DROP;
	data = (void *)(long)ctx->data;
	if (data + LIVE_SHORT <= (void *)(long)ctx->data_end) {
		if (place.len == LIVE_SHORT)
			copy_short(data, memory);
		if (repeats)
			stamp(r, data);
	}
	return bpf_redirect_map(&device, 0, XDP_DROP);
}

/*
 * Frames of BPF_PROG_RUN come from a loopback interface, whose index is 1 in every namespace. The
 * kernel sends them within the call, so frames of other ports or processes appear in calls of other
 * threads.
 */
SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(live_sent, const struct net_device *from, const struct net_device *to, int sent)
{
	if (sent > 0 && from->ifindex == 1 && burst.task == bpf_get_current_task() &&
	    (__u32)to->ifindex == burst.ifindex && to->nd_net.net->ns.inum == burst.netns)
		burst.sent += (__u32)sent;
	return 0;
}

char terms[] SEC("license") = "Dual BSD/GPL";
