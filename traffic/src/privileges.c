/* SPDX-License-Identifier: Apache-2.0 */
#include "privileges.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A thread may always do with fewer, so that nothing here can fail but by a kernel without them. */
static void set(bool effective, bool permitted)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &head, data))
		return;
	for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		data[i].effective = effective ? data[i].permitted : 0;
		data[i].permitted = permitted ? data[i].permitted : 0;
	}
	(void)syscall(SYS_capset, &head, data);
}

void privileges_raise(void)
{
	set(true, true);
}

void privileges_lower(void)
{
	set(false, true);
}

void privileges_drop(void)
{
	set(false, false);
}
