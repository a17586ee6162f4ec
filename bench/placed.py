"""The comparisons container and start-function show what it costs to have functions in containers
and virtual machines."""

from __future__ import annotations

import time

from bench.bed import require_root
from bench.comparison import Comparison, Session
from bench.pairs import Limit, interleaved
from bench.report import Row, absolute, compared
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.errors import Unavailable
from switchmark.hosts.local import LocalHost
from switchmark.lab.measure import Lab
from switchmark.metrics.throughput import steady_pps
from switchmark.model.plan import Plan
from switchmark.model.test import Test
from switchmark.model.topology import Findings
from switchmark.path.assembly import attachments_of, create_nodes, node_of, start_switches
from switchmark.path.path import Path
from switchmark.path.resolving import resolve

_OFF = 0.03
"""How far from those in a namespace the frames that arrive in a container may be."""

_START_S = {"lxc": 0.5, "podman": 0.5, "docker": 1.0, "vm": 8.0}
_CHAIN, _CHAIN_S = 8, 6.0


def _received(session: Session, environment: str) -> float:
    """Return the rate received through a new bridge, in million frames per second."""
    test = Test(environment=environment, duration=session.seconds)
    with Lab(session.bed.logs / environment) as lab:
        record = lab.run(test)
    if record.status == "refused":
        raise Unavailable(f"the test is refused: {record.error}")
    if record.status != "ok":
        raise RuntimeError(f"the test {record.status}: {record.error}")
    return steady_pps(record.trials[0]) / 1e6


def _container(session: Session) -> list[Row]:
    require_root()
    samples = interleaved(
        session.pairs,
        {
            "A": lambda: _received(session, "lxc"),
            "B": lambda: _received(session, "netns"),
            "A again": lambda: _received(session, "lxc"),
        },
        session.say,
    )
    return [
        compared(
            "container",
            "lxc, raw-mmsg through linux-bridge",
            "netns, the same",
            "Mpps",
            samples,
            Limit("off", _OFF),
            ("64 B, received; each measurement on a path of its own",),
        )
    ]


def _start_function(session: Session) -> list[Row]:
    require_root()
    rows = [_start(session, name, limit_s) for name, limit_s in _START_S.items()]
    test = Test(scenario="loopback", chain=_CHAIN, environment="lxc", duration=0.2, warmup=0.1)
    values = []
    for number in range(session.pairs):
        session.say(f"chain {number + 1}/{session.pairs}")
        with Lab(session.bed.logs / f"chain-{number}") as lab:
            record = lab.run(test)
        if record.status != "ok" or record.setup_s is None:
            raise RuntimeError(f"the test {record.status}: {record.error}")
        values.append(record.setup_s)
    name, limit = f"chain of {_CHAIN}", Limit("at most", _CHAIN_S)
    return [*rows, absolute(name, "lxc", "s", values, limit, ("setup_s of a loopback test",))]


def _start(session: Session, environment: str, limit_s: float) -> Row:
    """Measure the time from nothing to a node whose programs can start, where another of its kind
    is up: what they share, such as a daemon, is not counted."""
    mode = ENVIRONMENTS[environment].probe(LocalHost()).mode
    values = []
    for number in range(session.pairs):
        session.say(f"{environment} {number + 1}/{session.pairs}")
        with session.bed.block():
            layout = _layout(session, environment, mode)
            first, second = (_node(layout, part) for part in (0, 1))
            if ENVIRONMENTS[environment].separate_kernel:
                switch = start_switches(layout)
                session.bed.executor.execute(create_nodes(layout) + switch)
            session.bed.executor.execute(first)
            before = time.monotonic()
            session.bed.executor.execute(tuple(step for step in second if step not in first))
            values.append(time.monotonic() - before)
    label = "the second node; programs can start in it"
    return absolute(f"start {environment}", label, "s", values, Limit("at most", limit_s))


def _layout(session: Session, environment: str, mode: str | None) -> Path:
    test = Test(environment=environment)
    folder = session.bed.folder
    return resolve(
        test, prefix=folder.name, run_dir=str(folder), found=Findings(modes={environment: mode})
    )


def _node(layout: Path, index: int) -> Plan:
    """Return the steps that make a part's node, and bring its interfaces up."""
    part = layout.parts[index]
    environment = ENVIRONMENTS[layout.test.environment]
    node = node_of(layout, part)
    if not environment.separate_kernel:
        return node
    return node + part.environment.attach(part.node, attachments_of(layout, part))


PLACED = (
    Comparison("container", "frames received in a container, against a namespace", _container),
    Comparison("start-function", "how soon a function can start, by environment", _start_function),
)
