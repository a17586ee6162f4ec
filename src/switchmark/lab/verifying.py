"""Tests of a switch with real frames, in a fixed matrix: does its program do all that the driver
asks?

Every semantics of the switch is tested with a kind of port in every scenario, and in v2v also with
both directions, long frames and round trips. The first semantics is also tested with functions in
containers (`v2v to docker`) and with the switch in a container (`v2v in docker`), for the installed
runtimes, and with each event of the switch (`v2v kill`). A test passes if its gate passes, every
frame is accounted for, and a switch that reports on its fast path used it. A test with an event
passes if the event is proved and frames arrive again. NICs by interface are veth pairs here.
"""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from switchmark.engines.base import KERNEL_PORTS
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.errors import CommandFailed, Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.host_file import LOCAL, host_entries
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.local import LocalHost
from switchmark.hosts.qemu import qemu
from switchmark.lab.measure import Lab
from switchmark.metrics.outage import outage_of
from switchmark.model.event import KINDS, LOAD, UPGRADE
from switchmark.model.record import Record
from switchmark.model.test import Test
from switchmark.model.topology import PortKind
from switchmark.observe.facts import host_facts
from switchmark.path.refusals import can_work
from switchmark.runs.own_run import OwnRun
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.switches.base import Switch

USUAL = {"duration": 0.15, "warmup": 0.05, "rate": "20k"}
EMULATED = {"duration": 0.4, "warmup": 0.1, "rate": "500"}
"""The rate that an emulated processor can sustain."""
TRIES = 3
"""The attempts per test: on a busy host, a sender may get no CPU time."""

MORE: Mapping[str, dict[str, Any]] = {
    "v2v bi": {"scenario": "v2v", "direction": "bi"},
    "v2v 1500": {"scenario": "v2v", "frame_size": 1500},
    "v2v latency": {"scenario": "v2v", "dimension": "latency", "rate": "1000"},
}
"""The tests in addition to every scenario in one direction with frames of 64 bytes."""

OUTAGE = {"scenario": "v2v", "dimension": "outage", "rate": "1000", "duration": 8}
OUTAGE_EMULATED_S = 60
"""The duration of a test with an event: a switch that is started again takes seconds, and a minute
on an emulated processor."""

RUNTIMES = ("lxc", "docker", "podman")
ENDS = ({"environment": "netns"}, {"environment": "vm"})
ENGINES = ("raw-mmsg", "udp-mmsg", "dpdk", "netmap", "null")
"""The first that supports a kind of port is used: sockets for DPDK's ends, the IP stack for
switches that read IP addresses."""

NICS = ("smver0", "smver1", "smver2", "smver3")
OF_NICS = {"p2p": "a0=smver0:smver1,b0=smver2:smver3", "p2v": "a0=smver0:smver1"}
"""The tests of a switch's NICs."""


@dataclass(frozen=True)
class Place:
    """The host on which switches are tested, and its name in the host file."""

    name: str = LOCAL
    host: Host = field(default_factory=LocalHost)
    containers: Sequence[str] | None = None
    """The container runtimes to test: those of the host, or none on an emulated processor, on which
    a container daemon takes minutes."""

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Return the facts about the host."""
        return host_facts(self.host)

    @property
    def kernel(self) -> str:
        """Return the name of its kernel."""
        return f"Linux {own_words(self.facts['kernel'])}"

    @property
    def emulated(self) -> bool:
        """Return whether its processor is emulated."""
        return bool(self.host.emulated)

    @property
    def axes(self) -> Mapping[str, Any]:
        """Return the axes of every test there."""
        axes = {} if self.name == LOCAL else {"hosts": self.name}
        return {**axes, **(EMULATED if self.emulated else {})}

    @property
    def words(self) -> str:
        """Return a description of the host."""
        system = f"{self.kernel}, {self.facts['distribution']}"
        if self.host.is_machine:
            output = LocalHost().run((qemu(), "--version")).stdout.decode(errors="replace")
            version = re.search(r"version (\S+)", output)
            models = {nic.model for nic in host_entries()[self.name].nics.values() if nic.model}
            nics = f" ({', '.join(sorted(models))})" * bool(models)
            runs_on = f"{self.host.emulated or 'KVM'}, QEMU {version[1] if version else ''}{nics}"
            return f"{system}, in a VM, {runs_on}"
        cores = f"{self.facts['cores_usable']} CPUs of {self.facts['cpu_model']}"
        return ", ".join((system, cores, *["virtual"] * bool(self.facts["virtual"])))

    def has(self, environment: str) -> bool:
        """Return whether nodes of an environment can be created there."""
        try:
            ENVIRONMENTS[environment].probe(self.host)
        except Unavailable:
            return False
        return True

    @cached_property
    def runtimes(self) -> Sequence[str]:
        """Return the container runtimes to test there."""
        if self.containers is not None:
            return self.containers
        return [name for name in RUNTIMES if not self.emulated and self.has(name)]

    @cached_property
    def ends(self) -> Sequence[Mapping[str, Any]]:
        """Return the ends that its tests can have."""
        return [end for end in ENDS if self.has(end["environment"])]


def contained(runtimes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the tests with containers: for the functions, and for the switch."""
    tests: dict[str, dict[str, Any]] = {}
    for name in runtimes:
        tests[f"v2v to {name}"] = {"scenario": "v2v", "environment": name}
        tests[f"v2v in {name}"] = {"scenario": "v2v", "switch_environment": name}
    return tests


def happening(emulated: bool) -> dict[str, dict[str, Any]]:
    """Return the tests with an event. An upgrade needs another version, and a load is no event of
    the switch."""
    longer = {"duration": OUTAGE_EMULATED_S} if emulated else {}
    kinds = [kind for kind in KINDS if kind not in (UPGRADE, LOAD)]
    return {f"v2v {kind}": {**OUTAGE, **longer, "event": kind} for kind in kinds}


def matrix(
    switch: Switch,
    kind: PortKind,
    runtimes: Sequence[str] = RUNTIMES,
    ends: Sequence[Mapping[str, Any]] = ENDS,
    there: Mapping[str, Any] = {},
) -> Iterator[tuple[str, Test]]:
    """Yield the possible tests of a kind of port with their names. All have the axes `there`."""
    scenarios = {name: {"scenario": name} for name in SCENARIOS}
    engines = ENGINES if kind in KERNEL_PORTS else ENGINES[2:]
    for number, semantics in enumerate(switch.semantics):
        first = {} if number else {**contained(runtimes), **happening("rate" in there)}
        for name, axes in {**scenarios, **MORE, **first}.items():
            if kind is PortKind.NIC_KERNEL and name not in OF_NICS:
                continue
            ports = {"nic": OF_NICS[name]} if kind is PortKind.NIC_KERNEL else {"port": kind}
            what = {"switch": switch.name, "semantics": semantics}
            long = {"duration": axes["duration"]} if "event" in axes else {}
            tests = (
                Test.model_validate(
                    {**USUAL, **end, **axes, **ports, **what, "engine": engine, **there, **long}
                )
                for end, engine in itertools.product(ends, engines)
            )
            if fitting := next(filter(can_work, tests), None):
                yield f"{semantics} {name}", fitting


def fault_of(record: Record) -> str | None:
    """Return the fault that a record shows; None if every frame is accounted for."""
    if record.status != "ok":
        return (record.error or record.status).partition("\n")[0]
    if record.test.events:
        return _fault_of_event(record)
    nowhere = record.test.port == PortKind.NULL
    sent = sum(trial.tx_frames for trial in record.trials)
    received = sum(trial.rx_frames for trial in record.trials)
    if not sent or not (received or nowhere):
        return f"{sent} frames sent, {received} received"
    if nowhere:
        return None
    if "slow-path" in record.doubts:
        return "frames took the slow path"
    counts = {
        name: sum(abs(getattr(trial, name)) for trial in record.trials)
        for name in ("unaccounted", "duplicated", "reordered", "corrupted", "stray", "foreign")
    }
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count) or None


def _fault_of_event(record: Record) -> str | None:
    """Return the fault of a test with an event. Frames may be lost, and a switch that was started
    again counts from 0."""
    failures = [event.failure for trial in record.trials for event in trial.evidence.events]
    found = [outage for trial in record.trials if (outage := outage_of(trial)) is not None]
    if any(failures):
        return next(filter(None, failures)).partition("\n")[0]
    if not found or not all(outage.is_over for outage in found):
        return "no frame arrived after the event"
    corrupted = sum(trial.corrupted for trial in record.trials)
    return f"corrupted {corrupted}" if corrupted else None


@dataclass(frozen=True)
class Outcome:
    """What one test of a matrix showed."""

    name: str
    """The name of the test: semantics, scenario, and what else differs."""
    fault: str | None
    """What went wrong; None if the test passed."""
    version: str
    """The version of the switch, with its mode; empty if it did not start."""
    mode: str | None
    """The mode of the switch."""


def outcomes(tests: Mapping[str, Test], place: Place) -> Iterator[Outcome]:
    """Yield what each test shows, in order. A test has several attempts, and its records are not
    kept."""
    hosts = Hosts(OwnRun, {place.name: place.host})
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder), hosts=hosts) as lab:
        for name, test in tests.items():
            for _ in range(TRIES):
                record = lab.run(test)
                if (fault := fault_of(record)) is None or record.status == "refused":
                    break
            version = " ".join(filter(None, (record.switch_version, record.switch_mode)))
            yield Outcome(name, fault, version, record.switch_mode)


def own_words(text: str) -> str:
    """Return a version without the part that is specific to one builder of a kernel."""
    return re.sub(r"^(\d+\.\d+\.\d+)-\S+", r"\1", text)


@contextmanager
def nics(host: Host) -> Iterator[None]:
    """Make two pairs of interfaces on a host that stand for NICs and what is at the other ends of
    them."""
    cables = (NICS[:2], NICS[2:])
    try:
        for one, other in cables:
            add = ("ip", "link", "add", one, "type", "veth", "peer", "name", other)
            # A veth takes what is sent by XDP redirect only where its peer polls; NICs always do.
            for argv in (add, ("ethtool", "-K", other, "gro", "on")):
                if (completed := host.run(argv)).status:
                    reason = completed.stderr.decode(errors="replace")
                    raise CommandFailed(f"{' '.join(argv)}: {reason}")
        yield
    finally:
        for one, _ in cables:
            host.run(("ip", "link", "del", one))
