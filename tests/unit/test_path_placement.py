"""These tests check which part runs where: a table of hosts and parts, and what always holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.errors import UsageError
from switchmark.model.cpus import Cpu
from switchmark.path.placement import CpuUser, Placement, place

KERNEL = CpuUser("switch", "switch", polls=False)
POLLING = CpuUser("switch", "switch", polls=True)


def pairs(count: int) -> list[CpuUser]:
    return [
        cpu_user
        for index in range(count)
        for cpu_user in (
            CpuUser(f"s{index}", "sender", polls=True, group=index),
            CpuUser(f"r{index}", "receiver", polls=True, group=index),
        )
    ]


def forwarders(count: int) -> list[CpuUser]:
    return [CpuUser(f"f{index}", "forwarder", polls=True) for index in range(count)]


def functions(count: int) -> list[CpuUser]:
    return [CpuUser(f"f{i}", "function", polls=True, function=True) for i in range(count)]


def plain(count: int, isolated: tuple[int, ...] = ()) -> list[Cpu]:
    return [Cpu(cpu, isolated=cpu in isolated) for cpu in range(count)]


TWO = plain(2)
FOUR = plain(4)
FOUR_THREADS = [Cpu(cpu, siblings=((cpu + 2) % 4,)) for cpu in range(4)]
EIGHT_THREADS = [Cpu(cpu, siblings=((cpu + 4) % 8,)) for cpu in range(8)]
TWO_NODES = [Cpu(cpu, node=cpu // 4) for cpu in range(8)]
TWO_THREADED_NODES = [Cpu(cpu, node=cpu % 4 // 2, siblings=((cpu + 4) % 8,)) for cpu in range(8)]

SHARED = ("cores-shared",)
OVERCOMMITTED = ("cores-shared", "cores-overcommitted")
SIBLINGS = ("sibling-busy",)

TABLE: dict[
    str,
    tuple[list[Cpu], list[CpuUser], str, dict[str, tuple[int, ...]], int | None, tuple[str, ...]],
] = {
    "two cores, a pair": (
        TWO, [KERNEL, *pairs(1)], "pinned",
        {"switch": (), "s0": (1,), "r0": (0,)}, None, (),
    ),
    "two cores, a pair and a polling switch": (
        TWO, [POLLING, *pairs(1)], "pinned",
        {"switch": (1,), "s0": (0,), "r0": (0,)}, None, SHARED,
    ),
    "two cores, a polling switch and two pairs": (
        TWO, [POLLING, *pairs(2)], "pinned",
        {"switch": (1,), "s0": (0,), "r0": (0,), "s1": (0,), "r1": (0,)}, None, OVERCOMMITTED,
    ),
    "two cores, two pairs: no pair shares a core": (
        TWO, [KERNEL, *pairs(2)], "pinned",
        {"switch": (), "s0": (1,), "r0": (0,), "s1": (1,), "r1": (0,)}, None, SHARED,
    ),
    "two cores, a polling switch of two": (
        TWO, [CpuUser("switch", "switch", True, cores=2), *pairs(1)], "pinned",
        {"switch": (0, 1), "s0": (1,), "r0": (0,)}, None, OVERCOMMITTED,
    ),
    "two cores, a pair in one process": (
        TWO, [POLLING, *pairs(1)], "shared-process",
        {"switch": (1,), "s0": (0,), "r0": (0,)}, None, (),
    ),
    "two cores, two pairs in a process each": (
        TWO, [KERNEL, *pairs(2)], "shared-process",
        {"switch": (), "s0": (1,), "r0": (1,), "s1": (0,), "r1": (0,)}, None, (),
    ),
    "two cores, a chain of three": (
        TWO, [KERNEL, *pairs(1), *forwarders(1)], "pinned",
        {"switch": (), "f0": (1,), "s0": (0,), "r0": (1,)}, None, SHARED,
    ),
    "one core": (
        plain(1), [POLLING, *pairs(1)], "pinned",
        {"switch": (0,), "s0": (0,), "r0": (0,)}, None, OVERCOMMITTED,
    ),
    "four cores: one is left for the orchestrator": (
        FOUR, [POLLING, *pairs(1)], "pinned",
        {"switch": (1,), "s0": (2,), "r0": (3,)}, 0, (),
    ),
    "four cores, of which two are given": (
        FOUR, [KERNEL, *pairs(1)], "1-2",
        {"switch": (), "s0": (1,), "r0": (2,)}, 0, (),
    ),
    "four cores, two of them isolated": (
        plain(4, isolated=(2, 3)), [POLLING, *pairs(1)], "pinned",
        {"switch": (2,), "s0": (3,), "r0": (1,)}, 0, (),
    ),
    "two cores of two threads: a core is taken before a sibling": (
        FOUR_THREADS, [KERNEL, *pairs(1)], "pinned",
        {"switch": (), "s0": (1,), "r0": (0,)}, 2, (),
    ),
    "two cores of two threads: the switch is disturbed last": (
        FOUR_THREADS, [POLLING, *pairs(1)], "pinned",
        {"switch": (1,), "s0": (0,), "r0": (2,)}, 3, SIBLINGS,
    ),
    "four cores of two threads": (
        EIGHT_THREADS, [POLLING, *pairs(1)], "pinned",
        {"switch": (1,), "s0": (2,), "r0": (3,)}, 0, (),
    ),
    "two nodes: all on the one without core 0": (
        TWO_NODES, [POLLING, *pairs(1)], "pinned",
        {"switch": (4,), "s0": (5,), "r0": (6,)}, 0, (),
    ),
    "two nodes: the isolated one wins": (
        [Cpu(cpu.id, cpu.node, isolated=1 <= cpu.id <= 3) for cpu in TWO_NODES],
        [POLLING, *pairs(1)], "pinned",
        {"switch": (1,), "s0": (2,), "r0": (3,)}, 0, (),
    ),
    "two nodes of two cores of two threads: a sibling before the other node": (
        TWO_THREADED_NODES, [POLLING, *pairs(1)], "pinned",
        {"switch": (2,), "s0": (3,), "r0": (7,)}, 0, SIBLINGS,
    ),
    "two nodes, more parts than either holds": (
        TWO_NODES, [POLLING, *pairs(2)], "pinned",
        {"switch": (4,), "s0": (5,), "r0": (6,), "s1": (7,), "r1": (1,)}, 0, (),
    ),
    "unpinned, with cores enough": (
        FOUR, [POLLING, *pairs(1)], "unpinned",
        {"switch": (), "s0": (), "r0": ()}, None, (),
    ),
    "unpinned, without": (
        TWO, [POLLING, *pairs(1)], "unpinned",
        {"switch": (), "s0": (), "r0": ()}, None, OVERCOMMITTED,
    ),
    "all but the switch pinned": (
        FOUR, [POLLING, *pairs(1)], "unpinned:switch",
        {"switch": (), "s0": (1,), "r0": (2,)}, 0, (),
    ),
    "all but the switch pinned, too few cores": (
        TWO, [POLLING, *pairs(1)], "unpinned:switch",
        {"switch": (), "s0": (1,), "r0": (0,)}, None, OVERCOMMITTED,
    ),
    "all but the functions pinned": (
        FOUR, [POLLING, *pairs(1), *functions(2)], "unpinned:function",
        {"switch": (1,), "s0": (2,), "r0": (3,), "f0": (), "f1": ()}, 0, OVERCOMMITTED,
    ),
    "a receiver that is a function": (
        FOUR, [POLLING, pairs(1)[0], replace(pairs(1)[1], function=True)], "unpinned:function",
        {"switch": (1,), "s0": (2,), "r0": ()}, 0, (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_parts_are_seated(case: str) -> None:
    cpus, parts, policy, seats, orchestrator, doubts = TABLE[case]
    placement = place(parts, cpus, policy)
    assert {part: pin.cpus for part, pin in placement.pins.items()} == seats
    assert placement.orchestrator == orchestrator
    assert placement.doubts == doubts


AUTO: dict[str, tuple[list[Cpu], list[CpuUser], bool, str]] = {
    "a core for each part": (FOUR, [POLLING, *pairs(1)], True, "pinned"),
    "nobody else polls": (TWO, [KERNEL, *pairs(1)], True, "pinned"),
    "too few cores": (TWO, [POLLING, *pairs(1)], True, "shared-process"),
    "too few cores for two pairs": (TWO, [KERNEL, *pairs(2)], True, "shared-process"),
    "too few even then, but fewer share": (TWO, [POLLING, *pairs(2)], True, "shared-process"),
    "too few by far, but fewer turns": (TWO, [KERNEL, *pairs(8)], True, "shared-process"),
    "one core for all": (TWO[:1], [POLLING, *pairs(1)], True, "shared-process"),
    "too few, and the ends must be apart": (TWO, [POLLING, *pairs(1)], False, "pinned"),
    "a process for both would help nobody": (
        TWO, [CpuUser("switch", "switch", True, cores=2), *pairs(1)], True, "pinned",
    ),
    "hyperthreads are cores enough": (
        FOUR_THREADS, [POLLING, *pairs(1)], True, "pinned",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", AUTO)
def test_what_auto_becomes(case: str) -> None:
    cpus, parts, may_share, policy = AUTO[case]
    found = place(parts, cpus, "auto", may_share=may_share)
    assert found == place(parts, cpus, policy)
    assert found.policy == policy


def spread(cores: int) -> CpuUser:
    return CpuUser("switch", "switch", polls=False, cores=cores, spread=True)


@pytest.mark.parametrize(
    ("cpus", "cores", "policy", "pinned"),
    [
        (FOUR, 2, "pinned", (0, 3)),  # nobody's
        (FOUR, 3, "pinned", (0, 2, 3)),  # then the receiver's, the sender's last
        (TWO, 1, "pinned", (0,)),
        (TWO, 2, "pinned", (0, 1)),
        (TWO, 2, "shared-process", (0, 1)),
        (FOUR, 1, "unpinned", (1,)),
        (plain(8, isolated=(4, 5, 6, 7)), 2, "pinned", (1, 2)),  # the parts are on isolated CPUs
        (plain(8), 1, "2+3+6", (6,)),
    ],
)
def test_the_work_of_a_switch_in_the_kernel_is_spread_over_cpus_that_are_free_first(
    cpus: list[Cpu], cores: int, policy: str, pinned: tuple[int, ...]
) -> None:
    placement = place([spread(cores), *pairs(1)], cpus, policy)
    assert placement.pins["switch"].cpus == pinned
    alone = place([KERNEL, *pairs(1)], cpus, policy)
    others = {"s0", "r0"}
    assert {part: placement.pins[part] for part in others} == {
        part: alone.pins[part] for part in others
    }
    assert placement.doubts == alone.doubts


def test_more_cpus_than_the_kernel_steers_to_are_refused() -> None:
    with pytest.raises(UsageError, match="the switch's work on 2 CPUs here, not on 3") as no:
        place([spread(3), *pairs(1)], TWO)
    assert no.value.hint == "--switch-cores 2"
    with pytest.raises(UsageError, match="on 0 CPUs") as none:
        place([spread(1), *pairs(1)], plain(2, isolated=(0, 1)))
    assert none.value.hint == "--switch-cores auto"


def yields(placement: Placement) -> dict[str, bool]:
    return {part: pin.yield_ for part, pin in placement.pins.items()}


def test_who_shares_a_core_yields_and_nobody_else() -> None:
    assert yields(place([POLLING, *pairs(1)], TWO)) == {"switch": False, "s0": True, "r0": True}
    assert not any(yields(place([POLLING, *pairs(1)], FOUR)).values())
    assert not any(yields(place([POLLING, *pairs(1)], TWO, "shared-process")).values())
    assert yields(place([KERNEL, *pairs(1)], plain(1), "unpinned"))["s0"]
    assert yields(place([POLLING, *pairs(1)], TWO, "unpinned:switch"))["s0"]
    assert not yields(place([POLLING, *pairs(1)], FOUR, "unpinned:switch"))["s0"]


def test_a_part_that_blocks_does_not_yield_but_is_yielded_to() -> None:
    bridge = CpuUser("f0", "forwarder", polls=False)
    placement = place([KERNEL, *pairs(1), bridge], TWO)
    assert yields(placement) == {"switch": False, "s0": True, "r0": False, "f0": False}
    assert placement.doubts == SHARED


def test_cpus_outside_of_the_cpuset_are_refused_with_the_allowed_ones() -> None:
    with pytest.raises(UsageError, match="asks for CPU 0,8-9, and this process may use 2-5") as no:
        place(pairs(1), [Cpu(cpu) for cpu in range(2, 6)], "0,2,8-9")
    assert no.value.hint == "--placement 2-5"


@pytest.mark.parametrize("policy", ["pined", "", "-1"])
def test_an_unknown_policy_is_refused_with_the_known_ones(policy: str) -> None:
    with pytest.raises(UsageError, match="unpinned:function, shared-process, and lists of CPUs"):
        place(pairs(1), TWO, policy)


def test_a_record_keeps_the_placement() -> None:
    recorded = place([POLLING, *pairs(1)], TWO).recorded()
    assert recorded.model_dump(mode="json") == {
        "policy": "pinned",
        "seats": {
            "switch": {"cpus": [1], "yield": False},
            "s0": {"cpus": [0], "yield": True},
            "r0": {"cpus": [0], "yield": True},
        },
        "orchestrator": None,
        "doubts": ["cores-shared"],
    }


NICS = {"eth0": 0, "eth1": 1, "03:00.0": 0}
FAR = ("nic-on-other-node",)


@pytest.mark.parametrize(
    ("switch_nics", "peers", "policy", "pinned", "node", "doubts"),
    [
        # None, or of no known node: as without.
        ((), (), "pinned", {"switch": (4,), "s0": (5,), "r0": (6,)}, 1, ()),
        (("veth0",), ("veth1",), "pinned", {"switch": (4,), "s0": (5,), "r0": (6,)}, 1, ()),
        # All go where most NICs are, though core 0 is there.
        (("eth0",), (), "pinned", {"switch": (1,), "s0": (2,), "r0": (3,)}, 0, ()),
        (("eth0", "03:00.0"), (), "auto", {"switch": (1,), "s0": (2,), "r0": (3,)}, 0, ()),
        (("eth1",), (), "pinned", {"switch": (4,), "s0": (5,), "r0": (6,)}, 1, ()),
        # Each end of a cable is served on its own node; who has no NIC is on either.
        (("eth1",), ("eth0",), "pinned", {"switch": (4,), "s0": (1,), "r0": (5,)}, 1, ()),
        (("eth0",), ("eth1",), "pinned", {"switch": (1,), "s0": (4,), "r0": (5,)}, 0, ()),
        # One process for both ends serves the NIC of either.
        (("eth0",), ("eth1",), "shared-process", {"switch": (1,), "s0": (4,), "r0": (4,)}, 0, ()),
        # A part with NICs on both nodes is far from one of them.
        (("eth0", "eth1"), (), "pinned", {"switch": (4,), "s0": (5,), "r0": (6,)}, 1, FAR),
        # A user is obeyed: memory is where the programs are.
        (("eth0",), (), "4-6", {"switch": (4,), "s0": (5,), "r0": (6,)}, 1, FAR),
        (("eth1",), ("eth0",), "4-6", {"switch": (4,), "s0": (5,), "r0": (6,)}, 1, FAR),
        (("eth0",), ("eth1",), "unpinned:switch", {"switch": (), "s0": (4,), "r0": (5,)}, 1, ()),
        (("eth1",), (), "unpinned", {"switch": (), "s0": (), "r0": ()}, 1, ()),
    ],
)
def test_who_opens_a_nic_is_on_its_node(
    switch_nics: tuple[str, ...],
    peers: tuple[str, ...],
    policy: str,
    pinned: dict[str, tuple[int, ...]],
    node: int,
    doubts: tuple[str, ...],
) -> None:
    sender, receiver = pairs(1)
    parts = [replace(POLLING, nics=switch_nics), replace(sender, nics=peers), receiver]
    placement = place(parts, TWO_NODES, policy, nodes=NICS)
    assert {part: pin.cpus for part, pin in placement.pins.items()} == pinned
    assert (placement.node, placement.doubts) == (node, doubts)


def test_parts_that_do_not_fit_on_the_node_of_their_nics_are_doubted() -> None:
    parts = [replace(part, nics=("eth1",)) for part in (POLLING, *pairs(2))]
    placement = place(parts, TWO_NODES, nodes=NICS)
    assert {cpu for pin in placement.pins.values() for cpu in pin.cpus} == {1, 4, 5, 6, 7}
    assert (placement.node, placement.doubts) == (1, FAR)
    # The work of a switch in the kernel also goes to the node of its NICs, and is recorded.
    kernel = replace(spread(1), nics=("eth1",))
    assert place([kernel, *pairs(1)], TWO_NODES, nodes=NICS).pins["switch"].cpus == (6,)
    assert place([kernel, *pairs(1)], TWO_NODES, "0-3", nodes=NICS).doubts == FAR
    # A part without a NIC is on the node of the NICs of a switch in the kernel.
    bridge = place([replace(KERNEL, nics=("eth0",)), *pairs(1)], TWO_NODES, nodes=NICS)
    assert [pin.cpus for pin in bridge.pins.values()] == [(), (1,), (2,)]
    # None of the NIC's node may be used.
    assert place([kernel, *pairs(1)], TWO_NODES[:4], nodes=NICS).doubts == FAR


@st.composite
def machines(draw: st.DrawFn) -> list[Cpu]:
    count = draw(st.integers(1, 12))
    threads = draw(st.sampled_from([1, 2]))
    isolated = draw(st.sets(st.integers(0, count - 1)))
    return [
        Cpu(
            cpu,
            node=draw(st.integers(0, 1)),
            siblings=(cpu ^ 1,) if threads == 2 and cpu ^ 1 < count else (),
            isolated=cpu in isolated,
        )
        for cpu in range(count)
    ]


@given(
    machines(),
    st.integers(0, 4),
    st.integers(0, 3),
    st.booleans(),
    st.integers(1, 3),
    st.tuples(*[st.sets(st.sampled_from(["eth0", "eth1", "veth0"]))] * 2),
)
def test_what_holds_on_every_machine(
    cpus: list[Cpu],
    pair_count: int,
    forwarder_count: int,
    polls: bool,
    switch_cores: int,
    nics: tuple[set[str], ...],
) -> None:
    of_switch, of_ends = map(tuple, map(sorted, nics))
    switch = CpuUser("switch", "switch", polls, cores=switch_cores, nics=of_switch)
    ends = [replace(end, nics=of_ends) for end in pairs(pair_count)]
    parts = [switch, *ends, *forwarders(forwarder_count)]
    placement = place(parts, cpus, nodes=NICS)
    assert placement == place(parts, cpus, nodes=NICS)
    assert placement.node in {cpu.node for cpu in cpus}
    without = place(parts, cpus)
    assert len(placement.used(range(12))) == len(without.used(range(12)))
    assert "nic-on-other-node" not in without.doubts
    assert set(placement.pins) == {part.id for part in parts}
    ids = {cpu.id for cpu in cpus}
    used = [cpu for pin in placement.pins.values() for cpu in pin.cpus]
    assert set(used) <= ids
    shared = len(used) > len(set(used))
    busy = sum(part.cores for part in parts if part.kind != "switch" or polls)
    if busy <= len(cpus):
        assert not shared
        assert {*placement.doubts} <= {*SIBLINGS, *FAR}
        assert without.doubts in ((), SIBLINGS)
    if shared:
        assert "cores-shared" in placement.doubts
    switch_cpus = placement.pins["switch"].cpus
    if polls and switch_cores < len(cpus):
        assert not any(
            cpu in switch_cpus for part in parts[1:] for cpu in placement.pins[part.id].cpus
        )
    assert (placement.orchestrator is None) == (set(used) == ids)
    assert placement.orchestrator not in used


def test_a_list_of_cpus_is_written_without_commas_too() -> None:
    four = plain(4)
    assert place(pairs(1), four, "1+3").pins == place(pairs(1), four, "1,3").pins


def test_everybody_has_a_seat_without_pins() -> None:
    assert set(place([KERNEL, *pairs(1)], TWO, "unpinned").pins) == {KERNEL.id, "s0", "r0"}


def test_who_has_cpus_to_itself() -> None:
    parts = [POLLING, *pairs(1)]
    roomy, narrow = place(parts, FOUR), place(parts, TWO)
    assert [roomy.is_alone(part) for part in ("switch", "s0", "r0")] == [True, True, True]
    assert [narrow.is_alone(part) for part in ("switch", "s0", "r0")] == [True, False, False]
    assert not place(parts, TWO, "0").is_alone("switch")
    assert not place(parts, FOUR, "unpinned").is_alone("switch")


@pytest.mark.parametrize(
    ("switch", "policy", "but", "used"),
    [
        (KERNEL, "pinned", (), {"s0", "r0"}),
        (POLLING, "pinned", ("switch",), {"s0", "r0"}),
        (POLLING, "unpinned:switch", (), None),
        (POLLING, "unpinned:switch", ("switch",), {"s0", "r0"}),
        (KERNEL, "unpinned:switch", (), {"s0", "r0"}),
        (POLLING, "unpinned", (), None),
    ],
)
def test_a_part_that_is_not_pinned_uses_any_cpu(
    switch: CpuUser, policy: str, but: tuple[str, ...], used: set[str] | None
) -> None:
    placed = place([switch, *pairs(1)], FOUR, policy)
    pinned = {cpu for part in used or () for cpu in placed.pins[part].cpus}
    assert set(placed.used(range(4), but=but)) == ({0, 1, 2, 3} if used is None else pinned)
    assert len(placed.used(range(4), but=but)) == (4 if used is None else 2)


def test_ends_with_nics_share_a_process_as_others_do() -> None:
    ends = [replace(part, nics=(f"nic-{part.id}",)) for part in pairs(1)]
    nodes = {"nic-s0": 0, "nic-r0": 0}
    placed = place([POLLING, *ends], TWO, "auto", may_share=True, nodes=nodes)
    assert placed.policy == "shared-process"
    assert placed.doubts == ()
    assert place([POLLING, *ends], TWO, "auto", may_share=False, nodes=nodes).policy == "pinned"
    assert place([POLLING, *ends], FOUR, "auto", may_share=True, nodes=nodes).policy == "pinned"
