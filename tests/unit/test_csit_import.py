"""Files of FD.io CSIT become records: documents that this program wrote, and such as CSIT's model
describes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from recorded import fresh, stored_lines_run, stored_run
from switchmark.campaign.store import read_records
from switchmark.errors import UsageError
from switchmark.metrics.throughput import rates_pps
from switchmark.model.record import Record
from switchmark.model.search import Goal, SearchResult
from switchmark.model.test import Test
from switchmark.report.csit import as_csit, document, file_name
from switchmark.report.csit_import import is_csit, records_of
from switchmark.standards.judging import judge
from switchmark.standards.standard import read

Cli = Any


def foreign(**members: Any) -> dict[str, Any]:
    """Return a document as CSIT's model describes it, for a test with VPP and TRex."""
    return {
        "duration": 61.5,
        "dut_type": "VPP",
        "dut_version": "24.02-release",
        "end_time": "2024-03-01T10:02:00.0Z",
        "hosts": ["10.0.0.1", "10.0.0.2"],
        "telemetry": ['calls{name="ip4-lookup",state="active"} 9 1709287200.000'],
        "message": "",
        "passed": True,
        "result": {"type": "unknown"},
        "start_time": "2024-03-01T10:01:00.0Z",
        "tags": ["NDRPDR", "64B", "2T1C"],
        "test_documentation": "",
        "test_id": "tests.vpp.perf.l2.10ge2p1x710-eth-l2xcbase-ndrpdr.64b-2t1c-eth-l2xcbase-ndrpdr",
        "test_name_long": "10ge2p1x710-64b-2t1c-eth-l2xcbase-ndrpdr",
        "test_name_short": "eth-l2xcbase",
        "test_type": "ndrpdr",
        "tg_type": "TREX",
        "tg_version": "3.03",
        "version": "1.5.1",
        **members,
    }


def rate(value: float) -> dict[str, Any]:
    return {"rate": {"value": value, "unit": "pps"}, "bandwidth": {"value": 1.0, "unit": "bps"}}


SEARCHED = foreign(
    result={"type": "ndrpdr", "ndr": {"lower": rate(2e7)}, "pdr": {"lower": rate(2.2e7)}}
)
SATURATED = foreign(
    test_type="mrr",
    test_name_long="10ge2p1x710-64b-2t1c-eth-l2xcbase-mrr",
    result={
        "type": "mrr",
        "receive_rate": {
            "rate": {"values": [2.3e7, 2.4e7, 2.5e7], "avg": 2.4e7, "stdev": 8e5, "unit": "pps"}
        },
    },
)


def written(folder: Path, *documents: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(documents):
        (folder / f"{number}.info.json").write_text(json.dumps(content))
    return folder


# --- documents of this program -------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    return read_records(stored_lines_run(tmp_path_factory.mktemp("stored")))


def again(records: list[Record], folder: Path) -> list[Record]:
    """Return records that were exported and imported."""
    folder.mkdir()
    for record in records:
        (folder / file_name(record)).write_text(document(as_csit(record, records)))
    return records_of(folder)


def test_an_export_and_its_import_have_the_same_values(
    stored: list[Record], tmp_path: Path
) -> None:
    imported = again(stored, tmp_path / "csit")
    assert len(imported) == len(stored) > 3
    for one, back in zip(stored, imported, strict=True):
        assert back.test == one.test
        assert rates_pps(back) == rates_pps(one)
        for name in ("status", "error", "semantics", "port", "verdict", "doubts"):
            assert getattr(back, name) == getattr(one, name), name
        goals = one.search.goals if one.search else ()
        assert [
            (goal.goal, goal.rate_pps, goal.low_pps, goal.high_pps, goal.loss_ratio)
            for goal in (back.search.goals if back.search else ())
        ] == [
            (goal.goal, goal.rate_pps, goal.low_pps, goal.high_pps, goal.loss_ratio)
            for goal in goals
        ]


def test_goals_keep_their_attributes_and_latencies(tmp_path: Path) -> None:

    latency = {"kind": "one-way", "count": 9, "min": 1, "mean": 2.25, "p50": 2, "max": 5}
    goal = Goal.model_validate(
        {
            "goal": "ndr",
            "loss_ratio": 0.0,
            "rate_pps": 1e6 / 3,
            "low_pps": 1e6 / 3,
            "regular": True,
            "conditional_pps": 1e6 / 7,
            "width": 0.005,
            "latency_ns": latency,
        }
    )
    found = SearchResult(
        name="mlr:csit", trials=9, goals=(goal, goal.model_copy(update={"goal": "pdr"}))
    )
    (back,) = again(
        [fresh(1, test=Test(search="mlr:csit", frame_size="imix"), search=found)], tmp_path / "a"
    )
    assert back.search is not None
    first = back.search.goals[0]
    assert (first.rate_pps, first.conditional_pps, first.width) == (1e6 / 3, 1e6 / 7, 0.005)
    assert first.regular is True
    assert first.latency_ns is not None
    assert (first.latency_ns.p50, first.latency_ns.mean) == (2, 2.25)
    assert back.test.frame_size == "imix"


# --- documents of CSIT ---------------------------------------------------------------------------


def test_a_search_of_csit_has_its_rates_by_sender(tmp_path: Path) -> None:
    (record,) = records_of(written(tmp_path / "a", SEARCHED))
    assert record.search is not None
    assert record.imported is not None
    assert [(goal.goal, goal.rate_pps, goal.conditional_pps) for goal in record.search.goals] == [
        ("ndr", 1e7, 1e7),
        ("pdr", 1.1e7, 1.1e7),
    ]
    test = record.test
    assert (test.switch, test.engine, test.scenario, test.direction) == ("vpp", "trex", "p2p", "bi")
    assert (test.frame_size, test.switch_cores, test.search) == (64, 1, "mlr:csit")
    assert record.switch_version == "24.02-release"
    assert record.imported.measured_by == "TREX 3.03"
    assert "duration" not in record.imported.axes
    assert record.trials == ()


def test_one_latency_is_of_a_test_in_one_direction(tmp_path: Path) -> None:
    content = {**SEARCHED["result"], "latency_forward": {}}
    (record,) = records_of(written(tmp_path / "a", foreign(result=content)))
    assert record.search is not None
    assert (record.test.direction, record.search.goals[0].rate_pps) == ("uni", 2e7)


def test_rates_at_full_load_are_those_of_trials(tmp_path: Path) -> None:
    (record,) = records_of(written(tmp_path / "a", SATURATED))
    assert rates_pps(record) == [2.3e7, 2.4e7, 2.5e7]
    assert (record.test.search, record.test.rate, record.test.repeat) == ("fixed", "max", 3)


@pytest.mark.parametrize(
    ("name", "size"),
    [("10ge2p1x710-imix-4t2c-eth-ip4base", "imix:csit"), ("x-9000b-1c-eth-l2bd", 9000)],
)
def test_the_mix_of_csit_is_named(name: str, size: object, tmp_path: Path) -> None:
    (record,) = records_of(written(tmp_path / "a", {**SEARCHED, "test_name_long": name}))
    assert record.test.frame_size == size


def test_a_failed_test_keeps_its_message(tmp_path: Path) -> None:
    content = foreign(passed=False, message="Traffic generator did not start")
    (record,) = records_of(written(tmp_path / "a", content))
    assert (record.status, record.error) == ("failed", "Traffic generator did not start")


def test_a_compressed_document_is_read(tmp_path: Path) -> None:
    path = tmp_path / "one.info.json.gz"
    path.write_bytes(gzip.compress(json.dumps(SATURATED).encode()))
    assert is_csit(path)
    assert len(records_of(path)) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "no document of CSIT"),
        ("[]", "no document of CSIT"),
        (json.dumps(foreign(version="2.0.0")), "version 2.0.0 of CSIT's model"),
        (json.dumps({**SATURATED, "hosts": None}), "hosts"),
        (json.dumps(foreign(result={"type": "mrr", "receive_rate": {}})), "receive_rate"),
    ],
)
def test_another_file_is_refused_with_its_name(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.info.json"
    path.write_text(text)
    with pytest.raises(UsageError) as refusal:
        records_of(path)
    assert str(path) in refusal.value.message
    assert reason in refusal.value.message


# --- commands ------------------------------------------------------------------------------------


def test_report_shows_the_rates_of_csit(cli: Cli, tmp_path: Path) -> None:
    folder = written(tmp_path / "csit", SATURATED, SEARCHED)
    status, out, _ = cli("report", folder, "--explain")
    assert status == 0
    assert "24 Mpps" in out
    assert "10 Mpps" in out
    assert "CSIT: measured by TREX 3.03; its file has no counts of frames" in out
    assert "CSIT, pdr: CSIT gives the conditional throughput" in " ".join(out.split())
    for default in ("netns", "No figure", "a trial of"):
        assert default not in out
    assert cli("report", folder, "-o", "page.html")[0] == 0
    assert cli("report", folder / "0.info.json", "--json")[0] == 0


def test_figures_with_another_definition_are_not_compared(cli: Cli, tmp_path: Path) -> None:

    goals = tuple(
        Goal(goal=name, loss_ratio=0, rate_pps=9e6, low_pps=9e6) for name in ("ndr", "pdr")
    )
    test = records_of(written(tmp_path / "csit", SEARCHED))[0].test
    own = fresh(1, test=test, search=SearchResult(name="mlr:csit", trials=9, goals=goals))
    run = stored_run(tmp_path / "own", [own])
    status, _, err = cli("compare", run, tmp_path / "csit")
    assert status == 2
    assert "no figures can be compared" in err
    assert "conditional throughput" in err


def test_rates_at_full_load_are_compared(cli: Cli, tmp_path: Path) -> None:

    folder = written(tmp_path / "csit", SATURATED, SEARCHED)
    saturated, searched = records_of(folder)
    goals = tuple(
        Goal(goal=name, loss_ratio=0, rate_pps=9e6, low_pps=9e6) for name in ("ndr", "pdr")
    )
    found = SearchResult(name="mlr:csit", trials=9, goals=goals)
    tests = [fresh(1, test=saturated.test), fresh(2, test=searched.test, search=found)]
    status, out, err = cli("compare", stored_run(tmp_path / "own", tests), folder)
    assert status == 0
    assert "24 Mpps" in out
    assert err.count("not compared: vpp, 64 bytes, ndr: CSIT gives the conditional") == 1


def test_clauses_that_a_file_does_not_tell_stay_open(cli: Cli, tmp_path: Path) -> None:
    records = records_of(written(tmp_path / "csit", SEARCHED))
    (judgement,) = judge(read("mlrsearch"), records)
    found = {answer.clause.id: answer for answer in judgement.answers}
    assert found["4.5.7"].word == "met"
    assert found["4.8.2"].word == "deviates"
    assert (found["4.5.1"].word, found["4.5.1"].why) == (
        "not tested",
        "the file of CSIT does not show it",
    )
    assert found["4.9.3a"].word == "not tested"
    (judgement,) = judge(read("rfc2544"), records_of(written(tmp_path / "mrr", SATURATED)))
    assert not [a for a in judgement.answers if a.word == "met" and not a.clause.search]
    assert cli("conform", "mlrsearch", tmp_path / "csit")[0] == 1
