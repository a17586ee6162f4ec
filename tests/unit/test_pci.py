"""These tests check NICs by PCI address: how they are named, when they are refused, how they are
given back."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Literal

import pytest

from switchmark.errors import SwitchmarkError, Unavailable, UsageError
from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.model.addresses import pci_address
from switchmark.model.plan import Node, Run
from switchmark.model.test import Test
from switchmark.path.refusals import check
from switchmark.runs.executor import Executor
from switchmark.runs.pci import UIO, VFIO, Device, _remember, find_device, hand_over
from switchmark.runs.undo import _GONE
from switchmark.runs.workspace import Workspace
from switchmark.scenarios.base import NicPair, nics

A, B = "0000:03:00.0", "0000:03:00.1"
BUS = "/sys/bus/pci"
NONE = Completed(1, b"", b"")
ROOT = b"CapEff:\t000001ffffffffff\n"


class Machine(RecordingHost):
    """This host has a PCI bus in memory: binding works as `drivers_probe` does it."""

    def __init__(
        self,
        *,
        kind: str = "0x020000",
        group: bool = True,
        others: bytes = b"",
        link: dict[str, Any] | None = None,
        routes: bytes = b"[]",
        status: bytes = ROOT,
        limit: bytes = b"unlimited",
        module: int = 0,
        noiommu: bytes = b"N",
        drivers: tuple[str, ...] = (VFIO, UIO),
        upper: bytes = b"",
    ) -> None:
        link = {"ifname": "eth1", "flags": ["UP"], "address": "aa:bb:cc:00:00:01"} | (link or {})
        self.driver = {A: "e1000e", B: ""}
        self.override = {A: "", B: ""}
        files = {f"{BUS}/drivers/{name}": b"" for name in drivers}
        files["/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"] = noiommu
        files["/proc/self/status"] = status
        files["/proc/self/limits"] = b"Max locked memory     %b  %b bytes\n" % (limit, limit)
        answers: dict[tuple[str, ...], bytes | Completed] = {
            ("ip", "-j", "address"): json.dumps([link]).encode(),
            ("ip", "-j", "route"): routes,
            ("ip", "-j", "-6"): b"[]",
            ("ls", "/sys/class/net/eth1"): b"address\nqueues\n" + upper,
            ("modprobe", "--dry-run"): Completed(module, b"", b""),
        }
        for address in (A, B):
            path = f"{BUS}/devices/{address}"
            files |= {path: b"", f"{path}/class": kind.encode() + b"\n"}
            files |= {f"{path}/vendor": b"0x8086\n", f"{path}/device": b"0x10d3\n"}
            group_link = Completed(0, b"../../kernel/iommu_groups/7\n", b"") if group else NONE
            answers["readlink", f"{path}/iommu_group"] = group_link
            answers["ls", f"{path}/iommu_group/devices"] = f"{A}\n{B}\n".encode() + others
        for other in others.decode().split():
            path = f"{BUS}/devices/{other}"
            files[f"{path}/class"] = b"0x060400\n" if other.endswith("1c.0") else b"0x030000\n"
            answers["readlink", f"{path}/driver"] = b"../../bus/pci/drivers/someone\n"
        interface = f"{BUS}/devices/{A}/net/eth1\n"
        answers["find", f"{BUS}/devices/{A}/"] = (interface + interface[:-1] + "/queues\n").encode()
        super().__init__(answers, files=files)

    def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
        found = super().run(argv, **options)
        for address, driver in self.driver.items():
            if argv == ("readlink", f"{BUS}/devices/{address}/driver"):
                return Completed(0, f"../{driver}\n".encode(), b"") if driver else NONE
        if argv[0] == "tee" and not found.status:
            return self._tell(argv[1], (options["stdin"] or b"").decode().strip())
        return found

    def _tell(self, path: str, content: str) -> Completed:
        """Do what the kernel does with words for a file of sysfs."""
        gone = Completed(1, b"", f"tee: {path}: No such device".encode())
        file = path.removeprefix(f"{BUS}/")
        if file == "drivers_probe":
            self.driver[content] = self.driver[content] or self.override[content] or "e1000e"
        elif file.startswith("drivers/"):
            if self.driver[content] != file.split("/")[1]:
                return gone
            self.driver[content] = ""
        elif file.endswith("/driver_override"):
            self.override[file.split("/")[1]] = content
        else:
            address = file.split("/")[1]
            if not self.driver[address]:
                return gone
            self.driver[address] = ""
        return Completed(0, b"", b"")


# --- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("03:00.0", A),
        ("0000:03:00.0", A),
        ("10000:E1:1F.7", "10000:e1:1f.7"),
        ("eth0", None),
        ("eth0.5", None),
        ("03:20.0", None),
        ("03:00.8", None),
        ("03:00", None),
    ],
)
def test_a_pci_address_is_told_from_an_interface(text: str, address: str | None) -> None:
    assert pci_address(text) == address


def test_both_ends_of_a_cable_are_named_the_same_way() -> None:
    named = nics(Test(nic="a0=03:00.0:0000:04:00.1, b0=eth1:eth0.7"))
    assert named == {"a0": NicPair(A, "0000:04:00.1"), "b0": NicPair("eth1", "eth0.7")}
    for wrong, message in (
        ("a0=03:00.0", "is not a physical port"),
        ("a0=03:00.0:", "is not a physical port"),
        ("a0=eth1:eth2:eth3", "is not a physical port"),
        ("a0=03:00.0:eth1", "opened the same way"),
        ("a0=03:00.0:0000:03:00.0", "named twice"),
    ):
        with pytest.raises(UsageError, match=message):
            nics(Test(nic=wrong))


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"switch": "linux-bridge", "nic": "a0=03:00.0:03:00.1"}, "by its PCI address"),
        ({"switch": "testpmd", "nic": "a0=eth1:eth2"}, "by its interface"),
        ({"switch": "testpmd", "port": "nic-pci"}, "--nic a0="),
        ({"switch": "testpmd", "driver": VFIO}, "this test has none"),
    ],
)
def test_what_cannot_work_is_refused(axes: dict[str, Any], message: str) -> None:
    (reason,) = check(Test(scenario="p2v", engine="dpdk", **axes))
    assert message in str(reason)


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ({"routes": b'[{"dst": "default", "dev": "eth1"}]'}, "default route"),
        ({"link": {"addr_info": [{"local": "10.0.0.1", "scope": "global"}]}}, "10.0.0.1"),
        ({"link": {"master": "br0"}}, "belongs to br0"),
        ({"upper": b"upper_eth1.100\n"}, "eth1.100 is on top of it"),
        (
            {
                "upper": b"upper_eth1.100\n",
                "routes": b'[{"dst": "default", "nexthops": [{"dev": "eth1.100"}]}]',
            },
            "default route by eth1.100",
        ),
        ({"kind": "0x010802"}, "is no NIC"),
        ({"group": False}, "has no IOMMU.*intel_iommu=on.*--driver uio_pci_generic"),
        ({"others": b"0000:00:1c.0\n0000:03:00.2\n"}, r"group 7 .*: 0000:03:00.2 \(someone\)"),
        ({"drivers": (), "module": 1}, "no module vfio-pci"),
        ({"status": b"CapEff:\t0\n", "limit": b"65536"}, "65536 bytes.*ulimit -l"),
    ],
)
def test_a_nic_that_cannot_be_had_is_refused_with_the_reason(
    machine: dict[str, Any], message: str
) -> None:
    host = Machine(**machine)
    with pytest.raises((UsageError, Unavailable)) as refused:
        hand_over(host, [find_device(host, a) for a in (A, B)], VFIO, "hugepages")
    assert re.search(message, str(refused.value), re.DOTALL), str(refused.value)
    assert host.driver == {A: "e1000e", B: ""}


def test_a_nic_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="no PCI device 0000:09:00.0") as refused:
        find_device(Machine(), "0000:09:00.0")
    assert refused.value.hint == "lspci -D"


def test_what_sysfs_says_need_not_be_text() -> None:
    host = Machine(others=b"0000:00:1c.0\n")
    host.files[f"{BUS}/devices/{B}/class"] = b"0x02\xff\n"
    host.answers["find", f"{BUS}/devices/{A}/"] += b"/\xff/y\n"  # type: ignore[operator]
    host.answers["ls", f"{BUS}/devices/{A}/iommu_group/devices"] = f"{A} {B} ".encode() + b"\xff"
    strange = f"{BUS}/devices/\N{REPLACEMENT CHARACTER}"
    host.files[f"{strange}/class"] = b"0x030000"
    host.answers["readlink", f"{strange}/driver"] = b"../drivers/some\xff\n"
    devices = [find_device(host, address) for address in (A, B)]
    with pytest.raises(Unavailable) as refused:
        hand_over(host, devices, VFIO, "hugepages")
    known = "\N{REPLACEMENT CHARACTER} (some\N{REPLACEMENT CHARACTER})"
    assert refused.value.message.endswith(f"devices that the kernel uses: {known}")


def test_one_whose_interface_cannot_be_seen_is_somebody_elses() -> None:
    with pytest.raises(UsageError, match="in another network namespace"):
        hand_over(Machine(), [Device(A, "8086:10d3", "e1000e", (), "7")], VFIO, "hugepages")


def test_one_that_is_left_to_programs_already_keeps_its_driver() -> None:
    with pytest.raises(UsageError, match="by uio_pci_generic, not by vfio-pci") as refused:
        hand_over(Machine(), [Device(A, "8086:10d3", UIO)], VFIO, "hugepages")
    assert refused.value.hint == "--driver uio_pci_generic"
    assert hand_over(Machine(), [Device(A, "8086:10d3", UIO)], UIO, "hugepages") == ()


@pytest.mark.parametrize(("driver", "noiommu"), [(VFIO, b"Y\n"), (UIO, b"N\n")])
def test_without_an_iommu_memory_has_known_addresses(driver: str, noiommu: bytes) -> None:
    host = Machine(group=False, noiommu=noiommu)
    devices = [find_device(host, A)]
    assert hand_over(host, devices, driver, "hugepages")
    with pytest.raises(Unavailable) as refused:
        hand_over(host, devices, driver, "no-huge")
    assert refused.value.message == (
        f"without an IOMMU, {A} needs memory whose physical addresses are known: hugepages"
    )
    assert refused.value.hint == "--memory hugepages"


# --- there and back --------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["hugepages", "no-huge"])
def test_a_nic_is_found_handed_over_and_given_back(
    tmp_path: Path, memory: Literal["hugepages", "no-huge"]
) -> None:
    host = Machine()
    devices = [find_device(host, a) for a in (A, B)]
    assert str(devices[0]) == f"{A} [8086:10d3], eth1 of e1000e"
    assert str(devices[1]) == f"{B} [8086:10d3], no driver"
    plan = hand_over(host, devices, VFIO, memory)
    # After any step that fails, and after a whole run, all is as it was.
    for fault in (None, *range(40)):
        host = Machine()
        with Workspace(tmp_path / f"run{fault}") as workspace:
            executor = Executor(
                {"local": host}, workspace, inside=_inside, logs_dir=tmp_path / "logs"
            )
            host.fault = fault
            try:
                executor.execute(plan)
                assert host.driver == {A: VFIO, B: VFIO}
            except SwitchmarkError:
                assert fault is not None
            host.fault = None
            assert executor.unwind() == ()
        assert host.driver == {A: "e1000e", B: ""}
        assert host.override == {A: "", B: ""}
    assert host.ran[-1][-3:] == (f"{BUS}/devices/{A}", "eth1", "up")
    assert hand_over(host, [Device(A, "8086:10d3", VFIO, (), "7")], VFIO, memory) == ()


@pytest.mark.parametrize(
    ("names", "virtio", "after", "message"),
    [
        (("eth1",), False, "eth1", ""),
        (("eth0", "eth1"), False, "eth1", ""),
        (("eth0", "eth1"), True, "eth1", ""),
        (("eth0",), False, "eth1", ""),
        ((), False, "", "no interface of"),
    ],
    ids=["at once", "named later", "virtio", "never named", "never there"],
)
def test_an_interface_is_up_again_once_it_has_its_name(
    tmp_path: Path, names: tuple[str, ...], virtio: bool, after: str, message: str
) -> None:
    """An `ip` that knows the interfaces of a device as long as they have their names."""
    undo = _remember([Device(A, "8086:10d3", "e1000e", ("eth1",))], {A: ["eth1"]})[0]
    assert isinstance(undo, Run)
    assert undo.undo is not None
    device, tools = tmp_path / "device", tmp_path / "tools"
    net = device / ("virtio0/net" if virtio else "net")
    for folder in (net, tools):
        folder.mkdir(parents=True)
    (tools / "ip").write_text(
        f'#!/bin/sh\n[ -e {net}/"$3" ] || {{ echo "Cannot find device $3" >&2; exit 1; }}\n'
        f'[ "$4" != name ] || exec mv {net}/"$3" {net}/"$5"\necho "$3" >>{tmp_path}/up\n'
    )
    (tools / "sleep").write_text(  # time passes by looking at it
        f'#!/bin/sh\necho x >>{tmp_path}/slept\n[ "$(wc -l <{tmp_path}/slept)" -ne 3 ] ||'
        f" mv {net}/{names[0] if names else 'none'} {net}/{names[-1] if names else 'none'} 2>&-\n"
        "exit 0\n"
    )
    for tool in tools.iterdir():
        tool.chmod(0o755)
    for name in names[:1]:
        (net / name).mkdir()
    argv = [*undo.undo[:-3], str(device), *undo.undo[-2:]]
    path = f"{tools}:{os.environ['PATH']}"
    completed = subprocess.run(argv, env={"PATH": path}, capture_output=True, text=True)
    assert completed.stderr.startswith(message)
    assert (completed.returncode == 0) is bool(after)
    up = tmp_path / "up"
    assert (up.read_text().split()[-1] if up.exists() else "") == after
    assert not _GONE.search(completed.stderr.encode())


def test_an_interface_that_was_down_has_its_name_again_and_stays_down() -> None:
    undo = _remember([Device(A, "8086:10d3", "virtio", ("eth1",))], {A: []})[0]
    assert isinstance(undo, Run)
    assert undo.undo is not None
    assert undo.undo[-2:] == ("eth1", "")


def test_a_nic_that_is_gone_need_not_be_up_again(tmp_path: Path) -> None:
    undo = _remember([Device(A, "8086:10d3", "e1000e", ("eth1",))], {A: ["eth1"]})[0]
    assert isinstance(undo, Run)
    assert undo.undo is not None
    assert subprocess.run([*undo.undo[:-3], str(tmp_path / "gone"), "eth1", "up"]).returncode == 0


def _inside(node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
    return argv
