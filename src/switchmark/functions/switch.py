"""Any switch that can be given its ports may run inside a node, as a function that forwards between
two of them.

This module knows no switch by name: each says in its own file (`function_kinds`) what it can be
given.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from switchmark.engines.base import KERNEL_PORTS
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.functions.base import Function, Hosted
from switchmark.hosts.base import Host
from switchmark.model.plan import Plan, Run
from switchmark.model.topology import Flow, Port, Semantics, Tuning, Wiring
from switchmark.model.version import Version
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Counters, Counting, Switch, program_at
from switchmark.switches.versions import probe_asked

_ONLY_CPU = (0,)
"""Of a machine with a kernel of its own, which is pinned as a whole."""


class SwitchFunction(Function):
    """The switch forwards as it does unless asked otherwise: between two ports every one is a wire,
    which leaves frames as they are. One that can writes both MACs where that is asked for."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self.name = switch.name
        self.summary = f"the switch {switch.name} between two ports, inside the node"
        self.polls = switch.own_core(None)
        self.port_kinds = switch.function_kinds
        self.rewrites_if_asked = switch.writes_next_macs
        self.devices = switch.devices
        self.counters = Counting(self._counter_commands, self._parse_counters)
        # One of interfaces makes its own; one of sockets is of DPDK, as is the engine of that name.
        of_interfaces = not KERNEL_PORTS.isdisjoint(self.port_kinds)
        self.capabilities = frozenset({"NET_ADMIN" if of_interfaces else "SYS_NICE"})

    def _wiring(self, hosted: Hosted) -> Wiring:
        """Return the wiring that the switch has as a function: two ports, joined both ways."""
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
        environment = ENVIRONMENTS[hosted.node.environment]
        wiring = replace(
            hosted.wiring,
            prefix=hosted.node.name,
            at=hosted.node,
            ports=ports,
            flows=tuple(
                Flow(f"{source.id}-{sink.id}", index, source.id, sink.id)
                for index, (source, sink) in enumerate(ways)
            ),
            kind=hosted.ends[0].kind,
            semantics=Semantics.STATIC if hosted.next_macs else self._switch.semantics[0],
            version=Version(""),
            cores=_ONLY_CPU if environment.own_kernel else hosted.cores,
            queues=1,
            # The rings of a machine's NIC are as long as QEMU makes them.
            descriptors=None if environment.own_kernel else hosted.wiring.descriptors,
            tuning=Tuning(),
        )
        if environment.own_kernel:  # a machine has its own programs, by their usual names
            return replace(wiring, version=Version("", program=PurePath(self._switch.program).name))
        found = {} if hosted.version is None else {(wiring.at.host, self.name): hosted.version}
        return program_at(wiring, self._switch, found)

    def probe(self, host: Host) -> Version:
        """Return the version of the switch."""
        return probe_asked(self._switch, host)

    def accepts(self, hosted: Hosted) -> str | None:
        if self._switch.own_stack and not hosted.node.isolated:
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
