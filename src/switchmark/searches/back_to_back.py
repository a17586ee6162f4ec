"""The search for the longest lossless burst at full rate (RFC 2544 section 26.4) and for the buffer
size that follows from it.

The switch forwards frames while the burst arrives, and these frames occupy no buffer. RFC 9004
section 6.3 gives the correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
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

        bursts: list[tuple[int, int | None]] = []
        with suppress(_BurstEnded):
            for _ in range(bounds.finals):
                most = len(probe.trials) + MAX_TRIALS // 2
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
                bursts.append((round(low or 0), None if high is None else round(high)))
        bursts = bursts or [_bounds(trials)]
        # This search comes last: on a host where no rate passes, it uses up all its trials.
        paced = Probe(measure, bounds)
        throughput = search_rate(paced, start, 0.0, finals=1).low_pps
        frames = mean(low for low, _ in bursts)
        beyond = [high for _, high in bursts if high is not None]
        held_s = frames / start.sent_pps
        verdict = limit_of(trials[min(beyond)], start, bounds) if beyond else "sender"
        figure = tuple(trials[low] for low, _ in bursts if low in trials) or (start.trial,)
        goal = goal_of(
            self.name,
            figure,
            rate_pps=start.sent_pps,
            verdict=verdict,
            burst_frames=frames,
            bursts=len(bursts),
            burst_low=min(low for low, _ in bursts),
            burst_high=max(beyond, default=None),
            burst_max=max(low for low, _ in bursts),
            burst_stdev=stdev(low for low, _ in bursts) if len(bursts) > 1 else None,
            burst_each=tuple(low for low, _ in bursts),
            burst_step=max(1, round(bounds.precision * max(low for low, _ in bursts))),
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
