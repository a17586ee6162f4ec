"""This table lists the engines: to add one, add its file and one line here.

The order is that in which `--engine auto` prefers them (`path.choosing`): what sends and receives
most on a bare cable stands before what does less, of those that open the same ports. `python -m
bench order` says whether a host agrees. What opens interfaces by a detour, the IP stack or DPDK's
drivers for them, stands behind what opens them itself.
"""

from __future__ import annotations

from switchmark.engines import (
    dpdk,
    mmap,
    netmap,
    null,
    raw,
    raw_mmsg,
    udp,
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
        dpdk.ENGINE,
        netmap.ENGINE,
        null.ENGINE,
        xdp_live.ENGINE,
    ),
)
