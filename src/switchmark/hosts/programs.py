"""The programs that a plan runs: their paths, their versions and their packages."""

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
"""The program that runs commands on other hosts and in virtual machines."""

TOOL = f"{_OWN}tool"
"""The program for those steps of a plan that no system command covers; it moves no traffic."""

OTHER_PROGRAMS = {
    "traffic": TRAFFIC,
    "agent": AGENT,
    "tool": TOOL,
    "pcap-bridge": f"{_OWN}pcap-bridge",
    "qemu": "qemu-system-x86_64",
}
"""The programs that settings name, by setting. The program of a switch is set by the switch's
name."""

USUAL_FOLDERS = ("", "bin", "sbin")
"""The subfolders of a build or an installation that may hold its program."""

_MISSING = 'for it; do command -v "$it" >/dev/null || echo "$it"; done'
_FILES = 'for it; do [ ! -f "$it" ] || printf "%s\\n" "$it"; done'


def setting_of(name: str) -> str:
    """Return the name of a switchmark program in the host file and the environment, such as
    `traffic` for `switchmark-traffic`."""
    return name.removeprefix(_OWN)


def program_variable(setting: str) -> str:
    """Return the environment variable for the program of a setting, such as SWITCHMARK_PCAP_BRIDGE
    for `pcap-bridge`."""
    return f"SWITCHMARK_{re.sub(r'[^A-Za-z0-9]+', '_', setting_of(setting)).upper()}"


def chosen_program(
    name: str, setting: str | None = None, folders: Sequence[str] = USUAL_FOLDERS
) -> str | None:
    """Return the path of a program that is chosen without PATH; None if there is none. The
    environment variable comes first, then the host file, then the program that `make setup`
    installed next to this Python."""
    setting = setting or setting_of(name)
    named = os.environ.get(program_variable(setting)) or host_programs().get(setting)
    if named:
        return program_in(named, name, folders)
    beside = beside_python() / name
    return str(beside) if beside.exists() else None


def find_program(name: str, setting: str | None = None) -> str | None:
    """Return the path of a program: the chosen program, otherwise the program on PATH; None if both
    are missing."""
    return chosen_program(name, setting) or shutil.which(name)


def program_path(name: str, setting: str | None = None) -> str:
    """Return the path of a program for a plan. A program that is not found keeps its bare name,
    which a probe refuses."""
    return find_program(name, setting) or name


def tool_program() -> str:
    """Return the path of `switchmark-tool`; SWITCHMARK_TOOL may name it."""
    return program_path(TOOL)


def named_program(host: str, setting: str) -> str | None:
    """Return the path of a program, or of its folder, from a host's entry in the host file; None if
    the entry names none."""
    entry = host_entries().get(host)
    return entry.programs.get(setting) if entry else None


def program_in(path: str, name: str, folders: Sequence[str] = USUAL_FOLDERS) -> str:
    """Return the path of a program in a build or an installation on this host: for a folder, the
    first file of that name in its `folders`; otherwise the path itself, which need not exist."""
    return next(filter(os.path.isfile, _places_in(path, name, folders)), path)


def program_on(host: Host, path: str, name: str, folders: Sequence[str] = USUAL_FOLDERS) -> str:
    """Return the path of a program in a build or an installation on any host (see `program_in`)."""
    places = _places_in(path, name, folders)
    files = _files_of(host, places)
    return next((place for place in places if place in files), path)


def programs_beside(
    host: Host, program: str, names: Iterable[str], folders: Iterable[str]
) -> Mapping[str, str]:
    """Return the paths of other files of an installation on a host, by name. Each is the first
    match in the program's own folder or in `folders` below that folder's parent. Missing files are
    left out; a bare program name gives an empty result."""
    if "/" not in program:
        return {}
    here = PurePath(program).parent
    within = [here, *(here.parent / folder for folder in folders)]
    places = {name: [str(folder / name) for folder in within] for name in names}
    files = _files_of(host, [place for candidates in places.values() for place in candidates])
    return {
        name: there[0]
        for name, candidates in places.items()
        if (there := [place for place in candidates if place in files])
    }


def _places_in(path: str, name: str, folders: Sequence[str]) -> list[str]:
    return [str(PurePath(path, folder, PurePath(name).name)) for folder in folders]


def _files_of(host: Host, places: Sequence[str]) -> frozenset[str]:
    """Return the paths that are files on a host; none if the host cannot check them."""
    if not places:
        return frozenset()
    completed = host.run(("sh", "-c", _FILES, "sh", *places))
    return frozenset(completed.stdout.decode(errors="surrogateescape").splitlines())


def installation_of(program: str) -> str | None:
    """Return the folder that holds a program and its own files, such as libraries: the parent of a
    `bin` or `sbin` folder. Return None for a bare name."""
    here = PurePath(program).parent
    if "/" not in program:
        return None
    return str(here.parent if here.name in ("bin", "sbin") else here)


def how_to_name(setting: str, path: str = "/path/to/it") -> str:
    """Return a hint how to name the path of a program that no package has."""
    return (
        f'{program_variable(setting)}={path}, or {setting} = "{path}" in '
        f"[hosts.{LOCAL}.programs] of ~/.config/switchmark/host.toml"
    )


def beside_python() -> Path:
    """Return the folder where `make setup` installs programs."""
    return Path(sys.executable).parent


def command_path(host: Host, name: str) -> str:
    """Return the path of a command on a host; its name if the host finds none."""
    completed = host.run(("sh", "-c", 'command -v "$1"', "sh", name))
    return completed.stdout.decode(errors="replace").strip() or name


def probe_version(
    host: Host,
    argv: tuple[str, ...],
    pattern: str,
    *,
    hint: str,
    missing: str | None = None,
    env: Mapping[str, str] = {},
) -> tuple[str, ...]:
    """Return the groups that a pattern matches in a program's version output.

    Raise Unavailable with `hint` if the program is not installed (`missing` replaces that message),
    or if it fails or prints no version. The second message includes the path, because PATH may lead
    to another program of that name.
    """
    try:
        completed = host.run(argv, env=env)
    except Unavailable as error:
        message = (missing or f"{argv[0]} is not installed") + on_other(host)
        raise Unavailable(message, hint=hint_for(host, hint)) from error
    match = re.search(pattern, (completed.stdout + completed.stderr).decode(errors="replace"))
    if completed.status or not match:
        command = " ".join((command_path(host, argv[0]), *argv[1:]))
        raise Unavailable(f"{command} does not tell its version", hint=hint_for(host, hint))
    return match.groups()


def require_programs(host: Host, packages: Mapping[str, str]) -> None:
    """Raise Unavailable if a host lacks one of these programs; the hint is the command that
    installs their Debian packages."""
    completed = host.run(("sh", "-c", _MISSING, "sh", *packages))
    missing = completed.stdout.decode(errors="replace").split()
    if missing:
        names = " ".join(dict.fromkeys(packages[name] for name in missing))
        are = "is" if len(missing) == 1 else "are"
        raise Unavailable(
            f"{', '.join(missing)} {are} not installed{on_other(host)}",
            hint=f"apt-get install {names}",
        )


def on_other(host: Host) -> str:
    """Return the words that name a host in a message; empty for the local host."""
    return "" if host.name == LOCAL else f" on {host.name}"


def hint_for(host: Host, hint: str) -> str:
    """Return a hint that names this host's table of the host file."""
    return hint.replace(f"[hosts.{LOCAL}.programs]", f"[hosts.{host.name}.programs]")
