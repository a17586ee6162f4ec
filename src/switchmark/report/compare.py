"""Two runs side by side: the tests that both have, and the ratio of what they found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from switchmark.campaign.expand import label, telling
from switchmark.model.record import Record
from switchmark.model.spec import Test
from switchmark.model.units import format_pps
from switchmark.report.json import to_object
from switchmark.report.table import format_ns

__all__ = ["Pair", "as_object", "pairs", "print_pairs"]


@dataclass(frozen=True, slots=True)
class Pair:
    """One test in two runs. The figure is the received rate (`pps`), or the median latency
    (`ns`) of a test of latency; `apart` says that the 95 % intervals do not meet, None where
    one of them is not known."""

    test: Test
    unit: str
    before: float | None
    after: float | None
    apart: bool | None

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before and self.after is not None else None


def pairs(before: Sequence[Record], after: Sequence[Record]) -> list[Pair]:
    """The tests of `before` that `after` has too, whatever their seed, in order."""
    others = {_identity(record.test): record for record in after}
    return [
        _pair(record, others[_identity(record.test)])
        for record in before
        if _identity(record.test) in others
    ]


def as_object(pair: Pair) -> dict[str, Any]:
    """The pair as JSON can hold it."""
    return {
        "test": pair.test.model_dump(mode="json"),
        "unit": pair.unit,
        "before": pair.before,
        "after": pair.after,
        "ratio": pair.ratio,
        "apart": pair.apart,
    }


def print_pairs(found: Sequence[Pair], stream: IO[str]) -> None:
    """A line for each pair: both figures, their ratio, and whether chance may be the reason."""
    axes = telling([pair.test for pair in found])
    names = [label(pair.test, axes) for pair in found]
    width = max(map(len, names))
    print(f"{'':{width}}  {'before':>10}  {'after':>10}  ratio", file=stream)
    for name, pair in zip(names, found, strict=True):
        form = format_ns if pair.unit == "ns" else format_pps
        before, after = form(pair.before) or "-", form(pair.after) or "-"
        ratio = "-" if pair.ratio is None else f"{pair.ratio:.3f}"
        note = {True: "  intervals apart", False: "  within the intervals", None: ""}[pair.apart]
        print(f"{name:{width}}  {before:>10}  {after:>10}  {ratio}{note}", file=stream)


def _identity(test: Test) -> Test:
    return test.model_copy(update={"seed": 0})


def _pair(before: Record, after: Record) -> Pair:
    first, second = to_object(before), to_object(after)
    unit = "ns" if before.test.dimension == "latency" else "pps"
    return Pair(
        before.test,
        unit,
        _figure(first, unit),
        _figure(second, unit),
        _apart(first["ci95_pps"], second["ci95_pps"]) if unit == "pps" else None,
    )


def _figure(content: dict[str, Any], unit: str) -> float | None:
    found = (content["latency_ns"] or {}).get("p50") if unit == "ns" else content["rx"]
    return found["pps"] if isinstance(found, dict) else found


def _apart(first: list[float] | None, second: list[float] | None) -> bool | None:
    if first is None or second is None:
        return None
    return first[1] < second[0] or second[1] < first[0]
