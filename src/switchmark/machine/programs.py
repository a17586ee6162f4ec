"""This module finds the programs that a plan runs, their versions, and the packages they are in."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

from switchmark.errors import Unavailable
from switchmark.machine.host import Host
from switchmark.machine.host_file import LOCAL, host_programs

__all__ = [
    "OTHER_SETTINGS",
    "TRAFFIC",
    "beside_python",
    "chosen_program",
    "find_program",
    "how_to_name",
    "installation_of",
    "probe_version",
    "program_beside",
    "program_in",
    "program_path",
    "program_variable",
    "require_programs",
]

OTHER_SETTINGS = ("traffic", "pcap-bridge", "qemu")
"""The programs that settings name, beside those of switches: each has the name of its switch."""

_OWN = "switchmark-"
TRAFFIC = f"{_OWN}traffic"
"""The traffic program."""

_MISSING = 'for it; do command -v "$it" >/dev/null || echo "$it"; done'


def setting_of(name: str) -> str:
    """Return the name by which the host file and the environment know a program that switchmark
    starts, such as `traffic` for `switchmark-traffic`."""
    return name.removeprefix(_OWN)


def program_variable(setting: str) -> str:
    """Return the environment variable that names a program by its setting, such as
    SWITCHMARK_PCAP_BRIDGE for `pcap-bridge`."""
    return f"SWITCHMARK_{re.sub(r'[^A-Za-z0-9]+', '_', setting_of(setting)).upper()}"


def chosen_program(name: str, setting: str | None = None) -> str | None:
    """Return the path of a program that does not depend on PATH, if it has one: first its
    environment variable counts, then the host file, then what `make setup` put beside this Python.
    """
    setting = setting or setting_of(name)
    named = os.environ.get(program_variable(setting)) or host_programs().get(setting)
    if named:
        return program_in(named, name)
    beside = beside_python() / name
    return str(beside) if beside.exists() else None


def find_program(name: str, setting: str | None = None) -> str | None:
    """Return the path of a program, or None where it is nowhere: the chosen one, or that on
    PATH."""
    return chosen_program(name, setting) or shutil.which(name)


def program_path(name: str, setting: str | None = None) -> str:
    """Return the path of a program as a plan has it: the bare name where it is nowhere, which a
    probe refuses."""
    return find_program(name, setting) or name


def program_in(path: str, name: str) -> str:
    """Return the path of a program in a build or an installation: of a folder what is in it, in its
    `bin` or in its `sbin`; else the path itself, whether or not it is there."""
    last = PurePath(name).name
    places = [Path(path, place) for place in (last, f"bin/{last}", f"sbin/{last}")]
    return next((str(place) for place in places if place.is_file()), path)


def program_beside(program: str, name: str, folders: Iterable[str] = ("bin", "sbin")) -> str:
    """Return the path of another program of an installation: beside the one that is known, or in
    these folders of what holds its folder. A bare name where it is nowhere, or where the known one
    is a bare name too."""
    here = PurePath(program).parent
    places = [Path(here, name), *(Path(here.parent, folder, name) for folder in folders)]
    files = (str(place) for place in places if place.is_file())
    return next(files, name) if "/" in program else name


def installation_of(program: str) -> str | None:
    """Return the folder that holds a program with all that it needs of its own, such as libraries:
    where it is in a `bin` or `sbin`, that which has it; None for a bare name."""
    here = PurePath(program).parent
    if "/" not in program:
        return None
    return str(here.parent if here.name in ("bin", "sbin") else here)


def how_to_name(setting: str) -> str:
    """Return how a user says where a program is that no package has, for a hint."""
    return (
        f'{program_variable(setting)}=/path/to/it, or {setting} = "/path/to/it" in '
        f"[hosts.{LOCAL}.programs] of ~/.config/switchmark/host.toml"
    )


def beside_python() -> Path:
    """Return the folder where `make setup` puts programs."""
    return Path(sys.executable).parent


def probe_version(
    host: Host, argv: tuple[str, ...], pattern: str, *, hint: str, missing: str | None = None
) -> tuple[str, ...]:
    """Return what the groups of a pattern match in what a program says of its version.

    Unavailable with `hint` where it is not there, which `missing` says in other words, or where it
    fails or says nothing of the kind.
    """
    try:
        done = host.run(argv)
    except Unavailable as error:
        told = (missing or f"{argv[0]} is not installed") + _on(host)
        raise Unavailable(told, hint=_hint_for(host, hint)) from error
    match = re.search(pattern, (done.stdout + done.stderr).decode(errors="replace"))
    if done.status or not match:
        raise Unavailable(f"{' '.join(argv)} does not tell its version", hint=hint)
    return match.groups()


def require_programs(host: Host, packages: Mapping[str, str]) -> None:
    """Raise Unavailable where a host lacks one of these programs, with the command that installs
    the Debian packages that they are in."""
    done = host.run(("sh", "-c", _MISSING, "sh", *packages))
    missing = done.stdout.decode(errors="replace").split()
    if missing:
        wanted = " ".join(dict.fromkeys(packages[name] for name in missing))
        are = "is" if len(missing) == 1 else "are"
        raise Unavailable(
            f"{', '.join(missing)} {are} not installed{_on(host)}",
            hint=f"apt-get install {wanted}",
        )


def _on(host: Host) -> str:
    return "" if host.name == LOCAL else f" on {host.name}"


def _hint_for(host: Host, hint: str) -> str:
    """Return a hint with the table of the host file that is about this host."""
    return hint.replace(f"[hosts.{LOCAL}.programs]", f"[hosts.{host.name}.programs]")
