"""The host file: the hosts, and the CPUs, NICs and programs of each host.

    # ~/.config/switchmark/host.toml
    [hosts.local.programs]
    vpp = "/opt/vpp/bin/vpp"
    "vpp@24.06" = "/opt/vpp-24.06/bin/vpp"

    [hosts.a]
    address = "root@a.example"      # as ssh takes it; the rest is in ssh's configuration
    cpus = "2-5"
    nics.uplink = {name = "eth1", cable = "a-b"}   # the NICs of one cable have its name
    nics.fast = {name = "eth2", cable = "a-b-2", pci = "0000:03:00.1"}   # DPDK opens it there

    [hosts.m.vm]        # a virtual machine that switchmark boots on first use
    cores = 2

The file is read on demand; `SWITCHMARK_HOST_FILE` names another file. This module knows no program.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from switchmark.errors import UsageError
from switchmark.model.addresses import pci_address
from switchmark.regular_file import read_regular

LOCAL = "local"
"""The name of this host."""

VARIABLE = "SWITCHMARK_HOST_FILE"
"""The environment variable that names another host file; `--host-file` sets it."""

_ADDRESS = re.compile(r"(ssh://)?[A-Za-z0-9_][A-Za-z0-9_.@:%\[\]/-]*")
_OPTION = re.compile(r"[A-Za-z0-9]+=[^\n]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_INTERFACE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,14}")
_MODEL = re.compile(r"[A-Za-z0-9-]+")
_SAFE = {
    "stricthostkeychecking": ("yes", "true", "ask"),
    "nohostauthenticationforlocalhost": ("no", "false"),
    "verifyhostkeydns": ("no", "false", "ask"),
    "knownhostscommand": ("none",),
}
"""The values of host key options that never accept an unknown key silently."""

_AT = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Nic(_Section):
    """A NIC of a host."""

    name: str
    """The name of its interface."""
    cable: str | None = None
    """The name of the cable that it shares with its peer."""
    pci: str | None = None
    """Its PCI address. Between two hosts, a switch on DPDK opens the NIC there, past the kernel."""
    driver: Literal["vfio-pci", "uio_pci_generic"] | None = None
    """The driver that hands it to such a switch; vfio-pci if there is none."""
    model: str | None = None
    """On a virtual machine, QEMU's name of its model."""

    @field_validator("pci")
    @classmethod
    def _whole(cls, pci: str | None) -> str | None:
        address = pci_address(pci) if pci is not None else None
        if pci is not None and address is None:
            raise ValueError(f"pci = '{pci}' is no PCI address: lspci -D prints them")
        return address


class MachineEntry(_Section):
    """A host that is a virtual machine of this host."""

    cores: int = Field(2, ge=1, le=64)
    """The number of its cores."""
    memory_mb: int = Field(1024, alias="memory-mb", ge=256)
    """Its memory, in MB."""
    image: str | None = None
    """The folder of the image that it boots; `make lab-image` builds one."""
    iommu: bool = False
    """Whether it has an IOMMU."""


class HostEntry(_Section):
    """A host that is reached by ssh, or a virtual machine."""

    address: str | None = None
    """The address for ssh; the name of the host if there is none."""
    ssh_options: tuple[str, ...] = Field((), alias="ssh-options")
    """Options of ssh, such as `Port=2222`."""
    cpus: str | None = None
    """The CPUs that runs may use; all by default."""
    nics: Mapping[str, Nic] = Field(default_factory=dict)
    """The NICs, by the user's names."""
    vm: MachineEntry | None = None
    """The properties of a virtual machine; None for a host that exists already."""
    programs: Mapping[str, str] = Field(default_factory=dict)
    """The path of each program, by the name of its switch or its own name; `NAME@VERSION` for
    versions."""

    @field_validator("programs")
    @classmethod
    def _absolute(cls, programs: Mapping[str, str]) -> Mapping[str, str]:
        paths = {name: str(Path(path).expanduser()) for name, path in programs.items()}
        for name, path in paths.items():
            if not Path(path).is_absolute():
                raise ValueError(f"{name} = '{path}' is no path that begins with / or ~")
        return paths

    @field_validator("address")
    @classmethod
    def _destination(cls, address: str | None) -> str | None:
        if address is not None and not _ADDRESS.fullmatch(address):
            raise ValueError(f"address = '{address}' is nothing that ssh connects to")
        return address

    @field_validator("ssh_options")
    @classmethod
    def _no_weaker(cls, options: tuple[str, ...]) -> tuple[str, ...]:
        for option in options:
            check_ssh_option(option)
        return options


class _File(_Section):
    hosts: Mapping[str, HostEntry] = Field(default_factory=dict)

    @field_validator("hosts")
    @classmethod
    def _named(cls, hosts: Mapping[str, HostEntry]) -> Mapping[str, HostEntry]:
        for name, entry in hosts.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"'{name}' is no name of a host: letters, digits, '-' and '_'")
            if name == LOCAL and (entry.address or entry.ssh_options or entry.vm):
                raise ValueError("local is this host, which is not reached by ssh")
            _check_machine(name, entry)
        return hosts


def check_ssh_option(option: str) -> None:
    """Raise ValueError for text that is not an option of ssh's configuration, or for an option that
    would let ssh accept an unknown host key."""
    if not _OPTION.fullmatch(option):
        raise ValueError(f"'{option}' is no option of ssh's configuration: NAME=VALUE")
    name, _, value = option.lower().partition("=")
    words_ = value.replace('"', " ").split()
    nowhere = name == "userknownhostsfile" and "/dev/null" in map(os.path.normpath, words_)
    if nowhere or (name in _SAFE and " ".join(words_) not in _SAFE[name]):
        raise ValueError(f"'{option}' would let anybody be that host")


def _check_machine(name: str, entry: HostEntry) -> None:
    """Raise ValueError for an invalid key: some need a virtual machine, some forbid it."""
    if entry.vm and (entry.address or entry.ssh_options):
        raise ValueError(f"{name} is a machine that is booted here: it has no address of yours")
    for nic in entry.nics.values():
        if nic.model and not entry.vm:
            raise ValueError(f"the NIC {nic.name} of {name} has a model, as those of machines do")
        if entry.vm and not _INTERFACE.fullmatch(nic.name):
            raise ValueError(f"'{nic.name}' is no name that an interface of {name} can be given")
        if nic.driver and not nic.pci:
            raise ValueError(f"the NIC {nic.name} of {name} has a driver, but no pci = its address")
        if nic.model and not _MODEL.fullmatch(nic.model):
            raise ValueError(f"model = '{nic.model}' is no NIC of QEMU's")


def host_file() -> Path:
    """Return the path of the host file, which need not exist."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base, "switchmark", "host.toml")


def host_programs() -> Mapping[str, str]:
    """Return the program paths of this host from the host file; empty if there is no file. Raise
    UsageError as `host_entries` does."""
    entries = host_entries()
    return entries[LOCAL].programs if LOCAL in entries else {}


def host_entry(name: str) -> HostEntry:
    """Return the host file's entry for a host; raise UsageError if there is none."""
    entries = host_entries()
    if name not in entries:
        names = [name_ for name_ in entries if name_ != LOCAL]
        raise UsageError(
            f"the host file {host_file()} names no host '{name}'{_nearest(name, names)}\n"
            f"  known: {', '.join(names) or 'none'}",
            hint=f'[hosts.{name}] with address = "..." in that file',
        )
    return entries[name]


def host_entries() -> Mapping[str, HostEntry]:
    """Return the hosts of the host file; empty if there is no file. Raise UsageError for a file
    that cannot be read, or that the user named and that does not exist."""
    path = host_file()
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        if VARIABLE in os.environ or not isinstance(error, FileNotFoundError):
            raise UsageError(f"the host file {path} cannot be read: {error.strerror}") from error
        return {}
    return _read(path, changed).hosts


def check_names(host_names: Iterable[str]) -> None:
    """Raise UsageError, with the closest name, for an unknown program in the host file."""
    names = list(host_names)
    for host, entry in host_entries().items():
        for program in entry.programs:
            name = program.partition("@")[0]
            if name not in names:
                raise UsageError(
                    f"{host_file()}: [hosts.{host}.programs] names '{program}', which is no "
                    f"program of switchmark's{_nearest(name, names)}\n  known: {', '.join(names)}"
                )


@cache
def _read(path: Path, changed: int) -> _File:
    """Return the content of a file that was last modified at `changed`."""
    try:
        text = read_regular(path).decode("utf-8-sig")
        return _File.model_validate(tomllib.loads(text))
    except OSError as error:
        raise UsageError(f"the host file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        position = _AT.search(str(error))
        line = position[1] if position and position[1] else len(text.splitlines())
        raise UsageError(f"{path}:{line}: {_AT.sub('', str(error))}") from error
    except ValidationError as error:
        raise UsageError(f"{path}: {_described(error)}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply for a host file") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error  # for example a number of 5000 digits


def _described(error: ValidationError) -> str:
    """Describe the first validation error."""
    first = error.errors(include_url=False)[0]
    keys = [str(word) for word in first["loc"]]
    if first["type"] != "extra_forbidden":
        wrong = first.get("ctx", {}).get("error", first["msg"])
        return f"[{'.'.join(keys)}]: {wrong}"
    # The path is hosts, NAME, then nics, NAME or vm; the keys below belong to these models.
    models: dict[int, type[BaseModel]] = {1: _File, 3: HostEntry, 4: MachineEntry, 5: Nic}
    inside = f" in [{'.'.join(keys[:-1])}]" if keys[:-1] else ""
    fields = models[len(keys)].model_fields.items()
    names = [field.alias or name for name, field in fields]
    return (
        f"unknown key '{keys[-1]}'{inside}{_nearest(keys[-1], names)}\n  known: {', '.join(names)}"
    )


def _nearest(word: str, names: list[str]) -> str:
    close = get_close_matches(word, names, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
