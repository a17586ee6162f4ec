/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by xdp_live.c and its BPF program; both map it. Plain C types only. */
#ifndef SWITCHMARK_XDP_LIVE_H
#define SWITCHMARK_XDP_LIVE_H

#define LIVE_BURST 4096
/* A page minus the kernel's headroom, tailroom and metadata, with a margin. */
#define LIVE_FRAME_MAX 3072

/* One burst: the position of each frame in the area, and the progress. */
struct live_burst {
	unsigned long long sent; /* frames that the device has taken since the start */
	unsigned int next; /* frames of this burst for which the program has run */
	unsigned int ifindex;
	unsigned int netns; /* the inode of the interface's namespace */
	unsigned int unused;
	/* the thread that runs the program in the current call; 0: no call */
	unsigned long long task;
	struct {
		unsigned int offset, len;
	} frames[LIVE_BURST];
};

#endif
