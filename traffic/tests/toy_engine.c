/* SPDX-License-Identifier: Apache-2.0 */
/* A module for tests: the engine null under the name toy. */
#include "engine.h"

extern const struct engine engine_null;
extern struct engine engine_toy;
struct engine engine_toy;

__attribute__((constructor)) static void toy_fill(void)
{
	engine_toy = engine_null;
	engine_toy.name = "toy";
}
