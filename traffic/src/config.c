/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "text.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME_SHOWN 40 /* bytes of a wrong name in an answer */

/* The reason of the first failure; set once. */
struct reader {
	char *why;
	size_t size;
	bool failed;
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct reader *r, const char *format, ...)
{
	va_list args;

	if (!r->failed) {
		va_start(args, format);
		vsnprintf(r->why, r->size, format, args);
		va_end(args);
		r->failed = true;
	}
	return false;
}

enum kind { NUMBER, REAL, BOOL, TEXT, CHOICE, MAC, IPV4, IPV6, ANY };

/* One member of an object: where it goes and what it may be. A table ends with key NULL. */
struct member {
	const char *key;
	enum kind kind;
	void *into; /* NUMBER: uint64_t, REAL: double, BOOL: bool, TEXT: char[size], CHOICE:
		     * uint32_t, MAC: uint8_t[6], IPV4: uint32_t in host order, IPV6: uint8_t[16], ANY: json_t * */
	double min, max;
	size_t size;
	const char *const *choices;
	bool required;
	bool *given;
};

static bool mac_parse(const char *text, uint8_t mac[6])
{
	unsigned b[6];
	char rest;

	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%c", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5],
		   &rest) != 6)
		return false;
	for (int i = 0; i < 6; i++)
		mac[i] = (uint8_t)b[i];
	return true;
}

static bool member_read(struct reader *r, const char *where, const struct member *m, json_t *v)
{
	struct in_addr address;
	const char *text = json_string_value(v);

	switch (m->kind) {
	case NUMBER:
		if (!json_is_integer(v) || (double)json_integer_value(v) < m->min ||
		    (double)json_integer_value(v) > m->max)
			return refuse(r, "%s: %s is not a whole number from %.0f to %.0f", where,
				      m->key, m->min, m->max);
		*(uint64_t *)m->into = (uint64_t)json_integer_value(v);
		return true;
	case REAL:
		if (!json_is_number(v) || !(json_number_value(v) >= m->min) ||
		    !(json_number_value(v) <= m->max))
			return refuse(r, "%s: %s is not a number from %g to %g", where, m->key,
				      m->min, m->max);
		*(double *)m->into = json_number_value(v);
		return true;
	case BOOL:
		if (!json_is_boolean(v))
			return refuse(r, "%s: %s is neither true nor false", where, m->key);
		*(bool *)m->into = json_is_true(v);
		return true;
	case TEXT:
		if (!text || strlen(text) >= m->size)
			return refuse(r, "%s: %s is not a text below %zu bytes", where, m->key,
				      m->size);
		memcpy(m->into, text, strlen(text) + 1);
		return true;
	case CHOICE:
		for (uint32_t i = 0; text && m->choices[i]; i++) {
			if (!strcmp(m->choices[i], text)) {
				*(uint32_t *)m->into = i;
				return true;
			}
		}
		return refuse(r, "%s: %s has no such value", where, m->key);
	case MAC:
		if (!text || !mac_parse(text, m->into))
			return refuse(r, "%s: %s is not a MAC", where, m->key);
		return true;
	case IPV4:
		if (!text || inet_pton(AF_INET, text, &address) != 1)
			return refuse(r, "%s: %s is not an IPv4 address", where, m->key);
		*(uint32_t *)m->into = ntohl(address.s_addr);
		return true;
	case IPV6:
		if (!text || inet_pton(AF_INET6, text, m->into) != 1)
			return refuse(r, "%s: %s is not an IPv6 address", where, m->key);
		return true;
	case ANY:
		*(json_t **)m->into = v;
		return true;
	}
	return false;
}

static bool object_read(struct reader *r, const char *where, json_t *object,
			const struct member *members)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return refuse(r, "%s: not an object", where);
	json_object_foreach(object, key, value) {
		const struct member *m = members;

		while (m->key && strcmp(m->key, key))
			m++;
		if (!m->key)
			return refuse(r, "%s: unknown member '%.*s'", where,
				      (int)text_cut(key, NAME_SHOWN), key);
		if (!member_read(r, where, m, value))
			return false;
		if (m->given)
			*m->given = true;
	}
	for (const struct member *m = members; m->key; m++)
		if (m->required && !json_object_get(object, m->key))
			return refuse(r, "%s: %s is missing", where, m->key);
	return true;
}

static const char *const roles[] = { "sender", "receiver", "client", "server", "forwarder", NULL };
static const char *const touches[] = { "none", "header", "full", NULL };
static const char *const phases[] = { "warmup", "measured", NULL };

const char *role_name(enum role role)
{
	return roles[role];
}

/* ---- open ------------------------------------------------------------------------- */

static bool options_read(struct reader *r, json_t *object, struct port_plan *port)
{
	const char *key;
	json_t *value;

	if (!json_is_object(object))
		return refuse(r, "open: options is not an object");
	json_object_foreach(object, key, value) {
		const struct option_spec *s = port->engine->options;
		struct option_value *v = &port->config.options[port->config.option_count];
		uint32_t choice;
		struct member m = { .key = key, .required = true };

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
			m.into = &v->number;
			m.min = (double)s->min;
			m.max = (double)s->max;
		} else if (s->choices) {
			m.kind = CHOICE;
			m.into = &choice;
			m.choices = s->choices;
		} else {
			m.kind = TEXT;
			m.into = v->text;
			m.size = sizeof(v->text);
		}
		if (!member_read(r, "open: option", &m, value))
			return false;
		if (m.kind == CHOICE)
			snprintf(v->text, sizeof(v->text), "%s", s->choices[choice]);
		port->config.option_count++;
	}
	return true;
}

static bool port_read(struct reader *r, json_t *object, struct port_plan *port)
{
	char engine[32] = "";
	json_t *options = NULL;
	uint64_t queue = 0, burst = 64, frame_bytes = 1518, flows = 1, local_port = 0,
		 remote_port = 0;
	uint32_t local_ip = 0, remote_ip = 0;
	const struct member members[] = {
		{ .key = "engine",
		  .kind = TEXT,
		  .into = engine,
		  .size = sizeof(engine),
		  .required = true },
		{ .key = "ifname", .kind = TEXT, .into = port->config.ifname, .size = IFNAMSIZ },
		{ .key = "netns",
		  .kind = TEXT,
		  .into = port->config.netns,
		  .size = sizeof(port->config.netns) },
		{ .key = "queue", .kind = NUMBER, .into = &queue, .max = 1023 },
		{ .key = "burst", .kind = NUMBER, .into = &burst, .min = 1, .max = BURST_MAX },
		{ .key = "frame_bytes",
		  .kind = NUMBER,
		  .into = &frame_bytes,
		  .min = 64,
		  .max = FRAME_BYTES_MAX },
		{ .key = "flows", .kind = NUMBER, .into = &flows, .min = 1, .max = FLOW_MAX },
		{ .key = "local_ip", .kind = IPV4, .into = &local_ip },
		{ .key = "remote_ip", .kind = IPV4, .into = &remote_ip },
		{ .key = "local_port", .kind = NUMBER, .into = &local_port, .max = 65535 },
		{ .key = "remote_port", .kind = NUMBER, .into = &remote_port, .max = 65535 },
		{ .key = "connected", .kind = BOOL, .into = &port->config.connected },
		{ .key = "options", .kind = ANY, .into = &options },
		{ 0 },
	};

	if (!object_read(r, "open: port", object, members))
		return false;
	port->engine = engine_find(engine);
	if (!port->engine)
		return refuse(r, "open: this build has no engine '%s'", engine);
	if ((port->engine->caps & ENGINE_NEEDS_INTERFACE) && !port->config.ifname[0])
		return refuse(r, "open: engine %s needs ifname", engine);
	port->cores = 1;
	port->config.queue = (uint32_t)queue;
	port->config.cores = 1;
	port->config.burst = (uint32_t)burst;
	port->config.frame_max = (uint32_t)frame_bytes - 4;
	port->config.flows = (uint32_t)flows;
	port->config.local_ip = htonl(local_ip);
	port->config.remote_ip = htonl(remote_ip);
	port->config.local_port = (uint16_t)local_port;
	port->config.remote_port = (uint16_t)remote_port;
	return !options || options_read(r, options, port);
}

static bool task_read(struct reader *r, json_t *object, struct open_plan *open,
		      struct task_plan *task)
{
	uint32_t role = 0;
	json_t *ports = NULL;
	const struct member members[] = {
		{ .key = "role", .kind = CHOICE, .into = &role, .choices = roles, .required = true },
		{ .key = "ports", .kind = ANY, .into = &ports, .required = true },
		{ 0 },
	};

	if (!object_read(r, "open: task", object, members))
		return false;
	task->role = (enum role)role;
	task->port_count = (uint32_t)json_array_size(ports);
	if (task->port_count != (task->role == ROLE_FORWARDER ? 2 : 1))
		return refuse(r, "open: a %s has %s", roles[role],
			      task->role == ROLE_FORWARDER ? "two ports" : "one port");
	for (uint32_t i = 0; i < task->port_count; i++) {
		json_t *v = json_array_get(ports, i);
		struct port_plan *port;

		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		    json_integer_value(v) >= open->port_count)
			return refuse(r, "open: a task names a port that there is not");
		task->ports[i] = (uint32_t)json_integer_value(v);
		port = &open->ports[task->ports[i]];
		port->config.sends |= task->role != ROLE_RECEIVER;
		port->config.receives |= task->role != ROLE_SENDER;
		port->config.forwards |= !role_sends(task->role) && !role_receives(task->role);
		if (task->role != ROLE_RECEIVER && !(port->engine->caps & ENGINE_SENDS))
			return refuse(r, "open: engine %s does not send", port->engine->name);
		if (task->role != ROLE_SENDER && !(port->engine->caps & ENGINE_RECEIVES))
			return refuse(r, "open: engine %s does not receive", port->engine->name);
	}
	return true;
}

/* A CPU for each of a thread's cores. */
static bool cpus_read(struct reader *r, json_t *list, struct thread_plan *t)
{
	if (!json_is_array(list) || json_array_size(list) != t->cores)
		return refuse(r, "open: thread: cpus is not a list of %u", t->cores);
	for (uint32_t i = 0; i < t->cores; i++) {
		json_t *v = json_array_get(list, i);

		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
		    json_integer_value(v) > 1023)
			return refuse(r, "open: thread: cpus holds what is no CPU");
		t->cpus[i] = (int)json_integer_value(v);
	}
	return true;
}

static bool open_read(struct reader *r, json_t *ports, json_t *threads, struct open_plan *open)
{
	bool used[PORTS_MAX] = { false };

	if (!json_is_array(ports) || !json_array_size(ports) || json_array_size(ports) > PORTS_MAX)
		return refuse(r, "open: ports is not a list of 1 to %d", PORTS_MAX);
	if (!json_is_array(threads) || !json_array_size(threads) ||
	    json_array_size(threads) > THREADS_MAX)
		return refuse(r, "open: threads is not a list of 1 to %d", THREADS_MAX);
	open->port_count = (uint32_t)json_array_size(ports);
	for (uint32_t i = 0; i < open->port_count; i++)
		if (!port_read(r, json_array_get(ports, i), &open->ports[i]))
			return false;
	open->thread_count = (uint32_t)json_array_size(threads);
	for (uint32_t i = 0; i < open->thread_count; i++) {
		struct thread_plan *t = &open->threads[i];
		uint64_t cpu = UINT64_MAX, cores = 1;
		json_t *tasks = NULL, *cpus = NULL;
		bool pinned = false, mine[PORTS_MAX] = { false };
		const struct member members[] = {
			{ .key = "cpu",
			  .kind = NUMBER,
			  .into = &cpu,
			  .max = 1023,
			  .given = &pinned },
			{ .key = "cpus", .kind = ANY, .into = &cpus },
			{ .key = "cores",
			  .kind = NUMBER,
			  .into = &cores,
			  .min = 1,
			  .max = THREADS_MAX },
			{ .key = "yield", .kind = BOOL, .into = &t->yield },
			{ .key = "tasks", .kind = ANY, .into = &tasks, .required = true },
			{ 0 },
		};

		if (!object_read(r, "open: thread", json_array_get(threads, i), members))
			return false;
		t->cores = (uint32_t)cores;
		for (uint32_t j = 0; j < t->cores; j++)
			t->cpus[j] = pinned ? (int)cpu : -1;
		if (cpus && !cpus_read(r, cpus, t))
			return false;
		if (!json_is_array(tasks) || !json_array_size(tasks) ||
		    json_array_size(tasks) > TASKS_MAX)
			return refuse(r, "open: tasks is not a list of 1 to %d", TASKS_MAX);
		t->task_count = (uint32_t)json_array_size(tasks);
		for (uint32_t j = 0; j < t->task_count; j++) {
			if (!task_read(r, json_array_get(tasks, j), open, &t->tasks[j]))
				return false;
			for (uint32_t k = 0; k < t->tasks[j].port_count; k++)
				mine[t->tasks[j].ports[k]] = true;
		}
		/* Ports have no locks. */
		for (uint32_t j = 0; j < PORTS_MAX; j++) {
			if (mine[j] && used[j])
				return refuse(r, "open: port %u is used by two threads", j);
			used[j] |= mine[j];
			if (mine[j])
				open->ports[j].cores = t->cores;
		}
	}
	return true;
}

/* ---- arm -------------------------------------------------------------------------- */

static bool lens_read(struct reader *r, json_t *sizes, struct task_load *load)
{
	json_int_t least = FRAME_MIN + 4;

	if (!json_is_array(sizes) || !json_array_size(sizes) || json_array_size(sizes) > SIZES_MAX)
		return refuse(r, "arm: frame_bytes is not a list of 1 to %d", SIZES_MAX);
	load->len_count = (uint32_t)json_array_size(sizes);
	for (uint32_t i = 0; i < load->sent.count; i++)
		if (frame_least(&load->sent.list[i]) + 4 > least)
			least = frame_least(&load->sent.list[i]) + 4;
	for (uint32_t i = 0; i < load->len_count; i++) {
		json_t *v = json_array_get(sizes, i);

		if (!json_is_integer(v) || json_integer_value(v) < least ||
		    json_integer_value(v) > FRAME_BYTES_MAX)
			return refuse(r, "arm: frame_bytes holds what is no size from %d to %d",
				      (int)least, FRAME_BYTES_MAX);
		load->lens[i] = (uint32_t)json_integer_value(v) - 4;
	}
	return true;
}

static bool vary_read(struct reader *r, json_t *list, uint32_t *vary)
{
	static const char *const names[] = { "src_mac", "dst_mac",  "src_ip",
					     "dst_ip",	"src_port", "dst_port" };

	if (!json_is_array(list))
		return refuse(r, "arm: vary is not a list");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));
		uint32_t bit = 0;

		while (bit < 6 && (!text || strcmp(names[bit], text)))
			bit++;
		if (bit == 6)
			return refuse(r, "arm: vary names what is no address");
		*vary |= 1u << bit;
	}
	return true;
}

static bool rewrite_read(struct reader *r, json_t *list, struct task_load *load)
{
	if (!json_is_array(list) || json_array_size(list) != 2)
		return refuse(r, "arm: rewrite is not a list of two");
	for (uint32_t i = 0; i < 2; i++) {
		json_t *v = json_array_get(list, i);
		const struct member members[] = {
			{ .key = "src_mac",
			  .kind = MAC,
			  .into = load->src_mac[i],
			  .required = true },
			{ .key = "dst_mac",
			  .kind = MAC,
			  .into = load->dst_mac[i],
			  .required = true },
			{ 0 },
		};

		if (json_is_null(v))
			continue;
		if (!object_read(r, "arm: rewrite", v, members))
			return false;
		load->rewrite[i] = true;
	}
	return true;
}

/* A MAC or null for each address that a task announces. */
static bool again_read(struct reader *r, json_t *list, struct task_load *load)
{
	if (!json_is_array(list) || json_array_size(list) != load->announce_count)
		return refuse(r, "arm: announce_again is not a list as long as announce");
	for (uint32_t i = 0; i < load->announce_count; i++) {
		json_t *v = json_array_get(list, i);
		const struct member mac = { .key = "announce_again",
					    .kind = MAC,
					    .into = load->again_to[i] };

		if (json_is_null(v))
			continue;
		if (!member_read(r, "arm: task", &mac, v))
			return false;
		load->again[i] = true;
	}
	return true;
}

/* The tunnel that a frame is in: its number, and the addresses of the frame inside. */
static bool vxlan_read(struct reader *r, json_t *object, struct address *a)
{
	uint64_t vni = 0;
	const struct member members[] = {
		{ .key = "vni", .kind = NUMBER, .into = &vni, .max = 0xffffff, .required = true },
		{ .key = "src_mac", .kind = MAC, .into = a->inner_src_mac },
		{ .key = "dst_mac", .kind = MAC, .into = a->inner_dst_mac },
		{ .key = "src_ip", .kind = IPV4, .into = &a->inner_src_ip },
		{ .key = "dst_ip", .kind = IPV4, .into = &a->inner_dst_ip },
		{ .key = "src_ip6", .kind = IPV6, .into = a->inner_src_ip6, .given = &a->inner_v6 },
		{ .key = "dst_ip6", .kind = IPV6, .into = a->inner_dst_ip6, .given = &a->inner_v6 },
		{ 0 },
	};

	if (a->vlan)
		return refuse(r, "arm: vxlan: a tunnel's frames have no tag");
	a->vxlan = true;
	if (!object_read(r, "arm: vxlan", object, members))
		return false;
	a->vni = (uint32_t)vni;
	return true;
}

static bool address_read(struct reader *r, const char *where, json_t *object, struct address *a)
{
	uint64_t src_port = 0, dst_port = 0, vlan = 0, ttl = 0;
	json_t *vxlan = NULL;
	const struct member members[] = {
		{ .key = "src_mac", .kind = MAC, .into = a->src_mac },
		{ .key = "dst_mac", .kind = MAC, .into = a->dst_mac },
		{ .key = "src_ip", .kind = IPV4, .into = &a->src_ip },
		{ .key = "dst_ip", .kind = IPV4, .into = &a->dst_ip },
		{ .key = "src_ip6", .kind = IPV6, .into = a->src_ip6, .given = &a->v6 },
		{ .key = "dst_ip6", .kind = IPV6, .into = a->dst_ip6, .given = &a->v6 },
		{ .key = "src_port", .kind = NUMBER, .into = &src_port, .max = 65535 },
		{ .key = "dst_port", .kind = NUMBER, .into = &dst_port, .max = 65535 },
		{ .key = "vlan", .kind = NUMBER, .into = &vlan, .max = 4094 },
		{ .key = "ttl", .kind = NUMBER, .into = &ttl, .max = 255 },
		{ .key = "vxlan", .kind = ANY, .into = &vxlan },
		{ 0 },
	};

	if (!object_read(r, where, object, members))
		return false;
	a->src_port = (uint16_t)src_port;
	a->dst_port = (uint16_t)dst_port;
	a->vlan = (uint16_t)vlan;
	a->ttl = (uint8_t)ttl;
	return !vxlan || vxlan_read(r, vxlan, a);
}

/* One address, or a list of 1 to `max`. */
static bool addresses_read(struct reader *r, const char *where, json_t *found, uint32_t max,
			   struct address *list, uint32_t *count)
{
	*count = 1;
	if (!json_is_array(found))
		return address_read(r, where, found, list);
	if (!json_array_size(found) || json_array_size(found) > max)
		return refuse(r, "%s is not a list of 1 to %u", where, max);
	*count = (uint32_t)json_array_size(found);
	for (uint32_t i = 0; i < *count; i++)
		if (!address_read(r, where, json_array_get(found, i), &list[i]))
			return false;
	return true;
}

static bool subflows_read(struct reader *r, json_t *object, struct subflows *s)
{
	static const char *const by[] = { "port", "ip", "mac", NULL };
	static const char *const orders[] = { "sequential", "random", "zipf", NULL };
	uint64_t count = 0, first = 0, step = 0, seed = 0;
	uint32_t what = SUBFLOW_PORT, order = ORDER_SEQUENTIAL;
	const struct member members[] = {
		{ .key = "count",
		  .kind = NUMBER,
		  .into = &count,
		  .min = 1,
		  .max = SUBFLOWS_MAX,
		  .required = true },
		{ .key = "first", .kind = NUMBER, .into = &first, .max = SUBFLOWS_MAX },
		{ .key = "step", .kind = NUMBER, .into = &step, .max = SUBFLOWS_MAX },
		{ .key = "by", .kind = CHOICE, .into = &what, .choices = by },
		{ .key = "order", .kind = CHOICE, .into = &order, .choices = orders },
		{ .key = "seed", .kind = NUMBER, .into = &seed, .max = 9.2e18 },
		{ .key = "answered", .kind = BOOL, .into = &s->answered },
		{ 0 },
	};

	if (!object_read(r, "arm: subflows", object, members))
		return false;
	s->count = (uint32_t)count;
	s->first = (uint32_t)first;
	s->step = (uint32_t)step;
	s->by = (enum subflow_by)what;
	s->order = (enum subflow_order)order;
	s->seed = seed;
	return true;
}

/* The addresses of a task's flows and how they vary, each if given. */
static bool plan_read(struct reader *r, const char *where, json_t *address, json_t *vary,
		      json_t *subflows, uint32_t flows, struct address_plan *plan)
{
	if (subflows && !subflows_read(r, subflows, &plan->subflows))
		return false;
	if (address && !addresses_read(r, where, address, ADDRESSES_MAX, plan->list, &plan->count))
		return false;
	if (plan->count && flows % plan->count)
		return refuse(r, "%s: %u addresses do not share %u flows evenly", where,
			      plan->count, flows);
	return !vary || vary_read(r, vary, &plan->vary);
}

static bool expect_read(struct reader *r, json_t *object, struct task_load *load)
{
	json_t *address = NULL, *vary = NULL, *subflows = NULL;
	const struct member members[] = {
		{ .key = "address", .kind = ANY, .into = &address, .required = true },
		{ .key = "vary", .kind = ANY, .into = &vary },
		{ .key = "subflows", .kind = ANY, .into = &subflows },
		{ 0 },
	};

	return object_read(r, "arm: expect", object, members) &&
	       plan_read(r, "arm: expect", address, vary, subflows, load->flows, &load->expected);
}

static bool load_read(struct reader *r, json_t *object, struct task_load *load)
{
	static const char *const kinds[] = { "burst", "even", "poisson", "on-off", NULL };
	static const char *const stamps[] = { "due", "sent", NULL };
	uint64_t first = 0, flows = 1, burst = 32;
	json_t *sizes = NULL, *vary = NULL, *rewrite = NULL, *address = NULL, *announce = NULL;
	json_t *expect = NULL, *subflows = NULL, *again = NULL;
	uint32_t arrivals = ARRIVALS_BURST, stamp = 0;
	const struct member members[] = {
		{ .key = "first_flow", .kind = NUMBER, .into = &first, .max = FLOW_MAX - 1 },
		{ .key = "flows", .kind = NUMBER, .into = &flows, .min = 1, .max = FLOW_MAX },
		{ .key = "burst", .kind = NUMBER, .into = &burst, .min = 1, .max = BURST_MAX },
		{ .key = "rate_pps", .kind = REAL, .into = &load->rate_pps, .min = 0, .max = 1e9 },
		{ .key = "stagger", .kind = REAL, .into = &load->stagger, .min = 0, .max = 1 },
		{ .key = "arrivals", .kind = CHOICE, .into = &arrivals, .choices = kinds },
		{ .key = "stamp", .kind = CHOICE, .into = &stamp, .choices = stamps },
		{ .key = "seed", .kind = NUMBER, .into = &load->seed, .max = 9.2e18 },
		{ .key = "frames", .kind = NUMBER, .into = &load->frames, .max = UINT32_MAX },
		{ .key = "latency", .kind = BOOL, .into = &load->latency },
		{ .key = "ipdv", .kind = BOOL, .into = &load->ipdv },
		{ .key = "delay_ns", .kind = NUMBER, .into = &load->delay_ns, .max = 1e9 },
		{ .key = "frame_bytes", .kind = ANY, .into = &sizes },
		{ .key = "address", .kind = ANY, .into = &address },
		{ .key = "vary", .kind = ANY, .into = &vary },
		{ .key = "subflows", .kind = ANY, .into = &subflows },
		{ .key = "announce", .kind = ANY, .into = &announce },
		{ .key = "announce_again", .kind = ANY, .into = &again },
		{ .key = "rewrite", .kind = ANY, .into = &rewrite },
		{ .key = "expect", .kind = ANY, .into = &expect },
		{ 0 },
	};

	if (!object_read(r, "arm: task", object, members))
		return false;
	if (first + flows > FLOW_MAX)
		return refuse(r, "arm: flow numbers go to %d", FLOW_MAX - 1);
	load->first_flow = (uint32_t)first;
	load->flows = (uint32_t)flows;
	load->burst = (uint32_t)burst;
	load->arrivals = (enum arrivals)arrivals;
	load->stamps_sent = stamp;
	if (!plan_read(r, "arm: address", address, vary, subflows, load->flows, &load->sent))
		return false;
	if (announce && !addresses_read(r, "arm: announce", announce, 2, load->announced,
					&load->announce_count))
		return false;
	if (again && !again_read(r, again, load))
		return false;
	return (!sizes || lens_read(r, sizes, load)) && (!expect || expect_read(r, expect, load)) &&
	       (!rewrite || rewrite_read(r, rewrite, load));
}

static bool clock_read(struct reader *r, json_t *object, struct clock *clock)
{
	const struct member members[] = {
		{ .key = "ticks",
		  .kind = NUMBER,
		  .into = &clock->ticks0,
		  .max = 9.2e18,
		  .required = true },
		{ .key = "ns",
		  .kind = NUMBER,
		  .into = &clock->ns0,
		  .max = 9.2e18,
		  .required = true },
		{ .key = "hz",
		  .kind = NUMBER,
		  .into = &clock->hz,
		  .min = 1e6,
		  .max = 1e11,
		  .required = true },
		{ 0 },
	};

	return object_read(r, "arm: clock", object, members);
}

static bool arm_read(struct reader *r, json_t *tasks, json_t *clock, struct arm_plan *arm)
{
	if (arm->run == VXLAN_FLAGS)
		return refuse(r, "arm: run: a VXLAN header begins so");
	if (!json_is_array(tasks) || json_array_size(tasks) > TASKS_MAX)
		return refuse(r, "arm: tasks is not a list of at most %d", TASKS_MAX);
	arm->task_count = (uint32_t)json_array_size(tasks);
	for (uint32_t i = 0; i < arm->task_count; i++)
		if (!load_read(r, json_array_get(tasks, i), &arm->tasks[i]))
			return false;
	arm->has_clock = clock != NULL;
	if (arm->longest_ns / arm->interval_ns >= INTERVALS_MAX)
		return refuse(r, "arm: more than %d intervals", INTERVALS_MAX);
	return !clock || clock_read(r, clock, &arm->clock);
}

/* ---- the line --------------------------------------------------------------------- */

static bool command_read(struct reader *r, json_t *object, struct command *out)
{
	static const char *const verbs[] = { "open", "ready", "clock",	"arm",	 "start", "wait",
					     "stop", "drain", "report", "close", NULL };
	uint32_t verb = 0, touch = TOUCH_HEADER, phase = PHASE_MEASURED;
	uint64_t run = 0, longest = 0, interval = 100000000, again = 0, at = 0, duration = 0;
	json_t *ports = NULL, *threads = NULL, *tasks = NULL, *clock = NULL;
	bool ok;
	const struct member open[] = {
		{ .key = "cmd", .kind = CHOICE, .into = &verb, .choices = verbs, .required = true },
		{ .key = "ports", .kind = ANY, .into = &ports, .required = true },
		{ .key = "threads", .kind = ANY, .into = &threads, .required = true },
		{ 0 },
	};
	const struct member arm[] = {
		open[0],
		{ .key = "run", .kind = NUMBER, .into = &run, .max = UINT32_MAX, .required = true },
		{ .key = "touch", .kind = CHOICE, .into = &touch, .choices = touches },
		{ .key = "longest_ns",
		  .kind = NUMBER,
		  .into = &longest,
		  .min = 1,
		  .max = PHASE_NS_MAX,
		  .required = true },
		{ .key = "interval_ns", .kind = NUMBER, .into = &interval, .min = 1e6, .max = 1e12 },
		{ .key = "announce_every_ns", .kind = NUMBER, .into = &again, .max = PHASE_NS_MAX },
		{ .key = "clock", .kind = ANY, .into = &clock },
		{ .key = "tasks", .kind = ANY, .into = &tasks, .required = true },
		{ 0 },
	};
	const struct member start[] = {
		open[0],
		{ .key = "phase", .kind = CHOICE, .into = &phase, .choices = phases },
		{ .key = "at_ns", .kind = NUMBER, .into = &at, .max = 9.2e18 },
		{ .key = "duration_ns",
		  .kind = NUMBER,
		  .into = &duration,
		  .min = 1,
		  .max = PHASE_NS_MAX,
		  .required = true },
		{ 0 },
	};
	const struct member rest[] = {
		open[0],
		{ .key = "timeout_ms", .kind = NUMBER, .into = &out->timeout_ms, .max = 1e10 },
		{ .key = "quiet_ms", .kind = NUMBER, .into = &out->quiet_ms, .max = 1e6 },
		{ 0 },
	};

	if (!json_is_object(object) || !json_object_get(object, "cmd"))
		return refuse(r, "not an object with a member cmd");
	if (!member_read(r, "command", &open[0], json_object_get(object, "cmd")))
		return refuse(r, "unknown command");
	out->verb = (enum verb)verb;
	out->timeout_ms = 10000;
	out->quiet_ms = 20;
	switch (out->verb) {
	case VERB_OPEN:
		memset(&out->open, 0, sizeof(out->open));
		return object_read(r, "open", object, open) &&
		       open_read(r, ports, threads, &out->open);
	case VERB_ARM:
		memset(&out->arm, 0, sizeof(out->arm));
		ok = object_read(r, "arm", object, arm);
		out->arm.run = (uint32_t)run;
		out->arm.touch = (enum touch)touch;
		out->arm.longest_ns = longest;
		out->arm.interval_ns = interval;
		out->arm.announce_every_ns = again;
		return ok && arm_read(r, tasks, clock, &out->arm);
	case VERB_START:
		ok = object_read(r, "start", object, start);
		out->start = (struct start_plan){ at, duration, (uint8_t)phase };
		return ok;
	default:
		return object_read(r, "command", object, rest);
	}
}

bool command_parse(const char *line, size_t len, struct command *out, char *why, size_t why_size)
{
	struct reader r = { .why = why, .size = why_size };
	json_error_t error;
	json_t *object = json_loadb(line, len, JSON_REJECT_DUPLICATES, &error);
	bool ok;

	if (!object) {
		refuse(&r, "not JSON: %s", error.text);
		return false;
	}
	ok = command_read(&r, object, out);
	json_decref(object);
	return ok;
}
