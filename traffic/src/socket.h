/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the engines over kernel sockets: opening, buffers, failures, drop counters. */
#ifndef SWITCHMARK_SOCKET_H
#define SWITCHMARK_SOCKET_H

#include "engine.h"

#include <linux/if_packet.h>
#include <sys/socket.h>

#define SOCKET_BUFFER_OPTION                                                                       \
	{                                                                                          \
		.name = "buffer", .type = OPTION_NUMBER, .min = 4096, .max = 1 << 30,              \
		.preset = 4 << 20, .help = "bytes of the socket's buffers"                         \
	}

/*
 * Opens an AF_PACKET socket in the port's namespace. Returns it, or -errno with port->why. No frame
 * arrives before packet_bind, so rings can be set up in between.
 */
int packet_socket(struct port *port);

/*
 * Binds the socket to the port's interface: to receive every incoming frame (and none that this
 * host sends), or only to send. Returns 0, or -errno with port->why.
 */
int packet_bind(struct port *port, int fd, bool receives);

/* Sockets of one interface that share the incoming frames by flow (PACKET_FANOUT). */
struct packet_group;

/* Joins a bound socket to the others of a port on several cores; does nothing for a port on one
 * core. Returns 0, or -errno with port->why. */
int packet_spread(struct port *port, int fd, struct packet_group **group);
void packet_group_leave(struct packet_group *group);

/* Opens a socket that bypasses the engine and can send from any thread. Returns it, or -errno with
 * port->why. */
int packet_sender(struct port *port);

/*
 * The kernel removes the VLAN tag from a frame before an AF_PACKET socket sees it and reports the
 * tag in PACKET_AUXDATA. packet_restore_vlan inserts the tag into the frame at `data`, which has
 * room for four more bytes. Returns the frame's length.
 */
#define PACKET_AUXDATA_BYTES CMSG_SPACE(sizeof(struct tpacket_auxdata))
uint32_t packet_restore_vlan(struct msghdr *message, uint8_t *data, uint32_t len);

/* Sets SO_RCVBUF and SO_SNDBUF to the option `buffer`; as root beyond the sysctl limits. */
void socket_buffers(const struct port *port, int fd);

/* Returns the increase of a 32-bit counter, which may wrap around, since it was `*last`. */
static inline uint64_t counter_since(uint32_t *last, uint32_t now)
{
	uint32_t more = now - *last;

	*last = now;
	return more;
}

/* Returns the frames dropped since the last call because the socket's buffer or ring was full. */
uint64_t packet_socket_drops(int fd);

/* The same for a UDP socket, whose counter is not reset: `last` is its previous value. */
uint64_t udp_socket_drops(int fd, uint32_t *last);

/* Handle a failed send or receive: count it, and fail the port if errno is not transient. */
void socket_tx_failed(struct port *port);
void socket_rx_failed(struct port *port);

/* True if the interface is up with carrier. Looks it up in the port's network namespace. */
bool interface_running(struct port *port);

/* Enters the port's namespace. Returns the argument for namespace_leave; -1: no change. */
int namespace_enter(struct port *port);
void namespace_leave(int saved);

#endif
