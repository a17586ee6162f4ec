"""This module reserves hugepages for a run, where the kernel counts them.

Pages are of the host's default size. How several runs share the kernel's count is the leases' to
know. See Documentation/admin-guide/mm/hugetlbpage.rst of the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from switchmark.errors import SetupFailed, Unavailable
from switchmark.hosts.base import Host
from switchmark.runs.leases import Leases

ON_NODE = "/sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages"
_MEMORY = "/proc/meminfo"
_ON_MACHINE = "/sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages"
_RESERVED = "/sys/kernel/mm/hugepages/hugepages-{kib}kB/resv_hugepages"


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool is the hugepages of one NUMA node: the KiB of a page, and the file that sets their
    count."""

    node: int
    page_kib: int
    total: str

    @property
    def free(self) -> str:
        """Return the file with the count of those that nobody uses yet."""
        return f"{self.total.removesuffix('nr_hugepages')}free_hugepages"

    def unused(self, host: Host) -> int:
        """Return the number of pages that a program could take: those that are free, and not
        reserved by a program that maps them and has not touched them. The kernel counts what is
        reserved on the whole host only, so that on several nodes it may be fewer than there are."""
        reserved = _RESERVED.format(kib=self.page_kib)
        return max(0, int(host.read(self.free)) - int(host.read(reserved)))

    def pages(self, megabytes: int) -> int:
        """Return the number of pages that hold so many MB (of 1024 KiB)."""
        return -(-megabytes * 1024 // self.page_kib)


def find_pool(host: Host, node: int) -> Pool:
    """Return the pool of a NUMA node, or the host's where the kernel knows no such node;
    Unavailable where it has no hugepages."""
    memory = host.read(_MEMORY) if host.exists(_MEMORY) else b""
    size = re.search(rb"^Hugepagesize:\s*(\d+) kB", memory, re.MULTILINE)
    kib = int(size[1]) if size else 0
    for pattern in (ON_NODE, _ON_MACHINE):
        path = pattern.format(node=node, kib=kib)
        if host.exists(path):
            return Pool(node, kib, path)
    raise Unavailable(
        f"the kernel of {host.name} has no hugepages\n"
        f"  {f'{path} is not there' if size else f'{_MEMORY} names no Hugepagesize'}",
        hint="use --memory no-huge",
    )


def can_reserve(host: Host, node: int) -> bool:
    """Say whether a Reserve can work at all: the count may be set, or some pages are free. Change
    nothing."""
    try:
        pool = find_pool(host, node)
        return host.run(("test", "-w", pool.total)).status == 0 or pool.unused(host) > 0
    except (Unavailable, OSError):
        return False


def reserve(
    pool: Pool,
    megabytes: int,
    *,
    run: str,
    host: Host,
    leases: Leases,
    intend: Callable[[int], object],
) -> None:
    """Keep so many MB free for `run` until its lease of `pool.total` is given back; `intend` gets
    the number of pages that are about to be added. Unavailable where the count may not be set,
    SetupFailed where the memory is not there."""
    wanted = pool.pages(megabytes)
    got = leases.add(run, host, pool.total, wanted, unused=lambda: pool.unused(host), intend=intend)
    if got < wanted:
        raise SetupFailed(
            f"only {got * pool.page_kib // 1024} of {megabytes} MB of hugepages"
            f" can be had on NUMA node {pool.node} of {host.name}\n"
            f"  {pool.total}: {got} of {wanted} pages of {pool.page_kib} KiB",
            hint="switchmark clean; sysctl -w vm.compact_memory=1; or use --memory no-huge",
        )
