/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* After DPDK's headers, which use an attribute with the same name as our macro always_inline. */
#include "dpdk_eal.h"

const char *const eal_memories[] = { "no-huge", "hugepages", NULL };

static struct {
	bool started;
	char memory[16];
	pthread_key_t thread;
	char logged[192]; /* the last line of the log */
} eal;

static ssize_t eal_log(void *cookie, const char *text, size_t size)
{
	size_t n = size;

	(void)cookie;
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	if (n)
		snprintf(eal.logged, sizeof(eal.logged), "%.*s", (int)n, text);
	return (ssize_t)size;
}

const char *eal_error(void)
{
	return eal.logged[0] ? eal.logged : rte_strerror(rte_errno);
}

static void thread_leave(void *entered)
{
	(void)entered;
	rte_thread_unregister();
}

static void eal_end(void)
{
	rte_eal_cleanup();
}

/* Writes the option that allows the only lcore to run on every CPU of the process, as in
 * `0@(0,2)`. */
static void lcores_write(char *out, size_t size)
{
	cpu_set_t set;
	size_t at = (size_t)snprintf(out, size, "--lcores=0@(");

	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	for (int cpu = 0; cpu < CPU_SETSIZE && at < size - 8; cpu++)
		if (CPU_ISSET(cpu, &set))
			at += (size_t)snprintf(out + at, size - at, "%d,", cpu);
	out[at - 1] = ')';
}

int eal_start(struct port *port)
{
	static const cookie_io_functions_t log_to = { .write = eal_log };
	const char *memory = port_option_text(port, "memory");
	const char *prefix = port_option_text(port, "prefix");
	const char *directory = port_option_text(port, "directory");
	char lcores[4096], megabytes[32], files[160];
	char *argv[16];
	int argc = 0;
	FILE *log;

	if (eal.started) {
		if (strcmp(eal.memory, memory))
			return port_fail(port, EBUSY, "the process has its memory in %s already",
					 eal.memory);
		return 0;
	}
	log = fopencookie(NULL, "w", log_to);
	if (!log)
		return port_fail(port, ENOMEM, "no memory for a log");
	setvbuf(log, NULL, _IOLBF, 256);
	rte_openlog_stream(log);
	if (directory[0])
		setenv("RUNTIME_DIRECTORY", directory, 1);
	lcores_write(lcores, sizeof(lcores));
	snprintf(megabytes, sizeof(megabytes), "%llu",
		 (unsigned long long)port_option(port, "megabytes"));
	snprintf(files, sizeof(files), "--file-prefix=%s", prefix[0] ? prefix : "switchmark");

	argv[argc++] = (char *)(uintptr_t) "switchmark-traffic";
	argv[argc++] = lcores;
	argv[argc++] = files;
	argv[argc++] = (char *)(uintptr_t) "-m";
	argv[argc++] = megabytes;
	argv[argc++] = (char *)(uintptr_t) "--no-telemetry";
	argv[argc++] = (char *)(uintptr_t) "--log-level=*:error";
	/* vhost-user back ends and memif servers map our memory: keep the number of files small. */
	argv[argc++] = (char *)(uintptr_t) "--single-file-segments";
	if (!strcmp(memory, eal_memories[0])) {
		argv[argc++] = (char *)(uintptr_t) "--no-huge";
		argv[argc++] = (char *)(uintptr_t) "--no-shconf";
	} else {
		argv[argc++] = (char *)(uintptr_t) "--in-memory";
	}
	/* The EAL never scans a bus that was disabled at the start, so PCI is enabled even if the
	 * first device is virtual. The allowed device is the host bridge, which has no driver;
	 * other PCI devices are probed when ports name them. */
	argv[argc++] = (char *)(uintptr_t)(access("/sys/bus/pci/devices", F_OK) ? "--no-pci" :
										  "-a0000:00:00.0");
	argv[argc] = NULL;
	if (rte_eal_init(argc, argv) < 0)
		return port_fail(port, ENOMEM, "the EAL does not start: %s", eal_error());
	pthread_key_create(&eal.thread, thread_leave);
	atexit(eal_end);
	snprintf(eal.memory, sizeof(eal.memory), "%s", memory);
	eal.started = true;
	return 0;
}

const char *eal_memory(void)
{
	return eal.memory;
}

void eal_forget_log(void)
{
	eal.logged[0] = 0;
}

void eal_enter(void)
{
	if (rte_lcore_id() == LCORE_ID_ANY && !rte_thread_register())
		pthread_setspecific(eal.thread, &eal);
}
