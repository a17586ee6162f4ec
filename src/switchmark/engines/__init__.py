"""This table lists the engines: to add one, add its file and one line here."""

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

__all__ = ["TABLE"]

TABLE: Table[Engine] = load_plugins(
    "switchmark.engines",
    Engine,
    (
        udp.ENGINE,
        udp_mmsg.ENGINE,
        raw.ENGINE,
        raw_mmsg.ENGINE,
        mmap.ENGINE,
        xdp.ENGINE,
        xdp_live.ENGINE,
        dpdk.ENGINE,
        netmap.ENGINE,
        null.ENGINE,
    ),
)
