"""No switch at all: whatever is sent is gone. Tests use it, and it is the shortest driver."""

from __future__ import annotations

from collections.abc import Mapping

from switchmark.machine.host import Host
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import (
    Addressing,
    Endpoint,
    PortKind,
    Semantics,
    Wiring,
    mac_address,
)
from switchmark.model.version import Version
from switchmark.switches.base import Counters
from switchmark.switches.links import bridged_addressing


class Null:
    """Ports that lead nowhere, for the engine of the same name."""

    name = "null"
    semantics = (Semantics.PATCH,)
    port_kinds = (PortKind.NULL,)
    environments = frozenset({"host", "netns"})
    resources: frozenset[str] = frozenset()

    def probe(self, host: Host) -> Version:
        return Version("none", verified="verified")

    def own_core(self, mode: str | None) -> bool:
        return False

    def accepts(self, w: Wiring) -> str | None:
        return None

    def endpoints(self, w: Wiring) -> Mapping[str, Endpoint]:
        return {port.id: Endpoint(PortKind.NULL, mac_address(port.index)) for port in w.ports}

    def addressing(self, w: Wiring) -> Mapping[str, Addressing]:
        return bridged_addressing(w)

    def start(self, w: Wiring) -> Plan:
        return ()

    def join(self, w: Wiring) -> Plan:
        return ()

    def settled(self, w: Wiring) -> Plan:
        return ()

    def counters(self, w: Wiring) -> tuple[Run, ...]:
        return ()

    def parse_counters(self, w: Wiring, outputs: tuple[bytes, ...]) -> Counters:
        return Counters()


SWITCH = Null()
