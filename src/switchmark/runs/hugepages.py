"""Hugepages that a run reserves.

Pages have the host's default size. The leases share the kernel's count between runs. See
Documentation/admin-guide/mm/hugetlbpage.rst of the kernel.
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
    """The hugepages of one NUMA node."""

    node: int
    """The NUMA node."""
    page_kib: int
    """The size of a page, in KiB."""
    total: str
    """The file with the number of pages."""

    @property
    def free(self) -> str:
        """Return the file with the count of free pages."""
        return f"{self.total.removesuffix('nr_hugepages')}free_hugepages"

    def unused(self, host: Host) -> int:
        """Return the number of pages that a program could take: pages that are free, and not
        reserved by a program that has mapped them but not touched them yet. The kernel counts
        reservations only for the whole host, so on several nodes the result may be too low."""
        reserved = _RESERVED.format(kib=self.page_kib)
        return max(0, int(host.read(self.free)) - int(host.read(reserved)))

    def pages(self, megabytes: int) -> int:
        """Return the number of pages for `megabytes` of 1024 KiB."""
        return -(-megabytes * 1024 // self.page_kib)


def find_pool(host: Host, node: int) -> Pool:
    """Return the pool of a NUMA node, or the host's pool if the kernel knows no such node. Raise
    Unavailable if the kernel has no hugepages."""
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
    """Return whether a Reserve can work: the count is writable, or some pages are free. This
    changes nothing."""
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
    """Reserve memory for `run` until it releases its lease of `pool.total`. `intend` receives the
    number of pages before they are added. Raise Unavailable if the count is not writable, and
    SetupFailed if the memory is not there."""
    pages = pool.pages(megabytes)
    reserved = leases.add(
        run, host, pool.total, pages, unused=lambda: pool.unused(host), intend=intend
    )
    if reserved < pages:
        raise SetupFailed(
            f"only {reserved * pool.page_kib // 1024} of {megabytes} MB of hugepages"
            f" can be had on NUMA node {pool.node} of {host.name}\n"
            f"  {pool.total}: {reserved} of {pages} pages of {pool.page_kib} KiB",
            hint="switchmark clean; sysctl -w vm.compact_memory=1; or use --memory no-huge",
        )
