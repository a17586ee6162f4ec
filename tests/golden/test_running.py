"""These tests compare how a path is built, what is known of its processes, and what is said of
those that died or were stopped, with stored texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from golden_cases import text_of_cases
from switchmark.errors import SwitchmarkError
from switchmark.hosts.recording import RecordingHost, RecordingProcess
from switchmark.lab import running
from switchmark.lab.running import RunningPath, build_path
from switchmark.model.cpus import Cpu
from switchmark.model.plan import Node, Plan, Spawn
from switchmark.model.test import Test
from switchmark.observe.perf import CountableEvents
from switchmark.path.path import Path
from switchmark.path.placement import place
from switchmark.path.resolving import resolve

Golden = Callable[[str, str], None]

CPUS = tuple(map(Cpu, range(4)))
COUNTING = CountableEvents(("cycles",), by_cpu=True)


class Site:
    """An executor whose processes run until they die, and hosts that tell which are stopped."""

    def __init__(self, text: list[str]) -> None:
        self.text = text
        self.hosts = {name: RecordingHost(name=name) for name in ("local", "left", "right")}
        self.processes: dict[str, RecordingProcess] = {}
        self.stopped: set[int] = set()
        self.meter: Any = None
        self.trials: Any = None

    def mark(self) -> int:
        return 5

    def execute(self, plan: Plan) -> None:
        names = [step.name for step in plan if isinstance(step, Spawn)]
        self.text.append(f"execute {len(plan)} steps: {', '.join(names)}")
        for name in names:
            process = RecordingProcess(10 + len(self.processes), (name,))
            process.last_output = f"the last words\nof {name}"
            self.processes[name] = process

    def process(self, name: str) -> RecordingProcess:
        return self.processes[name]

    def host(self, node: Node) -> RecordingHost:
        return self.hosts[node.host]

    def run(self, *steps: Any) -> tuple[bytes, ...]:
        return tuple(b"[]" for _ in steps)

    def in_network(self, host: RecordingHost, network: str) -> Collection[int]:
        assert network
        return {process.pid for process in self.processes.values()}

    def all_stopped(self, host: RecordingHost, pids: Collection[int]) -> set[int]:
        return self.stopped & {*pids}

    def of_machine(self, host: RecordingHost, pid: int) -> tuple[int, ...]:
        return (pid, 100 + pid)

    def resident_kib(self, host: RecordingHost, pids: Collection[int]) -> int:
        return 1000 + sum(pids)

    def made(self, path: Path, workers: Sequence[Any], **options: Any) -> Any:
        self.trials = SimpleNamespace(path=path, workers=workers, open=self.opened, **options)
        return self.trials

    def opened(self, *, join: Callable[[], None], settle: Callable[[], None]) -> None:
        self.text.append("open")
        join()
        settle()


def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site([])
    monkeypatch.setattr(running, "Trials", made.made)
    monkeypatch.setattr(running, "read_cpus", lambda host: CPUS)
    for name in ("in_network", "of_machine", "resident_kib"):
        monkeypatch.setattr(running, name, getattr(made, name))
    monkeypatch.setattr(running, "stopped", made.all_stopped)
    return made


CASES: Mapping[str, dict[str, Any]] = {
    "a switch of the kernel": {},
    "a switch that polls": {"switch": "testpmd", "engine": "dpdk"},
    "two processes": {"switch": "ovs"},
    "functions": {"scenario": "loopback", "function": "pcap-bridge", "chain": 2, "switch": "ovs"},
    "machines": {"environment": "vm", "scenario": "p2v"},
    "the host itself": {"environment": "host", "switch_environment": "host", "switch": "ovs"},
    "two hosts": {"locality": "remote", "hosts": "left,right", "switch": "ovs"},
    "one process": {"placement": "shared-process"},
}


def running_lines(made: RunningPath, site: Site) -> Iterator[str]:
    """Yield what is known of a path that is up."""
    trials, meter = site.trials, site.trials.meter
    yield f"daemons {made.daemons}, works {made.works}, mark {made.mark}, on {made.host.name}"
    names = {process.pid: name for name, process in site.processes.items()}
    yield f"processes {[names[process.pid] for process in made.processes()]}"
    yield f"at work {sorted(made.at_work())}"
    yield f"workers {[(worker.process.part, worker.plays.name) for worker in trials.workers]}"
    yield f"meter of CPUs {[*meter.cpus]} on {meter.host.name}, in {meter.folder}"
    yield f"counting {meter.counting}"
    yield f"playing {shown(meter.playing())}, hosted {shown(meter.hosted())}"
    yield f"hosts { ({place: host.name for place, host in meter.hosts.items()}) }"
    yield f"resident {trials.resident()} KiB"
    yield f"serves {made.serves(made.path.test)}, another {made.serves(Test(switch='macvlan'))}"


def shown(pids: Mapping[str, Collection[int]]) -> dict[str, list[int]]:
    return {place: sorted(some) for place, some in pids.items()}


def said(made: RunningPath, *when: str) -> str:
    try:
        made.alive(*when)
    except SwitchmarkError as error:
        return f"{type(error).__name__}: {error.message}"
    return "alive"


def test_paths_are_built(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {name: built(Test(**axes), site(monkeypatch)) for name, axes in CASES.items()}
    golden("running.txt", text_of_cases(told))


def built(test: Test, site: Site) -> list[str]:
    """Return how the path of a test is built, and what is said of each process that stops."""
    path = resolve(test, prefix="sm0000", run_dir="/run/x")
    path = path.placed(place(path.cpu_users, CPUS))
    executor: Any = site
    made = build_path(executor, site.hosts["local"], path, COUNTING)
    text = site.text
    text += running_lines(made, site)
    text.append(said(made))
    for process in made.processes():
        assert isinstance(process, RecordingProcess)
        site.stopped = {process.pid}
        text.append(f"# {process.argv[0]} is stopped: {said(made, 'between two rounds')}")
        site.stopped = set()
        process.status = -9
        text.append(f"# {process.argv[0]} died: {said(made)}")
        text.append(f"serves {made.serves(path.test)}")
        process.status = None
    site.stopped = {process.pid for process in site.processes.values()}
    text.append(f"# all are stopped: {said(made)}")
    return text
