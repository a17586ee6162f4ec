"""An event of a trial: its steps at its moment, and the proof that it took place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from switchmark import clock
from switchmark.errors import SetupFailed, TrialFailed, Unavailable
from switchmark.hosts.base import Process
from switchmark.model.event import EventResult
from switchmark.model.plan import End, Plan, Run, Spawn, Wait
from switchmark.model.record import TrialResult
from switchmark.path.assembly import PlannedEvent
from switchmark.runs.executor import Executor

_Identities = Mapping[str, Process]

_NEAR = 0.1
"""The largest error of the share of a load that counts as proved."""


@dataclass(frozen=True, slots=True)
class Happening:
    """Carries out the events of a path that is up."""

    executor: Executor
    """The executor that built the path."""
    mark: int
    """Its mark from before the path was built: what an event starts belongs to the path."""

    def take_place(self, planned: PlannedEvent, start_ns: int) -> EventResult:
        """Wait for the moment of an event, carry it out, and return its result. `start_ns` is the
        start of the measured phase. Raise TrialFailed if the event cannot be proved.

        A switch that does not come back is a result (`failure`)."""
        change, kind = planned.change, planned.event.kind
        due_ns = round(planned.at_s * 1e9)
        clock.sleep(max(0, start_ns + due_ns - clock.monotonic_ns()) / 1e9)
        times = {"due_ns": due_ns, "began_ns": clock.monotonic_ns() - start_ns}
        before = self._processes(change.disturb)
        proof = [*self._disturbed(change.disturb, kind), *_ends(before)]
        times["disturbed_ns"] = clock.monotonic_ns() - start_ns
        failure = None
        try:
            self.executor.execute(change.restore, since=self.mark)
            times["restored_ns"] = clock.monotonic_ns() - start_ns
            self.executor.execute(planned.settled, since=self.mark)
            times["settled_ns"] = clock.monotonic_ns() - start_ns
        except (SetupFailed, Unavailable) as error:
            failure = str(error)
        else:
            proof += self._starts(change.restore, before, kind)
            if planned.event.to:
                proof.append(f"{planned.event.to} was probed as {planned.version}")
        return EventResult(kind=kind, proof=tuple(proof), failure=failure, **times)

    def _disturbed(self, steps: Plan, kind: str) -> list[str]:
        """Disturb the switch; return what the Waits observed, or the commands if there are none."""
        try:
            self.executor.execute(steps, since=self.mark)
        except (SetupFailed, Unavailable) as error:
            raise TrialFailed(f"event {kind} cannot be proved: {error}") from error
        waits = [step.why for step in steps if isinstance(step, Wait)]
        return waits or [step.why for step in steps if isinstance(step, Run)]

    def _processes(self, steps: Plan) -> _Identities:
        """Return the processes that steps end, by name."""
        names = (step.name for step in steps if isinstance(step, End))
        return {name: self.executor.process(name) for name in names}

    def _starts(self, steps: Plan, before: _Identities, kind: str) -> list[str]:
        """Return a sentence for each new process. Raise TrialFailed if it is an old one."""
        sentences = []
        for step in steps:
            if isinstance(step, Spawn):
                new, old = self.executor.process(step.name), before[step.name]
                if (new.pid, new.started) == (old.pid, old.started):
                    raise TrialFailed(f"event {kind} cannot be proved: {step.name} still runs")
                sentences.append(f"{step.name} is process {new.pid}, started at {new.started}")
        return sentences


def _ends(before: _Identities) -> list[str]:
    return [
        f"{name} was process {process.pid}, started at {process.started}, and ended with "
        f"status {process.poll()}"
        for name, process in before.items()
    ]


def require_steps(trial: TrialResult) -> None:
    """Raise TrialFailed if the offered frames do not show the steps of the load of a trial. Unsent
    frames explain a lower rate, and the verdict is about them."""
    series = trial.series
    if not trial.spec.steps or series is None:
        return
    begins = [(0.0, 1.0), *trial.spec.steps]
    ends = [*(at_s for at_s, _ in trial.spec.steps), trial.spec.duration_s]
    length_s = series.interval_ns / 1e9
    full = []
    for (begin_s, share), end_s in zip(begins, ends, strict=True):
        whole = [
            frames / length_s
            for start_s, frames in zip(series.starts_s, series.offered, strict=True)
            if begin_s <= start_s and start_s + length_s <= end_s
        ]
        if not whole:
            raise TrialFailed(f"event load cannot be proved: {end_s - begin_s:g} s is too short")
        full.append(sum(whole) / len(whole) / share)
    if max(full) > (1 + _NEAR) * min(full) and not trial.tx_unsent:
        rates = ", ".join(f"{pps:.0f}" for pps in full)
        raise TrialFailed(f"event load cannot be proved: the whole rate is {rates} frames/s")
