"""The judgement of trials: frame balance, activity of the host, doubts with their evidence, and the
verdict."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from switchmark.hosts.base import Host
from switchmark.lab.trial import Trials
from switchmark.metrics.balance import balanced
from switchmark.metrics.disturbed import flooded, frequency_changed, past_switch, slow_path
from switchmark.metrics.doubts import passing
from switchmark.metrics.growth import growing
from switchmark.metrics.outage import outage_of
from switchmark.metrics.profile import weighs
from switchmark.metrics.throughput import is_unstable
from switchmark.metrics.uncertainty import apart_ns
from switchmark.metrics.verdict import judge
from switchmark.model.cable import Calibration, NoCalibration
from switchmark.model.cpus import Cpu, parse_cpus
from switchmark.model.event import REPLACING
from switchmark.model.noise import HostActivity, NoiseCertificate
from switchmark.model.record import GateResult, TrialResult, TrialSpec
from switchmark.observe.noise import Snapshot, snapshot_files
from switchmark.observe.taken import taken_at_once
from switchmark.observe.threads import thread_time_files, thread_times
from switchmark.path.path import Path
from switchmark.path.subflows import flow_run
from switchmark.path.ways import between_hosts, feeds_of, uncounted_ports, ways_of

_LOST_CPU = 0.05
_INTERRUPTS = 1000.0


@dataclass(slots=True)
class JudgedTrials:
    """The trials of one test, measured and judged."""

    host: Host
    """The host of the measurement."""
    path: Path
    """The path of the test."""
    cpus: tuple[Cpu, ...]
    """The CPUs of the host."""
    at_work: Callable[[], Collection[int]] = tuple
    """Returns the processes that do the work of the switch."""
    there: Host | None = None
    """The host of these processes."""
    noise: NoiseCertificate | None = None
    """The noise certificate from before the test."""
    calibration: Calibration | NoCalibration | None = None
    """The performance without a switch."""
    gate: GateResult | None = None
    """The result of the functional trial."""
    capture: int | None = None
    """The number of frames captured per port; None for none."""
    rerun: int = 0
    """How often a trial is repeated that a passing disturbance spoiled."""
    discarded: list[str] = field(default_factory=list)
    """The reason for every trial that was repeated."""

    def measure(self, trials: Trials, spec: TrialSpec) -> TrialResult:
        """Run a trial and judge it. Repeat it while it is spoiled and repeats are left."""
        cpus = self.path.placement.used([cpu.id for cpu in self.cpus])
        discarded: list[str] = []
        for attempt in range(self.rerun + 1):
            before, spent = self._read(cpus)
            trial = trials.measure(spec)
            after, now = self._read(cpus)
            window = after.since(before)
            ran = {name: ns - spent.get(name, 0) for name, ns in now.items()}
            trial = self._judged(_with_threads(trial, ran, window.elapsed_s), window)
            spoiled = passing(trial.doubts)
            if not spoiled or attempt == self.rerun:
                break
            doubts = trial.evidence.doubts
            discarded.append(
                "; ".join(f"{doubt}: {json.dumps(doubts[doubt])}" for doubt in spoiled)
            )
        return self.recall(_with_evidence(trial, discarded=tuple(discarded)))

    def _read(self, cpus: Collection[int]) -> tuple[Snapshot, Mapping[str, int]]:
        """Return the activity of the host and the CPU time of the switch's threads, read
        together."""
        pids, there = self.at_work(), self.there or self.host
        files = {self.host: snapshot_files(cpus)}
        files[there] = [*files.get(there, ()), *thread_time_files(pids)]
        taken = taken_at_once(files)
        return Snapshot.read(taken[self.host], cpus), thread_times(taken[there], pids)

    def recall(self, trial: TrialResult) -> TrialResult:
        """Count a judged trial, new or from an earlier visit, with the trials discarded before
        it."""
        self.discarded += trial.evidence.discarded
        return trial

    def _judged(self, trial: TrialResult, window: HostActivity) -> TrialResult:
        one_way = self.path.test.dimension != "latency"
        through = one_way and all(len(part.ports) == 1 for part in self.path.parts)
        ports = [port.id for port in self.path.wiring.ports]
        functions = {
            part.id: [port.id for port in part.ports]
            for part in self.path.parts
            if part.function.forwards
        }
        ends: dict[str, Any] = {"ports": ports, "through": through, "ways": ways_of(self.path)}
        trial = balanced(trial, functions=functions, **ends, **between_hosts(self.path))
        here = self._doubts_here(trial, window)
        doubts = tuple(dict.fromkeys((*trial.doubts, *here)))
        trial = trial.model_copy(update={"doubts": doubts})
        trial = _with_evidence(trial, window=window, skew_ns=apart_ns(self.noise, self.path.test))
        calibration = self.calibration if isinstance(self.calibration, Calibration) else None
        dedicated_core = self.path.placement.is_alone("switch") and self.path.dedicated_core
        cable = calibration is not None and calibration.switch == self.path.switch.name
        ran = {"dedicated_core": dedicated_core, "cable": cable, "together": self.path.together}
        verdict, reasons = judge(trial, calibration, **ran)
        trial = trial.model_copy(update={"verdict": verdict})
        return _with_evidence(
            trial, verdict=reasons, doubts=self._noise_doubts(trial, here, window)
        )

    def _doubts_here(self, trial: TrialResult, window: HostActivity) -> dict[str, Any]:
        """Return the doubts that this module finds, with their evidence. To add a doubt, add a
        line."""
        happened = trial.evidence.events
        replaced = any(event.kind in REPLACING for event in happened)
        finders = {
            "not-isolated": self._not_isolated(trial),
            "interrupts": self._interrupts(window),
            "frequency-changed": frequency_changed(window),
            "emulated": self._emulated(),
            "no-hugepages": self._small_pages(),
            "clock": self._clock(trial),
            "unstable": not happened and is_unstable(trial) and {"intervals": len(trial.intervals)},
            "outage-methods": _methods(trial),
            "growing": growing(trial),
            "captured": self.capture and {"frames": self.capture},
            "flows-in-runs": self._flow_run(),
            "not-equivalent": list(self.gate.wrong) if self.gate else None,
            "nothing-arrived": {}
            if trial.distinct or not trial.tx_frames
            else {"sent": trial.tx_frames},
            "past-switch": past_switch(trial),
            "flooded": flooded(trial, feeds_of(self.path)),
            "slow-path": slow_path(trial),
            "profiled": weighs(trial),
            "path-unseen": [] if replaced else list(uncounted_ports(self.path, trial)),
        }
        return {name: evidence for name, evidence in finders.items() if evidence}

    def _noise_doubts(
        self, trial: TrialResult, here: Mapping[str, Any], window: HostActivity
    ) -> dict[str, Any]:
        """Return the evidence of every doubt, including those found elsewhere."""
        doubts: dict[str, Any] = {
            "host-busy": {
                "taken": trial.evidence.taken,
                "pressure": window.pressure,
                "scheduler": trial.cost and trial.cost.model_dump(mode="json")["scheduler"],
            },
            "cpu-stolen": {"stolen": window.stolen},
            "started-late": {"started_late_ns": trial.evidence.started_late_ns},
            "flows-mixed": trial.evidence.model_dump(include={"mixed", "unfollowed", "ties"}),
            "short": {"duration_s": trial.spec.duration_s},
            "foreign-frames": {"frames": trial.foreign},
            "clock": "the ends have separate clocks, and their offset is unknown",
            **dict.fromkeys(self.path.placement.doubts, "placement"),
            **here,
        }
        return {doubt: doubts.get(doubt) for doubt in trial.doubts}

    def _not_isolated(self, trial: TrialResult) -> dict[str, float]:
        """Return the share of every CPU that other processes took during the trial. For CPUs that
        no part polled, use the share from before the test."""
        isolated = {cpu.id for cpu in self.cpus if cpu.isolated}
        taken = dict(trial.evidence.taken)
        measured = {cpu for cpus in taken for cpu in parse_cpus(cpus)}
        jitter = self.noise.jitter if self.noise else None
        for cpu, jitter_of in (jitter or {}).items():
            if int(cpu) not in measured and jitter_of.lost is not None:
                taken[cpu] = jitter_of.lost
        return {
            cpus: share
            for cpus, share in taken.items()
            if share > _LOST_CPU and not isolated.issuperset(parse_cpus(cpus))
        }

    def _interrupts(self, window: HostActivity) -> dict[str, float]:
        return {cpu: rate for cpu, rate in window.interrupts_per_s.items() if rate > _INTERRUPTS}

    def _flow_run(self) -> dict[str, int] | None:
        run = flow_run(self.path.test, self.path.engine)
        return {"frames": run} if run > 1 else None

    def _emulated(self) -> str | None:
        mode = self.path.found.modes.get(self.path.test.environment) or ""
        return mode if "emulated" in mode else None

    def _small_pages(self) -> str | None:
        wiring, engine = self.path.wiring, self.path.engine
        small = engine.user_memory and not wiring.memory.huge
        return wiring.memory.kind if small and self.path.test.memory == "auto" else None

    def _clock(self, trial: TrialResult) -> str | None:
        if trial.latency is None or trial.latency.kind != "one-way":
            return None
        if 2 * (unsure_ns := trial.evidence.unsure_ns or 0) > trial.latency.mean:
            return f"the offset of the two clocks has an error of up to {unsure_ns} ns"
        if early := trial.evidence.early:
            return f"{early} frames came before they were sent"
        if self.noise is None or "tsc" not in self.noise.model_fields_set:
            return None
        return None if len(flags := list(self.noise.tsc)) == 2 else f"the TSC is only {flags}"


def _methods(trial: TrialResult) -> dict[str, float] | None:
    """Return the outages by both methods if they differ by more than their errors."""
    outage = outage_of(trial)
    if outage is None or outage.agrees:
        return None
    return {
        "by_loss_s": outage.by_loss_s,
        "by_time_s": outage.by_time_s,
        "unsure_s": outage.unsure_s,
    }


def _with_threads(trial: TrialResult, ran_ns: Mapping[str, int], elapsed_s: float) -> TrialResult:
    """Return the trial with the cores that every thread of the switch used, warm-up and drain
    included."""
    cores = {name: round(ns / 1e9 / elapsed_s, 4) for name, ns in ran_ns.items()}
    used = {name: share for name, share in cores.items() if share > 0.001}
    parts = tuple(
        part.model_copy(update={"threads": used}) if part.part == "switch" else part
        for part in trial.parts
    )
    return trial.model_copy(update={"parts": parts})


def _with_evidence(trial: TrialResult, **members: Any) -> TrialResult:
    """Return the trial with additional evidence."""
    return trial.model_copy(update={"evidence": trial.evidence.model_copy(update=members)})
