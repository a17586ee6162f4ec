"""The host file says what this host has and where: so far the paths of programs, by name.

    # ~/.config/switchmark/host.toml
    [hosts.local.programs]
    vpp = "/opt/vpp/bin/vpp"
    "vpp@24.06" = "/opt/vpp-24.06/bin/vpp"

It is read when it is asked for, by `SWITCHMARK_HOST_FILE` if that is set. This module knows no
program.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from switchmark.errors import UsageError

__all__ = ["VARIABLE", "check_names", "host_file", "host_programs"]

VARIABLE = "SWITCHMARK_HOST_FILE"
"""The environment variable that names another host file: what `--host-file` sets."""

_AT = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Host(_Section):
    programs: Mapping[str, str] = Field(default_factory=dict)
    """The path of each program, by the name of its switch or its own; `NAME@VERSION` for more."""

    @field_validator("programs")
    @classmethod
    def _absolute(cls, programs: Mapping[str, str]) -> Mapping[str, str]:
        paths = {name: str(Path(path).expanduser()) for name, path in programs.items()}
        for name, path in paths.items():
            if not Path(path).is_absolute():
                raise ValueError(f"{name} = '{path}' is no path that begins with / or ~")
        return paths


class _Hosts(_Section):
    local: _Host = Field(default_factory=_Host)


class _File(_Section):
    hosts: _Hosts = Field(default_factory=_Hosts)


def host_file() -> Path:
    """Return the path of the host file, whether or not it is there."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base, "switchmark", "host.toml")


def host_programs() -> Mapping[str, str]:
    """Return the paths of programs that the host file names; none where it is not there. UsageError
    for one that cannot be read, or that was asked for and is not there."""
    path = host_file()
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        if VARIABLE in os.environ or not isinstance(error, FileNotFoundError):
            raise UsageError(f"the host file {path} cannot be read: {error.strerror}") from error
        return {}
    return _read(path, changed).hosts.local.programs


def check_names(known: Iterable[str]) -> None:
    """Raise UsageError for a program in the host file that nobody looks for, with the nearest."""
    names = list(known)
    for written in host_programs():
        name = written.partition("@")[0]
        if name not in names:
            raise UsageError(
                f"{host_file()}: [hosts.local.programs] names '{written}', which is no program of "
                f"switchmark's{_nearest(name, names)}\n  known: {', '.join(names)}"
            )


@cache
def _read(path: Path, changed: int) -> _File:
    """Return what a file holds that was last `changed` then."""
    try:
        return _File.model_validate(tomllib.loads(path.read_text("utf-8-sig")))
    except OSError as error:
        raise UsageError(f"the host file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text") from error
    except tomllib.TOMLDecodeError as error:
        at = _AT.search(str(error))
        line = at[1] if at and at[1] else len(path.read_text("utf-8-sig").splitlines())
        raise UsageError(f"{path}:{line}: {_AT.sub('', str(error))}") from error
    except ValidationError as error:
        raise UsageError(f"{path}: {_told(error)}") from error


def _told(error: ValidationError) -> str:
    """Say what is wrong with the first thing that is."""
    first = error.errors(include_url=False)[0]
    where = [str(word) for word in first["loc"]]
    if first["type"] != "extra_forbidden":
        wrong = first.get("ctx", {}).get("error", first["msg"])
        return f"[{'.'.join(where)}]: {wrong}"
    model: type[BaseModel] = _File
    for word in where[:-1]:
        kind = model.model_fields[word].annotation
        assert isinstance(kind, type) and issubclass(kind, BaseModel)
        model = kind
    inside = f" in [{'.'.join(where[:-1])}]" if where[:-1] else ""
    known = list(model.model_fields)
    return (
        f"unknown key '{where[-1]}'{inside}{_nearest(where[-1], known)}"
        f"\n  known: {', '.join(known)}"
    )


def _nearest(word: str, known: list[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
