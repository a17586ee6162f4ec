/* SPDX-License-Identifier: Apache-2.0 */
/* What the engines over kernel sockets share: opening, buffers, failures, drop counters. */
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
 * An AF_PACKET socket in the port's namespace, or -errno with port->why. Nothing arrives
 * before packet_bind, so rings can be set up in between.
 */
int packet_socket(struct port *port);

/*
 * Binds it to the port's interface: to receive every frame that comes in (and none that this
 * host sends), or only to send. 0, or -errno with port->why.
 */
int packet_bind(struct port *port, int fd, bool receives);

/* Sockets of one interface that share what comes in, each flow with one of them (PACKET_FANOUT). */
struct packet_group;

/* Joins the socket, which is bound, to the others of a port on several cores; of a port on one it
 * does nothing. 0, or -errno with port->why. */
int packet_spread(struct port *port, int fd, struct packet_group **group);
void packet_group_leave(struct packet_group *group);

/* A socket that sends past the engine, from any thread. -errno with port->why. */
int packet_sender(struct port *port);

/*
 * The kernel takes a VLAN tag out of a frame before an AF_PACKET socket sees it, and tells it
 * in PACKET_AUXDATA: puts it back into the frame at data, which has room for four bytes
 * more. Returns the frame's length.
 */
#define PACKET_AUXDATA_BYTES CMSG_SPACE(sizeof(struct tpacket_auxdata))
uint32_t packet_restore_vlan(struct msghdr *message, uint8_t *data, uint32_t len);

/* Sets SO_RCVBUF and SO_SNDBUF to the option `buffer`, past the sysctl limits if root. */
void socket_buffers(const struct port *port, int fd);

/* What a counter of 32 bits, which begins again at 0, has gone on by since it was at `last`. */
static inline uint64_t counter_since(uint32_t *last, uint32_t now)
{
	uint32_t more = now - *last;

	*last = now;
	return more;
}

/* Frames that found the socket's buffer or ring full since the last call. */
uint64_t packet_socket_drops(int fd);

/* The same for a UDP socket, whose counter goes on: `last` is what it was. */
uint64_t udp_socket_drops(int fd, uint32_t *last);

/* After a failed send or receive: counts it, and fails the port if errno is no passing state. */
void socket_tx_failed(struct port *port);
void socket_rx_failed(struct port *port);

/* Does the interface run (up, with carrier)? Looked up in the port's network namespace. */
bool interface_running(struct port *port);

/* Enters the port's namespace; namespace_leave takes what it returned. -1: nothing to do. */
int namespace_enter(struct port *port);
void namespace_leave(int saved);

#endif
