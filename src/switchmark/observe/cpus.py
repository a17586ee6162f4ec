"""The CPUs of a host that a run may use, with their NUMA nodes and hardware threads."""

from __future__ import annotations

from collections.abc import Collection

from switchmark.hosts.base import Host
from switchmark.model.cpus import Cpu, listed_cpus

_SYSTEM = "/sys/devices/system"
_ONLINE, _ISOLATED = f"{_SYSTEM}/cpu/online", f"{_SYSTEM}/cpu/isolated"
_NODES = f"{_SYSTEM}/node/node[0-9]*/cpulist"
_SIBLINGS = f"{_SYSTEM}/cpu/cpu[0-9]*/topology/thread_siblings_list"


def read_cpus(host: Host, allowed: Collection[int] | None = None) -> tuple[Cpu, ...]:
    """Return the CPUs of a host that are online and allowed, in order. `allowed` defaults to the
    CPUs that runs may use (`Host.allowed_cpus`)."""
    files = host.read_all(_ONLINE, _ISOLATED, _NODES, _SIBLINGS)
    online, isolated = (listed_cpus(files.get(path, b"")) for path in (_ONLINE, _ISOLATED))
    usable = host.allowed_cpus() if allowed is None else frozenset(allowed)
    nodes = {
        cpu: int(path.split("/")[-2].removeprefix("node"))
        for path in files
        if path.endswith("/cpulist")
        for cpu in listed_cpus(files[path])
    }
    return tuple(
        Cpu(
            id=cpu,
            node=nodes.get(cpu, 0),
            siblings=tuple(
                sorted(listed_cpus(files.get(_SIBLINGS.replace("[0-9]*", str(cpu)), b"")) - {cpu})
            ),
            isolated=cpu in isolated,
        )
        for cpu in sorted((online & usable) if online else usable)
    )
