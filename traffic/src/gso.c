/* SPDX-License-Identifier: Apache-2.0 */
#include "gso.h"

#include "checksum.h"
#include "frames.h"
#include "socket.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DONT_FRAGMENT 0x4000
#define IP_LEN_MAX 65535u

/* Returns the offset of the UDP header in a frame that can be part of a packet; 0: it cannot. */
static uint32_t udp_offset(const uint8_t *d, uint32_t len)
{
	const uint8_t *ip = d + ETH_BYTES, *udp;
	uint32_t ip_len;

	if (len < FRAME_MIN)
		return 0;
	if (load16(d + 12) == net16(0x8100))
		ip += VLAN_BYTES;
	if (load16(ip - 2) == net16(0x0800)) {
		udp = ip + IP_BYTES;
		ip_len = net16(load16(ip + 2));
		if (ip[0] != 0x45 || ip[9] != 17 || (net16(load16(ip + 6)) & ~DONT_FRAGMENT))
			return 0;
	} else if (load16(ip - 2) == net16(0x86dd)) {
		udp = ip + IP6_BYTES;
		ip_len = IP6_BYTES + net16(load16(ip + 4));
		if (ip[0] >> 4 != 6 || ip[6] != 17)
			return 0;
	} else {
		return 0;
	}
	/* A payload and no padding. A frame in a tunnel has no outer checksum. */
	if (udp + UDP_BYTES >= d + len || ip + ip_len != d + len ||
	    udp + net16(load16(udp + 4)) != d + len || !load16(udp + 6))
		return 0;
	return (uint32_t)(udp - d);
}

/* Returns the offset of the IP header, given that of the UDP header. */
always_inline uint32_t ip_offset(const uint8_t *d)
{
	return ETH_BYTES + (load16(d + 12) == net16(0x8100) ? VLAN_BYTES : 0);
}

/* True if the first `bytes` bytes are equal; at least 8. */
always_inline bool bytes_equal(const uint8_t *a, const uint8_t *b, uint32_t bytes)
{
	uint64_t differs = load64(a + bytes - 8) ^ load64(b + bytes - 8);

	for (uint32_t i = 0; i + 8 < bytes; i += 8)
		differs |= load64(a + i) ^ load64(b + i);
	return !differs;
}

uint32_t gso_count(const struct frame *f, uint32_t n)
{
	const uint8_t *first = f->data;
	const uint32_t len = f->len, udp = n > 1 ? udp_offset(first, len) : 0;
	uint32_t most, count = 1;

	if (!udp)
		return 1;
	most = (IP_LEN_MAX - (udp + UDP_BYTES - ip_offset(first))) / (len - udp - UDP_BYTES);
	most = most < GSO_FRAMES_MAX ? most : GSO_FRAMES_MAX;
	most = most < n ? most : n;
	/* All headers but the checksum, which follows from the payload. The length is equal, so a
	 * frame has a checksum field; an empty one means that the frame has no checksum. */
	while (count < most && f[count].len == len &&
	       bytes_equal(f[count].data, first, udp + UDP_BYTES - 2) &&
	       load16((const uint8_t *)f[count].data + udp + 6))
		count++;
	return count;
}

/* Writes the lengths of a packet, and the partial checksum that a device completes: the sum of the
 * pseudo header. `h`: its headers. */
static void headers_lengthen(uint8_t *h, uint32_t ip_at, uint32_t udp_at, uint32_t udp_len)
{
	uint8_t *ip = h + ip_at, *udp = h + udp_at;
	const bool v6 = udp_at - ip_at == IP6_BYTES;
	const uint16_t len_net = net16((uint16_t)udp_len);
	const uint32_t addresses = v6 ? 32 : 8;

	if (v6) {
		store16(ip + 4, len_net);
	} else {
		store16(ip + 2, net16((uint16_t)(udp_len + IP_BYTES)));
		store16(ip + 10, 0);
		store16(ip + 10, (uint16_t)~checksum_fold(checksum_add(ip, IP_BYTES)));
	}
	store16(udp + 4, len_net);
	store16(udp + 6,
		checksum_fold(checksum_add(udp - addresses, addresses) + net16(17) + len_net));
}

uint32_t gso_write(uint8_t *out, const struct frame *f, uint32_t n)
{
	const uint32_t udp_at = udp_offset(f->data, f->len), head = udp_at + UDP_BYTES;
	const uint32_t payload = f->len - head;
	const struct virtio_net_hdr header = {
		.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
		.gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
		.hdr_len = (uint16_t)head,
		.gso_size = (uint16_t)payload,
		.csum_start = (uint16_t)udp_at,
		.csum_offset = 6,
	};
	uint8_t *packet = out + sizeof(header), *at = packet + head;

	memcpy(out, &header, sizeof(header));
	memcpy(packet, f->data, head);
	headers_lengthen(packet, ip_offset(packet), udp_at, UDP_BYTES + n * payload);
	for (uint32_t i = 0; i < n; i++, at += payload)
		memcpy(at, (const uint8_t *)f[i].data + head, payload);
	return (uint32_t)(at - out);
}

bool gso_failed(struct port *port, const struct gso_device *device, const char *release)
{
	if (errno == EINVAL || errno == EIO)
		port_fail(
			port, errno,
			"the kernel does not split packets of several frames (%s on %s): engine %s "
			"needs Linux %s",
			strerror(errno), port->config.ifname, port->engine->name, release);
	return errno == ENOBUFS && device->drops_frames;
}

/* Returns the number of a feature among those of the device; `count` is their number. -1: the
 * device does not have it, or does not list its features. */
static int feature_find(int fd, struct ifreq *request, const char *name, uint32_t *count)
{
	union {
		struct ethtool_sset_info info;
		uint32_t words[sizeof(struct ethtool_sset_info) / sizeof(uint32_t) + 1];
	} set = { .info = { .cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ULL << ETH_SS_FEATURES } };
	struct ethtool_gstrings *names;
	int found = -1;

	request->ifr_data = (void *)&set;
	if (ioctl(fd, SIOCETHTOOL, request) || !set.info.sset_mask)
		return -1;
	*count = set.info.data[0];
	names = calloc(1, sizeof(*names) + (size_t)*count * ETH_GSTRING_LEN);
	if (!names)
		return -1;
	*names = (struct ethtool_gstrings){ .cmd = ETHTOOL_GSTRINGS,
					    .string_set = ETH_SS_FEATURES,
					    .len = *count };
	request->ifr_data = (void *)names;
	if (!ioctl(fd, SIOCETHTOOL, request))
		for (uint32_t i = 0; i < *count; i++)
			if (!strncmp((const char *)names->data + (size_t)i * ETH_GSTRING_LEN, name,
				     ETH_GSTRING_LEN))
				found = (int)i;
	free(names);
	return found;
}

/* Returns whether a feature of the device is on. */
static bool feature_is_on(int fd, struct ifreq *request, uint32_t feature, uint32_t count)
{
	const uint32_t blocks = (count + 31) / 32;
	struct ethtool_gfeatures *features =
		calloc(1, sizeof(*features) + blocks * sizeof(features->features[0]));
	bool on;

	if (!features)
		return true;
	features->cmd = ETHTOOL_GFEATURES;
	features->size = blocks;
	request->ifr_data = (void *)features;
	on = ioctl(fd, SIOCETHTOOL, request) ||
	     features->features[feature / 32].active >> feature % 32 & 1;
	free(features);
	return on;
}

/* Returns whether a device has no queue (qdisc); false: it has one, or the kernel does not say. */
static bool is_without_queue(const char *ifname)
{
	struct {
		struct nlmsghdr header;
		struct ifinfomsg link;
	} request = { .header = { .nlmsg_len = sizeof(request),
				  .nlmsg_type = RTM_GETLINK,
				  .nlmsg_flags = NLM_F_REQUEST },
		      .link = { .ifi_index = (int)if_nametoindex(ifname) } };
	union {
		struct nlmsghdr header;
		uint8_t bytes[1 << 15];
	} answer;
	const struct rtattr *a;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t got = -1;
	int left;

	if (fd < 0)
		return false;
	if (send(fd, &request, sizeof(request), 0) > 0)
		got = recv(fd, &answer, sizeof(answer), 0);
	close(fd);
	if (got < (ssize_t)NLMSG_LENGTH(sizeof(struct ifinfomsg)) ||
	    !NLMSG_OK(&answer.header, (uint32_t)got) || answer.header.nlmsg_type != RTM_NEWLINK)
		return false;
	a = IFLA_RTA((struct ifinfomsg *)NLMSG_DATA(&answer.header));
	for (left = (int)IFLA_PAYLOAD(&answer.header); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == IFLA_QDISC)
			return !strcmp(RTA_DATA(a), "noqueue");
	return false;
}

/* Returns whether a feature of the device is on; -1: the device does not say. */
static int feature_state(int fd, struct ifreq *request, const char *name)
{
	uint32_t count = 0;
	const int feature = feature_find(fd, request, name, &count);

	return feature < 0 ? -1 : feature_is_on(fd, request, (uint32_t)feature, count);
}

int gso_device_open(struct port *port, struct gso_device *device)
{
	static const char name[] = "tx-udp-segmentation";
	struct ifreq request = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on;

	if (fd < 0)
		return port_fail(port, errno, "cannot read the features of %s: %s",
				 port->config.ifname, strerror(errno));
	memcpy(request.ifr_name, port->config.ifname, IFNAMSIZ);
	on = feature_state(fd, &request, name);
	device->keeps_memory = feature_state(fd, &request, "tx-scatter-gather") != 0;
	close(fd);
	if (on < 0)
		return port_fail(port, EOPNOTSUPP,
				 "%s does not say whether it splits packets (%s), so engine %s "
				 "cannot use it",
				 port->config.ifname, name, port->engine->name);
	if (on)
		return port_fail(port, EOPNOTSUPP,
				 "%s sends packets of several frames on whole, so engine %s cannot "
				 "use it: %s is on (ethtool -K %s %s off, if the driver allows it)",
				 port->config.ifname, port->engine->name, name, port->config.ifname,
				 name);
	device->drops_frames = is_without_queue(port->config.ifname);
	return 0;
}
