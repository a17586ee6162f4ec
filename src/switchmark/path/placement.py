"""Places the parts of a test on CPUs by a policy, and says which doubts follow from it.

A pure function of the parts, the CPUs and the policy; it touches no host.
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
"""Besides these, a policy may be a list of CPUs, `0,2-5`: pinned, to these alone. As commas divide
the values of an axis, it may be written `0+2-5`."""


@dataclass(frozen=True, slots=True)
class CpuUser:
    """A part, or the switch, as a user of CPUs."""

    id: str
    kind: str
    """`switch`, `sender`, `receiver`, `forwarder`, or `function`: a program that never yields."""
    polls: bool
    """Whether it keeps its CPUs busy."""
    group: int | None = None
    """The index of its pair."""
    cores: int = 1
    """How many CPUs it keeps busy."""
    spread: bool = False
    """Whether it is a switch in the kernel that is to work on `cores` CPUs, which it shares."""
    function: bool = False
    """Whether it is no physical end."""
    nics: tuple[str, ...] = ()
    """The real NICs that it opens."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The CPUs of every part of a test."""

    policy: str
    """The policy that was followed, never `auto`."""
    pins: Mapping[str, Pin]
    """By the ids of parts."""
    orchestrator: int | None
    """A CPU that is left for it, if there is one."""
    doubts: tuple[str, ...]
    unpinned: frozenset[str] = frozenset()
    """Parts that run on any CPU that the scheduler gives them."""
    node: int = 0
    """The NUMA node that the test's hugepages are of."""

    def pin(self, part: str) -> Pin:
        """Return the pin of a part; that of none is to any CPU."""
        return self.pins.get(part, Pin())

    def is_alone(self, part: str) -> bool:
        """Say whether a part has CPUs that it shares with no other."""
        own = set(self.pins[part].cpus)
        others = {cpu for who, pin in self.pins.items() if who != part for cpu in pin.cpus}
        return bool(own) and not own & others

    def used(self, cpus: Collection[int], *, but: Iterable[str] = ()) -> tuple[int, ...]:
        """Return which of these CPUs the parts use, `but` for some parts: all of them where a part
        is not pinned."""
        out = set(but)
        pinned = {cpu for part, pin in self.pins.items() if part not in out for cpu in pin.cpus}
        left_out = {cpu for part in out for cpu in self.pins[part].cpus}
        return tuple(sorted((set(cpus) if self.unpinned - out else pinned) - left_out))

    def beside(self, other: Placement) -> Placement:
        """Return the placement of these parts and of those on a second host."""
        return replace(
            self,
            pins={**self.pins, **other.pins},
            doubts=tuple(dict.fromkeys((*self.doubts, *other.doubts))),
            unpinned=self.unpinned | other.unpinned,
        )

    def recorded(self) -> PlacementRecord:
        """Return the placement as a record keeps it."""
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
    """Give CPUs to the parts. Deterministic; UsageError for a policy or a CPU that is not there.

    `auto` is `pinned`, or `shared-process` where parts that keep a CPU busy would have to share
    one, the ends `may_share` a process, and fewer would then. `unpinned:switch` and
    `unpinned:function` are `pinned` but for these, as if they were not there. `nodes` are the NUMA
    nodes of NICs, by name, where these are known.

    A polling switch has its CPUs to itself first. While there is a choice, whoever opens NICs gets
    CPUs of their NUMA node, the others of the one with most NICs, or of any one; on physical cores
    of their own, isolated, and not core 0, which serves the host's interrupts. Then they share, and
    yield to each other, but not with the switch, and with a function that never yields only where
    nothing else is left. A switch or a function that does not poll gets no CPU of its own, but for
    a switch that is `spread`: CPUs that nobody has, then those of others, who are no worse off than
    where the kernel does its work in their time.

    The doubts are `cores-shared`; `cores-overcommitted` where a polling switch or function that
    never yields shares, or more than two parts do; `sibling-busy` where two hyperthreads of a core
    are both in use; `nic-on-other-node` where a part's CPU is on another NUMA node than its NIC.
    """
    if policy == AUTO:
        pinned = place(parts, cpus, PINNED, nodes=nodes)
        if not (may_share and {"cores-shared", "cores-overcommitted"} & set(pinned.doubts)):
            return pinned
        together = place(parts, cpus, SHARED_PROCESS, nodes=nodes)
        return min(pinned, together, key=lambda each: _crowding(each, parts))
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
    """Return how badly busy parts share CPUs: by the doubts, and where these are the same, by how
    many the most crowded CPU has; both ends in one process count as one."""
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
    """Say whether a CPU of a part is on another NUMA node than a NIC that the part opens."""
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
    """Return the NUMA node of the CPUs in use that has most of the NICs: programs take memory where
    they run. Of several that of the switch's NICs, else the lowest."""
    used = {cpu for pin in placed.pins.values() for cpu in pin.cpus}
    of_nics = Counter(_every_node(parts, nodes))
    in_use = {cpu.node for cpu in cpus if cpu.id in used or not used}
    first = next(iter(of_nics), None)
    return max(in_use, key=lambda node: (of_nics[node], node == first, -node), default=0)


def _units(parts: Sequence[CpuUser], nodes: Mapping[str, int], *, together: bool) -> list[Unit]:
    """Return the parts that need CPUs, those with the strongest claim first."""
    units: list[Unit] = []
    for part in parts:
        if part.kind in ("switch", "function") and not part.polls:
            continue
        near = _nodes_of(part, nodes)
        mate = next((unit for unit in units if together and _are_pair(unit, part)), None)
        if mate is None:
            units.append(Unit((part.id,), part.kind, part.polls, part.group, part.cores, near))
        else:
            both = replace(mate, ids=(*mate.ids, part.id), nodes=(*mate.nodes, *near))
            units[units.index(mate)] = both
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
    wanted = wanted_cpus(policy)
    allowed = [cpu.id for cpu in cpus]
    if outside := sorted(set(wanted) - set(allowed)):
        raise UsageError(
            f"the placement '{policy}' asks for CPU {format_cpus(outside)},"
            f" and this process may use {format_cpus(allowed)}",
            hint=f"--placement {format_cpus(allowed)}",
        )
    return tuple(cpu for cpu in cpus if cpu.id in wanted)


def wanted_cpus(policy: str) -> tuple[int, ...]:
    """Return the CPUs that a policy names: none for those with a name. UsageError for any other."""
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
    """Return the CPUs of switches in the kernel whose work is to be on so many CPUs."""
    return {
        part.id: Pin(pinning.least_used(part.cores, _nodes_of(part, nodes)))
        for part in parts
        if part.spread
    }


def unpinned_only(policy: str) -> str:
    """Return whom alone a policy leaves unpinned: `switch`, or `function` for all of them."""
    return policy.partition(":")[2]


def _unpinned(
    parts: Sequence[CpuUser], cpus: Sequence[Cpu], policy: str, nodes: Mapping[str, int]
) -> Placement:
    """Pin those whom the policy does not leave unpinned, as if the others were not there."""
    who = unpinned_only(policy)
    free = {part.id for part in parts if who in ("", part.kind, part.function and "function")}
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
        fixed.orchestrator if who else None,
        tuple(dict.fromkeys((*doubts, *fixed.doubts))),
        frozenset(part for unit in units for part in unit.ids if part in free),
    )


def _spare(cpus: Sequence[Cpu], used: set[int]) -> int | None:
    """Return the orchestrator's CPU: unused, and where it disturbs nobody."""
    free = [cpu for cpu in cpus if cpu.id not in used]
    ranked = sorted(free, key=lambda cpu: (bool(used & {*cpu.siblings}), cpu.isolated, cpu.id))
    return ranked[0].id if ranked else None
