"""What the traffic program does without a switch: the sender into nothing, and sender and receiver
on a cable, at the test's own axes and placement. Kept in the user's cache, for this boot of this
host and these versions."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from switchmark.campaign.layout import Layout
from switchmark.campaign.resolve import check
from switchmark.engines import TABLE as ENGINES
from switchmark.errors import SetupFailed, TrialFailed, Unavailable, UsageError
from switchmark.machine.placement import Placement
from switchmark.metrics.verdict import own_ns, rate_interval
from switchmark.model.record import TrialResult
from switchmark.model.spec import Test, TrialSpec
from switchmark.model.topology import PortKind
from switchmark.switches import TABLE as SWITCHES

__all__ = ["Calibrations", "Mode", "is_saturating"]

Mode = Literal["auto", "never", "again"]

_ON_CABLE = TrialSpec(rate_pps=None, duration_s=0.5, warmup_s=0.1)
_INTO_NOTHING = TrialSpec(rate_pps=None, duration_s=0.1, warmup_s=0.0)
_TRIES = 3
_CABLE = "direct"
_OWN = (
    *("search", "loss_ratio", "precision", "loads", "until_certain"),
    *("rate", "duration", "warmup", "repeat", "seed"),
)
"""Axes of a test that a calibration does not depend on."""


def is_saturating(test: Test) -> bool:
    """Will some trial of the test ask for more than may be carried?"""
    return test.dimension == "throughput" and (test.parsed_rate.is_max or test.search != "fixed")


class Calibrations:
    """The calibrations of this host. `auto` measures what is missing before a test that saturates,
    `never` measures nothing but uses what is kept, `again` measures each once more.

    `measure` runs one trial of a test on seats of another's placement.
    """

    def __init__(
        self,
        mode: Mode,
        measure: Callable[[Test, Placement, TrialSpec], TrialResult],
        cache: Path | None = None,
    ) -> None:
        self._mode = mode
        self._measure = measure
        self._cache = cache or _default_cache()
        self._kept = _read(self._cache)
        self._tried: dict[str, dict[str, Any]] = {}

    def of(
        self, test: Test, layout: Layout, placement: Placement, versions: Mapping[str, str]
    ) -> dict[str, Any] | None:
        """That of a test: `rate_pps` received on a cable as low, mean and high, `sent_pps`, the
        receiver's `empty_polls`, what each spends on a frame (`metrics.verdict.own_ns`), and
        `null_pps`, what the sender does with nobody to send to. None where there is none,
        `error` where it failed."""
        cable = _without_switch(test, layout)
        if cable is None:
            return None
        key = _key(cable, placement, versions)
        if not self._wants(test, key):
            return self._tried.get(key) or self._kept.get(key)
        try:
            found = self._calibrate(cable, placement) | {"boot": _boot_id()}
        except (SetupFailed, TrialFailed, Unavailable, UsageError) as error:
            found = {"error": error.message}
        else:
            self._kept[key] = found
            _write(self._cache, self._kept)
        self._tried[key] = found
        return found

    def lacks(
        self, test: Test, layout: Layout, placement: Placement, versions: Mapping[str, str]
    ) -> bool:
        """Would `of` measure now? Then no path may be up."""
        cable = _without_switch(test, layout)
        return cable is not None and self._wants(test, _key(cable, placement, versions))

    def _wants(self, test: Test, key: str) -> bool:
        if self._mode == "never" or not is_saturating(test) or key in self._tried:
            return False
        return self._mode == "again" or key not in self._kept

    def _calibrate(self, cable: Test, placement: Placement) -> dict[str, Any]:
        trials: list[TrialResult] = []
        while len(trials) < _TRIES:
            trials.append(self._measure(cable, placement, _ON_CABLE))
            if "host-busy" not in trials[-1].doubts:
                break
        best = max(trials, key=lambda trial: trial.distinct)
        receivers = [part for part in best.parts if "receiver" in part.roles]
        polls = sum(part.polls for part in receivers)
        empty = sum(part.empty_polls for part in receivers)
        return {
            "switch": _CABLE,
            "rate_pps": list(rate_interval(best)),
            "sent_pps": best.tx_frames * 1e9 / best.elapsed_ns,
            "empty_polls": empty / polls if polls else None,
            "sender_ns": own_ns(best, "sender"),
            "receiver_ns": own_ns(best, "receiver"),
            "null_pps": self._into_nothing(cable, placement),
            "doubts": list(best.doubts),
        }

    def _into_nothing(self, cable: Test, placement: Placement) -> float | None:
        nothing = {
            "switch": next(s.name for s in SWITCHES.values() if PortKind.NULL in s.port_kinds),
            "engine": next(e.name for e in ENGINES.values() if PortKind.NULL in e.port_kinds),
        }
        changes = {**nothing, **dict.fromkeys(("port", "driver", "memory", "offload"), "auto")}
        test = cable.model_copy(update={**changes, "queues": 1, "descriptors": None})
        if check(test):
            return None
        trial = self._measure(test, placement, _INTO_NOTHING)
        return trial.tx_frames * 1e9 / trial.elapsed_ns


def _without_switch(test: Test, layout: Layout) -> Test | None:
    """The same test on a cable; None where no cable joins its ends."""
    kind = layout.wiring.kind
    changes: dict[str, Any] = {
        name: Test.model_fields[name].get_default() for name in (*_OWN, "semantics", "switch_cores")
    }
    cable = test.model_copy(
        update={
            **changes,
            "switch": _CABLE,
            "switch_environment": "netns",
            "port": str(kind) if kind in SWITCHES[_CABLE].port_kinds else "auto",
            "nic": None,
        }
    )
    if test.dimension != "throughput" or check(cable):
        return None
    return cable


def _key(cable: Test, placement: Placement, versions: Mapping[str, str]) -> str:
    seats = {part: seat for part, seat in placement.as_dict()["seats"].items() if part != "switch"}
    content = {
        "test": cable.model_dump(mode="json"),
        "seats": seats,
        "versions": {k: v for k, v in versions.items() if not k.startswith("switch ")},
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
    """What is kept of this boot; nothing if the file cannot be read."""
    with suppress(OSError, ValueError):
        kept = json.loads(path.read_text())
        boot = _boot_id()
        return {key: found for key, found in kept.items() if found.get("boot") == boot}
    return {}


def _write(path: Path, kept: Mapping[str, Any]) -> None:
    """Whole or not at all; a cache that cannot be written costs only time."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps(kept, indent=1))
        new.replace(path)
