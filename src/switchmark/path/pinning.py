"""Pins units to CPUs by ordered rules for the best CPU.

This module knows no policy. The caller pins the units with the highest priority first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from switchmark.errors import UsageError
from switchmark.model.cpus import Cpu


@dataclass(frozen=True, slots=True)
class Unit:
    """A part, or a pair of parts in one process, which the scheduler moves as a whole."""

    ids: tuple[str, ...]
    """The ids of its parts."""
    kind: str
    """The kind of CPU user (`CpuUser`)."""
    polls: bool
    group: int | None
    """The index of its pair."""
    cores: int
    """The number of CPUs that it needs."""
    nodes: tuple[int, ...] = ()
    """The NUMA nodes of its NICs, as far as known."""

    @property
    def is_polling_switch(self) -> bool:
        return self.polls and self.kind == "switch"

    @property
    def never_yields(self) -> bool:
        """Return whether the unit polls and, unlike the traffic program, never yields."""
        return self.polls and self.kind in ("switch", "function")

    @property
    def can_yield(self) -> bool:
        """Return whether the unit can yield a CPU that it shares."""
        return self.polls and self.kind != "function"


class Pinning:
    """The CPUs, with the units pinned to them so far. `nodes` has the NUMA nodes of the test's
    NICs, as far as known."""

    def __init__(self, cpus: Sequence[Cpu], needed: int, nodes: Sequence[int]) -> None:
        self._cpus = {cpu.id: cpu for cpu in cpus}
        self._units: dict[int, list[Unit]] = {cpu.id: [] for cpu in cpus}
        self.home = home_node(cpus, needed, nodes)

    def pin(self, unit: Unit) -> None:
        """Pin a unit to the best CPUs, as many as it needs."""
        for _ in range(unit.cores):
            best = min(self._cpus.values(), key=lambda cpu: self._against(RULES, cpu, unit))
            self._units[best.id].append(unit)

    def least_used(self, count: int, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """Return CPUs for a switch in the kernel whose NICs are on `nodes`. RPS uses no isolated
        CPUs. Raise UsageError if there are too few."""
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
        """Return the units on a CPU; empty for a CPU that may not be used."""
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
        """Return the penalties of a CPU by rule. Among equals, the lowest CPU wins."""
        return (*(rule(self, cpu, unit) for rule in rules), cpu.id)


# --- rules for a CPU -------------------------------------------------------------------------

Rule = Callable[[Pinning, Cpu, Unit], int]
"""Returns the penalty of a CPU for a unit: 0, or False, for none."""


def has_a_sender(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    """A sender that waits for its CPU sends late."""
    return any(other.kind == "sender" for other in pinning.units_on(cpu.id))


def has_a_polling_switch(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    """Other units would disturb the device under test."""
    return any(other.is_polling_switch for other in pinning.units_on(cpu.id))


def has_a_unit_that_never_yields(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    """Other units would wait until the kernel preempts it."""
    return any(other.never_yields for other in pinning.units_on(cpu.id))


def is_crowded(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    return len(pinning.units_on(cpu.id))


def has_the_other_end(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    """Both ends of a pair are busy at the same time."""
    return any(other.group == unit.group is not None for other in pinning.units_on(cpu.id))


def is_far_from_its_nics(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    return bool(unit.nodes) and cpu.node not in unit.nodes


def is_off_the_home_node(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    return cpu.node != pinning.home


def has_a_busy_sibling(pinning: Pinning, cpu: Cpu, unit: Unit) -> int:
    """A hyperthread slows down its sibling. A CPU whose sibling runs a polling switch has the
    highest penalty."""
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
"""The rules against a CPU, the most important first."""

RULES_OF_THE_KERNEL: tuple[Rule, ...] = (has_a_sender, *RULES)
"""The rules for a CPU on which the kernel works for a switch."""


# --- rules for the home node -----------------------------------------------------------------

NodeRule = Callable[[Sequence[Cpu], int], int]
"""Returns how well the CPUs of a NUMA node suit units that need this number of CPUs."""


def holds_all(cpus: Sequence[Cpu], needed: int) -> int:
    return len(cpus) >= needed


def holds_all_isolated(cpus: Sequence[Cpu], needed: int) -> int:
    return isolated(cpus, needed) >= needed


def holds_all_on_physical_cores(cpus: Sequence[Cpu], needed: int) -> int:
    """Every unit has a whole physical core, without sharing its hyperthreads."""
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
"""The rules for a node, the most important first, among the nodes with most of the test's NICs."""


def home_node(cpus: Sequence[Cpu], needed: int, nodes_of_nics: Sequence[int]) -> int:
    """Return the NUMA node for units without NICs: the node with most NICs, then the best by the
    rules, then the lowest."""

    def merit(node: int) -> tuple[int, ...]:
        on_node = [cpu for cpu in cpus if cpu.node == node]
        return nodes_of_nics.count(node), *(rule(on_node, needed) for rule in NODE_RULES), -node

    return max({cpu.node for cpu in cpus}, key=merit)


def _serves_interrupts(cpu: Cpu) -> bool:
    """Return whether a CPU is core 0, which serves the host's interrupts, or its hyperthread."""
    return 0 in (cpu.id, *cpu.siblings)
