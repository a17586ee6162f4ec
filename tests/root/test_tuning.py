"""These tests search for settings with real frames: short trials, whose figures say nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from real_frames import Measure, assert_every_frame_is_accounted_for
from switchmark.campaign import tuning
from switchmark.campaign.load import from_options
from switchmark.campaign.store import RunFolder, read_records
from switchmark.cli.arguments import Measuring
from switchmark.cli.running import checked_options
from switchmark.cli.tuning import go_on_tuning, search_settings
from switchmark.errors import Interrupted
from switchmark.hosts.hosts import Hosts
from switchmark.lab.measure import Lab
from switchmark.model.test import Test
from switchmark.model.visit import Visit
from switchmark.path.refusals import check
from switchmark.runs.own_run import OwnRun

SHORT = {"duration": "0.1", "warmup": "0.05"}
LEAST = {"switch_burst": 8, "buffers": 8192, "descriptors": 256}
MOST = {"switch_burst": 256, "buffers": 131072, "memory": "no-huge", "descriptors": 4096}
SHOWN, OPTIONS = checked_options(Measuring(quiet=True, calibrate="never", gate="off"))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch, traffic_program: str) -> None:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", traffic_program)
    monkeypatch.setattr(tuning, "REPEATS", 1)


def test_settings_of_a_switch_are_tried_and_the_best_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the smallest settings, with which the switch works."""

    def smallest(test: Test, check: Any) -> list[Test]:
        return [test.model_copy(update=LEAST)]

    monkeypatch.setattr(tuning, "_with_settings", smallest)
    axes = {"switch": "testpmd", "engine": "dpdk", "memory": "auto", "repeat": "1", **SHORT}
    campaign = from_options(axes, check)
    status = search_settings(
        campaign, 1, (tmp_path, "run"), SHOWN, OPTIONS, Hosts(OwnRun), strict=False
    )
    assert status == 0
    tried, compared = (
        {record.test: record for record in read_records(folder)}
        for folder in (tmp_path / "run", tmp_path / "run/tuned")
    )
    assert set(tried) == set(compared) == set(tuning.to_try(campaign, 1, check).tests)
    (tuned,) = (test for test in compared if test not in campaign.tests)
    steps = (tmp_path / "run/tuned/logs/steps.sh").read_text()
    assert f"--burst={tuned.switch_burst}" in steps
    assert f"--total-num-mbufs={tuned.buffers}" in steps
    output = capsys.readouterr().out
    assert "testpmd: default " in output
    assert "switchmark run --switch testpmd --engine dpdk" in output
    assert output.count("(the best of 1 settings)") == 1


def test_a_search_that_was_interrupted_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its first stage and at its second: what was measured is not measured again."""
    measured: list[tuple[Test, str]] = []
    stop_at = [1, 3]
    visit = Lab.visit

    def counted(self: Lab, request: Visit) -> Any:
        if len(measured) in stop_at:
            stop_at.remove(len(measured))
            raise Interrupted("interrupted")
        measured.append((request.test, self._folder.name))
        return visit(self, request)

    monkeypatch.setattr(Lab, "visit", counted)
    axes = {"switch": "linux-bridge,tc-redirect", "repeat": "1", **SHORT}
    campaign, run = from_options(axes, check), tmp_path / "run"
    with pytest.raises(Interrupted, match=f"resume with: switchmark resume {run}$"):
        search_settings(campaign, 3, (tmp_path, "run"), SHOWN, OPTIONS, Hosts(OwnRun), strict=False)
    with pytest.raises(Interrupted, match=f"resume with: switchmark resume {run}$"):
        go_on_tuning(RunFolder(run), SHOWN, OPTIONS, Hosts(OwnRun), strict=False)
    assert go_on_tuning(RunFolder(run), SHOWN, OPTIONS, Hosts(OwnRun), strict=False) == 0
    assert sorted(measured, key=str) == sorted(
        ((test, folder) for test in campaign.tests for folder in ("run", "tuned")), key=str
    )
    output = capsys.readouterr().out
    for switch in ("linux-bridge", "tc-redirect"):
        assert f"{switch}: default " in output
    assert output.count("has nothing to tune") == 2


@pytest.mark.parametrize(
    ("switch", "settings"),
    [
        pytest.param("testpmd", LEAST, id="testpmd-8", marks=pytest.mark.further),  # as above
        pytest.param("testpmd", MOST, id="testpmd-256"),
        pytest.param("fastclick", LEAST, id="fastclick-8"),
        pytest.param("fastclick", MOST, id="fastclick-256"),
    ],
)
def test_a_switch_works_with_the_settings_that_it_follows(
    measure: Measure, switch: str, settings: dict[str, Any]
) -> None:
    record = measure(switch=switch, engine="dpdk", **settings)
    assert_every_frame_is_accounted_for(record)


@pytest.mark.parametrize("buffers", [8192, 131072])
@pytest.mark.parametrize("switch", ["vpp", "bess"])
def test_a_switch_works_with_the_buffers_that_it_is_given(
    measure: Measure, switch: str, buffers: int
) -> None:
    assert_every_frame_is_accounted_for(measure(switch=switch, engine="dpdk", buffers=buffers))
