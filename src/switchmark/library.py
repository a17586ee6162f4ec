"""switchmark for Python programs and notebooks: `import switchmark`.

    tests = switchmark.tests(switch="direct,linux-bridge", search="max")
    print("\\n".join(switchmark.plan(tests)))
    run = switchmark.run(tests, name="first")
    run.values("rx.mpps")

`plan` and `load` work in this process. `run` starts the command line, which has the same rights,
messages and undo as in a shell.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from switchmark.errors import (
    Exit,
    Interrupted,
    SetupFailed,
    SwitchmarkError,
    Unavailable,
    UsageError,
)
from switchmark.model.objects import Printed
from switchmark.model.record import Record
from switchmark.model.test import AXES, Test

__all__ = ["Record", "Run", "Test", "load", "plan", "run", "tests"]

Tests = Test | Sequence[Test]
"""One test or several."""


@dataclass(frozen=True)
class Run:
    """A run folder that was read."""

    path: Path
    """The folder."""
    records: tuple[Record, ...]
    """The latest record of each finished test, in order."""

    @property
    def answer(self) -> str:
        """Return the answer of the run in sentences, as `switchmark report` prints it."""
        from switchmark.report.answer import answer

        return "\n".join(answer(self.records))

    def values(self, metric: str) -> dict[Test, float | None]:
        """Return a metric of each test, such as `rx.mpps` or `latency.p99_us`; None for a test that
        did not measure it. docs/reference/metrics.md has all metrics with their units. Raise
        UsageError for an unknown name."""
        from switchmark.metrics.named import metric as named

        chosen = named(metric)
        return {
            record.test: chosen.of(record) if record.status == "ok" and record.trials else None
            for record in self.records
        }

    def objects(self) -> list[Printed]:
        """Return the tests as the objects that `--json` prints. They are the rows of a data frame:
        `pandas.json_normalize(run.objects())`."""
        from switchmark.report.json import to_object

        return [to_object(record) for record in self.records]


def tests(**axes: Any) -> tuple[Test, ...]:
    """Return the tests of some axes, as on the command line: `tests(switch="ovs,linux-bridge",
    frame_size=[64, 1500])`.

    A value is a text of the command line, one value, or a list of values. Axes that are not given
    have their defaults, and this host chooses the engine. Raise UsageError for an unknown axis or
    value, and for a combination that can never work.
    """
    from switchmark.campaign.load import from_options
    from switchmark.campaign.values import nearest
    from switchmark.hosts.hosts import Hosts
    from switchmark.lab.usable import UsableHere
    from switchmark.path.choosing import with_engines
    from switchmark.path.refusals import check
    from switchmark.runs.own_run import OwnRun

    for name in axes:
        if name not in AXES:
            raise UsageError(f"there is no axis '{name}'{nearest(name, AXES)}")
    words = {
        name: ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        for name, value in axes.items()
    }
    with Hosts(OwnRun) as hosts:
        choose = partial(with_engines, usable=UsableHere(hosts, far=True))
        return from_options(words, check, choose).tests


def plan(tests: Tests) -> list[str]:
    """Return the exact steps of tests as the lines of a shell script, as `switchmark plan` prints
    them. This changes nothing and needs no root. Raise UsageError for a test that can never
    work."""
    from switchmark.cli.steps import script
    from switchmark.path.refusals import check

    chosen = _several(tests)
    if refusals := [refusal for test in chosen for refusal in check(test)]:
        raise UsageError("\n".join(dict.fromkeys(map(str, refusals))))
    return list(script(chosen))


def run(tests: Tests, *, out: str | Path = "runs", name: str | None = None) -> Run:
    """Measure tests, and return their run. The folder of the run is below `out`; its default name
    is the date and time.

    Tests that fail have a record with the status `failed` and the reason. Raise UsageError for
    tests that can never work, Unavailable for what this host lacks, and SetupFailed for other
    errors.
    """
    from switchmark.campaign.load import Campaign, dump
    from switchmark.campaign.store import is_run
    from switchmark.runs.command import run_command

    parent = Path(out)
    before = set(parent.iterdir()) if parent.is_dir() else set()
    with tempfile.TemporaryDirectory(prefix="switchmark-") as folder:
        campaign = Path(folder) / "run.yaml"
        campaign.write_text(dump(Campaign("run", _several(tests))), encoding="utf-8")
        named = ["--name", name] if name else []
        status, said = run_command(["run", str(campaign), "--quiet", "--out", str(parent), *named])
    made = [path for path in parent.iterdir() if is_run(path)] if parent.is_dir() else []
    new = [path for path in made if path not in before and name in (None, path.name)]
    if status in (Exit.FINE, Exit.FAILED) and new:
        return load(max(new, key=lambda path: path.stat().st_mtime))
    if status == Exit.INTERRUPTED:
        raise Interrupted(_message(said))
    kinds: dict[int, type[SwitchmarkError]] = {2: UsageError, 3: Unavailable}
    raise kinds.get(status, SetupFailed)(_message(said) or f"switchmark ended with {status}")


def load(run: str | Path) -> Run:
    """Return a stored run. Raise UsageError if the folder is no run folder."""
    from switchmark.campaign.store import read_records

    path = Path(run)
    return Run(path, tuple(read_records(path)))


def _several(tests: Tests) -> tuple[Test, ...]:
    chosen = (tests,) if isinstance(tests, Test) else tuple(tests)
    if not chosen:
        raise UsageError("there is no test")
    return chosen


def _message(said: str) -> str:
    """Return the message of an error that a command printed."""
    before, found, message = said.rpartition("error: ")
    return (message if found else before or said).strip()
