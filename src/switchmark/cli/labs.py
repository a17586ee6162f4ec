"""This module runs a campaign on the testbeds of a lab (`--cluster`), and says what can be asked of
one.

It imports what it needs when it is called: Dask is an extra, and takes its time.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmark.cli.running import Shown, show_results, status_of
from switchmark.errors import Unavailable, UsageError

if TYPE_CHECKING:
    from switchmark.campaign.load import Campaign
    from switchmark.campaign.store import RunFolder
    from switchmark.cluster.dask_lab import DaskLab
    from switchmark.model.record import Record


def check_cluster(
    cluster: str | None, spread: bool, *, keep: bool, capture: int | None, tune: int | None
) -> None:
    """Raise UsageError or Unavailable for what a lab cannot do, or no lab can."""
    if cluster is None:
        if spread:
            raise UsageError("--spread needs testbeds to spread repeats over: --cluster")
        return
    given = {"--keep": keep, "--capture": capture is not None, "--tune": tune is not None}
    for option in (name for name, is_given in given.items() if is_given):
        raise UsageError(f"{option} is of one host, and --cluster has many: leave one of them out")
    if importlib.util.find_spec("distributed") is None:
        raise Unavailable(
            "--cluster needs Dask's distributed scheduler, which is not installed",
            hint="make setup, or pip install '.[lab]', in a checkout of switchmark",
        )


def check_same_lab(folder: Path, cluster: str | None) -> None:
    """Raise UsageError if a run that was begun on a lab would go on without it, or the other way
    round: its figures would be of other hosts."""
    from switchmark.campaign.store import read_lab, read_records

    if cluster is None and read_lab(folder):
        raise UsageError(
            f"{folder} was measured on the testbeds of a lab",
            hint=f"switchmark resume {folder} --cluster ADDRESS|FILE",
        )
    if cluster is not None and not read_lab(folder) and read_records(folder):
        raise UsageError(f"{folder} was measured on one host: it goes on there, without --cluster")


def measure_on_lab(
    cluster: str,
    run: Path | tuple[Campaign, Path, str | None],
    show: Shown,
    options: dict[str, Any],
    strict: bool,
    *,
    spread: bool,
) -> int:
    """Run what is missing on a lab: of the run folder at a path, or of a new one for a campaign, in
    a folder, of a name."""
    from switchmark.campaign.store import check_name

    if not isinstance(run, Path) and run[2] is not None:
        check_name(run[1], run[2])
    with open_lab(cluster, share_machine=options["share_machine"]) as opened:
        return status_of(opened.measure(run, show, options, spread=spread), strict)


@contextmanager
def open_lab(cluster: str, *, share_machine: bool) -> Iterator[OpenLab]:
    """Hold the lab that `--cluster` names, until the block ends."""
    from switchmark.cluster.description import described
    from switchmark.cluster.start import connected
    from switchmark.hosts.signals import interruptible

    description = described(cluster)
    with interruptible(), tempfile.TemporaryDirectory(prefix="switchmark-lab-") as kept:
        logs = Path(kept)
        with connected(description, logs, share_machine=share_machine, told=_tell) as lab:
            yield OpenLab(cluster, lab, logs)


@dataclass(frozen=True, slots=True)
class OpenLab:
    """An open lab has testbeds that measure campaigns; its workers write into files in `logs`."""

    cluster: str
    lab: DaskLab
    logs: Path

    def measure(
        self,
        run: Path | tuple[Campaign, Path, str | None],
        show: Shown,
        options: dict[str, Any],
        *,
        spread: bool,
    ) -> list[Record]:
        """Run what is missing, of a run folder or of a new one; return all records of it."""
        from switchmark.campaign.store import RunFolder, read_campaign
        from switchmark.cluster import dispatch

        campaign = read_campaign(run) if isinstance(run, Path) else run[0]
        versions = self.lab.agree(campaign.tests)
        if isinstance(run, Path):
            folder = RunFolder(run)
        else:
            first = self.lab.facts[min(self.lab.testbeds())]["facts"]
            folder = RunFolder.create(run[1], campaign, first, run[2])
        folder.cluster = self.cluster
        try:
            with show_results(folder, show) as progress:
                _compare(self.lab, folder, options)
                dispatch.run(folder, self.lab, progress, versions, options, spread=spread)
        finally:
            shutil.copytree(self.logs, folder.path / "logs" / "workers", dirs_exist_ok=True)
        return folder.latest


def _compare(lab: DaskLab, folder: RunFolder, options: dict[str, Any]) -> None:
    """Have all testbeds measure the same on a cable, keep what they are and in what they differ,
    and say so."""
    from switchmark.campaign.store import read_lab
    from switchmark.cluster.comparison import Rate, differences, groups, rate_of, shared_tests
    from switchmark.cluster.wire import as_record, as_request
    from switchmark.model.visit import Visit

    names = lab.testbeds()
    rates: dict[str, dict[str, Rate]] = {}
    for test in shared_tests(folder.campaign.tests) if len(names) > 1 else ():
        quick = {**options, "calibrate": "never", "rerun": 0}
        asked = {
            name: as_request(Visit(test), {**quick, "share_machine": lab.shares(name)})
            for name in names
        }
        answers = lab.measure(asked)
        records = {name: as_record(answer, name) for name, answer in answers.items()}
        got = {name: rate_of(record) for name, record in records.items() if record}
        rates[test.engine] = {name: rate for name, rate in got.items() if rate}
    told = differences(sorted(names), rates)
    before = read_lab(folder.path).get("testbeds", {})
    folder.keep_lab(
        {
            "testbeds": {**before, **{name: lab.facts[name] for name in names}},
            "rates_pps": {
                engine: {name: [each.low, each.pps, each.high] for name, each in of.items()}
                for engine, of in rates.items()
            },
            "groups": groups(sorted(names), rates),
            "differences": told,
        }
    )
    for sentence in told:
        _tell(sentence)


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
