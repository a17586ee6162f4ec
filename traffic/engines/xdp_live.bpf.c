/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The programs of the engine xdp-live. `live_frame` runs once per frame that the kernel creates for
 * BPF_PROG_RUN. It writes the next frame of the burst in full, because recycled pages contain old
 * data, and redirects it to the port's interface. `live_sent` counts how many frames the interface
 * took; the kernel shows its structures only to programs under a GPL-compatible licence, which
 * explains the licence of this file.
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

SEC("xdp")
int live_frame(struct xdp_md *ctx)
{
	const __u32 zero = 0, i = burst.next;
	void *memory = bpf_map_lookup_elem(&area, &zero);
	__u32 now = (__u32)(ctx->data_end - ctx->data), offset, len;

	if (!memory || i >= LIVE_BURST)
		return XDP_DROP;
	burst.next = i + 1;
	burst.task = bpf_get_current_task();
	offset = burst.frames[i].offset & area_mask;
	len = burst.frames[i].len;
	if (len < 14 || len > LIVE_FRAME_MAX)
		return XDP_DROP;
	if (len != now && bpf_xdp_adjust_tail(ctx, (int)len - (int)now))
		return XDP_DROP;
	if (bpf_xdp_store_bytes(ctx, 0, memory + offset, len))
		return XDP_DROP;
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
