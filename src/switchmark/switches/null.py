"""A switch that does not exist: all frames vanish. Tests use it, and it is the shortest driver."""

from __future__ import annotations

from switchmark.hosts.base import Host
from switchmark.model.plan import Plan
from switchmark.model.topology import PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches.base import NO_COUNTERS, Switch


class Null(Switch):
    """The ports of this switch lead nowhere; they are for the engine of the same name."""

    name = "null"
    semantics = (Semantics.PATCH,)
    port_kinds = (PortKind.NULL,)
    counters = NO_COUNTERS

    def probe(self, host: Host) -> Version:
        return Version("none")

    def start(self, wiring: Wiring) -> Plan:
        return ()


SWITCH = Null()
