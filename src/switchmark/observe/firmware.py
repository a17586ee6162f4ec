"""Facts about the firmware, the power management and the NICs of a host: the report items of RFC
8204, section 3.3.

A virtual machine often has none of them. Unreadable values are None.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from switchmark.errors import SwitchmarkError
from switchmark.hosts.base import Host

_DMI = "/sys/class/dmi/id"
_MODULES = "/sys/firmware/dmi/entries/17-*/raw"
_CPU = "/sys/devices/system/cpu"
_IDLE_DRIVER = f"{_CPU}/cpuidle/current_driver"
_IDLE_STATES = f"{_CPU}/cpu0/cpuidle/state*/name"
_FREQUENCY_DRIVER = f"{_CPU}/cpu0/cpufreq/scaling_driver"
_PCI = "/sys/bus/pci/devices"
_SLOTS = "/sys/bus/pci/slots/*/address"
_INTERFACES = (f"{_PCI}/*/net/*/ifindex", f"{_PCI}/*/virtio*/net/*/ifindex")
_NETWORK = "0x02"
"""The class of network controllers, as PCI devices begin it."""

_MEMORY_TYPES = {
    0x18: "DDR3",
    0x1A: "DDR4",
    0x1D: "LPDDR3",
    0x1E: "LPDDR4",
    0x22: "DDR5",
    0x23: "LPDDR5",
}
"""Types of memory in a memory device of SMBIOS (DMTF DSP0134, section 7.18.2)."""


def firmware_facts(host: Host) -> dict[str, Any]:
    """Return the facts about a host's firmware and NICs, as values for JSON: `bios`,
    `platform`, `memory_modules`, `power`, `nics`. Unknown facts are None."""
    names = ("bios_vendor", "bios_version", "bios_date", "sys_vendor", "product_name")
    single = [f"{_DMI}/{name}" for name in names]
    content = host.read_all(*single, _IDLE_DRIVER, _IDLE_STATES, _FREQUENCY_DRIVER, _MODULES)
    texts = {
        path: data.decode(errors="replace").strip()
        for path, data in content.items()
        if not path.endswith("/raw")
    }
    bios_vendor, version, date, maker, product = (texts.get(path) or None for path in single)
    raw = (data for path, data in sorted(content.items()) if path.endswith("/raw"))
    states = [text for path, text in sorted(texts.items()) if path.endswith("/name")]
    drivers = [texts.get(path) or None for path in (_IDLE_DRIVER, _FREQUENCY_DRIVER)]
    return {
        "bios": _or_none({"vendor": bios_vendor, "version": version, "date": date}),
        "platform": _or_none({"vendor": maker, "product": product}),
        "memory_modules": [module for data in raw if (module := memory_module(data))] or None,
        "power": _or_none(
            {
                "idle_driver": None if drivers[0] == "none" else drivers[0],
                "idle_states": states or None,
                "frequency_driver": drivers[1],
            }
        ),
        "nics": nic_facts(host),
    }


def memory_module(structure: bytes) -> dict[str, Any] | None:
    """Return a memory module from a memory device of SMBIOS (DSP0134, section 7.18); None for an
    empty slot or a short structure."""
    if len(structure) < 0x17 or len(structure) < structure[1]:
        return None
    fixed, strings = structure[: structure[1]], structure[structure[1] :].split(b"\0")

    def word(offset: int, size: int = 2) -> int:
        return int.from_bytes(fixed[offset : offset + size], "little")

    size = word(0x0C)
    if size in (0, 0xFFFF):
        return None
    mebibytes = word(0x1C, 4) if size == 0x7FFF else size
    if size != 0x7FFF and size & 0x8000:
        mebibytes = (size & 0x7FFF) // 1024
    named = fixed[0x10]
    return {
        "slot": strings[named - 1].decode(errors="replace").strip() if named else None,
        "type": _MEMORY_TYPES.get(fixed[0x12]),
        "size_mib": mebibytes,
        "speed_mts": word(0x20) or word(0x15) or None,
        "ranks": (fixed[0x1B] & 0xF if len(fixed) > 0x1B else 0) or None,
    }


def nic_facts(host: Host) -> list[dict[str, Any]]:
    """Return the NICs of a host: interface, maker and type as PCI numbers, driver, firmware, PCI
    address, and the slot on the board."""
    content = host.read_all(
        *(f"{_PCI}/*/{name}" for name in ("class", "vendor", "device", "uevent")),
        *_INTERFACES,
        "/sys/class/net/*/device/uevent",
        _SLOTS,
    )
    texts = {path: data.decode(errors="replace").strip() for path, data in content.items()}
    slots = {
        text: path.split("/")[-2] for path, text in texts.items() if path.startswith(_SLOTS[:18])
    }
    by_address = {
        path.split("/")[5]: path.split("/")[-2] for path in texts if path.endswith("/ifindex")
    }
    nics: list[dict[str, Any]] = []
    for path, text in sorted(texts.items()):
        if not (path.startswith(_PCI) and path.endswith("/class") and text.startswith(_NETWORK)):
            continue
        address = path.split("/")[-2]
        folder = f"{_PCI}/{address}"
        name = by_address.get(address)
        nics.append(
            {
                "name": name,
                "maker": texts.get(f"{folder}/vendor") or None,
                "type": texts.get(f"{folder}/device") or None,
                "driver": _pairs(texts.get(f"{folder}/uevent", "")).get("DRIVER"),
                "firmware": _firmware(host, name),
                "address": address,
                "slot": slots.get(address.rpartition(".")[0]),
            }
        )
    for path, text in sorted(texts.items()):
        name = path.split("/")[4]
        if path.startswith("/sys/class/net/") and name not in by_address.values():
            nics.append({"name": name, "driver": _pairs(text).get("DRIVER"), "maker": None})
    return nics


def _firmware(host: Host, interface: str | None) -> str | None:
    """Return the version of a NIC's firmware; None without an interface or without `ethtool`."""
    if interface is None:
        return None
    with suppress(SwitchmarkError):
        printed = host.run(("ethtool", "-i", interface)).stdout.decode(errors="replace")
        return _pairs(printed, ": ").get("firmware-version") or None
    return None


def _pairs(text: str, separator: str = "=") -> dict[str, str]:
    lines = (line.partition(separator) for line in text.splitlines())
    return {key.strip(): value.strip() for key, separated, value in lines if separated}


def _or_none(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the facts, or None if none of them is known."""
    return dict(facts) if any(value is not None for value in facts.values()) else None
