"""The lab: brings a test's path up, measures what its search asks for, takes it down again.

A path stays up for the next test if that shares it (`layout.sharing`) and nothing has failed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from switchmark import __version__
from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import traffic_program
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments import inside
from switchmark.errors import SetupFailed, TrialFailed, Unavailable, UsageError
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.lab.calibration import Calibrations, Mode
from switchmark.lab.floor import Floors
from switchmark.lab.gate import Gate, pass_gate
from switchmark.lab.path import BuiltPath, build_path
from switchmark.lab.prepare import environments_of, followed, noise_beside, prepare
from switchmark.lab.trust import Trust, used_cpus
from switchmark.layout.capture import captures, check_capture
from switchmark.layout.layout import Layout
from switchmark.layout.needs import guest_megabytes
from switchmark.layout.roles import has_own_memory, hosted_parts, parts_in_guests, steering_of
from switchmark.layout.sharing import shares_path
from switchmark.machine.anchor import privileges
from switchmark.machine.cgroups import check_cpu_limit
from switchmark.machine.cpus import read_cpus
from switchmark.machine.executor import Executor
from switchmark.machine.host import Host, LocalHost
from switchmark.machine.noise import certificate
from switchmark.machine.perf import Counting
from switchmark.machine.perf import probe as probe_counters
from switchmark.machine.placement import AUTO, Placement
from switchmark.machine.workspace import Workspace
from switchmark.metrics.throughput import is_uncertain, of_latency
from switchmark.metrics.verdict import verdict
from switchmark.model.plan import Plan, Spawn
from switchmark.model.record import Record, TrialResult
from switchmark.model.spec import Test, TrialSpec
from switchmark.model.units import parse_shares
from switchmark.model.version import Version
from switchmark.noises import TABLE as NOISES
from switchmark.noises import parse_noise
from switchmark.searches import TABLE as SEARCHES
from switchmark.searches.base import Estimate, LoadBounds
from switchmark.switches import TABLE as SWITCHES

__all__ = ["Lab", "next_stored"]


class _Paused(Exception):
    """The search wants more trials than this visit may have."""


def next_stored(stored: list[TrialResult], spec: TrialSpec) -> TrialResult | None:
    """The first of some stored trials that was asked for in the same way, or None.

    It and those before it are taken off the list: they were asked for when the R+ was another
    one. Such trials stay in the run folder, and what was measured after them stands behind them.
    """
    while stored:
        trial = stored.pop(0)
        if trial.spec == spec:
            return trial
    return None


class Lab:
    """Runs tests, one at a time. A context manager: what is up at its end is taken down,
    unless `keep`. `capture` frames of each port go to pcap files in the run folder. `left` then
    says what could not be undone, and how it is.

    `calibrate` says whether the traffic program is measured without a switch first, `gate` what
    becomes of a switch that fails the functional trial, `rerun` how often a trial that a passing
    disturbance spoiled is run again."""

    def __init__(
        self,
        folder: Path,
        *,
        keep: bool = False,
        capture: int | None = None,
        calibrate: Mode = "never",
        gate: Gate = "refuse",
        rerun: int = 0,
    ) -> None:
        self._folder = folder
        self._keep = keep
        self._capture = capture
        self._gate: Gate = gate
        self._rerun = rerun
        self._calibrations = Calibrations(calibrate, self._without_switch)
        self._floors = Floors(calibrate != "never", self._without_switch)
        self._host: Host = LocalHost()
        self._probed: dict[tuple[str, str], Version] = {}
        self._counting: Counting | None = None
        self._workspace: Workspace
        self._executor: Executor
        self._up: BuiltPath | None = None
        self._not_undone: tuple[str, ...] = ()
        self.kept: list[str] = []
        self.left: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        self._workspace = Workspace()
        self._executor = Executor(
            {self._host.name: self._host},
            self._workspace,
            inside=inside,
            logs_dir=self._folder / "logs",
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.kept:
            failures = self._executor.unwind()
            clean = f"what is left is undone by: switchmark clean {self._workspace.run}"
            self.left = (*failures, clean) if failures else ()
        self._workspace.close()

    def versions(self, test: Test) -> Mapping[str, str]:
        """What a figure depends on beside its axes: versions, and the placement that this host
        makes of `auto`. Unavailable if something is missing."""
        switch, engine = SWITCHES[test.switch], ENGINES[test.engine]
        probes = {("switch", switch.name): switch.probe, ("engine", engine.name): engine.probe}
        for name in environments_of(test):
            probes["environment", name] = ENVIRONMENTS[name].probe
        if test.noise is not None:
            kind, _ = parse_noise(test.noise)
            probes["noise", kind] = NOISES[kind].probe
        if not FUNCTIONS[test.function].played:
            probes["function", test.function] = FUNCTIONS[test.function].probe
        found = {"switchmark": __version__}
        for (what, name), probe in probes.items():
            version = self._probe(what, name, probe)
            found[f"{what} {name}"] = " ".join(filter(None, (version.text, version.mode)))
        if test.placement == AUTO:
            mode = self._probe("switch", test.switch, switch.probe).mode
            found["placement"] = followed(test, mode)
        return found

    def _probe(self, what: str, name: str, probe: Callable[[Host], Version]) -> Version:
        if (what, name) not in self._probed:
            self._probed[what, name] = probe(self._host)
        return self._probed[what, name]

    def run(
        self,
        number: int,
        key: str,
        test: Test,
        stored: Sequence[TrialResult],
        on_trial: Callable[[TrialResult], None],
        *,
        then: Test | None = None,
    ) -> Record:
        """Run one test to its end: a `visit` without a limit."""
        record = self.visit(number, key, test, stored, on_trial, then=then)
        assert record is not None
        return record

    def visit(
        self,
        number: int,
        key: str,
        test: Test,
        stored: Sequence[TrialResult],
        on_trial: Callable[[TrialResult], None],
        *,
        then: Test | None = None,
        r_plus_pps: float | None = None,
        limit: int | None = None,
    ) -> Record | None:
        """Run one test. `stored` are trials of an earlier run of it: a search gets them
        again, in order, before it measures anew. Expected failures are in the record.

        The path is left up if `then`, the next test, shares it. `r_plus_pps` is what a rate in
        percent is a share of: all that arrives under saturation. None if the search wants more
        new trials than `limit`: those that it had are stored trials of the next call.
        """
        record = Record(
            key=key,
            number=number,
            status="ok",
            error=None,
            test=test,
            r_plus_pps=r_plus_pps,
            started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        )
        self._not_undone = ()
        try:
            return self._run(record, list(stored), on_trial, then, limit)
        except (Unavailable, UsageError) as error:
            refused = {"status": "refused", "error": self._reasons(error)}
            return record.model_copy(update=refused)
        except (SetupFailed, TrialFailed) as error:
            reasons = self._reasons(error)
            failed = {"status": "failed", "error": reasons, "doubts": error.doubts}
            return record.model_copy(update=failed)

    def _reasons(self, error: Exception) -> str:
        """Why a test has no result, and what of it could not be undone."""
        return "\n".join((str(error), *self._not_undone))

    def _run(
        self,
        record: Record,
        stored: list[TrialResult],
        on_trial: Callable[[TrialResult], None],
        then: Test | None,
        limit: int | None,
    ) -> Record | None:
        test = record.test
        versions = self.versions(test)
        reused = self._goes_on_with(test, versions)
        setup_s = 0.0
        if reused:
            assert self._up is not None
            path = self._up
            layout, placement = path.layout, path.placement
            noise = self._noise(layout, placement)
            calibration = self._calibrations.of(test, layout, placement, versions)
            floor = self._floors.of(test, layout, placement)
        else:
            self._take_down()
            layout, placement = self._drawn(test)
            noise = self._noise(layout, placement)
            calibration = self._calibrations.of(test, layout, placement, versions)
            floor = self._floors.of(test, layout, placement)
            before = time.monotonic()
            path = self._bring_up(layout, placement)
            setup_s = time.monotonic() - before
        trust = Trust(
            layout,
            placement,
            read_cpus(),
            at_work=path.at_work,
            noise=noise,
            calibration=calibration,
            gate=path.gate,
            capture=self._capture,
            rerun=self._rerun,
        )

        def keep(trial: TrialResult) -> None:
            on_trial(trial)
            self._calibrations.learn(test, layout, placement, versions, trial)
            self._floors.learn(test, layout, placement, trial)

        down = not self._keep
        estimate: Estimate | None = None
        try:
            with suppress(_Paused):
                estimate = self._estimate(path, trust, record, stored, keep, limit)
            down = down and not shares_path(test, then)
        finally:
            before = time.monotonic()
            if down:
                self._take_down()
            elif self._keep:
                self.kept = self._entrances(path.layout)
        teardown_s = time.monotonic() - before if down else 0.0
        if estimate is None and not self._not_undone:
            return None
        estimate = estimate or Estimate((), None)
        version = self._probe("switch", test.switch, layout.switch.probe)
        modes = dict.fromkeys(
            part.engine_mode
            for trial in estimate.trials
            for part in trial.parts
            if part.engine_mode
        )
        return record.model_copy(
            update={
                "status": "failed" if self._not_undone else "ok",
                "error": "\n".join(self._not_undone) or None,
                "semantics": layout.wiring.semantics,
                "steering": steering_of(layout),
                "port": ", ".join(sorted({end.kind for end in layout.endpoints.values()})),
                "memory": layout.wiring.memory if has_own_memory(layout) else None,
                "engine_mode": " | ".join(modes) or None,
                "switch_version": version.text,
                "switch_mode": version.mode,
                "nics": {place: str(nic) for place, nic in path.nics.items()},
                "verdict": estimate.verdict or verdict(estimate.trials),
                "doubts": tuple(
                    dict.fromkeys(
                        [doubt for trial in estimate.trials for doubt in trial.doubts]
                        + ["uncertain"] * is_uncertain(test, estimate.trials)
                    )
                ),
                "noise": {"before": noise, "after": self._noise(layout, placement)},
                "calibration": calibration,
                "floor": floor,
                "gate": path.gate,
                "discarded": tuple(trust.discarded),
                "placement": placement.as_dict(),
                "trials": estimate.trials,
                "search": estimate.summary,
                "reused": reused,
                "setup_s": round(setup_s, 3),
                "teardown_s": round(teardown_s, 3),
            }
        )

    def _estimate(
        self,
        path: BuiltPath,
        trust: Trust,
        record: Record,
        stored: list[TrialResult],
        on_trial: Callable[[TrialResult], None],
        limit: int | None,
    ) -> Estimate:
        """What the test's search finds on a path; what accompanies its trials ends with them.
        _Paused where it wants more new trials than `limit`."""
        test = record.test
        left = [-1 if limit is None else limit]

        def measure(spec: TrialSpec) -> TrialResult:
            if (before := next_stored(stored, spec)) is not None:
                return trust.recall(before)
            if left[0] == 0:
                raise _Paused
            left[0] -= 1
            result = trust.measure(path.trials, spec)
            self._check_noise(noise)
            on_trial(result)
            return result

        noise = noise_beside(path.layout, path.placement)
        rate_pps = test.rate_pps
        if test.parsed_rate.share is not None and record.r_plus_pps is not None:
            rate_pps = test.parsed_rate.share * record.r_plus_pps / path.layout.streams
        bounds = LoadBounds(
            rate_pps,
            test.duration,
            test.warmup,
            test.repeat,
            loss_ratio=test.loss_ratio,
            precision=test.precision,
            loads=parse_shares(test.loads),
            until_certain=test.until_certain,
            senders=path.layout.streams,
            latency=of_latency(test),
            judge=verdict,
        )
        mark = self._executor.mark()
        try:
            self._executor.execute(
                captures(self._folder, path.layout, record.number, self._capture)
            )
            self._executor.execute(noise)
            return SEARCHES[test.search].find(measure, bounds)
        finally:
            if not self._keep:
                self._not_undone += self._executor.unwind(to=mark)

    def _check_noise(self, noise: Plan) -> None:
        """TrialFailed if a process of it has ended."""
        for step in noise:
            if isinstance(step, Spawn):
                process = self._executor.process(step.name)
                if process.poll() is not None:
                    words = "".join(f"\n  {line}" for line in process.last_words().splitlines())
                    raise TrialFailed(f"{step.why}: it ended during the trial{words}")

    def _goes_on_with(self, test: Test, versions: Mapping[str, str]) -> bool:
        """Turn the path that is up to another test; False if it does not serve or is dead, or
        stands in the way of a calibration or a floor."""
        path = self._up
        if path is None or not shares_path(path.layout.test, test):
            return False
        if any(process.poll() is not None for process in path.processes):
            return False
        layout = replace(path.layout, test=test)
        if self._calibrations.lacks(test, layout, path.placement, versions):
            return False
        if self._floors.lacks(test, layout, path.placement):
            return False
        with suppress(TrialFailed):
            path.layout = layout
            path.trials.turn_to(path.layout)
            return True
        return False

    def _drawn(self, test: Test) -> tuple[Layout, Placement]:
        """What is to be built for a test. Unavailable or UsageError if this host cannot."""
        engine = ENGINES[test.engine]
        if engine.privilege == "root" and privileges() != "root":
            raise Unavailable(
                f"engine {engine.name} needs root itself, not that of a user namespace",
                hint="run it with sudo",
            )
        if test.limits:
            check_cpu_limit(self._host)
        layout, placement = self._prepared(test)
        self._refuse_missing_ports(layout)
        self._refuse_without_memory(layout)
        refusal = layout.switch.accepts(layout.wiring)
        if refusal:  # for a reason that only this host gives, such as its memory
            raise Unavailable(refusal)
        if self._capture:
            check_capture(layout)
        return layout, placement

    def _prepared(self, test: Test) -> tuple[Layout, Placement]:
        return prepare(
            test,
            self._workspace.run,
            str(self._workspace.folder),
            self._probe("switch", test.switch, SWITCHES[test.switch].probe).mode,
            {
                name: self._probe("environment", name, ENVIRONMENTS[name].probe).mode
                for name in environments_of(test)
            },
            self._executor.can,
        )

    def _bring_up(self, layout: Layout, placement: Placement) -> BuiltPath:
        """Build a path and let it show that its switch does the work. What fails leaves nothing
        up."""
        mark = self._executor.mark()
        try:
            path = self._build(layout, placement)
            path.gate = pass_gate(layout, path.trials, self._gate)
        except BaseException:
            self._not_undone += self._executor.unwind(to=mark)
            raise
        self._up = path
        return path

    def _take_down(self) -> None:
        """Undo the path that is up, if there is one."""
        if self._up is not None:
            path, self._up = self._up, None
            path.trials.end()
            self._not_undone += self._executor.unwind(to=path.mark)

    def _noise(self, layout: Layout, placement: Placement) -> dict[str, Any]:
        """What else happens on the cores of a test while it rests. What polls on a path that is
        up is no noise: its cores are left out."""
        polling = ["switch", *(part.id for part, _, _ in hosted_parts(layout))]
        cpus = used_cpus(placement, but=polling if self._up or self.kept else ())
        return dict(certificate(self._host, traffic_program(), cpus))

    def _without_switch(
        self,
        test: Test,
        placement: Placement,
        spec: TrialSpec,
        enough: Callable[[Sequence[TrialResult]], bool],
    ) -> Sequence[TrialResult]:
        """Trials of a test without a switch, on the seats of another one's placement and beside
        the same noise, until there are enough. No path may be up."""
        layout, _ = self._prepared(test)
        seats = {part: seat.cpus for part, seat in placement.seats.items()}
        layout = replace(layout, seats=seats)
        mark = self._executor.mark()
        try:
            path = self._build(layout, placement)
            self._executor.execute(noise_beside(layout, placement))
            trials: list[TrialResult] = []
            while not trials or not enough(trials):
                trials.append(path.trials.measure(spec))
            return trials
        finally:
            self._not_undone += self._executor.unwind(to=mark)

    def _refuse_missing_ports(self, layout: Layout) -> None:
        """Unavailable where an environment cannot have such ports on this host."""
        for part in layout.parts:
            name = layout.nodes[part.id].environment
            if part.physical:
                continue
            missing = self._probe("environment", name, ENVIRONMENTS[name].probe).missing
            for port in part.ports:
                if found := missing.get(layout.endpoints[port.id].kind):
                    raise Unavailable(found[0], hint=found[1])

    def _refuse_without_memory(self, layout: Layout) -> None:
        """Unavailable where the machines of a test would not fit into this host's memory."""
        needed, meminfo = guest_megabytes(layout), self._host.read("/proc/meminfo")
        free = int(meminfo.partition(b"MemAvailable:")[2].split()[0]) // 1024
        if needed > free:
            count = len(parts_in_guests(layout))
            raise Unavailable(
                f"{count} virtual machines need {needed} MB of memory; {free} MB are available",
                hint="--pairs with a smaller number",
            )

    def _build(self, layout: Layout, placement: Placement) -> BuiltPath:
        if self._counting is None:
            self._counting = probe_counters(self._host)
        return build_path(self._executor, self._host, layout, placement, self._counting)

    def _entrances(self, layout: Layout) -> list[str]:
        """How to enter each node of a path that is kept."""
        nodes = dict.fromkeys((layout.wiring.at, *layout.nodes.values()))
        return [
            " ".join(inside(node, ("bash",)))
            for node in nodes
            if inside(node, ("bash",)) != ("bash",)
        ] + [f"switchmark clean {self._workspace.run}"]
