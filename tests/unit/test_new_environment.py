"""These tests add a new environment, which is one file: every switch and function runs in it as
they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from switchmark.environments import TABLE, inside
from switchmark.environments.base import Attachment, Environment, Needs
from switchmark.hosts.base import Host
from switchmark.model.plan import Node, Plan, Run, Write
from switchmark.model.test import Test
from switchmark.model.topology import PortKind
from switchmark.model.version import Version
from switchmark.path.assembly import build
from switchmark.path.refusals import check
from switchmark.path.resolving import resolve
from switchmark.plugins import Table, check_contract
from switchmark.runs.script import describe
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Switch


class Cell(Environment):
    """This class is all that the driver of a new environment has to say: here a kind of
    container."""

    name = "cell"

    def probe(self, host: Host) -> Version:
        return Version("1")

    def create(self, node: Node, needs: Needs) -> Plan:
        return (Run("a cell", ("cell", "make", node.name), undo=("cell", "drop", node.name)),)

    def attach(self, node: Node, attachments: Sequence[Attachment]) -> Plan:
        moved = [a for a in attachments if a.endpoint.staged]
        return tuple(
            Run("into its cell", ("cell", "take", node.name, a.endpoint.staged)) for a in moved
        )

    def inside(self, node: Node, argv: tuple[str, ...]) -> tuple[str, ...]:
        return ("cell", "in", node.name, *argv)

    def netns(self, node: Node) -> str | None:
        return f"/run/cells/{node.name}"


class Closet(Cell):
    """The nodes of this environment have the host's network stack."""

    name = "closet"
    isolated = False


@pytest.fixture(autouse=True)
def added() -> Iterator[None]:
    """Put both environments into the table, as a line each there would."""
    drivers = {one.name: one for one in (Cell(), Closet())}
    with TABLE.replaced_by(Table({**TABLE, **drivers}, {})):
        yield


def kernels_switches() -> list[str]:
    """Return the switches whose ports are cables, except networks that exist already and those
    whose programs must enter network namespaces that they know."""
    return sorted(
        name
        for name, one in SWITCHES.items()
        if PortKind.VETH in one.port_kinds and type(one).asks is Switch.asks
    )


def engine_of(switch: str) -> str:
    """Return the first engine that a switch of the kernel can be measured with."""
    engines = ("raw-mmsg", "udp-mmsg")
    return next(engine for engine in engines if not check(Test(switch=switch, engine=engine)))


def test_it_fits_the_contract() -> None:
    check_contract(Cell(), Environment, "cell")


@pytest.mark.parametrize("switch", kernels_switches())
def test_every_switch_of_the_kernel_runs_in_a_new_environment(switch: str) -> None:
    engine = engine_of(switch)
    test = Test(switch=switch, environment="cell", switch_environment="cell", engine=engine)
    assert check(test) == []
    layout = resolve(test, prefix="sm0000", run_dir="/run/x")
    lines = list(describe(build(layout), inside))
    for node in ("sm0000-sw", "sm0000-f0", "sm0000-f1"):
        assert any(line.startswith(f"cell make {node}") for line in lines)
    cell_lines = [line for line in lines if line.startswith("cell in sm0000-sw ")]
    assert any(" ip link add " in line for line in cell_lines)
    assert not any("sysctl" in line and not line.startswith("cell in ") for line in lines)
    assert any(line.startswith("cell take sm0000-f0 sm0000-e0") for line in lines)


@pytest.mark.parametrize("switch", kernels_switches())
def test_only_a_switch_that_needs_a_stack_of_its_own_is_refused_one_without(switch: str) -> None:
    test = Test(switch=switch, switch_environment="closet", engine=engine_of(switch))
    refusals = check(test)
    expected = SWITCHES[switch].private_stack
    assert [r.why for r in refusals] == (
        [f"switch {switch} does not run in environment closet"] if expected else []
    )
    assert all("cell,docker" in (r.hint or "") for r in refusals)


def test_settings_of_a_stack_that_is_the_hosts_are_leased_for_the_machine() -> None:
    layout = resolve(Test(switch_environment="closet"), prefix="sm0000", run_dir="/run/x")
    leased = [step for step in build(layout) if isinstance(step, Write) and step.machine_wide]
    assert {step.path.rpartition("-")[2] for step in leased} == {
        *("iptables", "ip6tables", "arptables"),
    }
    path = resolve(Test(switch_environment="cell"), prefix="sm0000", run_dir="/run/x")
    assert not [step for step in build(path) if isinstance(step, Write)]


@pytest.mark.parametrize("function", ["linux-bridge", "pcap-bridge", "forwarder"])
def test_functions_run_in_a_new_environment(function: str) -> None:
    test = Test(switch="ovs", scenario="loopback", environment="cell", function=function)
    assert check(test) == []
    layout = resolve(test, prefix="sm0000", run_dir="/run/x")
    lines = list(describe(build(layout), inside))
    assert any(line.startswith("cell in sm0000-f1 ") for line in lines)
