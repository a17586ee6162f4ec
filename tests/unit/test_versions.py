"""These tests check that versions of one switch are found, told apart, and refused where they are
not what they are asked for by."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from switchmark.campaign.load import from_options
from switchmark.campaign.store import key
from switchmark.errors import Unavailable, UsageError
from switchmark.lab.probes import Probes
from switchmark.layout.assembly import build
from switchmark.layout.cables import without_switch
from switchmark.layout.layout import lay_out
from switchmark.layout.needs import switch_needs
from switchmark.layout.resolve import check
from switchmark.machine.host import Completed
from switchmark.machine.hosts import Hosts
from switchmark.machine.programs import beside_python
from switchmark.machine.recording import RecordingHost
from switchmark.model.plan import Run, Spawn
from switchmark.model.spec import Test
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.versions import Switches, probe_asked

PROGRAMS = sorted(name for name, switch in SWITCHES.items() if switch.program)


@pytest.fixture
def host_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "host.toml"
    monkeypatch.setenv("SWITCHMARK_HOST_FILE", str(path))
    name(path, {"testpmd@22.11": "/opt/dpdk-22/bin/testpmd", "testpmd@23.11": "/opt/dpdk-23/pmd"})
    return path


def name(path: Path, programs: Mapping[str, str]) -> None:
    lines = [f'"{each}" = "{where}"' for each, where in programs.items()]
    path.write_text("\n".join(["[hosts.local.programs]", *lines]))


class Dpdk(RecordingHost):
    """On this host a program of DPDK tells the version that its folder is named by."""

    def answer(self, argv: tuple[str, ...]) -> Completed:
        version = {"dpdk-22": "22.11.5", "dpdk-23": "24.03.0"}.get(argv[0].split("/")[2], "1")
        return Completed(0, f"RTE Version: 'DPDK {version}'".encode(), b"")


def started(switch: str) -> str:
    test = Test(switch=switch, engine="dpdk", port="auto")
    layout = lay_out(test, prefix="sm0000", run_dir="/run/x")
    spawns = [step for step in layout.switch.start(layout.wiring) if isinstance(step, Spawn)]
    return spawns[-1].argv[0]


def test_two_versions_are_two_switches_each_with_its_program(host_file: Path) -> None:
    campaign = from_options({"switch": "testpmd@22.11,testpmd@23.11", "engine": "dpdk"}, check)
    assert [test.switch for test in campaign.tests] == ["testpmd@22.11", "testpmd@23.11"]
    assert [test.repeat for test in campaign.tests] == [3, 3], "versions are compared as switches"
    assert started("testpmd@22.11") == "/opt/dpdk-22/bin/testpmd"
    assert started("testpmd@23.11") == "/opt/dpdk-23/pmd"
    assert started("testpmd") == "dpdk-testpmd"


def test_a_version_is_listed_and_the_switch_but_once(host_file: Path) -> None:
    assert isinstance(SWITCHES, Switches)
    assert SWITCHES.versions == ("testpmd@22.11", "testpmd@23.11")
    assert "testpmd@22.11" in SWITCHES
    assert "testpmd@22.11" not in list(SWITCHES)


def test_a_build_is_asked_for_by_its_path_or_its_folder(tmp_path: Path) -> None:
    program = tmp_path / "app, with..dots"
    assert check(Test(switch=f"testpmd@{program}", engine="dpdk")) == []
    assert started(f"testpmd@{program}") == str(program)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dpdk-testpmd").touch()
    assert started(f"testpmd@{tmp_path}") == str(tmp_path / "bin/dpdk-testpmd")
    (one,) = from_options({"switch": "testpmd@/a/../b", "engine": "dpdk"}, check).tests
    assert one.switch == "testpmd@/a/../b"


@pytest.mark.parametrize("plain", PROGRAMS)
def test_every_program_of_user_space_is_started_by_the_path_that_was_asked_for(plain: str) -> None:
    name = f"{plain}@/opt/it"
    engine = next(
        engine
        for engine in ("raw-mmsg", "dpdk")
        if not check(Test(switch=plain, engine=engine, scenario="p2p"))
    )
    test = Test(switch=name, engine=engine, scenario="p2p")
    assert check(test) == []
    layout = lay_out(test, prefix="sm0000", run_dir="/run/x")
    argvs = [step.argv for step in build(layout) if isinstance(step, Spawn | Run)]
    assert any("/opt/it" in argv for argv in argvs)
    assert not any(SWITCHES[plain].program in argv for argv in argvs)


def test_a_version_of_ovs_has_its_own_tools_and_schema(tmp_path: Path) -> None:
    files = ("sbin/ovs-vswitchd", "sbin/ovsdb-server", "bin/ovs-vsctl", "bin/ovsdb-tool")
    for file in (*files, "share/openvswitch/vswitch.ovsschema"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    test = Test(switch=f"ovs@{tmp_path}", switch_environment="docker")
    layout = lay_out(test, prefix="sm0000", run_dir="/run/x")
    steps = layout.switch.start(layout.wiring)
    words = {word for step in steps if isinstance(step, Run | Spawn) for word in step.argv}
    assert {str(tmp_path / file) for file in files} <= words
    assert f"{tmp_path}/share/openvswitch/vswitch.ovsschema" in words
    assert not {"ovs-vsctl", "ovsdb-tool", "ovsdb-server", "ovs-vswitchd"} & words
    assert str(tmp_path) in switch_needs(layout).programs


def test_a_container_has_no_folder_of_the_set_up_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_L2FWD", str(beside_python() / "dpdk-l2fwd"))
    layout = lay_out(Test(switch="l2fwd", engine="dpdk"), prefix="sm0000", run_dir="/run/x")
    assert set(switch_needs(layout).programs) <= {str(beside_python()), str(Path())}


KERNEL = sorted(set(SWITCHES) - set(PROGRAMS))


@pytest.mark.parametrize("plain", KERNEL)
def test_what_is_no_program_has_no_versions(plain: str) -> None:
    (refusal, *_) = check(Test(switch=f"{plain}@6.1"))
    assert refusal.why.startswith(f"'{plain}@6.1': {plain} is no program of its own")
    assert refusal.hint == f"--switch {plain}"


def test_a_version_that_is_nowhere_is_refused_with_those_that_are(host_file: Path) -> None:
    (refusal,) = check(Test(switch="testpmd@24.03", engine="dpdk"))
    assert refusal.why == (
        f"the host file {host_file} has no 'testpmd@24.03'\n  it has testpmd@22.11, testpmd@23.11"
    )
    assert "[hosts.local.programs]" in (refusal.hint or "")
    (refusal,) = check(Test(switch="l2fwd@24.03", engine="dpdk"))
    assert refusal.why.endswith("no 'l2fwd@24.03': it names no version of l2fwd")
    (refusal,) = check(Test(switch="testpdm@22.11", engine="dpdk"))
    assert refusal.why.startswith("there is no switch named 'testpdm@22.11'")
    with pytest.raises(UsageError, match="--switch"):
        from_options({"switch": "testpmd@24.03", "engine": "dpdk"}, check)


def test_a_version_that_is_gone_when_a_run_is_resumed_is_a_refusal_and_no_bug() -> None:
    with pytest.raises(UsageError, match="has no 'testpmd@22.11': it names no version"):
        Probes(Hosts({"local": Dpdk()})).versions(Test(switch="testpmd@22.11", engine="dpdk"))
    with pytest.raises(KeyError):
        SWITCHES["testpdm@22.11"]
    assert not [each for each in ("testpmd@22.11", "testpdm@/x", "testpdm", 3) if each in SWITCHES]


def test_a_function_in_a_machine_is_the_program_that_the_machine_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SWITCHMARK_L2FWD", "/opt/mine/l2fwd-2")
    chain = {"switch": "ovs-dpdk", "engine": "dpdk", "scenario": "loopback", "function": "l2fwd"}
    for environment, program in (("vm", "dpdk-l2fwd"), ("netns", "/opt/mine/l2fwd-2")):
        test = Test.model_validate({**chain, "environment": environment})
        layout = lay_out(test, prefix="sm0000", run_dir="/run/x")
        argvs = [step.argv for step in build(layout) if isinstance(step, Spawn)]
        assert any(argv[0] == program for argv in argvs), argvs


@pytest.mark.parametrize("version", ["", "build/app", "./app", "../app"])
def test_a_path_begins_at_the_root(version: str) -> None:
    (refusal,) = check(Test(switch=f"testpmd@{version}", engine="dpdk"))
    assert "names no version" in refusal.why
    assert "--switch testpmd@$PWD/" in (refusal.hint or "")


def test_a_version_that_is_another_is_refused_with_both(host_file: Path) -> None:
    assert probe_asked(SWITCHES["testpmd@22.11"], Dpdk()).text == "22.11.5"
    with pytest.raises(Unavailable) as refused:
        probe_asked(SWITCHES["testpmd@23.11"], Dpdk())
    assert refused.value.message == (
        "testpmd@23.11 was asked for, and /opt/dpdk-23/pmd is testpmd 24.03.0"
    )
    assert refused.value.hint == f'name what it is in {host_file}: "testpmd@24.03.0"'


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        *(("22", True), ("22.11", True), ("22.11.5", True), ("v22.11", True)),
        *(
            ("22.1", False),
            ("2", False),
            ("2211", False),
            ("22.11.50", False),
            ("22.11.5.1", False),
        ),
    ],
)
def test_a_version_is_one_of_its_series(host_file: Path, asked: str, fits: bool) -> None:
    name(host_file, {f"testpmd@{asked}": "/opt/dpdk-22/bin/testpmd"})
    os.utime(host_file, ns=(7, len(asked)))
    if fits:
        assert probe_asked(SWITCHES[f"testpmd@{asked}"], Dpdk()).text == "22.11.5"
    else:
        with pytest.raises(Unavailable, match="was asked for"):
            probe_asked(SWITCHES[f"testpmd@{asked}"], Dpdk())


def test_keys_tell_versions_apart_and_cables_do_not(host_file: Path) -> None:
    tests = [Test(switch=each, engine="dpdk") for each in ("testpmd@22.11", "testpmd")]
    assert len({key(test, {}) for test in tests}) == 2
    cables = [
        without_switch(test, lay_out(test, prefix="sm0000", run_dir="/run/x")) for test in tests
    ]
    assert cables[0] == cables[1] != {}


def test_a_build_that_is_made_anew_is_another(tmp_path: Path) -> None:
    """Its version says nothing of it: the key has what the program's file holds."""

    class Local(Dpdk):
        def run(self, argv: tuple[str, ...], **options: object) -> Completed:
            return Completed(0, b"RTE Version: 'DPDK 22.11.5'\n1.0", b"")

        def read(self, path: str) -> bytes:
            return Path(path).read_bytes() if path.startswith(str(tmp_path)) else b""

    test = Test(switch=f"testpmd@{tmp_path}/pmd", engine="null", placement="unpinned")
    found = []
    for content in (b"one", b"two", b"one"):
        (tmp_path / "pmd").write_bytes(content)
        probes = Probes(Hosts({"local": Local()}))
        probes.probe("engine", "null", SWITCHES["null"].probe, probes.hosts["local"])
        found.append(dict(probes.versions(test)))
    assert found[0] == found[2] != found[1]
    assert found[0][f"switch {test.switch}"] == "22.11.5"
    assert [k for k in found[0] if found[0][k] != found[1][k]] == ["switch build"]
