/* SPDX-License-Identifier: Apache-2.0 */
/* switchmark-traffic: serves commands on stdin, or says what this build can do. */
#include "control.h"
#include "jitter.h"
#include "redirect.h"
#include "telemetry.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: switchmark-traffic [serve]    commands on stdin, answers on stdout, a JSON object a line\n"
	"       switchmark-traffic engines    the engines of this build, as JSON\n"
	"       switchmark-traffic jitter --cpus 0,2-3 [--ms 10]    the gaps in which a busy loop had not its CPU\n"
	"       switchmark-traffic in-cgroup DIR -- ARGV...    a command, as a member of a cgroup\n"
	"       switchmark-traffic redirect xdp|tc NEAR FAR    what comes in at one interface goes out at another\n"
	"       switchmark-traffic telemetry SOCKET QUESTION...    what a DPDK program answers\n"
	"       switchmark-traffic version\n";

/* Joins a cgroup (v1 or v2: to both, process 0 is who writes) and becomes the command. */
static int in_cgroup(const char *dir, char **argv)
{
	char path[4096];
	int fd, len = snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	bool joined;

	if (len < 0 || (size_t)len >= sizeof(path)) {
		fprintf(stderr, "switchmark-traffic: the name of the cgroup is too long\n");
		return 2;
	}
	fd = open(path, O_WRONLY | O_CLOEXEC);
	joined = fd >= 0 && write(fd, "0", 1) == 1;
	if (!joined) {
		fprintf(stderr, "switchmark-traffic: cannot join %s: %s\n", dir, strerror(errno));
		return 1;
	}
	close(fd);
	execvp(argv[0], argv);
	fprintf(stderr, "switchmark-traffic: cannot run %s: %s\n", argv[0], strerror(errno));
	return 127;
}

static int redirect(const char *hook, const char *near, const char *far)
{
#ifdef HAVE_XDP
	return redirect_main(hook, near, far);
#else
	fprintf(stderr,
		"switchmark-traffic: no %s between %s and %s: libbpf or clang was missing when this was "
		"built\n",
		hook, near, far);
	return 1;
#endif
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "serve";

	if (argc <= 2 && !strcmp(verb, "serve")) {
		/* What a task had goes back to the kernel. The next one to have it might have its CPU on
		 * another node, and memory stays where it was first written. */
		mallopt(M_MMAP_THRESHOLD, 128 << 10);
		return control_serve(STDIN_FILENO, stdout);
	}
	if (argc == 2 && !strcmp(verb, "engines")) {
		control_list_engines(stdout);
		return 0;
	}
	if (argc > 4 && !strcmp(verb, "in-cgroup") && !strcmp(argv[3], "--"))
		return in_cgroup(argv[2], argv + 4);
	if (argc > 2 && !strcmp(verb, "jitter"))
		return jitter_main(argc - 2, argv + 2, stdout);
	if (argc == 5 && !strcmp(verb, "redirect"))
		return redirect(argv[2], argv[3], argv[4]);
	if (argc > 3 && !strcmp(verb, "telemetry"))
		return telemetry_ask(argv[2], argv + 3, stdout);
	if (argc == 2 && !strcmp(verb, "version")) {
		puts("switchmark-traffic " SWITCHMARK_VERSION);
		return 0;
	}
	if (argc == 2 && (!strcmp(verb, "help") || !strcmp(verb, "--help"))) {
		fputs(usage, stdout);
		return 0;
	}
	fputs(usage, stderr);
	return 2;
}
