/* SPDX-License-Identifier: Apache-2.0 */
/* switchmark-traffic: serves commands on stdin, or says what this build can do. */
#include "control.h"
#include "jitter.h"

#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: switchmark-traffic [serve]    commands on stdin, answers on stdout, a JSON object a line\n"
	"       switchmark-traffic engines    the engines of this build, as JSON\n"
	"       switchmark-traffic jitter --cpus LIST [--ms N]   what a busy loop there does not get\n"
	"       switchmark-traffic version\n";

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "serve";

	if (argc <= 2 && !strcmp(verb, "serve"))
		return control_serve(STDIN_FILENO, stdout);
	if (argc == 2 && !strcmp(verb, "engines")) {
		control_list_engines(stdout);
		return 0;
	}
	if (argc > 2 && !strcmp(verb, "jitter"))
		return jitter_main(argc - 2, argv + 2, stdout);
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
