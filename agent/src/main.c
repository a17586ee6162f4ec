/* SPDX-License-Identifier: Apache-2.0 */
/* switchmark-agent: executes the requests of switchmark on other hosts and in virtual machines. */
#include "machine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: switchmark-agent serve                       what stdin asks for, on stdout\n"
	"       switchmark-agent init                        the first process of a virtual machine\n"
	"       switchmark-agent boot SOCKET -- QEMU...      a machine that is entered by SOCKET\n"
	"       switchmark-agent enter SOCKET -- ARGV...     a command in that machine\n"
	"       switchmark-agent version\n";

/* The same environment as for commands of the local host: untranslated messages, and the
 * administrator's folders in PATH. SIGHUP and SIGINT are ignored, so that a lost connection does
 * not end the agent before its undos are complete. */
static int serve(void)
{
	const char *path = getenv("PATH");
	char longer[4096];

	snprintf(longer, sizeof(longer), "%s:/usr/local/sbin:/usr/sbin:/sbin",
		 path ? path : "/usr/bin:/bin");
	setenv("PATH", longer, 1);
	setenv("LC_ALL", "C", 1);
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	return agent_serve(STDIN_FILENO, STDOUT_FILENO);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (argc == 2 && !strcmp(verb, "serve"))
		return serve();
	if (argc == 2 && !strcmp(verb, "init"))
		return guest_init();
	if (argc > 4 && !strcmp(argv[3], "--") && !strcmp(verb, "boot"))
		return boot(argv[2], argv + 4);
	if (argc > 4 && !strcmp(argv[3], "--") && !strcmp(verb, "enter"))
		return enter(argv[2], argv + 4);
	if (argc == 2 && !strcmp(verb, "version")) {
		puts("switchmark-agent " SWITCHMARK_VERSION);
		return 0;
	}
	if (argc == 2 && (!strcmp(verb, "help") || !strcmp(verb, "--help"))) {
		fputs(usage, stdout);
		return 0;
	}
	fputs(usage, stderr);
	return 2;
}
