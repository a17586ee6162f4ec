"""These tests check that the worked example of CONTRIBUTING.md fits the contract as it is now."""

from __future__ import annotations

import re

from contributing import CONTRIBUTING, REPOSITORY, example
from switchmark.model.plan import HOST
from switchmark.model.topology import PortKind, Semantics, Topology, Wiring
from switchmark.plugins import check_contract
from switchmark.switches.base import Switch


def test_the_example_is_a_switch() -> None:
    check_contract(example().SWITCH, Switch, "CONTRIBUTING.md")


def test_the_example_makes_the_plan_that_it_promises() -> None:
    t = Topology()
    (a,), (b,) = t.function("f0"), t.function("f1")
    t.flow(a, b)
    wiring = Wiring("sm", "/run", HOST, t.ports, tuple(t.flows), {}, PortKind.VETH, Semantics.PATCH)
    switch = example().SWITCH
    assert switch.accepts(wiring) is None
    queue, rule, queue_back, rule_back = (" ".join(step.argv) for step in switch.join(wiring))
    assert queue == "tc qdisc add dev sm-p0 clsact"
    assert queue_back == "tc qdisc add dev sm-p1 clsact"
    for near, far, made in (("sm-p0", "sm-p1", rule), ("sm-p1", "sm-p0", rule_back)):
        assert made.startswith(f"tc filter add dev {near} ingress ")
        assert made.endswith(f" action mirred egress redirect dev {far}")


def test_the_line_for_the_table_stands_between_lines_that_are_there() -> None:
    text = CONTRIBUTING.read_text()
    block = re.search(r"\+\+\+ b/(\S+__init__\.py)\n(.*?)```", text, re.DOTALL)
    assert block
    table = (REPOSITORY / block[1]).read_text()
    hunks = [part.splitlines() for part in block[2].split("@@\n") if part.strip()]
    assert len(hunks) == 2
    for hunk in hunks:
        there = "".join(f"{line[1:]}\n" for line in hunk if line[0] in " -")
        assert there in table
        assert any(line.startswith("+") for line in hunk)


def test_ping_is_among_the_packages() -> None:
    assert "iputils-ping" in (REPOSITORY / "tools/apt-packages.txt").read_text()
