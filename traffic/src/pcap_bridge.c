/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-alone bridge between two interfaces on libpcap: pcap_dispatch at one, pcap_inject at the
 * other. The bridge writes its counters to a file before it sleeps.
 */
#include <pcap/pcap.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SNAP_BYTES 65535
#define BUFFER_BYTES (8 << 20)
#define BURST 64
#define TRIES 8

struct side {
	const char *ifname;
	pcap_t *pcap;
	struct side *other;
	uint64_t in, out, failed; /* failed: not accepted by this side's interface */
};

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
	(void)number;
	ended = 1;
}

static pcap_t *side_open(const char *ifname)
{
	char why[PCAP_ERRBUF_SIZE] = "";
	pcap_t *pcap = pcap_create(ifname, why);

	if (!pcap) {
		fprintf(stderr, "%s: %s\n", ifname, why);
		return NULL;
	}
	/* Capture incoming frames only, so that injected frames do not come back. */
	if (pcap_set_snaplen(pcap, SNAP_BYTES) || pcap_set_promisc(pcap, 1) ||
	    pcap_set_immediate_mode(pcap, 1) || pcap_set_buffer_size(pcap, BUFFER_BYTES) ||
	    pcap_activate(pcap) < 0 || pcap_setdirection(pcap, PCAP_D_IN) ||
	    pcap_setnonblock(pcap, 1, why)) {
		fprintf(stderr, "%s: %s%s\n", ifname, pcap_geterr(pcap), why);
		pcap_close(pcap);
		return NULL;
	}
	return pcap;
}

static void forward(u_char *user, const struct pcap_pkthdr *header, const u_char *data)
{
	struct side *from = (struct side *)user, *to = from->other;

	from->in++;
	/* A full queue may have room in a moment. */
	for (int i = 0; i < TRIES; i++) {
		if (pcap_inject(to->pcap, data, header->caplen) == (int)header->caplen) {
			to->out++;
			return;
		}
		if (errno != ENOBUFS && errno != EAGAIN)
			break;
	}
	to->failed++;
}

static uint32_t side_missed(const struct side *s)
{
	struct pcap_stat stats = { 0 };

	return pcap_stats(s->pcap, &stats) ? 0 : stats.ps_drop;
}

static bool counts_write(int file, const struct side sides[2])
{
	char text[512];
	int length = snprintf(text, sizeof(text),
			      "{\"in\":[%" PRIu64 ",%" PRIu64 "],\"out\":[%" PRIu64 ",%" PRIu64
			      "],\"failed\":[%" PRIu64 ",%" PRIu64 "],\"missed\":[%" PRIu32
			      ",%" PRIu32 "]}\n",
			      sides[0].in, sides[1].in, sides[0].out, sides[1].out, sides[0].failed,
			      sides[1].failed, side_missed(&sides[0]), side_missed(&sides[1]));

	/* Counters only grow, so the new text always covers the old one. */
	return pwrite(file, text, (size_t)length, 0) == length;
}

static int bridge(struct side sides[2], int file)
{
	struct pollfd waiting[2];

	for (int i = 0; i < 2; i++)
		waiting[i] = (struct pollfd){ .fd = pcap_get_selectable_fd(sides[i].pcap),
					      .events = POLLIN };
	while (!ended) {
		int moved = 0;

		for (int i = 0; i < 2; i++) {
			int n = pcap_dispatch(sides[i].pcap, BURST, forward, (u_char *)&sides[i]);

			if (n < 0) {
				fprintf(stderr, "%s: %s\n", sides[i].ifname,
					pcap_geterr(sides[i].pcap));
				return 1;
			}
			moved += n;
		}
		if (moved)
			continue;
		if (!counts_write(file, sides)) {
			perror("the counts cannot be written");
			return 1;
		}
		poll(waiting, 2, 100);
	}
	return !counts_write(file, sides);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct side sides[2] = { 0 };
	int file;

	if (argc == 2 && !strcmp(argv[1], "version")) {
		printf("%s (%s)\n", SWITCHMARK_VERSION, pcap_lib_version());
		return 0;
	}
	if (argc != 4) {
		fprintf(stderr, "usage: %s IFNAME IFNAME COUNTS-FILE\n", argv[0]);
		return 2;
	}
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	for (int i = 0; i < 2; i++) {
		sides[i].ifname = argv[1 + i];
		sides[i].other = &sides[!i];
		sides[i].pcap = side_open(argv[1 + i]);
		if (!sides[i].pcap)
			return 1;
	}
	file = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (file < 0) {
		perror(argv[3]);
		return 1;
	}
	return bridge(sides, file);
}
