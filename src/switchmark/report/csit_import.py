"""Records from files of FD.io CSIT: documents of version 1.5 of its model
(resources/model_schema/test_case.schema.yaml in CSIT), as `report.csit` writes them too.

A document has rates and no counts, so its record has no trials. Axes without a value in
the document have their defaults, and `Imported.axes` names the others.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from switchmark.errors import UsageError
from switchmark.model.axis import field_name
from switchmark.model.imported import Imported
from switchmark.model.latency import LatencyFigures
from switchmark.model.record import Origin, Record
from switchmark.model.search import Goal, SearchResult
from switchmark.model.test import AXES, Test
from switchmark.regular_file import read_regular

_SUFFIXES = (".info.json", ".info.json.gz")
_OWN = "switchmark"
_MOST_BYTES = 1 << 28
_VERSION = r"1\.5\.\d+"
_LINE = re.compile(r'switchmark_(\w+)\{((?:\w+="(?:\\.|[^"\\])*",?)*)\} (\S+) \S+')
_LABEL = re.compile(r'(\w+)="((?:\\.|[^"\\])*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
_LOSS_RATIOS = {"ndr": 0.0, "pdr": 0.005}
_EXCEED_RATIO = 0.5
"""The goals of CSIT, by the descriptions in its model."""

_IMIX = "imix:csit"
_CONDITIONAL = (
    "CSIT gives the conditional throughput, the median of received rates at the load found, and "
    "switchmark the load that met the goal"
)
_IMIX_6 = "the mix of CSIT for IPv6 begins at 78 bytes"
_OTHER_SIZES = re.compile(r"imix_v6|-(78b)-")


class _Rate(BaseModel):
    value: float
    unit: str


class _Rated(BaseModel):
    rate: _Rate


class _Bounds(BaseModel):
    lower: _Rated
    upper: _Rated | None = None


class _Rates(BaseModel):
    values: list[float]
    unit: str


class _Received(BaseModel):
    rate: _Rates


class _Result(BaseModel):
    type: str
    ndr: _Bounds | None = None
    pdr: _Bounds | None = None
    receive_rate: _Received | None = None
    latency_forward: Any = None
    latency_reverse: Any = None


class _Document(BaseModel):
    """The members of a document that records need."""

    model_config = ConfigDict(extra="ignore")

    dut_type: str
    dut_version: str
    hosts: list[str]
    message: str
    passed: bool
    result: _Result
    start_time: str
    tags: list[str]
    telemetry: list[str]
    test_id: str
    test_name_long: str
    test_type: str
    tg_type: str
    tg_version: str
    version: str


def is_csit(path: Path) -> bool:
    """Return whether a path is a document of CSIT, or a folder of them, by its name."""
    if path.is_dir():
        return not (path / "campaign.yaml").exists() and bool(_files(path))
    return path.name.endswith((*_SUFFIXES, ".json"))


def records_of(path: Path) -> list[Record]:
    """Return the tests of a document of CSIT, or of a folder with such documents. Raise UsageError
    with the place of a file that is none."""
    run = path.resolve().name.removesuffix(".gz").removesuffix(".json").removesuffix(".info")
    files = _files(path) if path.is_dir() else [path]
    return [_record(_read(file), number, run, file) for number, file in enumerate(files, 1)]


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.name.endswith(_SUFFIXES))


def _read(file: Path) -> _Document:
    try:
        content = read_regular(file, _MOST_BYTES)
        if file.suffix == ".gz":
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(_MOST_BYTES)
        document = _Document.model_validate(json.loads(content))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"{file}: no document of CSIT: {place}: {first['msg']}") from error
    except (ValueError, EOFError) as error:
        raise UsageError(f"{file}: no document of CSIT: {error}") from error
    if not re.fullmatch(_VERSION, document.version):
        raise UsageError(
            f"{file}: version {document.version} of CSIT's model; this program reads 1.5"
        )
    return document


def _record(document: _Document, number: int, run: str, file: Path) -> Record:
    lines = list(_lines(document.telemetry)) if document.tg_type == _OWN else []
    told = _axes_of_lines(lines, file) if lines else _axes_of_names(document)
    test = Test(**told)
    own = next((labels for name, labels, _ in lines if name == "test"), {})
    goals = _goals_of_lines(lines) if lines else _goals(document.result, test)
    verdict = next((labels["verdict"] for name, labels, _ in lines if name == "verdict"), "unknown")
    differs: dict[str, str] = {}
    if not lines:
        differs = {goal.goal: _CONDITIONAL for goal in goals}
        if _OTHER_SIZES.search(document.test_name_long):
            differs |= {"rate": _IMIX_6}
    status = own.get("status", "ok" if document.passed else "failed")
    found = SearchResult(name=test.search, trials=0, goals=tuple(goals)) if goals else None
    return Record.model_validate(
        {
            "key": "",
            "number": number,
            "status": status,
            "error": None if status == "ok" else document.message or status,
            "test": test,
            "semantics": own.get("semantics") or None,
            "port": own.get("port") or None,
            "switch_version": None if document.dut_version == "unknown" else document.dut_version,
            "switch_mode": own.get("switch_mode") or None,
            "verdict": verdict,
            "doubts": tuple(labels["doubt"] for name, labels, _ in lines if name == "doubt"),
            "search": found,
            "started": document.start_time,
            "origin": Origin(run=run, host={}, versions={document.tg_type: document.tg_version}),
            "imported": Imported(
                tool="switchmark's export for CSIT" if lines else "CSIT",
                measured_by=f"{document.tg_type} {document.tg_version}",
                rates_pps=tuple(_rates(document, lines)),
                axes=frozenset(AXES if lines else told),
                differs=differs,
            ),
        }
    )


# --- documents of CSIT ---------------------------------------------------------------------------


def _axes_of_names(document: _Document) -> dict[str, Any]:
    """Return the axes that follow from the name and the result of a test of CSIT: the frame size,
    the cores, the scenario and the search. All rates of CSIT are sums of both directions, unless
    the test has one."""
    name = document.test_name_long.lower()
    axes: dict[str, Any] = {
        "switch": document.dut_type.lower(),
        "engine": document.tg_type.lower(),
        "scenario": "loopback" if re.search(r"vhost|memif|\d+(lxc|drc|vm)", name) else "p2p",
    }
    size = re.search(r"-(\d+)b-", name)
    if size:
        axes["frame_size"] = int(size[1])
    elif "imix" in name:
        axes["frame_size"] = _IMIX
    if cores := re.search(r"-(?:\d+t)?(\d+)c-", name):
        axes["switch_cores"] = int(cores[1])
    result = document.result
    one_way = result.latency_forward is not None and result.latency_reverse is None
    axes["direction"] = "uni" if one_way else "bi"
    if result.type == "ndrpdr":
        axes["search"] = "mlr:csit"
    if result.type == "mrr" and result.receive_rate is not None:
        axes |= {"search": "fixed", "rate": "max", "repeat": len(result.receive_rate.rate.values)}
    return axes


def _goals(result: _Result, test: Test) -> list[Goal]:
    """Return the goals of a search of CSIT, by sender."""
    senders = test.pairs * (2 if test.direction == "bi" else 1)
    bounds = {"ndr": result.ndr, "pdr": result.pdr}
    return [
        Goal(
            goal=name,
            loss_ratio=_LOSS_RATIOS[name],
            rate_pps=found.lower.rate.value / senders,
            conditional_pps=found.lower.rate.value / senders,
            high_pps=found.upper.rate.value / senders if found.upper else None,
            exceed_ratio=_EXCEED_RATIO,
        )
        for name, found in bounds.items()
        if found is not None and found.lower.rate.unit == "pps"
    ]


def _rates(
    document: _Document, lines: Sequence[tuple[str, Mapping[str, str], float]]
) -> Iterator[float]:
    """Yield the received rate of each trial."""
    received = document.result.receive_rate
    if lines:
        yield from (value for name, _, value in lines if name == "trial_rx_pps")
    elif received is not None and received.rate.unit == "pps":
        yield from received.rate.values


# --- documents of this program -------------------------------------------------------------------


def _lines(telemetry: Sequence[str]) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Yield name, labels and value of the lines that this program wrote."""
    for text in telemetry:
        if match := _LINE.fullmatch(text):
            labels = {
                name: re.sub(r'\\[\\"n]', lambda escape: _ESCAPES[escape[0]], label)
                for name, label in _LABEL.findall(match[2])
            }
            yield match[1], labels, float(match[3])


def _axes_of_lines(
    lines: Sequence[tuple[str, Mapping[str, str], float]], file: Path
) -> dict[str, Any]:
    axes = {
        labels["axis"]: json.loads(labels["setting"]) for name, labels, _ in lines if name == "axis"
    }
    if unknown := [name for name in axes if field_name(name) not in AXES]:
        raise UsageError(f"{file}: written by a newer switchmark: axis {', '.join(unknown)}")
    return axes


def _goals_of_lines(lines: Sequence[tuple[str, Mapping[str, str], float]]) -> list[Goal]:
    goals: dict[str, dict[str, Any]] = {}
    latencies: dict[str, dict[str, Any]] = {}
    for name, labels, value in lines:
        if name.startswith("goal_latency_ns_"):
            of_goal = latencies.setdefault(labels["goal"], {"kind": labels["kind"]})
            of_goal[name.removeprefix("goal_latency_ns_")] = value
        elif name.startswith("goal_"):
            goals.setdefault(labels["goal"], {})[name.removeprefix("goal_")] = value
    for name, latency in latencies.items():
        goals[name]["latency_ns"] = LatencyFigures.model_validate(latency)
    return [
        Goal.model_validate({"goal": name, "rate_pps": None, **members})
        for name, members in goals.items()
    ]
