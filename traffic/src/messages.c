/* SPDX-License-Identifier: Apache-2.0 */
#include "messages.h"

#include "frames.h"

#include <errno.h>

int messages_open(struct port *port, struct messages *m, uint32_t control_bytes, bool peers)
{
	const struct port_config *c = &port->config;
	const uint32_t bytes = c->frame_max + VLAN_BYTES;

	/* The kernel may pass a VLAN tag separately; leave room to insert it again. */
	m->pool = pool_create(5 * c->burst, bytes + VLAN_BYTES);
	m->headers = lines_alloc(c->burst, sizeof(*m->headers));
	m->vectors = lines_alloc(c->burst, sizeof(*m->vectors));
	if (!m->pool || !m->headers || !m->vectors ||
	    !slots_create(&m->slots, m->pool, c->receives ? c->burst : 0, bytes, control_bytes,
			  peers))
		return port_fail(port, ENOMEM, "no memory for bursts of %u frames", c->burst);
	for (uint32_t i = 0; i < c->burst; i++) {
		m->headers[i].msg_hdr.msg_iov = &m->vectors[i];
		m->headers[i].msg_hdr.msg_iovlen = 1;
	}
	return 0;
}

void messages_close(struct messages *m)
{
	slots_destroy(&m->slots);
	pool_destroy(m->pool);
	free(m->headers);
	free(m->vectors);
}

uint32_t messages_alloc(struct port *port, struct frame *f, uint32_t n)
{
	struct messages *m = port->priv;

	return pool_take(m->pool, f, n);
}

void messages_release(struct port *port, struct frame *f, uint32_t n)
{
	(void)port;
	pool_give(f, n);
}
