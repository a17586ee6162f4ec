"""The flat tables of recorded data: the columns with their types, descriptions and values in
Python.

The figures come from `--json` (`report.json`) and from `metrics`, and every metric of `METRICS` is
a column of `tests`. CSV, Parquet, LaTeX and SQL (`report.query`) use these tables without further
computation.
"""

from __future__ import annotations

import io
import json
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from switchmark.errors import UsageError
from switchmark.metrics.latency import figures_of
from switchmark.metrics.loss import lost_share
from switchmark.metrics.named import METRICS
from switchmark.metrics.soak import Interval, intervals_of
from switchmark.metrics.throughput import rates_pps, trial_rates_pps
from switchmark.model.evidence import Evidence
from switchmark.model.latency import LatencyFigures
from switchmark.model.record import SCHEMA, FlowCounts, Record, TrialResult, TrialSpec
from switchmark.model.search import Goal, SearchResult
from switchmark.model.series import TimeSeries
from switchmark.model.test import AXES
from switchmark.regular_file import open_regular, read_object
from switchmark.report.json import MEMBERS, asked_pps, plain
from switchmark.report.schema import member_docstrings

Meaning = str | tuple[type, str]
"""A description: a text, or a member of a model whose docstring is read on demand."""

_SCALARS: Mapping[object, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
}
_PYTHON: Mapping[str, Callable[[Any], Any]] = {
    "BOOLEAN": bool,
    "BIGINT": int,
    "DOUBLE": lambda value: float(value) if math.isfinite(value) else None,
    "VARCHAR": str,
    "JSON": lambda value: json.dumps(plain(value), separators=(",", ":")),
}

_OF_THE_HOST: Mapping[str, tuple[str, str]] = {
    "kernel": ("VARCHAR", "kernel release of the host"),
    "machine": ("VARCHAR", "machine type of the host"),
    "distribution": ("VARCHAR", "distribution of the host"),
    "cpu_model": ("VARCHAR", "processor model of the host"),
    "cores_usable": ("BIGINT", "CPUs that switchmark may use on the host"),
    "memory_kib": ("BIGINT", "memory of the host in KiB"),
    "virtual": ("BOOLEAN", "whether the host is a virtual machine"),
}
"""Facts of a host that are columns, with their types and meanings."""


class Unreadable(UsageError):
    """An unreadable stored line. `campaign.store` finds the line."""


@dataclass(frozen=True, slots=True)
class FlatColumn:
    """A column of a table."""

    name: str
    """Its name, in SQL and in the header of CSV."""

    kind: str
    """Its type in SQL."""

    meaning: Meaning
    """Its description."""

    of: Callable[[Any], Any]
    """Its value in a row of its table."""

    @property
    def description(self) -> str:
        """Return the description. The description of a member of a model is its docstring."""
        if isinstance(self.meaning, str):
            return self.meaning
        model, member = self.meaning
        return member_docstrings(model)[member]

    def value(self, row: Any) -> Any:
        """Return the value in a row, as the Python type of `kind`: JSON as text, and lists, structs
        and maps as lists and dictionaries. Raise Unreadable if it has another type."""
        value = self.of(row)
        if value is None:
            return None
        try:
            return _PYTHON.get(self.kind, plain)(value)
        except (TypeError, ValueError) as error:
            raise Unreadable(f"a stored value cannot be read: {self.name}: {value!r}") from error


@dataclass(frozen=True, slots=True)
class FlatTable:
    """A table of recorded data."""

    row: str
    """The meaning of a row."""

    columns: tuple[FlatColumn, ...]
    """Its columns, in order."""

    rows: Callable[[Tables], Iterable[Any]]
    """Its rows, which the columns read."""


# --- stored records --------------------------------------------------------------------------

_UNREAD: Mapping[type[BaseModel], Iterable[str]] = {
    Record: ("noise", "calibration", "gate", "turns", "discarded"),
    TrialResult: ("per_flow", "counters", "cost"),
    Evidence: Evidence.model_fields.keys() - {"after_end", "testbed"},
}
"""Members that take long to read, and that few columns need."""

_BUFFER_BYTES = 1 << 20
"""The buffer size for reading a file, in bytes."""

_OF_ALL = ("lost_at", "fairness", "cost")
"""Members of a test's object that need the slow members."""


def _partly(model: Any, **others: Any) -> Any:
    """Return a variant of a model that is faster to read. Members of `_UNREAD` are class attributes
    with the defaults, regardless of the stored values, and `others` have other types."""

    def usual(name: str) -> Any:
        return model.model_fields[name].get_default(call_default_factory=True)

    left_out = {name: usual(name) for name in _UNREAD[model]}
    fields = {
        name: Field(usual(name)) for name in others if not model.model_fields[name].is_required()
    }
    named = {
        "__module__": __name__,
        "__annotations__": {**dict.fromkeys(left_out, ClassVar[Any]), **others},
        "model_config": ConfigDict(extra="ignore"),
    }
    return type(f"Partly{model.__name__}", (model,), {**named, **left_out, **fields})


@cache
def _models() -> tuple[type[BaseModel], type[BaseModel], type[BaseModel]]:
    """Return the models for a line of records at first reading, for a complete line of records, and
    for a line of trials."""
    evidence = _partly(Evidence)
    # Places stay texts, as in the tables.
    trial = _partly(TrialResult, evidence=evidence, lost_at=dict[str, int])

    class First(BaseModel):
        schema_: int = Field(alias="schema", le=SCHEMA)
        versions: dict[str, str] | None = None
        record: _partly(Record, trials=tuple[trial, ...])  # type: ignore[valid-type]

    class Whole(BaseModel):
        record: Record

    class Finished(BaseModel):
        number: int | None = None
        trial: trial  # type: ignore[valid-type]

    return First, Whole, Finished


def _open(path: Path) -> IO[bytes]:
    """Open a file of lines; an empty file if there is none."""
    try:
        file = cast("io.RawIOBase", open_regular(path, sys.maxsize, links=False))
        return io.BufferedReader(file, _BUFFER_BYTES)
    except FileNotFoundError:
        return io.BytesIO()
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}") from error


def _lines(path: Path, model: type[BaseModel]) -> Iterator[tuple[int, Any]]:
    """Yield the complete lines of a file with their offsets in bytes."""
    offset = 0
    with _open(path) as file:
        for line in file:
            try:
                if line.endswith(b"\n"):
                    yield offset, model.model_validate_json(line)
            except (ValidationError, UsageError) as error:
                raise Unreadable(f"a stored line cannot be read: {path}") from error
            offset += len(line)


class TestRow:
    """A finished test of a run: its latest record, without slow members, and the place of the
    record in its file."""

    def __init__(
        self, run: str, host: Mapping[str, Any], path: Path, offset: int, line: Any
    ) -> None:
        self.run, self.host = run, host
        self.versions: dict[str, str] = line.versions or {}
        self.record: Record = line.record
        self._path, self._offset = path, offset
        self._members: dict[str, Any] = {}

    def __getitem__(self, column: str) -> Any:
        """Return the value in a column of the table of tests."""
        return TESTS[column].value(self)

    @property
    def text(self) -> str:
        """Return the stored text of the record."""
        return json.dumps(json.loads(self._line())["record"])

    @property
    def whole(self) -> Record:
        """Return the complete record, which is read again on each call."""
        _, model, _ = _models()
        try:
            return model.model_validate_json(self._line()).record  # type: ignore[attr-defined, no-any-return]
        except (ValidationError, UsageError) as error:
            raise Unreadable(f"a stored line cannot be read: {self._path}") from error

    @cached_property
    def latency(self) -> LatencyFigures | None:
        """Return the latency of all trials."""
        return figures_of([trial.latency for trial in self.record.trials if trial.latency])

    @cached_property
    def rates_pps(self) -> list[float]:
        """Return the received rate of each trial."""
        return rates_pps(self.record)

    def member(self, name: str) -> Any:
        """Return a member of the test's object before its conversion to JSON."""
        if name not in self._members:
            whole = name in _OF_ALL
            record = self.whole if whole else self.record
            names = _OF_ALL if whole else (name,)
            self._members |= {member: MEMBERS[member](record) for member in names}
        return self._members[name]

    @cached_property
    def metrics(self) -> dict[str, float | None]:
        """Return the values of all metrics, from one reading of the record."""
        whole = self.whole
        return {name: metric.of(whole) for name, metric in METRICS.items()}

    def _line(self) -> bytes:
        with self._path.open("rb") as file:
            file.seek(self._offset)
            return file.readline()


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A finished trial, alone or with its finished test."""

    run: str
    """The name of the run."""
    number: int | None
    """The number of the test in the run."""
    counts: TrialResult
    """The counts of the trial."""
    result: TestRow | None = None
    """The row of the test; None if the test has not finished."""
    index: int = 0
    """Its index in the test, from 0."""


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A flow of a trial."""

    trial: TrialRow
    counts: FlowCounts


@dataclass(frozen=True, slots=True)
class GoalRow:
    """The value that a search found for a goal, or the value of one of its repeats, from 1."""

    result: TestRow
    goal: Goal
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """A member of the outcome of an experiment: a claim, or a figure with its published values."""

    run: str
    experiment: str
    content: Mapping[str, Any]


class Tables:
    """The recorded data of runs as tables. Rows are read, and columns are computed, on first
    use."""

    def __init__(
        self,
        folders: Sequence[Path],
        outcomes: Callable[[Path], Sequence[Mapping[str, Any]]] = lambda folder: (),
    ) -> None:
        """Read the records. Raise Unreadable if that fails. `outcomes` returns the objects of a
        run's experiments (`report.paper.as_object`), which are judged when a query needs them."""
        self._outcomes = outcomes
        self._folders = list({folder.resolve(): None for folder in folders})
        for folder in self._folders:
            _open(folder / "trials.jsonl").close()  # checked now, read when a query needs it
        self.names = [self.name(folder) for folder in self._folders]
        self.results = [
            result
            for name, folder in sorted(zip(self.names, self._folders, strict=True))
            for result in _results(folder, name)
        ]
        self._rows: dict[str, list[Any]] = {}
        self._values: dict[tuple[str, str], list[Any]] = {}

    def name(self, folder: Path) -> str:
        """Return the name of a run: the name of its folder, or the path if two runs have the same
        name, such as runs of two hosts that started in the same second."""
        same = [other for other in self._folders if other.name == folder.resolve().name]
        return str(folder.resolve()) if len(same) > 1 else folder.resolve().name

    def finished(self, folder: Path) -> int:
        """Return the number of tests of a run that have a record."""
        return len(self.of_run(self.name(folder)))

    def rows(self, table: str) -> list[Any]:
        """Return the rows of a table."""
        if table not in self._rows:
            self._rows[table] = list(TABLES[table].rows(self))
        return self._rows[table]

    def values(self, table: str, column: str) -> list[Any]:
        """Return the values of a column."""
        key = table, column
        if key not in self._values:
            (of,) = (candidate for candidate in TABLES[table].columns if candidate.name == column)
            self._values[key] = [of.value(row) for row in self.rows(table)]
        return self._values[key]

    def of_run(self, name: str) -> list[TestRow]:
        """Return the finished tests of a run by number."""
        return [result for result in self.results if result.run == name]

    def of_experiments(self, member: str) -> Iterator[ExperimentRow]:
        """Yield the entries of a member of the outcomes: `claims` or `values`."""
        for folder in self._folders:
            for outcome in self._outcomes(folder):
                for entry in outcome[member]:
                    yield ExperimentRow(self.name(folder), outcome["experiment"], entry)

    def finished_trials(self) -> Iterator[TrialRow]:
        """Yield all finished trials, including the intermediate trials of searches."""
        *_, model = _models()
        for folder in self._folders:
            for _, line in _lines(folder / "trials.jsonl", model):
                yield TrialRow(self.name(folder), line.number, line.trial)


def _results(folder: Path, run: str) -> Iterator[TestRow]:
    """Yield the finished tests of a run by number, with their latest records."""
    path, facts = folder / "records.jsonl", read_object(folder / "host.json")
    testbeds = read_object(folder / "testbeds.json").get("testbeds")
    first, *_ = _models()
    latest = {line.record.number: (offset, line) for offset, line in _lines(path, first)}
    for _, (offset, line) in sorted(latest.items()):
        yield TestRow(run, _host(facts, testbeds, line.record), path, offset, line)


def _host(facts: Mapping[str, Any], testbeds: Any, record: Record) -> Mapping[str, Any]:
    """Return the facts of the host of a test: the host of this run, or the first testbed of a lab
    that ran the test."""
    testbed = testbeds.get(next(iter(record.testbeds), "")) if isinstance(testbeds, dict) else None
    of_testbed = testbed.get("facts") if isinstance(testbed, dict) else None
    return of_testbed if isinstance(of_testbed, dict) and of_testbed else facts


# --- columns ---------------------------------------------------------------------------------

_OUTCOME = ("status", "error", "semantics", "steering", "port", "memory", "engine_mode")
"""Members of a record that are columns. The axis with the same name is the column `asked_NAME`,
because it may be `auto`."""

_ROLES = ("sender", "receiver", "client", "server", "forwarder", "function", "switch")
_LATENCY = "count min mean p50 p90 p99 p999 p9999 p99999 p999999 max".split()
_LOSSES = ("late", "duplicated", "reordered", "corrupted", "foreign", "stray")
_RUN = "the run: the name of its folder, or the path if two runs have the same name"


def _within(value: Any, *names: str) -> Any:
    """Return the value at a path of attributes, keys and indices; None if it is missing."""
    for name in names:
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, (tuple, list)):
            value = value[int(name)]
        else:
            value = getattr(value, name, None)
    return value


def _of_object(path: str) -> Callable[[TestRow], Any]:
    """Return a function that reads a member of a test's object by its path, such as `rx.pps`."""
    name, *names = path.split(".")
    return lambda result: _within(result.member(name), *names)


def _of_record(path: str) -> Callable[[TestRow], Any]:
    """Return a function that reads a member of a record."""
    return lambda result: _within(result.record, *path.split("."))


def _of_run() -> Iterable[FlatColumn]:
    yield FlatColumn("run", "VARCHAR", _RUN, lambda result: result.run)
    yield FlatColumn("number", "BIGINT", "the test's number in its run", _of_record("number"))
    yield FlatColumn("time", "VARCHAR", "when the test began", _of_record("started"))


def _outcome() -> Iterable[FlatColumn]:
    for name in _OUTCOME:
        yield FlatColumn(name, "VARCHAR", (Record, name), _of_record(name))
    policy = _of_record("placement.policy")
    yield FlatColumn("placement_policy", "VARCHAR", "the placement policy in use", policy)
    yield FlatColumn("cpus", "JSON", "the CPUs of each part", _seats)
    yield FlatColumn("verdict", "VARCHAR", (Record, "verdict"), _of_record("verdict"))
    bound = "the traffic generator was the limit; the switch may be faster"
    yield FlatColumn("lower_bound", "BOOLEAN", bound, _of_object("lower_bound"))
    yield FlatColumn("doubts", "VARCHAR[]", (Record, "doubts"), _of_record("doubts"))


def _seats(result: TestRow) -> Any:
    placement = result.record.placement
    return placement and placement.model_dump(mode="json")["seats"]


def _axes() -> Iterable[FlatColumn]:
    for name, axis in AXES.items():
        column = f"asked_{name}" if name in _OUTCOME else axis.json_name or name
        value = _of_record(f"test.{name}")
        if name == "frame_size":
            yield FlatColumn("frame_size", "VARCHAR", "frame size: bytes, or imix", value)
            meaning = "frame size in bytes with the FCS; null for imix"
            yield FlatColumn("frame_bytes", "BIGINT", meaning, _frame_bytes)
            continue
        yield FlatColumn(column, kind_of(axis.field.annotation), axis.help, value)
        if name == "rate":
            meaning = "load in frames per second and sender"
            yield FlatColumn(
                axis.json_number, "DOUBLE", meaning, lambda result: asked_pps(result.record)
            )


def _frame_bytes(result: TestRow) -> int | None:
    size = result.record.test.frame_size
    return size if isinstance(size, int) else None


def _frames() -> Iterable[FlatColumn]:
    yield FlatColumn("repeats", "BIGINT", "number of trials", _of_object("repeats"))
    yield FlatColumn("tx_frames", "BIGINT", "frames sent", _of_object("tx.frames"))
    meaning = "frames that were due and not sent"
    yield FlatColumn("tx_unsent_frames", "BIGINT", meaning, _of_object("tx.unsent"))
    yield FlatColumn("tx_pps", "DOUBLE", "frames sent per second", _of_object("tx.pps"))
    yield FlatColumn(
        "rx_frames", "BIGINT", "frames received, including duplicates", _of_object("rx.frames")
    )
    meaning = "distinct frames received per second; R+ of a search"
    yield FlatColumn("rx_pps", "DOUBLE", meaning, _of_object("rx.pps"))
    yield FlatColumn(
        "rx_gbps_l1", "DOUBLE", "received rate on the wire in 10^9 bit/s", _of_object("rx.gbps_l1")
    )
    yield FlatColumn(
        "rx_gbps_l2",
        "DOUBLE",
        "received rate of frame bytes in 10^9 bit/s",
        _of_object("rx.gbps_l2"),
    )
    meaning = "lower end of the 95 % interval of rx_pps; null below thirteen repeats"
    yield FlatColumn("ci95_low_pps", "DOUBLE", meaning, _of_object("ci95_pps.0"))
    yield FlatColumn(
        "ci95_high_pps", "DOUBLE", "upper end of that interval", _of_object("ci95_pps.1")
    )
    yield FlatColumn("lost_frames", "BIGINT", "frames that did not arrive", _of_object("lost"))
    meaning = "share of lost frames in the frames sent"
    yield FlatColumn("lost_ratio", "DOUBLE", meaning, lambda result: lost_share(result.record))
    meaning = "lost frames by place"
    yield FlatColumn(
        "lost_at", "VARCHAR", meaning, lambda result: json.dumps(result.member("lost_at"))
    )
    meaning = "lost frames whose place is unknown"
    yield FlatColumn("unaccounted_frames", "BIGINT", meaning, _of_object("unaccounted"))
    for name in _LOSSES:
        yield FlatColumn(f"{name}_frames", "BIGINT", (TrialResult, name), _of_object(name))
    yield FlatColumn(
        "fairness", "DOUBLE", "Jain's fairness index of the flows", _of_object("fairness")
    )


def _latencies(of: Callable[[Any], Any]) -> Iterable[FlatColumn]:
    """Yield the columns of the latency that `of` returns for a row."""
    for name in _LATENCY:
        meaning = {"count": "frames with a latency", "min": "minimum latency"}.get(name)
        meaning = meaning or {"mean": "mean latency", "max": "maximum latency"}.get(name)
        percent = f"{name[1:3]}.{name[3:]}".rstrip(".")
        yield FlatColumn(
            "latency_samples" if name == "count" else f"latency_{name}_ns",
            "DOUBLE" if name == "mean" else "BIGINT",
            meaning or f"{percent}th percentile of the latency",
            partial(_member_of, of, name),
        )


def _member_of(of: Callable[[Any], Any], name: str, row: Any) -> Any:
    return getattr(of(row), name, None)


def _latency() -> Iterable[FlatColumn]:
    def of(*names: str) -> Callable[[TestRow], Any]:
        return lambda result: _within(result.latency, *names)

    yield FlatColumn(
        "latency_kind", "VARCHAR", "rtt, or one-way if both ends use one clock", of("kind")
    )
    yield from _latencies(of())
    yield FlatColumn("latency_pdv_ns", "BIGINT", "packet delay variation (RFC 5481)", of("pdv"))
    for name in ("p50", "p99"):
        meaning = f"{name} of the delay variation of consecutive frames (RFC 5481)"
        yield FlatColumn(f"latency_ipdv_{name}_ns", "BIGINT", meaning, of("ipdv", name))
    meaning = "lower end of the 95 % interval of the median"
    yield FlatColumn("latency_ci95_low_ns", "DOUBLE", meaning, _of_object("ci95_ns.0"))
    yield FlatColumn(
        "latency_ci95_high_ns", "DOUBLE", "upper end of that interval", _of_object("ci95_ns.1")
    )
    for name in ("p50", "p99"):
        meaning, floor = f"{name} of the baseline, without a switch", _of_record(f"floor.{name}")
        yield FlatColumn(f"latency_floor_{name}_ns", "BIGINT", meaning, floor)


def _cost() -> Iterable[FlatColumn]:
    for role in _ROLES:
        meaning = f"CPU use of the {role} in cores"
        yield FlatColumn(f"cpu_{role}_cores", "DOUBLE", meaning, _of_object(f"cpu.{role}"))
    for name, meaning in {
        "softirq_cores": "softirq time of the whole host in cores",
        "switch_busy_cores": "busy cores of the switch by its cycle counter",
        "total_cores": "CPU use of all parts and of the kernel outside of them in cores",
        "mpps_per_core": "10^6 frames received per second and core",
    }.items():
        column = name if name.endswith("core") else f"cpu_{name}"
        yield FlatColumn(column, "DOUBLE", meaning, _of_object(f"cost.{name}"))


def _metrics() -> Iterable[FlatColumn]:
    for name, metric in METRICS.items():
        meaning = f"{metric.description}, in {metric.unit}" if metric.unit else metric.description
        yield FlatColumn(column_of(name), "DOUBLE", meaning, partial(_metric, name))


def _metric(name: str, result: TestRow) -> float | None:
    return result.metrics[name]


def column_of(metric: str) -> str:
    """Return the column of a metric in the table of tests. The name `loss_ratio` is also an
    axis."""
    return metric if "." in metric else f"metric.{metric}"


def _searched() -> Iterable[FlatColumn]:
    for goal in ("ndr", "pdr"):
        for name, meaning in {
            "rate": f"{goal.upper()} in frames per second and sender",
            "low": "highest rate that met the goal",
            "high": "lowest higher rate that did not meet it",
        }.items():
            column = f"{goal}_pps" if name == "rate" else f"{goal}_{name}_pps"
            yield FlatColumn(column, "DOUBLE", meaning, partial(_of_goal, goal, f"{name}_pps"))
    yield FlatColumn("r_plus_pps", "DOUBLE", "R+; relative loads are shares of it", _r_plus_pps)
    meaning = "number of trials of the search"
    yield FlatColumn("search_trials", "BIGINT", meaning, _of_record("search.trials"))
    yield FlatColumn("searches", "BIGINT", "number of searches", _searches)


def _of_goal(goal: str, name: str, result: TestRow) -> float | None:
    search = result.record.search
    found = (
        next((candidate for candidate in search.goals if candidate.goal == goal), None)
        if search
        else None
    )
    return getattr(found, name, None)


def _r_plus_pps(result: TestRow) -> float | None:
    requested = result.record.r_plus_pps
    return _within(result.record, "search", "r_plus_pps") if requested is None else requested


def _searches(result: TestRow) -> int | None:
    search = result.record.search
    return None if search is None else len(search.repeats)


def _set_up() -> Iterable[FlatColumn]:
    meaning = "NICs that were named by PCI address, as the host found them"
    yield FlatColumn("nics", "JSON", meaning, _of_object("nics"))
    yield FlatColumn(
        "reused",
        "BOOLEAN",
        "whether the path was still up from the previous test",
        _of_record("reused"),
    )
    for name in ("setup_s", "start_s", "teardown_s", "stop_s"):
        yield FlatColumn(name, "DOUBLE", (Record, name), _of_record(name))
    meaning = "hash of the axes of the test and of the versions that matter"
    yield FlatColumn("key", "VARCHAR", meaning, _of_record("key"))


def _fact(name: str, result: TestRow) -> Any:
    return result.host.get(name)


def _origin() -> Iterable[FlatColumn]:
    for name, (kind, meaning) in _OF_THE_HOST.items():
        yield FlatColumn(f"host_{name}", kind, meaning, partial(_fact, name))
    meaning = "the version of switchmark"
    version = FlatColumn(
        "switchmark_version", "VARCHAR", meaning, lambda r: r.versions.get("switchmark")
    )
    yield version
    for name, meaning in {
        "switch_version": "the version of the switch",
        "switch_mode": "the variant of the switch, such as its datapath",
    }.items():
        yield FlatColumn(name, "VARCHAR", meaning, _of_record(name))
    yield _VERSIONS


_VERSIONS = FlatColumn(
    "versions",
    "MAP(VARCHAR, VARCHAR)",
    "all versions that the figures depend on",
    lambda result: result.versions,
)


# --- columns of trials, flows and goals ------------------------------------------------------


def _of_counts(model: type, name: str, column: str = "") -> FlatColumn:
    """Return the column for a member of a trial, or of its flow."""
    kind = kind_of(model.model_fields[name].annotation)  # type: ignore[attr-defined]
    return FlatColumn(column or name, kind, (model, name), lambda row: getattr(row.counts, name))


def _of_trial(*, finished: bool) -> Iterable[FlatColumn]:
    for column, name, meaning in (
        ("repeat", "repeat", (TrialSpec, "repeat")),
        ("asked_pps", "rate_pps", "requested rate; null for max"),
        ("duration_s", "duration_s", "requested duration in seconds"),
        ("warmup_s", "warmup_s", "warm-up in seconds"),
    ):
        kind = "BIGINT" if name == "repeat" else "DOUBLE"
        yield FlatColumn(column, kind, meaning, attrgetter(f"counts.spec.{name}"))
    yield _of_counts(TrialResult, "elapsed_ns")
    for name in ("tx_frames", "tx_unsent", "rx_frames", "rx_bytes", "lost", *_LOSSES):
        column = name if name.startswith(("tx_f", "rx_")) else f"{name}_frames"
        yield _of_counts(TrialResult, name, column)
    if not finished:
        meaning = "distinct frames received per second; R+ of a search"
        yield FlatColumn("rx_pps", "DOUBLE", meaning, lambda row: row.result.rates_pps[row.index])
    yield FlatColumn("whole_pps", "DOUBLE", "rx_pps over the whole trial", _whole_pps)
    places = FlatColumn("lost_at", "JSON", (TrialResult, "lost_at"), lambda row: row.counts.lost_at)
    yield places
    for name in ("interval_ns", "intervals"):
        yield _of_counts(TrialResult, name)
    yield from _latencies(lambda row: row.counts.latency)
    meaning = "HdrHistogram's V2 compressed encoding"
    histogram = lambda row: _within(row.counts.latency, "histogram")  # noqa: E731
    yield FlatColumn("latency_histogram", "VARCHAR", meaning, histogram)
    for name in ("parts", "verdict", "doubts"):
        yield _of_counts(TrialResult, name)


def _whole_pps(row: TrialRow) -> float:
    (rate,) = trial_rates_pps([row.counts], steady=False)
    return rate


def _of_flow() -> Iterable[FlatColumn]:
    yield _of_counts(FlowCounts, "flow")
    for name in ("tx", "rx", "lost", "duplicated", "reordered", "corrupted"):
        yield _of_counts(FlowCounts, name, f"{name}_frames")
    meaning = "distinct frames received per second"
    yield FlatColumn("rx_pps", "DOUBLE", meaning, _flow_pps)
    yield from _latencies(lambda row: row.counts.latency)


def _flow_pps(row: FlowRow) -> float:
    return row.counts.rx * 1e9 / row.trial.counts.elapsed_ns


def _of_found() -> Iterable[FlatColumn]:
    for name, field in Goal.model_fields.items():
        if name != "latency_ns":
            of = lambda row, name=name: getattr(row.goal, name)  # noqa: E731
            yield FlatColumn(name, kind_of(field.annotation), (Goal, name), of)
    yield from _latencies(lambda row: row.goal.latency_ns)


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """An interval of a trial with a time series."""

    trial: TrialRow
    interval: Interval


def _of_interval() -> Iterable[FlatColumn]:
    meaning = "start of the interval, in seconds since the start of the measured phase"
    yield FlatColumn("start_s", "DOUBLE", meaning, lambda row: row.interval.start_s)
    meaning = "lost frames as a share of those that were due in the interval"
    yield FlatColumn("loss_ratio", "DOUBLE", meaning, lambda row: row.interval.loss_ratio)
    for name, column in _INTERVAL_COLUMNS.items():
        of = lambda row, name=name: _in_interval(row.interval, name)  # noqa: E731
        yield FlatColumn(column, "BIGINT", (TimeSeries, name), of)
    where = lambda row: {str(k): n for k, n in row.interval.lost_at.items()}  # noqa: E731
    yield FlatColumn("lost_at", "JSON", (TimeSeries, "lost_at"), where)


def _in_interval(interval: Interval, name: str) -> int | None:
    values = getattr(interval.series, name)
    return values[interval.number] if values else None


_INTERVAL_COLUMNS = {
    **{
        name: f"{name}_frames"
        for name in ("offered", "lost", "received", "duplicated", "reordered")
    },
    **{name: name for name in ("p50_ns", "p99_ns", "p999_ns", "max_ns", "switch_rss_kib")},
}
"""The members of a time series that are lists, and their columns."""


# --- SQL types -------------------------------------------------------------------------------


def kind_of(annotation: Any) -> str:
    """Return the SQL type for a Python type. A union is text or JSON."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        members = (f'"{name}" {kind_of(field.annotation)}' for name, field in fields)
        return f"STRUCT({', '.join(members)})"
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return kind_of(inner[0])
    if origin is Literal:
        return "VARCHAR"
    if origin in (typing.Union, types.UnionType):
        some = [kind for kind in inner if kind is not types.NoneType]
        if len(some) == 1:
            return kind_of(some[0])
        scalar = all(kind in _SCALARS or typing.get_origin(kind) is Literal for kind in some)
        return "VARCHAR" if scalar else "JSON"
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return f"{kind_of(inner[0])}[]"
    return _SCALARS.get(annotation, "JSON")


# --- tables ----------------------------------------------------------------------------------


def _trials(runs: Tables) -> Iterator[TrialRow]:
    for result in runs.results:
        for index, counts in enumerate(result.record.trials):
            yield TrialRow(result.run, result.record.number, counts, result, index)


def _flows(runs: Tables) -> Iterator[FlowRow]:
    for result in runs.results:
        for index, counts in enumerate(result.whole.trials):
            trial = TrialRow(result.run, result.record.number, counts, result, index)
            yield from (FlowRow(trial, flow) for flow in counts.per_flow)


def _intervals(runs: Tables) -> Iterator[IntervalRow]:
    for trial in _trials(runs):
        yield from (IntervalRow(trial, interval) for interval in intervals_of(trial.counts))


def _goals(runs: Tables) -> Iterator[GoalRow]:
    for result, search in _of_searches(runs):
        yield from (GoalRow(result, goal) for goal in search.goals)


def _search_repeats(runs: Tables) -> Iterator[GoalRow]:
    for result, search in _of_searches(runs):
        for repeat, one in enumerate(search.repeats, 1):
            yield from (GoalRow(result, goal, repeat) for goal in one.goals)


def _of_searches(runs: Tables) -> Iterator[tuple[TestRow, SearchResult]]:
    for result in runs.results:
        if result.record.search is not None:
            yield result, result.record.search


# --- experiments -----------------------------------------------------------------------------


def _of_entry(name: str) -> Callable[[ExperimentRow], Any]:
    """Return a function that reads a member of a claim or of a figure."""
    return lambda row: row.content[_MEMBERS.get(name, name)]


def _experiment_columns(members: Iterable[tuple[str, str, str]]) -> Iterable[FlatColumn]:
    """Yield the columns of a table of experiments, from names, types and descriptions."""
    yield FlatColumn("run", "VARCHAR", _RUN, lambda row: row.run)
    name = "the experiment, such as ara-2021/fig4b"
    yield FlatColumn("experiment", "VARCHAR", name, lambda row: row.experiment)
    for member, kind, meaning in members:
        yield FlatColumn(member, kind, meaning, _of_entry(member))


_CLAIMS = (
    ("id", "VARCHAR", "the name of the claim in its experiment"),
    ("kind", "VARCHAR", "the kind of the claim, such as order"),
    ("metric", "VARCHAR", "the metric that the claim compares"),
    ("says", "VARCHAR", "the claim in words"),
    ("said", "BOOLEAN", "whether the paper states the claim; otherwise its values imply it"),
    ("place", "VARCHAR", "the place of the claim in the paper"),
    ("answer", "VARCHAR", "holds, does not hold, or cannot be told"),
    ("why", "VARCHAR", "the reason for the answer"),
    ("rounds_needed", "BIGINT", "rounds that would probably decide the claim"),
    ("contradicted", "VARCHAR", "the contradiction in the paper's own values"),
    ("doubts", "VARCHAR[]", "the doubts about the figures that the claim compares"),
    ("compared", "JSON", "the figures that the claim compares"),
)

_FIGURES = (
    ("point", "JSON", "the axes of the point"),
    ("metric", "VARCHAR", "the metric"),
    ("unit", "VARCHAR", "the unit of the metric"),
    ("published", "JSON", "the published values, with their place and why they are uncertain"),
    ("value", "DOUBLE", "the measured figure"),
    ("low", "DOUBLE", "the lower end of its 95 % interval; the figure itself without one"),
    ("high", "DOUBLE", "the upper end of that interval"),
    ("lower_bound", "BOOLEAN", "the traffic generator was the limit"),
    ("ratio", "DOUBLE", "the measured figure divided by the published value, if that is exact"),
    ("doubts", "VARCHAR[]", "the doubts about the measured figure"),
)

_MEMBERS = {"point": "at"}
"""The members of outcomes whose columns have another name."""


def _tables() -> Iterable[tuple[str, FlatTable]]:
    number = "the test's number in its run"

    def named(of: Callable[[Any], TestRow | TrialRow]) -> tuple[FlatColumn, ...]:
        def number_of(row: Any) -> int | None:
            found = of(row)
            return found.record.number if isinstance(found, TestRow) else found.number

        return (
            FlatColumn("run", "VARCHAR", _RUN, lambda row: of(row).run),
            FlatColumn("number", "BIGINT", number, number_of),
        )

    groups = (_of_run, _outcome, _axes, _frames, _latency, _cost, _searched, _set_up, _origin)
    columns = tuple(column for group in (*groups, _metrics) for column in group())
    yield "tests", FlatTable("a finished test", columns, lambda runs: runs.results)
    meaning = "the trial's number in its test"
    of_trial = FlatColumn("trial", "BIGINT", meaning, lambda row: row.index + 1)
    columns = (*named(lambda row: row), of_trial, *_of_trial(finished=False))
    yield "trials", FlatTable("a trial of a finished test", columns, _trials)
    of_flow = FlatColumn("trial", "BIGINT", meaning, lambda row: row.trial.index + 1)
    columns = (*named(lambda row: row.trial), of_flow, *_of_flow())
    yield "flows", FlatTable("a flow of such a trial", columns, _flows)
    of_interval = FlatColumn("trial", "BIGINT", meaning, lambda row: row.trial.index + 1)
    columns = (*named(lambda row: row.trial), of_interval, *_of_interval())
    yield "intervals", FlatTable("an interval of such a trial (`interval`)", columns, _intervals)
    columns = (*named(lambda row: row.result), *_of_found())
    yield "goals", FlatTable("the result of a search for a goal", columns, _goals)
    meaning = "the repeat of the search, from 1"
    repeat = FlatColumn("repeat", "BIGINT", meaning, lambda row: row.repeat)
    columns = (*named(lambda row: row.result), repeat, *_of_found())
    yield "searches", FlatTable("the result of one repeat of a search", columns, _search_repeats)
    columns = tuple(_experiment_columns(_CLAIMS))
    of_claims = partial(Tables.of_experiments, member="claims")
    yield "claims", FlatTable("a claim of an experiment, with its answer", columns, of_claims)
    columns = tuple(_experiment_columns(_FIGURES))
    of_values = partial(Tables.of_experiments, member="values")
    meaning = "a figure of an experiment, with its published values"
    yield "figures", FlatTable(meaning, columns, of_values)
    columns = (*named(lambda row: row), *_of_trial(finished=True))
    trials = FlatTable(
        "a finished trial, including trials of searches", columns, Tables.finished_trials
    )
    yield "all_trials", trials
    stored = FlatColumn(
        "record", "VARCHAR", "the record as it is stored", lambda result: result.text
    )
    columns = (*named(lambda row: row), stored, _VERSIONS)
    yield "records", FlatTable("a finished test as JSON", columns, lambda runs: runs.results)


TABLES: Mapping[str, FlatTable] = dict(_tables())
"""The tables by name."""

TESTS: Mapping[str, FlatColumn] = {column.name: column for column in TABLES["tests"].columns}
"""The columns of the table of tests, by name."""
