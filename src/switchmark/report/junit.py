"""Comparisons as JUnit XML, which CI systems display as passed and failed tests."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from switchmark.model.printable import printable
from switchmark.report.compare import Comparison, Pair
from switchmark.report.compare_table import (
    figure_text,
    name_of,
    names_of,
    relation_text,
    result_line,
)
from switchmark.report.host_differences import HostDifference
from switchmark.report.undecided import why_undecided

_FAILED, _LACKING = "failure", "error"


def junit(comparison: Comparison, hosts: Sequence[HostDifference], runs: Sequence[str]) -> str:
    """Return a test suite with a case for each pair and figure.

    A case is a `failure` if a condition holds, an `error` if a test was not measured, and `skipped`
    if the outcome is undecided. Hosts and versions are properties.
    """
    failures = [failure for failure in comparison.failures if failure.condition]
    lacking = [failure for failure in comparison.failures if not failure.condition]
    skipped = [pair for pair in comparison.pairs if _skipped(comparison, pair)]
    counts = {
        "tests": len(comparison.pairs),
        "failures": len({id(failure.pair) for failure in failures}),
        "errors": len({id(failure.pair) for failure in lacking}),
        "skipped": len(skipped),
    }
    attributes = {name: str(count) for name, count in counts.items()}
    root = Element("testsuites", attributes)
    suite = SubElement(root, "testsuite", {"name": "switchmark compare", **attributes})
    properties = SubElement(suite, "properties")
    for number, run in enumerate(runs, 1):
        SubElement(properties, "property", name=f"run {number}", value=run)
    for fact in hosts:
        value = " | ".join(fact.values)
        SubElement(properties, "property", name=f"differs: {fact.what}", value=value)
    SubElement(properties, "property", name="result", value=result_line(comparison))
    axes = names_of(comparison)
    for pair in comparison.pairs:
        _add_case(suite, comparison, pair, axes)
    return document(root)


def document(root: Element) -> str:
    """Return an XML document, without the characters that XML does not allow."""
    for element in root.iter():  # XML allows fewer characters than records
        element.attrib.update({name: printable(text) for name, text in element.items()})
        element.text = printable(element.text or "") or None
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _skipped(comparison: Comparison, pair: Pair) -> str:
    """Return why a case neither passed nor failed: it has no counterpart, or the outcome is
    undecided. Empty if it passed or failed."""
    if unknown := comparison.unknown_of(pair):
        reasons = "; ".join(f"{case.condition}: cannot tell: {case.reason}" for case in unknown)
        return "" if comparison.failures_of(pair) else reasons
    if comparison.state(pair):
        return ""
    if not pair.base and not pair.is_lacking:
        return "only in the later run"
    difference = pair.difference
    if pair.is_undecided and difference.reason:
        return f"undecided: {why_undecided(difference, difference.reason)}"
    return ""


def _add_case(suite: Element, comparison: Comparison, pair: Pair, axes: Sequence[str]) -> None:
    name = name_of(pair, axes)
    group = f"switchmark.{pair.figure.name}"
    seconds = sum(
        trial.elapsed_ns / 1e9 for side in pair.sides for record in side for trial in record.trials
    )
    case = SubElement(suite, "testcase", classname=group, name=name, time=f"{seconds:.3f}")
    failures = comparison.failures_of(pair)
    if failures:
        conditions = [failure.condition or "not measured" for failure in failures]
        reasons = (
            f"{one}: {failure.reason}" for one, failure in zip(conditions, failures, strict=True)
        )
        attributes = {"type": ", ".join(conditions), "message": "; ".join(reasons)}
        kind = _FAILED if failures[0].condition else _LACKING
        SubElement(case, kind, attributes).text = _message(pair)
    if skipped := _skipped(comparison, pair):
        SubElement(case, "skipped", message=skipped)
    SubElement(case, "system-out").text = _message(pair)


def _message(pair: Pair) -> str:
    figures = [figure_text(pair, side) if pair.sides[side] else "-" for side in (0, 1)]
    outcome = relation_text(pair.difference) if pair.is_whole else "not compared"
    return f"{pair.figure.name}: {figures[0]} before, {figures[1]} after: {outcome}"
