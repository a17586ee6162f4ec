/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: whatever line comes in, it is parsed into a command or refused with a reason. */
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
