"""These tests check the driver of NICs that switch themselves, as far as no NIC is needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from switchmark.errors import Unavailable
from switchmark.hosts.base import Completed
from switchmark.hosts.host_file import VARIABLE
from switchmark.hosts.recording import RecordingHost
from switchmark.model.plan import Write
from switchmark.model.test import Test
from switchmark.model.topology import Findings, PortKind
from switchmark.path.refusals import check
from switchmark.path.resolving import resolve
from switchmark.switches import TABLE as SWITCHES

SRIOV = SWITCHES["sriov"]
RELEASE = {"/proc/sys/kernel/osrelease": b"6.1.0\n"}
ANSWERS: dict[tuple[str, ...], bytes | Completed] = {
    ("ip", "-j", "address"): json.dumps([{"addr_info": []}]).encode(),
    ("ip", "-j", "route"): b"[]",
    ("ip", "-j", "-6"): b"[]",
}


def nic(name: str, total: int = 7, used: int = 0) -> dict[str, bytes]:
    device = f"/sys/class/net/{name}/device"
    return {
        f"{device}/sriov_totalvfs": b"%d\n" % total,
        f"{device}/sriov_numvfs": b"%d\n" % used,
    }


def host(*files: dict[str, bytes], **answers: bytes) -> RecordingHost:
    content = {path: text for group in (RELEASE, *files) for path, text in group.items()}
    return RecordingHost(
        {**ANSWERS, **{(name,): value for name, value in answers.items()}}, files=content
    )


def test_the_one_nic_that_nobody_uses_is_its_mode() -> None:
    version = SRIOV.probe(host(nic("lan0", used=2), nic("pf0"), nic("none0", total=0)))
    assert (version.text, version.mode) == ("6.1.0", "pf0, 7 VFs")


def test_the_host_file_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "host.toml"
    file.write_text('[hosts.local.nics]\nsriov = {name = "pf1"}\n')
    monkeypatch.setenv(VARIABLE, str(file))
    assert SRIOV.probe(host(nic("pf0"), nic("pf1", 4))).mode == "pf1, 4 VFs"
    with pytest.raises(Unavailable, match="the NIC pf1 of local has no virtual functions"):
        SRIOV.probe(host(nic("pf0")))


def test_a_host_without_such_a_nic_or_with_one_in_use_is_refused() -> None:
    with pytest.raises(Unavailable, match="no NIC of local has virtual functions") as none:
        SRIOV.probe(host())
    assert "igb" in (none.value.hint or "")
    with pytest.raises(Unavailable, match="the virtual functions of pf0 are in use"):
        SRIOV.probe(host(nic("pf0", used=1)))
    used = json.dumps([{"addr_info": [{"scope": "global", "local": "192.0.2.1"}]}]).encode()
    with pytest.raises(Unavailable, match=r"pf0 is in use: it has the address 192\.0\.2\.1"):
        SRIOV.probe(RecordingHost({**ANSWERS, ("ip", "-j", "address"): used}, files=nic("pf0")))


def test_it_joins_functions_and_no_more_than_it_has_virtual_functions() -> None:
    def why(**axes: object) -> str:
        return " ".join(map(str, check(Test.model_validate({"switch": "sriov", **axes}))))

    assert why() == why(pairs=3, direction="bi") == ""
    assert "whatever the NIC is cabled to" in why(scenario="p2v")
    assert "whatever the NIC is cabled to" in why(scenario="loopback", chain=2)
    layout = resolve(
        Test(switch="sriov", pairs=4), prefix="sm0", run_dir="/r", found=Findings("pf0, 7 VFs")
    )
    refusal = SRIOV.accepts(layout.wiring)
    assert refusal is not None
    assert "pf0 has 7 virtual functions; the test needs 8" in refusal
    assert "--pairs 3" in refusal


IOMMU = "pf0, 7 VFs, from 0000:01:10.0 by 2"


def test_where_an_iommu_is_before_it_the_addresses_of_its_functions_are_told() -> None:
    files = {
        **nic("pf0"),
        "/sys/class/net/pf0/device/iommu_group": b"",
        "/sys/class/net/pf0/device/sriov_offset": b"128\n",
        "/sys/class/net/pf0/device/sriov_stride": b"2\n",
    }
    answers = {
        **ANSWERS,
        ("readlink", "-f", "/sys/class/net/pf0/device"): b"/sys/devices/x/0000:01:00.0\n",
    }
    assert SRIOV.probe(RecordingHost(answers, files={**RELEASE, **files})).mode == IOMMU


def test_a_virtual_function_past_the_kernel_has_the_address_that_was_told() -> None:
    test = Test(switch="sriov", engine="dpdk", scenario="v2v", pairs=3, driver="vfio-pci")
    assert check(test) == []
    layout = resolve(test, prefix="sm0", run_dir="/r", found=Findings(IOMMU))
    assert layout.wiring.kind is PortKind.VF_PCI
    devices = [layout.endpoints[port.id].device for port in layout.wiring.ports]
    assert devices == [
        f"0000:01:{slot}" for slot in ("10.0", "10.2", "10.4", "10.6", "11.0", "11.2")
    ]
    steps = SRIOV.start(layout.wiring)
    contents = {step.path: step.content for step in steps if isinstance(step, Write)}
    assert contents["/sys/class/net/pf0/device/sriov_drivers_autoprobe"] == b"0\n"
    assert SRIOV.accepts(layout.wiring) is None
    without = resolve(test, prefix="sm0", run_dir="/r", found=Findings("pf0, 7 VFs"))
    assert "pf0 has no IOMMU" in (SRIOV.accepts(without.wiring) or "")


def test_a_driver_of_devices_is_refused_where_ports_are_the_kernels() -> None:
    test = Test(switch="sriov", engine="dpdk", scenario="v2v", port="vf", driver="vfio-pci")
    (refusal,) = check(test)
    assert "its ports are of kind vf" in str(refusal)
    there = test.model_copy(update={"port": "vf-pci", "environment": "docker"})
    assert any("containers get no PCI devices" in str(refusal) for refusal in check(there))
