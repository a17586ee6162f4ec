"""JSON Schemas of the files in run folders and of the output of `--json`.

They are generated from the models of a record. Descriptions of members are the docstrings below
them, which are read from the source on demand, because reading them at import would be slow.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, Field, create_model

from switchmark.metrics.outage import Outage
from switchmark.model.cable import CableLatency, NoCableLatency
from switchmark.model.cost import CostFigures
from switchmark.model.evidence import Evidence
from switchmark.model.latency import LatencyFigures
from switchmark.model.record import SCHEMA, FlowCounts, Origin, Record, TrialResult
from switchmark.model.test import AXES, Test

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NUMBER, _COUNT, _TEXT = {"type": "number"}, {"type": "integer"}, {"type": "string"}


@cache
def schema(name: str) -> Schema:
    """Return a schema by its name in `SCHEMAS`, to be read only."""
    title, make = SCHEMAS[name]
    document = make()
    return {
        "$schema": _DIALECT,
        "$id": f"switchmark-{name}-{SCHEMA}.schema.json",
        "title": title,
        **document,
    }


@cache
def member_docstrings(model: type) -> dict[str, str]:
    """Return the docstrings of the members of a class, which are the strings below them."""
    docstrings: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if not owner.__module__.startswith("switchmark."):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        assert isinstance(body, ast.ClassDef)
        for member, below in itertools.pairwise(body.body):
            if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                match below:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        docstrings[member.target.id] = inspect.cleandoc(text)
    return docstrings


def as_json(text: str) -> str:
    """Return a docstring on one line, with null in place of None."""
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))


# --- files of a run --------------------------------------------------------------------------


def _records() -> Schema:
    """Return the schema of a line of `records.jsonl`."""
    return _line(Record, versions=Field(default={}), record=...)


def _trials() -> Schema:
    """Return the schema of a line of `trials.jsonl`."""
    return _line(TrialResult, key=..., number=..., trial=...)


def _line(model: type[BaseModel], **members: Any) -> Schema:
    types: Mapping[str, Any] = {
        "versions": dict[str, str],
        "key": str,
        "number": int,
        "record": model,
        "trial": model,
    }
    fields: dict[str, Any] = {name: (types[name], usual) for name, usual in members.items()}
    line = _described(create_model("Line", **fields))
    del line["title"]
    version = {"const": SCHEMA, "description": "The version of this format."}
    return {
        **line,
        "properties": {"schema": version, **line["properties"]},
        "required": ["schema", *line["required"]],
    }


def _described(model: type[BaseModel]) -> Schema:
    """Return the schema of a model with descriptions of all parts and members, and without titles
    that repeat their names."""
    schema = model.model_json_schema()
    parts = schema.get("$defs", {})
    for part_model in _models(model):
        part = parts.get(part_model.__name__)
        if part is None:
            continue
        part["description"] = as_json(inspect.getdoc(part_model) or "")
        descriptions = (
            {name: axis.help for name, axis in AXES.items()} if part_model is Test else {}
        )
        descriptions |= member_docstrings(part_model)
        for name, member in part["properties"].items():
            member.pop("title", None)
            if name in descriptions:
                member["description"] = as_json(descriptions[name])
        for name, field in part_model.model_fields.items():
            if field.exclude:
                del part["properties"][name]
    for member in schema["properties"].values():
        member.pop("title", None)
    parts.pop(Origin.__name__, None)
    return schema


def _models(model: type[BaseModel]) -> set[type[BaseModel]]:
    """Return all models within a model."""
    found: set[type[BaseModel]] = set()
    waiting: list[object] = [model]
    while waiting:
        kind = waiting.pop()
        if inspect.isclass(kind) and issubclass(kind, BaseModel):
            if kind not in found:
                found.add(kind)
                waiting += [field.annotation for field in kind.model_fields.values()]
        else:
            waiting += typing.get_args(kind)
    return found


# --- printed objects -------------------------------------------------------------------------


def _printed() -> Schema:
    """Return the schema of the `--json` object: members of the record under their printed names,
    and derived members."""
    derived: dict[str, Any] = {
        "latency_ns": (LatencyFigures | None, _member("The latency of all trials.")),
        "latency_floor_ns": (
            CableLatency | NoCableLatency | None,
            _member("The latency of the same test on a cable; null for tests without latency."),
        ),
        "cost": (CostFigures | None, _member("The CPU cost of the frames; null without trials.")),
        "evidence": (tuple[Evidence, ...], _member("The evidence for the verdicts, by trial.")),
        "record": (Record, ...),
        "origin": (Origin, ...),
    }
    model = _described(create_model("Printed", **derived))
    parts, properties = model["$defs"], model["properties"]
    record = parts.pop("Record")["properties"]
    test = parts["Test"]
    test["properties"] = {
        AXES[name].json_name or name: member for name, member in test["properties"].items()
    } | {AXES["rate"].json_number: _or_null(_NUMBER, "The load in frames per second and sender.")}
    later = {axis.json_name or axis.name for axis in AXES.values() if axis.later}
    test["required"] = [name for name in test["properties"] if name not in later]
    for name in ("TrialResult", "TrialSpec", "PartReport", "FlowCounts"):
        parts.pop(name, None)
    fields = {name: record[name] for name in _AS_IN_RECORD}
    for member in fields.values():
        member.pop("default", None)
    members: Schema = {
        "schema": {"const": SCHEMA, "description": "The version of this format."},
        "run": _or_null(_TEXT, "The name of the run."),
        "time": record["started"],
        "host": _or_null({"type": "object"}, "Facts of the host."),
        "versions": _or_null(_mapping(_TEXT), "The versions that the figures depend on."),
        **fields,
        **{
            name: properties[name]
            for name in ("latency_ns", "latency_floor_ns", "cost", "evidence")
        },
        **_derived(),
    }
    return {
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in _LATER],
        "additionalProperties": False,
        "$defs": _reachable(members, parts),
    }


_AS_IN_RECORD = (
    *("status", "error", "test", "semantics", "steering", "port", "memory", "engine_mode"),
    *("verdict", "doubts", "noise", "calibration", "gate", "turns", "discarded", "search"),
    *(
        "placement",
        "prepared",
        "refused",
        "switch_version",
        "switch_mode",
        "cables",
        "nics",
        "reused",
        "r_plus_pps",
        "setup_s",
    ),
    *("start_s", "teardown_s", "stop_s"),
)


def _member(text: str) -> Any:
    return Field(..., description=text)


_LATER = {"cables", "turns", "prepared", "refused", "outages", "start_s", "stop_s"}
"""Members that older printed objects lack."""


def _derived() -> Schema:
    """Return the members that are derived from the trials, by name."""
    counts = {
        name: _or_null(_COUNT, text)
        for name, text in member_docstrings(TrialResult).items()
        if name in ("lost", "late", "duplicated", "reordered", "corrupted", "foreign", "stray")
    }
    flow = {
        name: {**(_TEXT if name == "flow" else _COUNT), "description": as_json(text)}
        for name, text in member_docstrings(FlowCounts).items()
        if name != "latency"
    }
    texts = member_docstrings(Outage)
    kinds = {"kind": _TEXT, "flow": _TEXT, "lost": _COUNT}
    kinds |= dict.fromkeys(("began_s", "ended_s"), _or_null(_NUMBER, ""))
    outage = {
        member.name: {**kinds.get(member.name, _NUMBER), "description": as_json(texts[member.name])}
        for member in dataclasses.fields(Outage)
    }
    low_and_high = {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}
    return {
        "lower_bound": {
            "type": "boolean",
            "description": "The traffic generator was the limit; the switch may be faster.",
        },
        "tx": _or_null(
            _object(frames=_COUNT, pps=_NUMBER, unsent=_COUNT),
            "Frames sent, their rate per second, and frames that were due and not sent.",
        ),
        "rx": _or_null(
            _object(frames=_COUNT, pps=_NUMBER, gbps_l1=_NUMBER, gbps_l2=_NUMBER),
            "Frames received, and the rate of distinct frames in frames and 10^9 bit per second.",
        ),
        **counts,
        "lost_at": {**_mapping(_COUNT), "description": "Lost frames by place."},
        "unaccounted": _or_null(_COUNT, "Lost frames without a place."),
        "cpu": {**_mapping(_or_null(_NUMBER, "")), "description": "Cores in use, by role."},
        "repeats": {**_COUNT, "description": "The number of trials."},
        "ci95_pps": _or_null(
            low_and_high, "The 95 % interval of `rx.pps`; null below thirteen trials."
        ),
        "ci95_ns": _or_null(
            low_and_high, "The 95 % interval of the median latency in nanoseconds."
        ),
        "fairness": _or_null(_NUMBER, "Jain's fairness index of the received rates of the flows."),
        "outages": {
            "type": "array",
            "items": _object(**outage, flows={"type": "array", "items": _object(**outage)}),
            "description": "The outage of each trial with an event, and those of its flows.",
        },
        "per_flow": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {**flow, "latency_ns": {"type": "object"}},
                "required": list(flow),
                "additionalProperties": False,
            },
            "description": "The counts of the flows.",
        },
    }


def _object(**members: Schema) -> Schema:
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def _mapping(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _or_null(kind: Schema, text: str) -> Schema:
    described = {"description": as_json(text)} if text else {}
    return {"anyOf": [kind, {"type": "null"}], **described}


def _reachable(root: object, parts: Mapping[str, Schema]) -> Schema:
    """Return the parts that are referred to, directly or through other parts."""
    reached: Schema = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            name = str(node.get("$ref", "")).rpartition("/")[2]
            if name and name not in reached:
                reached[name] = parts[name]
                waiting.append(parts[name])
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return dict(sorted(reached.items()))


# --- outcomes of experiments -----------------------------------------------------------------

_Members = dict[str, tuple[Schema, str]]
"""Members with their schemas and descriptions."""

_TRUTH: Schema = {"type": "boolean"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}

_FIGURE: _Members = {
    "value": ({"anyOf": [_NUMBER, {"type": "null"}]}, "The measured figure; null without one."),
    "low": ({"anyOf": [_NUMBER, {"type": "null"}]}, "The lower end of its interval."),
    "high": ({"anyOf": [_NUMBER, {"type": "null"}]}, "The upper end of its interval."),
    "lower_bound": (_TRUTH, "The traffic generator was the limit; the switch may be faster."),
}


def _outcomes() -> Schema:
    """Return the schema of an object of `paper --json`."""
    optional_text: Schema = {"anyOf": [_TEXT, {"type": "null"}]}
    optional_number: Schema = {"anyOf": [_NUMBER, {"type": "null"}]}

    def listed(name: str) -> Schema:
        return {"type": "array", "items": {"$ref": f"#/$defs/{name}"}}

    published: _Members = {
        "text": (_TEXT, "The value as text, such as `>= 2`."),
        "low": (optional_number, "The lowest possible value; null if it is open."),
        "high": (optional_number, "The highest possible value; null if it is open."),
        "relative_to": (
            {"anyOf": [{"type": "object"}, {"type": "null"}]},
            "The point that the value is a ratio to: values by axis; null for an absolute value.",
        ),
        "place": (optional_text, "The place in the paper."),
        "uncertain": (optional_text, "Why it may apply to other points, or mean something else."),
    }
    values: _Members = {
        "at": ({"type": "object"}, "The position of the point: values by axis."),
        "metric": (_TEXT, "The metric."),
        "unit": (_TEXT, "The unit of the metric."),
        "published": (listed("Published"), "The published values."),
        **_FIGURE,
        "doubts": (_TEXTS, "The doubts about the measured figure."),
        "ratio": (optional_number, "The figure divided by the published value, if it is exact."),
    }
    compared: _Members = {
        "point": (_TEXT, "The values of the point."),
        "metric": (_TEXT, "The metric."),
        **_FIGURE,
        "repeats": (_COUNT, "The number of trials."),
        "verdict": (optional_text, "The bottleneck."),
        "doubts": (_TEXTS, "The doubts about the figure."),
    }
    claims: _Members = {
        "id": (_TEXT, "The name of the claim, unique in its experiment."),
        "kind": (_TEXT, "The kind of the claim."),
        "metric": (_TEXT, "The metric that it compares."),
        "says": (_TEXT, "The claim in words."),
        "said": (_TRUTH, "Whether the paper states it; otherwise its values imply it."),
        "place": (optional_text, "The place in the paper."),
        "answer": ({"enum": ["holds", "does not hold", "cannot be told"]}, "The answer."),
        "why": (_TEXT, "The reason for the answer."),
        "rounds_needed": (
            {"anyOf": [_COUNT, {"type": "null"}]},
            "Rounds that would probably decide the claim.",
        ),
        "contradicted": (optional_text, "The contradiction in the paper's own values."),
        "doubts": (_TEXTS, "The doubts about the figures that it compares."),
        "compared": (listed("Compared"), "The measured figures that it compares."),
    }
    options: _Members = {
        "quick": (_TRUTH, "Whether the run was asked for with --quick."),
        "as_published": (_TRUTH, "Whether the run was asked for with --as-published."),
        "axes": (_mapping(_TEXT), "The axes of the command line."),
    }
    members: _Members = {
        "experiment": (_TEXT, "The name of the experiment."),
        "runs": (_TEXTS, "The runs of its records."),
        "options": (
            {"anyOf": [{"$ref": "#/$defs/Options"}, {"type": "null"}]},
            "The options of `paper`; null for a run that was not made for the experiment.",
        ),
        "points": (_COUNT, "The number of points."),
        "measured": (_COUNT, "The number of measured points."),
        "waiting": (_mapping(_COUNT), "The number of other points, by reason."),
        "assumed": (_mapping(_TEXT), "The assumptions where the paper is silent, by axis."),
        "departures": (_TEXTS, "What differs from the paper's experiment."),
        "doubts": (_TEXTS, "The doubts about the measured points."),
        "values": (listed("Value"), "Measured and published figures."),
        "claims": (listed("Claim"), "The claims of the paper, with their answers."),
    }
    return {
        **_described_object(members),
        "$defs": {
            "Claim": _described_object(claims),
            "Compared": _described_object(compared),
            "Options": _described_object(options),
            "Published": _described_object(published),
            "Value": _described_object(values),
        },
    }


def _described_object(members: Mapping[str, tuple[Schema, str]]) -> Schema:
    return _object(
        **{name: {**kind, "description": as_json(text)} for name, (kind, text) in members.items()}
    )


SCHEMAS: Mapping[str, tuple[str, Callable[[], Schema]]] = {
    "records": ("A line of records.jsonl", _records),
    "trials": ("A line of trials.jsonl", _trials),
    "json": ("An object of --json", _printed),
    "paper": ("An object of `paper --json`", _outcomes),
}
"""Titles and generators of the schemas, by name."""
