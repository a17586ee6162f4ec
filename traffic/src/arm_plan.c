/* SPDX-License-Identifier: Apache-2.0 */
#include "arm_plan.h"

#define SEED_MAX 9.2e18
#define NS_MAX 9.2e18

static bool lens_read(struct reader *r, json_t *sizes, struct task_load *load)
{
	uint32_t least = FRAME_MIN;

	if (!list_read(r, "arm: frame_bytes", sizes, SIZES_MAX, &load->len_count))
		return false;
	for (uint32_t i = 0; i < load->sent.count; i++)
		if (frame_least(&load->sent.list[i]) > least)
			least = frame_least(&load->sent.list[i]);
	for (uint32_t i = 0; i < load->len_count; i++) {
		if (!number_read(json_array_get(sizes, i), least + FCS_BYTES, FRAME_BYTES_MAX,
				 &load->lens[i]))
			return refuse(r, "arm: frame_bytes holds what is no size from %u to %d",
				      least + FCS_BYTES, FRAME_BYTES_MAX);
		load->lens[i] -= FCS_BYTES;
	}
	return true;
}

static bool vary_read(struct reader *r, json_t *list, uint32_t *vary)
{
	static const char *const names[] = { "src_mac",	 "dst_mac",  "src_ip", "dst_ip",
					     "src_port", "dst_port", NULL };
	static const struct member name = { "vary", CHOICE, .bytes = sizeof(uint32_t),
					    .choices = names };

	if (!json_is_array(list))
		return refuse(r, "arm: vary is not a list");
	for (size_t i = 0; i < json_array_size(list); i++) {
		uint32_t bit;

		if (!member_read(r, "arm", &name, json_array_get(list, i), &bit))
			return false;
		*vary |= 1u << bit;
	}
	return true;
}

static bool rewrite_read(struct reader *r, json_t *list, struct rewrite *rewrite)
{
	static const struct member members[] = {
		{ "src_mac", MAC, INTO(rewrite, src_mac), .required = true },
		{ "dst_mac", MAC, INTO(rewrite, dst_mac), .required = true },
		{ 0 },
	};

	if (!json_is_array(list) || json_array_size(list) != 2)
		return refuse(r, "arm: rewrite is not a list of two");
	for (uint32_t i = 0; i < 2; i++) {
		json_t *v = json_array_get(list, i);

		if (json_is_null(v))
			continue;
		if (!object_read(r, "arm: rewrite", v, members, &rewrite[i]))
			return false;
		rewrite[i].on = true;
	}
	return true;
}

/* Reads one MAC or null for each address that a task announces. */
static bool again_read(struct reader *r, json_t *list, struct task_load *load)
{
	static const struct member mac = { "announce_again", MAC };

	if (!json_is_array(list) || json_array_size(list) != load->announce_count)
		return refuse(r, "arm: announce_again is not a list as long as announce");
	for (uint32_t i = 0; i < load->announce_count; i++) {
		json_t *v = json_array_get(list, i);

		if (json_is_null(v))
			continue;
		if (!member_read(r, "arm: task", &mac, v, load->again_to[i]))
			return false;
		load->again[i] = true;
	}
	return true;
}

/* Reads the tunnel of a frame: its VNI and the inner addresses. */
static bool vxlan_read(struct reader *r, json_t *object, struct address *a)
{
	static const struct member members[] = {
		{ "vni", NUMBER, INTO(address, vni), .max = 0xffffff, .required = true },
		{ "src_mac", MAC, INTO(address, inner_src_mac) },
		{ "dst_mac", MAC, INTO(address, inner_dst_mac) },
		{ "src_ip", IPV4, INTO(address, inner_src_ip) },
		{ "dst_ip", IPV4, INTO(address, inner_dst_ip) },
		{ "src_ip6", IPV6, INTO(address, inner_src_ip6) },
		{ "dst_ip6", IPV6, INTO(address, inner_dst_ip6) },
		{ 0 },
	};

	if (a->vlan)
		return refuse(r, "arm: vxlan: a tunnel's frames have no tag");
	a->vxlan = true;
	if (!object_read(r, "arm: vxlan", object, members, a))
		return false;
	a->inner_v6 = json_object_get(object, "src_ip6") || json_object_get(object, "dst_ip6");
	return true;
}

static bool address_read(struct reader *r, const char *where, json_t *object, struct address *a)
{
	static const struct member members[] = {
		{ "src_mac", MAC, INTO(address, src_mac) },
		{ "dst_mac", MAC, INTO(address, dst_mac) },
		{ "src_ip", IPV4, INTO(address, src_ip) },
		{ "dst_ip", IPV4, INTO(address, dst_ip) },
		{ "src_ip6", IPV6, INTO(address, src_ip6) },
		{ "dst_ip6", IPV6, INTO(address, dst_ip6) },
		{ "src_port", NUMBER, INTO(address, src_port), .max = UINT16_MAX },
		{ "dst_port", NUMBER, INTO(address, dst_port), .max = UINT16_MAX },
		{ "vlan", NUMBER, INTO(address, vlan), .max = 4094 },
		{ "ttl", NUMBER, INTO(address, ttl), .max = UINT8_MAX },
		{ "vxlan", OTHER },
		{ 0 },
	};
	json_t *vxlan;

	if (!object_read(r, where, object, members, a))
		return false;
	a->v6 = json_object_get(object, "src_ip6") || json_object_get(object, "dst_ip6");
	vxlan = json_object_get(object, "vxlan");
	return !vxlan || vxlan_read(r, vxlan, a);
}

/* Reads one address, or a list of 1 to `max` addresses. */
static bool addresses_read(struct reader *r, const char *where, json_t *found, uint32_t max,
			   struct address *list, uint32_t *count)
{
	*count = 1;
	if (!json_is_array(found))
		return address_read(r, where, found, list);
	if (!list_read(r, where, found, max, count))
		return false;
	for (uint32_t i = 0; i < *count; i++)
		if (!address_read(r, where, json_array_get(found, i), &list[i]))
			return false;
	return true;
}

static bool subflows_read(struct reader *r, json_t *object, struct subflows *s)
{
	static const char *const by[] = { "port", "ip", "mac", NULL };
	static const char *const orders[] = { "sequential", "random", "zipf", NULL };
	static const struct member members[] = {
		{ "count", NUMBER, INTO(subflows, count), .min = 1, .max = SUBFLOWS_MAX,
		  .required = true },
		{ "first", NUMBER, INTO(subflows, first), .max = SUBFLOWS_MAX },
		{ "step", NUMBER, INTO(subflows, step), .max = SUBFLOWS_MAX },
		{ "by", CHOICE, INTO(subflows, by), .choices = by },
		{ "order", CHOICE, INTO(subflows, order), .choices = orders },
		{ "seed", NUMBER, INTO(subflows, seed), .max = SEED_MAX },
		{ "answered", BOOL, INTO(subflows, answered) },
		{ 0 },
	};

	return object_read(r, "arm: subflows", object, members, s);
}

/* Reads the addresses of a task's flows and the fields that vary, if present. */
static bool addresses_plan_read(struct reader *r, const char *where, json_t *object, uint32_t flows,
				struct address_plan *plan)
{
	json_t *address = json_object_get(object, "address");
	json_t *vary = json_object_get(object, "vary");
	json_t *subflows = json_object_get(object, "subflows");
	json_t *run = json_object_get(object, "flow_run");
	uint32_t frames = 1;

	if (subflows && !subflows_read(r, subflows, &plan->subflows))
		return false;
	if (run && (!number_read(run, 1, BURST_MAX, &frames) || (frames & (frames - 1))))
		return refuse(r, "%s: flow_run is no power of two up to %d", where, BURST_MAX);
	plan->subflows.run_bits = (uint32_t)__builtin_ctz(frames);
	if (address && !addresses_read(r, where, address, ADDRESSES_MAX, plan->list, &plan->count))
		return false;
	if (plan->count && flows % plan->count)
		return refuse(r, "%s: %u addresses do not share %u flows evenly", where,
			      plan->count, flows);
	return !vary || vary_read(r, vary, &plan->vary);
}

static bool expect_read(struct reader *r, json_t *object, struct task_load *load)
{
	static const struct member members[] = {
		{ "address", OTHER, .required = true },
		{ "vary", OTHER },
		{ "subflows", OTHER },
		{ "flow_run", OTHER },
		{ "identified", BOOL, INTO(task_load, identified) },
		{ 0 },
	};

	return object_read(r, "arm: expect", object, members, load) &&
	       addresses_plan_read(r, "arm: expect", object, load->flows, &load->expected);
}

static bool load_read(struct reader *r, json_t *object, struct task_load *load)
{
	static const char *const kinds[] = { "burst", "even", "poisson", "on-off", NULL };
	static const char *const stamps[] = { "due", "sent", NULL };
	static const struct member members[] = {
		{ "first_flow", NUMBER, INTO(task_load, first_flow), .max = FLOW_MAX - 1 },
		{ "flows", NUMBER, INTO(task_load, flows), .min = 1, .max = FLOW_MAX },
		{ "burst", NUMBER, INTO(task_load, burst), .min = 1, .max = BURST_MAX },
		{ "rate_pps", REAL, INTO(task_load, rate_pps), .max = 1e9 },
		{ "stagger", REAL, INTO(task_load, stagger), .max = 1 },
		{ "arrivals", CHOICE, INTO(task_load, arrivals), .choices = kinds },
		{ "stamp", CHOICE, INTO(task_load, stamps_sent), .choices = stamps },
		{ "seed", NUMBER, INTO(task_load, seed), .max = SEED_MAX },
		{ "frames", NUMBER, INTO(task_load, frames), .max = UINT32_MAX },
		{ "latency", BOOL, INTO(task_load, latency) },
		{ "ipdv", BOOL, INTO(task_load, ipdv) },
		{ "delay_ns", NUMBER, INTO(task_load, delay_ns), .max = 1e9 },
		{ "frame_bytes", OTHER },
		{ "address", OTHER },
		{ "vary", OTHER },
		{ "subflows", OTHER },
		{ "flow_run", OTHER },
		{ "announce", OTHER },
		{ "announce_again", OTHER },
		{ "rewrite", OTHER },
		{ "expect", OTHER },
		{ 0 },
	};
	json_t *v;

	load->flows = 1;
	load->burst = 32;
	if (!object_read(r, "arm: task", object, members, load))
		return false;
	if (load->first_flow + load->flows > FLOW_MAX)
		return refuse(r, "arm: flow numbers go to %d", FLOW_MAX - 1);
	if (!addresses_plan_read(r, "arm: address", object, load->flows, &load->sent))
		return false;
	if ((v = json_object_get(object, "announce")) &&
	    !addresses_read(r, "arm: announce", v, 2, load->announced, &load->announce_count))
		return false;
	if ((v = json_object_get(object, "announce_again")) && !again_read(r, v, load))
		return false;
	if ((v = json_object_get(object, "frame_bytes")) && !lens_read(r, v, load))
		return false;
	if ((v = json_object_get(object, "expect")) && !expect_read(r, v, load))
		return false;
	return !(v = json_object_get(object, "rewrite")) || rewrite_read(r, v, load->rewrite);
}

static bool clock_read(struct reader *r, json_t *object, struct clock *clock)
{
	static const struct member members[] = {
		{ "ticks", NUMBER, INTO(clock, ticks0), .max = NS_MAX, .required = true },
		{ "ns", NUMBER, INTO(clock, ns0), .max = NS_MAX, .required = true },
		{ "hz", NUMBER, INTO(clock, hz), .min = 1e6, .max = 1e11, .required = true },
		{ 0 },
	};

	return object_read(r, "arm: clock", object, members, clock);
}

bool arm_plan_read(struct reader *r, json_t *object, struct arm_plan *plan)
{
	static const char *const touches[] = { "none", "header", "full", NULL };
	static const struct member members[] = {
		{ "cmd", OTHER },
		{ "run", NUMBER, INTO(arm_plan, run), .max = UINT32_MAX, .required = true },
		{ "touch", CHOICE, INTO(arm_plan, touch), .choices = touches },
		{ "longest_ns", NUMBER, INTO(arm_plan, longest_ns), .min = 1, .max = PHASE_NS_MAX,
		  .required = true },
		{ "interval_ns", NUMBER, INTO(arm_plan, interval_ns), .min = 1e6, .max = 1e12 },
		{ "series_ns", NUMBER, INTO(arm_plan, series_ns), .min = 1e6, .max = PHASE_NS_MAX },
		{ "announce_every_ns", NUMBER, INTO(arm_plan, announce_every_ns),
		  .max = PHASE_NS_MAX },
		{ "clock", OTHER },
		{ "tasks", OTHER, .required = true },
		{ 0 },
	};
	json_t *tasks, *clock;

	plan->touch = TOUCH_HEADER;
	plan->interval_ns = 100000000;
	if (!object_read(r, "arm", object, members, plan))
		return false;
	tasks = json_object_get(object, "tasks");
	clock = json_object_get(object, "clock");
	if (plan->run == VXLAN_FLAGS)
		return refuse(r, "arm: run: a VXLAN header begins so");
	if (!json_is_array(tasks) || json_array_size(tasks) > TASKS_MAX)
		return refuse(r, "arm: tasks is not a list of at most %d", TASKS_MAX);
	plan->task_count = (uint32_t)json_array_size(tasks);
	for (uint32_t i = 0; i < plan->task_count; i++)
		if (!load_read(r, json_array_get(tasks, i), &plan->tasks[i]))
			return false;
	if (plan->longest_ns / plan->interval_ns >= INTERVALS_MAX)
		return refuse(r, "arm: more than %d intervals", INTERVALS_MAX);
	plan->has_clock = clock != NULL;
	return !clock || clock_read(r, clock, &plan->clock);
}
