/* SPDX-License-Identifier: Apache-2.0 */
/* switchmark-agent: runs commands where this computer's own processes cannot be. */
#include "machine.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
	"usage: switchmark-agent init                        the first process of a virtual machine\n"
	"       switchmark-agent boot SOCKET -- QEMU...      a machine that is entered by SOCKET\n"
	"       switchmark-agent enter SOCKET -- ARGV...     a command in that machine\n"
	"       switchmark-agent version\n";

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

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
