"""This module gives seats: which unit gets which CPUs, and what speaks against one.

It knows no policy; units come with the strongest claim first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from switchmark.errors import UsageError
from switchmark.model.cpus import Cpu


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit is scheduled as one: a part, or a pair in one process. `nodes` are the NUMA nodes of
    its NICs, one for each that is known."""

    ids: tuple[str, ...]
    kind: str
    polls: bool
    group: int | None
    cores: int
    nodes: tuple[int, ...] = ()

    @property
    def is_polling_switch(self) -> bool:
        return self.polls and self.kind == "switch"

    @property
    def never_yields(self) -> bool:
        """Say whether it polls without being the traffic program, which yields."""
        return self.polls and self.kind in ("switch", "function")


class Table:
    """A table has the CPUs, and who is on each of them so far. `nodes` are the NUMA nodes of the
    test's NICs, one for each that is known."""

    def __init__(self, cpus: Sequence[Cpu], needed: int, nodes: Sequence[int]) -> None:
        self._cpus = {cpu.id: cpu for cpu in cpus}
        self._guests: dict[int, list[Unit]] = {cpu.id: [] for cpu in cpus}
        self._home = self._home_node(needed, nodes)

    def pin(self, unit: Unit) -> None:
        for _ in range(unit.cores):
            self._guests[min(self._guests, key=lambda cpu: self._cost(cpu, unit))].append(unit)

    def least_used(self, count: int, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """Return CPUs for what the kernel does of a switch's work, whose NICs are on `nodes`: those
        that nobody has, then those of who does not send, and none that is isolated, which RPS
        leaves out. UsageError if there are too few."""
        unit = Unit((), "switch", False, None, count, nodes)

        def cost(cpu: int) -> tuple[bool | int, ...]:
            sends = any(guest.kind == "sender" for guest in self._guests[cpu])
            return (sends, *self._cost(cpu, unit))

        usable = [cpu.id for cpu in self._cpus.values() if not cpu.isolated]
        if count > len(usable):
            raise UsageError(
                f"the kernel can do the switch's work on {len(usable)} CPUs here, not on {count}",
                hint=f"--switch-cores {len(usable)}" if usable else "--switch-cores auto",
            )
        return tuple(sorted(sorted(usable, key=cost)[:count]))

    def cpus_of(self, unit: Unit) -> set[int]:
        return {cpu for cpu, guests in self._guests.items() if unit in guests}

    def shares(self, unit: Unit) -> bool:
        return any(len(self._guests[cpu]) > 1 for cpu in self.cpus_of(unit))

    def doubts(self) -> tuple[str, ...]:
        doubts = []
        shared = [guests for guests in self._guests.values() if len(guests) > 1]
        if any(guest.polls for guests in shared for guest in guests):
            doubts.append("cores-shared")
        if any(
            sum(guest.polls for guest in guests) > 2 or any(guest.never_yields for guest in guests)
            for guests in shared
        ):
            doubts.append("cores-overcommitted")
        if any(self._guests[cpu] and self._sibling_use(cpu) for cpu in self._cpus):
            doubts.append("sibling-busy")
        return tuple(doubts)

    def _cost(
        self, cpu: int, unit: Unit
    ) -> tuple[bool, bool, int, bool, bool, bool, int, bool, bool, int]:
        """Return what speaks against a CPU, the weightiest reason first."""
        guests = self._guests[cpu]
        return (
            any(guest.is_polling_switch for guest in guests),
            any(guest.never_yields for guest in guests),
            len(guests),
            any(guest.group == unit.group is not None for guest in guests),
            bool(unit.nodes) and self._cpus[cpu].node not in unit.nodes,
            self._cpus[cpu].node != self._home,
            self._sibling_use(cpu),
            not self._cpus[cpu].isolated,
            self._is_core_0(cpu),
            cpu,
        )

    def _sibling_use(self, cpu: int) -> int:
        """Return 0 if no sibling is in use, 1 if one is, 2 if it is the switch that would be slowed
        down."""
        siblings = (self._guests.get(sibling, []) for sibling in self._cpus[cpu].siblings)
        guests = [guest for guests in siblings for guest in guests]
        return 2 if any(guest.is_polling_switch for guest in guests) else min(len(guests), 1)

    def _is_core_0(self, cpu: int) -> bool:
        return 0 in (cpu, *self._cpus[cpu].siblings)

    def _home_node(self, needed: int, nodes: Sequence[int]) -> int:
        """Return the NUMA node that has most NICs, else the one that holds everybody: best on
        isolated CPUs, then on cores of their own."""

        def merit(node: int) -> tuple[int, bool, bool, bool, int, bool, int]:
            cpus = [cpu for cpu in self._cpus.values() if cpu.node == node]
            cores = len({min(cpu.id, *cpu.siblings) if cpu.siblings else cpu.id for cpu in cpus})
            isolated = sum(cpu.isolated for cpu in cpus)
            return (
                nodes.count(node),
                len(cpus) >= needed,
                isolated >= needed,
                cores >= needed,
                isolated,
                not any(self._is_core_0(cpu.id) for cpu in cpus),
                -node,
            )

        return max({cpu.node for cpu in self._cpus.values()}, key=merit)
