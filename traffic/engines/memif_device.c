/* SPDX-License-Identifier: Apache-2.0 */
#include "memif_device.h"

#include "socket_clear.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	DEVICES_MAX = 64,
	RETRY_MS = 10, /* between two attempts to connect */
	FDS_MAX = 8, /* descriptors accepted with one message; one is expected */
};

static struct memif_device *devices[DEVICES_MAX];

/* ---- packets of the control channel -------------------------------------------------- */

static bool packet_send(int channel, const struct memif_message *m, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec part = { .iov_base = (void *)(uintptr_t)m, .iov_len = sizeof(*m) };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *c;

		packet.msg_control = control.bytes;
		packet.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&packet);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return sendmsg(channel, &packet, MSG_NOSIGNAL) == (ssize_t)sizeof(*m);
}

/* Returns the first descriptor of a packet, -1: none, and closes others. */
static int packet_descriptor(struct msghdr *packet)
{
	int first = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(packet); c; c = CMSG_NXTHDR(packet, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0);
		     at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			if (first < 0)
				first = fd;
			else
				close(fd);
		}
	}
	return first;
}

/* Receives one packet. Returns its size; 0 or less: the channel is closed. */
static ssize_t packet_receive(int channel, struct memif_message *m, int *fd)
{
	union {
		struct cmsghdr align;
		/* Room for credentials, too, which the other end cannot send unasked. */
		char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec part = { .iov_base = m, .iov_len = sizeof(*m) };
	struct msghdr packet = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes) };
	const ssize_t size = recvmsg(channel, &packet, MSG_CMSG_CLOEXEC);

	*fd = size < 0 ? -1 : packet_descriptor(&packet);
	/* A longer packet is cut to the size of a message. */
	return size > 0 && packet.msg_flags & MSG_TRUNC ? size + 1 : size;
}

/* ---- the thread ---------------------------------------------------------------------- */

static void link_publish(struct memif_device *d, struct memif_link *link)
{
	struct memif_link *before;

	pthread_mutex_lock(&d->lock);
	before = atomic_load_explicit(&d->link, memory_order_relaxed);
	d->links += link != NULL;
	atomic_store_explicit(&d->link, link, memory_order_release);
	pthread_mutex_unlock(&d->lock);
	memif_link_leave(before);
}

struct memif_link *memif_device_link(struct memif_device *d)
{
	struct memif_link *link;

	pthread_mutex_lock(&d->lock);
	link = atomic_load_explicit(&d->link, memory_order_relaxed);
	if (link)
		atomic_fetch_add(&link->users, 1);
	pthread_mutex_unlock(&d->lock);
	return link;
}

/* Sends what the conversation has to say. */
static bool talk_speak(struct memif_talk *t, int channel)
{
	for (uint32_t i = 0; i < t->out_count; i++) {
		if (packet_send(channel, &t->out[i], t->out_fds[i]))
			continue;
		snprintf(t->why, sizeof(t->why), "%s", strerror(errno));
		return false;
	}
	t->out_count = 0;
	return true;
}

/* Ends a conversation, and takes its link down. */
static void channel_close(struct memif_device *d, struct memif_talk *t, int *channel)
{
	pthread_mutex_lock(&d->lock);
	snprintf(d->why, sizeof(d->why), "%s", t->why);
	pthread_mutex_unlock(&d->lock);
	if (t->state == MEMIF_IS_CONNECTED)
		link_publish(d, NULL);
	memif_talk_end(t);
	close(*channel);
	*channel = -1;
}

static void channel_hear(struct memif_device *d, struct memif_talk *t, int *channel)
{
	struct memif_message m;
	int fd;
	const ssize_t size = packet_receive(*channel, &m, &fd);
	const enum memif_state before = t->state;

	if (size < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (size <= 0) {
		if (fd >= 0)
			close(fd);
		snprintf(t->why, sizeof(t->why), "the other end has closed the control channel");
		channel_close(d, t, channel);
		return;
	}
	if (!memif_talk_hear(t, &m, (size_t)size, fd)) {
		if (m.type != MEMIF_DISCONNECT) {
			memif_talk_part(t, &m);
			(void)packet_send(*channel, &m, -1);
		}
		channel_close(d, t, channel);
		return;
	}
	if (!talk_speak(t, *channel)) {
		channel_close(d, t, channel);
		return;
	}
	if (before != MEMIF_IS_CONNECTED && t->state == MEMIF_IS_CONNECTED) {
		link_publish(d, t->link);
		t->link = NULL;
	}
}

static int channel_begin(struct memif_device *d, struct memif_talk *t, int channel)
{
	if (channel < 0)
		return -1;
	memif_talk_begin(t, &d->plan);
	if (!talk_speak(t, channel))
		channel_close(d, t, &channel);
	return channel;
}

static int channel_connect(const struct memif_device *d)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const int channel = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (channel < 0)
		return -1;
	memcpy(at.sun_path, d->path, sizeof(at.sun_path));
	if (!connect(channel, (const struct sockaddr *)&at, sizeof(at)))
		return channel;
	close(channel);
	return -1;
}

/* One more client, while there is one. */
static void channel_refuse(int listener)
{
	const int other = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct memif_talk t = { .why = "there is a client already" };
	struct memif_message m;

	if (other < 0)
		return;
	memif_talk_part(&t, &m);
	(void)packet_send(other, &m, -1);
	close(other);
}

static void *device_main(void *argument)
{
	struct memif_device *d = argument;
	struct memif_talk t = { 0 };
	int channel = -1;

	for (;;) {
		struct pollfd fds[3] = { { .fd = d->wake, .events = POLLIN },
					 { .fd = d->listener, .events = POLLIN } };

		if (d->plan.client && channel < 0)
			channel = channel_begin(d, &t, channel_connect(d));
		fds[2] = (struct pollfd){ .fd = channel, .events = POLLIN };
		if (poll(fds, 3, d->plan.client && channel < 0 ? RETRY_MS : -1) < 0)
			continue;
		if (fds[0].revents)
			break;
		/* The end of the last client comes before the next one. */
		if (channel >= 0 && fds[2].revents)
			channel_hear(d, &t, &channel);
		else if (fds[1].revents && channel >= 0)
			channel_refuse(d->listener);
		else if (fds[1].revents)
			channel = channel_begin(d, &t,
						accept4(d->listener, NULL, NULL,
							SOCK_CLOEXEC | SOCK_NONBLOCK));
	}
	if (channel >= 0) {
		struct memif_message m;

		snprintf(t.why, sizeof(t.why), "closed");
		memif_talk_part(&t, &m);
		(void)packet_send(channel, &m, -1);
		channel_close(d, &t, &channel);
	}
	return NULL;
}

/* ---- opening and closing ------------------------------------------------------------- */

static struct memif_device **device_slot(const char *path, bool client)
{
	struct memif_device **empty = NULL;

	for (int i = 0; i < DEVICES_MAX; i++) {
		if (devices[i] && devices[i]->plan.client == client &&
		    !strcmp(devices[i]->path, path))
			return &devices[i];
		if (!devices[i] && !empty)
			empty = &devices[i];
	}
	return empty;
}

static int listener_open(struct port *port, struct memif_device *d)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const int error = socket_clear(d->path);

	if (error)
		return port_fail(port, error, "%s: %s", d->path, strerror(error));
	memcpy(at.sun_path, d->path, sizeof(at.sun_path));
	d->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (d->listener < 0 || bind(d->listener, (const struct sockaddr *)&at, sizeof(at)) ||
	    listen(d->listener, 8))
		return port_fail(port, errno, "cannot listen on %s: %s", d->path, strerror(errno));
	return 0;
}

static void device_free(struct memif_device *d)
{
	if (d->listener >= 0) {
		close(d->listener);
		unlink(d->path);
	}
	if (d->wake >= 0)
		close(d->wake);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

static int device_start(struct port *port, struct memif_device *d)
{
	int error;

	d->wake = eventfd(0, EFD_CLOEXEC);
	if (d->wake < 0)
		return port_fail(port, errno, "eventfd: %s", strerror(errno));
	error = d->plan.client ? 0 : listener_open(port, d);
	if (error)
		return error;
	error = pthread_create(&d->thread, NULL, device_main, d);
	return error ? port_fail(port, error, "no thread: %s", strerror(error)) : 0;
}

static int device_open(struct port *port, struct memif_device **slot, const char *path,
		       const struct memif_plan *plan)
{
	struct memif_device *d = lines_alloc(1, sizeof(*d));
	int error;

	if (!d)
		return port_fail(port, ENOMEM, "no memory for an interface");
	d->plan = *plan;
	d->wake = d->listener = -1;
	memcpy(d->path, path, strlen(path) + 1);
	pthread_mutex_init(&d->lock, NULL);
	error = device_start(port, d);
	if (error) {
		device_free(d);
		return error;
	}
	*slot = d;
	return 0;
}

static struct memif_plan port_plan(const struct port *port)
{
	struct memif_plan plan = {
		.client = !strcmp(port_option_text(port, "role"), "client"),
		.id = (uint32_t)port_option(port, "id"),
		.queues = (uint32_t)port_option(port, "queues"),
		.huge = !strcmp(port_option_text(port, "memory"), "hugepages"),
		.buffer = (uint32_t)port_option(port, "buffer"),
	};

	while (1u << plan.log2 < port_option(port, "ring"))
		plan.log2++;
	if (plan.buffer < port->config.frame_max)
		plan.buffer = port->config.frame_max;
	return plan;
}

int memif_device_take(struct port *port, struct memif_device **device)
{
	const char *path = port_option_text(port, "socket");
	const struct memif_plan plan = port_plan(port);
	struct memif_device **slot;
	int error = 0;

	if (!path[0] || strlen(path) >= sizeof((*device)->path))
		return port_fail(port, EINVAL, "the option socket is missing, or too long");
	slot = device_slot(path, plan.client);
	if (!slot)
		return port_fail(port, ENFILE, "more than %d interfaces", DEVICES_MAX);
	if (!*slot)
		error = device_open(port, slot, path, &plan);
	*device = *slot;
	return error;
}

void memif_device_leave(struct memif_device *d)
{
	const uint64_t one = 1;

	if (d->ports)
		return;
	*device_slot(d->path, d->plan.client) = NULL;
	if (write(d->wake, &one, sizeof(one)) == sizeof(one))
		pthread_join(d->thread, NULL);
	device_free(d);
}
