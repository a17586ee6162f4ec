"""Engines that pass a burst to the kernel as one packet, which the sending device splits into
frames (UDP segmentation offload, GSO)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from switchmark.engines.base import KERNEL_PORTS, Engine
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.model.topology import PortKind
from switchmark.model.version import Version

_RELEASE = "/proc/sys/kernel/osrelease"


@dataclass(frozen=True, slots=True)
class Gso(Engine):
    """The engine needs a kernel that splits its packets."""

    port_kinds: frozenset[PortKind] = KERNEL_PORTS - {PortKind.MACVLAN, PortKind.IPVLAN}
    """The children of macvlan and ipvlan pass packets on whole: their drivers keep segmentation
    on."""
    plain: str = ""
    """The name of the engine that passes on each frame as it is."""
    since: tuple[int, int] = (0, 0)
    """The first release of Linux that splits them at a port whose offloads are off."""

    def probe(self, host: Host) -> Version:
        version = Engine.probe(self, host)
        release = host.read(_RELEASE).decode(errors="replace").strip()
        found = re.match(r"(\d+)\.(\d+)", release)
        if found and (int(found[1]), int(found[2])) < self.since:
            needed = ".".join(map(str, self.since))
            raise Unavailable(
                f"Linux {release} of {host.name} does not split the packets of engine "
                f"{self.name}: it needs Linux {needed}",
                hint=f"--engine {self.plain}",
            )
        return version
