/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the kernel reject system calls, to test the error handling. */
#ifndef SWITCHMARK_REFUSE_H
#define SWITCHMARK_REFUSE_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define FAULT(number, action)                                                                      \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(number), 0, 1),                             \
		BPF_STMT(BPF_RET | BPF_K, (action))

/* From now on the kernel rejects these calls of this process. It also kills the process if it
 * signals every process or its whole group, which is always an error. */
static inline bool refuse(const long calls[2], int error)
{
	const uint32_t refused = SECCOMP_RET_ERRNO | (uint32_t)error;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		FAULT(calls[0], refused),
		FAULT(calls[1], refused),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		FAULT(-1, SECCOMP_RET_KILL_PROCESS),
		FAULT(0, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = { sizeof(code) / sizeof(*code), code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

#endif
