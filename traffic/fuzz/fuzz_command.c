/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: every input line is either parsed into a command or rejected with a reason. */
#include "command.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct command command;
	char why[256] = "";
	bool ok = command_parse((const char *)data, size, &command, why, sizeof(why));

	if (ok == (why[0] != '\0'))
		__builtin_trap();
	return 0;
}
