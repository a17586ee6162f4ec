"""This module finds the programs that a plan runs, their versions, and the packages they are in."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host
from switchmark.hosts.host_file import LOCAL, host_entries, host_programs

_OWN = "switchmark-"
TRAFFIC = f"{_OWN}traffic"
"""The traffic program."""

AGENT = f"{_OWN}agent"
"""The program that runs commands where processes of this host cannot be."""

TOOL = f"{_OWN}tool"
"""The program for what plans do that no command of the system does: it moves no traffic."""

OTHER_PROGRAMS = {
    "traffic": TRAFFIC,
    "agent": AGENT,
    "tool": TOOL,
    "pcap-bridge": f"{_OWN}pcap-bridge",
    "qemu": "qemu-system-x86_64",
}
"""The programs that settings name, apart from those of switches, by setting: the program of a
switch has the switch's name."""

USUAL_FOLDERS = ("", "bin", "sbin")
"""The folders of a build or an installation that its program is looked for in."""

_MISSING = 'for it; do command -v "$it" >/dev/null || echo "$it"; done'
_FILES = 'for it; do [ ! -f "$it" ] || printf "%s\\n" "$it"; done'


def setting_of(name: str) -> str:
    """Return the name by which the host file and the environment know a program that switchmark
    starts, such as `traffic` for `switchmark-traffic`."""
    return name.removeprefix(_OWN)


def program_variable(setting: str) -> str:
    """Return the environment variable that names a program by its setting, such as
    SWITCHMARK_PCAP_BRIDGE for `pcap-bridge`."""
    return f"SWITCHMARK_{re.sub(r'[^A-Za-z0-9]+', '_', setting_of(setting)).upper()}"


def chosen_program(
    name: str, setting: str | None = None, folders: Sequence[str] = USUAL_FOLDERS
) -> str | None:
    """Return the path of a program that does not depend on PATH, if it has one: first its
    environment variable counts, then the host file, then what `make setup` put beside this Python.
    """
    setting = setting or setting_of(name)
    named = os.environ.get(program_variable(setting)) or host_programs().get(setting)
    if named:
        return program_in(named, name, folders)
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


def tool_program() -> str:
    """Return the path of `switchmark-tool`, which SWITCHMARK_TOOL may name."""
    return program_path(TOOL)


def named_program(host: str, setting: str) -> str | None:
    """Return the path, of a program or of a folder with it, that the host file names for a host;
    None where it names none."""
    entry = host_entries().get(host)
    return entry.programs.get(setting) if entry else None


def program_in(path: str, name: str, folders: Sequence[str] = USUAL_FOLDERS) -> str:
    """Return the path of a program in a build or an installation of this host: where the path is a
    folder, the file of that name in the first of its folders that has one; else the path itself,
    whether or not it is there."""
    return next(filter(os.path.isfile, _places_in(path, name, folders)), path)


def program_on(host: Host, path: str, name: str, folders: Sequence[str] = USUAL_FOLDERS) -> str:
    """Return the path of a program in a build or an installation of any host, as `program_in` does
    of this one."""
    places = _places_in(path, name, folders)
    files = _files_of(host, places)
    return next((place for place in places if place in files), path)


def programs_beside(
    host: Host, program: str, names: Iterable[str], folders: Iterable[str]
) -> Mapping[str, str]:
    """Return the paths of other files of an installation on a host, by name: of each the first that
    is there, next to the program that is known or in these folders of what holds its folder. What
    is nowhere is left out; where the program is a bare name that is everything."""
    if "/" not in program:
        return {}
    here = PurePath(program).parent
    within = [here, *(here.parent / folder for folder in folders)]
    places = {name: [str(folder / name) for folder in within] for name in names}
    files = _files_of(host, [place for each in places.values() for place in each])
    return {
        name: there[0]
        for name, each in places.items()
        if (there := [place for place in each if place in files])
    }


def _places_in(path: str, name: str, folders: Sequence[str]) -> list[str]:
    return [str(PurePath(path, folder, PurePath(name).name)) for folder in folders]


def _files_of(host: Host, places: Sequence[str]) -> frozenset[str]:
    """Return those of some paths that are files of a host; none of a host that cannot tell."""
    if not places:
        return frozenset()
    done = host.run(("sh", "-c", _FILES, "sh", *places))
    return frozenset(done.stdout.decode(errors="surrogateescape").splitlines())


def installation_of(program: str) -> str | None:
    """Return the folder that holds a program with all that it needs of its own, such as libraries:
    where it is in a `bin` or `sbin`, that which has it; None for a bare name."""
    here = PurePath(program).parent
    if "/" not in program:
        return None
    return str(here.parent if here.name in ("bin", "sbin") else here)


def how_to_name(setting: str, path: str = "/path/to/it") -> str:
    """Return how a user says where a program is that no package has, for a hint."""
    return (
        f'{program_variable(setting)}={path}, or {setting} = "{path}" in '
        f"[hosts.{LOCAL}.programs] of ~/.config/switchmark/host.toml"
    )


def beside_python() -> Path:
    """Return the folder where `make setup` puts programs."""
    return Path(sys.executable).parent


def command_path(host: Host, name: str) -> str:
    """Return where a host finds a program that is called by a name; the name where it finds
    none."""
    done = host.run(("sh", "-c", 'command -v "$1"', "sh", name))
    return done.stdout.decode(errors="replace").strip() or name


def probe_version(
    host: Host,
    argv: tuple[str, ...],
    pattern: str,
    *,
    hint: str,
    missing: str | None = None,
    env: Mapping[str, str] = {},
) -> tuple[str, ...]:
    """Return what the groups of a pattern match in what a program says of its version.

    Unavailable with `hint` where it is not there, which `missing` says in other words, or where it
    fails or says nothing of the kind: then with its path, as PATH may lead to a namesake.
    """
    try:
        done = host.run(argv, env=env)
    except Unavailable as error:
        told = (missing or f"{argv[0]} is not installed") + on_other(host)
        raise Unavailable(told, hint=hint_for(host, hint)) from error
    match = re.search(pattern, (done.stdout + done.stderr).decode(errors="replace"))
    if done.status or not match:
        asked = " ".join((command_path(host, argv[0]), *argv[1:]))
        raise Unavailable(f"{asked} does not tell its version", hint=hint_for(host, hint))
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
            f"{', '.join(missing)} {are} not installed{on_other(host)}",
            hint=f"apt-get install {wanted}",
        )


def on_other(host: Host) -> str:
    """Return the words that name a host in a message; none for this one."""
    return "" if host.name == LOCAL else f" on {host.name}"


def hint_for(host: Host, hint: str) -> str:
    """Return a hint with the table of the host file that is about this host."""
    return hint.replace(f"[hosts.{LOCAL}.programs]", f"[hosts.{host.name}.programs]")
