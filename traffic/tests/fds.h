/* SPDX-License-Identifier: Apache-2.0 */
/* What this process has open, for tests and fuzzers. */
#ifndef SWITCHMARK_FDS_H
#define SWITCHMARK_FDS_H

#include <dirent.h>

/* Returns the number of open file descriptors; the one that counts them is among them. */
static inline int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

#endif
