"""The option `--tune`: it tries settings, compares the best with the defaults and prints the
result. The tries and the comparison have separate run folders.

The functions import their dependencies at run time, so that `--help` is fast.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from switchmark.cli.running import HostBench, Shown, measure, status_of

if TYPE_CHECKING:
    from switchmark.campaign.load import Campaign
    from switchmark.campaign.store import RunFolder
    from switchmark.hosts.hosts import Hosts
    from switchmark.model.record import Record


def search_settings(
    campaign: Campaign,
    count: int,
    out: tuple[Path, str | None],
    show: Shown,
    options: dict[str, Any],
    hosts: Hosts,
    strict: bool,
) -> int:
    """Try up to `count` settings of the switch in each test, and compare the best with the default.
    `out` is the folder and the name of the run. The expected duration is printed first."""
    from switchmark.campaign.tuning import keep_asked, to_try
    from switchmark.path.refusals import check
    from switchmark.runs.anchor import anchor

    tried = to_try(campaign, count, check)
    anchor()
    if not show.quiet:
        print(_budget(campaign, tried), file=sys.stderr, flush=True)
    folder = HostBench(hosts).new_run(tried, *out)
    keep_asked(folder.path, campaign)
    return go_on_tuning(folder, show, options, hosts, strict)


def go_on_tuning(
    folder: RunFolder, show: Shown, options: dict[str, Any], hosts: Hosts, strict: bool
) -> int:
    """Finish a search for settings; `folder` is the run that tries them."""
    from switchmark.campaign.store import RunFolder, is_run
    from switchmark.campaign.tuning import TUNED, asked_for, to_compare

    bench, within = HostBench(hosts, show.quiet), folder.path / TUNED
    if is_run(within):
        folder.close()
        compared = RunFolder(within)
    else:
        # Only the comparison runs calibration: cables for every setting would take long.
        tried = measure(bench, folder, show, {**options, "calibrate": "never"})
        if all(record.status != "ok" for record in tried):
            return status_of(tried, strict=False)
        print(file=sys.stderr)
        shutil.rmtree(within, ignore_errors=True)  # left by an earlier crash
        beside = to_compare(asked_for(folder.path), tried, _rate)
        compared = bench.new_run(beside, folder.path, TUNED)
    compared.resumed_by = folder.path
    records = measure(bench, compared, show, options)
    print_tuning(folder.path, sys.stderr if show.as_json else sys.stdout)
    return status_of(records, strict)


def print_tuning(path: Path, stream: IO[str]) -> None:
    """Print the result of a search for settings; nothing for other runs, or before the search
    ends."""
    from switchmark.campaign.store import read_campaign, read_records
    from switchmark.campaign.tuning import (
        TUNED,
        asked_for,
        folders_of,
        with_default_settings,
        with_settings_of_its_own,
    )
    from switchmark.metrics.family import Results
    from switchmark.model.labels import telling
    from switchmark.report.tuning import tuning_lines

    if len(folders_of(path)) < 2:
        return
    requested, tried = asked_for(path).tests, read_campaign(path).tests
    compared = {record.test: record for record in read_records(path / TUNED)}
    results = Results.of(compared.values())
    print(file=stream)
    for test in requested:
        for default in with_default_settings(test, compared):
            tuned = next((compared[t] for t in with_settings_of_its_own(test, compared)), None)
            count = len(with_settings_of_its_own(test, tried))
            lines = tuning_lines(compared[default], tuned, count, telling(requested), results)
            print(*lines, sep="\n", file=stream)


def _budget(campaign: Campaign, tried: Campaign) -> str:
    """Return the expected duration of a search for settings."""
    from switchmark.campaign.tuning import REPEATS, expected_tuning_s
    from switchmark.cli.progress import clock

    others = len(tried.tests) - len(campaign.tests)
    return (
        f"{others} settings of {len(campaign.tests)} tests are tried once, and the default; then "
        f"the best of each is compared with its default, {REPEATS} times or more: about "
        f"{clock(expected_tuning_s(campaign, tried))}"
    )


def _rate(record: Record) -> float:
    from switchmark.metrics.named import METRICS

    return METRICS["rx.pps"].of(record) or 0.0
