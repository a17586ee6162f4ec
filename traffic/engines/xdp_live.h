/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by xdp_live.c and its BPF program; both map it. Plain C types only. */
#ifndef SWITCHMARK_XDP_LIVE_H
#define SWITCHMARK_XDP_LIVE_H

#define LIVE_BURST 4096
/* A page minus the kernel's headroom, tailroom and metadata, with a margin. */
#define LIVE_FRAME_MAX 3072
#define LIVE_SHORT 60 /* the shortest frame, which is copied without a helper */

/* A frame in the area. */
struct live_place {
	unsigned int offset, len;
};

/* Frames of one call that the program makes from one frame (see struct repetition). */
struct live_repetition {
	struct live_place place; /* of that frame */
	unsigned int on;
	unsigned int batch; /* frames with the same time, which the kernel flushes together */
	unsigned int left; /* of these frames */
	unsigned int over; /* the time is up: no further frames */
	unsigned long long until; /* CLOCK_MONOTONIC, as the next member but one */
	unsigned long long sum; /* partial checksum of a frame with number and time 0 */
	unsigned long long add; /* from CLOCK_MONOTONIC to the time in frames */
	unsigned int number; /* of the next frame */
	unsigned int checksum; /* of the next frame, in host order */
	unsigned int time[2]; /* of the next frame, in network order */
};

/* One call: the position of each frame in the area, and the progress. */
struct live_burst {
	unsigned long long sent; /* frames that the device has taken since the start */
	unsigned int next; /* frames of this call for which the program has run */
	unsigned int ifindex;
	unsigned int netns; /* the inode of the interface's namespace */
	unsigned int unused;
	/* the thread that runs the program in the current call; 0: no call */
	unsigned long long task;
	struct live_repetition repetition;
	struct live_place frames[LIVE_BURST];
};

#endif
