/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redirect: loads one of the programs of redirect.bpf.c and attaches it through netlink. A BPF link
 * would end with this process unless it were pinned. A netlink attachment lasts as long as the
 * interface; `ip link set DEV xdpdrv off` or `tc qdisc del dev DEV clsact` removes it.
 */
#include "redirect.h"
#include "redirect_object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

__attribute__((format(printf, 1, 2))) static int fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("switchmark-tool: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	return 1;
}

static int attach_xdp(struct bpf_object *object, int prog, uint32_t near, uint32_t far)
{
	/* Driver mode only: generic XDP would be a different switch. */
	const uint32_t flags = XDP_FLAGS_DRV_MODE | XDP_FLAGS_UPDATE_IF_NOEXIST;
	const uint32_t only = 0;
	int error = bpf_map_update_elem(bpf_object__find_map_fd_by_name(object, "far_device"),
					&only, &far, BPF_ANY);

	return error ? error : bpf_xdp_attach((int)near, prog, flags, NULL);
}

static int attach_tc(int prog, uint32_t near)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)near, .attach_point = BPF_TC_INGRESS);
	LIBBPF_OPTS(bpf_tc_opts, options, .handle = 1, .priority = 1, .prog_fd = prog);

	return bpf_tc_attach(&hook, &options);
}

/* Loads only the program of one hook: a kernel may support just one of the two. */
static int load(struct bpf_object *object, const char *name, uint32_t far)
{
	struct bpf_map *rodata = bpf_object__find_map_by_name(object, ".rodata");
	struct bpf_program *program;

	bpf_object__for_each_program(program, object)
		bpf_program__set_autoload(program, !strcmp(bpf_program__name(program), name));
	if (!rodata || bpf_map__set_initial_value(rodata, &far, sizeof(far)))
		return -EINVAL;
	return bpf_object__load(object);
}

static int redirect(struct bpf_object *object, bool xdp, const char *near, const char *far)
{
	const char *name = xdp ? "redirect_xdp" : "redirect_tc";
	const uint32_t from = if_nametoindex(near), to = if_nametoindex(far);
	int error, prog;

	if (!from || !to)
		return fail("there is no interface %s", from ? far : near);
	error = load(object, name, to);
	if (error)
		return fail("cannot load the BPF program: %s%s", strerror(-error),
			    error == -EPERM ? " (needs root in the first user namespace)" : "");
	prog = bpf_program__fd(bpf_object__find_program_by_name(object, name));
	error = xdp ? attach_xdp(object, prog, from, to) : attach_tc(prog, from);
	if (error)
		return fail("cannot attach a BPF program to %s %s: %s",
			    xdp ? "the driver of" : "the qdisc clsact of", near, strerror(-error));
	return 0;
}

int redirect_main(const char *hook, const char *near, const char *far)
{
	LIBBPF_OPTS(bpf_object_open_opts, options, .object_name = "switchmark");
	const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	const bool xdp = !strcmp(hook, "xdp");
	struct bpf_object *object;
	int status;

	if (!xdp && strcmp(hook, "tc")) {
		fail("there is no hook '%s': xdp or tc", hook);
		return 2;
	}
	/* Before Linux 5.11 BPF programs count as locked memory. */
	(void)setrlimit(RLIMIT_MEMLOCK, &unlimited);
	libbpf_set_print(NULL);
	object = bpf_object__open_mem(redirect_object, sizeof(redirect_object), &options);
	if (!object)
		return fail("the BPF object: %s", strerror(errno));
	status = redirect(object, xdp, near, far);
	bpf_object__close(object);
	return status;
}
