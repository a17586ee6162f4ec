"""This module keeps the run folder: campaign, host, trials and records on disk, such that nothing
finished is lost.

A line is appended whole and fsynced, or not at all; a line torn by a death is cut off when the run
is resumed. The module reads and writes files only: it starts nothing.
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
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel, ValidationError

from switchmark.campaign.load import NAME, Campaign, Check, dump, load
from switchmark.errors import RecordFailed, UsageError
from switchmark.model.record import SCHEMA, Origin, Record, TrialResult
from switchmark.model.test import Test, axes_in_key, key_of_content
from switchmark.path.resolving import unknown_names
from switchmark.regular_file import open_no_link, read_object, read_regular
from switchmark.runs.jsonl import MOST_BYTES, append_line, parse_line, to_line, whole_lines

_CAMPAIGN, _LAB = "campaign.yaml", "testbeds.json"
_OF_THE_HOST = ("kernel", "machine", "cpu_model", "cores_usable", "memory_kib", "virtual")
"""What every record tells of its host; `host.json` has the rest."""


def key(test: Test, versions: Mapping[str, str]) -> str:
    """Return the key that a result belongs to: the hash of a test's spec and of the versions that
    matter."""
    return key_of_content({"spec": axes_in_key(test), "versions": dict(versions)})


def check_name(parent: Path, name: str) -> None:
    """Raise UsageError if no new run below `parent` can have this name."""
    if not NAME.fullmatch(name):
        raise UsageError(f"'{name}' cannot name a run: use letters, digits, '.', '-' and '_'")
    if (parent / name).exists():
        raise UsageError(
            f"there is a run named '{name}' already: {parent / name}",
            hint=f"another name, or: switchmark resume {shlex.quote(str(parent / name))}",
        )


def is_run(folder: Path) -> bool:
    """Say whether a folder is that of a run."""
    return (folder / _CAMPAIGN).is_file()


def read_campaign(folder: Path, check: Check = lambda test: []) -> Campaign:
    """Return the campaign of a run folder, as it was run, by whatever names this host knows now."""
    path = folder / _CAMPAIGN
    if not is_run(folder):
        raise UsageError(
            f"{folder} is no run folder: it holds no {_CAMPAIGN}",
            hint="name a folder that 'switchmark run' has made, such as runs/NAME-DATE-TIME",
        )
    return load(path, {}, check, links=False)


def read_records(folder: Path) -> list[Record]:
    """Return the latest record of each finished test of a run folder, in the order of numbers."""
    read_campaign(folder)
    return _latest(_records(folder))


class RunFolder:
    """A run folder is open for writing: locked against a second writer until it is closed.

    `records` holds the latest record of each key, the latest last; `trials` every finished trial of
    each key. `resumed_by` is the folder that the user names to go on, and `cluster` the lab. With
    `until_decided` the run goes on to so many repeats at most, until compared switches are decided.
    """

    def __init__(self, path: Path) -> None:
        """Open the folder of an earlier run to go on with it."""
        self.path = path
        self.resumed_by = path
        self.cluster = ""
        self.until_decided: int | None = None
        self.campaign = read_campaign(path, unknown_names)
        self._name = path.resolve().name
        self._host, self._lab = _host(path), read_lab(path)
        self._trials_file = _Lines(path / "trials.jsonl")
        self._records_file = _Lines(path / "records.jsonl")
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
        """Make a new folder of this name below `parent`, or `CAMPAIGN-YYYYMMDD-HHMMSS`, and open
        it."""
        path = parent / (name or f"{campaign.name}-{time.strftime('%Y%m%d-%H%M%S')}")
        made = None
        try:
            made = path = _new_folder(path)
            (path / "logs").mkdir()
            (path / "host.json").write_text(json.dumps(facts, indent=2) + "\n")
            (path / _CAMPAIGN).write_text(dump(campaign))
        except OSError as error:
            if made is not None:
                shutil.rmtree(made, ignore_errors=True)  # half of one would keep its name
            raise RecordFailed(
                f"the run folder {path} cannot be made: {error.strerror}",
                hint="choose another place with --out FOLDER",
            ) from error
        return cls(path)

    def append_trial(self, key: str, number: int, trial: TrialResult) -> None:
        """Keep a finished trial; RecordFailed, with all earlier lines intact, if that fails."""
        content = trial.model_dump(mode="json")
        self._append(self._trials_file, {"key": key, "number": number, "trial": content})
        self.trials[key].append(trial)

    def append_record(self, record: Record, versions: Mapping[str, str]) -> Record:
        """Keep a finished test; as `append_trial`. Return it with where it comes from."""
        content = record.model_dump(mode="json")
        self._append(self._records_file, {"versions": dict(versions), "record": content})
        origin = _origin(self._name, self._host, self._lab, versions, record)
        kept = record.model_copy(update={"origin": origin})
        self.records.pop(record.key, None)
        self.records[record.key] = kept
        return kept

    def append_logs(self, testbed: str, logs: Mapping[str, str]) -> None:
        """Keep what a testbed wrote to its log files, in a folder of its own. Names of files come
        from the testbed: those that lead elsewhere are left out."""
        folder = self.path / "logs" / testbed
        with suppress(OSError):  # a run is measured whether or not its logs can be kept
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in logs.items():
                if name in (".", "..") or Path(name).name != name:
                    continue
                with (folder / name).open("a") as file:
                    file.write(text)

    def keep_lab(self, lab: Mapping[str, Any]) -> None:
        """Keep what is known of the testbeds (`testbeds.json`), for all records."""
        try:
            (self.path / _LAB).write_text(json.dumps(lab, indent=2) + "\n")
        except OSError as error:
            raise RecordFailed(f"{self.path / _LAB} cannot be written: {error.strerror}") from error
        self._lab = dict(lab)

    def is_done(self, key: str) -> bool:
        """Say whether the test of this key has ended well."""
        return key in self.records and self.records[key].status == "ok"

    @property
    def latest(self) -> list[Record]:
        """Return the latest record of each finished test, in the order of numbers."""
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

    def _append(self, lines: _Lines, entry: Mapping[str, Any]) -> None:
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
        """Say how many tests are finished, and how much there is of the others."""
        done = sum(record.status == "ok" for record in self.latest)
        trials = sum(len(own) for key, own in self.trials.items() if not self.is_done(key))
        words = f"kept are {done} of {len(self.campaign.tests)} tests"
        return words + (f" and {trials} trial{'s' * (trials != 1)} of others" if trials else "")

    def _gone(self) -> RecordFailed:
        return RecordFailed(
            f"the run folder {self.path} is gone\n"
            "  it, or the folder that the run was started in, was removed while it went on",
            hint="run it again, with --out FOLDER where nobody removes it",
        )


class _Testbed(BaseModel):
    facts: dict[str, Any] = {}


class _Lab(BaseModel):
    """What records tell of their testbeds is found in these members."""

    testbeds: dict[str, _Testbed] = {}
    groups: list[list[str]] = []
    differences: list[str] = []


class _Lines:
    """A file of JSON lines is locked, and opened to append; a torn last line is cut off."""

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
        """Write a line to the disk. OSError leaves the file as it was, or tells that it has no name
        any more: whoever removed it, the line would be lost."""
        if os.fstat(self._descriptor).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        append_line(self._descriptor, to_line(entry, compact=True))

    def close(self) -> None:
        os.close(self._descriptor)


def _latest(records: Iterable[Record]) -> list[Record]:
    by_number = {record.number: record for record in records}
    return [by_number[number] for number in sorted(by_number)]


def _records(folder: Path) -> Iterator[Record]:
    """Return every record of a run folder, as it was appended, with where it comes from."""
    path, host, lab = folder / "records.jsonl", _host(folder), read_lab(folder)
    run = folder.resolve().name
    for line, entry in _entries(path):
        with _readable(path, line):
            record = Record.model_validate(entry["record"])
            origin = _origin(run, host, lab, entry.get("versions", {}), record)
        yield record.model_copy(update={"origin": origin})


def read_host(folder: Path) -> dict[str, Any]:
    """Return all that a run's `host.json` tells of its host; empty if that is not there or holds
    something else."""
    return read_object(folder / "host.json")


def read_lab(folder: Path) -> dict[str, Any]:
    """Return what is known of the testbeds of a run: facts of each, and in what they differ; empty
    for a run of one host, and where the file holds something else."""
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
    groups = lab.get("groups", []) if len(lab.get("groups", [])) > 1 else []
    alike = (name for group in groups if set(group) & set(record.testbeds) for name in group)
    return Origin(
        run=run,
        host=_told(facts) if facts else host,
        versions=dict(versions),
        alike=tuple(alike),
        differences=tuple(lab.get("differences", ())),
    )


def _host(folder: Path) -> dict[str, Any]:
    """Return what each record tells of its host."""
    facts = read_host(folder)
    return _told(facts) if facts else {}


def _told(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: facts.get(name) for name in _OF_THE_HOST}


def _entries(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the lines that were written to their end, with their numbers."""
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
    """Turn what is wrong with a stored line into a UsageError with its place."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path}:{line}: not readable: {where}: {first['msg']}") from error
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise UsageError(f"{path}:{line}: not a line of a record") from error


def _new_folder(path: Path) -> Path:
    """Make the folder, with a number behind its name where there is one of that name."""
    for number in range(1, 1000):
        folder = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(errno.EEXIST, "too many folders of this name", str(path))
