/* SPDX-License-Identifier: Apache-2.0 */
#include "socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sock_diag.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef PACKET_FANOUT_FLAG_IGNORE_OUTGOING
#define PACKET_FANOUT_FLAG_IGNORE_OUTGOING 0x4000 /* Linux 5.10 */
#endif

int namespace_enter(struct port *port)
{
	int saved, target;

	if (!port->config.netns[0])
		return -1;
	saved = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	target = open(port->config.netns, O_RDONLY | O_CLOEXEC);
	if (saved < 0 || target < 0 || setns(target, CLONE_NEWNET)) {
		int error = port_fail(port, errno, "cannot enter the namespace %s: %s",
				      port->config.netns, strerror(errno));

		if (saved >= 0)
			close(saved);
		if (target >= 0)
			close(target);
		return error < -1 ? error : -EIO;
	}
	close(target);
	return saved;
}

void namespace_leave(int saved)
{
	if (saved < 0)
		return;
	/* This thread started in that namespace; after a failure later ports would open in the
	 * wrong one. */
	if (setns(saved, CLONE_NEWNET))
		_exit(70);
	close(saved);
}

int packet_socket(struct port *port)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return port_fail(port, errno, "AF_PACKET: %s", strerror(errno));
	return fd;
}

int packet_bind(struct port *port, int fd, bool receives)
{
	const struct port_config *c = &port->config;
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = receives ? htons(ETH_P_ALL) : 0,
		.sll_ifindex = (int)if_nametoindex(c->ifname),
	};

	if (!address.sll_ifindex)
		return port_fail(port, ENODEV, "there is no interface %s", c->ifname);
	if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &(int){ 1 }, sizeof(int)))
		return port_fail(port, errno, "PACKET_IGNORE_OUTGOING: %s", strerror(errno));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
		return port_fail(port, errno, "cannot bind to %s: %s", c->ifname, strerror(errno));
	return 0;
}

enum { GROUPS_MAX = 64 };

static struct packet_group {
	uint32_t members;
	ino_t netns;
	unsigned int ifindex;
	uint16_t id;
} groups[GROUPS_MAX];

static struct packet_group *group_find(ino_t netns, unsigned int ifindex)
{
	struct packet_group *unused = NULL;

	for (int i = 0; i < GROUPS_MAX; i++) {
		if (!groups[i].members)
			unused = unused ? unused : &groups[i];
		else if (groups[i].netns == netns && groups[i].ifindex == ifindex)
			return &groups[i];
	}
	return unused;
}

int packet_spread(struct port *port, int fd, struct packet_group **group)
{
	const unsigned int ifindex = if_nametoindex(port->config.ifname);
	uint32_t how = PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
	struct packet_group *g;
	struct stat netns;
	uint32_t argument;

	if (port->config.cores < 2)
		return 0;
	if (stat("/proc/thread-self/ns/net", &netns))
		return port_fail(port, errno, "/proc/thread-self/ns/net: %s", strerror(errno));
	g = group_find(netns.st_ino, ifindex);
	if (!g)
		return port_fail(port, ENFILE, "more than %d groups of sockets", GROUPS_MAX);
	if (!g->members)
		how |= PACKET_FANOUT_FLAG_UNIQUEID;
	argument = how << 16 | (g->members ? g->id : 0);
	if (setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &argument, sizeof(argument)))
		return port_fail(port, errno, "PACKET_FANOUT on %s: %s", port->config.ifname,
				 strerror(errno));
	if (!g->members) {
		socklen_t size = sizeof(argument);

		if (getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &argument, &size))
			return port_fail(port, errno, "PACKET_FANOUT on %s: %s",
					 port->config.ifname, strerror(errno));
		*g = (struct packet_group){ .netns = netns.st_ino,
					    .ifindex = ifindex,
					    .id = (uint16_t)argument };
	}
	g->members++;
	*group = g;
	return 0;
}

void packet_group_leave(struct packet_group *group)
{
	if (group)
		group->members--;
}

int packet_sender(struct port *port)
{
	int saved = namespace_enter(port), fd, error;

	if (saved < -1)
		return saved;
	fd = packet_socket(port);
	error = fd < 0 ? fd : packet_bind(port, fd, false);
	if (fd >= 0 && error)
		close(fd);
	namespace_leave(saved);
	return error ? error : fd;
}

uint32_t packet_restore_vlan(struct msghdr *message, uint8_t *data, uint32_t len)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(message);
	struct tpacket_auxdata aux;

	if (!c || c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA ||
	    c->cmsg_len < CMSG_LEN(sizeof(aux)))
		return len;
	memcpy(&aux, CMSG_DATA(c), sizeof(aux));
	if (likely(!(aux.tp_status & TP_STATUS_VLAN_VALID)) || len < 12)
		return len;
	memmove(data + 16, data + 12, len - 12);
	aux.tp_vlan_tpid =
		htons(aux.tp_status & TP_STATUS_VLAN_TPID_VALID ? aux.tp_vlan_tpid : ETH_P_8021Q);
	aux.tp_vlan_tci = htons(aux.tp_vlan_tci);
	memcpy(data + 12, &aux.tp_vlan_tpid, 2);
	memcpy(data + 14, &aux.tp_vlan_tci, 2);
	return len + 4;
}

void socket_buffers(const struct port *port, int fd)
{
	int bytes = (int)port_option(port, "buffer");

	/* The FORCE variants override net.core.{r,w}mem_max; without CAP_NET_ADMIN in the initial
	 * user namespace they fail, and the limits apply. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

uint64_t packet_socket_drops(int fd)
{
	struct tpacket_stats stats;
	socklen_t size = sizeof(stats);

	/* Reading resets the kernel's counter to 0. */
	if (getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size))
		return 0;
	return stats.tp_drops;
}

uint64_t udp_socket_drops(int fd, uint32_t *last)
{
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t size = sizeof(info);

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &size) ||
	    size <= SK_MEMINFO_DROPS * sizeof(info[0]))
		return 0;
	return counter_since(last, info[SK_MEMINFO_DROPS]);
}

static void socket_failed(struct port *port, const char *what)
{
	if (!port->failed)
		port_fail(port, errno, "%s on %s: %s", what, port->config.ifname, strerror(errno));
}

void socket_tx_failed(struct port *port)
{
	port->tx_errors++;
	/* Full buffers and queues are transient; a peer that does not listen yet is not a
	 * failure. */
	if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR && errno != ECONNREFUSED)
		socket_failed(port, "cannot send");
}

void socket_rx_failed(struct port *port)
{
	if (errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED)
		socket_failed(port, "cannot receive");
}

bool interface_running(struct port *port)
{
	struct ifreq request = { 0 };
	int saved = namespace_enter(port);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool running = false;

	memcpy(request.ifr_name, port->config.ifname, IFNAMSIZ);
	if (fd >= 0) {
		running = !ioctl(fd, SIOCGIFFLAGS, &request) && (request.ifr_flags & IFF_UP) &&
			  (request.ifr_flags & IFF_RUNNING);
		close(fd);
	}
	namespace_leave(saved);
	return running;
}
