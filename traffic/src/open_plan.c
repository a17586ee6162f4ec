/* SPDX-License-Identifier: Apache-2.0 */
#include "open_plan.h"
#include "modules.h"

#include "text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static bool options_read(struct reader *r, json_t *object, struct port_plan *port)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return refuse(r, "open: options is not an object");
	json_object_foreach(object, key, value) {
		const struct option_spec *s = port->engine->options;
		struct option_value *v = &port->config.options[port->config.option_count];
		uint32_t choice = 0;
		struct member m = { .key = key };
		void *into = v->text;

		while (s && s->name && strcmp(s->name, key))
			s++;
		if (!s || !s->name)
			return refuse(r, "open: engine %s has no option '%.*s'", port->engine->name,
				      (int)text_cut(key, NAME_SHOWN), key);
		if (port->config.option_count == OPTIONS_MAX)
			return refuse(r, "open: more than %d options", OPTIONS_MAX);
		v->name = s->name;
		if (s->type == OPTION_NUMBER) {
			m.kind = NUMBER;
			m.bytes = sizeof(v->number);
			m.min = (double)s->min;
			m.max = (double)s->max;
			into = &v->number;
		} else if (s->choices) {
			m.kind = CHOICE;
			m.bytes = sizeof(choice);
			m.choices = s->choices;
			into = &choice;
		} else {
			m.kind = TEXT;
			m.bytes = sizeof(v->text);
		}
		if (!member_read(r, "open: option", &m, value, into))
			return false;
		if (m.kind == CHOICE && s->choices)
			snprintf(v->text, sizeof(v->text), "%s", s->choices[choice]);
		port->config.option_count++;
	}
	return true;
}

static bool port_read(struct reader *r, json_t *object, struct port_plan *port)
{
	static const struct member members[] = {
		{ "engine", OTHER, .required = true },
		{ "ifname", TEXT, INTO(port_config, ifname) },
		{ "netns", TEXT, INTO(port_config, netns) },
		{ "queue", NUMBER, INTO(port_config, queue), .max = 1023 },
		{ "burst", NUMBER, INTO(port_config, burst), .min = 1, .max = BURST_MAX },
		{ "frame_bytes", NUMBER, INTO(port_config, frame_max), .min = 64,
		  .max = FRAME_BYTES_MAX },
		{ "flows", NUMBER, INTO(port_config, flows), .min = 1, .max = FLOW_MAX },
		{ "local_ip", IPV4, INTO(port_config, local_ip) },
		{ "remote_ip", IPV4, INTO(port_config, remote_ip) },
		{ "local_port", NUMBER, INTO(port_config, local_port), .max = UINT16_MAX },
		{ "remote_port", NUMBER, INTO(port_config, remote_port), .max = UINT16_MAX },
		{ "connected", BOOL, INTO(port_config, connected) },
		{ "options", OTHER },
		{ 0 },
	};
	struct port_config *config = &port->config;
	const char *engine;
	json_t *options;

	port->cores = config->cores = 1;
	config->burst = 64;
	config->frame_max = 1518;
	config->flows = 1;
	if (!object_read(r, "open: port", object, members, config))
		return false;
	engine = json_string_value(json_object_get(object, "engine"));
	if (!engine)
		return refuse(r, "open: port: engine is not a text");
	port->engine = engine_find(engine);
	if (!port->engine && module_why(engine))
		return refuse(r, "open: engine %s cannot be loaded: %s", engine,
			      module_why(engine));
	if (!port->engine && modules_unsearched())
		return refuse(r, "open: no engine '%.*s', and no module could be looked for: %s",
			      (int)text_cut(engine, NAME_SHOWN), engine, modules_unsearched());
	if (!port->engine)
		return refuse(r, "open: this build has no engine '%.*s'",
			      (int)text_cut(engine, NAME_SHOWN), engine);
	if ((port->engine->caps & ENGINE_NEEDS_INTERFACE) && !config->ifname[0])
		return refuse(r, "open: engine %s needs ifname", engine);
	config->frame_max -= FCS_BYTES;
	config->local_ip = htonl(config->local_ip);
	config->remote_ip = htonl(config->remote_ip);
	options = json_object_get(object, "options");
	return !options || options_read(r, options, port);
}

static bool task_read(struct reader *r, json_t *object, struct open_plan *open,
		      struct task_plan *task)
{
	static const struct member members[] = {
		{ "role", CHOICE, INTO(task_plan, role), .choices = role_names, .required = true },
		{ "ports", OTHER, .required = true },
		{ 0 },
	};
	json_t *ports;

	if (!object_read(r, "open: task", object, members, task))
		return false;
	ports = json_object_get(object, "ports");
	task->port_count = task->role == ROLE_FORWARDER ? 2 : 1;
	if (json_array_size(ports) != task->port_count)
		return refuse(r, "open: a %s has %s", role_names[task->role],
			      task->port_count == 2 ? "two ports" : "one port");
	for (uint32_t i = 0; i < task->port_count; i++) {
		struct port_plan *port;

		if (!number_read(json_array_get(ports, i), 0, open->port_count - 1,
				 &task->ports[i]))
			return refuse(r, "open: a task names a port that there is not");
		port = &open->ports[task->ports[i]];
		port->config.sends |= task->role != ROLE_RECEIVER;
		port->config.receives |= task->role != ROLE_SENDER;
		port->config.forwards |= role_forwards(task->role);
		if (task->role != ROLE_RECEIVER && !(port->engine->caps & ENGINE_SENDS))
			return refuse(r, "open: engine %s does not send", port->engine->name);
		if (task->role != ROLE_SENDER && !(port->engine->caps & ENGINE_RECEIVES))
			return refuse(r, "open: engine %s does not receive", port->engine->name);
	}
	return true;
}

/* Reads one CPU per core of a thread. */
static bool cpus_read(struct reader *r, json_t *list, struct thread_plan *t)
{
	if (!json_is_array(list) || json_array_size(list) != t->cores)
		return refuse(r, "open: thread: cpus is not a list of %u", t->cores);
	for (uint32_t i = 0; i < t->cores; i++) {
		uint32_t cpu;

		if (!number_read(json_array_get(list, i), 0, CPU_MAX, &cpu))
			return refuse(r, "open: thread: cpus holds what is no CPU");
		t->cpus[i] = (int)cpu;
	}
	return true;
}

static bool thread_read(struct reader *r, json_t *object, struct open_plan *open,
			struct thread_plan *t)
{
	static const struct member members[] = {
		{ "cpu", NUMBER, INTO(thread_plan, cpus[0]), .max = CPU_MAX },
		{ "cpus", OTHER },
		{ "cores", NUMBER, INTO(thread_plan, cores), .min = 1, .max = THREADS_MAX },
		{ "yield", BOOL, INTO(thread_plan, yield) },
		{ "tasks", OTHER, .required = true },
		{ 0 },
	};
	json_t *cpus, *tasks;

	t->cores = 1;
	t->cpus[0] = -1;
	if (!object_read(r, "open: thread", object, members, t))
		return false;
	cpus = json_object_get(object, "cpus");
	tasks = json_object_get(object, "tasks");
	for (uint32_t i = 1; i < t->cores; i++)
		t->cpus[i] = t->cpus[0];
	if (cpus && !cpus_read(r, cpus, t))
		return false;
	if (!list_read(r, "open: tasks", tasks, TASKS_MAX, &t->task_count))
		return false;
	for (uint32_t i = 0; i < t->task_count; i++)
		if (!task_read(r, json_array_get(tasks, i), open, &t->tasks[i]))
			return false;
	return true;
}

/* Gives the ports of a thread one queue per core. Ports have no locks, so no two threads may use
 * the same port. */
static bool ports_take(struct reader *r, struct open_plan *open, const struct thread_plan *t,
		       bool *used)
{
	bool is_own[PORTS_MAX] = { false };

	for (uint32_t i = 0; i < t->task_count; i++)
		for (uint32_t k = 0; k < t->tasks[i].port_count; k++)
			is_own[t->tasks[i].ports[k]] = true;
	for (uint32_t i = 0; i < PORTS_MAX; i++) {
		if (!is_own[i])
			continue;
		if (used[i])
			return refuse(r, "open: port %u is used by two threads", i);
		used[i] = true;
		open->ports[i].cores = t->cores;
	}
	return true;
}

bool open_plan_read(struct reader *r, json_t *object, struct open_plan *plan)
{
	static const struct member members[] = {
		{ "cmd", OTHER },
		{ "ports", OTHER, .required = true },
		{ "threads", OTHER, .required = true },
		{ 0 },
	};
	json_t *ports, *threads;
	bool used[PORTS_MAX] = { false };

	if (!object_read(r, "open", object, members, plan))
		return false;
	ports = json_object_get(object, "ports");
	threads = json_object_get(object, "threads");
	if (!list_read(r, "open: ports", ports, PORTS_MAX, &plan->port_count) ||
	    !list_read(r, "open: threads", threads, THREADS_MAX, &plan->thread_count))
		return false;
	for (uint32_t i = 0; i < plan->port_count; i++)
		if (!port_read(r, json_array_get(ports, i), &plan->ports[i]))
			return false;
	for (uint32_t i = 0; i < plan->thread_count; i++)
		if (!thread_read(r, json_array_get(threads, i), plan, &plan->threads[i]) ||
		    !ports_take(r, plan, &plan->threads[i], used))
			return false;
	return true;
}
