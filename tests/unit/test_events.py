"""Events: their spelling, their moments, their plans, and the outages that are computed after
them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recorded import fresh, gap, interrupted_trial
from switchmark.errors import TrialFailed, UsageError
from switchmark.lab.happening import require_steps
from switchmark.lab.running import RunningPath
from switchmark.metrics.outage import outage_of, outages_by_flow, phases_of, recovery_s
from switchmark.model.event import KINDS, LOAD, load_steps, moments_s, parse_events, written_events
from switchmark.model.plan import End, Run, Spawn
from switchmark.model.record import Record, TrialResult
from switchmark.model.test import Test
from switchmark.model.topology import NOT_PROBED
from switchmark.model.version import Version
from switchmark.path.assembly import events_of
from switchmark.path.cables import without_switch
from switchmark.path.refusals import check
from switchmark.path.resolving import resolve
from switchmark.plots.outage import RECEIVED
from switchmark.report.outage import _HAPPENED, sentences
from switchmark.report.sections import sections
from switchmark.report.table import table_lines


def test_events_have_one_spelling() -> None:
    assert written_events("kill@2000ms+pause") == "kill@2+pause"
    assert Test(event="restart@1.50s").event == "restart@1.5"
    assert [event.kind for event in parse_events("pause@1+port-down@3")] == ["pause", "port-down"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "reboot", "kill@", "kill@soon", "kill,pause", "kill@1@2", "kill:50%"),
        *("load", "load@1", "load:50", "load:0%", "load:1001%", "load:half%"),
        *("upgrade", "upgrade@1", "upgrade:ovs", "upgrade:ovs@2@3@4", "kill:ovs@2"),
    ],
)
def test_what_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_events(text)


def test_an_upgrade_names_a_version_and_may_have_a_moment() -> None:
    (late,) = parse_events("upgrade:vpp@26.10@1500ms")
    assert (late.to, late.at_s, str(late)) == ("vpp@26.10", 1.5, "upgrade:vpp@26.10@1.5")
    (usual,) = parse_events("upgrade:testpmd@/opt/dpdk/bin")
    assert (usual.to, usual.at_s) == ("testpmd@/opt/dpdk/bin", None)
    assert str(usual) == "upgrade:testpmd@/opt/dpdk/bin"


def test_the_load_changes_at_its_own_moments() -> None:
    test = Test(event="load:200%@3+kill+load:50%@1.0s", rate="1000", duration=4)
    assert test.event == "load:200%@3+kill+load:50%@1"
    assert [event.kind for event in test.events] == ["kill"]
    assert load_steps(test.all_events, 4) == ((1.0, 0.5), (3.0, 2.0))
    assert load_steps(parse_events("load:50%"), 4) == ((1.0, 0.5),)
    assert load_steps(parse_events("kill"), 4) == ()


def stepped(offered: tuple[int, ...], unsent: int = 0) -> TrialResult:
    """Return a trial of 0.8 s with intervals of 0.1 s, whose load falls to a half at 0.4 s."""
    trial = interrupted_trial(())
    series = trial.series
    assert series is not None
    changes = {"interval_ns": 10**8, "offered": (*offered, 0)}
    spec = trial.spec.model_copy(update={"duration_s": 0.8, "steps": ((0.4, 0.5),)})
    return trial.model_copy(
        update={
            "spec": spec,
            "series": series.model_copy(update=changes),
            "tx_unsent": unsent,
        }
    )


def test_a_step_of_the_load_proves_itself() -> None:
    require_steps(stepped((100,) * 4 + (50,) * 4))
    require_steps(stepped((100,) * 4 + (47,) * 4))
    require_steps(stepped((100,) * 8, unsent=1))
    with pytest.raises(TrialFailed, match="the whole rate is 1000, 2000 frames/s"):
        require_steps(stepped((100,) * 8))
    with pytest.raises(TrialFailed, match="the whole rate is 1000, 200 frames/s"):
        require_steps(stepped((100,) * 4 + (10,) * 4))
    short = stepped((100,) * 4 + (50,) * 4)
    spec = short.spec.model_copy(update={"steps": ((0.4, 0.5), (0.45, 1.0))})
    with pytest.raises(TrialFailed, match=r"0\.05 s is too short"):
        require_steps(short.model_copy(update={"spec": spec}))


def test_events_without_a_moment_are_spread_over_the_trial() -> None:
    assert moments_s(parse_events("kill"), 10) == (2.5,)
    assert moments_s(parse_events("kill+pause@9+kill"), 12) == (1.0, 9.0, 9.0)


def test_earlier_results_have_no_event_and_their_keys_stay() -> None:
    assert Test().events == ()
    assert Test(dimension="outage", event="kill").rate == "10%"
    assert Test(dimension="outage", event="kill", rate="5k").rate == "5k"
    assert Test(dimension="outage", event="kill").burst == 1


def reasons(**axes: Any) -> str:
    return "\n".join(refusal.why for refusal in check(Test(**axes)))


@pytest.mark.parametrize(
    ("axes", "why"),
    [
        ({"dimension": "outage"}, "the effect of one event, not of 0"),
        ({"dimension": "outage", "event": "kill+kill"}, "the effect of one event, not of 2"),
        ({"dimension": "outage", "event": "kill", "rate": "max"}, "needs a constant rate"),
        ({"dimension": "outage", "event": "kill", "touch": "none"}, "the number and the time"),
        ({"event": "kill@10"}, "has no event at 10 s"),
        ({"event": "load:50%@10", "rate": "1000"}, "has no event at 10 s"),
        ({"event": "load:50%"}, "is a share of a rate"),
        ({"event": "load:50%@1.05+load:80%@1.19", "rate": "1000"}, "between 1.05 and 1.19 s"),
        ({"event": "load:50%@9.95", "rate": "1000"}, "between 9.95 and 10 s"),
        ({"event": "load:50%@1", "rate": "1000", "interval": 4}, "between 0 and 1 s"),
        ({"event": "load:50%", "rate": "1000", "search": "ndr"}, "in a trial at one rate"),
        ({"dimension": "outage", "event": "kill+load:50%"}, "event load changes it"),
        ({"event": "kill", "search": "ndr"}, "in a trial at one rate"),
        ({"event": "pause"}, "linux-bridge has no event pause"),
        ({"event": "kill", "switch": "ovs", "switch_environment": "docker"}, "hides from the host"),
        (
            {"event": "kill", "switch": "testpmd", "engine": "dpdk", "listen": "switch"},
            "does not connect again",
        ),
        (
            {"event": "restart", "switch": "testpmd", "engine": "dpdk", "port": "memif"},
            "does not connect again",
        ),
    ],
)
def test_an_event_that_cannot_take_place_is_refused(axes: dict[str, Any], why: str) -> None:
    assert why in reasons(**axes)


def test_a_load_that_lasts_for_an_interval_is_not_refused() -> None:
    assert reasons(event="load:50%@1+load:80%@1.1", rate="1000") == ""
    assert reasons(event="load:50%@1.05+load:80%@1.19", rate="1000", interval=0.05) == ""


def test_each_event_of_a_switch_has_words_for_an_answer() -> None:
    assert {*KINDS} - {LOAD} == {*_HAPPENED}


@pytest.mark.parametrize(("event", "again"), [(None, True), ("load:50%@1", True), ("kill", False)])
def test_a_path_whose_switch_had_an_event_is_built_again(event: str | None, again: bool) -> None:
    test = Test(event=event)
    running = SimpleNamespace(path=SimpleNamespace(test=test), processes=lambda: ())
    assert RunningPath.serves(cast(RunningPath, running), test) is again


@pytest.mark.parametrize("event", ["kill@1", "load:50%@1"])
def test_the_baseline_of_a_test_with_an_event_has_none(event: str) -> None:
    path = resolve(Test(event=event, rate="1000"), prefix="smtest", run_dir="/run/x")
    assert {name: test.event for name, test in without_switch(path).items()} == {"ends": None}


def test_functions_listen_where_the_switch_is_replaced() -> None:
    for event, listens in (("kill", True), ("restart", True), ("pause", False), (None, False)):
        test = Test(switch="testpmd", engine="dpdk", event=event)
        path = resolve(test, prefix="smtest", run_dir="/run/x")
        assert path.wiring.functions.listen == listens


def test_a_killed_process_is_started_again_as_it_was_and_under_its_limit() -> None:
    test = Test(switch="testpmd", engine="dpdk", event="kill@3+restart@1", cpu_limit="switch:50")
    path = resolve(test, prefix="smtest", run_dir="/run/x")
    restart, kill = events_of(path)
    assert (restart.at_s, kill.at_s) == (1, 3)
    assert [step.stop for step in kill.change.disturb if isinstance(step, End)] == [(SIGKILL, 0.0)]
    (first,) = (step for step in path.switches[0].start if isinstance(step, Spawn))
    (again,) = (step for step in kill.change.restore if isinstance(step, Spawn))
    assert again.argv == first.argv
    assert "in-cgroup" in again.within


def built(folder: Path, program: str) -> str:
    """Return the name of a folder with an executable of that name."""
    folder.mkdir()
    (folder / program).write_text("#!/bin/sh\n")
    (folder / program).chmod(0o755)
    return str(folder)


def test_an_upgrade_ends_the_switch_and_starts_the_other_program(tmp_path: Path) -> None:
    name = f"testpmd@{built(tmp_path / 'new', 'dpdk-testpmd')}"
    axes = {"switch": "testpmd", "engine": "dpdk", "event": f"upgrade:{name}@1"}
    versions = {("local", name): Version("26.03", program=str(tmp_path / "new/dpdk-testpmd"))}
    found = replace(NOT_PROBED, programs=versions)
    path = resolve(Test(**axes), prefix="smtest", run_dir="/run/x", found=found)
    (upgrade,) = events_of(path)
    (restart,) = events_of(
        resolve(Test(**{**axes, "event": "restart@1"}), prefix="smtest", run_dir="/run/x")
    )
    assert upgrade.change.disturb == restart.change.disturb
    (old,) = [step.argv for step in restart.change.restore if isinstance(step, Spawn)]
    (new,) = [step.argv for step in upgrade.change.restore if isinstance(step, Spawn)]
    changed = [pair for pair in zip(old, new, strict=True) if len(set(pair)) == 2]
    assert [after for _, after in changed] == [str(tmp_path / "new/dpdk-testpmd")]
    assert upgrade.version == "26.03"


def test_an_upgrade_that_cannot_be_is_refused(tmp_path: Path) -> None:
    user_space = {"switch": "testpmd", "engine": "dpdk"}
    assert "is not a separate program" in reasons(event="upgrade:linux-bridge@6.2")
    other = f"ovs@{built(tmp_path / 'ovs', 'ovs-vswitchd')}"
    assert f"another version of testpmd, not {other}" in reasons(
        **user_space, event=f"upgrade:{other}"
    )
    assert "'testpmd@99'" in reasons(**user_space, event="upgrade:testpmd@99")
    assert "switch linux-bridge has no event upgrade" in reasons(event=f"upgrade:{other}")


def test_a_bridge_keeps_its_ports_when_it_is_removed() -> None:
    path = resolve(Test(event="kill"), prefix="smtest", run_dir="/run/x")
    (event,) = events_of(path)
    argvs = [step.argv for step in event.change.restore if isinstance(step, Run)]
    assert not any("veth" in argv for argv in argvs)
    assert sum("master" in argv for argv in argvs) == 2


# --- outages -----------------------------------------------------------------------------------


def test_the_two_methods_agree_where_frames_are_lost() -> None:
    outage = outage_of(interrupted_trial((gap(301, 502, lost=200),), lost=200))
    assert outage is not None
    assert (outage.by_loss_s, outage.by_time_s) == pytest.approx((0.2, 0.2))
    assert (outage.began_s, outage.ended_s) == pytest.approx((0.001, 0.202))
    assert outage.agrees
    assert outage.s == outage.by_loss_s


def test_frames_that_wait_are_late_and_not_lost() -> None:
    outage = outage_of(interrupted_trial((), (gap(301, 502),)))
    assert outage is not None
    assert (outage.by_loss_s, outage.by_time_s) == pytest.approx((0.0, 0.2))
    assert not outage.agrees
    assert outage.s == outage.by_time_s


def test_a_silence_before_the_event_is_none_of_its_outage() -> None:
    outage = outage_of(interrupted_trial((), (gap(100, 250),)))
    assert outage is not None
    assert (outage.s, outage.began_s, outage.ended_s) == (0.0, None, None)


def test_a_silence_long_after_the_event_is_none_of_its_outage() -> None:
    outage = outage_of(interrupted_trial((), (gap(301, 402), gap(650, 900))))
    assert outage is not None
    assert (outage.by_time_s, outage.ended_s) == pytest.approx((0.1, 0.102))


def test_what_was_lost_before_the_event_does_not_count() -> None:
    early = interrupted_trial(lost=3)
    assert early.series is not None
    series = early.series.model_copy(update={"lost": (3,) + (0,) * 10})
    outage = outage_of(early.model_copy(update={"series": series}))
    assert outage is not None
    assert outage.lost == 0


def test_what_is_lost_long_after_the_event_does_not_count() -> None:
    late = interrupted_trial((gap(301, 502, lost=200), gap(900, 950, lost=50)), lost=200)
    assert late.series is not None
    lost = (*late.series.lost[:9], 50, 0) if late.series.lost else ()
    series = late.series.model_copy(update={"lost": lost})
    outage = outage_of(late.model_copy(update={"series": series, "lost": 250}))
    assert outage is not None
    assert outage.lost == 200


def test_losses_of_a_flow_count_until_twice_the_time_of_its_outage() -> None:
    gaps = (gap(301, 502, lost=200), gap(690, 700, lost=9), gap(720, 730, lost=8))
    (outage,) = outages_by_flow(interrupted_trial(gaps, lost=217))
    assert outage.lost == 209


def test_an_outage_without_an_end_lasts_to_the_end_of_the_trial() -> None:
    outage = outage_of(interrupted_trial((gap(301, None, lost=400),), lost=400, unsent=299))
    assert outage is not None
    assert not outage.is_over
    assert outage.by_loss_s == pytest.approx(0.699)
    assert outage.by_time_s == pytest.approx(0.698, abs=0.002)
    assert recovery_s(interrupted_trial((gap(301, None, lost=400),), lost=400)) is None


def test_the_parts_of_an_outage_add_up() -> None:
    phases = phases_of(interrupted_trial((gap(301, 502, lost=200),), lost=200))
    assert phases is not None
    parts = (phases.stop_s, phases.start_s, phases.links_s, phases.rest_s)
    assert parts == pytest.approx((0.005, 0.145, 0.01, 0.042))


def test_a_latency_recovers_when_it_is_within_ten_percent() -> None:
    slow = (0.1, 0.1, 0.1, 0.1, None, 0.9, 0.2, 0.109, 0.1, 0.1, None)
    assert recovery_s(interrupted_trial((gap(301, 502, lost=200),), lost=200, p99_ms=slow)) == 0.4
    never = (0.1, 0.1, 0.1, None, None, 0.9, 0.2, 0.2, 0.2, 0.2, None)
    assert recovery_s(interrupted_trial((gap(301, 502, lost=200),), lost=200, p99_ms=never)) is None


# --- reports -----------------------------------------------------------------------------------


def interrupted(switch: str, *trials: TrialResult) -> Record:
    test = Test(switch=switch, dimension="outage", event="kill@0.3", rate="1000", duration=1)
    return fresh(test=test, trials=trials)


def test_an_answer_says_how_much_traffic_was_lost_or_late() -> None:
    lost = interrupted_trial((gap(301, 502, lost=200),), lost=200)
    late = interrupted_trial((), (gap(301, 702),))
    gone = interrupted_trial((gap(301, None, lost=700),), lost=700)
    records = [
        interrupted("ovs", lost),
        interrupted("testpmd", late),
        interrupted("tc-redirect", interrupted_trial()),
        interrupted("vpp", gone),
    ]
    assert sentences(records) == [
        "tc-redirect lost < 1 ms of traffic when it was killed and started again, ovs 200 ms, "
        "testpmd delayed 400 ms and vpp lost the rest (700 ms)."
    ]


def test_a_table_has_both_methods_and_the_parts() -> None:
    record = interrupted("ovs", interrupted_trial((gap(301, 502, lost=200),), lost=200))
    lines = "\n".join(table_lines(sections([record], wide=True)[0]))
    for text in ("200 ms", "1 ms to 202 ms", "5 ms", "145 ms", "10 ms", "42 ms"):
        assert text in lines


def test_a_chart_has_a_panel_for_each_switch_and_the_event_at_0() -> None:
    lost = interrupted_trial((gap(301, 502, lost=200),), lost=200)
    chart = RECEIVED.draw([interrupted("ovs", lost), interrupted("linux-bridge", lost)])
    assert chart is not None
    assert chart.panel_names() == ["linux-bridge", "ovs"]
    assert {mark.x for mark in chart.marks if mark.series == "event"} == {0.0}
    assert [mark.x for mark in chart.marks if mark.panel == "ovs"][:3] == [-0.25, -0.15, -0.05]
    assert RECEIVED.draw([fresh()]) is None
