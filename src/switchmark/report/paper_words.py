"""Words for the axes, values and figures of papers: titles, citations and BibTeX."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from switchmark.model.axis import field_name
from switchmark.model.labels import is_bare
from switchmark.model.test import AXES
from switchmark.papers.experiment import Drawn, Experiment, Origin, Published, Source
from switchmark.plots.base import scale_of_metric

_VALUES: Mapping[tuple[str, str], str] = {
    ("direction", "uni"): "one way",
    ("direction", "bi"): "both ways",
    ("environment", "vm"): "VM",
    ("switch-environment", "host"): "on the host",
    ("noise", "none"): "no neighbour",
    ("cpu-limit", "none"): "no limit",
}
"""The words for values whose names a reader of a paper does not know."""

_QUANTITIES: Mapping[str, str] = {
    "rx.mpps_per_copy": "Throughput of each copy",
    "latency.mean_us": "Mean latency",
    "latency.p50_us": "Median latency",
    "cpu.total": "CPUs of all parts",
}

_ORIGINS: Mapping[Origin, str] = {
    "digitised": "read from a figure",
    "authors": "data of the authors",
    "own": "another run",
}
"""The words for values that the text of a paper does not have."""

_PERSON = re.compile(r"(?:[^\W\d_]\.[ -]?)+ ?[^\W\d_].*")
"""An author with initials, such as `G. Ara`."""


def axis_title(axis: str) -> str:
    """Return the title of an axis or a metric, with its unit."""
    name = field_name(axis)
    if name not in AXES:
        return scale_of_metric(axis).title
    return f"{AXES[name].label} ({AXES[name].unit})" if AXES[name].unit else AXES[name].label


def axis_words(axis: str) -> str:
    """Return the name of an axis or a metric without its unit."""
    name = field_name(axis)
    return AXES[name].label if name in AXES else scale_of_metric(axis).title.partition(" (")[0]


def value_text(axis: str, value: Any) -> str:
    """Return a value of an axis as a place on that axis."""
    text = "none" if value is None else str(value)
    return _VALUES.get((axis, text), text)


def value_words(axis: str, value: Any) -> str:
    """Return a value of an axis as a reader knows it, such as `64 B` or `both ways`."""
    text = "none" if value is None else str(value)
    if (axis, text) in _VALUES:
        return _VALUES[axis, text]
    if axis == "frame-size" and text.isdigit():
        return f"{text} B"
    if axis == "rate" and text.endswith("%"):
        return f"{text[:-1]} % of R+"
    return f"{axis_words(axis)} {text}" if value is None or is_bare(value) else text


def with_origin(row: Published) -> str:
    """Return a published value as text, with where it comes from if that is not the paper's
    text."""
    origin = _ORIGINS.get(row.origin)
    return f"{row} ({origin})" if origin else str(row)


def title_of(experiment: Experiment, figure: Drawn) -> str:
    """Return the title of a figure in words."""
    if figure.title:
        return figure.title
    along = [figure.x, *figure.panels]
    by = " and ".join(axis_words(axis) for axis in along if axis in experiment.axes)
    if figure.kind == "cdf":
        return "Distribution of the latency"
    quantity = _QUANTITIES.get(figure.y)
    if quantity is None:
        quantity = "Throughput" if figure.y.startswith("rx.") else axis_words(figure.y)
    if figure.x.startswith("offered."):
        return f"{quantity} by offered load"
    return f"{quantity[:1].upper()}{quantity[1:]}" + (f" by {by}" if by else "")


def cited(source: Source, paper: str) -> str:
    """Return a short citation, such as `Ara et al. (2021)`. `paper` is the name of its folder, for
    a paper whose authors are unknown."""
    people = _people(source)
    if not people:
        return f"{paper.rpartition('-')[0]} ({source.year})"
    surnames = [person.rpartition(" ")[2] for person in people]
    names = surnames[0] + (" et al." if len(surnames) > 2 else "")
    names += f" and {surnames[1]}" if len(surnames) == 2 else ""
    return f"{names} ({source.year})"


def bibtex_of(source: Source, paper: str) -> str:
    """Return a BibTeX entry for a paper. It has the authors and the DOI only if they are known."""
    people = _people(source)
    fields = {
        "title": f"{{{source.title}}}",
        "author": " and ".join(people),
        "year": str(source.year),
        "howpublished": source.venue,
        "doi": source.doi,
    }
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    return f"@misc{{{paper},\n" + ",\n".join(lines) + "\n}"


def _people(source: Source) -> Sequence[str]:
    """Return the authors; empty if the text at hand does not name them."""
    names = source.authors.split(", ")
    return names if all(map(_PERSON.fullmatch, names)) else []
