"""Every registered implementation keeps its contract, `null` too; and what does not is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.campaign.layout import Layout, lay_out
from switchmark.campaign.resolve import check
from switchmark.engines import TABLE as ENGINES
from switchmark.engines.base import Engine
from switchmark.environments import TABLE as ENVIRONMENTS
from switchmark.environments.base import Environment
from switchmark.errors import UsageError
from switchmark.functions import TABLE as FUNCTIONS
from switchmark.functions import traffic
from switchmark.functions.base import Function
from switchmark.model.plan import Run, Spawn, Wait, Write
from switchmark.model.spec import Test
from switchmark.model.topology import PortKind, Semantics
from switchmark.plugins import check_contract, load_plugins
from switchmark.scenarios import TABLE as SCENARIOS
from switchmark.scenarios.base import Scenario
from switchmark.searches import TABLE as SEARCHES
from switchmark.searches.base import Search
from switchmark.switches import TABLE as SWITCHES
from switchmark.switches.base import Switch

TABLES: list[tuple[Any, Any]] = [
    (SWITCHES, Switch),
    (ENGINES, Engine),
    (ENVIRONMENTS, Environment),
    (FUNCTIONS, Function),
    (SCENARIOS, Scenario),
    (SEARCHES, Search),
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
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr(traffic, "traffic_program", lambda: "switchmark-traffic")
    engine = "null" if request.param == "null" else "udp"
    return lay_out(
        Test(switch=request.param, engine=engine, pairs=2, direction="bi"),
        prefix="sm0000",
        run_dir="/run/x",
    )


def test_a_switch_gives_every_port_an_end_and_every_flow_addresses(layout: Layout) -> None:
    w = layout.wiring
    assert set(layout.endpoints) == {port.id for port in w.ports}
    assert set(layout.addressing) == {flow.id for flow in w.flows}
    macs = [endpoint.mac for endpoint in layout.endpoints.values()]
    assert len(set(macs)) == len(macs)
    for endpoint in layout.endpoints.values():
        assert endpoint.kind in layout.switch.port_kinds
    for flow in w.flows:
        a = layout.addressing[flow.id]
        assert a.seen_dst_mac == layout.endpoints[flow.sink].mac
        assert a.sent_src_mac == layout.endpoints[flow.source].mac


def test_what_a_switch_makes_carries_the_prefix(layout: Layout) -> None:
    for step in layout.build():
        if isinstance(step, Run) and step.argv[:3] == ("ip", "link", "add"):
            assert step.argv[3].startswith("sm0000-")
        if isinstance(step, Run) and step.argv[:3] == ("ip", "netns", "add"):
            assert step.argv[3].startswith("sm0000-")
        if isinstance(step, Spawn):
            assert "sm0000-" in step.name


def test_every_step_says_why_and_every_argv_is_made_of_words(layout: Layout) -> None:
    for step in layout.build():
        assert step.why
        if isinstance(step, Run | Spawn):
            assert all(word for word in step.argv)
            assert step.argv[0] not in ("sh", "bash")
        if isinstance(step, Wait):
            assert 0 < step.timeout_s <= 60
        if isinstance(step, Write):
            assert step.path.startswith("/")


def test_settled_only_waits(layout: Layout) -> None:
    assert all(isinstance(step, Wait) for step in layout.switch.settled(layout.wiring))


def test_plans_are_pure(layout: Layout) -> None:
    assert layout.build() == layout.build()


def test_a_switch_names_its_semantics(layout: Layout) -> None:
    assert set(layout.switch.semantics) <= set(Semantics)
    assert layout.switch.semantics


def test_counters_that_are_garbled_are_a_value_error(layout: Layout) -> None:
    commands = layout.switch.counters(layout.wiring)
    if commands:
        with pytest.raises(ValueError):
            layout.switch.parse_counters(layout.wiring, (b"}{",) * len(commands))


def test_a_plugin_without_a_member_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="the plug-in x is no Scenario: it has no 'draw'"):
        check_contract(SimpleNamespace(name="x", summary=""), Scenario, "the plug-in x")


def test_a_plugin_with_another_signature_is_refused_with_both() -> None:
    plugin = SimpleNamespace(name="x", summary="", draw=lambda t: None)
    with pytest.raises(UsageError, match=r"draw\(t\) should be draw\(t, test\)"):
        check_contract(plugin, Scenario, "the plug-in x")


def test_a_plugin_cannot_take_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    point = SimpleNamespace(value="other:SWITCH", load=lambda: SWITCHES["null"])
    monkeypatch.setattr("switchmark.plugins.entry_points", lambda group: [point])
    with pytest.raises(UsageError, match="takes the name 'null', which is taken"):
        load_plugins("switchmark.switches", Switch, (SWITCHES["null"],))  # type: ignore[type-abstract]


@pytest.mark.parametrize("scenario", sorted(set(SCENARIOS) - {"loopback"}))
@pytest.mark.parametrize("direction", ["uni", "bi"])
def test_a_scenario_draws_its_pairs(scenario: str, direction: str) -> None:
    test = Test(scenario=scenario, pairs=3, direction=direction)
    assert check(test) == []
    layout = lay_out(test, prefix="sm0000", run_dir="/run/x")
    assert len(layout.parts) == 6
    assert len(layout.wiring.flows) == (3 if direction == "uni" else 6)
    assert [port.index for port in layout.wiring.ports] == list(range(6))


# --- functions -------------------------------------------------------------------------------

FORWARDING = sorted(name for name, function in FUNCTIONS.items() if function.forwards)


@pytest.fixture(params=FORWARDING)
def chained(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr(traffic, "traffic_program", lambda: "switchmark-traffic")
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
    return lay_out(test, prefix="sm0000", run_dir="/run/x", function_cores={"f1": (2,)})


def test_a_function_starts_in_its_node_and_settled_only_waits(chained: Layout) -> None:
    for part, function, hosted in chained.hosted:
        assert [end.kind for end in hosted.ends] == [chained.wiring.kind] * 2
        steps = function.start(hosted)
        assert any(step.at == chained.nodes[part.id] for step in steps if hasattr(step, "at"))
        assert all(isinstance(step, Wait) for step in function.settled(hosted))
    assert len(chained.hosted) + len(chained.played) == 4


def test_what_a_function_makes_is_its_own(chained: Layout) -> None:
    made = [
        step.name if isinstance(step, Spawn) else step.argv[3]
        for step in chained.build()
        if isinstance(step, Spawn) or (isinstance(step, Run) and step.argv[1:3] == ("link", "add"))
    ]
    assert len(set(made)) == len(made)
    assert all("sm0000-" in name for name in made)


def test_a_function_that_polls_has_the_cpus_that_it_is_given(chained: Layout) -> None:
    for part, function, hosted in chained.hosted:
        words = " ".join(
            word for step in function.start(hosted) if isinstance(step, Spawn) for word in step.argv
        )
        assert ("@2" in words) == (function.polls and part.id == "f1")


def test_counters_of_a_function_that_are_garbled_are_a_value_error(chained: Layout) -> None:
    for _, function, hosted in chained.hosted:
        commands = function.counters(hosted)
        if commands:
            with pytest.raises(ValueError):
                function.parse_counters(hosted, (b"}{",) * len(commands))


def test_steps_with_a_function_say_why(chained: Layout) -> None:
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
    layout = lay_out(test, prefix="sm0000", run_dir="/run/x")
    ways = 2 if direction == "bi" else 1
    assert len(layout.parts) == 2 + chain * chains
    assert len(layout.flows) == chains * ways
    assert len(layout.wiring.flows) == chains * (chain + 1) * ways
    assert [flow.index for flow in layout.flows] == list(range(len(layout.flows)))
    if chains == 1:
        w = layout.wiring
        for flow in w.flows:
            assert w.port(flow.source).index ^ 1 == w.port(flow.sink).index
