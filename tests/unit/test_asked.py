"""These tests hold runs that know their experiment: what they keep, and what every command that
reads runs says of it."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from checked import check
from recorded import FACTS, fresh
from switchmark import papers
from switchmark.campaign.asked import keep, kernel_options_of, paper_points, read_asked
from switchmark.campaign.experiments import PlannedPoint, planned
from switchmark.campaign.load import Campaign
from switchmark.campaign.store import RunFolder, read_records
from switchmark.cli.app import app
from switchmark.cli.judging import judged_run
from switchmark.errors import Exit, UsageError
from switchmark.model.record import TrialSpec
from switchmark.model.test import Test
from switchmark.papers.asked import digest
from switchmark.papers.library import library, names, read
from switchmark.papers.points import LEFT_OUT, Point
from switchmark.report.paper import as_object
from switchmark.report.schema import schema
from synthetic import SyntheticSwitch

pytestmark = pytest.mark.usefixtures("undrawn")

TABLE2 = "ara-2021/table2"


def made_run(
    parent: Path,
    name: str = "x",
    experiment: str = TABLE2,
    rates: Sequence[float] = (3e5, 4e5, 5e5, 6e5),
    *,
    without: int = 0,
    measured: bool = True,
    facts: dict[str, Any] | None = None,
    day: int = 22,
    version: str = "6.1.0",
) -> Path:
    """Make the folder of a quick run of an experiment, whose tests have these rates in turn. The
    last `without` tests wait."""
    of = read(experiment)
    points = planned(of, check, {}, quick=True)
    runnable = [each for each in points if each.test is not None]
    chosen = runnable[: len(runnable) - without]
    left = [
        PlannedPoint(Point(each.point.axes, untold="waiting for a wonder"), None)
        for each in runnable[len(chosen) :]
    ]
    tests = tuple(each.test for each in chosen if each.test is not None)
    campaign = Campaign("x", tests)
    with RunFolder.create(parent, campaign, FACTS if facts is None else facts, name) as folder:
        keep(
            folder.path,
            [(of, [*chosen, *left])],
            {"quick": True, "as_published": False, "axes": {}},
        )
        for number, test in enumerate(tests if measured else (), 1):
            switch = SyntheticSwitch(rates[(number - 1) % len(rates)], noise=0.001, seed=number)
            spec = TrialSpec(rate_pps=None, duration_s=1, warmup_s=0)
            trials = tuple(switch(spec) for _ in range(3))
            record = fresh(
                number,
                test=test,
                trials=trials,
                verdict="switch",
                switch_version=version,
                started=f"2026-11-{day}T01:02:03+0100",
            )
            folder.append_record(record, {"switchmark": "0.1.0"})
    return folder.path


def ran(*argv: object) -> int:
    """Run a command as a user does; return its exit status."""
    status: int = app([str(each) for each in argv], standalone_mode=False) or 0
    return status


def test_a_run_keeps_its_experiment_with_the_file_its_hash_and_the_options(tmp_path: Path) -> None:
    run = made_run(tmp_path, without=1)
    asked = read_asked(run)
    assert asked is not None
    assert asked.asked.experiments == (TABLE2,)
    assert asked.asked.quick
    assert set(asked.asked.files) == {f"{TABLE2}.yaml", "ara-2021/source.yaml"}
    (kept,) = asked.experiments
    assert kept.model_dump() == read(TABLE2).model_dump()
    assert kept.source == read(TABLE2).source
    (result,) = judged_run(run, read_records(run))
    assert [point.untold for point in result.points if point.untold] == ["waiting for a wonder"]


def test_a_shared_run_is_kept_with_the_experiment_that_owns_its_campaign(tmp_path: Path) -> None:
    run = made_run(tmp_path, experiment="ara-2021/fig4c")
    asked = read_asked(run)
    assert asked is not None
    (kept,) = asked.experiments
    assert "ara-2021/fig4b.yaml" in asked.asked.files
    assert kept.owner.model_dump() == read("ara-2021/fig4b").model_dump()
    assert kept.owner is not read("ara-2021/fig4b")


def test_another_file_than_that_of_the_run_is_refused(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    file = run / "experiment" / f"{TABLE2}.yaml"
    file.write_text(file.read_text().replace("raw sockets", "other sockets"))
    with pytest.raises(UsageError, match="not the file of the run") as raised:
        judged_run(run, read_records(run))
    assert "--from" in str(raised.value)
    file.unlink()
    file.symlink_to("/etc/hostname")
    with pytest.raises(UsageError, match="symbolic link"):
        judged_run(run, read_records(run))


@pytest.mark.parametrize("text", ["summary: [", "- 1", "[" * 100_000], ids=["cut", "list", "deep"])
def test_a_file_of_the_run_that_is_no_experiment_is_refused(tmp_path: Path, text: str) -> None:
    run = made_run(tmp_path)
    (run / "experiment" / f"{TABLE2}.yaml").write_text(text)
    content = json.loads((run / "experiment.json").read_text())
    content["files"][f"{TABLE2}.yaml"] = digest(text)
    (run / "experiment.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match="experiment/? cannot be read"):
        judged_run(run, read_records(run))


@pytest.mark.parametrize("text", ['{"schema": 9}', '{"schema": 1, "experiments": 3, "files": {}}'])
def test_an_invalid_file_is_told_with_the_wrong_member(tmp_path: Path, text: str) -> None:
    run = made_run(tmp_path)
    (run / "experiment.json").write_text(text)
    with pytest.raises(UsageError, match=r"experiment.json: not readable: (schema|experiments)"):
        read_asked(run)


def test_a_run_of_another_campaign_has_no_experiment(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, Campaign("x", (fresh().test,)), {}, "y") as folder:
        folder.append_record(fresh(), {})
    assert judged_run(folder.path, read_records(folder.path)) == []
    with pytest.raises(UsageError, match="does not know an experiment"):
        ran("paper", "--from", folder.path)
    with pytest.raises(UsageError, match="has no points of"):
        ran("paper", "--from", folder.path, "zhang-2021/fig10")


def test_a_stored_run_is_judged_and_drawn_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path)
    assert ran("paper", "--from", run, "-o", tmp_path / "again.html", "--json") == Exit.FINE
    content = json.loads(capsys.readouterr().out)
    Draft202012Validator(schema("paper")).validate(content)
    assert content["options"] == {"quick": True, "as_published": False, "axes": {}}
    assert content["measured"] == 4
    claim = content["claims"][0]
    assert claim["answer"] in ("holds", "does not hold")
    assert {each["value"] for each in claim["compared"]} == {
        row["value"] for row in content["values"]
    }
    assert "instead of" in " ".join(content["departures"])
    page = (tmp_path / "again.html").read_text()
    for words in ("What differs from the paper", "--quick", "@misc{ara-2021", "here ÷ published"):
        assert words in page
    assert ran("paper", "--from", run, TABLE2) == Exit.FINE
    assert "the paper's claims, here:" in capsys.readouterr().out


@pytest.mark.parametrize("option", [["--quick"], ["--switch", "ovs"], ["--as-published"]])
def test_from_takes_nothing_that_would_measure(tmp_path: Path, option: list[str]) -> None:
    with pytest.raises(UsageError, match="measures nothing"):
        ran("paper", "--from", made_run(tmp_path), *option)


def test_where_nothing_was_measured_the_command_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path, measured=False)
    assert ran("paper", "--from", run) == Exit.UNAVAILABLE
    assert "nothing could be measured" in capsys.readouterr().err
    assert ran("paper", "--from", made_run(tmp_path, "y", without=3)) == Exit.FINE
    # All its points wait for a second host.
    assert ran("paper", "ara-2021/fig4g", "--out", tmp_path / "runs") == Exit.UNAVAILABLE
    assert not (tmp_path / "runs").exists()


def test_the_report_of_the_run_has_its_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path)
    assert ran("report", run) == 0
    told = capsys.readouterr().out
    assert "the paper's claims, here:" in told
    assert "differs from the paper: duration" in told
    for suffix in (".html", ".md"):
        assert ran("report", run, "-o", tmp_path / f"r{suffix}") == 0
        text = (tmp_path / f"r{suffix}").read_text()
        assert read(TABLE2).claims[0].says in text


def test_claims_and_published_values_are_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path)
    outcome = as_object(judged_run(run, read_records(run))[0])
    assert ran("query", run, "select id, answer from claims", "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [{"id": c["id"], "answer": c["answer"]} for c in outcome["claims"]]
    sql = "select value, ratio, published->>'$[0].low' as low from figures"
    assert ran("query", run, sql, "--json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["value"] for row in rows] == [row["value"] for row in outcome["values"]]
    assert all(row["ratio"] == pytest.approx(row["value"] / float(row["low"])) for row in rows)
    assert ran("export", run, "--table", "claims", "-o", tmp_path / "c.csv") == 0
    assert len((tmp_path / "c.csv").read_text().splitlines()) == len(outcome["claims"]) + 1
    assert ran("export", run, "--table", "figures", "-o", tmp_path / "f.parquet") == 0
    assert ran("export", run, "--table", "figures", "-o", tmp_path / "f.tex") == 0
    latex = (tmp_path / "f.tex").read_text()
    assert "received (kpps), published & received (kpps), here & ratio" in latex
    assert "338 & " in latex


def test_the_bundle_has_the_claims_and_rebuilds_the_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path)
    for name in ("one", "two"):
        assert ran("bundle", run, "-o", tmp_path / f"{name}.tar.gz") == 0
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as archive:
        archive.extractall(tmp_path / "unpacked")
    copy = tmp_path / "unpacked" / "x"
    (outcome,) = json.loads((copy / "claims.json").read_text())
    assert outcome["experiment"] == TABLE2
    readme = (copy / "README.md").read_text()
    assert "switchmark paper --from ." in readme
    assert f"switchmark paper {TABLE2} --quick" in readme
    for folder in (run, copy):
        assert ran("paper", "--from", folder, "-o", folder / "figure.svg") == 0
    figure = (run / "figure.svg").read_text()
    assert figure == (copy / "figure.svg").read_text()
    assert figure in {path.read_text() for path in (copy / "figures").iterdir()}
    capsys.readouterr()


def test_compare_names_the_answers_that_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = made_run(tmp_path, "before")
    after = made_run(tmp_path, "after", rates=(6e5, 5e5, 4e5, 3e5))
    ran("compare", before, after, "--markdown", tmp_path / "c.md")
    told = capsys.readouterr().out
    assert "claims from before to after: " in told
    assert "holds, then does not hold" in told
    assert "holds, then does not hold" in (tmp_path / "c.md").read_text()
    ran("compare", before, before)
    assert "no answers changed" in capsys.readouterr().out


# --- many runs -------------------------------------------------------------------------------


def gallery_of(tmp_path: Path, *runs: Path, only: str = TABLE2) -> str:
    assert ran("gallery", *runs, "-o", tmp_path / "g.html", "--only", only) == 0
    return (tmp_path / "g.html").read_text()


def test_a_gallery_of_two_versions_keeps_both_and_says_which_claims_changed(
    tmp_path: Path,
) -> None:
    old = made_run(tmp_path, "old", version="6.0")
    new = made_run(tmp_path, "new", rates=(6e5, 5e5, 4e5, 3e5), version="6.1", day=23)
    page = gallery_of(tmp_path, new, old)
    assert "Claims by host, version and date" in page
    assert "<td class='words'>22 November 2026</td>" in page
    assert "<th scope='col'>claim</th><th scope='col'>A</th><th scope='col'>B</th>" in page
    assert "<h3>From A to B</h3>" in page
    assert "switch linux-bridge: 6.0, then 6.1" in page
    assert "holds, then does not hold" in page
    assert page.index("<td class='words'>old</td>") < page.index("<td class='words'>new</td>")


def test_runs_of_two_hosts_are_columns_and_no_change_is_told_between_them(tmp_path: Path) -> None:
    here = made_run(tmp_path, "here")
    there = made_run(tmp_path, "there", facts={**FACTS, "cpu_model": "another"}, day=23)
    page = gallery_of(tmp_path, here, there)
    rows = re.findall(
        r"<td>([AB])</td><td class='words'>\w+</td><td class='words'>([^<]+)</td>", page
    )
    assert rows == [("A", "a_cpu, 2 CPUs"), ("B", "another, 2 CPUs")]
    assert "From A to B" not in page


def test_a_change_is_told_since_the_last_run_of_the_same_experiment(tmp_path: Path) -> None:
    runs = [
        made_run(tmp_path, f"r{day}", experiment, rates, facts={**FACTS, "kernel": kernel}, day=day)
        for day, experiment, rates, kernel in (
            (21, "zhang-2021/fig4", (3e5, 4e5, 5e5, 6e5), "6.1"),  # switches that no other run has
            (22, TABLE2, (3e5, 4e5, 5e5, 6e5), "6.1"),
            (23, "ara-2021/fig4b", (3e5, 4e5, 5e5, 6e5), "6.2"),
            (24, TABLE2, (6e5, 5e5, 4e5, 3e5), "6.3"),
        )
    ]
    page = gallery_of(tmp_path, *runs, only="ara-2021/*")
    assert re.findall(r"<h3>(From .+?)</h3><p>(.+?)</p>", page) == [
        ("From A to C", "kernel: 6.1, then 6.3.")
    ]


def test_a_run_with_some_of_the_tests_is_shown_only_where_no_run_was_made_for_an_experiment(
    tmp_path: Path,
) -> None:
    made = made_run(tmp_path, "made")
    other = made_run(tmp_path, "other", facts={**FACTS, "kernel": "6.2"}, day=23)
    (other / "experiment.json").unlink()
    assert "4 of 4 points measured here." in gallery_of(tmp_path, other)
    page = gallery_of(tmp_path, made, other)
    assert "4 of 4 points measured here." in page
    assert "points measured in B" not in page


def test_an_experiment_that_shares_the_runs_of_another_one_was_asked_for_with_it(
    tmp_path: Path,
) -> None:
    run = made_run(tmp_path, "x", experiment="ara-2021/fig4b")
    page = gallery_of(tmp_path, run, only="ara-2021/fig4c")
    assert "Command: switchmark paper ara-2021/fig4c --quick." in page


def test_three_runs_of_one_host_are_judged_together(tmp_path: Path) -> None:
    runs = [made_run(tmp_path, f"r{day}", day=day) for day in (22, 23, 24)]
    assert "r22, r23, r24 (3 repeats, judged together)" in gallery_of(tmp_path, *runs)
    assert "judged together" not in gallery_of(tmp_path, *runs[:2])


def test_runs_of_other_experiments_of_one_host_are_one_column(tmp_path: Path) -> None:
    one = made_run(tmp_path, "one")
    other = made_run(tmp_path, "other", experiment="ara-2021/fig4b")
    page = gallery_of(tmp_path, one, other)
    assert "<td class='words'>one, other</td>" in page
    assert "Claims by host" not in page


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ({}, True),
        ({"facts": {**FACTS, "cpu_model": "another"}}, False),
        ({"version": "7.0"}, False),
        ({"facts": {**FACTS, "kernel": "6.2"}}, False),
    ],
)
def test_runs_of_another_host_or_version_do_not_share_a_column(
    changes: dict[str, Any], shared: bool, tmp_path: Path
) -> None:
    one = made_run(tmp_path, "one", experiment="ara-2021/fig4b")
    other = made_run(tmp_path, "other", experiment="zhang-2021/fig4", **changes)
    page = gallery_of(tmp_path, one, other, only="ara-2021/fig4b")
    assert ("<td class='words'>one, other</td>" in page) is shared


# --- experiments from outside of the package ---------------------------------------------------


def own_experiment(tmp_path: Path) -> Path:
    """Make a folder with a copy of an experiment, which has a CSV file and shares its runs with
    another."""
    kept = Path(papers.__file__).parent / "ara-2021"
    folder = tmp_path / "mine/my-table"
    folder.mkdir(parents=True)
    shutil.copy(kept / "source.yaml", folder)
    text = (kept / "table2.yaml").read_text()
    (folder / "table2.yaml").write_text(f"{text}data: [read.csv]\n")
    (folder / "read.csv").write_text("engine,rx.kpps,rx.kpps error\nudp,300,5\n")
    (folder / "again.yaml").write_text(
        "place: table 2\nsummary: s\naxes: [engine]\nsame-runs-as: table2\n"
    )
    return tmp_path / "mine"


def test_a_run_of_ones_own_experiment_is_judged_and_drawn_without_its_folder(
    tmp_path: Path,
) -> None:
    mine = own_experiment(tmp_path)
    data = tmp_path / "values of b.csv"
    data.write_text("engine,rx.kpps\nraw,999\n")
    found = library(mine)
    chosen = [found.read("my-table/table2"), found.read("my-table/again")]
    points = planned(chosen[0], check, {}, quick=True)
    tests = tuple(each.test for each in points if each.test is not None)
    options = {"quick": True, "as_published": False, "axes": {}, "cores": 2}
    with RunFolder.create(tmp_path, Campaign("x", tests), FACTS, "x") as folder:
        keep(folder.path, [(each, points) for each in chosen], options, {}, [data])
    shutil.rmtree(mine)
    data.unlink()
    asked = read_asked(folder.path)
    assert asked is not None
    kept = {"table2.yaml", "again.yaml", "source.yaml", "read.csv"}
    assert {*asked.asked.files} == {f"my-table/{name}" for name in kept} | {*asked.asked.data}
    assert asked.asked.data == ("data/0-values of b.csv",)
    table, again = asked.experiments
    assert again.owner.name == "my-table/table2"
    assert again.owner.source == table.source == chosen[0].source
    assert [str(row) for row in table.published[-2:]] == ["300 ± 5", "999"]
    assert [str(row) for row in again.published] == ["999"]
    (folder.path / "experiment/my-table/read.csv").write_text("engine,rx.kpps\nudp,301\n")
    with pytest.raises(UsageError, match="not the file of the run"):
        _ = read_asked(folder.path).experiments  # type: ignore[union-attr]


def test_values_of_another_run_are_told_from_those_of_the_paper(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = made_run(tmp_path, "a"), made_run(tmp_path, "b", rates=(2e5, 3e5, 4e5, 5e5))
    assert ran("paper", "--from", one, "-o", tmp_path / "a-drawn") == Exit.FINE
    data = tmp_path / "a-drawn/values.csv"
    capsys.readouterr()
    assert ran("paper", TABLE2, "--from", other, "--data", data) == Exit.FINE
    lines = capsys.readouterr().out.splitlines()
    (udp,) = (line for line in lines if line.strip().startswith("udp "))
    found = re.search(r"338; ([\d.]+) \(another run\) +([\d.]+) +([\d.]+)$", udp)
    assert found, udp
    before, here, ratio = map(float, found.groups())
    assert before > 1.3 * here
    assert ratio == pytest.approx(here / 338, rel=0.01)  # to the paper's value
    with pytest.raises(UsageError, match="--data is about one experiment, and none is named"):
        ran("paper", "--from", other, "--data", data)


def test_a_stored_quick_run_says_what_it_left_out(tmp_path: Path) -> None:
    name = "ara-2021/fig4b"
    run = made_run(tmp_path, experiment=name)
    (result,) = judged_run(run, read_records(run))
    left = [answer.why for _, answer in result.answers if answer.left_out]
    assert any("left out" in why for why in left), left
    (other,) = judged_run(run, read_records(run), [read(name)])
    absent = {point.untold for point in other.points if point.untold}
    assert LEFT_OUT in absent


def test_a_run_is_judged_for_as_many_cpus_as_it_was_planned_for(tmp_path: Path) -> None:
    of = read("bonafiglia-2015/fig7")
    options = {"quick": False, "as_published": False, "axes": {}, "cores": 64}
    points = planned(of, check, {}, cores=64)
    tests = tuple(each.test for each in points if each.test is not None)
    with RunFolder.create(tmp_path, Campaign("x", tests), FACTS, "x") as folder:
        keep(folder.path, [(of, points)], options)
    asked = read_asked(folder.path)
    assert asked is not None
    told = [point.name for point, _ in asked.points_of(asked.experiments[0], [])]
    assert told == [each.point.name for each in points]
    assert len(told) > len(planned(of, check, {}, cores=2))


def test_a_test_on_another_host_has_the_facts_of_that_host(tmp_path: Path) -> None:
    there = {**FACTS, "cores_usable": 6, "cpu_model": "another"}
    facts = {**FACTS, "hosts": {"m": there}}
    cases = {None: FACTS, "m": there, "m,n": there}
    tests = [
        Test.model_validate({"hosts": hosts, "locality": "remote" if hosts == "m,n" else "local"})
        for hosts in cases
    ]
    with RunFolder.create(tmp_path, Campaign("x", tuple(tests)), facts, "x") as folder:
        for number, test in enumerate(tests, 1):
            folder.append_record(fresh(number, test=test), {})
    origins = [record.origin for record in read_records(folder.path)]
    assert [origin and origin.host["cpu_model"] for origin in origins] == [
        case["cpu_model"] for case in cases.values()
    ]
    assert [origin and origin.host["cores_usable"] for origin in origins] == [
        case["cores_usable"] for case in cases.values()
    ]


@pytest.mark.parametrize(
    ("hosts", "options"),
    [
        ([None], {"CONFIG_RPS"}),
        (["a,b"], {"CONFIG_VETH"}),
        (["a,b", None], None),
        (["a,c"], None),
        ([], {"CONFIG_RPS"}),
    ],
)
def test_the_options_of_a_kernel_are_those_of_the_hosts_that_measured(
    hosts: Sequence[str | None], options: set[str] | None, tmp_path: Path
) -> None:
    by_host = {name: {"kernel_options": ["CONFIG_VETH"]} for name in "ab"}
    facts = {"kernel_options": ["CONFIG_RPS"], "hosts": {**by_host, "c": {"kernel_options": None}}}
    tests = [Test() if name is None else Test(locality="remote", hosts=name) for name in hosts]
    with RunFolder.create(tmp_path, Campaign("x", tuple(tests) or (Test(),)), facts, "x") as folder:
        records = [fresh(number, test=test) for number, test in enumerate(tests, 1)]
    assert kernel_options_of(folder.path, records) == options


def test_points_are_those_of_the_papers_rates_and_of_rates_of_the_host() -> None:
    scaled = next(one for one in map(read, names()) if one.owner.scale and one.axes)
    as_published, of_host = (
        [entry.point.axes for entry in planned(scaled, lambda test: (), {}, **way)]
        for way in ({"as_published": True}, {"cores": None})
    )
    assert as_published != of_host
    assert [point.axes for point in paper_points(scaled)] == as_published + of_host
