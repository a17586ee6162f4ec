"""UDP sockets, with one system call per burst: the kernel writes the headers."""

from __future__ import annotations

from switchmark.engines.base import Engine

ENGINE = Engine(
    name="udp-mmsg",
    summary="UDP sockets, sendmmsg and recvmmsg",
    needs_ip=True,
    vlan=False,
    flows_by=frozenset({"port"}),
    flows_max=256,
    capabilities=frozenset(),
    resources=frozenset({"function_cores"}),
)
