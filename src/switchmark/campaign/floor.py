"""The tool's own latency: that of a test with a cable in its switch's place, at its other axes and
seats. It is said beside the test's, never subtracted from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from switchmark.campaign.layout import Layout
from switchmark.campaign.resolve import check
from switchmark.errors import SetupFailed, TrialFailed, Unavailable, UsageError
from switchmark.machine.placement import Placement
from switchmark.metrics.latency import latency_of
from switchmark.metrics.throughput import of_latency
from switchmark.model.record import TrialResult
from switchmark.model.spec import Test, TrialSpec
from switchmark.switches import TABLE as SWITCHES

__all__ = ["Floors"]

_CABLE = "direct"
_USUAL_PPS = 1000.0
"""The rate of a sender where the test's own is all that it can, or depends on the switch."""
_DURATION_S = 0.5
_WARMUP_S = 0.05
_OF_SWITCH = ("semantics", "switch_cores", "search", "loads", "repeat", "until_certain", "seed")


class Floors:
    """The floors of a run, each measured once, if they are `wanted`. `measure` runs one trial of a
    test on seats of another's placement; no path may be up."""

    def __init__(
        self, wanted: bool, measure: Callable[[Test, Placement, TrialSpec], TrialResult]
    ) -> None:
        self._wanted = wanted
        self._measure = measure
        self._known: dict[str, dict[str, Any]] = {}

    def of(self, test: Test, layout: Layout, placement: Placement) -> dict[str, Any] | None:
        """`latency_ns` on the cable, with the rate of a sender and the doubts of its trial; `error`
        where it failed. None for a test of no latency, or that no cable can stand for."""
        cable = self._cable(test, layout)
        if cable is None:
            return None
        key = _key(cable, placement)
        if key not in self._known:
            self._known[key] = self._of(cable, placement)
        return self._known[key]

    def lacks(self, test: Test, layout: Layout, placement: Placement) -> bool:
        """Would `of` measure now?"""
        cable = self._cable(test, layout)
        return cable is not None and _key(cable, placement) not in self._known

    def _of(self, cable: Test, placement: Placement) -> dict[str, Any]:
        rate_pps = cable.rate_pps or _USUAL_PPS
        spec = TrialSpec(rate_pps=rate_pps, duration_s=_DURATION_S, warmup_s=_WARMUP_S)
        try:
            trial = self._measure(cable, placement, spec)
        except (Unavailable, UsageError, SetupFailed, TrialFailed) as error:
            return {"switch": _CABLE, "error": str(error)}
        doubts = [doubt for doubt in trial.doubts if doubt != "short"]
        told = latency_of([trial]) or {}
        return {"switch": _CABLE, "rate_pps": rate_pps, "doubts": doubts, **told}

    def _cable(self, test: Test, layout: Layout) -> Test | None:
        if not self._wanted or test.switch == _CABLE or not of_latency(test):
            return None
        changes: dict[str, Any] = {
            name: Test.model_fields[name].get_default() for name in _OF_SWITCH
        }
        kind = layout.wiring.kind
        cable = test.model_copy(
            update={
                **changes,
                "switch": _CABLE,
                "switch_environment": "netns",
                "port": str(kind) if kind in SWITCHES[_CABLE].port_kinds else "auto",
                "nic": None,
                "placement": layout.policy,
                "cpu_limit": None if "switch" in test.limits else test.cpu_limit,
                "duration": _DURATION_S,
                "warmup": _WARMUP_S,
            }
        )
        return None if check(cable) else cable


def _key(cable: Test, placement: Placement) -> str:
    seats = {part: seat for part, seat in placement.seats.items() if part != "switch"}
    return f"{cable.model_dump_json()} {sorted(seats.items())}"
