"""Any switch that can take existing ports may run inside a node as a function between two ports.

The module is independent of any single switch: drivers declare the ports that they can take
(`function_kinds`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from switchmark.engines.base import KERNEL_PORTS
from switchmark.functions.base import Function, Hosted
from switchmark.hosts.base import Host
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Flow, Port, Semantics, Tuning, Wiring
from switchmark.model.version import Version
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Counters, Counting, Switch, with_program
from switchmark.switches.versions import probe_asked

_ONLY_CPU = (0,)
"""The only CPU of a virtual machine; the machine is pinned as a whole."""


class SwitchFunction(Function):
    """The switch forwards by its default semantics: between two ports every switch is a wire, which
    leaves frames unchanged. On request, a capable switch writes both MACs."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self.name = switch.name
        self.summary = f"the switch {switch.name} between two ports, inside the node"
        self.polls = switch.dedicated_core(None)
        self.port_kinds = switch.function_kinds
        self.rewrites_if_asked = switch.writes_next_macs
        self.devices = switch.devices
        self.counters = Counting(self._counter_commands, self._parse_counters)
        # Switches on interfaces create interfaces; switches on sockets use DPDK, as the engine dpdk
        # does.
        of_interfaces = not KERNEL_PORTS.isdisjoint(self.port_kinds)
        self.capabilities = frozenset({"NET_ADMIN" if of_interfaces else "SYS_NICE"})

    def _wiring(self, hosted: Hosted) -> Wiring:
        """Return the wiring of the switch as a function: two ports, joined in both directions."""
        ports = tuple(
            Port(
                id=port.id,
                index=index,
                part=port.part,
                node=hosted.node,
                given=end,
                next_mac=hosted.next_macs.get(port.id, ""),
            )
            for index, (port, end) in enumerate(zip(hosted.ports, hosted.ends, strict=True))
        )
        ways = ((ports[0], ports[1]), (ports[1], ports[0]))
        wiring = replace(
            hosted.wiring,
            prefix=hosted.node.name,
            node=hosted.node,
            ports=ports,
            flows=tuple(
                Flow(f"{source.id}-{sink.id}", index, source.id, sink.id)
                for index, (source, sink) in enumerate(ways)
            ),
            kind=hosted.ends[0].kind,
            semantics=Semantics.STATIC if hosted.next_macs else self._switch.semantics[0],
            version=Version(""),
            cores=_ONLY_CPU if hosted.node.separate_kernel else hosted.cores,
            queues=1,
            # QEMU sets the ring length of a virtual machine's NICs.
            descriptors=None if hosted.node.separate_kernel else hosted.wiring.descriptors,
            tuning=Tuning(),
        )
        if hosted.node.separate_kernel:  # a VM has its own programs, under their usual names
            return replace(wiring, version=Version("", program=PurePath(self._switch.program).name))
        found = {} if hosted.version is None else {(wiring.node.host, self.name): hosted.version}
        return with_program(wiring, self._switch, found)

    def probe(self, host: Host) -> Version:
        """Return the version of the switch."""
        return probe_asked(self._switch, host)

    def accepts(self, hosted: Hosted) -> str | None:
        if self._switch.private_stack and not hosted.node.isolated:
            return f"{self.name} does not run in environment {hosted.node.environment}"
        return self._switch.accepts(self._wiring(hosted))

    def start(self, hosted: Hosted) -> Plan:
        return self._switch.start(self._wiring(hosted))

    def settled(self, hosted: Hosted) -> Plan:
        return self._switch.settled(self._wiring(hosted))

    def _counter_commands(self, hosted: Hosted) -> tuple[Run, ...]:
        return self._switch.counters.commands(self._wiring(hosted))

    def _parse_counters(self, hosted: Hosted, outputs: tuple[bytes, ...]) -> Counters:
        return self._switch.counters.parse(self._wiring(hosted), outputs)


FUNCTIONS = tuple(SwitchFunction(switch) for switch in SWITCHES.values() if switch.function_kinds)
