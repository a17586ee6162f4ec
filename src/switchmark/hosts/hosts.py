"""The hosts of a command: the local host, the hosts of the host file, and the connections between
two of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from switchmark.errors import Unavailable
from switchmark.hosts.base import Host, boot_id
from switchmark.hosts.carried import Carried
from switchmark.hosts.host_file import LOCAL, host_entries, host_entry
from switchmark.hosts.local import LocalHost
from switchmark.hosts.machines import MachineHost, MachineRun
from switchmark.hosts.programs import (
    OTHER_PROGRAMS,
    TOOL,
    TRAFFIC,
    chosen_program,
    program_path,
)
from switchmark.hosts.socket_folders import new_folder
from switchmark.hosts.ssh import SshHost
from switchmark.model.topology import NOTHING, Between, HandedNic

NO_NICS = ("", "")
"""The ends of a network that joins two hosts and of which a run uses no NIC."""


class Hosts(Mapping[str, Host]):
    """A mapping from names to hosts: the local host, the hosts of the host file, and the `given`
    hosts.

    Each host of the host file is connected on first use. `close`, or the end of a `with` block,
    ends these connections and the virtual machines among the hosts; the caller closes the `given`
    hosts. A command has one of these and passes it down. `begin_run` starts the run that a virtual
    machine belongs to.
    """

    def __init__(
        self, begin_run: Callable[[], MachineRun], given: Mapping[str, Host] | None = None
    ) -> None:
        self._begin_run = begin_run
        self._given: Mapping[str, Host] = {LOCAL: LocalHost(), **(given or {})}
        self._known = dict(self._given)
        self._folder: Path | None = None

    def __getitem__(self, name: str) -> Host:
        if name not in self._known:
            self._known[name] = self._new(name)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in host_entries()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._known, *host_entries())))

    def __len__(self) -> int:
        return len({*self._known, *host_entries()})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections to hosts of the host file and stop their virtual machines. A later
        request connects again."""
        with ExitStack() as ending:
            if self._folder is not None:
                ending.callback(shutil.rmtree, self._folder, ignore_errors=True)
                self._folder = None
            for name in self._known.keys() - self._given.keys():
                ending.callback(self._known.pop(name).close)

    def begin(self, names: Iterable[str]) -> None:
        """Start to boot the virtual machines among these hosts, in parallel."""
        for host in (self[name] for name in names):
            host.begin()

    def between(self, names: Sequence[str], switch: str = "") -> Between:
        """Return what connects the hosts of a test of a switch, and the facts about each host;
        NOTHING for the local host alone. Raise Unavailable if no cable connects two hosts and none
        can be created."""
        if not names:
            return NOTHING
        planned = planned_between(names, switch)
        networks = {self[name].joined_by for name in names}
        joined = len(names) > 1 and len(networks) == 1 and networks != {""}
        cables = (NO_NICS,) if joined else planned.cables
        self.begin(names)
        boots = [boot_id(self[name]) for name in names]
        here = boot_id(self[LOCAL])
        if len(names) > 1 and not cables and {*boots} != {here}:
            raise Unavailable(
                f"nothing is known to join the hosts {names[0]} and {names[1]}, and a cable can be "
                "made between networks of this machine alone",
                hint="name their NICs in the host file, each with the one it is cabled to",
            )
        apart = frozenset(name for name, boot in zip(names, boots, strict=True) if boot != here)
        one_machine = len(names) > 1 and boots[0] == boots[1]
        return Between(
            cables,
            apart,
            one_machine,
            planned.emulated,
            self._programs(names),
            self._doubts(names, boots),
            planned.handed,
        )

    def _doubts(self, names: Sequence[str], boots: Sequence[str]) -> tuple[str, ...]:
        """Return the doubts of every trial on these hosts: virtual machines may share this
        computer, and their processors may be emulated."""
        here = boot_id(self[LOCAL])
        hosts = [self[name] for name in names]
        on_this = [boot == here or host.is_machine for host, boot in zip(hosts, boots, strict=True)]
        shared = len(names) > 1 and (all(on_this) or len({*boots}) == 1)
        emulated = any(host.emulated for host in hosts)
        return ("hosts-share-machine",) * shared + ("emulated",) * emulated

    def _programs(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the paths of the traffic program on far hosts, if this host has a chosen one."""
        program = chosen_program(TRAFFIC)
        reached = {name: self[name] for name in names}
        return {
            name: host.path_of(program) for name, host in reached.items() if program and host.is_far
        }

    def _new(self, name: str) -> Host:
        """Return a host of the host file, which connects on first use. Raise UsageError if the file
        does not name it."""
        entry = host_entry(name)
        there = {
            program_path(program, setting): entry.programs[setting]
            for setting, program in OTHER_PROGRAMS.items()
            if setting in entry.programs
        }
        programs = [chosen_program(program) for program in (TRAFFIC, TOOL)]
        lacking = [path for path in programs if path and path not in there]
        carried = Carried(*lacking) if lacking else None
        if entry.vm is not None:
            self._folder = self._folder or new_folder()
            return MachineHost(
                name, entry, self._begin_run, self._folder, there=there, carried=carried
            )
        return SshHost(
            name, entry.address, entry.ssh_options, there=there, carried=carried, cpus=entry.cpus
        )


def planned_between(names: Sequence[str], switch: str = "") -> Between:
    """Return what connects two hosts according to the host file alone: the NICs that name the same
    cable, those with the name of the switch first. For fewer than two hosts return NOTHING."""
    if len(names) < 2:
        return NOTHING
    entries = host_entries()
    if not all(name in entries for name in names):
        return Between(one_machine=True, doubts=("hosts-share-machine",))
    near, far = (
        [nic for _, nic in sorted(entries[name].nics.items(), key=lambda item: item[0] != switch)]
        for name in names
    )
    joined = {nic.cable: nic.name for nic in far if nic.cable is not None}
    pairs = tuple((nic.name, joined[nic.cable]) for nic in near if nic.cable in joined)
    handed = {
        (host, nic.name): HandedNic(nic.pci, nic.driver or "")
        for host in names
        for nic in entries[host].nics.values()
        if nic.cable is not None and nic.pci is not None
    }
    sockets = all(entries[name].vm for name in names)
    return Between(
        cables=pairs,
        one_machine=not pairs,
        emulated=": emulated, a socket between two QEMUs" * sockets,
        doubts=("hosts-share-machine",) * (sockets or not pairs),
        handed=handed,
    )
