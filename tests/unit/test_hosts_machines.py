"""These tests check virtual machines of the host file without booting them."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.host_file import VARIABLE, MachineEntry, host_entry
from switchmark.hosts.hosts import Hosts, planned_between
from switchmark.hosts.machines import MachineHost, cable_peer, image_of, machine_argv
from switchmark.hosts.processes import marked
from switchmark.runs.clean import clean, clean_there
from switchmark.runs.journal import Command, Far, Lease, Stop
from switchmark.runs.leases import Leases
from switchmark.runs.own_run import OwnRun
from switchmark.runs.undo import carry_out, undone_together

TWO = """
[hosts.m1]
vm = {cores = 4, memory-mb = 2048}
nics.uplink = {name = "up0", cable = "c"}
nics.pf = {name = "pf0", model = "igb"}

[hosts.m2.vm]
image = "~/image"

[hosts.m2]
nics.uplink = {name = "up1", cable = "c"}
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "host.toml"
    path.write_text(TWO)
    monkeypatch.setenv(VARIABLE, str(path))
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[hosts.m]\naddress = "x"\nvm = {}', "has no address of yours"),
        ("[hosts.local]\nvm = {}", "local is this host"),
        ("[hosts.m.vm]\ncore = 2", "unknown key 'core' in [hosts.m.vm]; did you mean 'cores'?"),
        ("[hosts.m.vm]\ncores = 0", "[hosts.m.vm.cores]"),
        ('[hosts.m.nics]\na = {name = "e", model = "igb"}', "has a model, as those of machines"),
        ('[hosts.m]\nvm = {}\nnics.a = {name = "eth0 x"}', "no name that an interface"),
        ('[hosts.m]\nvm = {}\nnics.a = {name = "e", model = "igb,x=1"}', "no NIC of QEMU's"),
    ],
)
def test_what_a_machine_cannot_have_is_an_error(write: Path, text: str, message: str) -> None:
    write.write_text(text)
    with pytest.raises(UsageError, match=re.escape(message)):
        host_entry("m")


def test_its_image_is_built_on_demand(write: Path, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="the image of machines is not built") as error:
        image_of(MachineEntry(image=str(tmp_path)))
    assert error.value.hint == "as root: make lab-image"


def test_qemu_is_told_its_nics_and_cables(write: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHMARK_QEMU", "qemu-system-x86_64")
    argv = machine_argv(
        *("m1", host_entry("m1"), Path("/i,m")),
        kvm=False,
        port=2222,
        cables={"up0": (Path("/c/m1.up0"), Path("/c/m2.up1"))},
    )
    command = " ".join(argv)
    assert "-smp 4 -m 2048" in command
    assert "tcg,thread=multi" in command
    assert "snapshot=on,file=/i,,m/root.img" in command
    assert "restrict=on,hostfwd=tcp:127.0.0.1:2222-:22" in command
    assert "local.path=/c/m1.up0,remote.type=unix,remote.path=/c/m2.up1" in command
    assert re.search(r"igb,bus=port2,netdev=nic2,mac=52:54:00(:[0-9a-f]{2}){3}", command)
    named = re.findall(r"switchmark.nic=(\S+),(\S+)", command)
    assert [name for _, name in named] == ["ssh0", "up0", "pf0"]
    assert len({mac for mac, _ in named}) == 3
    assert "iommu" not in command


@pytest.mark.parametrize("kvm", [False, True])
def test_an_iommu_comes_before_what_is_behind_it(
    kvm: bool, write: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMARK_QEMU", "qemu-system-x86_64")
    write.write_text('[hosts.m]\nvm = {iommu = true}\nnics.a = {name = "a", model = "igb"}\n')
    argv = machine_argv("m", host_entry("m"), Path("/i"), kvm=kvm, port=2222, cables={})
    assert "intel_iommu=on" in argv[argv.index("-append") + 1].split()
    devices = [word.partition(",")[0] for word in argv[argv.index("-device") :]]
    assert devices[1] == "intel-iommu"
    assert "igb" in devices
    assert ("kernel-irqchip=split" in argv) == kvm


def test_a_cable_joins_two_nics_of_one_machine(
    write: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMARK_QEMU", "qemu-system-x86_64")
    nics = "".join(
        f'nics.{name} = {{name = "{name}"{cable}}}\n'
        for name, cable in (("a", ', cable = "x"'), ("b", ""), ("c", ', cable = "x"'))
    )
    write.write_text(f"[hosts.m]\nvm = {{}}\n{nics}")
    assert cable_peer("m", "x") is None
    argv = machine_argv("m", host_entry("m"), Path("/i"), kvm=False, port=2222, cables={})
    assert [word for word in argv if word.startswith("hubport")] == [
        "hubport,id=nic1,hubid=1",
        "hubport,id=nic2,hubid=2",
        "hubport,id=nic3,hubid=1",
    ]


def test_a_cable_joins_two_machines(write: Path) -> None:
    assert cable_peer("m1", "c") == ("m2", "up1")
    assert cable_peer("m1", "d") is None
    between = planned_between(("m1", "m2"))
    assert between.cables == (("up0", "up1"),)
    assert between.emulated == ": emulated, a socket between two QEMUs"
    assert between.doubts == ("hosts-share-machine",)
    write.write_text(TWO.replace("[hosts.m2.vm]\nimage", "[hosts.m3.vm]\nimage"))
    with pytest.raises(UsageError, match="joins the VM m1 with m2, which is no VM"):
        cable_peer("m1", "c")


QEMU = """#!/bin/sh
# Says what a machine says when it is up; it does not boot on KVM.
for word; do
  case $word in file,id=console,path=*) echo "switchmark: ready" >"${word##*path=}"; exec cat;; esac
done
"""


@pytest.fixture
def fake_qemu(write: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a script in the place of QEMU, and empty files in that of the image."""
    program = tmp_path / "qemu"
    program.write_text(QEMU)
    program.chmod(0o755)
    monkeypatch.setenv("SWITCHMARK_QEMU", str(program))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    image = tmp_path / "cache/switchmark/lab-image"
    image.mkdir(parents=True)
    for name in ("root.img", "kernel", "initramfs", "user_key", "known_hosts"):
        (image / name).touch()


@pytest.mark.usefixtures("fake_qemu")
def test_machines_have_runs_and_end_with_their_hosts(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Hosts(partial(OwnRun, runs)) as hosts:
        hosts.begin(["m1"])
        host = hosts["m1"]
        assert host.up
        assert hosts["m1"] is host
        (run,) = runs.glob("sm*")
        assert clean(runs)[0].state == "live"
        pids = marked(run.name)
        assert pids
    assert not host.up
    assert not marked(run.name)
    assert not list(runs.glob("sm*"))


def test_a_machine_of_a_dead_run_is_cleaned(tmp_path: Path) -> None:
    own_run = OwnRun(tmp_path / "runs")
    process = own_run.spawn("machine m1", ("sleep", "60"), (15, 1.0))
    own_run._workspace.journal.close()
    (cleaned,) = clean(tmp_path / "runs")
    assert cleaned.state == "cleaned"
    assert cleaned.actions[0] == f"stop machine m1 (process {process.pid})"
    assert process.stop(9, 1.0) == -15


def test_nothing_is_left_on_a_machine_that_is_not_up(write: Path, tmp_path: Path) -> None:
    hosts = Hosts(OwnRun)
    host = hosts["m1"]
    assert isinstance(host, MachineHost)
    assert not host.up
    leases = Leases(tmp_path)
    for undo in (
        Far(host="m1", folder="/run/switchmark/sm0000"),
        Command(host="m1", argv=("ip", "netns", "del", "sm0000-f0")),
        Lease(host="m1", path="/proc/sys/vm/nr_hugepages"),
        Stop(host="m1", name="x", number=15, grace_s=1.0, pid=1, start=1),
    ):
        carry_out(undo, run="sm0000", hosts=hosts, leases=leases)
    several = [Command(host="m1", argv=("ip", "netns", "del", f"sm0000-f{n}")) for n in (0, 1)]
    assert undone_together(several, hosts) == [False]
    host.undo_run("sm0000", "/run/switchmark/sm0000")
    assert clean_there(host) == []
    assert not host.up
