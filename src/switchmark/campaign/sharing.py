"""Doubts about trials that ran while other runs shared the machine, and about trials that another
commit of switchmark measured than the trials before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from switchmark.campaign.run import AnyLab
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test
from switchmark.model.visit import Visit

SHARED_MACHINE = "shared-machine"
OTHER_COMMIT = "other-commit"


class Doubting:
    """A lab that lets another lab measure, and adds doubts, with their evidence, to each new
    trial."""

    def __init__(self, lab: AnyLab, doubts: Mapping[str, str]) -> None:
        self._lab, self._doubts = lab, dict(doubts)

    def versions(self, test: Test) -> Mapping[str, str]:
        """Return the versions that the test's figures depend on."""
        return self._lab.versions(test)

    def visit(self, visit: Visit) -> Record | None:
        """Run a test as the lab does; trials that are already stored stay unchanged."""
        new: list[TrialResult] = []

        def keep(trial: TrialResult) -> None:
            new.append(trial)
            visit.on_trial(self._doubted(trial))

        record = self._lab.visit(replace(visit, on_trial=keep))
        if record is None or not record.trials:
            return record
        trials = tuple(self._doubted(trial) if trial in new else trial for trial in record.trials)
        present = [
            doubt for doubt in self._doubts if any(doubt in trial.doubts for trial in trials)
        ]
        doubts = tuple(dict.fromkeys((*record.doubts, *present)))
        return record.model_copy(update={"trials": trials, "doubts": doubts})

    def __enter__(self) -> Self:
        self._lab.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lab.__exit__(kind, error, trace)

    def _doubted(self, trial: TrialResult) -> TrialResult:
        all_doubts = {**trial.evidence.doubts, **self._doubts}
        evidence = trial.evidence.model_copy(update={"doubts": all_doubts})
        doubts = (*trial.doubts, *self._doubts)
        return trial.model_copy(update={"doubts": doubts, "evidence": evidence})
