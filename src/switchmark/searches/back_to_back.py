"""The search for the longest lossless burst at full rate (RFC 2544 section 26.4) and for the buffer
size that follows from it.

The switch forwards frames while the burst arrives, and these frames occupy no buffer. RFC 9004
section 6.3 gives the correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from statistics import mean, stdev

from switchmark.metrics.throughput import loss_ratio
from switchmark.model.record import TrialResult
from switchmark.model.search import SearchResult
from switchmark.searches.base import (
    MAX_TRIALS,
    Estimate,
    LoadBounds,
    Measure,
    Probe,
    Search,
    bracket,
    goal_of,
    halvings,
    limit_of,
    saturate,
)
from switchmark.searches.ndr import decided, search_rate, usual_trials

_FIRST_FRAMES = 1024
_SENT_BY_THEN = 0.5
"""The longest burst tried, as a share of the frames that fit in a trial. Anything longer is steady
load, not a burst."""


class _BurstEnded(Exception):
    """The burst has used up its trials."""


@dataclass(frozen=True, slots=True)
class _Burst:
    """The result of one search for the longest burst."""

    frames: int
    """The longest burst without loss; 0 without one."""
    beyond: int | None
    """The shortest longer burst that lost frames; None without one."""
    held: TrialResult | None
    """The trial of the burst without loss."""
    lost: TrialResult | None
    """The trial of the burst that lost frames."""

    @classmethod
    def of(cls, low: int, high: int | None, trials: Mapping[int, TrialResult]) -> _Burst:
        return cls(low, high, trials.get(low), None if high is None else trials.get(high))


class BackToBack(Search):
    """Find the longest lossless burst and the size of the buffer.

    `burst_frames` is the mean burst length per sender, over the bursts of one search. `buffer_s` is
    the time that the buffer absorbs at full rate. `corrected_buffer_s` excludes the frames that the
    switch forwards during the burst at `throughput_pps`, the lossless rate (RFC 2544 section 26.1),
    which this search also measures. It is None if there is no lossless rate.
    """

    name = "back-to-back"
    summary = "the longest burst without loss, and the buffer that it shows"

    def usual_durations(self, bounds: LoadBounds) -> tuple[float, ...]:
        bursts = bounds.finals * round(halvings(bounds.precision))
        return (bounds.duration_s,) * (1 + bursts + usual_trials(bounds.precision))

    def find(self, measure: Measure, bounds: LoadBounds) -> Estimate:
        probe = Probe(measure, bounds)
        start = saturate(probe)
        longest = max(int(start.sent_pps * bounds.duration_s * _SENT_BY_THEN), 1)
        trials: dict[int, TrialResult] = {}
        most = 0

        def passes(frames: float) -> bool:
            length = max(round(frames), 1)
            if len(probe.trials) >= most:
                raise _BurstEnded
            burst = partial(probe, None, frames=length)
            trials[length] = decided(burst, 0.0, bounds.verification)[-1]
            return loss_ratio([trials[length]], unsent=True) == 0

        bursts: list[_Burst] = []
        with suppress(_BurstEnded):
            for _ in range(bounds.finals):
                most = len(probe.trials) + MAX_TRIALS // 2
                trials.clear()
                low, high = bracket(
                    passes,
                    lambda frames: True,
                    first=_FIRST_FRAMES,
                    ceiling=longest,
                    lowest=1,
                    precision=bounds.precision,
                    least=1,
                    step=1.0,
                )
                longer = None if high is None else round(high)
                bursts.append(_Burst.of(round(low or 0), longer, trials))
        bursts = bursts or [_Burst.of(*_bounds(trials), trials)]
        # This search comes last: on a host where no rate passes, it uses up all its trials.
        paced = Probe(measure, bounds)
        throughput = search_rate(paced, start, 0.0, finals=1).low_pps
        lengths = [burst.frames for burst in bursts]
        frames = mean(lengths)
        beyond = {burst.beyond: burst.lost for burst in bursts if burst.beyond and burst.lost}
        held_s = frames / start.sent_pps
        verdict = limit_of(beyond[min(beyond)], start, bounds) if beyond else "sender"
        figure = tuple(burst.held for burst in bursts if burst.held is not None) or (start.trial,)
        goal = goal_of(
            self.name,
            figure,
            rate_pps=start.sent_pps,
            verdict=verdict,
            burst_frames=frames,
            bursts=len(bursts),
            burst_low=min(lengths),
            burst_high=max(beyond, default=None),
            burst_max=max(lengths),
            burst_stdev=stdev(lengths) if len(bursts) > 1 else None,
            burst_each=tuple(lengths),
            burst_step=max(1, round(bounds.precision * max(lengths))),
            burst_limit=longest,
            buffer_s=held_s,
            throughput_pps=throughput,
            corrected_buffer_s=throughput and held_s * (1 - throughput / start.sent_pps),
        )
        trials_in_all = len(probe.trials) + len(paced.trials)
        summary = SearchResult(name=self.name, trials=trials_in_all, goals=(goal,))
        met = self.name if figure != (start.trial,) else None
        return Estimate(figure, summary, verdict, met, {self.name: figure})


def _bounds(trials: Mapping[int, TrialResult]) -> tuple[int, int | None]:
    """Return the longest lossless burst of some trials and the shortest longer burst that lost
    frames. The search uses it if it has no trials left before the first burst is found."""
    lossless = {length: loss_ratio([trial], unsent=True) == 0 for length, trial in trials.items()}
    low = max((length for length, passed in lossless.items() if passed), default=0)
    beyond = (length for length, passed in lossless.items() if not passed and length > low)
    return low, min(beyond, default=None)


SEARCH = BackToBack()
