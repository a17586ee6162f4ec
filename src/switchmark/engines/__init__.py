"""The table of engines: to add an engine, add its file and one line here.

`--engine auto` prefers engines in this order (`path.choosing`). Of engines for the same ports, the
engine with the higher rate on a bare cable comes first; `python -m bench order` checks the order on
a host. Engines that open interfaces indirectly, through the IP stack or DPDK drivers, come after
engines that open them directly.
"""

from __future__ import annotations

from switchmark.engines import (
    dpdk,
    memif,
    mmap,
    mmap_gso,
    netmap,
    null,
    raw,
    raw_gso,
    raw_mmsg,
    udp,
    udp_gso,
    udp_mmsg,
    xdp,
    xdp_live,
)
from switchmark.engines.base import Engine
from switchmark.plugins import Table, load_plugins

TABLE: Table[Engine] = load_plugins(
    "switchmark.engines",
    Engine,
    (
        xdp.ENGINE,
        mmap.ENGINE,
        raw_mmsg.ENGINE,
        raw.ENGINE,
        udp_mmsg.ENGINE,
        udp.ENGINE,
        memif.ENGINE,
        dpdk.ENGINE,
        netmap.ENGINE,
        null.ENGINE,
        xdp_live.ENGINE,
        raw_gso.ENGINE,
        udp_gso.ENGINE,
        mmap_gso.ENGINE,
    ),
)
