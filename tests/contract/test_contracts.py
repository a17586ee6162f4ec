"""These tests check that every registered implementation keeps its contract, `null` too; and that
what does not is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import Engine
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments import inside
from switchmark.environments.base import Attachment, Environment, Needs
from switchmark.environments.containers import mounts
from switchmark.errors import Unavailable, UsageError
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.functions.base import Function
from switchmark.hosts.base import Completed
from switchmark.hosts.local import LocalHost
from switchmark.model.cpus import Pin
from switchmark.model.plan import Node, Run, Spawn, Wait, Write
from switchmark.model.test import Test
from switchmark.model.topology import Endpoint, PortKind, Semantics, Wiring
from switchmark.model.version import Version
from switchmark.noises import TABLE as NOISES
from switchmark.noises.base import Noise
from switchmark.path.assembly import build, needs_of, switch_needs
from switchmark.path.path import Path
from switchmark.path.placement import Placement
from switchmark.path.refusals import check
from switchmark.path.resolving import resolve
from switchmark.plugins import check_contract
from switchmark.runs.script import describe
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.scenarios.base import Scenario
from switchmark.searches import TABLE as SEARCHES
from switchmark.searches.base import Search
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import NO_COUNTERS, Switch

TABLES: list[tuple[Any, Any]] = [
    (SWITCHES, Switch),
    (ENGINES, Engine),
    (ENVIRONMENTS, Environment),
    (FUNCTIONS, Function),
    (SCENARIOS, Scenario),
    (SEARCHES, Search),
    (NOISES, Noise),
]


@pytest.mark.parametrize(
    ("name", "found", "contract"),
    [(name, found, contract) for table, contract in TABLES for name, found in table.items()],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_is_what_its_table_says(name: str, found: Any, contract: Any) -> None:
    assert found.name == name
    assert isinstance(found, contract)
    check_contract(found, contract, name)


@pytest.fixture(params=sorted(SWITCHES))
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", "switchmark-traffic")
    engine = "null" if request.param == "null" else "udp"
    return resolve(
        Test(switch=request.param, engine=engine, pairs=2, direction="bi"),
        prefix="sm0000",
        run_dir="/run/x",
    )


def test_a_switch_gives_every_port_an_end_and_every_flow_addresses(layout: Path) -> None:
    w = layout.wiring
    assert set(layout.endpoints) == {port.id for port in w.ports}
    assert {flow.id for flow in layout.flows} == {flow.id for flow in w.flows}
    addresses = {
        end: ip
        for flow in layout.flows
        for a in (flow.addressing,)
        for end, ip in ((flow.source, a.source_ip), (flow.sink, a.sink_ip))
    }
    # An interface that shares its MAC has a separate IP address.
    ends = [(endpoint.mac, addresses.get(port)) for port, endpoint in layout.endpoints.items()]
    assert len(set(ends)) == len(ends)
    for endpoint in layout.endpoints.values():
        assert endpoint.kind in layout.switch.port_kinds
    for flow in layout.flows:
        a = flow.addressing
        assert a.seen_dst_mac == layout.endpoints[flow.sink].mac
        assert a.sent_src_mac == layout.endpoints[flow.source].mac


def test_what_a_switch_makes_carries_the_prefix(layout: Path) -> None:
    for step in build(layout):
        if isinstance(step, Run) and step.argv[:3] == ("ip", "link", "add"):
            assert step.argv[3].startswith("sm0000-")
        if isinstance(step, Run) and step.argv[:3] == ("ip", "netns", "add"):
            assert step.argv[3].startswith("sm0000-")
        if isinstance(step, Spawn):
            assert "sm0000-" in step.name


def test_every_step_says_why_and_every_argv_is_made_of_words(layout: Path) -> None:
    for step in build(layout):
        assert step.why
        if isinstance(step, Run | Spawn):
            assert all(word for word in step.argv)
            assert step.argv[0] not in ("sh", "bash")
        if isinstance(step, Wait):
            assert 0 < step.timeout_s <= 60
        if isinstance(step, Write):
            assert step.path.startswith("/")


def test_settled_only_waits(layout: Path) -> None:
    assert all(isinstance(step, Wait) for step in layout.switches[0].settled)


def test_plans_are_pure(layout: Path) -> None:
    assert build(layout) == build(layout)


def test_a_switch_names_its_semantics(layout: Path) -> None:
    assert set(layout.switch.semantics) <= set(Semantics)
    assert layout.switch.semantics


def test_counters_that_are_garbled_are_a_value_error(layout: Path) -> None:
    commands = layout.switch.counters.commands(layout.wiring)
    if commands:
        with pytest.raises(ValueError):
            layout.switch.counters.parse(layout.wiring, (b"}{",) * len(commands))


# --- environments ----------------------------------------------------------------------------

HERE = Node("sm0000-f0", "netns", run_dir="/run/x y/sm0000")
END = Endpoint(PortKind.VETH, "02:00:00:00:00:01", ifname="sm0000-e0", staged="sm0000-e0")
ATTACHMENTS = (Attachment(END, replace(HERE, name="sm0000-sw"), address="198.18.0.1/24"),)
NEEDS = Needs(
    folders=("/run/x y/sm0000/ports",),
    attachments=ATTACHMENTS,
    programs=("/opt/a b", "/opt/a b", "/usr/bin", "relative"),
    capabilities=frozenset({"NET_RAW"}),
    cpu_limit=25,
)
ROOTED = [name for name, environment in ENVIRONMENTS.items() if environment.isolated]


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_an_environment_makes_a_node_by_a_plan(name: str) -> None:
    environment, node = ENVIRONMENTS[name], replace(HERE, environment=name)
    plan = environment.create(node, NEEDS) + environment.attach(node, ATTACHMENTS)
    assert plan == environment.create(node, NEEDS) + environment.attach(node, ATTACHMENTS)
    undone = []
    for step in plan:
        assert step.why
        if isinstance(step, Run | Spawn):
            assert all(step.argv)
            assert step.argv[0] not in ("sh", "bash")
        if isinstance(step, Spawn):
            assert "sm0000-" in step.name
        if isinstance(step, Wait):
            assert 0 < step.timeout_s <= 60
        if isinstance(step, Run) and step.undo:
            undone.append(step.undo)
    # Undos name objects of the run, so they cannot touch objects of the user.
    assert all("sm0000" in " ".join(undo) for undo in undone)
    spawned = any(isinstance(step, Spawn) for step in plan)  # undone by being ended
    assert undone or spawned or not environment.isolated


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_the_way_into_a_node_ends_with_the_command(name: str) -> None:
    argv = ("cat", "a b", "$x")
    found = ENVIRONMENTS[name].inside(replace(HERE, environment=name), argv)
    assert found[-len(argv) :] == argv
    assert found == argv or "sm0000-f0" in " ".join(found)


@pytest.mark.parametrize("switch", ["linux-bridge", "ovs-dpdk"])
@pytest.mark.parametrize("name", ["docker", "lxc", "podman"])
def test_a_function_sees_neither_the_runs_folder_nor_the_switchs(name: str, switch: str) -> None:
    engine = "dpdk" if switch == "ovs-dpdk" else "raw"
    test = Test(environment=name, switch_environment=name, switch=switch, engine=engine)
    layout = resolve(test, prefix="sm0000", run_dir="/run/x")
    for part in layout.parts:
        assert needs_of(layout, part).folders == ("/run/x/ports",)
        writable = {mount.path for mount in mounts(needs_of(layout, part)) if mount.writable}
        assert writable == {"/run/x/ports"}
    assert switch_needs(layout, layout.switches[0]).folders == ("/run/x/ports", "/run/x/switch")


@pytest.mark.parametrize("name", sorted(ROOTED))
def test_two_nodes_are_two(name: str) -> None:
    environment = ENVIRONMENTS[name]
    a, b = (Node(f"sm0000-f{n}", name, run_dir=HERE.run_dir) for n in range(2))
    assert environment.inside(a, ("true",)) != environment.inside(b, ("true",))
    assert environment.separate_kernel or environment.netns(a) != environment.netns(b)


class Nowhere(LocalHost):
    """This host has no program but its shell, which looks for programs (`require_programs`)."""

    def run(self, argv: tuple[str, ...], **options: Any) -> Completed:
        if argv[:2] == ("sh", "-c"):
            return Completed(0, " ".join(argv[4:]).encode(), b"")
        raise Unavailable(f"the program '{argv[0]}' is not installed", hint="switchmark doctor")


@pytest.mark.parametrize("name", sorted(set(ROOTED) - {"netns"}))
def test_an_environment_that_is_missing_says_what_to_install(name: str) -> None:
    with pytest.raises(Unavailable) as refused:
        ENVIRONMENTS[name].probe(Nowhere())
    assert (refused.value.hint or "").startswith(("apt-get install ", "make setup"))


@pytest.mark.parametrize("name", ["docker", "lxc", "podman"])
def test_a_container_may_do_what_it_needs_and_no_more(name: str) -> None:
    environment, node = ENVIRONMENTS[name], replace(HERE, environment=name)
    for needs in (NEEDS, replace(NEEDS, capabilities=frozenset(), cpu_limit=None)):
        text = "\n".join(describe(environment.create(node, needs), inside))
        # LXC's own profile is not loaded on every host that has AppArmor; none starts without it.
        text = text.replace("lxc.apparmor.profile = unconfined\n", "")
        for word in ("privileged", "unconfined", "unmask"):
            assert word not in text
        assert ("NET_RAW" in text.upper()) == bool(needs.capabilities)
        assert "keep = none" in text or "cap-drop ALL" in text or needs.capabilities
        assert ("25000" in text) == (needs.cpu_limit is not None)
        assert text.count("/opt/a") == (1 if name == "lxc" else 2)  # mounted once


def test_a_container_has_both_generations_of_control_groups() -> None:
    text = "\n".join(describe(ENVIRONMENTS["lxc"].create(HERE, NEEDS), inside))
    assert "lxc.cgroup.cpu.cfs_quota_us = 25000\n" in text
    assert "lxc.cgroup2.cpu.max = 25000 100000\n" in text
    assert r"lxc.mount.entry = /opt/a\040b opt/a\040b none bind,ro,create=dir 0 0" in text


# --- plug-ins --------------------------------------------------------------------------------


def test_a_plugin_without_a_member_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="the plug-in x is no Scenario: it has no 'draw'"):
        check_contract(SimpleNamespace(name="x", summary=""), Scenario, "the plug-in x")


def test_a_plugin_with_another_signature_is_refused_with_both() -> None:
    plugin = SimpleNamespace(name="x", summary="", draw=lambda t: None)
    with pytest.raises(UsageError, match=r"draw\(t\) should be draw\(topology, test\)"):
        check_contract(plugin, Scenario, "the plug-in x")


@dataclass
class Drawing:
    """This scenario of somebody else's draws by whatever `draw` is."""

    draw: Callable[..., None]
    name: str = "x"
    summary: str = ""


@pytest.mark.parametrize(
    "draw",
    [
        lambda sheet, axes: None,
        lambda t, test, since_then=None: None,
        lambda *all_of_them: None,
    ],
)
def test_a_plugin_may_name_its_arguments_and_have_optional_ones(draw: Callable[..., None]) -> None:
    check_contract(Drawing(draw), Scenario, "the plug-in x")


def test_a_plugin_that_needs_an_argument_that_nobody_gives_is_refused() -> None:
    misfit = r"draw\(t, test, extra\) should be draw\(topology, test\)"
    with pytest.raises(UsageError, match=misfit):
        check_contract(Drawing(lambda t, test, extra: None), Scenario, "the plug-in x")


def test_a_contract_may_gain_an_optional_argument() -> None:
    class Grown(Protocol):
        name: str
        summary: str

        def draw(self, t: object, test: object, since_then: bool = False) -> None: ...

    check_contract(SCENARIOS["v2v"], Grown, "the plug-in x")


class Mine(Switch):
    """A switch of another author that defines the required members."""

    name = "mine"
    semantics = (Semantics.PATCH,)
    port_kinds = (PortKind.VETH,)
    counters = NO_COUNTERS

    def probe(self, host: object) -> Version:
        return Version("1")

    def start(self, w: Wiring) -> tuple[()]:
        return ()


def test_a_switch_that_says_six_things_has_all_else_by_default() -> None:
    check_contract(Mine(), Switch, "the plug-in mine")
    assert not Mine().dedicated_core(None)
    assert not Mine().private_stack


def test_a_switch_that_derives_from_nothing_is_told_where_defaults_are() -> None:
    bare = SimpleNamespace(**{name: getattr(Mine(), name) for name in ("name", "probe", "start")})
    with pytest.raises(UsageError) as refused:
        check_contract(bare, Switch, "the plug-in x")
    message = "it has no 'accepts', 'addressing', 'also_called', 'asks', 'bound_to',"
    assert message in refused.value.message
    assert "derives from switchmark.switches.base.Switch has defaults" in refused.value.message


def test_a_switch_that_does_not_say_whether_it_counts_is_refused() -> None:
    silent = type("Silent", (Switch,), {k: v for k, v in vars(Mine).items() if k != "counters"})
    with pytest.raises(UsageError, match="mine is no Switch: it has no 'counters'$"):
        check_contract(silent(), Switch, "mine")


def test_a_switch_whose_counters_are_something_else_is_refused() -> None:
    other = type("Other", (Mine,), {"counters": lambda self, w: ()})
    with pytest.raises(UsageError, match="'counters' is a method, not a Counting"):
        check_contract(other(), Switch, "mine")


def test_a_switch_with_a_misspelt_member_is_refused_with_what_it_means() -> None:
    misspelt = type("Misspelt", (Mine,), {"setled": lambda self, w: ()})
    with pytest.raises(UsageError, match="it has 'setled', .*: 'settled'?"):
        check_contract(misspelt(), Switch, "mine")


@pytest.mark.parametrize("scenario", sorted(set(SCENARIOS) - {"loopback"}))
@pytest.mark.parametrize("direction", ["uni", "bi"])
def test_a_scenario_draws_its_pairs(scenario: str, direction: str) -> None:
    test = Test(scenario=scenario, pairs=3, direction=direction)
    assert check(test) == []
    layout = resolve(test, prefix="sm0000", run_dir="/run/x")
    assert len(layout.parts) == 6
    assert len(layout.wiring.flows) == (3 if direction == "uni" else 6)
    assert [port.index for port in layout.wiring.ports] == list(range(6))


# --- functions -------------------------------------------------------------------------------

FORWARDING = sorted(name for name, function in FUNCTIONS.items() if function.forwards)


@pytest.fixture(params=FORWARDING)
def chained(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", "switchmark-traffic")
    kernel = PortKind.VETH in FUNCTIONS[request.param].port_kinds
    test = Test(
        scenario="loopback",
        chain=2,
        direction="bi",
        function=request.param,
        switch="ovs" if kernel else "ovs-dpdk",
        engine="raw-mmsg" if kernel else "dpdk",
    )
    assert check(test) == []
    return resolve(
        test,
        prefix="sm0000",
        run_dir="/run/x",
        placement=Placement("pinned", {"f1": Pin((2,))}, None, ()),
    )


def test_a_function_starts_in_its_node_and_settled_only_waits(chained: Path) -> None:
    for part in chained.hosted:
        assert [end.kind for end in part.endpoints] == [chained.wiring.kind] * 2
        steps = part.function.start(part.hosted)
        assert any(step.at == part.node for step in steps if hasattr(step, "at"))
        assert all(isinstance(step, Wait) for step in part.function.settled(part.hosted))
    assert len(chained.hosted) + len(chained.played) == 4


def test_what_a_function_makes_is_its_own(chained: Path) -> None:
    steps = [
        step.name if isinstance(step, Spawn) else step.argv[3]
        for step in build(chained)
        if isinstance(step, Spawn) or (isinstance(step, Run) and step.argv[1:3] == ("link", "add"))
    ]
    assert len(set(steps)) == len(steps)
    assert all("sm0000-" in name for name in steps)


def test_a_function_that_polls_has_the_cpus_that_it_is_given(chained: Path) -> None:
    for part in chained.hosted:
        text = ""
        for step in part.function.start(part.hosted):
            if isinstance(step, Spawn):
                text += " ".join((*step.argv, ""))
            elif isinstance(step, Write):
                text += step.content.decode()
        pinned = re.search(r"@2\b|workers 2\b", text) is not None
        assert pinned == (part.function.polls and part.id == "f1")


def test_counters_of_a_function_that_are_garbled_are_a_value_error(chained: Path) -> None:
    for part in chained.hosted:
        counters = part.function.counters
        commands = counters.commands(part.hosted)
        if commands:
            with pytest.raises(ValueError):
                counters.parse(part.hosted, (b"}{",) * len(commands))


def test_steps_with_a_function_say_why(chained: Path) -> None:
    test_every_step_says_why_and_every_argv_is_made_of_words(chained)
    test_plans_are_pure(chained)


@pytest.mark.parametrize("direction", ["uni", "bi"])
@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("chain", [1, 8])
def test_a_chain_is_drawn_in_the_order_of_its_frames(
    chain: int, chains: int, direction: str
) -> None:
    test = Test(scenario="loopback", chain=chain, chains=chains, direction=direction)
    assert check(test) == []
    layout = resolve(test, prefix="sm0000", run_dir="/run/x")
    ways = 2 if direction == "bi" else 1
    assert len(layout.parts) == 2 + chain * chains
    assert len(layout.flows) == chains * ways
    assert len(layout.wiring.flows) == chains * (chain + 1) * ways
    assert [flow.index for flow in layout.flows] == list(range(len(layout.flows)))
    if chains == 1:
        w = layout.wiring
        for flow in w.flows:
            assert w.port(flow.source).index ^ 1 == w.port(flow.sink).index
