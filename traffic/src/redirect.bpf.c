/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of `switchmark-tool redirect`: all that comes in at an interface goes out at
 * another one. Nothing is looked up in the frame.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* The other interface, for tc; set before loading. */
const volatile __u32 far_ifindex;

/* The same for XDP, whose frames go there in bulk at the end of a poll. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} far_device SEC(".maps");

/* Of frames in pieces too, as veth has them where they are longer than a page. */
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
