/* SPDX-License-Identifier: Apache-2.0 */
#include "modules.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "switchmark-engine-"
#define SUFFIX ".so"

static struct loaded_module modules[MODULES_MAX];
static size_t module_count;
static char folder[4096]; /* of the program, with a slash; empty: not looked into yet, or unknown */
static char unsearched[sizeof(folder) + 128]; /* why the folder was not searched; empty: it was */

/* The highest ABI comes first. */
static int by_version(const void *a, const void *b)
{
	return strverscmp(((const struct loaded_module *)b)->file,
			  ((const struct loaded_module *)a)->file);
}

static void module_add(const char *file)
{
	struct loaded_module *m = &modules[module_count];
	const size_t length = strlen(file), fixed = strlen(PREFIX) + strlen(SUFFIX);

	if (length <= fixed || length >= sizeof(m->file) || module_count == MODULES_MAX ||
	    strncmp(file, PREFIX, strlen(PREFIX)) || strcmp(file + length - strlen(SUFFIX), SUFFIX))
		return;
	snprintf(m->file, sizeof(m->file), "%s", file);
	snprintf(m->name, sizeof(m->name), "%.*s", (int)strcspn(file + strlen(PREFIX), "."),
		 file + strlen(PREFIX));
	module_count++;
}

static void modules_look(void)
{
	const ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
	DIR *entries;

	unsearched[0] = '\0';
	if (n <= 0) {
		folder[0] = '\0';
		snprintf(unsearched, sizeof(unsearched),
			 "the program does not know its own folder: /proc/self/exe: %s",
			 strerror(errno));
		return;
	}
	folder[n] = '\0';
	*(strrchr(folder, '/') + 1) = '\0';
	entries = opendir(folder);
	if (!entries) {
		snprintf(unsearched, sizeof(unsearched), "%s: %s", folder, strerror(errno));
		return;
	}
	for (struct dirent *e; (e = readdir(entries));)
		module_add(e->d_name);
	closedir(entries);
	qsort(modules, module_count, sizeof(modules[0]), by_version);
}

static void module_open(struct loaded_module *m)
{
	const struct engine_module *exported;
	const char *fault;
	char path[sizeof(folder) + sizeof(m->file)];
	void *object;

	snprintf(path, sizeof(path), "%s%s", folder, m->file);
	object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!object) {
		snprintf(m->why, sizeof(m->why), "%s", dlerror());
		return;
	}
	exported = dlsym(object, MODULE_SYMBOL);
	if (!exported || strcmp(exported->version, SWITCHMARK_VERSION)) {
		snprintf(m->why, sizeof(m->why), "it is of switchmark %s, the program of %s",
			 exported ? exported->version : "?", SWITCHMARK_VERSION);
		dlclose(object);
		return;
	}
	fault = engine_fault(exported->engine);
	if (!fault && strcmp(exported->engine->name, m->name))
		fault = "it has another engine than its name says";
	if (fault) {
		snprintf(m->why, sizeof(m->why), "%s", fault);
		dlclose(object);
		return;
	}
	m->engine = exported->engine;
}

const struct engine *modules_load(const char *name)
{
	const struct engine *found = NULL;
	const char *ready = NULL; /* the engine that an earlier file of the same name has */

	if (!folder[0])
		modules_look();
	for (size_t i = 0; i < module_count; i++) {
		struct loaded_module *m = &modules[i];

		if (name && strcmp(m->name, name))
			continue;
		if (ready && !strcmp(m->name, ready))
			continue;
		if (!m->engine && !m->why[0])
			module_open(m);
		if (!m->engine)
			continue;
		ready = m->name;
		if (name && !found)
			found = m->engine;
	}
	return found;
}

const struct loaded_module *modules_found(size_t *count)
{
	*count = module_count;
	return modules;
}

const char *module_why(const char *name)
{
	for (size_t i = 0; i < module_count; i++)
		if (!strcmp(modules[i].name, name) && modules[i].why[0])
			return modules[i].why;
	return NULL;
}

const char *modules_unsearched(void)
{
	return unsearched[0] ? unsearched : NULL;
}
