"""Functions that the commands which run tests share: build the campaign, measure it, show results.

Imports are inside the functions, so that `--help` is quick.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, get_args

from switchmark.errors import Exit
from switchmark.extras import PLOTS
from switchmark.regular_file import read_within

if TYPE_CHECKING:
    from switchmark.campaign.load import Campaign
    from switchmark.campaign.run import Progress
    from switchmark.campaign.store import RunFolder
    from switchmark.cli.arguments import Measuring
    from switchmark.hosts.hosts import Hosts
    from switchmark.lab.turns import Turns
    from switchmark.model.record import Record
    from switchmark.model.test import Test

_WIDTH, _NARROW = 100, 80
"""The width of the output without a terminal, in columns."""


def campaign_of(
    path: Path | None,
    axes: Mapping[str, str],
    hosts: Hosts,
    *,
    far: bool = False,
    in_lab: bool = False,
) -> Campaign:
    """Return the campaign of a file, or a campaign of the axes alone. The axes override the file.

    If no engine is named, choose one that this host can use. With `far`, other hosts are probed
    too. With `in_lab`, the hosts are not known yet: choose an engine that needs no root, unless the
    ports need one that does, and do not interleave the tests.
    """
    from switchmark.campaign.load import from_options, load
    from switchmark.engines import TABLE as ENGINES
    from switchmark.engines.base import KERNEL_PORTS
    from switchmark.lab.usable import UsableHere
    from switchmark.path.choosing import Usable, with_engines
    from switchmark.path.refusals import check

    def made(usable: Usable) -> Campaign:
        choose = partial(with_engines, usable=usable)
        if path is None:
            return from_options(axes, check, choose, in_turn=not in_lab)
        return load(path, axes, check, choose, in_turn=not in_lab)

    def likely(test: Test) -> bool:
        engine = ENGINES[test.engine]
        return engine.privilege != "root" or not engine.port_kinds <= KERNEL_PORTS

    if in_lab:
        return made(likely)
    return made(UsableHere(hosts, far=far))


def chosen_engines(path: Path | None, axes: Mapping[str, str], campaign: Campaign) -> str:
    """Return the engines that were chosen for a campaign, with their switches. Empty if the user
    named every engine."""
    from switchmark.model.test import AXES

    axis = AXES["engine"]
    usual = axis.chosen if path is None else axis.default
    if axis.chosen not in axes.get(axis.name, usual).split(","):
        return ""
    switches: dict[str, dict[str, None]] = {}
    for test in campaign.tests:
        switches.setdefault(test.engine, {})[test.switch] = None
    if len(switches) == 1:
        return f"engine {next(iter(switches))} ({axis.option} {axis.chosen})"
    choices = (f"{engine} for {', '.join(names)}" for engine, names in switches.items())
    return f"engines ({axis.option} {axis.chosen}): {'; '.join(choices)}"


def say_engines(
    path: Path | None, axes: Mapping[str, str], campaign: Campaign, show: Shown
) -> None:
    """Print which engines were chosen, unless `--quiet` is set or the user named every engine."""
    if not show.quiet and (engines := chosen_engines(path, axes, campaign)):
        print(engines, file=sys.stderr)


def say_unfinished(folder: RunFolder, show: Shown) -> None:
    """Print what a trial left that ran when the run died, unless `--quiet` is set."""
    trial = folder.unfinished
    if trial is not None and not show.quiet:
        print(
            f"test {trial.number} died in a trial of {trial.duration_s:g} s, which starts again: "
            f"its first {trial.intervals} intervals are in {trial.path}",
            file=sys.stderr,
        )


def check_new(out: Path, name: str | None) -> None:
    """Raise UsageError if a new run below `out` cannot have this name."""
    from switchmark.campaign.store import check_name

    if name is not None:
        check_name(out, name)


def check_keep(keep: bool, campaign: Campaign, tuned: bool = False) -> None:
    """Raise UsageError or Unavailable if the path of this campaign cannot be kept."""
    from switchmark.errors import Unavailable, UsageError
    from switchmark.hosts.host_file import host_entry
    from switchmark.path.hosts import hosts_of
    from switchmark.runs.anchor import privileges

    if keep and tuned:
        raise UsageError("--keep leaves one path up, and --tune builds one for each setting")
    if keep and len(campaign.tests) > 1:
        raise UsageError(
            f"--keep leaves one path up, and this campaign has {len(campaign.tests)} tests",
            hint="give every axis one value",
        )
    names = {name for test in campaign.tests for name in hosts_of(test)} if keep else set()
    if machines := sorted(name for name in names if host_entry(name).vm):
        raise UsageError(
            f"--keep keeps nothing on {', '.join(machines)}: machines end with the run"
        )
    if keep and privileges() != "root":
        raise Unavailable("--keep needs root: what a user makes ends with its command")


@dataclass(frozen=True, slots=True)
class Shown:
    """How the results of a run are shown."""

    as_json: bool
    """Whether to print JSON in place of tables."""
    wide: bool
    """Whether tables have all columns."""
    quiet: bool
    """Whether to hide the progress."""
    only_progress: bool = False
    """Whether to hide the results, because the command shows them in another form."""
    explain: bool = False
    """Whether to add the meaning of marks and doubts."""


def checked_options(measuring: Measuring, keep: bool = False) -> tuple[Shown, dict[str, Any]]:
    """Return how results are shown, and the options of the measurement, including `share_machine`.
    Raise UsageError for an unknown value of an option."""
    from switchmark.errors import UsageError
    from switchmark.lab.calibration import Mode
    from switchmark.lab.gate import Gate

    for option, choices in (("calibrate", Mode), ("gate", Gate)):
        if (value := getattr(measuring, option)) not in get_args(choices):
            raise UsageError(f"--{option} takes {', '.join(get_args(choices))}, not '{value}'")
    names = ("capture", "calibrate", "gate", "rerun", "share_machine")
    display = Shown(measuring.as_json, measuring.wide, measuring.quiet, explain=measuring.explain)
    return display, {"keep": keep, **{name: getattr(measuring, name) for name in names}}


class Bench(Protocol):
    """A bench measures the tests of a run folder: this host, or the lab of `--cluster`."""

    def new_run(self, campaign: Campaign, out: Path, name: str | None = None) -> RunFolder:
        """Return a new folder below `out`. Its default name is the campaign's name and the time."""
        ...

    def old_run(self, path: Path) -> RunFolder:
        """Return the folder of an earlier run, to continue the run."""
        ...

    def measure(self, folder: RunFolder, progress: Progress, options: dict[str, Any]) -> None:
        """Measure the missing tests of a folder with these options (see `checked_options`)."""
        ...

    def remarks(self) -> Sequence[str]:
        """Return the lines to print after the measurement."""
        ...


class HostBench:
    """This host measures. Other runs wait, unless the machine is shared.

    With `until_decided`, an earlier run continues on the same host, up to this number of repeats.
    """

    def __init__(self, hosts: Hosts, quiet: bool = False, until_decided: int | None = None) -> None:
        self._hosts, self._quiet, self._until_decided = hosts, quiet, until_decided
        self._doubts: dict[str, str] = {}
        self._lab: Turns | None = None

    def new_run(self, campaign: Campaign, out: Path, name: str | None = None) -> RunFolder:
        from switchmark.campaign.store import RunFolder
        from switchmark.errors import Unavailable
        from switchmark.hosts.local import LocalHost
        from switchmark.observe.facts import host_facts
        from switchmark.path.hosts import hosts_of
        from switchmark.runs.anchor import anchor, privileges

        names = dict.fromkeys(name for test in campaign.tests for name in hosts_of(test))
        if names and privileges() != "root":
            raise Unavailable(
                f"runs on other hosts ({', '.join(names)}) are led by root: what a user makes here "
                "has no network",
                hint="run it with sudo",
            )
        anchor()
        facts = host_facts(LocalHost())
        if names:
            self._hosts.begin(names)
            facts["hosts"] = {name: host_facts(self._hosts[name]) for name in names}
        return RunFolder.create(out, campaign, facts, name)

    def old_run(self, path: Path) -> RunFolder:
        from switchmark.campaign.sharing import OTHER_COMMIT
        from switchmark.campaign.store import RunFolder, read_host
        from switchmark.hosts.local import LocalHost
        from switchmark.observe.facts import host_facts
        from switchmark.report.host_differences import RunFacts, host_differences
        from switchmark.runs.anchor import anchor

        anchor()
        before, now = read_host(path), host_facts(LocalHost())
        facts = [RunFacts(path.name, {**before, "hosts": None}, ()), RunFacts("now", now, ())]
        differing = {
            difference.what: difference.values for difference in host_differences(facts) if before
        }
        if commits := differing.pop("commit", None):
            self._doubts[OTHER_COMMIT] = f"{commits[0]}, now {commits[1]}"
        if self._until_decided and differing:
            raise _on_another_host(path, differing)
        folder = RunFolder(path)
        folder.until_decided = self._until_decided
        return folder

    def measure(self, folder: RunFolder, progress: Progress, options: dict[str, Any]) -> None:
        from switchmark.campaign.run import run
        from switchmark.campaign.sharing import SHARED_MACHINE, Doubting
        from switchmark.lab.turns import Turns
        from switchmark.metrics.family import further_repeats
        from switchmark.path.hosts import hosts_of
        from switchmark.runs.measuring import measuring_alone_on, myself

        lab_options = {name: value for name, value in options.items() if name != "share_machine"}
        shared = options["share_machine"]
        doubts = self._doubts | ({SHARED_MACHINE: "--share-machine"} if shared else {})
        self._lab = lab = Turns(folder.path, hosts=self._hosts, **lab_options)
        names = dict.fromkeys(name for test in folder.campaign.tests for name in hosts_of(test))
        there, me = (self._hosts[name] for name in names), myself(folder.path)
        with measuring_alone_on(there, me, shared=shared, waiting=_print_waiting):
            if not self._quiet:
                prepared = folder.campaign.tests[0].prepare
                _warn_of_this_host(prepared.split(",") if prepared else ())
            run(folder, Doubting(lab, doubts) if doubts else lab, progress, further_repeats)

    def remarks(self) -> Sequence[str]:
        return (*self._lab.kept, *self._lab.left) if self._lab else ()


def _on_another_host(path: Path, differing: Mapping[str, Sequence[str]]) -> Exception:
    from switchmark.errors import UsageError

    differences = "".join(
        f"\n  {fact}: {before}, now {now}" for fact, (before, now) in differing.items()
    )
    return UsageError(
        f"{path} was measured on a host that was another one, or set up otherwise{differences}",
        hint=f"a new run: switchmark run {path}/campaign.yaml --until-decided LIMIT",
    )


def measure(
    bench: Bench, folder: RunFolder, show: Shown, options: dict[str, Any]
) -> Sequence[Record]:
    """Measure the missing tests of a folder. Show all its results, even after an error."""
    with _shown(folder, show, bench.remarks) as progress:
        bench.measure(folder, progress, options)
    return folder.latest


@contextmanager
def _shown(
    folder: RunFolder, show: Shown, remarks: Callable[[], Sequence[str]]
) -> Iterator[Progress]:
    """Lock a folder and show progress within a block. After the block, show all results of the
    folder and the remarks, even after an error."""
    from switchmark.cli.progress import JsonObjects, watch

    progress = watch(folder.campaign.tests, show.quiet)
    if show.as_json:
        print_records([record for record in folder.latest if record.status == "ok"])
    try:
        with folder, JsonObjects(progress) if show.as_json else progress as output:
            yield output
    finally:
        if folder.latest and not (show.as_json or show.only_progress):
            print_report(folder.latest, wide=show.wide, explain=show.explain)
        for line in remarks():
            print(line, file=sys.stderr)
        if folder.path.exists() and not show.quiet:
            print(f"records are in {folder.path}", file=sys.stderr)
    if not (show.as_json or show.quiet or show.only_progress):
        _write_report(folder)


def _print_waiting(holder: str) -> None:
    """Print why the command waits."""
    print(
        f"waiting: another run measures on this machine ({holder})\n"
        "  Ctrl-C stops waiting; --share-machine measures at the same time, with a doubt\n"
        "  any user can hold this lock: SWITCHMARK_MACHINE_LOCK=FILE uses another one",
        file=sys.stderr,
        flush=True,
    )


def _warn_of_this_host(prepared: Collection[str]) -> None:
    """Print a warning if figures of this host will be unreliable, before the measurement starts.
    The run prepares the host as named in `prepared`."""
    from switchmark.hosts.local import LocalHost
    from switchmark.hosts.programs import tool_program
    from switchmark.lab.host_preparation import spoiling
    from switchmark.observe.noise import busy_cpus

    host = LocalHost()
    reasons = [
        f"others take {share:.0%} of CPU {cpu}"
        for cpu, share in busy_cpus(host, tool_program()).items()
    ]
    reasons += spoiling(host, prepared)
    if reasons:
        print(
            f"warning: this host is not fit to measure: {', '.join(reasons)} (switchmark doctor)",
            file=sys.stderr,
            flush=True,
        )


def _write_report(folder: RunFolder) -> None:
    """Write the report of a run into its folder, and print its path. A report that cannot be drawn
    is no failure of the run. Raise RecordFailed if the report cannot be written."""
    from switchmark.report.files import write_file

    if not folder.latest:
        return
    path = folder.path / "report.html"
    if not PLOTS.installed:
        print(PLOTS.left_out("report"), file=sys.stderr)
        return
    try:
        from switchmark.report.page import page

        name = folder.path.name
        drawn = page([(name, folder.latest)], {name: steps_of(folder.path)})
    except Exception as error:  # noqa: BLE001 - a fault of the report must not fail the run
        print(f"no report was drawn: {error}", file=sys.stderr)
    else:
        write_file(path, drawn)
        print(f"report: {path}", file=sys.stderr)


def steps_of(folder: Path) -> str:
    """Return the commands that a run executed. Empty if they were not kept. Symbolic links are not
    followed, because they may lead out of the folder."""
    paths = [folder / "logs/steps.sh", *sorted(folder.glob("logs/*/steps.sh"))]
    steps = []
    for path in paths:
        with suppress(OSError):
            steps.append(read_within(folder, str(path.relative_to(folder))))
    return b"".join(steps).decode(errors="replace")


def status_of(records: Sequence[Record], strict: bool) -> int:
    """Return the exit code of a run."""
    statuses = {record.status for record in records}
    if statuses == {"refused"}:
        return Exit.UNAVAILABLE
    if statuses - {"ok"}:
        return Exit.FAILED
    doubted = strict and any(record.doubts for record in records)
    return Exit.DOUBTED if doubted else Exit.FINE


def print_report(records: Sequence[Record], *, wide: bool = False, explain: bool = False) -> None:
    """Print the answer of the records and a table of the figures, as wide as the terminal.

    `explain` adds the meaning of all marks, doubts and figures. `wide` adds the same, all columns,
    and bars.
    """
    from switchmark.report.answer import answer, brief_answer
    from switchmark.report.bars import bars
    from switchmark.report.brief import brief_notes
    from switchmark.report.notes import footnotes
    from switchmark.report.sections import sections
    from switchmark.report.table import table_lines

    terminal = shutil.get_terminal_size((0, 0)).columns
    brief = not (wide or explain)
    columns = terminal or (_NARROW if brief else _WIDTH)
    for sentence in brief_answer(records) if brief else answer(records):
        print(_filled(sentence, columns, "  "))
    for section in sections(records, wide=wide, brief=brief):
        print("", *table_lines(section, None if wide else columns), sep="\n")
    notes = brief_notes(records) if brief else footnotes(records)
    for note in ("", *notes) if notes else ():
        print(_filled(note, columns, "  " if brief else "    "))
    for line in ("", *bars(records, min(columns, _WIDTH))) if wide else ():
        print(line)


def _filled(text: str, columns: int, indent: str) -> str:
    """Wrap each line of a text between words."""
    options: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
    lines = text.splitlines() or [""]
    return "\n".join(
        textwrap.fill(line, columns, subsequent_indent=indent, **options) for line in lines
    )


def print_records(records: Sequence[Record]) -> None:
    from switchmark.report.json import to_object
    from switchmark.runs.jsonl import to_line

    for record in records:
        print(to_line(to_object(record)))


def print_json(content: object) -> None:
    print(json.dumps(content, indent=2))
