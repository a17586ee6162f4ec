"""The run folder: campaign, host, trials and records on disk, so that no finished work is lost.

Each line is appended as a whole and fsynced. Resuming a run removes a line that a crash tore. This
module only reads and writes files; it starts no process.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
import shutil
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel, ValidationError

from switchmark.campaign.load import NAME, Campaign, Check, dump, load
from switchmark.errors import RecordFailed, UsageError
from switchmark.model.record import SCHEMA, Origin, Record, TrialResult, TrialSpec
from switchmark.model.test import Test, axes_in_key, key_of_content
from switchmark.path.resolving import unknown_names
from switchmark.regular_file import open_no_link, read_object, read_regular
from switchmark.runs.jsonl import MOST_BYTES, append_line, parse_line, to_line, whole_lines

_CAMPAIGN, _LAB = "campaign.yaml", "testbeds.json"
_INTERVALS = "intervals.jsonl"
_OF_THE_HOST = ("kernel", "machine", "cpu_model", "cores_usable", "memory_kib", "virtual")
"""The facts about the host in every record; `host.json` has the others."""


def key(test: Test, versions: Mapping[str, str]) -> str:
    """Return the key of a result: the hash of the test's axes and of the versions that matter."""
    return key_of_content({"spec": axes_in_key(test), "versions": dict(versions)})


def check_name(parent: Path, name: str) -> None:
    """Raise UsageError if a new run below `parent` cannot have this name."""
    if not NAME.fullmatch(name):
        raise UsageError(f"'{name}' cannot name a run: use letters, digits, '.', '-' and '_'")
    if (parent / name).exists():
        raise UsageError(
            f"there is a run named '{name}' already: {parent / name}",
            hint=f"another name, or: switchmark resume {shlex.quote(str(parent / name))}",
        )


def is_run(folder: Path) -> bool:
    """Return whether a folder is a run folder."""
    return (folder / _CAMPAIGN).is_file()


def read_campaign(folder: Path, check: Check = lambda test: []) -> Campaign:
    """Return the campaign of a run folder as it ran, independent of the names that this host knows
    now."""
    path = folder / _CAMPAIGN
    if not is_run(folder):
        raise UsageError(
            f"{folder} is no run folder: it holds no {_CAMPAIGN}",
            hint="name a folder that 'switchmark run' has made, such as runs/NAME-DATE-TIME",
        )
    return load(path, {}, check, links=False)


def read_records(folder: Path) -> list[Record]:
    """Return the latest record of each finished test in a run folder, in numerical order."""
    read_campaign(folder)
    return _latest(_records(folder))


class RunFolder:
    """A run folder that is open for writing, locked against a second writer until it is closed.

    `unfinished` is the trial that ran when the earlier run died; its file has another name now.
    `records` holds the latest record of each key, the latest last; `trials` holds every finished
    trial of each key. `resumed_by` is the folder that the user names to resume, and `cluster` the
    lab. With `until_decided`, the run adds repeats, up to this number, until compared switches are
    decided.
    """

    def __init__(self, path: Path) -> None:
        """Open the folder of an earlier run to resume it."""
        self.path = path
        self.resumed_by = path
        self.cluster = ""
        self.until_decided: int | None = None
        self.campaign = read_campaign(path, unknown_names)
        self._name = path.resolve().name
        self._host, self._lab = read_host(path), read_lab(path)
        self._trials_file = _LinesFile(path / "trials.jsonl")
        self._records_file = _LinesFile(path / "records.jsonl")
        self.unfinished = _put_aside(path)
        self._intervals_file: _LinesFile | None = None
        self.records: dict[str, Record] = {}
        for record in _records(path):
            self.records.pop(record.key, None)
            self.records[record.key] = record
        self.trials: dict[str, list[TrialResult]] = defaultdict(list)
        for line, entry in _entries(self._trials_file.path):
            with _readable(self._trials_file.path, line):
                trial = TrialResult.model_validate(entry["trial"])
                self.trials[entry["key"]].append(trial)

    @classmethod
    def create(
        cls, parent: Path, campaign: Campaign, facts: Mapping[str, Any], name: str | None = None
    ) -> Self:
        """Create and open a folder with this name below `parent`, or with the name
        `CAMPAIGN-YYYYMMDD-HHMMSS`."""
        path = parent / (name or f"{campaign.name}-{time.strftime('%Y%m%d-%H%M%S')}")
        created = None
        try:
            created = path = _new_folder(path)
            (path / "logs").mkdir()
            (path / "host.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
            (path / _CAMPAIGN).write_text(dump(campaign), encoding="utf-8")
        except OSError as error:
            if created is not None:
                shutil.rmtree(created, ignore_errors=True)  # half a folder would keep its name
            raise RecordFailed(
                f"the run folder {path} cannot be made: {error.strerror}",
                hint="choose another place with --out FOLDER",
            ) from error
        return cls(path)

    def append_trial(self, key: str, number: int, trial: TrialResult) -> None:
        """Store a finished trial. Raise RecordFailed, with all earlier lines intact, if that
        fails."""
        content = trial.model_dump(mode="json")
        self._append(self._trials_file, {"key": key, "number": number, "trial": content})
        self._forget_intervals()
        self.trials[key].append(trial)

    def append_intervals(
        self, key: str, number: int, spec: TrialSpec, intervals: Mapping[str, Any]
    ) -> None:
        """Store finished intervals of a running trial until the trial itself is stored (see
        `append_trial`)."""
        if not intervals["first"]:
            self._forget_intervals()  # those of a trial that failed
        if self._intervals_file is None:
            self._intervals_file = _LinesFile(self.path / _INTERVALS)
        content = {"key": key, "number": number, "spec": spec.model_dump(mode="json")}
        self._append(self._intervals_file, {**content, "intervals": dict(intervals)})

    def _forget_intervals(self) -> None:
        if self._intervals_file is not None:
            self._intervals_file.close()
            self._intervals_file = None
            (self.path / _INTERVALS).unlink(missing_ok=True)

    def append_record(self, record: Record, versions: Mapping[str, str]) -> Record:
        """Store a finished test (see `append_trial`); return its record with its origin."""
        content = record.model_dump(mode="json")
        self._append(self._records_file, {"versions": dict(versions), "record": content})
        origin = _origin(self._name, self._host, self._lab, versions, record)
        stored = record.model_copy(update={"origin": origin})
        self.records.pop(record.key, None)
        self.records[record.key] = stored
        return stored

    def append_logs(self, testbed: str, logs: Mapping[str, str]) -> None:
        """Store the new text of a testbed's log files in a separate folder. The testbed chooses the
        file names, so skip names that lead elsewhere."""
        folder = self.path / "logs" / testbed
        with suppress(OSError):  # a run continues even if its logs cannot be stored
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in logs.items():
                if name in (".", "..") or Path(name).name != name:
                    continue
                with (folder / name).open("a", encoding="utf-8") as file:
                    file.write(text)

    def keep_lab(self, lab: Mapping[str, Any]) -> None:
        """Store the facts about testbeds (`testbeds.json`) for all records."""
        try:
            (self.path / _LAB).write_text(json.dumps(lab, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise RecordFailed(f"{self.path / _LAB} cannot be written: {error.strerror}") from error
        self._lab = dict(lab)

    def is_done(self, key: str) -> bool:
        """Return whether the test with this key ended without failure."""
        return key in self.records and self.records[key].status == "ok"

    @property
    def latest(self) -> list[Record]:
        """Return the latest record of each finished test, in numerical order."""
        return _latest(self.records.values())

    @property
    def resume_command(self) -> str:
        if self.until_decided is not None:
            run = shlex.quote(str(self.resumed_by))
            return f"switchmark compare {run} --until-decided {self.until_decided}"
        cluster = f" --cluster {shlex.quote(self.cluster)}" if self.cluster else ""
        return f"switchmark resume {shlex.quote(str(self.resumed_by))}{cluster}"

    def close(self) -> None:
        self._trials_file.close()
        self._records_file.close()
        if self._intervals_file is not None:
            self._intervals_file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if isinstance(error, OSError) and not is_run(self.path):
            raise self._gone() from error

    def _append(self, lines: _LinesFile, entry: Mapping[str, Any]) -> None:
        try:
            lines.append({"schema": SCHEMA, **entry})
        except OSError as error:
            if not is_run(self.path):
                raise self._gone() from error
            trials = sum(map(len, self.trials.values()))
            raise RecordFailed(
                f"the record could not be written: {error.strerror}\n  in {lines.path}\n"
                f"  {len(self.records)} finished tests and {trials} finished trials are safe there",
                hint=f"make room on the disk, then: {self.resume_command}",
            ) from error

    @property
    def kept(self) -> str:
        """Return the words for the number of finished tests and of other tests' trials."""
        finished = sum(record.status == "ok" for record in self.latest)
        trials = sum(len(stored) for key, stored in self.trials.items() if not self.is_done(key))
        text = f"kept are {finished} of {len(self.campaign.tests)} tests"
        return text + (f" and {trials} trial{'s' * (trials != 1)} of others" if trials else "")

    def _gone(self) -> RecordFailed:
        return RecordFailed(
            f"the run folder {self.path} is gone\n"
            "  it, or the folder that the run was started in, was removed while it went on",
            hint="run it again, with --out FOLDER where nobody removes it",
        )


class _Testbed(BaseModel):
    facts: dict[str, Any] = {}


class _Lab(BaseModel):
    """The members of `testbeds.json` that records use."""

    testbeds: dict[str, _Testbed] = {}
    groups: list[list[str]] = []
    differences: list[str] = []


class _LinesFile:
    """A locked file of JSON lines, open for appending; a torn last line is removed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK
        try:
            self._descriptor = open_no_link(path, flags, 0o644)
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.ELOOP):
                raise UsageError(f"{path} cannot be read: {error.strerror}") from error
            raise RecordFailed(f"{path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._descriptor)
            raise UsageError(f"{path.parent} is being written by another switchmark") from error
        try:
            whole_lines(self._descriptor)
        except OSError as error:
            os.close(self._descriptor)
            raise UsageError(f"{path} cannot be read: {error.strerror}") from error

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write a line to the disk. An OSError leaves the file unchanged, or reports that somebody
        removed the file, which would lose the line."""
        if os.fstat(self._descriptor).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        append_line(self._descriptor, to_line(entry, compact=True))

    def close(self) -> None:
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class UnfinishedTrial:
    """The trial that ran when an earlier run died."""

    number: int
    """The number of its test."""
    duration_s: float
    """The length that the trial was to have."""
    intervals: int
    """The intervals that are stored."""
    path: Path
    """The file that has them."""


def _put_aside(folder: Path) -> UnfinishedTrial | None:
    """Rename the file of the trial that ran when an earlier run died, as the next trial writes
    another one; return what it has. None if there is no such file, or if it is invalid."""
    path = folder / _INTERVALS
    entries = [entry for _, entry in _entries(path)]
    if not entries:
        return None
    numbers = (folder / f"intervals-{number}.jsonl" for number in count(1))
    aside = next(name for name in numbers if not name.exists())
    try:
        path.rename(aside)
        last, trial = entries[-1]["intervals"], TrialSpec.model_validate(entries[-1]["spec"])
        stored = last["first"] + len(last["offered"])
        return UnfinishedTrial(int(entries[-1]["number"]), trial.duration_s, stored, aside)
    except (KeyError, TypeError, ValueError, OSError):
        return None


def _latest(records: Iterable[Record]) -> list[Record]:
    by_number = {record.number: record for record in records}
    return [by_number[number] for number in sorted(by_number)]


def _records(folder: Path) -> Iterator[Record]:
    """Yield every record of a run folder, in the order of appending, with its origin."""
    path, host, lab = folder / "records.jsonl", read_host(folder), read_lab(folder)
    run = folder.resolve().name
    for line, entry in _entries(path):
        with _readable(path, line):
            record = Record.model_validate(entry["record"])
            origin = _origin(run, host, lab, entry.get("versions", {}), record)
        yield record.model_copy(update={"origin": origin})


def read_host(folder: Path) -> dict[str, Any]:
    """Return the facts about the host in a run's `host.json`; empty if the file is missing or
    invalid."""
    return read_object(folder / "host.json")


def read_lab(folder: Path) -> dict[str, Any]:
    """Return the facts about a run's testbeds and their differences; empty for a run on one host or
    an invalid file."""
    content = read_object(folder / _LAB)
    try:
        _Lab.model_validate(content)
    except ValidationError:
        return {}
    return content


def _origin(
    run: str,
    host: dict[str, Any],
    lab: Mapping[str, Any],
    versions: Mapping[str, str],
    record: Record,
) -> Origin:
    facts = lab.get("testbeds", {}).get(next(iter(record.testbeds), None), {}).get("facts")
    everything = facts or host
    # A test on another host has the facts of that host; between two, those of the sender's host.
    first = (record.test.hosts or "").partition(",")[0].strip()
    measured_on = everything.get("hosts", {}).get(first, everything)
    groups = lab.get("groups", []) if len(lab.get("groups", [])) > 1 else []
    alike = (name for group in groups if set(group) & set(record.testbeds) for name in group)
    return Origin(
        run=run,
        host=_shown_facts(measured_on) if measured_on else {},
        facts=everything,
        versions=dict(versions),
        alike=tuple(alike),
        differences=tuple(lab.get("differences", ())),
    )


def _shown_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: facts.get(name) for name in _OF_THE_HOST}


def _entries(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the complete lines, with their numbers."""
    try:
        whole = read_regular(path, MOST_BYTES, links=False).rpartition(b"\n")[0]
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(whole.splitlines(), 1):
        with _readable(path, number):
            entry = parse_line(line)
            schema = int(entry["schema"])
        if schema > SCHEMA:
            raise UsageError(
                f"{path}:{number}: written by a newer switchmark (schema {schema}; this one"
                f" reads up to {SCHEMA})"
            )
        yield number, entry


@contextmanager
def _readable(path: Path, line: int) -> Iterator[None]:
    """Raise UsageError, with the place, for an invalid stored line."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path}:{line}: not readable: {place}: {first['msg']}") from error
    except UsageError as error:  # of the value of an axis
        raise UsageError(f"{path}:{line}: not readable: {error.message}") from error
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise UsageError(f"{path}:{line}: not a line of a record") from error


def _new_folder(path: Path) -> Path:
    """Create the folder; append a number to its name if the name is taken."""
    for number in range(1, 1000):
        folder = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(errno.EEXIST, "too many folders of this name", str(path))
