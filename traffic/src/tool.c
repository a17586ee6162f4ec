/* SPDX-License-Identifier: Apache-2.0 */
/* switchmark-tool: helpers for test plans, one subcommand each, that no system command provides. It
 * does not send or receive traffic. */
#include "jitter.h"
#include "redirect.h"
#include "telemetry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: switchmark-tool jitter --cpus 0,2-3 [--ms 10]    the gaps in which a busy loop lost its CPU\n"
	"       switchmark-tool in-cgroup DIR -- ARGV...         runs a command in a control group\n"
	"       switchmark-tool redirect xdp|tc NEAR FAR         sends what NEAR receives out of FAR\n"
	"       switchmark-tool telemetry SOCKET QUESTION...     asks a DPDK program\n"
	"       switchmark-tool version\n";

/* Joins a cgroup (v1 or v2: process 0 means the writer in both) and executes the command. */
static int in_cgroup(const char *dir, char **argv)
{
	char path[4096];
	int fd, len = snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	bool joined;

	if (len < 0 || (size_t)len >= sizeof(path)) {
		fprintf(stderr, "switchmark-tool: the name of the cgroup is too long\n");
		return 2;
	}
	fd = open(path, O_WRONLY | O_CLOEXEC);
	joined = fd >= 0 && write(fd, "0", 1) == 1;
	if (!joined) {
		fprintf(stderr, "switchmark-tool: cannot join %s: %s\n", dir, strerror(errno));
		return 1;
	}
	close(fd);
	execvp(argv[0], argv);
	fprintf(stderr, "switchmark-tool: cannot run %s: %s\n", argv[0], strerror(errno));
	return 127;
}

static int redirect(const char *hook, const char *near, const char *far)
{
#ifdef HAVE_XDP
	return redirect_main(hook, near, far);
#else
	fprintf(stderr,
		"switchmark-tool: no %s between %s and %s: libbpf or clang was missing when this was built\n",
		hook, near, far);
	return 1;
#endif
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (argc > 2 && !strcmp(verb, "jitter"))
		return jitter_main(argc - 2, argv + 2, stdout);
	if (argc > 4 && !strcmp(verb, "in-cgroup") && !strcmp(argv[3], "--"))
		return in_cgroup(argv[2], argv + 4);
	if (argc == 5 && !strcmp(verb, "redirect"))
		return redirect(argv[2], argv[3], argv[4]);
	if (argc > 3 && !strcmp(verb, "telemetry"))
		return telemetry_ask(argv[2], argv + 3, stdout);
	if (argc == 2 && !strcmp(verb, "version")) {
		puts("switchmark-tool " SWITCHMARK_VERSION);
		return 0;
	}
	if (argc == 2 && (!strcmp(verb, "help") || !strcmp(verb, "--help"))) {
		fputs(usage, stdout);
		return 0;
	}
	fputs(usage, stderr);
	return 2;
}
