"""The hosts of a run: this one, those of the host file, and what is between two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from switchmark.errors import Unavailable
from switchmark.machine.facts import boot_id
from switchmark.machine.host import Host
from switchmark.machine.host_file import host_entries
from switchmark.machine.programs import TRAFFIC, chosen_program
from switchmark.machine.reach import FileHosts
from switchmark.machine.ssh import SshHost
from switchmark.model.between import NOTHING, Between
from switchmark.model.plan import HOST

__all__ = ["Hosts"]


class Hosts(FileHosts):
    """This mapping has, besides those of the host file, the hosts that are `given`, which are
    closed by whoever gives them."""

    def __init__(self, given: Mapping[str, Host] | None = None) -> None:
        super().__init__()
        self._given = given or {}
        self._known |= self._given

    def __contains__(self, name: object) -> bool:
        return name in self._known or super().__contains__(name)

    def close(self) -> None:
        """End the connections to hosts of the host file."""
        for name, host in self._known.items():
            if isinstance(host, SshHost) and name not in self._given:
                host.close()

    def planned(self, names: Sequence[str]) -> Between:
        """Return what the host file says to be between two hosts, which are not asked: the NICs
        that name the same cable."""
        entries = host_entries()
        if not all(name in entries for name in names):
            return Between(one_machine=True)
        near, far = (entries[name].nics.values() for name in names)
        joined = {nic.cable: nic.name for nic in far if nic.cable is not None}
        pairs = tuple((nic.name, joined[nic.cable]) for nic in near if nic.cable in joined)
        return Between(cables=pairs, one_machine=not pairs)

    def between(self, names: Sequence[str]) -> Between:
        """Return what is between two hosts; nothing where there are none. Unavailable where no
        cable joins them, and none can be made."""
        if not names:
            return NOTHING
        cables = self.planned(names).cables
        boots = [boot_id(self[name]) for name in names]
        here = boot_id(self[HOST.host])
        if not cables and {*boots} != {here}:
            raise Unavailable(
                f"nothing is known to join the hosts {names[0]} and {names[1]}, and a cable can be "
                "made between networks of this machine alone",
                hint="name their NICs in the host file, each with the one it is cabled to",
            )
        apart = (name for name, boot in zip(names, boots, strict=True) if boot != here)
        return Between(cables, frozenset(apart), boots[0] == boots[1], self._programs(names))

    def _programs(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return where hosts have the traffic program, if it is not where it is here."""
        own = chosen_program(TRAFFIC)
        reached = {name: self[name] for name in names}
        return {
            name: host.path_of(own)
            for name, host in reached.items()
            if own and isinstance(host, SshHost)
        }
