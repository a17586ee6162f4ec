"""These tests make undos fail: every failure is in the record and at the end of the run's
output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from host_state import clean
from switchmark.lab import calibration
from switchmark.lab.measure import Lab
from switchmark.model.plan import Plan, Run
from switchmark.model.record import Record, TrialSpec
from switchmark.model.test import Test
from switchmark.model.topology import Wiring
from switchmark.switches import TABLE as SWITCHES

Break = Callable[..., None]


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Break]:
    """Let a switch fail by `breaks(name, *more)`: what it makes first cannot be undone before the
    test's end, and `more` are commands after it."""
    mended = tmp_path / "mended"

    def broken(name: str, *steps: tuple[str, ...]) -> None:
        kind = type(SWITCHES[name])
        begin = kind.start

        def start(self: object, w: Wiring) -> Plan:
            step = Run("something that stays", ("true",), undo=("test", "-e", str(mended)))
            return (step, *(Run("and then", argv) for argv in steps), *begin(SWITCHES[name], w))

        monkeypatch.setattr(kind, "start", start)

    yield broken
    mended.touch()
    assert [cleaned.state for cleaned in clean()] == ["cleaned"]


def run(lab: Lab, **axes: str) -> Record:
    test = Test(**{"duration": "0.1", "warmup": "0", "rate": "2k", **axes})
    return lab.run(test)


def assert_told(lab: Lab, record: Record, status: str) -> None:
    assert record.status == status
    assert "could not undo (test -e " in (record.error or "")
    assert "could not undo (test -e " in lab.left[0]
    assert lab.left[-1].startswith("what is left is undone by: switchmark clean sm")


def test_of_a_test_that_is_refused(breaks: Break, tmp_path: Path, traffic_program: str) -> None:
    breaks("linux-bridge", ("no-such-program",))
    with Lab(tmp_path) as lab:
        record = run(lab)
    assert "no-such-program" in (record.error or "")
    assert_told(lab, record, "refused")


def test_of_the_cable_on_which_a_test_is_calibrated(
    breaks: Break, tmp_path: Path, traffic_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    brief = TrialSpec(rate_pps=None, duration_s=0.05, warmup_s=0.0)
    monkeypatch.setattr(calibration, "_ON_CABLE", brief)
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    breaks("direct")
    with Lab(tmp_path / "run", calibrate="again") as lab:
        record = run(lab, rate="max")
    assert_told(lab, record, "failed")


def test_of_a_path_that_is_taken_down_at_the_end(
    breaks: Break, tmp_path: Path, traffic_program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    breaks("linux-bridge")
    with Lab(tmp_path) as lab:
        test = Test(duration=0.1, warmup=0, rate="2k")
        record = lab.run(test, then=test)
        assert record.status == "ok", record.error
    assert "could not undo (test -e " in lab.left[0]
