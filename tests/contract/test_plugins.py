"""These tests load plug-ins by entry points: an unusable plug-in is reported, and everything else
works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.cli.listing import Thing, listed
from switchmark.model.test import Test
from switchmark.path.refusals import check
from switchmark.plugins import Table, load_plugins, names_in
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Switch


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table[Switch]]:
    """Return the table of switches beside a package whose plug-ins are none, but for one."""
    (tmp_path / "sm_raises.py").write_text("import nothing_of_that_name\n")
    (tmp_path / "sm_ends.py").write_text("import sys\nsys.exit('usage: sm_ends FILE')\n")
    (tmp_path / "sm_switches.py").write_text(
        "from dataclasses import replace\n"
        "from types import SimpleNamespace\n"
        "from switchmark.switches.null import Null\n"
        "class Mine(Null):\n"
        "    name = 'mine'\n"
        "class Data(Null):\n"
        "    name = 'data'\n"
        "    probe = 'no method'\n"
        "class Nameless(Null):\n"
        "    name = ['x']\n"
        "MINE, TAKEN, OTHER = Mine(), Null(), SimpleNamespace(name='other')\n"
        "DATA, NAMELESS = Data(), Nameless()\n"
    )
    info = tmp_path / "sm_switches-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sm-switches\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[switchmark.switches]\nraises = sm_raises:SWITCH\nlacks = sm_switches:NOT_THERE\n"
        "other = sm_switches:OTHER\ntaken = sm_switches:TAKEN\nmine = sm_switches:MINE\n"
        "ends = sm_ends:SWITCH\ndata = sm_switches:DATA\nnameless = sm_switches:NAMELESS\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    drivers = (SWITCHES["null"], SWITCHES["direct"])
    table = load_plugins("switchmark.switches", Switch, drivers)  # type: ignore[type-abstract]
    with SWITCHES.replaced_by(table):
        yield table


def test_the_names_of_a_table_are_those_of_its_first_load(broken: Table[Switch]) -> None:
    """Charts give each switch a look by its place there."""
    assert "mine" in broken
    names = names_in("switchmark.switches")
    assert {"linux-bridge", "ovs", "vpp"} <= set(names)
    assert "mine" not in names


def test_a_plugin_that_is_none_is_unusable_and_keeps_nobody_from_the_others(
    broken: Table[Switch],
) -> None:
    assert set(broken) == {"null", "direct", "mine"}
    reasons = {name: error.message for name, error in broken.unusable.items()}
    assert reasons.keys() == {"raises", "ends", "lacks", "other", "data", "nameless", "taken"}
    assert "sm_raises:SWITCH cannot be imported: ModuleNotFoundError" in reasons["raises"]
    assert "cannot be imported: SystemExit: usage: sm_ends FILE" in reasons["ends"]
    assert "AttributeError" in reasons["lacks"]
    assert "is no Switch: 'probe' is no method" in reasons["data"]
    assert "has a name that is no text: ['x']" in reasons["nameless"]
    assert "is no Switch: it has no" in reasons["other"]
    assert "takes the name 'null', which is taken" in reasons["taken"]
    assert broken.unusable["raises"].hint == "mend it or remove it: pip uninstall sm-switches"


def test_unusable_plugins_are_listed_and_refused_with_their_reason(broken: Table[Switch]) -> None:
    entries = {entry["name"]: entry for entry in listed(Thing.SWITCHES)}
    assert entries["direct"]["usable"]
    assert not entries["raises"]["usable"]
    assert entries["raises"]["why_not"] == broken.unusable["raises"].message
    assert entries["raises"]["hint"] == broken.unusable["raises"].hint
    assert "raises" not in {entry["name"] for entry in listed(Thing.SWITCHES, port="veth")}
    (reason,) = check(Test(switch="raises"))
    assert reason.axes == ("switch",)
    assert reason.why.startswith("'raises' cannot be used: the plug-in sm_raises:SWITCH")
    assert check(Test(switch="direct")) == []


def test_a_table_is_as_before_after_another_stood_in_for_it(broken: Table[Switch]) -> None:
    plain = Table({"direct": broken["direct"]}, {})
    with pytest.raises(ValueError, match="midway"), SWITCHES.replaced_by(plain):
        assert (list(SWITCHES), len(SWITCHES)) == (["direct"], 1)
        assert not SWITCHES.unusable
        raise ValueError("midway")
    assert set(SWITCHES) == {"null", "direct", "mine"}
    assert SWITCHES.unusable == broken.unusable
