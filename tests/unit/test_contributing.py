"""The worked example of CONTRIBUTING.md fits the contract as it is now."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

from switchmark.model.plan import HOST
from switchmark.model.topology import PortKind, Semantics, Topology, Wiring
from switchmark.plugins import check_contract
from switchmark.switches.base import Switch

REPOSITORY = Path(__file__).parents[2]


def example() -> ModuleType:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    block = re.search(r"```diff\n--- /dev/null\n\+\+\+ [^\n]*\n@@[^\n]*\n(.*?)```", text, re.DOTALL)
    assert block
    module = ModuleType("example")
    source = "".join(line[1:] for line in block[1].splitlines(keepends=True))
    exec(compile(source, "CONTRIBUTING.md", "exec"), module.__dict__)
    return module


def test_the_example_is_a_switch() -> None:
    check_contract(example().SWITCH, Switch, "CONTRIBUTING.md")


def test_the_example_makes_the_plan_that_it_promises() -> None:
    t = Topology()
    (a,), (b,) = t.function("f0"), t.function("f1")
    t.flow(a, b)
    wiring = Wiring("sm", "/run", HOST, t.ports, tuple(t.flows), {}, PortKind.VETH, Semantics.PATCH)
    switch = example().SWITCH
    assert switch.accepts(wiring) is None
    queue, rule = (" ".join(step.argv) for step in switch.join(wiring))
    assert queue == "tc qdisc add dev sm-p0 clsact"
    assert rule.startswith("tc filter add dev sm-p0 ingress ")
    assert rule.endswith(" action mirred egress redirect dev sm-p1")
