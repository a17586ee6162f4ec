"""The plan for processes during the trials of a test: background load, and captures of frames. This
module is pure."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from switchmark.environments import network_stack
from switchmark.errors import UsageError
from switchmark.model.cpus import Cpu, format_cpus
from switchmark.model.plan import Check, Node, Plan, Spawn, Wait
from switchmark.noises.base import Site
from switchmark.path.path import Path


def noise_of(path: Path, cpus: Sequence[Cpu]) -> Plan:
    """Return the background load during a test's trials. `cpus` are the CPUs that the host
    allows."""
    test, wiring = path.test, path.wiring
    noise, chosen = path.drivers.noise, path.drivers.noise_cpus
    if noise is None:
        return ()
    if isinstance(chosen, str):
        pins = path.placement.pins
        of_switch = chosen == "switch"
        taken = {cpu for user in pins if (user == "switch") == of_switch for cpu in pins[user].cpus}
        if not taken:
            raise UsageError(
                f"noise {test.noise}: no CPU is set apart for the {chosen} here",
                hint=f"--noise {noise.name}:0",
                axes=("noise",),
            )
        chosen = tuple(sorted(taken))
    allowed = [cpu.id for cpu in cpus]
    if outside := sorted(set(chosen) - set(allowed)):
        raise UsageError(
            f"noise {test.noise}: there is no CPU {format_cpus(outside)} here",
            hint=f"--noise {noise.name}:{allowed[0]}",
        )
    site = Site(
        prefix=wiring.prefix,
        run_dir=wiring.run_dir,
        cpus=chosen,
        workers=len(chosen or allowed),
    )
    return noise.start(site)


def check_capture(path: Path) -> None:
    """Raise UsageError if a port of this path cannot be captured."""
    if path.is_away:
        raise UsageError("frames are captured on this host: --capture takes no --hosts")
    for part in path.parts:
        for port, end in part.ends:
            if not (end.switch_ifname or (end.ifname and not part.separate_kernel)):
                raise UsageError(f"port {port.id} is no interface: its frames cannot be captured")


def captures(
    run: pathlib.Path, logs: pathlib.Path, path: Path, name: str, frames: int | None
) -> Plan:
    """Return the steps that capture the first `frames` frames of every port, at the switch's end
    or, if it has no interface, at the function's end.

    `run` is the folder of the run, and `logs` is the folder of its logs. The `name` must be unique
    there: a second capture would overwrite the files, and its steps would read the old log, which
    already says that tcpdump listens.
    """
    if not frames:
        return ()
    steps: Plan = ()
    for part in path.parts:
        for port, end in part.ends:
            node, ifname = part.node, end.ifname
            if end.switch_ifname:
                node, ifname = path.wiring.node, end.switch_ifname
            # A container has no access to the folder of the run, and its image may lack tcpdump.
            node = network_stack(node)
            steps += _capture(run, logs, f"{name}-{port.id}", node, ifname, frames)
    return steps


def _capture(
    run: pathlib.Path, logs: pathlib.Path, label: str, node: Node, ifname: str, frames: int
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
            at=node,
        ),
        Wait(
            f"the capture of {ifname} listens",
            Check(("grep", "listening on", str(log))),
            unless_dead=name,
        ),
    )
