"""The table of scenarios: to add a scenario, add its file and one line here."""

from __future__ import annotations

from switchmark.plugins import Table, load_plugins
from switchmark.scenarios import loopback, p2p, p2v, v2p, v2v
from switchmark.scenarios.base import Scenario

TABLE: Table[Scenario] = load_plugins(
    "switchmark.scenarios",
    Scenario,  # type: ignore[type-abstract]
    (p2p.SCENARIO, p2v.SCENARIO, v2p.SCENARIO, v2v.SCENARIO, loopback.SCENARIO),
)
