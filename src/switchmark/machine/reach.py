"""This module reaches the hosts that the host file names, by ssh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

from switchmark.errors import UsageError
from switchmark.machine.carried import Carried
from switchmark.machine.host import Host, LocalHost
from switchmark.machine.host_file import LOCAL, host_entries, host_entry
from switchmark.machine.programs import TRAFFIC, chosen_program, program_path
from switchmark.machine.ssh import SshHost

__all__ = ["FileHosts", "reach"]


class FileHosts(Mapping[str, Host]):
    """This mapping has this host and, by name, those of the host file, each connected when it is
    first used. At the end of a `with` block their connections end."""

    def __init__(self) -> None:
        self._known: dict[str, Host] = {LOCAL: LocalHost()}

    def __getitem__(self, name: str) -> Host:
        if name not in self._known:
            self._known[name] = reach(name)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name == LOCAL or name in host_entries()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((LOCAL, *host_entries())))

    def __len__(self) -> int:
        return len({LOCAL, *host_entries()})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        for host in self._known.values():
            if isinstance(host, SshHost):
                host.close()


def reach(name: str, folder: Path | None = None) -> SshHost:
    """Return a host of the host file, which is connected when it is first used. The socket of its
    connection is in `folder`. UsageError where the file does not name it."""
    if name == LOCAL:
        raise UsageError("local is this host, which is not reached by ssh")
    entry = host_entry(name)
    there = {
        program_path(program, program): path
        for program, path in entry.programs.items()
        if "@" not in program
    }
    own = chosen_program(TRAFFIC)
    carried = Carried(own) if own and own not in there else None
    return SshHost(
        name,
        entry.address,
        entry.ssh_options,
        folder,
        there=there,
        carried=carried,
        cpus=entry.cpus,
    )
