"""This module makes paths in network namespaces of the bench's own, by switchmark's machine layer,
and starts programs on them in turn. Nothing runs on a path but what is measured at the moment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT
from types import MappingProxyType
from typing import Any

from switchmark.environments import inside
from switchmark.errors import SetupFailed, Unavailable
from switchmark.hosts.base import Process
from switchmark.hosts.local import LocalHost
from switchmark.model.addresses import Addressing
from switchmark.model.plan import PORTS_DIR, SWITCH_DIR, Node, Plan, Run, Spawn
from switchmark.model.test import Test
from switchmark.observe.cpus import read_cpus
from switchmark.path.assembly import attachments_of, create_nodes, start_switches
from switchmark.path.path import Path as ResolvedPath
from switchmark.path.placement import AUTO, PINNED, place
from switchmark.path.resolving import resolve
from switchmark.runs.executor import Executor
from switchmark.runs.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Track:
    """A track is a path that is up, with nothing running on it: `f0` sends to `f1`, each in a
    namespace, each with a CPU of its own unless the placement joins them."""

    layout: ResolvedPath

    def node(self, part: str) -> Node:
        return next(placed.node for placed in self.layout.parts if placed.id == part)

    def cpu(self, part: str) -> int:
        return self.layout.placement.pins[part].cpus[0]

    @property
    def opened_by_programs(self) -> bool:
        """Say whether its links are there only while programs have its ports open, as in user
        space."""
        return not any(end.ifname for end in self.layout.endpoints.values())

    def ifname(self, part: str) -> str:
        return self.layout.endpoints[part].ifname

    def mac(self, part: str) -> str:
        """Return the MAC that frames have for this end; its interface may have another."""
        a = self._addressing()
        return a.sent_src_mac if part == "f0" else a.sent_dst_mac

    def ip(self, part: str) -> str:
        a = self._addressing()
        return a.source_ip if part == "f0" else a.sink_ip

    def _addressing(self) -> Addressing:
        return self.layout.flows[0].addressing


class Bed:
    """A bed is one run on this host: all that it makes carries its id and is undone at the end.

    `logs` gets every step and each program's stderr.
    """

    def __init__(self, workspace: Workspace, logs: Path) -> None:
        self.logs = logs
        self._workspace = workspace
        self.executor = Executor({"local": LocalHost()}, workspace, inside=inside, logs_dir=logs)
        self._tracks = 0

    @property
    def folder(self) -> Path:
        """Return the folder for sockets: its path is short, and it goes at the end of the run."""
        return self._workspace.folder

    @contextmanager
    def block(self) -> Iterator[None]:
        """Undo the actions of the block at its end, in reverse order."""
        mark = self.executor.mark()
        try:
            yield
        finally:
            failures = self.executor.unwind(to=mark)
        if failures:
            raise SetupFailed("\n".join(failures))

    def track(self, switch: str, engine: str, **axes: Any) -> Track:
        """Make a path through `switch`, as `engine` needs it: with addresses, or with NAPI at the
        peer. `axes` are more of the test's. It is up until the block that this is called in ends;
        in user space only its switch is."""
        require_root()
        letter = chr(ord("a") + self._tracks % 26)
        self._tracks += 1
        test = Test.model_validate({"switch": switch, "engine": engine, **axes})
        prefix, folder = f"{self._workspace.run}-{letter}", self._workspace.folder / letter
        for name in (PORTS_DIR, SWITCH_DIR):
            (folder / name).mkdir(parents=True, exist_ok=True)
        layout = resolve(test, prefix=prefix, run_dir=str(folder))
        policy = PINNED if test.placement == AUTO else test.placement
        placement = place(layout.cpu_users, read_cpus(LocalHost()), policy)
        track = Track(resolve(test, prefix=prefix, run_dir=str(folder), placement=placement))
        self.executor.execute(_plan(track))
        return track

    def start(
        self,
        name: str,
        argv: tuple[str, ...],
        node: Node,
        *,
        cpu: int | None = None,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> Process:
        """Start a program that runs until the block that this is called in ends, on one CPU if
        asked; it is ended by SIGINT."""
        pinned = argv if cpu is None else ("taskset", "-c", str(cpu), *argv)
        self.executor.execute((Spawn(f"{name} runs", name, pinned, node, env, stop=(SIGINT, 3.0)),))
        return self.executor.process(name)


def require_root() -> None:
    """Raise Unavailable if this user can make no network namespaces that others could enter."""
    if os.geteuid() != 0:
        raise Unavailable("network namespaces need root", hint="sudo make bench")


class RxCounter:
    """This counter tells what the kernel says has reached an interface. `holder` is any process in
    the namespace of the interface: its /proc shows that namespace's counters without a command to
    run."""

    def __init__(self, holder: Process, ifname: str) -> None:
        self._file = Path(f"/proc/{holder.pid}/net/dev")
        self._ifname = ifname

    def read(self) -> int:
        for line in self._file.read_text().splitlines():
            name, _, rest = line.partition(":")
            if name.strip() == self._ifname:
                return int(rest.split()[1])
        raise ValueError(f"{self._file} has no interface {self._ifname}")

    def rate(self, seconds: float) -> float:
        """Return the rate in frames per second over the next seconds."""
        first, start_s = self.read(), time.monotonic()
        time.sleep(seconds)
        last, now = self.read(), time.monotonic()
        return (last - first) / (now - start_s)


def _plan(track: Track) -> Plan:
    """Return `path.assembly.build` without the functions and the steps that wait for them."""
    layout = track.layout
    steps = create_nodes(layout) + start_switches(layout)
    for part in layout.parts:
        steps += part.environment.attach(part.node, attachments_of(layout, part))
    if track.opened_by_programs:
        return steps
    (switch,) = layout.switches
    return steps + switch.join + _known(layout) + switch.settled


def _known(layout: ResolvedPath) -> Plan:
    """Return a bridge that knows where everybody is: peers do not announce themselves as
    switchmark's receiver does, and their frames would be flooded."""
    steps: Plan = ()
    for flow in layout.flows:
        a = flow.addressing
        for port, mac in ((flow.source, a.sent_src_mac), (flow.sink, a.sent_dst_mac)):
            end = layout.endpoints[port].switch_ifname
            if end:
                steps += (
                    Run(
                        f"{end} leads to {mac}",
                        ("bridge", "fdb", "replace", mac, "dev", end, "master", "static"),
                        at=layout.wiring.node,
                    ),
                )
    return steps
