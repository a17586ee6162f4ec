"""This tool writes docs/reference from the tables: what there is, not what this host can do.

`python tools/reference.py` writes; a unit test compares `pages()` with what is stored.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from switchmark.model.axis import Axis
from switchmark.report.schema import SCHEMAS, as_json, members_told, schema
from switchmark.switches.verified import verifications

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "src" / "switchmark"
REFERENCE = REPOSITORY / "docs" / "reference"

TABLES = {
    "switches": "what forwards frames: the thing under test",
    "engines": "the packet-I/O API of the traffic program",
    "environments": "where a function or a switch runs",
    "functions": "a program in an environment, with ports",
    "scenarios": "topology and flows",
    "searches": "a policy that picks trials to find a rate",
    "noises": "who else works on the machine during a trial",
}

TAKES = {
    "trial": "another trial",
    "path": "another path",
    "switch": "another switch",
}
"""What another value of an axis takes."""


def pages() -> Iterator[tuple[str, str]]:
    """Return (file name, text) of every generated page, the index last."""
    index = []
    for folder, meaning in TABLES.items():
        rows = list(rows_of(folder))
        if rows:
            lead = f"{meaning[:1].upper()}{meaning[1:]}."
            yield f"{folder}.md", page(folder.capitalize(), lead, rows)
            index.append((f"[{folder}]({folder}.md)", meaning))
    yield "axes.md", page("Axes", "The axes of a test, for campaigns and options alike.", axes())
    lead = (
        "Reasons not to trust a trial. `--rerun N` tries again where a passing one spoiled it. "
        "[What a doubt means for a comparison](../guide/trust.md#doubts-in-a-comparison)."
    )
    yield "doubts.md", page("Doubts", lead, doubts())
    index.append(("[doubts](doubts.md)", "when a trial is doubted, and what would cure it"))
    yield "record.md", record()
    index.append(("[record](record.md)", "the members of a record, with their units"))
    lead = (
        "Figures of a test by name, as claims and plots ask for them: of all trials, and of each."
    )
    yield "metrics.md", page("Metrics", lead, metrics())
    index.append(("[metrics](metrics.md)", "figures by name, with their units"))
    for name, (title, _) in SCHEMAS.items():
        yield f"{name}.schema.json", json.dumps(schema(name), indent=1) + "\n"
        about = f"{title[:1].lower()}{title[1:]}, as JSON Schema: `switchmark schema {name}`"
        index.append((f"[{name}.schema.json]({name}.schema.json)", about))
    index.append(("[axes](axes.md)", "what a campaign or an option can set, with the defaults"))
    yield (
        "README.md",
        page(
            "Reference",
            "Written by `make docs`. What this host can use of it: `switchmark list`.",
            [("page", "about"), *index],
        ),
    )


def metrics() -> Iterator[tuple[str, ...]]:
    """Yield the table of the figures that have names, patterns last."""
    from switchmark.metrics.named import METRICS, PATTERNS

    yield ("name", "unit", "what it is")
    for name, metric in METRICS.items():
        yield (f"`{name}`", metric.unit or "1", metric.words)
    for pattern, (unit, words) in PATTERNS.items():
        yield (f"`{pattern}`", unit, words)


def record() -> str:
    """Return the page of a record's members: a table for each part of a record."""
    lines = [
        "# Record",
        "",
        "What `records.jsonl` has in each `record`; `trials.jsonl` has the same of each `trial`.",
        "`*` stands for any name. What a report tells of it:",
        "[reading a record](../guide/reading-a-record.md).",
    ]
    for path, model in parts_of_record():
        lead = as_json(inspect.getdoc(model) or "")
        shown = [name for name, field in model.model_fields.items() if not field.exclude]
        told = members_told(model)
        rows = [(f"`{name}`", as_json(told.get(name, ""))) for name in shown]
        lines += ["", f"## {path or 'A record'}", "", lead, "", line(("member", "what it is"))]
        lines += ["|---|---|", *map(line, rows)]
    return "\n".join(lines) + "\n"


def parts_of_record() -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield each part of a record with its place, such as `trials[].evidence`, but for the axes of
    the test, which have a page of their own."""
    from switchmark.model.record import Record
    from switchmark.model.test import Test

    waiting: list[tuple[str, type[BaseModel]]] = [("", Record)]
    seen: set[type[BaseModel]] = {Test}
    while waiting:
        path, model = waiting.pop(0)
        if model in seen:
            continue
        seen.add(model)
        yield path and f"`{path}`", model
        children: list[tuple[str, type[BaseModel]]] = []
        for name, field in model.model_fields.items():
            if not field.exclude:
                inner = models_in(field.annotation, f"{path}.{name}".lstrip("."))
                children += inner
        waiting = children + waiting


def models_in(annotation: object, path: str) -> list[tuple[str, type[BaseModel]]]:
    """Return the models within a type, each with its place."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [(path, annotation)]
    marks: dict[object, str] = {tuple: "[]", list: "[]", dict: ".*"}
    path += marks.get(typing.get_origin(annotation), "")
    return [found for arg in typing.get_args(annotation) for found in models_in(arg, path)]


def page(title: str, lead: str, rows: Iterable[tuple[str, ...]]) -> str:
    """Return a Markdown page with one table; the first row is its head."""
    head, *body = rows
    lines = [f"# {title}", "", lead, "", line(head), "|" + "---|" * len(head), *map(line, body)]
    return "\n".join(lines) + "\n"


def line(cells: Iterable[str]) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


COLUMNS = {"semantics": "semantics", "port_kinds": "ports", "privilege": "needs"}
"""Attributes of implementations that have a column, where a table's contract has them."""


def rows_of(folder: str) -> Iterator[tuple[str, ...]]:
    """Yield the table of a plural folder: a head, then a row for each implementation."""
    table = getattr(importlib.import_module(f"switchmark.{folder}"), "TABLE", {})
    if not table:
        return
    columns = [name for name in COLUMNS if any(hasattr(entry, name) for entry in table.values())]
    more: Mapping[str, Callable[[Any], str]] = {}
    if folder == "switches":
        more = {"follows": followed, "verified": verified}
    if folder == "functions":
        more = {"writes both MACs": written_macs}
    yield ("name", *(COLUMNS[name] for name in columns), *more, "what it is")
    for name, entry in table.items():
        cells = [listed(getattr(entry, column, ())) for column in columns]
        yield (f"`{name}`", *cells, *(told(entry) for told in more.values()), summary(entry))


def followed(switch: Any) -> str:
    """List the axes that a switch follows and others do not."""
    from switchmark.model.test import AXES

    return listed(AXES[name].option for name in switch.resources)


def written_macs(function: Any) -> str:
    """Say when a function writes its own MAC as the source, and the next hop's as destination."""
    if function.rewrites:
        return "always"
    return "`--function-semantics mac`" if function.rewrites_if_asked else ""


def verified(switch: Any) -> str:
    """Say how far each kind of a switch's ports was verified: with which version, and when."""
    known = verifications().get(switch.name, {})
    told: dict[str, list[str]] = {}
    kinds = [*map(str, switch.port_kinds)]
    for kind in (*kinds, *(each for each in known if each not in kinds)):
        each = known.get(kind)
        words = "not verified"
        if each is not None:
            version = f" with {each.version}" * bool(each.version)
            failed = f" ({', '.join(each.failed)} failed)" * bool(each.failed)
            why = f" ({each.why})" * bool(each.why)
            words = f"{each.state}{version}{failed}{why}, {each.date}"
        told.setdefault(words, []).append(f"`{kind}`")
    return "; ".join(f"{', '.join(those)}: {words}" for words, those in told.items())


def listed(values: str | Iterable[object]) -> str:
    """Write values as `a`, `b`."""
    every = [values] if isinstance(values, str) else values
    return ", ".join(sorted(f"`{value}`" for value in every))


def summary(entry: object) -> str:
    """Return an implementation's `summary`, or the first sentence of its module."""
    text = getattr(entry, "summary", None) or inspect.getdoc(inspect.getmodule(type(entry))) or ""
    return sentence(text).rstrip(".")


def sentence(text: str) -> str:
    """Return the first sentence of a text."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph)[0]


def doubts() -> Iterator[tuple[str, ...]]:
    """Yield every doubt with its threshold, its cure and how it may have falsified a figure."""
    from switchmark.metrics.doubts import SPOILS, TABLE

    yield ("doubt", "raised when", "what it means", "cure", "passing", "in a comparison")
    for doubt in TABLE.values():
        passing = "yes" if doubt.passing else ""
        spoils = SPOILS[doubt.spoils] + (" (latency only)" if doubt.only_latency else "")
        yield (f"`{doubt.name}`", doubt.threshold, doubt.meaning, doubt.cure, passing, spoils)


def axes() -> Iterator[tuple[str, ...]]:
    """Yield every axis, as its record and the type of its field say."""
    from switchmark.model.test import AXES

    yield (
        "axis",
        "option",
        "default",
        "values",
        "unit",
        "in JSON",
        "what it sets",
        "another value takes",
    )
    for axis in AXES.values():
        yield (
            f"`{axis.name}`",
            f"`{axis.option}`",
            default(axis.field),
            written(axis) + chosen(axis),
            axis.unit,
            listed(filter(None, (axis.json_name or axis.name, axis.json_number))),
            axis.help,
            TAKES[axis.changes],
        )


def written(axis: Axis) -> str:
    """Say how values of an axis are written: as its record says, or its type."""
    if axis.table:
        kind = f"the name of one of the [{axis.table}]({axis.table}.md)"
    else:
        kind = axis.values or values(axis.field.annotation, axis.field.metadata)
    none = ", `none`" if axis.takes_none else ""
    compared = axis.compared
    several = f"; {compared:g} where several switches are compared" if compared else ""
    return f"{kind}{none}{several}"


def chosen(axis: Axis) -> str:
    """Say by which value switchmark chooses one itself, where it does."""
    if not axis.chosen:
        return ""
    return f", or `{axis.chosen}`, which `run` and `plan` take where no campaign file is named"


def default(field: FieldInfo) -> str:
    """Return a default as people write it; one that depends on other axes says how, in its
    docstring."""
    if field.default_factory is not None:
        return sentence(inspect.getdoc(field.default_factory) or "").rstrip(".")
    return "" if field.default is None else f"`{field.default}`"


def values(annotation: object, limits: Iterable[object]) -> str:
    """Write what an axis takes: `patch, static`; `number, 1 to 64`; `text`."""
    choices = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
    if typing.get_origin(annotation) is typing.Literal:
        return ", ".join(f"`{choice}`" for choice in choices)
    names = {int: "number", float: "seconds", str: "text"}
    kind = " or ".join(names.get(c, str(c)) for c in choices or [annotation])
    bounds = {
        key: getattr(limit, key)
        for limit in limits
        for key in ("ge", "gt", "le")
        if getattr(limit, key, None) is not None
    }
    low = f"{bounds['ge']}" if "ge" in bounds else f"above {bounds.get('gt', 0)}"
    if "le" in bounds:
        return f"{kind}, {low} to {bounds['le']}"
    return f"{kind}, from {low}" if bounds else kind


def main() -> None:
    """Write every page, and remove pages that no table makes any more."""
    written = dict(pages())
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for stale in {path.name for path in REFERENCE.iterdir()} - set(written):
        (REFERENCE / stale).unlink()
    for name, text in written.items():
        (REFERENCE / name).write_text(text)
        print(f"docs/reference/{name}")


if __name__ == "__main__":
    main()
