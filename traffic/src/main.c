/* SPDX-License-Identifier: Apache-2.0 */
/* switchmark-traffic: executes commands from stdin, or lists the capabilities of this build. */
#include "control.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: switchmark-traffic [serve]    commands on stdin, answers on stdout, a JSON object a line\n"
	"       switchmark-traffic engines    the engines of this build, as JSON\n"
	"       switchmark-traffic version\n";

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "serve";

	if (argc <= 2 && !strcmp(verb, "serve")) {
		/* Return the memory of finished tasks to the kernel. The next task may run on a CPU
		 * of another node, and memory stays on the node of the first write. */
		mallopt(M_MMAP_THRESHOLD, 128 << 10);
		return control_serve(STDIN_FILENO, stdout);
	}
	if (argc == 2 && !strcmp(verb, "engines")) {
		control_list_engines(stdout);
		return 0;
	}
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
