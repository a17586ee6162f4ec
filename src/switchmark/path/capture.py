"""This module captures frames at the ports of a path with tcpdump, into files of the run's folder.
Pure."""

from __future__ import annotations

import pathlib

from switchmark.environments import network_stack
from switchmark.errors import UsageError
from switchmark.model.plan import Check, Node, Plan, Spawn, Wait
from switchmark.path.hosts import hosts_of
from switchmark.path.path import Path


def check_capture(path: Path) -> None:
    """Raise UsageError if a port of this path cannot be captured."""
    if hosts_of(path.test):
        raise UsageError("frames are captured on this host: --capture takes no --hosts")
    for part in path.parts:
        for port, end in part.ends:
            if not (end.switch_ifname or (end.ifname and not part.own_kernel)):
                raise UsageError(f"port {port.id} is no interface: its frames cannot be captured")


def captures(
    run: pathlib.Path, logs: pathlib.Path, path: Path, name: str, frames: int | None
) -> Plan:
    """Return the steps that capture the first `frames` frames at the switch's end of every port, or
    at the function's where it has none; `run` is the folder of the run, `logs` that of what its
    processes say. No other capture there may have the `name`: its files would be overwritten, and
    its log says that tcpdump listens."""
    if not frames:
        return ()
    steps: Plan = ()
    for part in path.parts:
        for port, end in part.ends:
            at, ifname = part.node, end.ifname
            if end.switch_ifname:
                at, ifname = path.wiring.at, end.switch_ifname
            # A container has neither the folder of the run nor, of an image, tcpdump.
            at = network_stack(at)
            steps += _capture(run, logs, f"{name}-{port.id}", at, ifname, frames)
    return steps


def _capture(
    run: pathlib.Path, logs: pathlib.Path, label: str, at: Node, ifname: str, frames: int
) -> Plan:
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
