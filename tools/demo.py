"""Runs the two campaigns of `make demo`, and explains if this host cannot run the second one.

campaigns/bypass.yaml needs DPDK, its switches and hugepages. If all of them are available, it must
succeed. Otherwise, the first campaign alone is the demonstration.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from switchmark.cli.listing import Thing, listed
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.local import LocalHost
from switchmark.runs.hugepages import can_reserve, find_pool

CAMPAIGNS = Path(__file__).resolve().parents[1] / "campaigns"
NEEDED_MB = 1000
"""The hugepages of the largest set-up of the second campaign: ovs-dpdk with both ends, 904 MB."""


def missing(campaign: Path, host: Host) -> Iterator[str]:
    """Yield the reasons why the host cannot run a campaign that bypasses the kernel, with hints."""
    axes = yaml.safe_load(campaign.read_text())
    for thing, axis in ((Thing.ENGINES, "engine"), (Thing.SWITCHES, "switch")):
        names = [axes[axis]] if isinstance(axes[axis], str) else axes[axis]
        for entry in listed(thing):
            if entry["name"] in names and not entry["usable"]:
                hint = f"\n  hint: {entry['hint']}" if entry["hint"] else ""
                yield f"{axis} {entry['name']}: {entry['why_not']}{hint}"
    yield from missing_memory(host)


def missing_memory(host: Host) -> Iterator[str]:
    """Yield the reason if hugepages are not available. Change nothing."""
    try:
        pool = find_pool(host, 0)
    except Unavailable as none:
        yield none.message
        return
    reserved = pool.unused(host) * pool.page_kib // 1024
    may_grow = host.run(("test", "-w", pool.total)).status == 0
    free = reserved + (free_megabytes(host) if may_grow else 0)
    if not can_reserve(host, 0):
        yield f"hugepages: none are free, and {pool.total} is not writable\n  hint: use sudo"
    elif free < NEEDED_MB:
        yield f"hugepages: {NEEDED_MB} MB are needed, {free} MB of memory are free"


def free_megabytes(host: Host) -> int:
    """Return the memory in MiB that may become hugepages, by the estimate in /proc/meminfo."""
    for line in host.read("/proc/meminfo").decode().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) // 1024
    return 0


def run(campaign: Path) -> int:
    """Run a campaign as a user does; return its exit status."""
    command = Path(sys.executable).with_name("switchmark")
    return subprocess.run((str(command), "run", str(campaign)), check=False).returncode


def main() -> int:
    """Return the exit status of `make demo`."""
    if status := run(CAMPAIGNS / "demo.yaml"):
        return status
    bypass = CAMPAIGNS / "bypass.yaml"
    if reasons := list(missing(bypass, LocalHost())):
        print("\ndemo: this host cannot measure user-space switches (campaigns/bypass.yaml):")
        print("\n".join(f"  {line}" for reason in reasons for line in reason.splitlines()))
        return 0
    return run(bypass)


if __name__ == "__main__":
    sys.exit(main())
