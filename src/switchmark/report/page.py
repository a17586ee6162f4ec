"""The report as a single HTML file: the answer of the runs, charts, tables, the host, and the
steps.

Charts are static pictures if scripts are off. The browser decompresses data and scripts.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from html import escape
from itertools import accumulate
from pathlib import Path
from typing import Any

from switchmark.metrics.doubts import is_doubtful
from switchmark.metrics.named import metric
from switchmark.model.axis import key_of
from switchmark.model.labels import label, telling
from switchmark.model.printable import printable
from switchmark.model.record import Record
from switchmark.plots import charts
from switchmark.plots.base import figure_of
from switchmark.plots.chart import Chart, Mark, Scale
from switchmark.plots.looks import look_of_switch, on_dark
from switchmark.plots.render import script, svg
from switchmark.plots.vega import specification, specification_of_page
from switchmark.report.answer import answer, brief_answer
from switchmark.report.brief import brief_notes
from switchmark.report.headline import bibtex, circumstances, headline, method
from switchmark.report.notes import footnotes
from switchmark.report.sections import sections
from switchmark.report.table import Section, hidden

_HERE = Path(__file__).parent
_STILL_MARKS = 600
"""The number of marks above which a chart has no static picture, because the picture would dominate
the file size."""

_STILLS = 12
"""The number of charts with a static picture."""

_BRIEF = 24
"""More tests than these have no table on the first screen."""

_NARROW = 80
"""The characters of a row of that table on a narrow screen."""

_STEPS = 40_000
"""The number of characters of a run's steps to show. The rest is similar, and in the run's
folder."""

_READY = "\nwindow.dispatchEvent(new Event('library'));"
"""The end of the library script, which announces that it has loaded."""

_FACTS = {
    "cpu_model": "CPU",
    "cores_usable": "usable CPUs",
    "memory_kib": "memory",
    "virtual": "virtual machine",
}
"""The names of facts about a host that are not those of their members."""

_NUMBER = re.compile(r"-?[0-9.]+(e-?[0-9]+)?")
_CHOSEN = (
    *("rx.mpps", "rx.gbps_l1", "loss_ratio", "latency.p50_us", "latency.mean_us", "latency.p99_us"),
    *("cpu.total", "cpu.switch"),
)
"""The metrics that a reader can choose."""


def page(
    runs: Sequence[tuple[str, Sequence[Record]]],
    steps: Mapping[str, str] | None = None,
    *,
    stills: int = _STILLS,
    sections_of: Callable[[list[Chart]], str] | None = None,
) -> str:
    """Return the page of these runs with their names. `steps` are the commands by name of the run.
    The first `stills` charts have static pictures for readers without scripts. `sections_of`
    returns further sections, and appends their charts to those of the page."""
    records = [record for _, of_run in runs for record in of_run]
    drawn = charts(records)
    first, others = drawn[:1], drawn[1:]
    pictured = _pictured(drawn[:stills])
    parts = [
        "<main id='main'>",
        *(f"<p class='answer'>{_as_html(sentence)}</p>" for sentence in _answers(runs)),
        *(figure_of_page(chart, 0, still=0 in pictured) for chart in first),
        _brief(records),
        sections_of(drawn) if sections_of else "",
        _filter(records),
        "<section aria-labelledby='plots'><h2 id='plots'>Charts</h2>" if others else "",
        *(
            figure_of_page(chart, number, still=number in pictured)
            for number, chart in enumerate(others, 1)
        ),
        "</section>" if others else "",
        _explore(records),
        "<section aria-labelledby='tables'><h2 id='tables'>Tests</h2>",
        "<p id='count' class='js-only' role='status'></p>",
        *(_run(name, of_run) for name, of_run in runs),
        "</section>",
        _method(records),
        _hosts(runs),
        _steps(steps or {}),
        "</main>",
    ]
    names = ", ".join(name for name, _ in runs)
    top = (headline(records), circumstances(records))
    return page_of(f"switchmark: {names}", parts, drawn, _tests(records), top)


def _answers(runs: Sequence[tuple[str, Sequence[Record]]]) -> list[str]:
    """Return the answer of each run alone. `compare` is for runs that did not take turns."""
    several = len(runs) > 1
    return [
        f"{name}: " * several + sentence
        for name, records in runs
        for sentence in brief_answer(records)
    ]


def _brief(records: Sequence[Record]) -> str:
    """Return the table of the figures, and a sentence about their doubts."""
    if len(records) > _BRIEF:
        return ""
    tables = [
        _table(replace(section, keys=()), "figures", hidden(section, _NARROW))
        for section in sections(records, brief=True)
    ]
    notes = [f"<p class='doubts'>{_as_html(note)}</p>" for note in brief_notes(records, hint="")]
    return "\n".join([*tables, *notes])


def _method(records: Sequence[Record]) -> str:
    """Return how the tests were measured, and how to cite that."""
    paragraph = method(records)
    if not paragraph:
        return ""
    cite = f"<details><summary>BibTeX</summary><pre>{escape(bibtex(records))}</pre></details>"
    return f"<section><h2>Method</h2><p>{escape(paragraph)}</p>{cite}</section>"


def page_of(
    title: str,
    parts: Sequence[str],
    drawn: Sequence[Chart],
    tests: Mapping[str, Any] | None = None,
    top: tuple[str, str] | None = None,
) -> str:
    """Return a page with parts in HTML and the data for its script. Its heading and the line below
    are `top`, or the title."""
    data = {
        "charts": [specification_of_page(chart) for chart in drawn],
        "tests": tests or {},
        "metrics": {name: _title(name) for name in _CHOSEN},
        "numeric": _numeric(tests or {}),
        "template": {"numbers": _template(()), "words": _template(("x",))},
        "bright": on_dark(),
        "switches": _switches(tests or {}),
    }
    heading, line = top or (title, "")
    below = f"<p class='host'>{escape(line)}</p>" if line else ""
    drawing, library = (_HERE / "page.js").read_text(encoding="utf-8"), script() + _READY
    scripts = [
        f"<script type='text/plain' id='data'>{_packed(json.dumps(data))}</script>",
        f"<script type='text/plain' id='library'>{_packed_library(library)}</script>",
        f"<script>{drawing}</script>",
    ]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(drawing, library)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>",
            f"<style>{(_HERE / 'page.css').read_text(encoding='utf-8')}</style>\n</head>\n<body>",
            "<a class='skip' href='#main'>to the results</a>",
            f"<header><h1>{escape(heading)}</h1>{below}</header>",
            *(part for part in parts if part),
            *scripts,
            "</body>\n</html>\n",
        ]
    )


def _pictured(drawn: Sequence[Chart]) -> set[int]:
    """Return the indices of charts with a static picture, as far as time and file size allow."""
    sums = accumulate(len(chart.marks) for chart in drawn if len(chart.marks) <= _STILL_MARKS)
    few = [number for number, chart in enumerate(drawn) if len(chart.marks) <= _STILL_MARKS]
    return {number for number, total in zip(few, sums, strict=True) if total <= 2 * _STILL_MARKS}


def figure_of_page(
    chart: Chart,
    number: int,
    *,
    still: bool = True,
    caption: bool = False,
    other: int | None = None,
    other_words: str = "",
) -> str:
    """Return a chart as a figure with its static picture, which the script replaces, and with its
    text as a `caption`. With `other`, a button switches to the chart of that number."""
    few = still and len(chart.marks) <= _STILL_MARKS
    says = escape(chart.says, quote=True)
    picture = _still(chart) if few else "<p>This chart needs JavaScript.</p>"
    button, also = "", ""
    if other is not None:
        also = f" data-other='{other}'"
        button = f"<button type='button' class='mode js-only'>{escape(other_words)}</button>"
    below = f"<figcaption>{_as_html(chart.says)}</figcaption>" if caption else ""
    return (
        f"<figure class='still' data-chart='{number}'{also}>"
        f"<div class='chart' role='img' aria-label='{says}'>{picture}</div>"
        f"{button}{below}</figure>"
    )


def _still(chart: Chart) -> str:
    """Return a chart as a picture without ARIA attributes, because the figure has them."""
    return re.sub(r' (role|aria-[a-z]+)="[^"]*"', "", svg(specification(chart)))


def _as_html(sentence: str) -> str:
    """Return a sentence as HTML in which options do not break at their hyphens."""
    return re.sub(
        r"--[a-z][a-z-]*(?: [0-9]+)?", r"<span class='option'>\g<0></span>", escape(sentence)
    )


def _policy(*scripts: str) -> str:
    """Return the content security policy: run these scripts only, show inline styles and images,
    and load nothing. Vega compiles its expressions by eval."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


_packed_library = lru_cache(maxsize=1)(_packed)  # it is large, and the same in every page


# --- filters and charts of a reader ----------------------------------------------------------


def _tests(records: Sequence[Record]) -> dict[str, Any]:
    """Return the data of the tests for the script: axes, figures and doubts."""
    axes = telling([record.test for record in records])
    tests = {}
    for record in records:
        figures = {name: _ends(record, name) for name in _CHOSEN}
        tests[record.key[:16]] = {
            "axes": {key_of(axis): _word(record, axis) for axis in ("switch", *axes)},
            "figures": {name: ends for name, ends in figures.items() if ends},
            "doubted": is_doubtful(record.doubts),
            "note": f"limit: {record.verdict}; {', '.join(record.doubts)}",
        }
    return tests


def _ends(record: Record, name: str) -> list[float] | None:
    """Return a figure with the ends of its interval."""
    quantity = metric(name)
    value = quantity.of(record) if record.status == "ok" and record.trials else None
    if value is None:
        return None
    low, high = quantity.interval(record) or (value, value)
    return [value, low, high]


def _word(record: Record, axis: str) -> str:
    value = getattr(record.test, axis)
    return "none" if value is None else str(value)


def _numeric(tests: Mapping[str, Any]) -> list[str]:
    """Return the axes whose values are numbers in all tests."""
    axes = {axis for test in tests.values() for axis in test["axes"]}
    values = {axis: [test["axes"].get(axis, "") for test in tests.values()] for axis in axes}
    return sorted(axis for axis in axes if all(map(_NUMBER.fullmatch, values[axis])))


def _title(name: str) -> str:
    quantity = metric(name)
    unit = f" ({quantity.unit})" if quantity.unit else ""
    return f"{quantity.description}{unit}"


def _switches(tests: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the colour and the shape of each switch."""
    names = sorted({test["axes"]["switch"] for test in tests.values()})
    return {name: [(look := look_of_switch(name)).colour, look.shape] for name in names}


def _template(x_values: tuple[str, ...]) -> dict[str, Any]:
    """Return a chart whose data the script fills in."""
    marks = (Mark("x", 1.0, "a"), Mark("x", 2.0, "b"))
    x, y = Scale("x", categories=x_values), Scale("y")
    chart = Chart("explore", "", "", "points", x, y, marks, series="by")
    spec = specification_of_page(chart)
    return dict(json.loads(json.dumps(spec).replace('"sort": ["x"]', '"sort": null')))


def _filter(records: Sequence[Record]) -> str:
    """Return a form that filters tests by the axes on which they differ."""
    axes = telling([record.test for record in records])
    fields = []
    for axis in axes:
        values = list(dict.fromkeys(_word(record, axis) for record in records))
        if 1 < len(values) <= 60:
            options = "".join(f"<option>{escape(word)}</option>" for word in values)
            key = escape(key_of(axis), quote=True)
            empty = "<option value=''>all</option>"
            fields.append(f"<label>{key}<select name='{key}'>{empty}{options}</select></label>")
    if not fields:
        return ""
    reset = "<button type='reset'>show all</button>"
    return f"<form id='filter' class='js-only' aria-label='filter'>{''.join(fields)}{reset}</form>"


def _explore(records: Sequence[Record]) -> str:
    """Return a form that selects the content of a chart, and the place of the chart."""
    axes = [key_of(axis) for axis in telling([record.test for record in records])]
    if not axes:
        return ""

    def select(name: str, choices: Sequence[tuple[str, str]]) -> str:
        options = "".join(f"<option value='{escape(v)}'>{escape(t)}</option>" for v, t in choices)
        return f"<label>{name}<select name='{name}'>{options}</select></label>"

    there = [name for name in _CHOSEN if any(_ends(record, name) for record in records)]
    there.sort(key=lambda name: name != figure_of(records[0]))  # the first is shown at once
    along = [axis for axis in axes if axis != "switch"] or axes
    fields = select("x", [(axis, axis) for axis in dict.fromkeys((*along, *axes))])
    fields += select("y", [(name, _title(name)) for name in there])
    by = ["switch", *(axis for axis in axes if axis != "switch")]
    fields += select("by", [*((axis, axis) for axis in by), ("", "nothing")])
    return (
        "<section class='js-only' aria-labelledby='choose'><h2 id='choose'>Your own chart</h2>"
        f"<form id='explore' class='js-only'>{fields}</form>"
        "<figure><div id='explored' role='group' aria-label='the chart chosen above'></div>"
        "</figure>"
        "</section>"
    )


# --- tables, hosts, steps --------------------------------------------------------------------


def _run(name: str, records: Sequence[Record]) -> str:
    tables = "\n".join(
        _table(section, f"tests of {name}, {number}")
        for number, section in enumerate(sections(records), 1)
    )
    brief = brief_answer(records)
    sentences = [sentence for sentence in answer(records) if sentence not in brief]
    notes = "\n".join(f"<p>{escape(note)}</p>" for note in (*sentences, *footnotes(records)))
    return f"<h3>{escape(name)}</h3>\n{tables}\n{notes}\n{_verdicts(records)}"


def _table(section: Section, named: str, wide_only: Sequence[str] = ()) -> str:
    """Return a section as a table. A narrow screen does not show the columns `wide_only`."""
    columns = section.columns
    kinds = {
        column.name: f" class='{' '.join(kind)}'" if kind else ""
        for column in columns
        for kind in (["number"] * column.numeric + ["wide"] * (column.name in wide_only),)
    }
    head = "".join(
        f"<th scope='col'{kinds[column.name]}>{escape(column.name)}</th>" for column in columns
    )
    body = []
    for row in zip(*(column.cells for column in columns), strict=True):
        cells = "".join(
            f"<td{kinds[column.name]}>{_unbroken(escape(cell))}</td>"
            for column, cell in zip(columns, row, strict=True)
        )
        body.append(cells)
    keys = section.keys or ("",) * len(body)
    rows = "\n".join(
        f"""<tr{f' data-key="{escape(key, quote=True)}"' if key else ""}>{cells}</tr>"""
        for key, cells in zip(keys, body, strict=True)
    )
    below = "".join(f"<p>{escape(line)}</p>" for line in section.below)
    if wide_only:
        below += f"<p class='narrow'>hidden on a narrow screen: {escape(', '.join(wide_only))}</p>"
    caption = f"<caption>{escape(section.caption)}</caption>"
    return (
        f"<div class='scroll' tabindex='0' role='region' aria-label='{escape(named)}'>"
        f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>{below}"
    )


def html_table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    words: Collection[str] = (),
) -> str:
    """Return a table as HTML. The text of the columns `words` wraps."""
    kinds = [" class='words'" if name in words else "" for name in head]
    top = "".join(f"<th scope='col'>{escape(name)}</th>" for name in head)
    body = "\n".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{escape(printable(cell))}</td>"
            for kind, cell in zip(kinds, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    label = escape(caption, quote=True)
    return (
        f"<div class='scroll' tabindex='0' role='region' aria-label='{label}'>"
        f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead>\n"
        f"<tbody>{body}</tbody></table></div>"
    )


def _unbroken(cell: str) -> str:
    """Return a cell that does not break between a number and its unit."""
    return re.sub(r"(?<=[0-9=]) (?=[a-zA-Z0-9%])", "\N{NO-BREAK SPACE}", cell)


def _verdicts(records: Sequence[Record]) -> str:
    """Return the limits of the tests and the reasons of their doubts as text."""
    axes = telling([record.test for record in records])
    lines = []
    for record in records:
        outcome = record.verdict if record.status == "ok" else f"{record.status}: {record.error}"
        doubts = f"; doubts: {', '.join(record.doubts)}" if record.doubts else ""
        text = f"{label(record.test, axes)}: {outcome}{doubts}"
        lines.append(f"<li>{escape(text)}</li>")
    return (
        f"<details><summary>Limits of {len(records)} tests</summary>"
        f"<ul>{''.join(lines)}</ul></details>"
    )


def _hosts(runs: Sequence[tuple[str, Sequence[Record]]]) -> str:
    rows = []
    for name, records in runs:
        origin = next((record.origin for record in records if record.origin), None)
        if origin is None:
            continue
        facts = [*_facts(origin.host), *origin.versions.items()]
        table = "".join(
            f"<tr><th scope='row'>{escape(str(fact))}</th><td>{escape(str(value))}</td></tr>"
            for fact, value in facts
        )
        noise = _noise(records)
        rows.append(
            f"<h3>{escape(name)}</h3><div class='scroll'><table>{table}</table></div>{noise}"
        )
    if not rows:
        return ""
    return f"<section><h2>Host</h2>{''.join(rows)}</section>"


def _facts(host: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the known facts about a host with their names in text."""
    for name, value in host.items():
        text = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
        if name == "memory_kib" and isinstance(value, int):
            text = f"{value / 2**20:.1f} GiB"
        if value not in (None, "", []):
            yield _FACTS.get(name, name.replace("_", " ")), str(text)


def _noise(records: Sequence[Record]) -> str:
    """Return the first noise certificate of a host."""
    certificates = [record.noise.model_dump(mode="json") for record in records if record.noise]
    if not certificates:
        return ""
    head, text = (
        "Background load before the first test",
        escape(json.dumps(certificates[0], indent=1)),
    )
    return f"<details><summary>{head}</summary><pre>{text}</pre></details>"


def _steps(steps: Mapping[str, str]) -> str:
    if not any(steps.values()):
        return ""
    blocks = "".join(
        f"<details><summary>{escape(name)}</summary>"
        f"<pre tabindex='0'>{escape(_first_lines(text))}</pre></details>"
        for name, text in steps.items()
        if text
    )
    return f"<section><h2>The exact steps</h2>{blocks}</section>"


def _first_lines(text: str) -> str:
    if len(text) <= _STEPS:
        return text
    start = text[: text.rfind("\n", 0, _STEPS) + 1]
    return f"{start}# {text.count(chr(10), len(start))} more lines are in the run's logs/steps.sh\n"
