/* SPDX-License-Identifier: Apache-2.0 */
#include "privileges.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DROP_SIGNAL SIGUSR2
#define DROP_MS 1000

/* A thread may always reduce its privileges, so this fails only on a kernel without
 * capabilities. */
static void capabilities_set(bool effective, bool permitted)
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

void privileges_seal(void)
{
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void privileges_raise(void)
{
	capabilities_set(true, true);
}

void privileges_lower(void)
{
	capabilities_set(false, true);
}

void privileges_drop(void)
{
	capabilities_set(false, false);
}

static void on_drop(int number)
{
	const int before = errno;

	(void)number;
	privileges_drop();
	errno = before;
}

/* True if a thread has privileges and does not block the signal. */
static bool thread_keeps(const char *thread)
{
	unsigned long long blocked = 0, permitted = 0;
	char path[300], line[128];
	FILE *status;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof(line), status)) {
		(void)sscanf(line, "SigBlk: %llx", &blocked);
		(void)sscanf(line, "CapPrm: %llx", &permitted);
	}
	if (status)
		fclose(status);
	return permitted && !(blocked >> (DROP_SIGNAL - 1) & 1);
}

/* Signals all threads that still have privileges; returns false if there are none. glibc has gettid
 * and tgkill since 2.30 only. */
static bool others_signal(void)
{
	DIR *threads = opendir("/proc/self/task");
	bool any = false;

	for (struct dirent *e; threads && (e = readdir(threads));) {
		const pid_t thread = atoi(e->d_name);

		if (thread > 0 && thread != (pid_t)syscall(SYS_gettid) && thread_keeps(e->d_name))
			any |= !syscall(SYS_tgkill, getpid(), thread, DROP_SIGNAL);
	}
	if (threads)
		closedir(threads);
	return any;
}

void privileges_drop_others(void)
{
	const struct sigaction action = { .sa_handler = on_drop, .sa_flags = SA_RESTART };

	sigaction(DROP_SIGNAL, &action, NULL);
	for (int waited = 0; waited < DROP_MS && others_signal(); waited++)
		usleep(1000);
}
