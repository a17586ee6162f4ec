"""Runs on the testbeds of a lab (`--cluster`), and the checks of their options.

The functions import their dependencies at run time: Dask is an optional extra, and slow to import.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmark.cli.running import Bench, HostBench, Shown
from switchmark.errors import UsageError
from switchmark.extras import LAB

if TYPE_CHECKING:
    from switchmark.campaign.load import Campaign
    from switchmark.campaign.run import Progress
    from switchmark.campaign.store import RunFolder
    from switchmark.cluster.dask_lab import DaskLab
    from switchmark.hosts.hosts import Hosts


def check_cluster(
    cluster: str | None, spread: bool, *, keep: bool, capture: int | None, tune: int | None
) -> None:
    """Raise UsageError or Unavailable for options that a lab does not support, or if labs are not
    available."""
    if cluster is None:
        if spread:
            raise UsageError("--spread needs testbeds to spread repeats over: --cluster")
        return
    options = {"--keep": keep, "--capture": capture is not None, "--tune": tune is not None}
    for option in (name for name, is_given in options.items() if is_given):
        raise UsageError(f"{option} is of one host, and --cluster has many: leave one of them out")
    if not LAB.installed:
        raise LAB.missing("--cluster needs Dask's distributed scheduler")


def check_same_lab(folder: Path, cluster: str | None) -> None:
    """Raise UsageError if a lab run would continue without the lab, or the other way round: its
    figures would come from other hosts."""
    from switchmark.campaign.store import read_lab, read_records

    if cluster is None and read_lab(folder):
        raise UsageError(
            f"{folder} was measured on the testbeds of a lab",
            hint=f"switchmark resume {folder} --cluster ADDRESS|FILE",
        )
    if cluster is not None and not read_lab(folder) and read_records(folder):
        raise UsageError(f"{folder} was measured on one host: it goes on there, without --cluster")


@contextmanager
def bench(
    cluster: str | None, hosts: Hosts, show: Shown, *, share_machine: bool, spread: bool
) -> Iterator[Bench]:
    """Yield the bench for the block: this host, or the lab that `--cluster` names."""
    if cluster is None:
        yield HostBench(hosts, show.quiet)
        return
    with open_lab(cluster, share_machine=share_machine, spread=spread) as lab:
        yield lab


@contextmanager
def open_lab(cluster: str, *, share_machine: bool, spread: bool) -> Iterator[LabBench]:
    """Yield the lab that `--cluster` names, connected for the block."""
    from switchmark.cluster.description import described
    from switchmark.cluster.start import connected
    from switchmark.hosts.signals import interruptible

    description = described(cluster)
    with interruptible(), tempfile.TemporaryDirectory(prefix="switchmark-lab-") as folder:
        logs = Path(folder)
        with connected(description, logs, share_machine=share_machine, report=_report) as lab:
            yield LabBench(cluster, lab, logs, spread)


@dataclass(frozen=True, slots=True)
class LabBench:
    """A bench of testbeds."""

    cluster: str
    """The value of `--cluster`: an address, or the file that describes the lab."""
    lab: DaskLab
    """The testbeds."""
    logs: Path
    """The folder of the logs of the lab's workers."""
    spread: bool
    """Whether the testbeds share the repeats of a test."""

    def new_run(self, campaign: Campaign, out: Path, name: str | None = None) -> RunFolder:
        from switchmark.campaign.store import RunFolder

        self.lab.agree(campaign.tests)
        first = self.lab.facts[min(self.lab.testbeds())]["facts"]
        return RunFolder.create(out, campaign, first, name)

    def old_run(self, path: Path) -> RunFolder:
        from switchmark.campaign.store import RunFolder, read_campaign

        self.lab.agree(read_campaign(path).tests)
        return RunFolder(path)

    def measure(self, folder: RunFolder, progress: Progress, options: dict[str, Any]) -> None:
        from switchmark.campaign.store import is_run
        from switchmark.cluster import dispatch

        folder.cluster = self.cluster
        try:
            _compare(self.lab, folder, options)
            versions = self.lab.agreed
            dispatch.run(folder, self.lab, progress, versions, options, spread=self.spread)
        finally:
            if is_run(folder.path):
                shutil.copytree(self.logs, folder.path / "logs" / "workers", dirs_exist_ok=True)

    def remarks(self) -> Sequence[str]:
        return ()


def _compare(lab: DaskLab, folder: RunFolder, options: dict[str, Any]) -> None:
    """Measure the same cable tests on all testbeds; store and print the testbeds' facts and
    differences."""
    from switchmark.campaign.store import read_lab
    from switchmark.cluster.comparison import (
        TestbedRate,
        differences,
        groups,
        rate_of,
        shared_tests,
    )
    from switchmark.cluster.wire import as_record, as_request
    from switchmark.model.visit import Visit

    names = lab.testbeds()
    rates: dict[str, dict[str, TestbedRate]] = {}
    for test in shared_tests(folder.campaign.tests) if len(names) > 1 else ():
        quick = {**options, "calibrate": "never", "rerun": 0}
        request = {
            name: as_request(Visit(test), {**quick, "share_machine": lab.shares(name)})
            for name in names
        }
        answers = lab.measure(request)
        records = {name: as_record(answer, name) for name, answer in answers.items()}
        measured_rates = {name: rate_of(record) for name, record in records.items() if record}
        rates[test.engine] = {name: rate for name, rate in measured_rates.items() if rate}
    sentences = differences(sorted(names), rates)
    before = read_lab(folder.path).get("testbeds", {})
    folder.keep_lab(
        {
            "testbeds": {**before, **{name: lab.facts[name] for name in names}},
            "rates_pps": {
                engine: {name: [rate.low, rate.pps, rate.high] for name, rate in of.items()}
                for engine, of in rates.items()
            },
            "groups": groups(sorted(names), rates),
            "differences": sentences,
        }
    )
    for sentence in sentences:
        _report(sentence)


def _report(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
