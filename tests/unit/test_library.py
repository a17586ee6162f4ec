"""These tests find experiments outside the package: in a folder, by a path, and of a plug-in; and
read values from CSV files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from switchmark.cli.experiment_checks import check_experiment
from switchmark.errors import UsageError
from switchmark.papers import library as rooms
from switchmark.papers.library import Library, folders_of, library, located
from switchmark.papers.overlay import VALUES, overlay_of, read_overlay

OWN = Path(rooms.__file__).parent

SOURCE = """
authors: somebody
title: something
year: 2020
venue: somewhere
bed: a host
"""
ONE = """
place: figure 1
summary: what a bridge gets through
axes: [switch, frame-size]
campaign: {switch: [linux-bridge, ovs], frame-size: [64, 1500], repeat: 3}
data: [read.csv]
figures: [{kind: lines, x: frame-size, y: rx.mpps, by: [switch]}]
claims:
  - id: falls
    says: it falls
    kind: monotone
    metric: rx.mpps
    along: frame-size
    sense: falls
"""
READ = "switch,frame-size,rx.mpps,rx.mpps error\nlinux-bridge,64,0.5,0.05\novs,,0.2,\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    paper = tmp_path / "mine" / "paper-2020"
    paper.mkdir(parents=True)
    (paper / "source.yaml").write_text(SOURCE)
    (paper / "fig1.yaml").write_text(ONE)
    (paper / "fig2.yaml").write_text("place: figure 2\nsummary: s\naxes: [switch]\n"
                                     "same-runs-as: fig1\n")  # fmt: skip
    (paper / "read.csv").write_text(READ)
    return tmp_path / "mine"


@pytest.fixture
def points_to(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    found: list[EntryPoint] = []
    monkeypatch.setattr(rooms, "entry_points", lambda group: [e for e in found if e.group == group])
    library.cache_clear()
    yield found
    library.cache_clear()


def test_a_folder_of_ones_own_stands_beside_the_package(folder: Path) -> None:
    both = Library([folder])
    assert "ara-2021/table2" in both.names
    experiment = both.read("paper-2020/fig1")
    assert experiment.source.authors == "somebody"
    assert experiment.file == folder / "paper-2020/fig1.yaml"
    assert both.read("paper-2020/fig2").owner is experiment
    assert [str(row) for row in experiment.published] == ["0.5 ± 0.05", "0.2"]
    assert {row.origin for row in experiment.published} == {"digitised"}


@pytest.mark.parametrize("path", ["paper-2020/fig1.yaml", "paper-2020/fig1"])
def test_a_path_names_an_experiment(folder: Path, path: str) -> None:
    found, names = located(str(folder / path))
    assert names == ["paper-2020/fig1"]
    assert found.read(names[0]).summary == "what a bridge gets through"


@pytest.mark.parametrize("path", ["mine/paper-2020/fig1", "./mine/paper-2020/fig1"])
def test_a_path_from_the_present_folder_names_an_experiment(
    folder: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    assert located(path)[1] == ["paper-2020/fig1"]
    monkeypatch.chdir(folder)
    assert located(".")[1] == ["paper-2020/fig1", "paper-2020/fig2"]


@pytest.mark.parametrize("path", ["", "paper-2020"])
def test_a_path_names_the_experiments_of_a_folder(folder: Path, path: str) -> None:
    found, names = located(str(folder / path))
    assert names == ["paper-2020/fig1", "paper-2020/fig2"]
    assert found.read("paper-2020/fig1").axes == ("switch", "frame-size")


def test_a_name_is_looked_for_in_folders_too(folder: Path) -> None:
    assert located("paper-2020/*", [folder])[1] == ["paper-2020/fig1", "paper-2020/fig2"]
    with pytest.raises(UsageError, match="there is no experiment named 'paper-2020/fig1'"):
        located("paper-2020/fig1")


def test_a_path_without_experiments_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no experiment at"):
        located(str(tmp_path / "x"))
    with pytest.raises(UsageError, match="there is no experiment at"):
        located(str(tmp_path))
    with pytest.raises(UsageError, match="is no folder of experiments"):
        folders_of([tmp_path])


def test_one_name_is_of_one_experiment(folder: Path) -> None:
    shutil.copytree(folder / "paper-2020", folder / "ara-2021")
    (folder / "ara-2021/fig1.yaml").rename(folder / "ara-2021/fig4a.yaml")
    with pytest.raises(UsageError, match="two experiments named 'ara-2021/fig4a'") as caught:
        Library([folder])
    assert caught.value.hint == "rename the folder ara-2021"


def test_a_text_of_the_package_may_stand_outside(tmp_path: Path) -> None:
    shutil.copytree(OWN / "bonafiglia-2015", tmp_path / "chains-moved")
    found, names = located(str(tmp_path))
    inside = [name for name in library().names if name.startswith("bonafiglia-2015/")]
    assert [name.partition("/")[2] for name in names] == [n.partition("/")[2] for n in inside]
    for name, own in zip(names, inside, strict=True):
        moved, kept = found.read(name), library().read(own)
        same = {"name", "same_runs_as"}
        assert moved.model_dump(exclude=same) == kept.model_dump(exclude=same)
        assert moved.owner.paper == "chains-moved"


def test_the_experiments_outside_of_the_package_agree_with_themselves() -> None:
    found, names = located(str(Path(__file__).parents[2] / "experiments"))
    assert names
    for name in names:
        check_experiment(found.read(name))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("axes: [", "cannot be read"),
        ("3", "no members of an experiment"),
        (
            ONE.replace("summary: ", "abstract: "),
            "summary: Field required\n.*abstract: Extra inputs",
        ),
        (ONE.replace("kind: monotone", "kind: argmax"), "claims.0: Input tag 'argmax'"),
        (ONE.replace("axes: [switch", "axes: [swich"), "there is no axis named 'swich'"),
    ],
)
def test_a_file_with_mistakes_is_refused_with_all_of_them(
    folder: Path, text: str, words: str
) -> None:
    (folder / "paper-2020/fig1.yaml").write_text(text)
    with pytest.raises(UsageError, match=f"(?s)fig1.yaml.*{words}"):
        Library([folder]).read("paper-2020/fig1")


def test_a_name_that_is_none_is_refused(folder: Path) -> None:
    (folder / "paper-2020/fig 3.yaml").write_text(ONE)
    with pytest.raises(UsageError, match="'fig 3' is no name of an experiment"):
        Library([folder])


def test_a_package_offers_a_folder(folder: Path, points_to: list[EntryPoint]) -> None:
    points_to.append(EntryPoint("mine", "mine:FOLDER", rooms.ENTRY_POINTS))
    assert "paper-2020/fig1" not in library().names
    assert "No module named 'mine'" in library().unusable["mine"]
    library.cache_clear()

    class Offered(EntryPoint):
        def load(self) -> str:
            return str(folder)

    points_to[:] = [Offered("mine", "mine:FOLDER", rooms.ENTRY_POINTS)]
    assert "paper-2020/fig1" in library().names
    assert not library().unusable


def test_a_package_without_a_folder_is_named_where_a_name_is_missed(
    points_to: list[EntryPoint],
) -> None:
    points_to.append(EntryPoint("mine", "os:sep_", rooms.ENTRY_POINTS))
    with pytest.raises(UsageError, match="mine: the plug-in os:sep_ gives no folder"):
        library().matching("paper-2020/fig1")


# --- CSV -------------------------------------------------------------------------------------


def csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "x.csv"
    path.write_text(text)
    return path


def test_a_line_names_a_metric_or_has_its_column(tmp_path: Path) -> None:
    text = (
        "switch,frame_size,metric,value,error,low,high,place,uncertain,origin\n"
        "ovs,64,rx.mpps,1.5,0.1,,,figure 3,,authors\n"
        "vpp,,rx.mpps,,,1,2,,by eye,\n"
        "vpp,64,latency.p99.9_us,,,3,,,,\n"
    )
    rows = read_overlay(csv(tmp_path, text), ["switch", "frame-size"])
    assert [(row.at, str(row), row.origin) for row in rows] == [
        ({"switch": "ovs", "frame-size": "64"}, "1.5 ± 0.1", "authors"),
        ({"switch": "vpp"}, "1 to 2", "digitised"),
        ({"switch": "vpp", "frame-size": "64"}, ">= 3", "digitised"),
    ]
    assert (rows[0].place, rows[1].uncertain) == ("figure 3", "by eye")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no column of a metric"),
        ("switch\novs\n", "no column of a metric"),
        ("swich,rx.mpps\novs,1\n", "the column 'swich' is no axis"),
        ("switch,rx.mps\novs,1\n", "the column 'rx.mps' is no axis"),
        ("switch,rx.mpps\novs,fast\n", "line 2: rx.mpps is 'fast', which is no number"),
        ("switch,rx.mpps\novs,nan\n", "line 2: rx.mpps is 'nan'"),
        ("switch,rx.mpps\novs,1,2\n", "line 2: 2 cells are needed"),
        ("switch,rx.mpps\novs\n", "line 2: 2 cells are needed"),
        ("metric,value\nrx.mps,1\n", "there is no metric named 'rx.mps'"),
        ("metric,value\nrx.mpps,\n", "neither a value nor a bound"),
        ("metric,value,low\nrx.mpps,1,1\n", "a value has an error, or there are low and high"),
        ("rx.mpps,origin\n1,guessed\n", "line 2: Input should be 'text'"),
        ('"rx.mpps\n', "line"),
    ],
)
def test_a_csv_file_with_a_mistake_is_refused_with_its_line(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        read_overlay(csv(tmp_path, text), ["switch"])


def test_a_csv_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_overlay(tmp_path / "x.csv", ["switch"])


OF_RUN = """\
p/a,switch=ovs noise=None rate=switch:10%,rx.mpps,Mpps,2,,1.5,1.25,1.75,false,0.7,
p/a,switch=vpp noise=web rate=max,rx.mpps,Mpps,,,2,1.5,2.5,true,,"a, b"
p/a,switch=bess noise=web rate=max,rx.mpps,Mpps,,,3,,,false,,
p/a,switch=snabb noise=None rate=max,rx.mpps,Mpps,3,,,,,false,,
p/b,switch=t4p4s noise=None rate=max,rx.mpps,Mpps,3,,1,1,1,false,,
"""


def test_the_values_of_a_run_stand_next_to_those_of_another() -> None:
    axes = ["switch", "noise", "rate"]
    rows = overlay_of("values.csv", f"{','.join(VALUES)}\n{OF_RUN}", axes, "p/a")
    assert [(row.at["switch"], row.ends, row.origin) for row in rows] == [
        ("ovs", (1.25, 1.75), "own"),
        ("vpp", (1.5, float("inf")), "own"),
        ("bess", (3.0, 3.0), "own"),
    ]
    assert rows[0].at == {"switch": "ovs", "noise": "none", "rate": "switch:10%"}


@pytest.mark.parametrize(
    ("axes", "name", "words"),
    [
        (["switch", "rate"], "p/a", "line 2: 'switch=ovs noise=None rate=switch:10%' is no point"),
        (["switch", "noise", "rate", "pairs"], "p/a", "is no point of switch, noise, rate, pairs"),
        (["switch", "noise", "rate"], "p/c", "values.csv has no measured values of p/c"),
    ],
)
def test_values_of_another_experiment_are_refused(axes: list[str], name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        overlay_of("values.csv", f"{','.join(VALUES)}\n{OF_RUN}", axes, name)
