"""This module captures frames at the ports of a path with tcpdump, into files of the run's folder.
Pure."""

from __future__ import annotations

from pathlib import Path

from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.errors import UsageError
from switchmark.model.plan import Check, Node, Plan, Spawn, Wait
from switchmark.path.layout import Layout
from switchmark.path.needs import network_stack
from switchmark.path.sides import hosts_of


def check_capture(layout: Layout) -> None:
    """Raise UsageError if a port of this path cannot be captured."""
    if hosts_of(layout.test):
        raise UsageError("frames are captured on this host: --capture takes no --hosts")
    for port in layout.wiring.ports:
        end = layout.endpoints[port.id]
        guest = ENVIRONMENTS[layout.nodes[port.part].environment].own_kernel
        if not (end.switch_ifname or (end.ifname and not guest)):
            raise UsageError(f"port {port.id} is no interface: its frames cannot be captured")


def captures(run: Path, logs: Path, layout: Layout, name: str, frames: int | None) -> Plan:
    """Return the steps that capture the first `frames` frames at the switch's end of every port, or
    at the function's where it has none; `run` is the folder of the run, `logs` that of what its
    processes say. No other capture there may have the `name`: its files would be overwritten, and
    its log says that tcpdump listens."""
    if not frames:
        return ()
    steps: Plan = ()
    for part in layout.parts:
        for port in part.ports:
            endpoint = layout.endpoints[port.id]
            at, ifname = layout.nodes[part.id], endpoint.ifname
            if endpoint.switch_ifname:
                at, ifname = layout.wiring.at, endpoint.switch_ifname
            # A container has neither the folder of the run nor, of an image, tcpdump.
            at = network_stack(at)
            steps += _capture(run, logs, f"{name}-{port.id}", at, ifname, frames)
    return steps


def _capture(run: Path, logs: Path, label: str, at: Node, ifname: str, frames: int) -> Plan:
    name = f"capture-{label}"
    file = (run / "captures" / f"{label}.pcap").resolve()
    log = (logs / f"{name}.stderr").resolve()
    return (
        Spawn(
            f"the first {frames} frames of {ifname}",
            name,
            (
                *("tcpdump", "-i", ifname, "-c", str(frames), "-w", str(file)),
                *("-n", "-U", "-Z", "root"),
            ),
            at=at,
        ),
        Wait(
            f"the capture of {ifname} listens",
            Check(("grep", "listening on", str(log))),
            unless_dead=name,
        ),
    )
