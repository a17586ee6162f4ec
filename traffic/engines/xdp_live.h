/* SPDX-License-Identifier: Apache-2.0 */
/* What xdp_live.c and its BPF program share: both have it mapped. Plain C types only. */
#ifndef SWITCHMARK_XDP_LIVE_H
#define SWITCHMARK_XDP_LIVE_H

#define LIVE_BURST 4096
/* A page less the kernel's headroom, tailroom and notes of its own, with some to spare. */
#define LIVE_FRAME_MAX 3072

/* One burst: where each of its frames lies in the area, and how far it has come. */
struct live_burst {
	unsigned long long sent; /* frames that the device took, since the start */
	unsigned int next; /* frames of this burst that the program has run for */
	unsigned int ifindex;
	unsigned int netns; /* the inode of the interface's namespace */
	unsigned int unused;
	unsigned long long task; /* who runs the program in a call that goes on; 0: nobody */
	struct {
		unsigned int offset, len;
	} frames[LIVE_BURST];
};

#endif
