/* SPDX-License-Identifier: Apache-2.0 */
/* The symbol that makes a shared object a module: ENGINE is the engine in its other files. */
#include "modules.h"

extern const struct engine ENGINE;

extern const struct engine_module switchmark_engine_module;
const struct engine_module switchmark_engine_module = { SWITCHMARK_VERSION, &ENGINE };
