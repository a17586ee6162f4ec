"""What a test does without its switch: the sender into nothing, sender and receiver on a cable, and
the functions of a chain on cables, at the test's own axes and seats.

The last trials of each kind that nothing disturbed are kept in the user's cache, for an hour of
this boot of this host and for these versions; their median is the calibration."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median_low
from typing import Any, Literal

from switchmark.engines import TABLE as ENGINES
from switchmark.errors import SetupFailed, TrialFailed, Unavailable, UsageError
from switchmark.layout.cables import CABLE, seats_on_cable, without_switch
from switchmark.layout.layout import Layout
from switchmark.layout.resolve import check
from switchmark.layout.roles import steering_of
from switchmark.machine.placement import Placement
from switchmark.metrics.doubts import passing
from switchmark.metrics.verdict import own_ns, rate_interval
from switchmark.model.record import TrialResult
from switchmark.model.spec import Test, TrialSpec
from switchmark.model.topology import PortKind
from switchmark.switches import TABLE as SWITCHES

__all__ = ["Calibrations", "MeasureOnCable", "Mode", "is_saturating"]

Mode = Literal["auto", "never", "again"]

MeasureOnCable = Callable[
    [Test, Placement, TrialSpec, Callable[[Sequence[TrialResult]], bool]], Sequence[TrialResult]
]
"""Runs trials of a test without a switch on one path, on the seats of another one's placement,
until it is told that those so far are enough. No path may be up."""

_ON_CABLE = TrialSpec(rate_pps=None, duration_s=0.4, warmup_s=0.1)
_INTO_NOTHING = TrialSpec(rate_pps=None, duration_s=0.1, warmup_s=0.0)
_TRIALS = 3
"""Undisturbed ones that a calibration takes."""

_TRIES = 5
_KEPT = 9
"""The last trials, of which the median is taken."""

_RECENT_S = 3600.0
"""A host that others share is not the same for long: what is older at the beginning of a run is
measured anew."""
_NOT_OF_CABLE = ("switch ", "placement")
"""Versions that a calibration does not depend on; the cable's placement is that of the test."""


def is_saturating(test: Test) -> bool:
    """Will some trial of the test ask for more than may be carried?"""
    return test.dimension == "throughput" and (test.parsed_rate.is_max or test.search != "fixed")


class Calibrations:
    """The calibrations of this host. `auto` measures what is missing before a test that saturates,
    `never` measures nothing but uses what is kept, `again` forgets that and measures each once.
    """

    def __init__(
        self,
        mode: Mode,
        measure: MeasureOnCable,
        cache: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._mode = mode
        self._measure = measure
        self._clock = clock
        self._cache = cache or _default_cache()
        self._kept = _recent(_read(self._cache), clock())
        self._tried: dict[str, dict[str, Any]] = {}

    def of(
        self, test: Test, layout: Layout, placement: Placement, versions: Mapping[str, str]
    ) -> dict[str, Any] | None:
        """That of a test's ends, by the median of so many `trials`: `rate_pps` received on a cable
        as low, mean and high, `sent_pps`, the receiver's `empty_polls`, what each spends on a
        frame (`metrics.verdict.own_ns`), and `null_pps`, what the sender does with nobody to send
        to. None where there is none, `error` where it failed.

        Beside it where they are known `functions`, the rate of a chain on cables (of several,
        each with ends of its own), and `apart`, that of as many senders as a frame has copies,
        each with a cable and a receiver. The ends of copies are one sender and one receiver."""
        cables = self._cables(test, layout, placement, versions)
        found = {name: self._of(test, *each) for name, each in cables.items()}
        ends = found.pop("ends", None)
        if ends is None or "error" in ends:
            return ends
        known = {name: one for name, one in found.items() if one and "error" not in one}
        return ends | {
            name: {"rate_pps": one["rate_pps"], "doubts": one["doubts"]}
            for name, one in known.items()
        }

    def lacks(
        self, test: Test, layout: Layout, placement: Placement, versions: Mapping[str, str]
    ) -> bool:
        """Would `of` measure now? Then no path may be up."""
        cables = self._cables(test, layout, placement, versions)
        return any(self._wants(test, key) for _, _, key in cables.values())

    def learn(
        self,
        test: Test,
        layout: Layout,
        placement: Placement,
        versions: Mapping[str, str],
        trial: TrialResult,
    ) -> None:
        """Count a trial of a test on the cable among those of its calibration, if nothing
        disturbed it."""
        spec = trial.spec
        if test.switch != CABLE or steering_of(layout) is not None or test.copies > 1:
            return
        if not is_saturating(test) or spec.rate_pps is not None or spec.frames is not None:
            return
        cables = self._cables(test, layout, placement, versions)
        if "ends" not in cables:
            return
        known = self._kept.get(cables["ends"][2])
        if known is not None and not passing(trial.doubts):
            self._keep(cables["ends"][2], [*known["recent"], self._dated(trial)], known["null_pps"])

    def _cables(
        self, test: Test, layout: Layout, placement: Placement, versions: Mapping[str, str]
    ) -> dict[str, tuple[Test, Placement, str]]:
        """What is measured for a test, by name: each with its placement and its key."""
        found = {}
        for name, cable in without_switch(test, layout).items():
            seated = seats_on_cable(cable, layout, placement)
            found[name] = (cable, seated, _key(cable, seated, versions))
        return found

    def _of(self, test: Test, cable: Test, placement: Placement, key: str) -> dict[str, Any] | None:
        if self._wants(test, key):
            try:
                self._tried[key] = self._calibrate(cable, placement, key)
            except (SetupFailed, TrialFailed, Unavailable, UsageError) as error:
                self._tried[key] = {"error": error.message}
        return _told(self._kept[key]) if key in self._kept else self._tried.get(key)

    def _calibrate(self, cable: Test, placement: Placement, key: str) -> dict[str, Any]:
        """Measure one, and keep what nothing disturbed, for others too. Where everything was, it
        serves this run alone: a later one may do better."""
        self._kept.pop(key, None)

        def enough(trials: Sequence[TrialResult]) -> bool:
            calm = sum(not passing(trial.doubts) for trial in trials)
            return calm == _TRIALS or len(trials) == _TRIES

        trials = self._measure(cable, placement, _ON_CABLE, enough)
        null_pps = self._into_nothing(cable, placement)
        calm = [self._dated(trial) for trial in trials if not passing(trial.doubts)]
        if calm:
            self._keep(key, calm, null_pps)
        return _told({"recent": list(map(self._dated, trials)), "null_pps": null_pps})

    def _dated(self, trial: TrialResult) -> dict[str, Any]:
        return {"at": self._clock(), **_figures(trial)}

    def _keep(self, key: str, recent: Sequence[dict[str, Any]], null_pps: float | None) -> None:
        self._kept[key] = {"boot": _boot_id(), "recent": recent[-_KEPT:], "null_pps": null_pps}
        _write(self._cache, self._kept)

    def _wants(self, test: Test, key: str) -> bool:
        if self._mode == "never" or not is_saturating(test) or key in self._tried:
            return False
        return self._mode == "again" or key not in self._kept

    def _into_nothing(self, cable: Test, placement: Placement) -> float | None:
        nothing = {
            "switch": next(s.name for s in SWITCHES.values() if PortKind.NULL in s.port_kinds),
            "engine": next(e.name for e in ENGINES.values() if PortKind.NULL in e.port_kinds),
        }
        changes = {**nothing, **dict.fromkeys(("port", "driver", "memory", "offload"), "auto")}
        test = cable.model_copy(update={**changes, "queues": 1, "descriptors": None})
        if check(test):
            return None
        (trial,) = self._measure(test, placement, _INTO_NOTHING, bool)
        return trial.tx_frames * 1e9 / trial.elapsed_ns


def _told(known: Mapping[str, Any]) -> dict[str, Any]:
    """The calibration that some trials make: the figures of that with the median rate."""
    by_rate = {figures["rate_pps"][1]: figures for figures in known["recent"]}
    median = by_rate[median_low([figures["rate_pps"][1] for figures in known["recent"]])]
    return {
        "switch": CABLE,
        **{name: value for name, value in median.items() if name != "at"},
        "trials": len(known["recent"]),
        "null_pps": known["null_pps"],
    }


def _recent(kept: Mapping[str, dict[str, Any]], now: float) -> dict[str, dict[str, Any]]:
    """What is kept without what is not of late; nothing of a file of another form."""
    found = {}
    for key, known in kept.items():
        with suppress(IndexError, KeyError, TypeError):
            recent = [each for each in known["recent"] if 0 <= now - each["at"] < _RECENT_S]
            if recent and _told({**known, "recent": recent}):
                found[key] = {**known, "recent": recent}
    return found


def _figures(trial: TrialResult) -> dict[str, Any]:
    """What a trial on a cable tells of its ends."""
    receivers = [part for part in trial.parts if "receiver" in part.roles]
    polls = sum(part.polls for part in receivers)
    empty = sum(part.empty_polls for part in receivers)
    return {
        "rate_pps": list(rate_interval(trial)),
        "sent_pps": trial.tx_frames * 1e9 / trial.elapsed_ns,
        "empty_polls": empty / polls if polls else None,
        "sender_ns": own_ns(trial, "sender"),
        "receiver_ns": own_ns(trial, "receiver"),
        "doubts": list(trial.doubts),
    }


def _key(cable: Test, placement: Placement, versions: Mapping[str, str]) -> str:
    seats = {part: seat for part, seat in placement.as_dict()["seats"].items() if part != "switch"}
    content = {
        "test": cable.model_dump(mode="json"),
        "seats": seats,
        "versions": {k: v for k, v in versions.items() if not k.startswith(_NOT_OF_CABLE)},
        "boot": _boot_id(),
        "cpu": _cpu_model(),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _cpu_model() -> str:
    with Path("/proc/cpuinfo").open() as lines:
        return next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "switchmark/calibration.json"


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """What is kept of this boot; nothing if the file cannot be read, or holds something else."""
    with suppress(OSError, ValueError):
        kept = json.loads(path.read_text())
        boot = _boot_id()
        if isinstance(kept, dict):
            return {
                key: found
                for key, found in kept.items()
                if isinstance(found, dict) and found.get("boot") == boot
            }
    return {}


def _write(path: Path, kept: Mapping[str, Any]) -> None:
    """Whole or not at all; a cache that cannot be written costs only time."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps(kept, indent=1))
        new.replace(path)
