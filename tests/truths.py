"""The faults that tests inject: what the switch `truth` does to frames, with a model of what is
then found, and what is done to the parts of a path and to the host."""

from __future__ import annotations

import errno
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from switchmark.hosts.base import Call, Completed
from switchmark.hosts.local import LocalHost
from switchmark.hosts.processes import marked
from switchmark.lab.trial import Trials
from switchmark.model.cable import CABLE
from switchmark.model.cgroups import V1
from switchmark.model.plan import Plan, Run
from switchmark.model.record import TrialResult, TrialSpec
from switchmark.model.topology import Role, Wiring
from switchmark.observe.cgroups import cpu_root
from switchmark.searches import base as searches
from switchmark.searches.base import LoadBounds, Measure
from switchmark.switches.linux_bridge import LinuxBridge

Change = Callable[[pytest.MonkeyPatch], None]
"""A change of the code."""

# --- of a switch ------------------------------------------------------------------------------

FAULTS = {"--drop": 10, "--swap": 7, "--corrupt": 9, "--duplicate": 11}


def found_in(sent: int) -> tuple[int, int, int, int]:
    """Return the lost, duplicated, overtaken and corrupted frames of a flow, as a switch with
    FAULTS treats them."""
    arrived: list[tuple[int, bool]] = []
    held: list[tuple[int, bool]] = []
    chosen = {
        fault: {n for n in range(sent) if n % period == period - 1}
        for fault, period in FAULTS.items()
    }
    for number in range(sent):
        if number in chosen["--drop"]:
            continue
        if number in chosen["--swap"] and not held:
            held = [(number, False)]
            continue
        arrived += [(number, number in chosen["--corrupt"])] * (
            1 + (number in chosen["--duplicate"])
        )
        arrived += held
        held = []
    numbers: set[int] = set()
    doubled = overtaken = 0
    for number, corrupt in arrived:
        if not corrupt:
            doubled += number in numbers
            overtaken += number not in numbers and number < max(numbers, default=0)
            numbers.add(number)
    return sent - len(numbers), doubled, overtaken, sum(corrupt for _, corrupt in arrived)


def slow(patch: pytest.MonkeyPatch, role: Role, delay_ns: int) -> None:
    """Make each frame cost a role so much more, but on the cable that the role is held against (a
    test option of the traffic program)."""
    load = Trials._load

    def slower(self: Trials, part: Any, job: Any, spec: Any) -> dict[str, Any]:
        is_slow = job.role is role and self._path.test.switch != CABLE
        return {**load(self, part, job, spec), **({"delay_ns": delay_ns} if is_slow else {})}

    patch.setattr(Trials, "_load", slower)


@contextmanager
def preferred() -> Iterator[None]:
    """Put what is started meanwhile before all else that this host has to do, where it has a cpu
    controller. A nice value would not do: the kernel shares a CPU among sessions first. Only for
    tests that run alone, as others would wait for as long as a part polls."""
    root = cpu_root(LocalHost())
    file, most = ("cpu.shares", 262_144) if root == V1 else ("cpu.weight", 10_000)
    # Lanes share control groups, and have process numbers of their own.
    lane = Path("/proc/self/ns/pid").stat().st_ino
    group = Path(root) / f"sm-truth-{lane}-{os.getpid()}"
    lines = (line.split(":") for line in Path("/proc/self/cgroup").read_text().splitlines())
    (home,) = (
        path for _, names, path in lines if ("cpu" in names.split(",") if root == V1 else not names)
    )
    group.mkdir()
    try:
        if not (group / file).exists():
            yield
            return
        (group / file).write_text(str(most))
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        Path(f"{root}{home}/cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


@contextmanager
def hog(core: int, *, alone: bool = False) -> Iterator[None]:
    """Keep a core busy by a process, from now on; or `alone`, but for the share of each second that
    the kernel keeps from those of real time."""
    first = "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)); " * alone
    busy = f"import os; os.sched_setaffinity(0, [{core}]); {first}print(flush=True)\nwhile 1: pass"
    with subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


# --- what is done to a run ---------------------------------------------------------------------


def in_phase(act: Callable[[Trials, str, int], AbstractContextManager[object]]) -> Change:
    """Do something while a phase of a trial lasts: `act` gets the trials, the name of the phase and
    its number from 0."""

    def change(patch: pytest.MonkeyPatch) -> None:
        phase = Trials._phase
        numbers = itertools.count()

        def disturbed(self: Trials, name: str, *arguments: Any, **named: Any) -> None:
            with act(self, name, next(numbers)):
                phase(self, name, *arguments, **named)

        patch.setattr(Trials, "_phase", disturbed)

    return change


def measured_phases(act: Callable[[Trials], AbstractContextManager[object]]) -> Change:
    """Do something while the measured phase of each trial lasts."""
    return in_phase(lambda trials, name, _: act(trials) if name == "measured" else nullcontext())


def core_of(trials: Trials, part: str) -> int:
    """Return the one core that a part is on."""
    (core,) = trials._path.placement.pins[part].cpus
    return core


def hogged(part: str, **options: Any) -> Change:
    return measured_phases(lambda trials: hog(core_of(trials, part), **options))


def slowed(role: Role, delay_ns: int) -> Change:
    return lambda patch: slow(patch, role, delay_ns)


class AlteredHost(LocalHost):
    """This host shows some files other than they are, or fails."""

    def alter(self, path: str, content: bytes) -> bytes:
        return content

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        files = super().read_all(*patterns)
        return {path: self.alter(path, content) for path, content in files.items()}


class StolenHost(AlteredHost):
    """The hypervisor keeps a sixth of the time of this host."""

    def alter(self, path: str, content: bytes) -> bytes:
        if path != "/proc/stat":
            return content
        lines = []
        for line in content.decode().splitlines():
            name, *fields = line.split()
            if name.startswith("cpu"):
                fields[7] = str(sum(map(int, fields[:7])) // 5)
            lines.append(" ".join((name, *fields)))
        return "\n".join(lines).encode()


class InterruptedHost(AlteredHost):
    """A device interrupts CPU 0 of this host 100 times more often each time that somebody looks."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def alter(self, path: str, content: bytes) -> bytes:
        if path != "/proc/interrupts":
            return content
        self._count += 5000
        head, _, rest = content.partition(b"\n")
        zeros = b" 0" * (len(head.split()) - 1)
        return head + b"\n 99: %d%s PCI-MSI eth9\n" % (self._count, zeros) + rest


class ThrottledHost(AlteredHost):
    """The CPUs of this host change their frequency each time that somebody looks."""

    def __init__(self) -> None:
        super().__init__()
        self._khz = itertools.cycle((3_000_000, 2_000_000))

    def read_all(self, *patterns: str) -> Mapping[str, bytes]:
        paths = [path for path in patterns if path.endswith("/cpufreq/scaling_cur_freq")]
        khz = b"%d\n" % next(self._khz) if paths else b""
        return {**super().read_all(*patterns), **dict.fromkeys(paths, khz)}


class SiblingsHost(AlteredHost):
    """CPUs 0 and 1 of this host are the two threads of one core."""

    def alter(self, path: str, content: bytes) -> bytes:
        return b"0-1\n" if path.endswith("/thread_siblings_list") else content


class SmallPagesHost(LocalHost):
    """This host gives no hugepages."""

    def write(self, path: str, content: bytes) -> None:
        if path.endswith("nr_hugepages"):
            raise PermissionError(errno.EACCES, "Permission denied")
        super().write(path, content)

    def read(self, path: str) -> bytes:
        content = super().read(path)
        return b"0\n" if path.endswith("/free_hugepages") else content


class UnsteadyHost(AlteredHost):
    """The cycle counter of this host stops in deep sleep."""

    def alter(self, path: str, content: bytes) -> bytes:
        return content.replace(b" nonstop_tsc", b"") if path == "/proc/cpuinfo" else content


class UncountingHost(LocalHost):
    """The links of this host count nothing."""

    def run_all(self, calls: Sequence[Call]) -> Generator[Completed, None, None]:
        for call, completed in zip(calls, super().run_all(calls), strict=False):
            nothing = re.sub(rb'"packets":\d+', b'"packets":0', completed.stdout)
            yield replace(completed, stdout=nothing) if "-s" in call.argv else completed


class GarblingHost(LocalHost):
    """The counters of links of this host are no JSON."""

    def run_all(self, calls: Sequence[Call]) -> Generator[Completed, None, None]:
        for call, completed in zip(calls, super().run_all(calls), strict=False):
            yield replace(completed, stdout=b"[{") if "-s" in call.argv else completed


class FailingHost(LocalHost):
    """A command of this host that has this word fails."""

    def __init__(self, word: str, message: bytes = b"Operation not supported") -> None:
        super().__init__()
        self._word, self._said = word, message

    def run_all(self, calls: Sequence[Call]) -> Generator[Completed, None, None]:
        for call in calls:
            if self._word in call.argv:
                yield Completed(2, b"", self._said + b"\n")
                if call.ok is not None:
                    return
            else:
                yield from super().run_all([call])


# --- faults of the code, the host and the switch ----------------------------------------------


def forgetful(patch: pytest.MonkeyPatch) -> None:
    """Make the bridge forget a MAC at once, and so send every frame to all of its ports."""
    start = LinuxBridge.start

    def aged(self: LinuxBridge, wiring: Wiring) -> Plan:
        age = ("ip", "link", "set", wiring.name("br"), "type", "bridge", "ageing_time", "0")
        return (*start(self, wiring), Run("it remembers no MAC", age, at=wiring.node))

    patch.setattr(LinuxBridge, "start", aged)


def falling(patch: pytest.MonkeyPatch) -> None:
    """Ask for less in each trial."""

    def less(measure: Measure, spec: TrialSpec, bounds: LoadBounds) -> tuple[TrialResult, ...]:
        rates = [(bounds.rate_pps or 0.0) * (1 - 0.1 * number) for number in range(6)]
        return tuple(measure(spec.model_copy(update={"rate_pps": rate})) for rate in rates)

    patch.setattr("switchmark.searches.fixed.repeated", less)


def impatient(patch: pytest.MonkeyPatch) -> None:
    """Take no more trials for a certain figure than an interval takes."""
    patch.setattr(searches, "_MAX_FACTOR", 1)


def too_late(patch: pytest.MonkeyPatch) -> None:
    """Ask for a beginning of each phase that is over."""
    patch.setattr("switchmark.lab.trial._LEAD_NS", -20_000_000)


@contextmanager
def killed(trials: Trials, name: str, number: int) -> Iterator[None]:
    """Let a process of this run die as soon as it may be missed."""
    (pid,) = (pid for pid, _ in marked(_run_of(trials)) if _command(pid) == name)
    os.kill(pid, number)
    yield


def _run_of(trials: Trials) -> str:
    return Path(trials._path.wiring.run_dir).name


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def sent_by_others(trials: Trials) -> AbstractContextManager[object]:
    """Send three frames of no test to the receiver."""
    ifname = trials._path.endpoints["f1"].switch_ifname
    send = f"""import socket
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(("{ifname}", 0))
for _ in range(3): port.send(bytes(12) + bytes.fromhex("88b5") + bytes(46))"""
    there = ("ip", "netns", "exec", trials._path.wiring.node.name)
    subprocess.run([*there, sys.executable, "-c", send], check=True)
    return nullcontext()


def hogged_once(part: str) -> Change:
    """Keep the core of a part busy during the first trial."""

    def change(patch: pytest.MonkeyPatch) -> None:
        measure, first = Trials.measure, iter([True])

        def disturbed(self: Trials, spec: TrialSpec, **options: Any) -> TrialResult:
            with hog(core_of(self, part)) if next(first, False) else nullcontext():
                return measure(self, spec, **options)

        patch.setattr(Trials, "measure", disturbed)

    return change
