"""The results that are judged together: all results that the answer to one run may compare.

Two records of a run have the same difference wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, combinations

from switchmark.metrics.difference import Difference, Family
from switchmark.metrics.repeats import Figure, main_figure, repeats_of
from switchmark.model.record import LOOKS, Record


class Results:
    """The results of one run, or of several runs that repeat each other. A result is the records of
    one test, one record for each run."""

    def __init__(
        self,
        results: Iterable[Sequence[Record]],
        excused: Collection[str] = (),
        *,
        goes_on: bool = False,
    ) -> None:
        self._results = [tuple(result) for result in results if result]
        self._goes_on = goes_on or any(map(_went_on, chain(*self._results)))
        self._by_run = max(map(len, self._results), default=1) > 1
        self._excused = frozenset(excused)
        self._excusing: dict[frozenset[str], Results] = {}
        self._families: dict[tuple[str, float | None], tuple[Family, dict[int, int]]] = {}

    @classmethod
    def of(cls, records: Iterable[Record]) -> Results:
        """Return the results of one run, with one record each."""
        return cls((record,) for record in records)

    def difference(
        self,
        before: Record,
        after: Record,
        figure: Figure | None = None,
        margin: float | None = None,
    ) -> Difference:
        """Return how a figure of the result with record `after` differs from the result with record
        `before`. The default is the main figure of the test. KeyError if a record is not in these
        results."""
        figure = figure or main_figure(after)
        family, place = self.place(after, figure, margin)
        return family.difference(self.place(before, figure, margin)[1], place)

    def place(
        self, record: Record, figure: Figure, margin: float | None = None
    ) -> tuple[Family, int]:
        """Return the family of these results for a figure, and the index of a record's result in
        it. KeyError if the record is not in these results."""
        family, places = self._family(figure, margin)
        return family, places[id(record)]

    def excusing(self, *doubts: str) -> Results:
        """Return these results for a question about these doubts themselves, so that the doubts do
        not count as falsifying."""
        excused = self._excused.union(doubts)
        if excused not in self._excusing:
            self._excusing[excused] = Results(self._results, excused, goes_on=self._goes_on)
        return self._excusing[excused]

    def _family(self, figure: Figure, margin: float | None) -> tuple[Family, dict[int, int]]:
        key = (figure.name, margin)
        if key not in self._families:
            sides = [
                repeats_of(result, figure, by_run=self._by_run, excused=self._excused)
                for result in self._results
            ]
            places = {
                id(record): index for index, result in enumerate(self._results) for record in result
            }
            family = Family(figure, tuple(sides), margin, LOOKS if self._goes_on else 1)
            self._families[key] = family, places
        return self._families[key]


def _went_on(record: Record) -> bool:
    """Return whether a test had, or may have, more repeats because the comparison was undecided."""
    looks = record.turns.looks if record.turns else 1
    return record.test.until_decided is not None or looks > 1


def further_repeats(records: Sequence[Record], compared: Sequence[Record], limit: int) -> int:
    """Return the number of repeats that the `compared` records of a run need until all of their
    pairs are probably decided, at most `limit`.

    The result is `limit` if the figures so far show no difference that could be decided, because
    more repeats may show one. It is 0 if all pairs are decided, or if a cause other than chance
    prevents it.
    """
    results = Results(((record,) for record in records), goes_on=True)
    pairs = [results.difference(*pair) for pair in combinations(compared, 2)]
    needed = max((_needed(pair, limit) for pair in pairs if not pair.is_decided), default=0)
    had = (len(side.values) for pair in pairs for side in (pair.before, pair.after))
    return needed if needed > max(had, default=0) else 0


def _needed(pair: Difference, limit: int) -> int:
    if pair.needed is not None:
        return min(pair.needed, limit)
    return limit if pair.reason == "chance" else 0
