"""Tests of one trial: what it asks of the processes, and which counts are those of its phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reported import received, report, sent
from switchmark import clock
from switchmark.lab.meter import Meter
from switchmark.lab.trial import Trials
from switchmark.lab.workers import Worker
from switchmark.model.counters import PathCounters, PortCounters
from switchmark.model.event import EventResult
from switchmark.model.place import PortEnd
from switchmark.model.record import TrialSpec
from switchmark.model.test import Test
from switchmark.path.assembly import PlannedEvent
from switchmark.path.path import Path, Player
from switchmark.path.resolving import resolve

SPEC = TrialSpec(rate_pps=1000, duration_s=0.01, warmup_s=0.01)


class Processes:
    """The traffic processes of a path: they note what they are asked, and report 100 frames."""

    far_clocks = 0
    tsc_hz = 10**9

    def __init__(self, path: Path) -> None:
        def up(player: Player) -> Worker:
            process = SimpleNamespace(part=player.name, ask=lambda *arguments, **options: None)
            return Worker(cast(Any, process), player)

        self.every = [up(player) for player in path.processes]
        self.asked: list[tuple[str, list[dict[str, Any]]]] = []
        self.quiet_ms: list[int] = []

    def __iter__(self) -> Iterator[Worker]:
        return iter(self.every)

    def __len__(self) -> int:
        return len(self.every)

    def send(
        self,
        command: str,
        members: Callable[[Worker], dict[str, Any]] = lambda _: {},
        **options: Any,
    ) -> list[dict[str, Any]]:
        self.asked.append((command, [members(worker) for worker in self.every]))
        if command != "report":
            return []
        assert options == {"timeout_s": 30.0}, "the counts of many flows take a while"
        return [report({"sent": sent()}), report({"received": received()})]

    def read_clocks(self, *, well: bool) -> None:
        pass

    def clock(self, worker: Worker) -> None:
        return None

    def told_clocks(self) -> dict[str, Any]:
        return {}

    def drain(self, quiet_ms: int) -> None:
        self.quiet_ms.append(quiet_ms)


class Unmetered:
    """A meter that measures nothing."""

    def __init__(self) -> None:
        self.used: dict[str, tuple[float, ...]] = {}
        self.stolen = 0.0

    @contextmanager
    def armed(self, path: Path, hz: int | None) -> Iterator[Any]:
        yield self

    def ready(self) -> None:
        pass

    def begin(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def cost(self, tsc_hz: int) -> Any:
        return SimpleNamespace(load={})


def never(planned: PlannedEvent, start_ns: int) -> EventResult:
    """Fail: these trials have no events."""
    raise AssertionError(planned, start_ns)


def ran(
    *counts: int | tuple[int, int], proving: bool = False, spec: TrialSpec = SPEC, **axes: Any
) -> tuple[Processes, Any]:
    """Run a trial; the ports have counted so many frames each time that they are read, or so many
    that entered and so many that left."""
    path = resolve(Test(**axes), prefix="sm0000", run_dir="/run/x")
    left = list(counts)
    end, exit_ = (
        PortEnd(port, at_switch=True) for port in (path.flows[0].source, path.flows[0].sink)
    )

    def counters() -> PathCounters:
        found = left.pop(0)
        if isinstance(found, int):
            return PathCounters(links={end: PortCounters(found, 0, 0, 0)})
        entered, out = (PortCounters(found[0], 0, 0, 0), PortCounters(0, found[1], 0, 0))
        return PathCounters(links={end: entered, exit_: out})

    trials = Trials(
        path,
        [],
        counters=counters,
        alive=lambda: None,
        take_place=never,
        meter=cast(Meter, Unmetered()),
    )
    processes = Processes(path)
    trials._workers = cast(Any, processes)
    result = trials.measure(spec, proving=proving)
    assert left == []
    return processes, result.counters.links[end].rx


def test_the_counters_of_a_trial_are_those_of_its_measured_phase() -> None:
    _, counted = ran(1000, 1100)
    assert counted == 100


def test_a_path_becomes_quiet_before_its_counters_are_read() -> None:
    processes, _ = ran(0, 100)
    assert processes.quiet_ms == [20, 20]  # after the warm-up and after the measured phase


def test_a_trial_waits_for_residual_frames_and_then_settles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(clock, "sleep", slept.append)
    processes, _ = ran(0, 100, residual=2, settle=5)
    assert processes.quiet_ms == [20, 2000]  # frames of the warm-up count nowhere
    assert slept[-1] == 5
    slept.clear()
    processes, _ = ran(0, 100, residual=0.001)
    assert processes.quiet_ms == [20, 20]
    assert 5 not in slept


def test_the_functional_trial_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(clock, "sleep", slept.append)
    processes, _ = ran(0, 100, residual=2, settle=5, proving=True)
    assert processes.quiet_ms == [20, 20]
    assert 5 not in slept


def test_a_trial_has_a_warm_up_and_a_measured_phase() -> None:
    processes, _ = ran(0, 100)
    commands = [command for command, _ in processes.asked]
    assert commands == ["arm", "start", "start", "report"]
    phases = [members[0] for command, members in processes.asked if command == "start"]
    assert [phase["phase"] for phase in phases] == ["warmup", "measured"]
    assert [phase["duration_ns"] for phase in phases] == [10_000_000, 10_000_000]
    (_, armed) = processes.asked[0]
    assert [len(command["tasks"]) for command in armed] == [1, 1]
    assert armed[0]["tasks"][0]["rate_pps"] == 1000


def phases(processes: Processes) -> list[tuple[str, int]]:
    """Return the phases of a trial with their lengths, in ns."""
    starts = [members[0] for command, members in processes.asked if command == "start"]
    return [(start["phase"], start["duration_ns"]) for start in starts]


def test_frames_push_others_out_of_the_full_queues_of_a_polling_switch() -> None:
    full = TrialSpec(rate_pps=None, duration_s=0.01, warmup_s=0.02)
    polling: dict[str, Any] = {"switch": "testpmd", "engine": "dpdk"}
    pushed = [("warmup", 20_000_000), ("warmup", 200_000), ("measured", 10_000_000)]
    plain = [pushed[0], pushed[2]]
    kept = ((9, 7), (12, 12), (100, 100))
    assert phases(ran(*kept, spec=full, **polling)[0]) == pushed
    assert phases(ran((9, 9), (99, 99), spec=full, **polling)[0]) == plain
    assert phases(ran((9, 7), (99, 99), spec=full)[0]) == plain  # the kernel keeps no frame
    paced = full.model_copy(update={"rate_pps": 1000})
    assert phases(ran((9, 7), (99, 99), spec=paced, **polling)[0]) == plain


def test_a_rate_rises_from_a_tenth_before_a_trial_and_full_speed_does_not() -> None:
    paced = TrialSpec(rate_pps=1000, duration_s=0.01, warmup_s=0.5)
    processes, _ = ran(0, 100, spec=paced, ramp=2)
    assert phases(processes) == [("warmup", 2_500_000_000), ("measured", 10_000_000)]
    (armed,) = (members for command, members in processes.asked if command == "arm")
    assert armed[0]["longest_ns"] == 2_500_000_000
    warmup, measured = (members[0] for name, members in processes.asked if name == "start")
    assert warmup["steps"][:2] == [
        {"at_ns": 0, "share": 0.1},
        {"at_ns": 200_000_000, "share": 0.2},
    ]
    assert warmup["steps"][-1] == {"at_ns": 1_800_000_000, "share": 1.0}
    assert len(warmup["steps"]) == 10
    assert "steps" not in measured
    full = paced.model_copy(update={"rate_pps": None})
    processes, _ = ran(0, 100, spec=full, ramp=2)
    assert phases(processes) == [("warmup", 500_000_000), ("measured", 10_000_000)]


@pytest.mark.parametrize(("proving", "touch"), [(False, "none"), (True, "full")])
def test_each_process_is_told_the_same_of_a_trial(proving: bool, touch: str) -> None:
    long = TrialSpec(rate_pps=1000, duration_s=3, warmup_s=1)
    processes, _ = ran(0, 100, spec=long, proving=proving, touch="none")
    (armed,) = (members for command, members in processes.asked if command == "arm")
    one, other = ({**members, "tasks": None} for members in armed)
    assert one == other
    assert 2**28 <= one.pop("run") < 2**32
    assert one == {
        "touch": touch,
        "longest_ns": 3_000_000_000,
        "interval_ns": long.interval_ns,
        "announce_every_ns": 10_000_000_000,
        "clock": None,
        "tasks": None,
    }


def test_functions_that_share_a_cpu_hold_frames_until_their_turn() -> None:
    assert ran(0, 100)[0].quiet_ms == [20, 20]
    limited, _ = ran(0, 100, cpu_limit="function:50")
    assert limited.quiet_ms == [120, 120]  # 20 ms, and the period of a limit


class Opened:
    """A traffic process that notes its orders."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, dict[str, Any]]] = []

    def ask(self, command: str, **members: Any) -> None:
        self.orders.append((command, members))

    def send(self, command: str, **members: Any) -> None:
        self.orders.append((command, members))

    def answer(self, command: str, **members: Any) -> dict[str, Any]:
        return {}


def test_a_process_that_connects_to_another_opens_its_ports_after_it() -> None:
    test = Test(switch="direct", engine="dpdk", port="vhost-user")
    path = resolve(test, prefix="sm0000", run_dir="/run/x")
    order: list[str] = []

    class Noting(Opened):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def send(self, command: str, **members: Any) -> None:
            order.append(f"{command} {self.name}")

        def answer(self, command: str, **members: Any) -> dict[str, Any]:
            assert members == {"timeout_s": 20.0} or command != "open"
            order.append(f"answer {command} {self.name}")
            return {}

    workers = [Worker(cast(Any, Noting(player.name)), player) for player in path.processes]
    trials = Trials(
        path,
        workers[::-1],
        counters=PathCounters,
        alive=lambda: None,
        take_place=never,
        meter=cast(Meter, Unmetered()),
    )
    trials.open(join=lambda: order.append("join"), settle=lambda: order.append("settle"))
    listening = {player.name for player in path.processes if player.endpoints[0].server}
    (first,), (second,) = listening, {player.name for player in path.processes} - listening
    assert order[:6] == [
        *(f"open {first}", f"answer open {first}"),
        *(f"open {second}", f"answer open {second}"),
        *("join", "settle"),
    ]


def test_another_test_on_a_path_opens_the_ports_with_other_settings_again() -> None:
    long, full, slow = Test(frame_size=1518), Test(frame_size=1518, touch="full"), Test(rate="1k")
    path = resolve(Test(), prefix="sm0000", run_dir="/run/x")
    processes = [Opened() for _ in path.processes]
    workers = [
        Worker(cast(Any, process), player)
        for process, player in zip(processes, path.processes, strict=True)
    ]
    trials = Trials(
        path,
        workers,
        counters=PathCounters,
        alive=lambda: None,
        take_place=never,
        meter=cast(Meter, Unmetered()),
    )
    joined: list[str] = []
    trials.open(join=lambda: joined.append("join"), settle=lambda: joined.append("settle"))
    assert joined == ["join", "settle"]
    for process in processes:
        assert [command for command, _ in process.orders] == ["open", "ready"]
        assert process.orders[-1] == ("ready", {"timeout_ms": 5000})
        process.orders.clear()
    for test, opened in ((slow, False), (long, True), (full, False), (Test(), True)):
        trials.turn_to(resolve(test, prefix="sm0000", run_dir="/run/x"))
        for process in processes:
            commands = [command for command, _ in process.orders]
            assert commands == ["close", "open", "ready"] * opened, test
            if opened:
                assert process.orders[1][1]["timeout_s"] == 20.0
                assert process.orders[2] == ("ready", {"timeout_ms": 5000})
            process.orders.clear()
