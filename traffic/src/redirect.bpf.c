/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of `switchmark-tool redirect`: they send every frame received on one interface to
 * another one, without reading the frame.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* The destination interface for tc; set before loading. */
const volatile __u32 far_ifindex;

/* The same for XDP, which sends frames there in bulk at the end of a poll. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} far_device SEC(".maps");

/* Accepts multi-buffer frames, which veth creates for frames longer than a page. */
SEC("xdp.frags")
int redirect_xdp(struct xdp_md *ctx)
{
	return bpf_redirect_map(&far_device, 0, XDP_DROP);
}

SEC("tc")
int redirect_tc(struct __sk_buff *skb)
{
	return bpf_redirect(far_ifindex, 0);
}

char terms[] SEC("license") = "Apache-2.0";
