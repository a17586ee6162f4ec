"""Ports of a VALE switch, and interfaces in netmap mode, through netmap's device. The engine copies
frames to and from the rings that it shares with the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from switchmark.engines.base import Engine
from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.model.plan import Node
from switchmark.model.topology import Endpoint, PortKind, Wiring
from switchmark.model.version import Version

_DEVICE = "/dev/netmap"


@dataclass(frozen=True, slots=True)
class Netmap(Engine):
    """The build includes this engine if netmap's headers are present; the user loads netmap's
    module."""

    def port_options(
        self, wiring: Wiring, node: Node, endpoints: Sequence[Endpoint], index: int, driver: str
    ) -> Mapping[str, Any]:
        """Return the name of the switch port; empty for an interface, which has a name already."""
        path = endpoints[index].path
        return {"port": path} if path else {}

    def probe(self, host: Host) -> Version:
        try:
            version = Engine.probe(self, host)
        except Unavailable as missing:
            if "no engine" not in missing.message:
                raise
            raise Unavailable(
                "this build of switchmark-traffic has no engine netmap: net/netmap_user.h "
                "was missing when it was built",
                hint="SWITCHMARK_NETMAP=/path/to/netmap make setup, with netmap's source",
            ) from missing
        if not host.exists(_DEVICE):
            raise Unavailable(
                f"there is no {_DEVICE}: netmap's module is not loaded",
                hint="insmod netmap.ko, built from netmap's source for this kernel",
            )
        return version


ENGINE = Netmap(
    name="netmap",
    summary="netmap: ports of a VALE switch, interfaces in netmap mode",
    # No tap: the guest kernel of a virtual machine lacks the netmap module.
    port_kinds=frozenset({PortKind.NETMAP, PortKind.VETH, PortKind.NIC_KERNEL}),
    privilege="root",
    frame_max=2048,
    devices=(_DEVICE,),
)
