"""The table of network functions: to add a function, add its file and one line here."""

from __future__ import annotations

from switchmark.functions import pcap_bridge, switch, traffic
from switchmark.functions.base import Function
from switchmark.plugins import Table, load_plugins

TABLE: Table[Function] = load_plugins(
    "switchmark.functions",
    Function,  # type: ignore[type-abstract]
    (*traffic.FUNCTIONS, *switch.FUNCTIONS, pcap_bridge.FUNCTION),
)
