"""The claims of stored runs: every command that reads a run gets them here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from switchmark.model.record import Record
    from switchmark.papers.experiment import Experiment
    from switchmark.report.judged import Judged


def judged_run(
    folder: Path, records: Sequence[Record], experiments: Sequence[Experiment] = ()
) -> list[Judged]:
    """Return the experiments of a run, judged by its records; empty for a run that was not made by
    `paper`.

    With `experiments`, judge these ones, whatever the run was made for. Raise UsageError if the run
    has no points of one of them.
    """
    from switchmark.campaign.asked import kernel_options_of, points_by_tests, read_asked
    from switchmark.errors import UsageError
    from switchmark.report.judged import judged

    asked = read_asked(folder)
    options = kernel_options_of(folder, records)
    results = []
    for experiment in experiments:
        is_own = asked is not None and experiment.name in asked.asked.experiments
        own_options = asked.asked if asked is not None and is_own else None
        quick = own_options is not None and own_options.quick
        points = points_by_tests(experiment, records, quick=quick)
        if not any(record for _, record in points):
            raise UsageError(
                f"{folder} has no points of {experiment.name}",
                hint=f"switchmark paper {experiment.name} measures them",
            )
        results.append(judged(experiment, points, options, [records], asked=own_options))
    if experiments or asked is None:
        return results
    return [
        judged(
            experiment,
            asked.points_of(experiment, records),
            options,
            [records],
            left_out=asked.left_out_of(experiment),
            asked=asked.asked,
        )
        for experiment in asked.experiments
    ]
