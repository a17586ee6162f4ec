"""This plug-in is a switch that misbehaves as it is told to (traffic/tests/truth_switch.c), for
tests that hold what switchmark finds against what was done. `SWITCH.faults` are the program's
options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from switchmark.machine.host import Host
from switchmark.model.plan import Check, Plan, Run, Spawn, Wait
from switchmark.model.topology import Addressing, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.switches import links


class Truth(links.KernelSwitch):
    """Frames go from each flow's source to its sink, but for the faults."""

    name = "truth"
    semantics = (Semantics.STATIC,)
    port_kinds = (PortKind.VETH,)
    counters = links.COUNTERS
    program = "truth-switch"
    faults: tuple[str, ...] = ()
    expected: Mapping[str, object] = MappingProxyType({})
    """Other than that frames pass as they are: of `Addressing`."""

    def probe(self, host: Host) -> Version:
        return Version("1")

    def own_core(self, mode: str | None) -> bool:
        return True

    def addressing(self, wiring: Wiring) -> Mapping[str, Addressing]:
        as_sent = super().addressing(wiring)
        return {flow: replace(a, **self.expected) for flow, a in as_sent.items()}  # type: ignore[arg-type]

    def start(self, wiring: Wiring) -> Plan:
        steps: Plan = ()
        for port in wiring.ports:
            steps += links.add_port(wiring, port)
        ways: list[str] = []
        sinks = [flow.sink for flow in wiring.flows]
        for number, flow in enumerate(wiring.flows):
            wrong = sinks[(number + 1) % len(sinks)]
            ports = (flow.source, flow.sink, wrong)
            ways += [links.switch_ifname(wiring, wiring.port(port)) for port in ports]
        pin = ("--cpu", str(wiring.cores[0])) if wiring.cores else ()
        ready = f"{wiring.run_dir}/truth"
        remove = ("rm", "-f", ready)
        return (
            *steps,
            Run("it has not forwarded yet", remove, undo=remove),
            Spawn(
                "the switch that tells the truth",
                "truth",
                (self.program, *pin, *self.faults, "--ready", ready, *ways),
                at=wiring.at,
            ),
            Wait("it forwards", Check(("test", "-e", ready)), unless_dead="truth"),
        )


SWITCH = Truth()
