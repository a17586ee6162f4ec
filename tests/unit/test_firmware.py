"""The firmware, the power management and the NICs of a host, as RFC 8204 wants them reported."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.hosts.base import Completed
from switchmark.hosts.recording import RecordingHost
from switchmark.observe.firmware import firmware_facts, memory_module

DMI = "/sys/class/dmi/id"
PCI = "/sys/bus/pci/devices/0000:03:00.1"


def module(*, size: int = 16384, locator: bytes = b"DIMM_A1", extended: int = 0) -> bytes:
    """Return a memory device of SMBIOS 2.8: 40 bytes, then strings that end in a zero each."""
    fixed = bytearray(40)
    fixed[0], fixed[1] = 17, len(fixed)
    fixed[0x0C:0x0E] = size.to_bytes(2, "little")
    fixed[0x10], fixed[0x12], fixed[0x1B] = 2, 0x1A, 2
    fixed[0x15:0x17] = (3200).to_bytes(2, "little")
    fixed[0x1C:0x20] = extended.to_bytes(4, "little")
    fixed[0x20:0x22] = (2933).to_bytes(2, "little")
    return bytes(fixed) + b"Bank 0\0" + locator + b"\0\0"


@pytest.mark.parametrize(
    ("structure", "mebibytes"),
    [
        (module(), 16384),
        (module(size=0x7FFF, extended=65536), 65536),
        (module(size=0x8000 | 2048), 2),
    ],
)
def test_a_memory_module_has_slot_type_size_speed_and_ranks(
    structure: bytes, mebibytes: int
) -> None:
    assert memory_module(structure) == {
        "slot": "DIMM_A1",
        "type": "DDR4",
        "size_mib": mebibytes,
        "speed_mts": 2933,
        "ranks": 2,
    }


@pytest.mark.parametrize(
    "structure", [b"", b"\x11\x28", module()[:30], module(size=0), module(size=0xFFFF)]
)
def test_an_empty_slot_is_no_module(structure: bytes) -> None:
    assert memory_module(structure) is None


def test_a_host_tells_its_firmware_and_its_nics() -> None:
    files: dict[str, Any] = {
        f"{DMI}/bios_vendor": b"Vendor\n",
        f"{DMI}/bios_version": b"1.2\n",
        f"{DMI}/bios_date": b"01/02/2024\n",
        f"{DMI}/product_name": b"R650\n",
        "/sys/firmware/dmi/entries/17-0/raw": module(),
        "/sys/devices/system/cpu/cpuidle/current_driver": b"intel_idle\n",
        "/sys/devices/system/cpu/cpu0/cpuidle/state0/name": b"POLL\n",
        f"{PCI}/class": b"0x020000\n",
        f"{PCI}/vendor": b"0x8086\n",
        f"{PCI}/device": b"0x1592\n",
        f"{PCI}/uevent": b"DRIVER=ice\nPCI_SLOT_NAME=0000:03:00.1\n",
        f"{PCI}/net/eth4/ifindex": b"4\n",
        "/sys/class/net/eth4/device/uevent": b"DRIVER=ice\n",
        "/sys/bus/pci/slots/7/address": b"0000:03:00\n",
        "/sys/bus/pci/devices/0000:00:1f.0/class": b"0x060100\n",
    }
    answers: dict[tuple[str, ...], bytes | Completed] = {
        ("ethtool", "-i", "eth4"): b"driver: ice\nfirmware-version: 4.40 0x8\n"
    }
    found = firmware_facts(RecordingHost(answers, files=files))
    assert found["bios"] == {"vendor": "Vendor", "version": "1.2", "date": "01/02/2024"}
    assert found["platform"] == {"vendor": None, "product": "R650"}
    assert [one["slot"] for one in found["memory_modules"]] == ["DIMM_A1"]
    assert found["power"] == {
        "idle_driver": "intel_idle",
        "idle_states": ["POLL"],
        "frequency_driver": None,
    }
    assert found["nics"] == [
        {
            "name": "eth4",
            "maker": "0x8086",
            "type": "0x1592",
            "driver": "ice",
            "firmware": "4.40 0x8",
            "address": "0000:03:00.1",
            "slot": "7",
        }
    ]


def test_a_virtual_machine_without_firmware_tells_nothing() -> None:
    uevent = {"/sys/class/net/eth0/device/uevent": b"DRIVER=virtio_net\n"}
    found = firmware_facts(RecordingHost(files=uevent))
    assert [found[name] for name in ("bios", "platform", "memory_modules", "power")] == [None] * 4
    assert found["nics"] == [{"name": "eth0", "driver": "virtio_net", "maker": None}]
