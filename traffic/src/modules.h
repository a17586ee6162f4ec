/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines in shared objects, loaded at run time: for libraries that the program is not linked with.
 * They lie next to the program, as `switchmark-engine-NAME.so` or `switchmark-engine-NAME.ABI.so`.
 * Of several files for one engine, the first that loads is used, the highest ABI first.
 */
#ifndef SWITCHMARK_MODULES_H
#define SWITCHMARK_MODULES_H

#include "engine.h"

#define MODULES_MAX 16
#define MODULE_SYMBOL "switchmark_engine_module"

/* What a module exports as MODULE_SYMBOL. */
struct engine_module {
	const char *version; /* of switchmark: it must be the program's */
	const struct engine *engine;
};

/* A file of a module. `engine` is NULL if it was not loaded; `why` then has the reason. */
struct loaded_module {
	char file[256];
	char name[64]; /* of the engine, from the file's name */
	char why[256];
	const struct engine *engine;
};

/* Loads the module of an engine: of all engines if `name` is NULL. Returns the engine that has the
 * name; NULL if there is none. For threads: only the main thread calls it. */
const struct engine *modules_load(const char *name);

/* Returns the files that were found, and sets their number. */
const struct loaded_module *modules_found(size_t *count);

/* Returns why the module of an engine was not loaded; NULL if there is no such module. */
const char *module_why(const char *name);

/* Returns why modules_load could not search for modules; NULL if it could. */
const char *modules_unsearched(void);

#endif
