/* SPDX-License-Identifier: Apache-2.0 */
/* The first process of a virtual machine. */
#include "machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CMDLINE_MAX 4096
#define PORT_WAIT_MS 5000

static void warn(const char *what)
{
	fprintf(stderr, "switchmark init: %s: %s\n", what, strerror(errno));
}

static void line_write(const char *path, const char *line)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		warn(path);
	if (fd >= 0)
		close(fd);
}

/*
 * Returns true in the first process of a whole machine. The first process of a container or of
 * `unshare --pid` also has pid 1 and may share the mounts and settings of its host. The initial pid
 * namespace has the same inode in every kernel (PROC_PID_INIT_INO of linux/proc_ns.h); a kernel
 * without that file has no other pid namespaces. Mounts /proc for this check if necessary: the
 * kernel starts a machine's first process without it.
 */
static bool machine_is_ours(void)
{
	const ino_t first = 0xeffffffc;
	struct stat found;
	bool mounted = false, ours;

	if (getpid() != 1)
		return false;
	if (access("/proc/self/stat", F_OK)) {
		mkdir("/proc", 0755);
		mounted = !mount("proc", "/proc", "proc", 0, NULL);
		if (!mounted)
			return false;
	}
	ours = stat("/proc/self/ns/pid", &found) ? errno == ENOENT : found.st_ino == first;
	if (mounted && !ours)
		umount("/proc");
	return ours;
}

static void mount_all(void)
{
	static const struct {
		const char *type, *at;
	} mounts[] = { { "sysfs", "/sys" }, { "devtmpfs", "/dev" }, { "tmpfs", "/dev/shm" },
		       { "tmpfs", "/run" }, { "tmpfs", "/tmp" },    { "bpf", "/sys/fs/bpf" } };

	for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++) {
		mkdir(mounts[i].at, 0755);
		if (mount(mounts[i].type, mounts[i].at, mounts[i].type, 0, NULL))
			warn(mounts[i].at);
	}
}

/* Loads the modules that the image lists, in order. */
static void modules_load(void)
{
	FILE *list = fopen("/modules/order", "re");
	char path[512];

	while (list && fgets(path, sizeof(path), list)) {
		int fd;

		path[strcspn(path, "\n")] = 0;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
			warn(path);
		if (fd >= 0)
			close(fd);
	}
	if (list)
		fclose(list);
}

/* Reads the first line of a file of sysfs or proc; empty if there is none. */
static void line_read(char *line, size_t size, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, line, size - 1);

	line[got > 0 ? got : 0] = 0;
	line[strcspn(line, "\n")] = 0;
	if (fd >= 0)
		close(fd);
}

static void nic_rename(const char *mac, const char *name)
{
	DIR *nics = opendir("/sys/class/net");
	struct dirent *nic;

	while (nics && (nic = readdir(nics))) {
		char path[512], found[64];
		struct ifreq request = { 0 };
		int fd;

		snprintf(path, sizeof(path), "/sys/class/net/%s/address", nic->d_name);
		line_read(found, sizeof(found), path);
		if (strcmp(found, mac))
			continue;
		snprintf(request.ifr_name, IFNAMSIZ, "%.15s", nic->d_name);
		snprintf(request.ifr_newname, IFNAMSIZ, "%.15s", name);
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (ioctl(fd, SIOCSIFNAME, &request))
			warn(name);
		close(fd);
		break;
	}
	if (nics)
		closedir(nics);
}

/* `switchmark.nic=MAC,NAME` on the kernel's command line names the NIC with that MAC. */
static void nics_rename(void)
{
	static const char key[] = "switchmark.nic=";
	char line[CMDLINE_MAX], *rest = line, *word;

	line_read(line, sizeof(line), "/proc/cmdline");
	while ((word = strsep(&rest, " "))) {
		char *comma = strchr(word, ',');

		if (strncmp(word, key, sizeof(key) - 1) || !comma)
			continue;
		*comma = 0;
		nic_rename(word + sizeof(key) - 1, comma + 1);
	}
}

/* Opens the virtio port named `switchmark`; the host may not have opened its end yet. Returns -1 if
 * the port does not exist. */
static int channel_open(void)
{
	for (int number = 0; number < 32; number++) {
		char path[128], name[64];

		snprintf(path, sizeof(path), "/sys/class/virtio-ports/vport%dp1/name", number);
		line_read(name, sizeof(name), path);
		if (strcmp(name, "switchmark"))
			continue;
		snprintf(path, sizeof(path), "/dev/vport%dp1", number);
		return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	}
	return -1;
}

static int port_wait(void)
{
	for (int waited = 0; waited < PORT_WAIT_MS; waited += 5) {
		int fd = channel_open();

		if (fd >= 0) {
			struct pollfd host = { .fd = fd, .events = POLLOUT };

			while (poll(&host, 1, 5) < 0 || !(host.revents & POLLOUT))
				usleep(1000);
			return fd;
		}
		usleep(5000);
	}
	return -1;
}

int guest_init(void)
{
	int fd;

	if (!machine_is_ours()) {
		fputs("switchmark-agent init is the first process of a virtual machine\n", stderr);
		return 2;
	}
	mount_all();
	setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("LC_ALL", "C", 1);
	setenv("HOME", "/", 1);
	modules_load();
	/* The kernel's default, fq_codel, silently drops frames that have waited for 5 ms. */
	line_write("/proc/sys/net/core/default_qdisc", "pfifo_fast");
	nics_rename();
	fd = port_wait();
	if (fd < 0)
		fputs("switchmark init: no virtio port is named 'switchmark'\n", stderr);
	else
		agent_serve(fd, fd);
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
