/* SPDX-License-Identifier: Apache-2.0 */
/* The table of engines: to add one, add its file to meson.build and two lines here. */
#include "engine.h"
#include "modules.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

extern const struct engine engine_null;
extern const struct engine engine_udp;
extern const struct engine engine_udp_mmsg;
extern const struct engine engine_udp_gso;
extern const struct engine engine_raw;
extern const struct engine engine_raw_mmsg;
extern const struct engine engine_raw_gso;
extern const struct engine engine_mmap;
extern const struct engine engine_mmap_gso;
extern const struct engine engine_memif;
#ifdef HAVE_XDP
extern const struct engine engine_xdp;
extern const struct engine engine_xdp_live;
#endif
#ifdef HAVE_DPDK
extern const struct engine engine_dpdk;
#endif
#ifdef HAVE_NETMAP
extern const struct engine engine_netmap;
#endif

const struct engine *const engines[] = {
	&engine_null,
	&engine_udp,
	&engine_udp_mmsg,
	&engine_udp_gso,
	&engine_raw,
	&engine_raw_mmsg,
	&engine_raw_gso,
	&engine_mmap,
	&engine_mmap_gso,
	&engine_memif,
#ifdef HAVE_XDP
	&engine_xdp,
	&engine_xdp_live,
#endif
#ifdef HAVE_DPDK
	&engine_dpdk,
#endif
#ifdef HAVE_NETMAP
	&engine_netmap,
#endif
	NULL,
};

const struct engine *engine_find(const char *name)
{
	for (const struct engine *const *e = engines; *e; e++)
		if (!strcmp((*e)->name, name))
			return *e;
	return modules_load(name);
}

const char *engine_fault(const struct engine *e)
{
	const bool sends = e->caps & ENGINE_SENDS, receives = e->caps & ENGINE_RECEIVES;

	if (!e->name || !e->name[0] || !e->summary)
		return "it has no name or no summary";
	if (!e->open || !e->ready || !e->stats || !e->close)
		return "open, ready, stats or close is missing";
	if (!e->alloc || !e->tx || !e->rx || !e->release)
		return "alloc, tx, rx or release is missing";
	if (!sends && !receives)
		return "it neither sends nor receives";
	if ((e->caps & (ENGINE_REFLECTS | ENGINE_CROSSES)) && !(sends && receives))
		return "it passes on what it receives, and does not send or not receive";
	for (const struct option_spec *s = e->options; s && s->name; s++) {
		if (!s->help || s - e->options >= OPTIONS_MAX)
			return "an option has no help, or there are too many";
		if (s->type == OPTION_NUMBER && (s->min > s->max || s->preset > s->max))
			return "an option's numbers contradict each other";
	}
	return NULL;
}

int port_open(struct port *port)
{
	if (!port->config.cores)
		port->config.cores = 1;
	port->tx = port->engine->tx;
	port->rx = port->engine->rx;
	return port->engine->open(port);
}

bool port_flush(struct port *port)
{
	return !port->engine->flush || port->engine->flush(port);
}

static const struct option_spec *option_spec_find(const struct port *port, const char *name)
{
	for (const struct option_spec *s = port->engine->options; s && s->name; s++)
		if (!strcmp(s->name, name))
			return s;
	return NULL;
}

static const struct option_value *option_value_find(const struct port *port, const char *name)
{
	for (uint32_t i = 0; i < port->config.option_count; i++)
		if (!strcmp(port->config.options[i].name, name))
			return &port->config.options[i];
	return NULL;
}

uint64_t port_option(const struct port *port, const char *name)
{
	const struct option_value *v = option_value_find(port, name);
	const struct option_spec *s = option_spec_find(port, name);

	if (v)
		return v->number;
	return s ? s->preset : 0;
}

const char *port_option_text(const struct port *port, const char *name)
{
	const struct option_value *v = option_value_find(port, name);
	const struct option_spec *s = option_spec_find(port, name);

	if (v)
		return v->text;
	return s && s->choices ? s->choices[0] : "";
}

int port_fail(struct port *port, int error, const char *format, ...)
{
	va_list args;

	if (!atomic_load_explicit(&port->failed, memory_order_relaxed)) {
		va_start(args, format);
		vsnprintf(port->why, sizeof(port->why), format, args);
		va_end(args);
		atomic_store_explicit(&port->failed, true, memory_order_release);
		if (port->news > 0)
			(void)eventfd_write(port->news, 1);
	}
	return error < 0 ? error : -error;
}
