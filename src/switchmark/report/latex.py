"""Tests of runs as a LaTeX table for the packages booktabs and adjustbox. The figures are columns
of the table of tests (`report.rows`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from switchmark.metrics.doubts import is_doubtful
from switchmark.metrics.searched import precision_of
from switchmark.metrics.throughput import MIN_REPEATS, is_lower_bound, repeated_rates_pps
from switchmark.model.labels import telling
from switchmark.model.search import Goal
from switchmark.model.test import AXES
from switchmark.report.remarks import semantics
from switchmark.report.rows import Tables, TestRow

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
_BOUND = r"$\geq$"


def escape(text: str) -> str:
    """Return text with LaTeX's special characters escaped."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def as_latex(runs: Tables) -> str:
    """Return a table with a row for each test: the axes that distinguish the tests, the rate with
    its interval, loss, latency and limit. Doubts and failures are below the table."""
    results = [result for name in runs.names for result in runs.of_run(name)]
    axes = telling([result.record.test for result in results])
    columns: list[tuple[str, str, list[str]]] = []
    if len(runs.names) > 1:
        columns.append(("l", "Run", [escape(result.run) for result in results]))
    for axis in ("switch", *(name for name in axes if name != "switch")):
        values = [escape(_axis(getattr(result.record.test, axis))) for result in results]
        columns.append(("l", escape((AXES[axis].heading or AXES[axis].label).capitalize()), values))
    figures = [(head, [read(result) for result in results]) for head, read in _FIGURES.items()]
    for head, cells in figures:
        if any(cell is not None for cell in cells):
            columns.append(("r", head, [cell or _NONE for cell in cells]))
    columns.append(("l", "Limit", [_limit(result) for result in results]))
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
        *(f"  \\par\\footnotesize {note}" for note in _notes(results)),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _axis(value: object) -> str:
    return "none" if value is None else str(value)


def _rate(result: TestRow) -> str | None:
    if result["rx_pps"] is None:
        return None
    bound = _BOUND if result["lower_bound"] else ""
    return (
        f"{bound}{_thousands(result['rx_pps'])}{_DOUBTED if is_doubtful(result['doubts']) else ''}"
    )


def _interval(result: TestRow) -> str | None:
    low, high = result["ci95_low_pps"], result["ci95_high_pps"]
    return None if low is None else f"[{_thousands(low)}, {_thousands(high)}]"


def _range(result: TestRow) -> str | None:
    """Return the range of repeats that are too few for an interval."""
    rates = repeated_rates_pps(result.record)
    few = 1 < len(rates) < MIN_REPEATS
    return f"{_thousands(min(rates))}--{_thousands(max(rates))}" if few else None


def _thousands(pps: float) -> str:
    return f"{pps / 1e3:.1f}"


def _loss(result: TestRow) -> str | None:
    ratio = result["lost_ratio"]
    return None if ratio is None else f"{100 * ratio:.3f}"


def _latency(column: str, result: TestRow) -> str | None:
    ns = result[column]
    return None if ns is None else f"{ns / 1e3:.1f}"


def _found(name: str, result: TestRow) -> Goal | None:
    search = result.record.search
    return next((goal for goal in search.goals if goal.goal == name), None) if search else None


def _goal(name: str, result: TestRow) -> str | None:
    goal = _found(name, result)
    if goal is None or goal.rate_pps is None:
        return None
    bound = _BOUND if is_lower_bound(goal.verdict or "") else ""
    return f"{bound}{_thousands(goal.rate_pps)}"


def _precision(name: str, result: TestRow) -> str | None:
    goal = _found(name, result)
    share = None if goal is None else precision_of(goal)
    return None if share is None else f"{100 * share:.2g}"


_FIGURES: Mapping[str, Callable[[TestRow], str | None]] = {
    r"Received [kpps]": _rate,
    r"95\,\% [kpps]": _interval,
    r"Min--max [kpps]": _range,
    r"NDR [kpps]": partial(_goal, "ndr"),
    r"NDR within [\%]": partial(_precision, "ndr"),
    r"PDR [kpps]": partial(_goal, "pdr"),
    r"PDR within [\%]": partial(_precision, "pdr"),
    r"Lost [\%]": _loss,
    r"p50 [$\mu$s]": partial(_latency, "latency_p50_ns"),
    r"p99 [$\mu$s]": partial(_latency, "latency_p99_ns"),
}
"""Columns of figures by heading. Columns without values are omitted."""


def _limit(result: TestRow) -> str:
    return escape(result["verdict"] if result["status"] == "ok" else result["status"])


def _caption(runs: Tables) -> str:
    """Return the origin of the figures: run, host, kernel and version."""
    captions = []
    for name in runs.names:
        facts = [f"run {name}"]
        for result in runs.of_run(name)[:1]:
            host, version = result.host, result.versions.get("switchmark")
            facts += [str(host["cpu_model"])] if host.get("cpu_model") else []
            facts += [f"kernel {host['kernel']}"] if host.get("kernel") else []
            facts += [f"switchmark {version}"] if version else []
        captions.append(escape(", ".join(facts)))
    return "; ".join(captions) + "."


def _label(runs: Tables) -> str:
    text = runs.names[0] if runs.names else "switchmark"
    return "".join(
        character if character.isalnum() or character == "-" else "-" for character in text
    )


def _notes(results: Sequence[TestRow]) -> Iterable[str]:
    doubts = sorted(
        {doubt for result in results for doubt in result["doubts"] if is_doubtful((doubt,))}
    )
    if doubts:
        yield f"{_DOUBTED}\\,doubts: {escape(', '.join(doubts))}."
    if any(result["lower_bound"] for result in results):
        yield rf"{_BOUND}: the traffic generator was the limit; the switch may be faster."
    yield from map(escape, semantics([result.record for result in results]))
    for result in results:
        if result["status"] != "ok":
            why = " ".join(str(result["error"]).split())
            yield escape(f"{result.record.test.switch} {result['status']}: {why}")
