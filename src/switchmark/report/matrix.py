"""Answers of several runs side by side: a matrix of claims by host, version and date, and the
claims whose answers changed from one version of a switch to the next."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from switchmark.model.record import Record
from switchmark.papers.claims import Claim
from switchmark.papers.judging import ClaimAnswer
from switchmark.report.headline import days, preparation_words
from switchmark.report.host_differences import RunFacts, host_differences, versions_of
from switchmark.report.judged import Judged
from switchmark.report.paper import claim_mark

_WORDS: Mapping[str, str] = {
    "holds": "✓ holds",
    "does not hold": "✗ does not hold",
    "cannot be told": "? cannot be told",
}

_MACHINE = ("cpu_model", "cores_usable", "virtual", "machine")
"""The facts that identify a host whose software changes."""


@dataclass(frozen=True, slots=True)
class RunSide:
    """A run, or runs that repeat each other."""

    label: str
    """The heading of the side."""
    runs: tuple[str, ...]
    """The names of the runs."""
    host: Mapping[str, Any]
    """The facts of their host."""
    records: Sequence[Record]
    """All records of the runs."""
    is_quick: bool = False
    """Whether they are quick runs (`--quick`)."""
    repeated: bool = False
    """Whether its runs repeat each other; otherwise they have different tests."""

    @property
    def facts(self) -> RunFacts:
        return RunFacts(self.label, self.host, self.records)

    @property
    def machine(self) -> tuple[Any, ...]:
        """Return what identifies the machine, as it was prepared."""
        prepared = sorted({record.test.prepare or "" for record in self.records})
        return (*(self.host.get(name) for name in _MACHINE), *prepared)

    @property
    def host_words(self) -> str:
        """Return the host in a few words."""
        cpus = self.host.get("cores_usable")
        parts_of_host = [self.host.get("cpu_model"), f"{cpus} CPUs" if cpus else None]
        parts_of_host += ["virtual machine"] if self.host.get("virtual") else []
        parts_of_host += [preparation_words(self.records) or None]
        return ", ".join(str(entry) for entry in parts_of_host if entry) or "unknown host"

    @property
    def versions(self) -> dict[str, str]:
        """Return the versions of the kernel and of the switches."""
        of_switches = {
            name: text for name, text in versions_of(self.facts).items() if "switch " in name
        }
        kernel = {"kernel": str(self.host["kernel"])} if self.host.get("kernel") else {}
        return {
            **kernel,
            **{name.removeprefix("switch "): text for name, text in of_switches.items()},
        }


@dataclass(frozen=True, slots=True)
class ChangedAnswer:
    """A claim whose answer differs between two sides."""

    experiment: str
    claim: Claim
    before: ClaimAnswer
    after: ClaimAnswer


def changes(before: Mapping[str, Judged], after: Mapping[str, Judged]) -> list[ChangedAnswer]:
    """Return the claims whose answers differ between two sides, by name of the experiment."""
    found = []
    for name, earlier in before.items():
        later = {claim.id: answer for claim, answer in after[name].answers} if name in after else {}
        found += [
            ChangedAnswer(name, claim, answer, later[claim.id])
            for claim, answer in earlier.answers
            if claim.id in later and later[claim.id].verdict != answer.verdict
        ]
    return found


def claim_lines(runs: Sequence[tuple[str, Sequence[Judged]]]) -> list[str]:
    """Return the answers to the claims of some runs in sentences: a count for each experiment of
    each run, then the answers that changed from each run to the next one."""
    lines = [
        f"{name}: {result.experiment.name}: {result.count('holds')} claims hold, "
        f"{result.count('does not hold')} do not hold, "
        f"{result.count('cannot be told')} cannot be told"
        for name, results in runs
        for result in results
    ]
    for (one, before), (other, after) in itertools.pairwise(runs):
        earlier, later = ({r.experiment.name: r for r in results} for results in (before, after))
        shared = [name for name in earlier if name in later]
        found = changes(earlier, later)
        if shared:
            lines.append(f"claims from {one} to {other}: {_count(len(found))} changed")
        lines += [
            f"  {change.experiment}: {change.claim.says}: {change.before.verdict}, "
            f"then {change.after.verdict} ({change.after.why})"
            for change in found
        ]
    return lines


def _count(number: int) -> str:
    return f"{number or 'no'} answer{'s' * (number != 1)}"


def matrix(sides: Sequence[RunSide], experiments: Sequence[Mapping[str, Judged]]) -> str:
    """Return the runs with their hosts, the matrix of claims, and the changed claims as HTML.
    `experiments` have the results of an experiment by label of the side."""
    if not sides:
        return ""
    by_side = {
        side.label: {
            results[side.label].experiment.name: results[side.label]
            for results in experiments
            if side.label in results and results[side.label].measured
        }
        for side in sides
    }
    parts = [_runs(sides)]
    if len(sides) > 1:
        parts += [_answers(sides, by_side), *_changed(sides, by_side)]
    return f"<section aria-labelledby='runs'><h2 id='runs'>Runs</h2>{''.join(parts)}</section>"


def _runs(sides: Sequence[RunSide]) -> str:
    rows = []
    for side in sides:
        pooled = f" ({len(side.runs)} repeats, judged together)" if side.repeated else ""
        versions = ", ".join(f"{name} {text}" for name, text in side.versions.items())
        cells = (
            ", ".join(side.runs) + pooled,
            side.host_words,
            versions,
            days(side.records),
            "--quick" if side.is_quick else "",
        )
        row = "".join(f"<td class='words'>{escape(cell)}</td>" for cell in cells)
        rows.append(f"<td>{escape(side.label)}</td>{row}")
    names = ("", "runs", "host", "versions", "date", "options")
    return _table("runs", names, rows, "")


def _answers(sides: Sequence[RunSide], by_side: Mapping[str, Mapping[str, Judged]]) -> str:
    """Return the matrix of claims by side."""
    rows = []
    every = dict.fromkeys(name for results in by_side.values() for name in results)
    for name in every:
        experiment = next(r[name] for r in by_side.values() if name in r).experiment
        for claim in experiment.claims:
            cells = [f"<td>{escape(name)}</td><td class='words'>{escape(claim.says)}</td>"]
            for side in sides:
                result = by_side[side.label].get(name)
                cells.append(f"<td>{_cell(result, claim) if result else '-'}</td>")
            rows.append("".join(cells))
    names = ["experiment", "claim", *(side.label for side in sides)]
    return _table("claims by run", names, rows, "Claims by host, version and date") if rows else ""


def _cell(result: Judged, claim: Claim) -> str:
    answer = next(answer for entry, answer in result.answers if entry.id == claim.id)
    mark = claim_mark(result.doubts_of(claim))
    return f"<span title='{escape(answer.why, quote=True)}'>{mark}{_WORDS[answer.verdict]}</span>"


def _changed(sides: Sequence[RunSide], by_side: Mapping[str, Mapping[str, Judged]]) -> list[str]:
    """Return the claims that changed between sides of the same machine that have experiments in
    common, with what differs between the sides."""
    parts = []
    for one, other in _successive(sides, by_side):
        differing = host_differences([one.facts, other.facts])
        differences = "; ".join(
            f"{entry.what}: {entry.values[0]}, then {entry.values[1]}"
            for entry in differing
            if "-" not in entry.values  # a switch of one side has no other version to compare
        )
        found = changes(by_side[one.label], by_side[other.label])
        rows = "".join(
            f"<li>{escape(change.experiment)}: {escape(change.claim.says)}: "
            f"{change.before.verdict}, then {change.after.verdict}</li>"
            for change in found
        )
        parts.append(
            f"<h3>From {escape(one.label)} to {escape(other.label)}</h3>"
            f"<p>{escape(differences or 'Nothing is known to differ')}.</p>"
            + (f"<ul>{rows}</ul>" if rows else "<p>No answer changed.</p>")
        )
    return parts


def _successive(
    sides: Sequence[RunSide], by_side: Mapping[str, Mapping[str, Judged]]
) -> list[tuple[RunSide, RunSide]]:
    """Return each side after the last earlier one of the same machine with the same experiment."""
    pairs = []
    for number, side in enumerate(sides):
        for earlier in reversed(sides[:number]):
            shared = by_side[earlier.label].keys() & by_side[side.label].keys()
            if earlier.machine == side.machine and shared:
                pairs.append((earlier, side))
                break
    return pairs


def _table(label: str, names: Sequence[str], rows: Sequence[str], caption: str) -> str:
    head = "".join(f"<th scope='col'>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f"<div class='scroll' tabindex='0' role='region' aria-label='{escape(label)}'>"
        f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
