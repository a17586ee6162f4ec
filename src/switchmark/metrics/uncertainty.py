"""Error bounds of median latencies: the sum of the uncertainty of timestamps, CPU counters and
histogram bins. The bounds are added, because they are not purely random.

A frame arrived after the poll that precedes its detection. So the true median lies between the
median of the measured latencies and the median of the earliest possible latencies. A few frames
that were found late hardly change these medians.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.model.latency import LatencyError, LatencyFigures, Stamps
from switchmark.model.noise import NoiseCertificate
from switchmark.model.record import TrialResult
from switchmark.model.test import Test

_KERNEL_NS = 100  # its clock, or a device's, is compared with the cycle counter every 10 ms
_SUB_BUCKET_BITS = 11  # same as `traffic/src/histogram.h`


def error_of(
    figures: LatencyFigures, trials: Sequence[TrialResult], earliest: int | None = None
) -> LatencyError | None:
    """Return the error bound of the median latency of some trials; None if the trials have no data
    on timestamps, as in old records.

    `earliest` is the lower bound of the median from the times of polls. For records without these
    times, the widest timestamp uncertainty is the bound.
    """
    stamps = [stamps_ for trial in trials for stamps_ in trial.evidence.stamps.values()]
    if not stamps or figures.p50 is None:
        return None
    apart = [skews for trial in trials if (skews := trial.evidence.skew_ns) is not None]
    high = max(map(_width_ns, stamps)) if earliest is None else figures.p50 - earliest
    parts = {
        "stamps_ns": max(0, min(high, figures.p50)),
        "skew_ns": max(apart, default=0),
        "clocks_ns": (figures.unsure_ns or 0) + _KERNEL_NS * any(map(_is_noted, stamps)),
        "histogram_ns": (1 << max(0, figures.p50.bit_length() - _SUB_BUCKET_BITS)) - 1,
    }
    return LatencyError(median_ns=sum(parts.values()), **parts)


def apart_ns(noise: NoiseCertificate | None, test: Test) -> int | None:
    """Return by how much the cycle counters of two CPUs of a test may differ; None if that was not
    measured or one core takes all timestamps. Skews are relative to the first CPU, whose skew is
    0."""
    alone = test.dimension == "latency" and test.function_cores == 1
    jitter = noise.jitter if noise and not alone else None
    skews = [
        (cpu.skew_ns, cpu.skew_within_ns)
        for cpu in (jitter or {}).values()
        if cpu.skew_ns is not None and cpu.skew_within_ns is not None
    ]
    if not skews:
        return None
    ahead = [0, *(skew for skew, _ in skews)]
    unsure = sorted((within for _, within in skews), reverse=True)[:2]
    return max(ahead) - min(ahead) + sum(unsure)


def _is_noted(stamps: Stamps) -> bool:
    """Return whether the kernel or a device took receive timestamps."""
    return stamps.by in ("kernel", "device") and stamps.noted > 0


def _width_ns(stamps: Stamps) -> int:
    if _is_noted(stamps):
        return 0
    return stamps.max if stamps.p99 is None else stamps.p99
