"""Pins units to CPUs. Rules in order say which CPU is best for a unit.

This module knows no policy. Units come with the strongest claim first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.errors import UsageError
from switchmark.model.cpus import Cpu


@dataclass(frozen=True, slots=True)
class Unit:
    """A part, or a pair of parts in one process: the scheduler moves it as one."""

    ids: tuple[str, ...]
    """Of its parts."""
    kind: str
    """As of `CpuUser`."""
    polls: bool
    group: int | None
    """The index of its pair."""
    cores: int
    """How many CPUs it needs."""
    nodes: tuple[int, ...] = ()
    """The NUMA nodes of its NICs, as far as they are known."""

    @property
    def is_polling_switch(self) -> bool:
        return self.polls and self.kind == "switch"

    @property
    def never_yields(self) -> bool:
        """Say whether it polls and is not the traffic program, which yields."""
        return self.polls and self.kind in ("switch", "function")

    @property
    def can_yield(self) -> bool:
        """Say whether it can be asked to yield a CPU that it shares."""
        return self.polls and self.kind != "function"


class Pinning:
    """The CPUs, and the units that are pinned to each of them so far. `nodes` has the NUMA node of
    each NIC of the test, as far as it is known."""

    def __init__(self, cpus: Sequence[Cpu], needed: int, nodes: Sequence[int]) -> None:
        self._cpus = {cpu.id: cpu for cpu in cpus}
        self._units: dict[int, list[Unit]] = {cpu.id: [] for cpu in cpus}
        self.home = home_node(cpus, needed, nodes)

    def pin(self, unit: Unit) -> None:
        """Pin a unit to as many CPUs as it needs, each time to the best one."""
        for _ in range(unit.cores):
            best = min(self._cpus.values(), key=lambda cpu: self._against(RULES, cpu, unit))
            self._units[best.id].append(unit)

    def least_used(self, count: int, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """Return CPUs for a switch in the kernel, whose NICs are on `nodes`. RPS takes no isolated
        CPUs. UsageError if there are too few."""
        usable = [cpu for cpu in self._cpus.values() if not cpu.isolated]
        if count > len(usable):
            raise UsageError(
                f"the kernel can do the switch's work on {len(usable)} CPUs here, not on {count}",
                hint=f"--switch-cores {len(usable)}" if usable else "--switch-cores auto",
            )
        kernel = Unit((), "switch", False, None, count, nodes)
        usable.sort(key=lambda cpu: self._against(RULES_OF_THE_KERNEL, cpu, kernel))
        return tuple(sorted(cpu.id for cpu in usable[:count]))

    def units_on(self, cpu: int) -> Sequence[Unit]:
        """Return the units on a CPU: none on one that may not be used."""
        return self._units.get(cpu, ())

    def cpus_of(self, unit: Unit) -> set[int]:
        return {cpu for cpu, units in self._units.items() if unit in units}

    def shares(self, unit: Unit) -> bool:
        return any(len(self._units[cpu]) > 1 for cpu in self.cpus_of(unit))

    def doubts(self) -> tuple[str, ...]:
        doubts = []
        shared = [units for units in self._units.values() if len(units) > 1]
        if any(unit.polls for units in shared for unit in units):
            doubts.append("cores-shared")
        if any(
            sum(unit.polls for unit in units) > 2 or any(unit.never_yields for unit in units)
            for units in shared
        ):
            doubts.append("cores-overcommitted")
        if any(
            self._units[cpu.id] and self.units_on(sibling)
            for cpu in self._cpus.values()
            for sibling in cpu.siblings
        ):
            doubts.append("sibling-busy")
        return tuple(doubts)

    def _against(self, rules: Sequence[Rule], cpu: Cpu, unit: Unit) -> tuple[int, ...]:
        """Return what each rule has against a CPU. Of equals the lowest is best."""
        return (*(rule(self, cpu, unit) for rule in rules), cpu.id)


# --- rules for a CPU -------------------------------------------------------------------------

Rule = Callable[[Pinning, Cpu, Unit], int]
"""Returns how much speaks against a CPU for a unit: 0, or False, if nothing does."""


def has_a_sender(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    """A sender that is kept from its CPU sends late."""
    return any(other.kind == "sender" for other in pinning.units_on(cpu.id))


def has_a_polling_switch(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    """The switch is what is measured."""
    return any(other.is_polling_switch for other in pinning.units_on(cpu.id))


def has_a_unit_that_never_yields(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    """The others wait there until the kernel takes the CPU from it."""
    return any(other.never_yields for other in pinning.units_on(cpu.id))


def is_crowded(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    return len(pinning.units_on(cpu.id))


def has_the_other_end(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    """Two ends of a pair are both busy at the same time."""
    return any(other.group == unit.group is not None for other in pinning.units_on(cpu.id))


def is_far_from_its_nics(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    return bool(unit.nodes) and cpu.node not in unit.nodes


def is_off_the_home_node(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    return cpu.node != pinning.home


def has_a_busy_sibling(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    """A hyperthread slows its sibling down; the switch is slowed down last."""
    others = [other for sibling in cpu.siblings for other in pinning.units_on(sibling)]
    return 2 if any(other.is_polling_switch for other in others) else bool(others)


def is_not_isolated(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    return not cpu.isolated


def is_of_core_0(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    return _serves_interrupts(cpu)


RULES: tuple[Rule, ...] = (
    has_a_polling_switch,
    has_a_unit_that_never_yields,
    is_crowded,
    has_the_other_end,
    is_far_from_its_nics,
    is_off_the_home_node,
    has_a_busy_sibling,
    is_not_isolated,
    is_of_core_0,
)
"""What speaks against a CPU, the weightiest reason first."""

RULES_OF_THE_KERNEL: tuple[Rule, ...] = (has_a_sender, *RULES)
"""The same where the kernel is to do the work of a switch."""


# --- rules for the home node -----------------------------------------------------------------

NodeRule = Callable[[Sequence[Cpu], int], int]
"""Returns how well the CPUs of a NUMA node suit units that need so many."""


def holds_all(cpus: Sequence[Cpu], needed: int) -> int:
    return len(cpus) >= needed


def holds_all_isolated(cpus: Sequence[Cpu], needed: int) -> int:
    return isolated(cpus, needed) >= needed


def holds_all_on_physical_cores(cpus: Sequence[Cpu], needed: int) -> int:
    """Each on a core of its own, without hyperthreads that share one."""
    return len({min(cpu.id, *cpu.siblings) if cpu.siblings else cpu.id for cpu in cpus}) >= needed


def isolated(cpus: Sequence[Cpu], needed: int) -> int:
    return sum(cpu.isolated for cpu in cpus)


def is_without_core_0(cpus: Sequence[Cpu], needed: int) -> int:
    return not any(map(_serves_interrupts, cpus))


NODE_RULES: tuple[NodeRule, ...] = (
    holds_all,
    holds_all_isolated,
    holds_all_on_physical_cores,
    isolated,
    is_without_core_0,
)
"""What speaks for a node among those that have most of the test's NICs, the weightiest reason
first."""


def home_node(cpus: Sequence[Cpu], needed: int, nodes_of_nics: Sequence[int]) -> int:
    """Return the NUMA node for units that have no NIC, while there is a choice: that of most NICs,
    of these the best by the rules, of equals the lowest."""

    def merit(node: int) -> tuple[int, ...]:
        own = [cpu for cpu in cpus if cpu.node == node]
        return nodes_of_nics.count(node), *(rule(own, needed) for rule in NODE_RULES), -node

    return max({cpu.node for cpu in cpus}, key=merit)


def _serves_interrupts(cpu: Cpu) -> bool:
    """Say whether it is core 0, or a hyperthread of it, which serves the host's interrupts."""
    return 0 in (cpu.id, *cpu.siblings)
