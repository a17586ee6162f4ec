"""The user's real NICs that a run borrows: it refuses NICs in use, and restores their state."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.base import Host
from switchmark.model.addresses import pci_address
from switchmark.model.cpus import cpu_mask, format_cpus
from switchmark.model.plan import Plan, Run, Step, Write
from switchmark.model.topology import Port, Semantics

_FEATURES = {
    "tx-checksumming": "tx",
    "scatter-gather": "sg",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "tx-udp-segmentation": "tx-udp-segmentation",
}
"""The features that a run turns off: their names in the output of `ethtool -k` and for `ethtool
-K`."""


def numa_nodes(host: Host, ports: Iterable[Port]) -> Mapping[str, int]:
    """Return the NUMA nodes of the real NICs at ports and at the far ends of their cables, by the
    user's names. NICs whose node the kernel does not know (-1) are left out."""
    names = {name for port in ports for name in (port.nic, port.nic_peer) if name}
    paths = {f"{_device(name)}/numa_node": name for name in sorted(names)}
    contents = host.read_all(*paths) if paths else {}
    return {paths[path]: int(node) for path, node in contents.items() if int(node) >= 0}


def _device(name: str) -> str:
    """Return the folder of a NIC's device, for a PCI address or an interface."""
    return f"/sys/bus/pci/devices/{name}" if pci_address(name) else f"/sys/class/net/{name}/device"


def lend(host: Host, name: str, mac: str, semantics: Semantics | None = None) -> Plan:
    """Return the steps that set the NIC's MAC to `mac`; their undos restore MAC, features and
    state. A NIC for a switch with these semantics also enters promiscuous mode, unless the switch
    routes.

    Raise UsageError if there is no such NIC or it is in use (`unused_link`).
    """
    link = unused_link(host, name)
    steps: list[Step] = []
    if "UP" in link.get("flags", []):
        up = ("ip", "link", "set", name, "up")
        steps.append(Run(f"{name} is up, and will be again", ("true",), undo=up))
    features = _features(host, name)
    if features:
        back = ("ethtool", "-K", name, *features)
        steps.append(Run(f"the features of {name} will be restored", ("true",), undo=back))
    steps.append(
        Run(
            f"the MAC of {name} for this run",
            ("ip", "link", "set", name, "address", mac),
            undo=("ip", "link", "set", name, "address", link["address"]),
        )
    )
    routes = semantics in (None, Semantics.ROUTED)
    if not routes and "PROMISC" not in link.get("flags", []):
        on, off = (("ip", "link", "set", name, "promisc", state) for state in ("on", "off"))
        steps.append(Run(f"{name} takes frames for all MACs", on, undo=off))
    return tuple(steps)


def spread(host: Host, name: str, cpus: Sequence[int]) -> Plan:
    """Return the steps that spread a NIC's received frames over CPUs by flow: each receive queue
    (RSS) interrupts one of the CPUs in turn. If the NIC has fewer queues than there are CPUs, the
    kernel spreads the flows behind the queues (RPS).

    Raise Unavailable if the host can do neither.
    """
    queues = _listed(host, f"/sys/class/net/{name}/queues", "rx-")
    interrupts = _listed(host, f"{_device(name)}/msi_irqs", "")
    if len(queues) >= len(cpus) and len(interrupts) >= len(queues):
        return tuple(
            Write(
                f"interrupt {number} of {name} comes to CPU {cpus[turn % len(cpus)]}",
                f"/proc/irq/{number}/smp_affinity_list",
                str(cpus[turn % len(cpus)]).encode(),
            )
            for turn, number in enumerate(interrupts)
        )
    paths = [f"/sys/class/net/{name}/queues/{queue}/rps_cpus" for queue in queues]
    if not paths or not all(host.exists(path) for path in paths):
        raise Unavailable(
            f"what comes in at the NIC {name} cannot be spread over {len(cpus)} CPUs: it has "
            f"{len(queues)} receive queues, {len(interrupts)} interrupts, and this kernel no RPS",
            hint=f"--switch-cores {max(1, min(len(queues), len(interrupts)))}",
        )
    return tuple(
        Write(
            f"flows that come in at {name} are worked on by CPU {format_cpus(cpus)}",
            path,
            cpu_mask(cpus).encode(),
        )
        for path in paths
    )


def _listed(host: Host, folder: str, beginning: str) -> list[str]:
    """Return the names in a folder of /sys that begin with `beginning`, sorted by the number at
    their end; empty if the folder does not exist."""
    names = host.run(("ls", folder)).stdout.decode(errors="replace").split()
    matching = [name for name in names if name.startswith(beginning)]
    return sorted(matching, key=lambda name: int(re.sub(r"\D", "", name) or 0))


def unused_link(host: Host, name: str) -> dict[str, Any]:
    """Return the output of `ip` for an unused NIC. Raise UsageError if there is no NIC of that
    name, if it or a device on top of it carries a default route, or if it has an address, belongs
    to a bridge or bond, or has a device on top of it, such as a VLAN."""
    link = _link(host, name)
    upper = _upper(host, name)
    routes = _json(host, ("ip", "-j", "route", "show", "default"))
    routes += _json(host, ("ip", "-j", "-6", "route", "show", "default"))
    ways = {hop.get("dev") for route in routes for hop in (route, *route.get("nexthops", []))}
    if device := next((device_name for device_name in (name, *upper) if device_name in ways), None):
        by = "" if device == name else f" by {device}"
        raise UsageError(
            f"the NIC {name} carries the default route{by}: a run would cut this host off"
        )
    addresses = [a["local"] for a in link.get("addr_info", []) if a.get("scope") == "global"]
    if addresses:
        raise UsageError(f"the NIC {name} is in use: it has the address {', '.join(addresses)}")
    if "master" in link:
        raise UsageError(f"the NIC {name} is in use: it belongs to {link['master']}")
    if upper:
        raise UsageError(
            f"the NIC {name} is in use: {', '.join(upper)} is on top of it",
            hint=f"ip -d link show dev {upper[0]}",
        )
    return link


def _upper(host: Host, name: str) -> list[str]:
    """Return all devices on top of a NIC, directly or indirectly: VLANs, bonds, tunnels."""
    devices: list[str] = []
    left = [name]
    while left:
        uppers = _listed(host, f"/sys/class/net/{left.pop()}", "upper_")
        new = [
            upper_name
            for upper in uppers
            if (upper_name := upper.removeprefix("upper_")) not in devices
        ]
        devices += new
        left += new
    return devices


def _link(host: Host, name: str) -> dict[str, Any]:
    completed = host.run(("ip", "-j", "address", "show", "dev", name))
    if completed.status:
        raise UsageError(f"there is no NIC named {name}", hint="ip link")
    link: dict[str, Any] = json.loads(completed.stdout)[0]
    return link


def _json(host: Host, argv: tuple[str, ...]) -> list[dict[str, Any]]:
    completed = host.run(argv)
    if completed.status:
        raise Unavailable(f"{' '.join(argv)} failed: {completed.stderr.decode(errors='replace')}")
    objects: list[dict[str, Any]] = json.loads(completed.stdout or b"[]")
    return objects


def _features(host: Host, name: str) -> list[str]:
    """Return the features that can be changed, with their current values, as arguments of `ethtool
    -K`."""
    completed = host.run(("ethtool", "-k", name))
    options: list[str] = []
    for feature, value in re.findall(
        r"^\s*([a-z0-9-]+): (on|off)$", completed.stdout.decode(), re.M
    ):
        if feature in _FEATURES:
            options += [_FEATURES[feature], value]
    return options
