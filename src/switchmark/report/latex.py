"""This module writes the tests of runs as a table of LaTeX, ready to be pasted, for the packages
booktabs and adjustbox."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from switchmark.metrics.searched import precision_of
from switchmark.metrics.throughput import MIN_REPEATS, is_lower_bound, repeated_rates_pps
from switchmark.model.labels import telling
from switchmark.model.objects import Printed
from switchmark.model.record import Record
from switchmark.model.search import Goal
from switchmark.model.test import AXES
from switchmark.report.json import to_object

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}

_NONE = "--"
_DOUBTED = r"$^{\circ}$"


def escape(text: str) -> str:
    """Return text as LaTeX shows it."""
    return "".join(_SPECIAL.get(each, each) for each in text)


def as_latex(runs: Sequence[tuple[str, Sequence[Record]]]) -> str:
    """Return a table of all tests of some runs: a row each, with the axes that tell them apart, the
    rate with its interval, loss, latency and limit; doubts and failures stand below it."""
    records = [record for _, each in runs for record in each]
    objects = [to_object(record) for record in records]
    axes = telling([record.test for record in records])
    columns: list[tuple[str, str, list[str]]] = []
    if len(runs) > 1:
        names = [escape(name) for name, each in runs for _ in each]
        columns.append(("l", "Run", names))
    for axis in ("switch", *(each for each in axes if each != "switch")):
        values = [escape(_axis(getattr(record.test, axis))) for record in records]
        columns.append(("l", escape((AXES[axis].heading or AXES[axis].words).capitalize()), values))
    figures: list[tuple[str, list[str | None]]] = []
    for head, value in _FIGURES.items():
        cells = [value(content) for content in objects]
        figures.append((head, cells))
        if value is _interval:
            figures.append(("Min--max [kpps]", [_range(record) for record in records]))
    for head, cells in figures:
        if any(cell is not None for cell in cells):
            columns.append(("r", head, [cell or _NONE for cell in cells]))
    columns.append(("l", "Limit", [_limit(content) for content in objects]))
    rows = zip(*(cells for _, _, cells in columns), strict=True)
    lines = [
        "% made by switchmark export --format latex; needs \\usepackage{booktabs,adjustbox}",
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{_caption(runs)}}}",
        f"  \\label{{tab:{_label(runs)}}}",
        r"  \begin{adjustbox}{max width=\linewidth}",  # a column of a paper is narrow
        f"  \\begin{{tabular}}{{{''.join(align for align, _, _ in columns)}}}",
        r"    \toprule",
        f"    {' & '.join(head for _, head, _ in columns)} \\\\",
        r"    \midrule",
        *(f"    {' & '.join(row)} \\\\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"  \end{adjustbox}",
        *(f"  \\par\\footnotesize {note}" for note in _notes(objects)),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _axis(value: object) -> str:
    return "none" if value is None else str(value)


def _rate(content: Printed) -> str | None:
    if content["rx"] is None:
        return None
    bound = r"$\geq$" if content["lower_bound"] else ""
    mark = _DOUBTED if content["doubts"] else ""
    return f"{bound}{_thousands(content['rx']['pps'])}{mark}"


def _interval(content: Printed) -> str | None:
    ends = content["ci95_pps"]
    return ends and f"[{_thousands(ends[0])}, {_thousands(ends[1])}]"


def _range(record: Record) -> str | None:
    """Return the least and the greatest of repeats that are too few for an interval."""
    rates = repeated_rates_pps(record)
    few = 1 < len(rates) < MIN_REPEATS
    return f"{_thousands(min(rates))}--{_thousands(max(rates))}" if few else None


def _thousands(pps: float) -> str:
    return f"{pps / 1e3:.1f}"


def _loss(content: Printed) -> str | None:
    if content["tx"] is None or not content["tx"]["frames"]:
        return None
    sent = content["tx"]["frames"] * content["test"]["copies"]
    return f"{100 * content['lost'] / sent:.3f}"


def _latency(name: str) -> Callable[[Printed], str | None]:
    def of(content: Printed) -> str | None:
        latency = content["latency_ns"]
        known = latency and latency.get(name) is not None
        return f"{latency[name] / 1e3:.1f}" if known else None

    return of


def _goal(name: str) -> Callable[[Printed], str | None]:
    def of(content: Printed) -> str | None:
        goals = content["search"]["goals"] if content["search"] else ()
        for goal in goals:
            if goal["goal"] == name and goal["rate_pps"] is not None:
                bound = r"$\geq$" if is_lower_bound(goal.get("verdict") or "") else ""
                return f"{bound}{_thousands(goal['rate_pps'])}"
        return None

    return of


def _precision(name: str) -> Callable[[Printed], str | None]:
    def of(content: Printed) -> str | None:
        goals = content["search"]["goals"] if content["search"] else ()
        known = [precision_of(Goal(**goal)) for goal in goals if goal["goal"] == name]
        return f"{100 * known[0]:.2g}" if known and known[0] is not None else None

    return of


_FIGURES: Mapping[str, Callable[[Printed], str | None]] = {
    r"Received [kpps]": _rate,
    r"95\,\% [kpps]": _interval,
    r"NDR [kpps]": _goal("ndr"),
    r"NDR within [\%]": _precision("ndr"),
    r"PDR [kpps]": _goal("pdr"),
    r"PDR within [\%]": _precision("pdr"),
    r"Lost [\%]": _loss,
    r"p50 [$\mu$s]": _latency("p50"),
    r"p99 [$\mu$s]": _latency("p99"),
}
"""Columns of figures by head; one that no test has is left out."""


def _limit(content: Printed) -> str:
    return escape(content["verdict"] if content["status"] == "ok" else content["status"])


def _caption(runs: Sequence[tuple[str, Sequence[Record]]]) -> str:
    """Return where the figures come from: run, host, kernel, version."""
    told = []
    for name, records in runs:
        origins = [record.origin for record in records if record.origin]
        facts = [f"run {name}"]
        if origins:
            host, version = origins[0].host, origins[0].versions.get("switchmark")
            facts += [str(host[fact]) for fact in ("cpu_model",) if host.get(fact)]
            facts += [f"kernel {host['kernel']}"] if host.get("kernel") else []
            facts += [f"switchmark {version}"] if version else []
        told.append(escape(", ".join(facts)))
    return "; ".join(told) + "."


def _label(runs: Sequence[tuple[str, Sequence[Record]]]) -> str:
    text = runs[0][0] if runs else "switchmark"
    return "".join(each if each.isalnum() or each == "-" else "-" for each in text)


def _notes(objects: Sequence[Printed]) -> Iterable[str]:
    doubts = sorted({doubt for content in objects for doubt in content["doubts"]})
    if doubts:
        yield f"{_DOUBTED}\\,doubted: {escape(', '.join(doubts))}."
    if any(content["lower_bound"] for content in objects):
        yield r"$\geq$: the traffic program was the limit; the switch may be faster."
    semantics = sorted({content["semantics"] for content in objects if content["semantics"]})
    if len(semantics) > 1:
        yield escape(f"Different work, not to be ranked: {', '.join(semantics)}.")
    for content in objects:
        if content["status"] != "ok":
            why = " ".join(str(content["error"]).split())
            yield escape(f"{content['test']['switch']} {content['status']}: {why}")
