"""Switch versions that are installed side by side: `NAME@VERSION` from the host file,
`NAME@/PATH` for the user's build, or `NAME@image:IMAGE` for the program of a container image.
`NAME:/PATH` is a switch that a file of the user describes.

Drivers know nothing of versions: the table copies a driver and binds the copy to a program. A
driver gets the content of a file and knows no path.
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from pathlib import PurePath

from switchmark.errors import Unavailable, UsageError
from switchmark.hosts.base import Host
from switchmark.hosts.host_file import LOCAL, host_entries, host_file, host_programs
from switchmark.hosts.images import ANY_ENGINE, ImageHost, find_image, image_asked
from switchmark.hosts.programs import (
    hint_for,
    how_to_name,
    named_program,
    on_other,
    program_in,
    program_on,
)
from switchmark.model.version import (
    FILE_SEPARATOR,
    VERSION_SEPARATOR,
    Version,
    name_parts,
    plain_name,
)
from switchmark.plugins import Table
from switchmark.regular_file import MIB, read_regular
from switchmark.switches.base import Switch, image_programs
from switchmark.switches.verified import verified

_SEPARATOR, _FILE = VERSION_SEPARATOR, FILE_SEPARATOR
_LARGEST = MIB
"""Larger than any description of a switch."""


class Switches(Table[Switch]):
    """The table of switches, which also finds versions: a copy of the driver, bound to the program
    of that version. UsageError for a version that is missing on this host."""

    def __getitem__(self, name: str) -> Switch:
        plain, separator, version = name_parts(name)
        switch = super().__getitem__(plain)
        if not separator:
            return switch
        if separator == _FILE:
            bound = copy.copy(_described(switch, version))
            bound.name = name
            return bound
        if refusal := _refusal(switch, version):
            raise refusal
        bound = copy.copy(switch)
        bound.name = name
        bound.image = image_asked(version)
        if bound.image is not None:
            bound.bound_to = switch.program
        elif path := _path(plain, version):
            bound.bound_to = program_in(path, switch.program, switch.program_folders)
        return bound

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or plain_name(name) not in set(self):
            return False
        return self.why_not(name) is None

    def why_not(self, name: str) -> UsageError | Unavailable | None:
        plain, separator, version = name_parts(name)
        if not separator or plain not in self:
            return super().why_not(name)
        if separator == _SEPARATOR:
            return _refusal(self[plain], version)
        try:
            _described(self[plain], version)
        except UsageError as refusal:
            return refusal
        return None

    @property
    def versions(self) -> tuple[str, ...]:
        """Return the names of all versions in the host file, `NAME@VERSION`."""
        return tuple(name for name in host_programs() if _SEPARATOR in name and name in self)


def _version(name: str) -> str:
    """Return the requested version or build of a switch; empty if there is none."""
    _, separator, version = name_parts(name)
    return version if separator == _SEPARATOR else ""


def _described(switch: Switch, path: str) -> Switch:
    """Return the switch that the file at a path describes. Raise UsageError if no file describes
    this switch, or if the file cannot be read."""
    name, choice = switch.name, switch.name + _FILE + path
    if not switch.described_by:
        raise UsageError(f"'{choice}': no file describes switch {name}", hint=f"--switch {name}")
    if not path.startswith("/"):
        raise UsageError(
            f"'{choice}' names no {switch.described_by}: give its absolute path",
            hint=f"--switch {name}{_FILE}{f'$PWD/{path}' if path else '/PATH'}",
        )
    try:
        return switch.described(read_regular(path, _LARGEST))
    except OSError as error:
        raise UsageError(f"'{choice}': {path} cannot be read: {error.strerror}") from error
    except ValueError as wrong:
        raise UsageError(f"'{choice}': {path} is no {switch.described_by}: {wrong}") from wrong


def probe_asked(switch: Switch, host: Host) -> Version:
    """Return the probed version of a switch, with its verification state. Unavailable if the
    program reports a different version than requested."""
    if switch.image is not None:
        return _probe_image(switch, host)
    switch = _on(host, switch)
    try:
        version = switch.probe(host)
    except Unavailable as error:
        raise _misnamed(host, switch) or error from error
    plain, requested = plain_name(switch.name), _version(switch.name)
    if requested and "/" not in requested and not _is_version(requested, version.text):
        raise Unavailable(
            f"{switch.path} is {plain} {version.text}, not {switch.name}",
            hint=f'enter its real version in {host_file()}: "{plain}@{_number(version.text)}"',
        )
    state, less = verified(plain, switch.port_kinds, version.mode)
    return replace(version, verified=state, verified_ports=less, program=switch.path)


def _probe_image(switch: Switch, host: Host) -> Version:
    """Return the probed version of the program in an image, with its verification state.
    Unavailable if the host has no such image, or if the image lacks the program."""
    assert switch.image is not None
    plain, image = plain_name(switch.name), find_image(host, switch.image)
    inside, names = ImageHost(host, image), (switch.program, *switch.also_called)
    hint = f"an image of {plain} has {' or '.join(names)}; ENV PATH of an image names its folder"
    try:
        program = inside.program(*names)
        if program is None:
            raise Unavailable(f"it has no {' and no '.join(names)}")
        bound = copy.copy(switch)
        bound.bound_to = program
        version = bound.probe(inside)
    except Unavailable as error:
        raise Unavailable(
            f"the image {image.name} of {image.engine}: {error.message}", hint=hint
        ) from error
    state, less = verified(plain, switch.port_kinds, version.mode)
    programs = image_programs(switch, program, version.beside)
    image = replace(image, programs=programs)
    return replace(version, verified=state, verified_ports=less, program=program, image=image)


def _misnamed(host: Host, switch: Switch) -> Unavailable | None:
    """Return why a named path is not the program of a switch: the path does not exist, or the
    folder lacks the program. None if neither applies."""
    folders = switch.program_folders
    if "/" not in switch.path or switch.path == switch.program:
        return None
    if not host.exists(switch.path):
        path, setting = f"/path/to/{PurePath(switch.program).name}", plain_name(switch.name)
        if is_build(switch):
            hint = f"--switch {setting}{_SEPARATOR}{path}"
        elif switch.bound_to:
            hint = f'"{switch.name}" = "{path}" in [hosts.{LOCAL}.programs] of {host_file()}'
        else:
            hint = how_to_name(setting)
        why = f"{switch.name}: there is no {switch.path}{on_other(host)}"
        return Unavailable(why, hint=hint_for(host, hint))
    if switch.program_file:
        return None
    if host.run(("test", "-d", switch.path)).status:
        return None
    *some, last = (str(PurePath(folder, PurePath(switch.program).name)) for folder in folders)
    hint = f"build it there, or name the program: {how_to_name(plain_name(switch.name))}"
    return Unavailable(
        f"{switch.path}{on_other(host)} is a folder without {', '.join(some)} or {last}",
        hint=hint_for(host, hint),
    )


def _on(host: Host, switch: Switch) -> Switch:
    """Return a switch bound to its program on a host: the path that the host file names for that
    host, or the path in the switch's name, searched on that host. Without either, use the program's
    path on this host. Unavailable for a version that only another host has."""
    requested = _version(switch.name)
    named = requested if requested.startswith("/") else named_program(host.name, switch.name)
    if switch.program and named and host.name != LOCAL:
        bound = copy.copy(switch)
        bound.bound_to = program_on(host, named, switch.program, switch.program_folders)
        return bound
    if requested and not switch.bound_to:
        raise Unavailable(
            f"the host file {host_file()} has no '{switch.name}' for the host {host.name}",
            hint=f'"{switch.name}" = "/path/to/its/program" in [hosts.{host.name}.programs] there',
        )
    return switch


def is_build(switch: Switch) -> bool:
    """Return whether a switch is a build of the user, which its version cannot distinguish from
    other builds."""
    return _version(switch.name).startswith("/")


def _path(plain: str, version: str) -> str:
    """Return this host's path for a version; empty if only other hosts have it."""
    if version.startswith("/"):
        return version
    return host_programs().get(plain + _SEPARATOR + version, "")


def _refusal(switch: Switch, version: str) -> UsageError | None:
    """Return why a switch has no such version; None if it has."""
    choice = switch.name + _SEPARATOR + version
    if not switch.program:
        return UsageError(
            f"'{choice}': {switch.name} is not a separate program, so a host has only one "
            "version of it: see 'switchmark list switches'",
            hint=f"--switch {switch.name}" + (f"{_FILE}/PATH" if switch.described_by else ""),
        )
    if version.startswith("/"):
        return None
    if image := image_asked(version):
        return _image_refusal(switch, image.name)
    if "/" in version or not version:
        return UsageError(
            f"'{choice}' names no version: give a version from the host file, or the absolute "
            "path of a program or of its folder",
            hint=f"--switch {switch.name}{_SEPARATOR}$PWD/{version.removeprefix('./')}",
        )
    everywhere = dict.fromkeys(name for entry in host_entries().values() for name in entry.programs)
    versions = [name for name in everywhere if name.startswith(switch.name + _SEPARATOR)]
    if choice in versions:
        return None
    if versions:
        why = f"the host file {host_file()} has no '{choice}'\n  it has {', '.join(versions)}"
    elif host_file().exists():
        why = f"the host file {host_file()} has no '{choice}': it names no version of {switch.name}"
    else:
        why = (
            f"'{choice}': the host file {host_file()}, which would name its program, does not exist"
        )
    entry = f'"{choice}" = "/path/to/its/program" in [hosts.local.programs] there'
    return UsageError(
        why, hint=f"{entry}, or --switch {switch.name}{_SEPARATOR}/path/to/its/program"
    )


def _image_refusal(switch: Switch, image: str) -> UsageError | None:
    """Return why a switch cannot come from an image; None if it can."""
    choice = f"{switch.name}{_SEPARATOR}{ANY_ENGINE}:"
    if switch.program_file:
        return UsageError(
            f"'{choice}{image}': {switch.name} is a folder, and the client that controls it reads "
            "this folder on the host",
            hint=f"--switch {switch.name}{_SEPARATOR}/path/to/its/folder",
        )
    if not image or image.startswith("-"):
        return UsageError(f"'{choice}{image}' names no image", hint=f"--switch {choice}IMAGE")
    return None


def _is_version(requested: str, reported: str) -> bool:
    """Return whether a version matches the requested version or series: 22.11.5 matches 22.11,
    26.10-rc0 matches 26.10."""
    requested, reported = requested.removeprefix("v"), reported.removeprefix("v")
    return re.match(rf"{re.escape(requested)}(?![A-Za-z0-9])", reported) is not None


def _number(reported: str) -> str:
    """Return the first word of a reported version."""
    return reported.split()[0] if reported else ""
