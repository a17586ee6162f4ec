"""These tests check that versions of one switch are found and distinguished, and refused if they
are not the requested version."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from switchmark.campaign.load import from_options
from switchmark.campaign.store import key
from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.base import Completed
from switchmark.hosts.hosts import Hosts
from switchmark.hosts.local import LocalHost
from switchmark.hosts.programs import beside_python, program_variable
from switchmark.hosts.recording import RecordingHost
from switchmark.lab.probes import Probes
from switchmark.model.plan import Run, Spawn
from switchmark.model.test import Test
from switchmark.model.topology import Findings
from switchmark.model.version import Version
from switchmark.path.assembly import build, switch_needs
from switchmark.path.cables import without_switch
from switchmark.path.refusals import check
from switchmark.path.resolving import resolve
from switchmark.runs.own_run import OwnRun
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
    lines = [f'"{name}" = "{path}"' for name, path in programs.items()]
    path.write_text("\n".join(["[hosts.local.programs]", *lines]))


class Dpdk(RecordingHost):
    """On this host a program of DPDK tells the version that its folder is named by."""

    def answer(self, argv: tuple[str, ...]) -> Completed:
        version = {"dpdk-22": "22.11.5", "dpdk-23": "24.03.0"}.get(argv[0].split("/")[2], "1")
        return Completed(0, f"RTE Version: 'DPDK {version}'".encode(), b"")


INSTALLED = (
    *("sbin/ovs-vswitchd", "sbin/ovsdb-server", "bin/ovs-vsctl", "bin/ovsdb-tool"),
    "share/openvswitch/vswitch.ovsschema",
)


class OtherHost(RecordingHost):
    """A host with these files, all else than this one's, where each program tells a version."""

    def __init__(self, name: str, files: Iterable[str]) -> None:
        super().__init__(name=name, files=dict.fromkeys(files, b""))

    def answer(self, argv: tuple[str, ...]) -> Completed:
        if argv[0] == "sh" and "-f" in argv[2]:
            return Completed(
                0, "\n".join(path for path in argv[4:] if path in self.files).encode(), b""
            )
        if argv[:2] == ("test", "-d"):
            folder = any(file.startswith(f"{argv[2]}/") for file in self.files)
            return Completed(0 if folder else 1, b"", b"")
        if argv[1:] == ("--version",):
            return Completed(0, b"ovs-vswitchd (Open vSwitch) 3.3.0", b"")
        return super().answer(argv)


def probed_on(host: RecordingHost, test: Test) -> Findings:
    version = probe_asked(SWITCHES[test.switch], host)
    return Findings(programs={(host.name, test.switch): version})


def started(switch: str) -> str:
    test = Test(switch=switch, engine="dpdk", port="auto")
    layout = resolve(test, prefix="sm0000", run_dir="/run/x")
    spawns = [step for step in layout.switches[0].start if isinstance(step, Spawn)]
    return spawns[-1].argv[0]


def test_two_versions_are_two_switches_each_with_its_program(host_file: Path) -> None:
    campaign = from_options({"switch": "testpmd@22.11,testpmd@23.11", "engine": "dpdk"}, check)
    assert [test.switch for test in campaign.tests] == ["testpmd@22.11", "testpmd@23.11"]
    assert [test.repeat for test in campaign.tests] == [20, 20], "versions are compared as switches"
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
    layout = resolve(test, prefix="sm0000", run_dir="/run/x")
    argvs = [step.argv for step in build(layout) if isinstance(step, Spawn | Run)]
    assert any("/opt/it" in argv for argv in argvs)
    assert not any(SWITCHES[plain].program in argv for argv in argvs)


def test_a_version_of_ovs_has_its_own_tools_and_schema(tmp_path: Path) -> None:
    for file in INSTALLED:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    files = ("sbin/ovs-vswitchd", "sbin/ovsdb-server", "bin/ovs-vsctl", "bin/ovsdb-tool")
    test = Test(switch=f"ovs@{tmp_path}", switch_environment="docker")
    installed = [str(tmp_path / file) for file in INSTALLED]
    host = OtherHost("local", installed)
    layout = resolve(test, prefix="sm0000", run_dir="/run/x", found=probed_on(host, test))
    steps = layout.switches[0].start
    arguments = {word for step in steps if isinstance(step, Run | Spawn) for word in step.argv}
    assert {str(tmp_path / file) for file in files} <= arguments
    assert f"{tmp_path}/share/openvswitch/vswitch.ovsschema" in arguments
    assert not {"ovs-vsctl", "ovsdb-tool", "ovsdb-server", "ovs-vswitchd"} & arguments
    assert str(tmp_path) in switch_needs(layout, layout.switches[0]).programs


@pytest.fixture
def two_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hosts a and b have each switch in a folder of theirs, the second of two versions too."""
    path = tmp_path / "host.toml"
    names = "\n".join(f'{name} = "/opt/THERE/{name}"' for name in PROGRAMS)
    hosts = "".join(f"[hosts.{it}.programs]\n{names.replace('THERE', it)}\n" for it in "ab")
    path.write_text(hosts + '"ovs@3.3" = "/opt/b/ovs-3.3"\n')
    monkeypatch.setenv("SWITCHMARK_HOST_FILE", str(path))
    return path


@pytest.mark.parametrize("plain", PROGRAMS)
def test_every_program_that_is_named_for_another_host_is_started_there(
    two_hosts: Path, plain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(program_variable(plain), "/opt/here")
    engine = next(
        engine
        for engine in ("raw-mmsg", "dpdk")
        if not check(Test(switch=plain, engine=engine, scenario="p2p"))
    )
    for test in (
        Test(switch=plain, engine=engine, scenario="p2p", hosts="a"),
        Test(switch=plain, engine=engine, scenario="p2p", hosts="a,b", locality="remote"),
    ):
        layout = resolve(test, prefix="sm0000", run_dir="/run/x")
        arguments = " ".join(w for s in build(layout) if isinstance(s, Spawn | Run) for w in s.argv)
        assert "/opt/here" not in arguments
        for host in (test.hosts or "").split(","):
            assert f"/opt/{host}/{plain}" in arguments
            names = {
                switch.host
                for switch in layout.switches
                if switch.wiring.program == f"/opt/{host}/{plain}"
            }
            assert names == {host}


def test_a_folder_that_is_named_for_another_host_is_looked_into_there(two_hosts: Path) -> None:
    b = OtherHost("b", [f"/opt/b/ovs-3.3/{file}" for file in INSTALLED])
    for switch in ("ovs@3.3", "ovs@/opt/b/ovs-3.3"):
        test = Test(switch=switch, hosts="b")
        assert check(test) == []
        layout = resolve(test, prefix="sm0000", run_dir="/run/x", found=probed_on(b, test))
        assert layout.wiring.program == "/opt/b/ovs-3.3/sbin/ovs-vswitchd"
        steps = layout.switches[0].start
        arguments = {word for step in steps if isinstance(step, Run | Spawn) for word in step.argv}
        assert {f"/opt/b/ovs-3.3/{file}" for file in INSTALLED} <= arguments
        assert "/opt/b/ovs-3.3" in switch_needs(layout, layout.switches[0]).programs
    with pytest.raises(Unavailable, match=r"has no 'ovs@3.3' for the host a\n") as refused:
        probe_asked(SWITCHES["ovs@3.3"], OtherHost("a", []))
    assert "[hosts.a.programs]" in str(refused.value.hint)


def test_a_function_of_another_host_is_the_program_that_is_named_for_it(two_hosts: Path) -> None:
    test = Test(switch="ovs-dpdk", engine="dpdk", scenario="loopback", function="l2fwd", hosts="b")
    layout = resolve(test, prefix="sm0000", run_dir="/run/x")
    spawned = {step.argv[0] for step in build(layout) if isinstance(step, Spawn)}
    assert "/opt/b/l2fwd" in spawned
    probed = {("b", "l2fwd"): Version("1", program="/opt/b/l2fwd/build/l2fwd")}
    layout = resolve(test, prefix="sm0000", run_dir="/run/x", found=Findings(programs=probed))
    spawned = {step.argv[0] for step in build(layout) if isinstance(step, Spawn)}
    assert "/opt/b/l2fwd/build/l2fwd" in spawned


@pytest.mark.parametrize(
    ("plain", "places"),
    [
        ("snabb", "snabb, bin/snabb, sbin/snabb or src/snabb"),
        ("fastclick", "click, bin/click, sbin/click or userlevel/click"),
        ("ovs", "ovs-vswitchd, bin/ovs-vswitchd, sbin/ovs-vswitchd or vswitchd/ovs-vswitchd"),
        ("vpp", "vpp, bin/vpp or sbin/vpp"),
    ],
)
def test_a_folder_without_the_program_is_refused_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: str, places: str
) -> None:
    for name in (f"{plain}@{tmp_path}", plain):
        with pytest.raises(Unavailable) as refused:
            probe_asked(SWITCHES[name], LocalHost())
        assert refused.value.message == f"{tmp_path} is a folder without {places}"
        assert program_variable(plain) in str(refused.value.hint)
        monkeypatch.setenv(program_variable(plain), str(tmp_path))


@pytest.mark.parametrize(
    ("plain", "built"),
    [("snabb", "src/snabb"), ("fastclick", "userlevel/click"), ("ovs", "vswitchd/ovs-vswitchd")],
)
def test_a_tree_in_which_a_switch_was_built_is_looked_into(
    tmp_path: Path, plain: str, built: str
) -> None:
    (tmp_path / built).parent.mkdir()
    (tmp_path / built).touch()
    assert SWITCHES[f"{plain}@{tmp_path}"].path == str(tmp_path / built)


@pytest.mark.parametrize("plain", ["fastclick", "snabb", "vpp", "t4p4s", "testpmd"])
def test_a_namesake_on_path_is_named_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: str
) -> None:
    """Debian has another `click`."""
    namesake = tmp_path / SWITCHES[plain].program
    namesake.write_text("#!/bin/sh\necho usage: it COMMAND >&2\nexit 2\n")
    namesake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(Unavailable) as refused:
        probe_asked(SWITCHES[plain], LocalHost())
    assert refused.value.message.startswith(f"{namesake} ")
    message = "is not FastClick" if plain == "fastclick" else "does not tell its version"
    assert message in refused.value.message


class Lacking(RecordingHost):
    """This host has nothing but the modules of kernels."""

    def exists(self, path: str) -> bool:
        return path == "/dev/netmap"

    def answer(self, argv: tuple[str, ...]) -> Completed:
        if argv[0] in ("mktemp", "rm", "test", "sh"):
            return Completed(1, b"", b"")
        raise Unavailable(f"the program '{argv[0]}' is not installed")


@pytest.mark.parametrize("plain", ["bess", "fastclick", "snabb", "t4p4s", "vale", "vpp"])
@pytest.mark.parametrize("path", ["local", "b"])
def test_a_program_that_no_package_has_is_named_in_the_same_way(plain: str, path: str) -> None:
    with pytest.raises(Unavailable) as refused:
        probe_asked(SWITCHES[plain], Lacking(name=path))
    hint = str(refused.value.hint)
    assert f"{program_variable(plain)}=/" in hint
    assert f'{plain} = "/' in hint
    assert f"[hosts.{path}.programs]" in hint
    assert refused.value.message.endswith("is not installed" + " on b" * (path == "b"))


def test_a_container_has_no_folder_of_the_set_up_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_L2FWD", str(beside_python() / "dpdk-l2fwd"))
    layout = resolve(Test(switch="l2fwd", engine="dpdk"), prefix="sm0000", run_dir="/run/x")
    assert set(switch_needs(layout, layout.switches[0]).programs) <= {
        str(beside_python()),
        str(Path()),
    }


KERNEL = sorted(set(SWITCHES) - set(PROGRAMS))


@pytest.mark.parametrize("plain", KERNEL)
def test_what_is_no_program_has_no_versions(plain: str) -> None:
    (refusal, *_) = check(Test(switch=f"{plain}@6.1"))
    assert refusal.why.startswith(f"'{plain}@6.1': {plain} is not a separate program")
    file = ":/PATH" * bool(SWITCHES[plain].described_by)
    assert refusal.hint == f"--switch {plain}{file}"


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
    probes = Probes(Hosts(OwnRun, {"local": Dpdk()}))
    with pytest.raises(UsageError, match="has no 'testpmd@22.11': it names no version"):
        probes.locate(Test(switch="testpmd@22.11", engine="dpdk")).versions()
    with pytest.raises(KeyError):
        SWITCHES["testpdm@22.11"]
    assert not [name for name in ("testpmd@22.11", "testpdm@/x", "testpdm", 3) if name in SWITCHES]


def test_a_function_in_a_machine_is_the_program_that_the_machine_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SWITCHMARK_L2FWD", "/opt/mine/l2fwd-2")
    chain = {"switch": "ovs-dpdk", "engine": "dpdk", "scenario": "loopback", "function": "l2fwd"}
    for environment, program in (("vm", "dpdk-l2fwd"), ("netns", "/opt/mine/l2fwd-2")):
        test = Test.model_validate({**chain, "environment": environment})
        layout = resolve(test, prefix="sm0000", run_dir="/run/x")
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
    assert refused.value.message == ("/opt/dpdk-23/pmd is testpmd 24.03.0, not testpmd@23.11")
    assert refused.value.hint == f'enter its real version in {host_file}: "testpmd@24.03.0"'


@pytest.mark.parametrize("plain", ["ovs", "testpmd", "snabb", "bess"])
def test_a_path_where_nothing_is_has_no_package(
    tmp_path: Path, host_file: Path, monkeypatch: pytest.MonkeyPatch, plain: str
) -> None:
    nowhere = str(tmp_path / "nowhere")
    name(host_file, {f"{plain}@1": nowhere})
    monkeypatch.setenv(program_variable(plain), nowhere)
    hints = {
        f"{plain}@{nowhere}": f"--switch {plain}@/path/to/",
        f"{plain}@1": f'"{plain}@1" = "/path/to/',
        plain: program_variable(plain),
    }
    for switch, hint in hints.items():
        with pytest.raises(Unavailable) as refused:
            probe_asked(SWITCHES[switch], LocalHost())
        assert refused.value.message == f"{switch}: there is no {nowhere}"
        assert str(refused.value.hint).startswith(hint)


def test_a_program_of_a_package_that_is_missing_has_its_package() -> None:
    class Bare(RecordingHost):
        def exists(self, path: str) -> bool:
            return False

        def answer(self, argv: tuple[str, ...]) -> Completed:
            raise Unavailable(f"the program '{argv[0]}' is not installed")

    with pytest.raises(Unavailable, match="is not installed") as refused:
        probe_asked(SWITCHES["ovs-dpdk"], Bare())
    assert str(refused.value.hint).startswith("apt-get install openvswitch-switch-dpdk")


def test_a_host_file_that_is_not_there_is_named_as_that(
    host_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "it names no version of vpp" in check(Test(switch="vpp@24.06"))[0].why
    monkeypatch.delenv("SWITCHMARK_HOST_FILE")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    (refusal,) = check(Test(switch="vpp@24.06"))
    message = "'vpp@24.06': the host file /nowhere/switchmark/host.toml"
    assert refusal.why.startswith(message)
    assert refusal.hint is not None
    assert refusal.hint.endswith("or --switch vpp@/path/to/its/program")


@pytest.mark.parametrize(
    ("version", "fits"),
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
def test_a_version_is_one_of_its_series(host_file: Path, version: str, fits: bool) -> None:
    name(host_file, {f"testpmd@{version}": "/opt/dpdk-22/bin/testpmd"})
    os.utime(host_file, ns=(7, len(version)))
    if fits:
        assert probe_asked(SWITCHES[f"testpmd@{version}"], Dpdk()).text == "22.11.5"
    else:
        with pytest.raises(Unavailable, match=", not testpmd@"):
            probe_asked(SWITCHES[f"testpmd@{version}"], Dpdk())


def test_keys_tell_versions_apart_and_cables_do_not(host_file: Path) -> None:
    tests = [Test(switch=name, engine="dpdk") for name in ("testpmd@22.11", "testpmd")]
    assert len({key(test, {}) for test in tests}) == 2
    cables = [without_switch(resolve(test, prefix="sm0000", run_dir="/run/x")) for test in tests]
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
        probes = Probes(Hosts(OwnRun, {"local": Local()}))
        probes.probe("engine", "null", SWITCHES["null"].probe, probes.hosts["local"])
        found.append(dict(probes.locate(test).versions()))
    assert found[0] == found[2] != found[1]
    assert found[0][f"switch {test.switch}"] == "22.11.5"
    assert [k for k in found[0] if found[0][k] != found[1][k]] == ["switch build"]


def test_a_calibration_is_of_the_boot_and_the_processor_of_the_hosts_of_its_test() -> None:
    def host(name: str) -> RecordingHost:
        files = {
            "/proc/sys/kernel/random/boot_id": f"boot-{name}\n".encode(),
            "/proc/cpuinfo": f"model name\t: CPU {name}\n".encode(),
        }
        return RecordingHost(name=name, files=files)

    probes = Probes(Hosts(OwnRun, {name: host(name) for name in ("local", "a", "b")}))
    remote = Test(locality="remote", hosts="a,b")
    assert probes.locate(Test()).booted == ("boot-local", "CPU local")
    assert probes.locate(Test(hosts="a")).booted == ("boot-a", "CPU a")
    assert probes.locate(remote).booted == ("boot-a, boot-b", "CPU a, CPU b")


def test_a_build_that_is_a_tree_is_known_by_the_file_that_runs(tmp_path: Path) -> None:
    class Built(RecordingHost):
        def answer(self, argv: tuple[str, ...]) -> Completed:
            return Completed(0, b"bessd version 1\nversion 2", b"")

    built = ("core/bessd", "pybess/builtin_pb/service_pb2_grpc.py")
    files = {f"/opt/b/{file}": b"1" for file in built}
    probes = Probes(Hosts(OwnRun, {"local": Built(files=files)}))
    probes.probe("engine", "null", SWITCHES["null"].probe, probes.hosts["local"])
    test = Test(switch="bess@/opt/b", engine="null", placement="unpinned")
    assert "switch build" in probes.locate(test).versions()
