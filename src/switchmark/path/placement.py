"""The placement of a test's parts on CPUs by a policy, and the doubts that follow from it.

The placement depends on the parts, the CPUs and the policy only. This module touches no host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from switchmark.errors import UsageError
from switchmark.model.cpus import Cpu, Pin, format_cpus, parse_cpus
from switchmark.model.record import PlacementRecord
from switchmark.path.pinning import Pinning, Unit

AUTO, PINNED, UNPINNED, SHARED_PROCESS = "auto", "pinned", "unpinned", "shared-process"
POLICIES = (AUTO, PINNED, UNPINNED, "unpinned:switch", "unpinned:function", SHARED_PROCESS)
"""The named policies. A policy can also be a list of CPUs, `0,2-5`, which pins the parts to these
CPUs only. Commas also separate the values of an axis, so `0+2-5` is allowed as well."""


@dataclass(frozen=True, slots=True)
class CpuUser:
    """A part, or the switch, as a user of CPUs."""

    id: str
    kind: str
    """`switch`, `sender`, `receiver`, `forwarder`, or `function` for a program that never
    yields."""
    polls: bool
    """Whether it keeps its CPUs busy."""
    group: int | None = None
    """The index of its pair."""
    cores: int = 1
    """The number of CPUs that it keeps busy."""
    spread: bool = False
    """Whether it is a switch in the kernel that must work on `cores` CPUs, which it shares."""
    function: bool = False
    """Whether it is a function, not a physical end."""
    nics: tuple[str, ...] = ()
    """The real NICs that it opens."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The CPUs of every part of a test."""

    policy: str
    """The policy in effect, never `auto`."""
    pins: Mapping[str, Pin]
    """The pins by part id."""
    orchestrator: int | None
    """A spare CPU for the orchestrator."""
    doubts: tuple[str, ...]
    unpinned: frozenset[str] = frozenset()
    """The parts that run on any CPU."""
    node: int = 0
    """The NUMA node of the test's hugepages."""

    def pin(self, part: str) -> Pin:
        """Return the pin of a part. A part without a pin may use any CPU."""
        return self.pins.get(part, Pin())

    def is_alone(self, part: str) -> bool:
        """Return whether a part has CPUs and shares none of them."""
        cpus = set(self.pins[part].cpus)
        others = {cpu for name, pin in self.pins.items() if name != part for cpu in pin.cpus}
        return bool(cpus) and not cpus & others

    def used(self, cpus: Collection[int], *, but: Iterable[str] = ()) -> tuple[int, ...]:
        """Return those of `cpus` that the parts use, without the parts in `but`. If another part is
        not pinned, the parts use all CPUs."""
        out = set(but)
        pinned = {cpu for part, pin in self.pins.items() if part not in out for cpu in pin.cpus}
        left_out = {cpu for part in out for cpu in self.pins[part].cpus}
        return tuple(sorted((set(cpus) if self.unpinned - out else pinned) - left_out))

    def beside(self, other: Placement) -> Placement:
        """Return the combined placement of these parts and those of a second host."""
        return replace(
            self,
            pins={**self.pins, **other.pins},
            doubts=tuple(dict.fromkeys((*self.doubts, *other.doubts))),
            unpinned=self.unpinned | other.unpinned,
        )

    def recorded(self) -> PlacementRecord:
        """Return the placement for a record."""
        return PlacementRecord(
            policy=self.policy,
            seats=dict(self.pins),
            orchestrator=self.orchestrator,
            doubts=self.doubts,
        )


def place(
    parts: Sequence[CpuUser],
    cpus: Sequence[Cpu],
    policy: str = PINNED,
    *,
    may_share: bool = False,
    nodes: Mapping[str, int] = MappingProxyType({}),
) -> Placement:
    """Assign CPUs to the parts. The result is deterministic. Raise UsageError for an unknown policy
    or CPU.

    `auto` means `pinned`, or `shared-process` if busy parts would share CPUs under `pinned`, the
    ends `may_share` a process, and this reduces the sharing. `unpinned:switch` and
    `unpinned:function` mean `pinned` for all other parts, as if the unpinned parts did not exist.
    `nodes` maps NICs to NUMA nodes, as far as known.

    A polling switch gets its CPUs first. As long as there is a choice, parts with NICs get CPUs on
    the NUMA nodes of their NICs. Other parts get CPUs on the node with most NICs, or on any node if
    there are no NICs. Separate physical cores and isolated CPUs are best, and core 0, which serves
    the host's interrupts, is worst. When CPUs run out, parts share CPUs and yield to each other.
    They share with the switch, or with a function that never yields, only as a last resort. A
    switch or a function that does not poll gets no CPUs, except for a switch that is `spread`. Such
    a switch gets unused CPUs first, and then CPUs of other parts. These parts would also lose CPU
    time if the kernel did the switch's work where it arrives.

    The doubt `cores-shared` means that a polling part shares a CPU. `cores-overcommitted` means
    that a polling switch or a function that never yields shares a CPU, or that more than two
    polling parts share one. `sibling-busy` means that both hyperthreads of a core are in use.
    `nic-on-other-node` means that a part's CPU is on another NUMA node than its NIC.
    """
    if policy == AUTO:
        pinned = place(parts, cpus, PINNED, nodes=nodes)
        if not (may_share and {"cores-shared", "cores-overcommitted"} & set(pinned.doubts)):
            return pinned
        together = place(parts, cpus, SHARED_PROCESS, nodes=nodes)
        return min(pinned, together, key=lambda placement: _crowding(placement, parts))
    of_policy = _unpinned if policy.startswith(UNPINNED) else _pinned
    placed = of_policy(parts, cpus, policy, nodes)
    doubts = placed.doubts
    if _far_from_nics(parts, placed, cpus, nodes):
        doubts += ("nic-on-other-node",)
    return replace(placed, doubts=doubts, node=_memory_node(parts, placed, cpus, nodes))


def _pinned(
    parts: Sequence[CpuUser], cpus: Sequence[Cpu], policy: str, nodes: Mapping[str, int]
) -> Placement:
    units = _units(parts, nodes, together=policy == SHARED_PROCESS)
    needed = sum(unit.cores for unit in units)
    pinning = Pinning(_chosen(cpus, policy), needed, _every_node(parts, nodes))
    for unit in units:
        pinning.pin(unit)
    pins = {
        part: Pin(tuple(sorted(pinning.cpus_of(unit))), unit.can_yield and pinning.shares(unit))
        for unit in units
        for part in unit.ids
    }
    pins |= _spread_pins(parts, pinning, nodes)
    return Placement(
        policy,
        {part.id: pins.get(part.id, Pin()) for part in parts},
        _spare(cpus, {cpu for pin in pins.values() for cpu in pin.cpus}),
        pinning.doubts(),
    )


def _crowding(placement: Placement, parts: Sequence[CpuUser]) -> tuple[int, int]:
    """Return the degree of CPU sharing between busy parts: the doubts, then the number of busy
    processes on the most crowded CPU. Two ends in one process count once."""
    together = placement.policy == SHARED_PROCESS
    doubts = sum(doubt in placement.doubts for doubt in ("cores-shared", "cores-overcommitted"))
    busy = Counter(
        cpu
        for unit in _units(parts, {}, together=together)
        if unit.polls
        for cpu in placement.pins[unit.ids[0]].cpus
    )
    return doubts, max(busy.values(), default=0)


def _nodes_of(part: CpuUser, nodes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(nodes[nic] for nic in part.nics if nic in nodes)


def _every_node(parts: Sequence[CpuUser], nodes: Mapping[str, int]) -> list[int]:
    return [node for part in parts for node in _nodes_of(part, nodes)]


def _far_from_nics(
    parts: Sequence[CpuUser], placed: Placement, cpus: Sequence[Cpu], nodes: Mapping[str, int]
) -> bool:
    """Return whether a part has a CPU on another NUMA node than a NIC that it opens."""
    return any(
        cpu.node != node
        for part in parts
        for node in _nodes_of(part, nodes)
        for cpu in cpus
        if cpu.id in placed.pins[part.id].cpus
    )


def _memory_node(
    parts: Sequence[CpuUser], placed: Placement, cpus: Sequence[Cpu], nodes: Mapping[str, int]
) -> int:
    """Return the NUMA node with most NICs among the nodes of CPUs in use, because programs allocate
    memory where they run. Among equals, prefer the node of the switch's NICs, then the lowest."""
    used = {cpu for pin in placed.pins.values() for cpu in pin.cpus}
    of_nics = Counter(_every_node(parts, nodes))
    in_use = {cpu.node for cpu in cpus if cpu.id in used or not used}
    first = next(iter(of_nics), None)
    return max(in_use, key=lambda node: (of_nics[node], node == first, -node), default=0)


def _units(parts: Sequence[CpuUser], nodes: Mapping[str, int], *, together: bool) -> list[Unit]:
    """Return the parts that need CPUs, by descending priority."""
    units: list[Unit] = []
    for part in parts:
        if part.kind in ("switch", "function") and not part.polls:
            continue
        near = _nodes_of(part, nodes)
        mate = next((unit for unit in units if together and _are_pair(unit, part)), None)
        if mate is None:
            units.append(Unit((part.id,), part.kind, part.polls, part.group, part.cores, near))
        else:
            merged = replace(mate, ids=(*mate.ids, part.id), nodes=(*mate.nodes, *near))
            units[units.index(mate)] = merged
    return sorted(
        units,
        key=lambda unit: (
            not unit.is_polling_switch,
            not unit.never_yields,
            not unit.polls,
            -1 if unit.group is None else unit.group,
            unit.kind != "sender",
        ),
    )


def _are_pair(unit: Unit, part: CpuUser) -> bool:
    pair = {unit.kind, part.kind}
    return unit.group == part.group is not None and pair == {"sender", "receiver"}


def _chosen(cpus: Sequence[Cpu], policy: str) -> tuple[Cpu, ...]:
    if policy in POLICIES:
        return tuple(cpus)
    listed = wanted_cpus(policy)
    allowed = [cpu.id for cpu in cpus]
    if outside := sorted(set(listed) - set(allowed)):
        raise UsageError(
            f"the placement '{policy}' asks for CPU {format_cpus(outside)},"
            f" and this process may use {format_cpus(allowed)}",
            hint=f"--placement {format_cpus(allowed)}",
        )
    return tuple(cpu for cpu in cpus if cpu.id in listed)


def wanted_cpus(policy: str) -> tuple[int, ...]:
    """Return the CPUs that a policy lists; empty for a named policy. Raise UsageError for anything
    else."""
    if policy in POLICIES:
        return ()
    if not policy[:1].isdecimal():
        raise UsageError(
            f"there is no placement '{policy}'; there are: {', '.join(POLICIES)},"
            " and lists of CPUs such as 0+2-5"
        )
    return parse_cpus(policy.replace("+", ","))


def _spread_pins(
    parts: Sequence[CpuUser], pinning: Pinning, nodes: Mapping[str, int]
) -> dict[str, Pin]:
    """Return the CPUs of switches in the kernel that must work on a given number of CPUs."""
    return {
        part.id: Pin(pinning.least_used(part.cores, _nodes_of(part, nodes)))
        for part in parts
        if part.spread
    }


def unpinned_only(policy: str) -> str:
    """Return the kind of part that a policy leaves unpinned: `switch` or `function`; empty for all
    parts, and for other policies."""
    return policy.partition(":")[2]


def _unpinned(
    parts: Sequence[CpuUser], cpus: Sequence[Cpu], policy: str, nodes: Mapping[str, int]
) -> Placement:
    """Pin the parts that the policy does not leave unpinned, as if the others did not exist."""
    unpinned = unpinned_only(policy)
    free = {part.id for part in parts if unpinned in ("", part.kind, part.function and "function")}
    fixed = _pinned([part for part in parts if part.id not in free], cpus, PINNED, nodes)
    units = _units(parts, nodes, together=False)
    busy = sum(unit.cores for unit in units if unit.polls)
    doubts = ["cores-shared"] * (busy > len(cpus))
    if doubts and (busy > 2 * len(cpus) or any(unit.never_yields for unit in units)):
        doubts.append("cores-overcommitted")
    yielding = {part for unit in units if doubts and unit.can_yield for part in unit.ids}
    pins = {part.id: Pin((), part.id in yielding) for part in parts}
    pins |= _spread_pins(parts, Pinning(cpus, 0, _every_node(parts, nodes)), nodes)
    for part, pin in fixed.pins.items():
        pins[part] = replace(pin, yield_=pin.yield_ or part in yielding)
    return Placement(
        policy,
        pins,
        fixed.orchestrator if unpinned else None,
        tuple(dict.fromkeys((*doubts, *fixed.doubts))),
        frozenset(part for unit in units for part in unit.ids if part in free),
    )


def _spare(cpus: Sequence[Cpu], used: set[int]) -> int | None:
    """Return an unused CPU for the orchestrator, preferably without a busy sibling, or None."""
    free = [cpu for cpu in cpus if cpu.id not in used]
    ranked = sorted(free, key=lambda cpu: (bool(used & {*cpu.siblings}), cpu.isolated, cpu.id))
    return ranked[0].id if ranked else None
