"""These tests check that the worked example of CONTRIBUTING.md fits the contract as it is now."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from contributing import CONTRIBUTING, REPOSITORY, example, source_of_example
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
    wiring = Wiring("sm", "/run", HOST, t.ports, tuple(t.flows), PortKind.VETH, Semantics.PATCH)
    switch = example().SWITCH
    assert switch.accepts(wiring) is None
    queue, rule, queue_back, rule_back = (" ".join(step.argv) for step in switch.join(wiring))
    assert queue == "tc qdisc add dev sm-p0 clsact"
    assert queue_back == "tc qdisc add dev sm-p1 clsact"
    for near, far, command in (("sm-p0", "sm-p1", rule), ("sm-p1", "sm-p0", rule_back)):
        assert command.startswith(f"tc filter add dev {near} ingress ")
        assert command.endswith(f" action mirred egress redirect dev {far}")


def test_both_diffs_can_be_applied(tmp_path: Path) -> None:
    """This also works if a reader has added the example: its parts are removed first."""
    blocks = re.findall(r"```diff\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)
    assert len(blocks) == 2
    table = tmp_path / "src/switchmark/switches/__init__.py"
    table.parent.mkdir(parents=True)
    lines = (REPOSITORY / table.relative_to(tmp_path)).read_text().splitlines(keepends=True)
    table.write_text("".join(line for line in lines if "tc_mirred" not in line))
    for block in blocks:
        argv = ("git", "apply", "--verbose", "-")
        completed = subprocess.run(argv, input=block, cwd=tmp_path, capture_output=True, text=True)
        assert completed.returncode == 0, completed.stderr
    added = [line.strip() for line in table.read_text().splitlines() if "tc_mirred" in line]
    assert added == ["tc_mirred,", "tc_mirred.SWITCH,"]
    assert (table.parent / "tc_mirred.py").read_text() == source_of_example()


def test_a_switch_outside_of_the_repository_is_listed(tmp_path: Path) -> None:
    """Its pyproject.toml declares the entry points of an installed package."""
    block = re.search(r"```toml\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)
    assert block
    project = tomllib.loads(block[1])
    (module,) = project["tool"]["setuptools"]["py-modules"]
    source = source_of_example().replace('name = "tc-mirred"', 'name = "of-others"')
    (tmp_path / f"{module}.py").write_text(source)
    ((group, points),) = project["project"]["entry-points"].items()
    (target,) = points.values()
    installed = tmp_path / "others-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(f"[{group}]\nof-others = {target}\n")
    argv = (sys.executable, "-c", "from switchmark.switches import TABLE; print(*TABLE)")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    completed = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert "of-others" in completed.stdout.split()


def test_ping_is_among_the_packages() -> None:
    assert "iputils-ping" in (REPOSITORY / "tools/apt-packages.txt").read_text()
