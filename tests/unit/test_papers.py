"""These tests check how an experiment of the literature becomes tests, and its records answers."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from checked import check
from switchmark.campaign.experiments import PlannedPoint, campaign_of, left_out, planned
from switchmark.errors import UsageError
from switchmark.model.cable import Calibration
from switchmark.model.record import Origin, Record
from switchmark.papers.experiment import Experiment
from switchmark.papers.library import library, read
from switchmark.papers.points import LEFT_OUT, OVERLOADED, UNABLE, Point
from switchmark.papers.published import published_points
from switchmark.report.judged import judged, measured
from switchmark.report.paper import ODDS, as_object, print_judged, print_summary

STORED = Path(__file__).parent / "data/records-schema-1.jsonl"
RECORD = Record.model_validate(json.loads(STORED.read_text())["record"])
TABLE2 = read("ara-2021/table2")


def record(engine: str, kpps: float, repeats: int = 3, **changes: object) -> Record:
    trial = RECORD.trials[0].model_copy(
        update={"rx_frames": int(kpps * 1000), "elapsed_ns": 10**9, "duplicated": 0}
    )
    test = RECORD.test.model_copy(update={"engine": engine, "search": "fixed"})
    doubts = changes.get("doubts", ())
    trials = (trial.model_copy(update={"doubts": doubts}),) * repeats
    fixed = {"test": test, "trials": trials, "doubts": (), "verdict": "switch"}
    return RECORD.model_copy(update={**fixed, **changes})


def made(**changes: object) -> Experiment:
    content = {
        "name": "ara-2021/made",
        "place": "figure 0",
        "summary": "something",
        "axes": ["switch", "frame-size"],
        "campaign": {"switch": ["linux-bridge", "lagopus"], "frame-size": [64, 1500]},
    }
    return Experiment.model_validate({**content, **changes})


def points(experiment: Experiment, **options: object) -> list[PlannedPoint]:
    return planned(experiment, check, {}, **options)  # type: ignore[arg-type]


# --- from a file to tests ----------------------------------------------------------------------


def test_a_switch_that_this_build_lacks_makes_points_that_wait() -> None:
    told = {each.point.name: (each.point.untold, each.test) for each in points(made())}
    assert list(told) == [
        "linux-bridge 64",
        "linux-bridge 1500",
        "lagopus 64",
        "lagopus 1500",
    ]
    assert told["linux-bridge 64"][0] == ""
    assert told["lagopus 64"] == ("waiting: switch lagopus is not known here", None)


@pytest.mark.parametrize(
    ("axes", "waits"),
    [
        ({"locality": "remote"}, "waiting: two hosts are needed (--hosts A,B)"),
        ({"engine": "pf-ring"}, "waiting: engine pf-ring is not known here"),
        ({"switch": "linux-bridge@1"}, "waiting: switch linux-bridge@1 is not known here"),
        ({"scenario": "p2p", "environment": "vmm"}, "waiting: environment vmm is not known here"),
    ],
)
def test_whatever_cannot_be_expressed_is_waited_for(axes: dict[str, object], waits: str) -> None:
    campaign = {"switch": "linux-bridge", "frame-size": 64, **axes}
    (only,) = points(made(campaign=campaign))
    assert (only.point.untold, only.test) == (waits, None)


def test_a_combination_that_is_refused_waits_with_its_reason() -> None:
    (only,) = points(made(campaign={"switch": "linux-bridge", "engine": "dpdk", "port": "memif"}))
    assert only.test is None
    assert "memif" in only.point.untold


def test_a_reason_of_several_lines_is_told_in_one() -> None:
    made_of = {"switch": "linux-bridge", "engine": "null"}
    (only,) = points(made(axes=["switch"], campaign=made_of))
    joined = f"{UNABLE}scenario v2v cannot join linux-bridge to netns with engine null; "
    assert only.point.untold.startswith(joined)
    assert "\n" not in only.point.untold


def test_a_quick_run_thins_axes_and_shortens_trials() -> None:
    quick = {"axes": {"duration": 0.5, "repeat": 3}, "keep": {"frame-size": 64}}
    fast = points(made(quick=quick), quick=True)
    assert [each.point.name for each in fast] == ["linux-bridge 64", "lagopus 64"]
    test = fast[0].test
    assert test is not None
    assert (test.duration, test.repeat, test.frame_size) == (0.5, 3, 64)


def test_what_a_quick_run_changes_is_so_where_a_block_names_it() -> None:
    blocks = [{"switch": "ovs-dpdk", "engine": "dpdk", "queues": 2}, {"switch": "linux-bridge"}]
    quick = {"axes": {"queues": 1, "duration": 0.5, "switch-cores": 1}}
    fast = points(made(axes=["switch"], campaign={"tests": blocks}, quick=quick), quick=True)
    told = [each.test and (each.test.queues, each.test.duration) for each in fast]
    assert told == [(1, 0.5), (1, 0.5)]
    assert [each.test and each.test.switch_cores for each in fast] == ["auto", "auto"]


def test_rates_are_relative_to_this_host_unless_they_are_wanted_as_published() -> None:
    campaign = {"switch": "linux-bridge", "rate": "1M..1M..3M"}
    swept = made(axes=["rate"], campaign=campaign, scale={"rate": ["50%", "100%"]})
    assert [each.point.name for each in points(swept)] == ["50%", "100%"]
    as_published = points(swept, as_published=True)
    assert [each.test and each.test.rate for each in as_published] == [
        "1M",
        "2M",
        "3M",
    ]


def test_axes_of_the_command_line_take_the_place_of_the_files() -> None:
    told = planned(made(), check, {"switch": "macvlan,ip-forward", "duration": "1"})
    assert {each.test.switch for each in told if each.test} == {"macvlan", "ip-forward"}
    assert {each.test.duration for each in told if each.test} == {1.0}


def test_blocks_of_a_campaign_have_their_own_axes() -> None:
    campaign = {
        "frame-size": 64,
        "tests": [{"switch": "ovs"}, {"switch": "lagopus", "engine": "netmap"}],
    }
    assert [each.point.name for each in points(made(campaign=campaign))] == ["ovs 64", "lagopus 64"]


def test_the_campaign_has_the_tests_that_can_be_run() -> None:
    campaign = campaign_of("made", points(made()))
    assert [(test.switch, test.frame_size) for test in campaign.tests] == [
        ("linux-bridge", 64),
        ("linux-bridge", 1500),
    ]


def test_table_2_of_ara_is_the_papers_tuple() -> None:
    tests = campaign_of("x", points(TABLE2)).tests
    assert {
        (t.dimension, t.locality, t.environment, t.pairs, t.switch, t.frame_size, t.rate, t.burst)
        for t in tests
    } == {("throughput", "local", "lxc", 1, "linux-bridge", 64, "1M", 64)}
    assert {(test.touch, test.duration) for test in tests} == {("full", 60)}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"axes": ["swich"]}, "there is no axis named 'swich'"),
        ({"claims": [{"id": "a", "says": "", "kind": "flat", "metric": "m", "along": "burst",
                      "among": {"pairs": 1}}]}, "'pairs' is none of the experiment's axes"),
        ({"same-runs-as": "ara-2021/table2"}, "either a campaign or same-runs-as"),
        ({"published": [{"at": {"switch": "other"}, "metric": "rx.mpps"}]}, "one of value, about"),
        ({"published": [{"at": {"burst": 1}, "metric": "rx.mpps", "value": 1}]}, "none of the"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_told(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        made(**changes)


def test_an_unknown_experiment_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="hint: switchmark paper ara-2021/table2"):
        read("ara-2021/tabel2")


def test_a_pattern_means_many_experiments() -> None:
    assert "ara-2021/table2" in library().matching("ara-2021/*")
    with pytest.raises(UsageError, match="there is no experiment named 'x/"):
        library().matching("x/*")
    with pytest.raises(UsageError, match="'ara-2021' is a paper of [0-9]+ experiments") as caught:
        library().matching("ara-2021")
    assert str(caught.value.hint).startswith("switchmark paper 'ara-2021/*', or ")
    known = caught.value.message.partition("known: ")[2].split(", ")
    assert known == library().matching("ara-2021/*")


# --- from records to answers -------------------------------------------------------------------


def results(*records: Record) -> list[tuple[Point, Record | None]]:
    by_engine = {each.test.engine: each for each in records}
    return [(each.point, by_engine.get(str(each.point.axes["engine"]))) for each in points(TABLE2)]


def verdicts(*records: Record) -> dict[str, str]:
    answers = judged(TABLE2, results(*records)).answers
    return {claim.id: answer.verdict for claim, answer in answers}


def test_claims_are_answered_from_records() -> None:
    told = verdicts(record("udp", 500), record("raw", 400), record("raw-mmsg", 1000))
    assert told == {
        "batched-raw-first": "cannot be told",
        "batches-help-udp": "cannot be told",
        "batches-help-raw": "holds",
        "raw-above-udp": "does not hold",
        "batches-above-bypass": "cannot be told",
    }


SPOILT = "doubts may be all that sets them apart (raw: {}): raw 400 against udp 500"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"doubts": ("cores-overcommitted",)}, SPOILT.format("cores-overcommitted")),
        ({"doubts": ("emulated",)}, SPOILT.format("emulated")),
        ({"doubts": ("not-equivalent",)}, SPOILT.format("not-equivalent")),
        ({"verdict": "host"}, SPOILT.format("the host was the limit")),
        ({"repeats": 2}, "fewer than 3 repeats: raw 400 against udp 500"),
        ({"status": "failed", "error": "it broke\nbadly"}, "failed: it broke"),
    ],
)
def test_a_record_that_is_no_ground_for_a_claim_says_why(
    changes: dict[str, object], words: str
) -> None:
    raw = record("raw", 400, **changes)  # type: ignore[arg-type]
    answers = judged(TABLE2, results(record("udp", 500), raw)).answers
    told = {claim.id: answer for claim, answer in answers}["raw-above-udp"]
    assert (told.verdict, told.why) == ("cannot be told", words)


def test_a_point_has_its_line_rate_and_the_hosts_cpus() -> None:
    test = RECORD.test.model_copy(update={"search": "fixed", "line_rate": "1Gbps", "pairs": 2})
    origin = Origin(run="r", host={"cores_usable": 4}, versions={})
    told = measured(Point({}), record("raw", 400, test=test, origin=origin), ["rx.kpps"])
    assert told.figures["line.gbps_l1"].value == pytest.approx(2)
    assert told.figures["host.cores"].value == 4
    assert told.figures["rx.kpps"].value == pytest.approx(400)


@pytest.mark.parametrize(
    ("axes", "lost", "untold"),
    [
        ({"dimension": "latency", "rate": "1M"}, 400, True),
        ({"dimension": "latency", "rate": "1M"}, 9, False),
        ({"dimension": "latency", "rate": "10%"}, 400, False),
        ({"dimension": "throughput", "rate": "1M"}, 400, False),
    ],
)
def test_a_latency_at_a_load_that_is_not_carried_is_none(
    axes: dict[str, object], lost: int, untold: bool
) -> None:
    over = record("raw", 400)
    trials = tuple(
        trial.model_copy(update={"tx_frames": 1000, "lost": lost, "tx_unsent": 0, "copies": 1})
        for trial in over.trials
    )
    test = over.test.model_copy(update={"search": "fixed", **axes})
    made_of = over.model_copy(update={"test": test, "trials": trials, "r_plus_pps": 1e6})
    told = measured(Point({}), made_of, ["rx.kpps"])
    assert told.untold == (f"{OVERLOADED}: 40 % was lost" if untold else "")
    assert bool(told.figures) == (not untold)


def test_a_point_has_what_a_bare_cable_carries() -> None:
    cable = Calibration(switch="direct", rate_pps=(1e6, 2e6, 3e6), sent_pps=2e6)
    test = RECORD.test.model_copy(update={"search": "fixed", "frame_size": 105})
    told = measured(Point({}), record("raw", 400, test=test, calibration=cable), ["rx.kpps"])
    figure = told.figures["cable.gbps_l1"]
    assert (figure.low, figure.value, figure.high) == pytest.approx((1, 2, 3))


def test_what_a_quick_run_leaves_out_is_no_point_but_a_reason() -> None:
    quick = {"keep": {"frame-size": 64}}
    members = {"greater": {"frame-size": 64}, "less": {"frame-size": 1500}}
    claim = {"id": "c", "says": "", "kind": "order", "metric": "rx.mpps", **members}
    experiment = made(quick=quick, claims=[{**claim, "among": {"switch": "linux-bridge"}}])
    apart = left_out(experiment, check, {})
    assert [point.name for point in apart] == ["linux-bridge 1500", "lagopus 1500"]
    assert {point.untold for point in apart} == {LEFT_OUT}
    told = [(each.point, None) for each in points(experiment, quick=True)]
    (answer,) = (answer for _, answer in judged(experiment, told, left_out=apart).answers)
    assert (answer.why, answer.left_out) == ("not run", 1)
    none = judged(experiment, [], left_out=apart).answers[0][1]
    assert none.why == "left out by --quick: all 1 of its points"


def test_needs_that_this_host_does_not_meet_leave_a_claim_open() -> None:
    order = TABLE2.claims[3].model_dump(by_alias=True) | {"needs": {"cores": 9}}
    experiment = TABLE2.model_copy(
        update={"claims": (type(TABLE2.claims[3]).model_validate(order),)}
    )
    told = judged(experiment, results(record("udp", 500), record("raw", 400)))
    assert told.answers[0][1].why == "needs 9 cores"


def test_a_claim_needs_only_of_its_own_points_what_it_needs() -> None:
    engines = {"udp": "1Gbps", "raw": "1Gbps", "raw-mmsg": None}
    made = [
        record(name, 400, test=RECORD.test.model_copy(update={"engine": name, "line_rate": line}))
        for name, line in engines.items()
    ]
    needs = {"needs": {"line-rate": True}}
    content = [claim.model_dump(by_alias=True) | needs for claim in TABLE2.claims]
    claims = tuple(type(TABLE2.claims[0]).model_validate(each) for each in content)
    answers = judged(TABLE2.model_copy(update={"claims": claims}), results(*made)).answers
    told = {claim.id: answer.why for claim, answer in answers}
    assert told["batches-help-raw"] == "needs a line rate (--line-rate 10Gbps)"
    assert "line rate" not in told["raw-above-udp"]


def test_a_metric_that_this_build_lacks_leaves_its_claims_open() -> None:
    told = measured(Point({}), record("raw", 400), ["cost.of_the_moon", "rx.kpps"])
    assert list(told.figures) == ["rx.kpps"]


def test_published_values_are_judged_by_the_same_code() -> None:
    published = published_points(TABLE2, [each.point for each in points(TABLE2)])
    assert {claim.judge(published).verdict for claim in TABLE2.claims} == {"holds"}


def test_ours_stands_beside_the_published() -> None:
    stream = io.StringIO()
    failed = record("raw", 1, status="failed")
    bound = record("raw-mmsg", 845, verdict="sender", doubts=("cpu-stolen",))
    result = judged(TABLE2, results(record("udp", 676), failed, bound))
    print_judged(result, stream)
    lines = stream.getvalue().splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines[4:9] if line}
    assert rows["udp"] == ["338", "676", "2"]
    assert rows["udp-mmsg"] == ["409", "-", "-"]
    assert rows["raw"] == ["360", "failed", "-"]
    assert rows["raw-mmsg"] == ["440", "!", ">=", "845", "1.92"]
    assert lines[-1] == "! based on figures that may be wrong"
    assert ODDS in " ".join(lines)
    assert all(len(line) <= 100 for line in lines)
    content = as_object(result)
    assert (content["points"], content["measured"]) == (4, 2)
    assert content["claims"][0]["answer"] == "cannot be told"


def test_what_a_shared_run_assumes_is_said_with_each_of_its_experiments() -> None:
    shared = read("bonafiglia-2015/fig5b")
    assert "chain" in shared.owner.assumed
    assert not shared.assumed
    stream = io.StringIO()
    print_judged(judged(shared, []), stream)
    assert f"assumed: chain: {shared.owner.assumed['chain'][:20]}" in stream.getvalue()


def test_many_experiments_end_in_one_table() -> None:
    stream = io.StringIO()
    first = judged(TABLE2, results(record("raw", 400), record("udp", 300)))
    other = replace(first, experiment=made(), answers=())
    print_summary([first, other], stream)
    lines = [line.split() for line in stream.getvalue().splitlines()]
    assert lines[1] == ["ara-2021/table2", "2", "of", "4", "1", "0", "4"]
    assert lines[2] == ["ara-2021/made", "2", "of", "4", "0", "0", "0"]


def test_a_claim_that_the_paper_contradicts_says_so() -> None:
    claims = tuple(
        claim.model_copy(update={"contradicted": "it is not so in table 9"})
        for claim in TABLE2.claims
    )
    stream = io.StringIO()
    result = judged(TABLE2.model_copy(update={"claims": claims}), results(record("udp", 300)))
    print_judged(result, stream)
    assert "contradicted by the paper's own values: it is not so" in stream.getvalue()


@pytest.mark.parametrize("text", ["[" * 200_000, "- " * 200_000 + "x", "{a: " * 200_000])
def test_a_file_that_is_nested_without_end_is_refused(text: str, tmp_path: Path) -> None:
    """PyYAML's loader in C would die of it, and the process with it."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "source.yaml").touch()
    (folder / "fig1.yaml").write_text(text)
    with pytest.raises(UsageError, match="more than 1000 lists and mappings in each other"):
        library(tmp_path).read("own/fig1")
