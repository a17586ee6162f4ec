"""The lab: it brings up the path of a test, runs the trials of its search, and takes the path down.

A path stays up for the next test if both share it (`path.path.path_key`) and nothing has failed.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count
from types import TracebackType
from typing import Self

from switchmark import clock
from switchmark.environments import inside
from switchmark.errors import SetupFailed, TrialFailed, Unavailable, UsageError
from switchmark.hosts.base import Host
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.programs import tool_program
from switchmark.lab.cable import Basis
from switchmark.lab.cable_latency import CableLatencies
from switchmark.lab.calibration import Calibrations, Mode
from switchmark.lab.drawing import draw, prepared
from switchmark.lab.gate import Gate, pass_gate
from switchmark.lab.host_preparation import HostPreparation
from switchmark.lab.judging import JudgedTrials
from switchmark.lab.probes import Location, Probes
from switchmark.lab.running import RunningPath, build_path, entrances
from switchmark.lab.searching import Paused, bounds_of, next_stored, recorded, repeat_search
from switchmark.lab.trial import Trials
from switchmark.metrics.doubts import UNDO_REFUSED
from switchmark.model.cable import CableLatency, Calibration, NoCableLatency, NoCalibration
from switchmark.model.noise import HostNoise, NoiseCertificate
from switchmark.model.plan import HOST, Plan, Spawn
from switchmark.model.record import Record, TrialResult, TrialSpec
from switchmark.model.test import AXES, Test
from switchmark.model.visit import Visit
from switchmark.observe.cpus import read_cpus
from switchmark.observe.noise import certificate
from switchmark.observe.perf import CountableEvents
from switchmark.observe.perf import probe as probe_counters
from switchmark.path.background import captures, noise_of
from switchmark.path.path import Path, shares_path
from switchmark.path.placement import Placement
from switchmark.path.resolving import turned_to
from switchmark.runs.executor import Executor
from switchmark.runs.own_run import OwnRun
from switchmark.runs.workspace import Workspace
from switchmark.searches.base import Estimate

_FIRST_WARMUP_S, _SHORTEST_S = AXES["warmup"].default, 0.01


def _warm_up(trials: Trials, spec: TrialSpec) -> None:
    """Run a full warm-up before the first trial on a path, if the trials of a round have a shorter
    one. A test without warm-up gets none."""
    if 0 < spec.warmup_s < _FIRST_WARMUP_S:
        longer = {"duration_s": _SHORTEST_S, "warmup_s": _FIRST_WARMUP_S}
        trials.measure(spec.model_copy(update=longer))


@dataclass(frozen=True, slots=True)
class Instruments:
    """The state that labs of one run share."""

    hosts: Hosts
    """The hosts and their connections."""
    probes: Probes
    """The results of probes."""
    calibrations: Calibrations
    """The rates on cables."""
    cable_latencies: CableLatencies
    """The latencies on cables."""
    preparation: HostPreparation
    """The preparation of the hosts, and its undo."""
    counting: dict[Host, CountableEvents] = field(default_factory=dict)
    """The processor counters of each host, once they are known."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A path that is up for a test, and the measurements before its trials."""

    running: RunningPath
    basis: Basis
    """The path, and what its figures depend on."""
    noise: NoiseCertificate
    """The noise of the host before the path was up."""
    calibration: Calibration | NoCalibration | None
    """The baseline rate; None if it is not measured."""
    cable_latency: CableLatency | NoCableLatency | None
    """The baseline latency; None if it is not measured."""
    reused: bool
    """Whether an earlier test built the path."""


class Lab:
    """A lab that runs tests, one at a time.

    The lab is a context manager. It takes the path down at its end, unless `keep` is set. `left`
    then lists what could not be undone, and how to clean it up. `capture` is the number of frames
    per port that go to pcap files in the run folder.

    `calibrate` is when to measure the baseline without a switch. `gate` is the action for a switch
    that fails the functional trial. `rerun` is how often to repeat a trial that a passing
    disturbance spoiled. `hosts` are the hosts that tests name; by default the lab opens its own.

    A lab with `beside` shares the `instruments` of that lab, while both have a path up. The logs of
    its processes go to the folder `logs`.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        *,
        keep: bool = False,
        capture: int | None = None,
        calibrate: Mode = "never",
        gate: Gate = "refuse",
        rerun: int = 0,
        hosts: Hosts | None = None,
        beside: Lab | None = None,
        logs: str = "",
    ) -> None:
        self._folder = folder
        self._logs = folder / "logs" / logs
        self._keep = keep
        self._capture = capture
        self._gate: Gate = gate
        self._rerun = rerun
        self._beside = beside
        self._hosts_are_own = hosts is None and beside is None
        self.instruments: Instruments = (
            self._instruments(Hosts(OwnRun) if hosts is None else hosts, calibrate)
            if beside is None
            else beside.instruments
        )
        self._hosts = self.instruments.hosts
        self._host = self._hosts[HOST.host]  # the host of the current test
        self._probes = self.instruments.probes
        self._calibrations = self.instruments.calibrations
        self._cable_latencies = self.instruments.cable_latencies
        self._counting = self.instruments.counting
        self._workspace: Workspace
        self._executor: Executor
        self._up: RunningPath | None = None
        self._noise_before: tuple[Test, NoiseCertificate] | None = None
        self._not_undone: tuple[str, ...] = ()
        self.unbuilt = False
        self.kept: list[str] = []
        self.left: tuple[str, ...] = ()

    def _instruments(self, hosts: Hosts, calibrate: Mode) -> Instruments:
        return Instruments(
            hosts,
            Probes(hosts),
            Calibrations(calibrate, self._without_switch),
            CableLatencies(calibrate != "never", self._without_switch),
            HostPreparation(hosts, self._folder / "logs" / "preparation"),
        )

    def __enter__(self) -> Self:
        self._workspace = Workspace()
        self._executor = Executor(
            self._hosts,
            self._workspace,
            inside=inside,
            logs_dir=self._logs,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with ExitStack() as ending:
            if self._hosts_are_own:
                ending.callback(self._hosts.close)
            ending.callback(self._workspace.close)
            if not self.kept:
                failures = self._executor.unwind()
                clean = f"what is left is undone by: switchmark clean {self._workspace.run}"
                self.left = (*failures, clean) if failures else ()
                self.left += tuple(self._executor.refused)
            if self._beside is None:
                self.left += self.instruments.preparation.restore()

    def versions(self, test: Test) -> Mapping[str, str]:
        """Return the versions that the figures of a test depend on in addition to its axes, and the
        placement that `auto` selects on this host. Raise Unavailable if something is missing."""
        return self._probes.locate(test).versions()

    @property
    def up(self) -> RunningPath | None:
        """Return the path that is up; None if there is none."""
        return self._up

    @property
    def executor(self) -> Executor:
        return self._executor

    @property
    def workspace(self) -> Workspace:
        return self._workspace

    def calibrate(self, test: Test) -> None:
        """Measure what a test needs on cables. This takes down the path of this lab. Raise
        Unavailable or UsageError if this host cannot run the test."""
        self.take_down()
        location = self._move_to(test)
        basis = Basis(self._drawn(location), location.versions(), *location.booted)
        self._calibrations.of(basis)
        self._cable_latencies.of(basis)

    def run(self, test: Test, *, then: Test | None = None) -> Record:
        """Run one complete test on its own."""
        record = self.visit(Visit(test, then=then))
        assert record is not None
        return record

    def visit(self, visit: Visit) -> Record | None:
        """Run one test, or a part of its repeats. The record contains expected failures.

        Return None if the test needs more new repeats than the visit allows. Its trials so far are
        then the stored trials of the next visit. The path stays up if the next test shares it.
        """
        record = Record(
            key=visit.key,
            number=visit.number,
            status="ok",
            error=None,
            test=visit.test,
            r_plus_pps=visit.r_plus_pps,
            started=clock.stamp(),
        )
        self._not_undone, self.unbuilt = (), False
        try:
            return self._run(record, visit)
        except (Unavailable, UsageError) as error:
            refused = {"status": "refused", "error": self._reasons(error)}
            return record.model_copy(update=refused)
        except (SetupFailed, TrialFailed) as error:
            failed = {"status": "failed", "error": self._reasons(error)}
            return record.model_copy(update={**failed, "doubts": error.doubts})

    def _reasons(self, error: Exception) -> str:
        """Return the reasons for a missing result, and what could not be undone."""
        return "\n".join((str(error), *self._not_undone))

    def _run(self, record: Record, visit: Visit) -> Record | None:
        location = self._move_to(visit.test)
        ready = self._ready(location, visit)
        running, judged = ready.running, self._judged(ready)
        estimate, teardown_s = self._measured(ready, judged, visit)
        if estimate is None and not self._not_undone:
            return None
        version, lifetimes = location.switch, self._executor.lifetimes
        result = recorded(record, estimate or Estimate((), None), running, judged)
        refused = tuple(self._executor.refused)
        self._executor.refused.clear()
        return result.model_copy(
            update={
                "doubts": (*result.doubts, *([UNDO_REFUSED] if refused else [])),
                "refused": refused or None,
                "status": "failed" if self._not_undone else "ok",
                "error": "\n".join(self._not_undone) or None,
                "switch_version": version.text,
                "switch_mode": version.mode,
                "prepared": self.instruments.preparation.values(location) or None,
                "noise": HostNoise(before=ready.noise, after=self._noise(ready.basis.path)),
                "calibration": ready.calibration,
                "floor": ready.cable_latency,
                "reused": ready.reused,
                "setup_s": 0.0 if ready.reused else round(running.setup_s, 3),
                "start_s": None if ready.reused else lifetimes.start_s(running.daemons),
                "teardown_s": round(teardown_s, 3),
                "stop_s": lifetimes.stop_s(running.daemons),
            }
        )

    def _ready(self, location: Location, visit: Visit) -> Ready:
        """Bring the path of a test up, unless it is up. Before that, take down another path, and
        measure the noise and the missing baselines on cables."""
        test, versions = visit.test, location.versions()
        if visit.among:
            self._require_whole(test)
        goes_on = self._goes_on_with(location, versions)
        if not goes_on:
            self.take_down()
        running = self._up
        self.unbuilt = running is None
        path = running.path if running else self._drawn(location)
        if not (visit.among and goes_on and self._noise_before and self._noise_before[0] == test):
            self._noise_before = test, self._noise(path)
        basis = Basis(path, versions, *location.booted)
        calibration, cable_latency = self._calibrations.of(basis), self._cable_latencies.of(basis)
        if running is None:
            running = self._bring_up(path)
        elif visit.among and running.frames_after is None:
            self._prove_again(running)
        return Ready(
            running,
            basis,
            self._noise_before[1],
            calibration,
            cable_latency,
            running.built_for is not test if visit.among else goes_on,
        )

    def _judged(self, ready: Ready) -> JudgedTrials:
        return JudgedTrials(
            self._host,
            ready.basis.path,
            read_cpus(self._host),
            at_work=ready.running.at_work,
            there=ready.running.host,
            noise=ready.noise,
            calibration=ready.calibration,
            gate=ready.running.gate,
            capture=self._capture,
            rerun=self._rerun,
        )

    def _measured(
        self, ready: Ready, judged: JudgedTrials, visit: Visit
    ) -> tuple[Estimate | None, float]:
        """Return the estimate of the test's search, and how many seconds it took to take the path
        down. The estimate is None if the test needs another visit. The path stays up for this
        visit, for a next test that shares it, and if the user keeps it."""

        def keep(trial: TrialResult) -> None:
            visit.on_trial(trial)
            self._calibrations.learn(ready.basis, trial)
            self._cable_latencies.learn(ready.basis, trial)

        running, down = ready.running, not self._keep
        estimate: Estimate | None = None
        try:
            with suppress(Paused):
                estimate = self._estimate(running, judged, replace(visit, on_trial=keep))
            comes_again = bool(visit.among) and estimate is None
            down = down and not comes_again and not shares_path(visit.test, visit.then)
        finally:
            before = clock.monotonic()
            if down:
                self.take_down()
            elif self._keep:
                self.kept = entrances(running.path, self._workspace.run)
        return estimate, clock.monotonic() - before if down else 0.0

    def _estimate(self, running: RunningPath, judged: JudgedTrials, visit: Visit) -> Estimate:
        """Return the estimate of the test's search on a path. Noise and captures end with the
        trials. Raise Paused if the search needs more new repeats than the visit allows."""
        stored, search = list(visit.stored), running.path.drivers.search
        begun: set[int] = set()

        def measure(spec: TrialSpec) -> TrialResult:
            if (before := next_stored(stored, spec)) is not None:
                return judged.recall(before)
            repeat = len(begun) if search.independent else spec.repeat
            if visit.round is not None and not running.is_warm:
                _warm_up(running.trials, spec)
            running.is_warm = True
            if len(begun) == visit.limit and repeat not in begun:
                raise Paused
            begun.add(repeat)
            running.trials.keep = partial(visit.on_intervals, spec)
            result = judged.measure(running.trials, spec)
            _check_noise(self._executor, noise)
            if visit.round is not None:
                result = result.model_copy(update={"round": visit.round})
            visit.on_trial(result)
            return result

        noise = noise_of(running.path, read_cpus(self._host))
        bounds = bounds_of(visit.test, running.path.streams, visit.r_plus_pps)
        mark = self._executor.mark()
        try:
            if self._capture:
                (self._folder / "captures").mkdir(exist_ok=True)
            name = self._capture_name(visit.number)
            captured = captures(self._folder, self._logs, running.path, name, self._capture)
            self._executor.execute(captured)
            self._executor.execute(noise)
            return repeat_search(search, measure, bounds)
        finally:
            if not self._keep:
                self._not_undone += self._executor.unwind(to=mark)

    def _capture_name(self, number: int) -> str:
        """Return a name for the captures of a visit: the number of the test, with the number of the
        visit from the second visit on."""
        later = (f"{number:04d}.{visit}" for visit in count(2))
        return next(
            name
            for name in chain([f"{number:04d}"], later)
            if not any(self._logs.glob(f"capture-{name}-*"))
        )

    def _move_to(self, test: Test) -> Location:
        """Switch to the hosts of a test, prepare them as it asks, and return its location."""
        location = self._probes.locate(test)
        self._host, self._executor.home = location.host, location.home
        self.instruments.preparation.prepare(location)
        return location

    def _goes_on_with(self, location: Location, versions: Mapping[str, str]) -> bool:
        """Switch the path that is up to another test. Return False if the path does not suit the
        test, has died, or blocks a calibration or a cable latency."""
        if (running := self._up) is None or not running.serves(location.test):
            return False
        path = turned_to(running.path, location.test)
        basis = Basis(path, versions, *location.booted)
        if self._calibrations.lacks(basis) or self._cable_latencies.lacks(basis):
            return False
        with suppress(TrialFailed):
            running.path = path
            running.trials.turn_to(running.path)
            return True
        return False

    def _drawn(self, location: Location) -> Path:
        """Return the path to build for a test, on hosts that are prepared for its CPUs. Raise
        Unavailable or UsageError if its hosts cannot."""
        captured = bool(self._capture)
        path = draw(location, self._workspace, self._executor.can, captured=captured)
        self.instruments.preparation.make_room(location, path)
        return path

    def _bring_up(self, path: Path) -> RunningPath:
        """Build a path and run its functional trial. If this fails, undo everything."""
        mark, before = self._executor.mark(), clock.monotonic()
        try:
            running = self._build(path)
            self.unbuilt = False
            running.gate = pass_gate(path, running.trials, self._gate)
        except BaseException:
            self._not_undone += self._executor.unwind(to=mark)
            raise
        running.built_for, running.setup_s = path.test, clock.monotonic() - before
        self._up = running
        return running

    def _require_whole(self, test: Test) -> None:
        """Raise TrialFailed if the path of a test died while it rested, and take it down."""
        if (running := self._up) is None or not shares_path(running.path.test, test):
            return
        try:
            running.alive("between two rounds")
            if not running.serves(test):
                raise TrialFailed("a traffic process died between two rounds")
        except TrialFailed:
            self.take_down()
            raise

    def _prove_again(self, running: RunningPath) -> None:
        """Repeat the functional trial after the path has rested. If it fails, take the path
        down."""
        try:
            gate = pass_gate(running.path, running.trials, self._gate)
        except BaseException:
            self.take_down()
            raise
        running.frames_after = gate.frames if gate else 0

    def take_down(self) -> None:
        """Take down a path that is up."""
        if self._up is not None:
            running, self._up = self._up, None
            running.trials.end()
            self._not_undone += self._executor.unwind(to=running.mark)

    def _noise(self, path: Path) -> NoiseCertificate:
        """Return the background load on the cores of a test while it is idle. If a path is up,
        leave out the cores of its polling processes, because they are not noise."""
        polling = ["switch", *(part.id for part in path.hosted)]
        but = polling if self._up or self.kept else ()
        cpus = path.placement.used([cpu.id for cpu in read_cpus(self._host)], but=but)
        return certificate(self._host, tool_program(), cpus)

    def _without_switch(
        self,
        test: Test,
        placement: Placement,
        spec: TrialSpec,
        enough: Callable[[Sequence[TrialResult]], bool],
    ) -> Sequence[TrialResult]:
        """Run trials of a test without a switch until there are enough. The trials use the CPUs of
        another test's placement and the same background load."""
        cable_path = prepared(self._probes.locate(test), self._workspace, self._executor.can)
        path = cable_path.placed(placement)
        mark = self._executor.mark()
        try:
            running = self._build(path)
            self._executor.execute(noise_of(path, read_cpus(self._host)))
            trials: list[TrialResult] = []
            while not trials or not enough(trials):
                trials.append(running.trials.measure(spec))
            return trials
        finally:
            self._not_undone += self._executor.unwind(to=mark)

    def _build(self, path: Path) -> RunningPath:
        if self._host not in self._counting:
            self._counting[self._host] = probe_counters(self._host)
        counting = self._counting[self._host]
        return build_path(self._executor, self._host, path, counting)


def _check_noise(executor: Executor, noise: Plan) -> None:
    """Raise TrialFailed if a process of the background load has ended."""
    for step in noise:
        if isinstance(step, Spawn):
            process = executor.process(step.name)
            if process.poll() is not None:
                output = "".join(f"\n  {line}" for line in process.last_words().splitlines())
                raise TrialFailed(f"{step.why}: it ended during the trial{output}")
