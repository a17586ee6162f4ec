"""Each rule by which units are pinned, in a case that it decides: without the rule another CPU, or
another NUMA node, would be best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from switchmark.model.cpus import Cpu
from switchmark.path import pinning
from switchmark.path.placement import CpuUser, place

FUNCTION = CpuUser("f0", "function", polls=True, function=True)
ONE, OTHER = (CpuUser(f"f{index}", "forwarder", polls=True) for index in range(2))
SENDER = CpuUser("s0", "sender", polls=True, group=0)
RECEIVER = CpuUser("r0", "receiver", polls=True, group=0)
POLLING = CpuUser("switch", "switch", polls=True)
KERNEL = CpuUser("switch", "switch", polls=False)
NICS = {"eth0": 0, "eth1": 1, "eth2": 0}

TWO = [Cpu(0), Cpu(1)]
TWO_NODES = [Cpu(0), Cpu(1, node=1)]
TWO_NODES_OF_TWO = [Cpu(cpu, node=cpu // 2) for cpu in range(4)]
TWO_CORES_OF_TWO = [Cpu(cpu, siblings=((cpu + 2) % 4,)) for cpu in range(4)]


def nics(part: CpuUser, *names: str) -> CpuUser:
    return replace(part, nics=names)


CPU_RULES: dict[str, tuple[list[Cpu], list[CpuUser], dict[str, tuple[int, ...]]]] = {
    "has_a_polling_switch": (
        TWO,
        [POLLING, FUNCTION, SENDER],
        {"switch": (1,), "f0": (0,), "s0": (0,)},
    ),
    "has_a_unit_that_never_yields": (
        TWO,
        [FUNCTION, SENDER, RECEIVER],
        {"f0": (1,), "s0": (0,), "r0": (0,)},
    ),
    "is_crowded": (TWO, [ONE, OTHER], {"f0": (1,), "f1": (0,)}),
    "has_the_other_end": (
        TWO_NODES,
        [nics(ONE, "eth0"), nics(SENDER, "eth1"), nics(RECEIVER, "eth1")],
        {"f0": (0,), "s0": (1,), "r0": (0,)},
    ),
    "is_far_from_its_nics": (
        TWO_NODES_OF_TWO,
        [nics(ONE, "eth0", "eth2"), nics(OTHER, "eth1")],
        {"f0": (1,), "f1": (2,)},
    ),
    "is_off_the_home_node": (
        TWO_NODES_OF_TWO,
        [nics(KERNEL, "eth1"), ONE],
        {"switch": (), "f0": (2,)},
    ),
    "has_a_busy_sibling": (TWO_CORES_OF_TWO, [ONE, OTHER], {"f0": (1,), "f1": (0,)}),
    "is_not_isolated": ([*TWO, Cpu(2, isolated=True)], [ONE], {"f0": (2,)}),
    "is_of_core_0": (TWO, [ONE], {"f0": (1,)}),
    "has_a_sender": (
        TWO,
        [replace(KERNEL, spread=True), SENDER, RECEIVER],
        {"switch": (0,), "s0": (1,), "r0": (0,)},
    ),
}

NODE_RULES: dict[str, tuple[Sequence[Cpu], int, int]] = {
    "holds_all": (
        [*TWO_CORES_OF_TWO, *(Cpu(cpu, node=1, isolated=True) for cpu in (4, 5))],
        3,
        0,
    ),
    "holds_all_isolated": (
        [Cpu(1, 0, (2,), isolated=True), Cpu(2, 0, (1,), isolated=True), Cpu(3, 1), Cpu(4, 1)],
        2,
        0,
    ),
    "holds_all_on_physical_cores": (
        [Cpu(1, 0, (2,), isolated=True), Cpu(2, 0, (1,)), Cpu(3, 1), Cpu(4, 1)],
        2,
        1,
    ),
    "isolated": ([Cpu(0), Cpu(1, isolated=True), Cpu(2, 1), Cpu(3, 1)], 2, 0),
    "is_without_core_0": (TWO_NODES_OF_TWO, 2, 1),
}


def without(rules: Sequence[object], name: str) -> tuple[object, ...]:
    return tuple(rule for rule in rules if getattr(rule, "__name__", "") != name)


@pytest.mark.parametrize("rule", CPU_RULES)
def test_a_rule_decides_which_cpu_is_best(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cpus, parts, pins = CPU_RULES[rule]

    def pinned() -> dict[str, tuple[int, ...]]:
        return {part: pin.cpus for part, pin in place(parts, cpus, nodes=NICS).pins.items()}

    assert pinned() == pins
    for rules in ("RULES", "RULES_OF_THE_KERNEL"):
        monkeypatch.setattr(pinning, rules, without(getattr(pinning, rules), rule))
    assert pinned() != pins


@pytest.mark.parametrize("rule", NODE_RULES)
def test_a_rule_decides_which_node_is_home(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cpus, needed, home = NODE_RULES[rule]
    assert pinning.home_node(cpus, needed, []) == home
    monkeypatch.setattr(pinning, "NODE_RULES", without(pinning.NODE_RULES, rule))
    assert pinning.home_node(cpus, needed, []) != home


def test_the_node_of_most_nics_is_home_whatever_the_rules_say() -> None:
    assert pinning.home_node(TWO_NODES_OF_TWO, 2, [0, 0, 1]) == 0


def test_every_rule_has_a_case() -> None:
    assert [rule.__name__ for rule in pinning.RULES_OF_THE_KERNEL] == [
        "has_a_sender",
        *(name for name in CPU_RULES if name != "has_a_sender"),
    ]
    assert [rule.__name__ for rule in pinning.NODE_RULES] == list(NODE_RULES)
